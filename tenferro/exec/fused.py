"""Fused groups as functions of arrays: intermediate values stay in cache, tile by tile, and are never whole arrays.

Threads run different tiles; a ufunc releases Python's lock. A row's value depends neither on tiles nor on threads. A
reduction over rows combines those of the tiles, in order; the shapes alone decide the tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

import numpy as np

from tenferro.exec.kernels.copying import Dense
from tenferro.exec.layout import arranged, empty, row_major
from tenferro.exec.planned import Fused
from tenferro.exec.runtime.numpy_state import BUFFER_ELEMENTS, buffer_size, numpy_state
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import SERIAL

__all__ = ["FusedFunction"]


class FusedFunction:
    """Fused group as a function of whole arrays, by NumPy's functions on each tile.

    Args:
        body: the function of one tile: the number of rows, scratch, operands, results and partial totals.
    """

    accepts_buffers = True
    remark = ""

    def __init__(self, op: Fused, body: Callable[..., Any], resources: Resources) -> None:
        self.op, self.body, self.resources = op, body, resources
        self.tiling = tiling = op.require_tiling()
        self._strides = [
            tuple([step * spec.dtype.itemsize for step in layout.strides])
            for layout, spec in zip(tiling.operands, op.operands, strict=True)
        ]
        self._rows = Dense("C", resources)
        self._scratch = [
            ((tiling.height, *tiling.view_shape(spec.shape)[1:]), spec.dtype.dtype)
            for spec in op.scratch
        ]
        self._row_elements = buffer_size(tiling.view_shape(op.shape)[-1])
        self.workers = resources.workers if tiling.is_parallel else SERIAL

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        """Return the results, then the totals.

        Args:
            into: for each result the destination bytes, the operand that it overwrites, or None for new memory.
        """
        return self.run(arrays, into or (None,) * len(self.op.results), None)

    def run(self, arrays: Sequence[Any], into: Sequence[Any], code: Any) -> Any:
        """Return the results, then the totals.

        Args:
            code: what `compute` and `empty_result` are given.
        """
        op, tiling = self.op, self.tiling
        operands = [
            x if x.strides == strides else self._arranged(x, number)
            for number, (x, strides) in enumerate(zip(arrays, self._strides, strict=True))
        ]
        results: list[Any] = []
        for number, target in enumerate(into):
            # A result in place of an operand that was copied is written over the copy.
            in_place = [y for x, y in zip(arrays, operands, strict=True) if x is target]
            results.append(in_place[0] if in_place else self.empty_result(number, target, code))
        count = -(-tiling.rows // tiling.height)
        totals = [np.empty((count, *spec.shape), spec.dtype.dtype) for spec in op.totals]
        self.compute([tiling.view(x) for x in (*operands, *results)], totals, code)
        combined = [fold(total) for fold, total in zip(op.folds, totals, strict=True)]
        outputs = [*results, *combined]
        return outputs[0] if len(outputs) == 1 else outputs

    def compute(self, views: Sequence[Any], totals: Sequence[Any], code: Any) -> None:
        """Write the results, and the partial totals of each tile.

        Args:
            views: operands and results, tiled along their first axis.
        """
        tiling, elements = self.tiling, self._row_elements

        def run(start: int, stop: int) -> None:
            # The caller has set NumPy's state on its own thread, except for buffers of this length.
            is_set = self.workers is SERIAL and elements == BUFFER_ELEMENTS
            with nullcontext() if is_set else numpy_state(elements):
                self._run_tiles(views, totals, start, stop)

        self.workers.parallel_for(run, tiling.rows, tiling.height)

    def _run_tiles(
        self, views: Sequence[Any], totals: Sequence[Any], start: int, stop: int
    ) -> None:
        height, order = self.tiling.height, self.tiling.order
        sizes = [prod(shape) * dtype.itemsize for shape, dtype in self._scratch]
        with self.resources.memory.scratch(sizes) if sizes else nullcontext([]) as pieces:
            tiles = [
                np.ndarray(shape, dtype, piece, order=order)
                for (shape, dtype), piece in zip(self._scratch, pieces, strict=True)
            ]
            for i in range(start, stop, height):
                j = min(i + height, stop)
                if j - i < height:
                    tiles = [tile[: j - i] for tile in tiles]
                partials = [total[i // height, ...] for total in totals]
                self.body([j - i, *tiles, *[x[i:j] for x in views], *partials])

    def _arranged(self, x: Any, number: int) -> Any:
        """Return an operand in the layout that the tiles are planned for."""
        layout = self.tiling.operands[number]
        if layout == row_major(layout.shape) and not x.flags.c_contiguous:
            return self._rows(x)
        return arranged(x, layout)

    def empty_result(self, number: int, memory: Any, code: Any) -> Any:
        """Return the destination array of a result, in these bytes or in new memory."""
        spec = self.op.results[number]
        return empty(spec.shape, self.tiling.axes(spec.rank), spec.dtype.dtype, memory)
