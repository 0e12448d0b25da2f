"""Copies of arrays to another memory order, by compiled code if it can write whole cache lines, else by NumPy."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any, Literal, TypeAlias

import numpy as np

from tenferro import costs
from tenferro.exec.kernels.transposition import LINE, transposition_of
from tenferro.exec.layout import by_stride, row_major
from tenferro.exec.runtime.resources import SERIAL_RESOURCES, Resources
from tenferro.exec.runtime.threads import SERIAL
from tenferro.program import BoundedCache

__all__ = ["Copy", "Dense", "fastest_axis", "is_transposing"]

MIN_STREAMED_BYTES = 4 * costs.CACHE
"""Minimum size in bytes of a result that a compiled copy writes past the caches and by several threads."""
MIN_TILED_BYTES = costs.CACHE // 4
"""Minimum size in bytes of a result for which a copy is compiled, which takes as long as about fifty copies."""
MAX_ITEM_BYTES = 64
"""Maximum size in bytes of a run that is contiguous in both arrays and copied as one element."""
Order: TypeAlias = Literal["C", "F"]
MAX_PLANS = 8
"""Maximum number of planned copies that a `Dense` caches."""


class Dense:
    """Function that copies arrays to "C" or "F" order in new memory; for large arrays, it caches planned copies."""

    def __init__(self, order: Order, resources: Resources = SERIAL_RESOURCES) -> None:
        self.order: Order = order
        self.resources = resources
        self._copies: BoundedCache[Copy] = BoundedCache(MAX_PLANS)

    def __call__(self, x: Any) -> Any:
        if x.nbytes < MIN_TILED_BYTES:
            return np.array(x, order=self.order, copy=True)
        memory = self.resources.memory.allocate(x.nbytes)
        out = np.ndarray(x.shape, x.dtype, memory, order=self.order)
        copy = self._copies.get((x.shape, x.strides, x.itemsize), lambda: Copy(out, x))
        copy(out, x, self.resources)
        return out


def is_transposing(x: Any) -> bool:
    """Return whether compiled code supports the row-major copy of an array with the strides of x."""
    return Copy(row_major(x.shape).outline(x.itemsize), x).transposition is not None


class Copy:
    """Function that copies an array to another, for arrays with the shapes, strides and dtypes of `out` and x."""

    def __init__(self, out: Any, x: Any) -> None:
        self.perm, self.shape = _merge_axes(x, out)
        self.run = 0
        source, target = self._views(x), self._views(out)
        run = self.shape[-1] * x.itemsize if len(self.shape) > 1 else MAX_ITEM_BYTES + 1
        if run <= MAX_ITEM_BYTES and source.strides[-1] == target.strides[-1] == x.itemsize:
            self.run = run
            source, target = self._views(x), self._views(out)
        streams = x.nbytes >= MIN_STREAMED_BYTES
        self.transposition = (
            transposition_of(target, source, streams) if x.nbytes >= MIN_TILED_BYTES else None
        )

    def __call__(self, out: Any, x: Any, resources: Resources = SERIAL_RESOURCES) -> None:
        target, source = self._views(out), self._views(x)
        transposer, is_aligned = resources.transposer, out.ctypes.data % LINE == 0
        compiled = None
        if transposer is not None and self.transposition is not None and is_aligned:
            compiled = transposer(self.transposition)
        if compiled:
            function, tasks = compiled
            pointers = source.ctypes.data, target.ctypes.data
            workers = resources.workers if x.nbytes >= MIN_STREAMED_BYTES else SERIAL
            workers.parallel_for(partial(function, *pointers), tasks)
        else:
            np.copyto(target, source)

    def _views(self, x: Any) -> Any:
        """Return a view with merged axes in the memory order of the result, slowest first.

        A short run of elements that is contiguous in both arrays is viewed as one element.
        """
        x = x.transpose(self.perm).reshape(self.shape, copy=False)
        return x.view(f"V{self.run}")[..., 0] if self.run else x


def fastest_axis(x: Any) -> int:
    """Return the axis with the smallest stride; in case of a tie, as in arrays of windows, the longest axis."""
    return min(
        range(x.ndim), key=lambda axis: (abs(x.strides[axis]) or inf, -x.shape[axis]), default=0
    )


def _merge_axes(x: Any, out: Any) -> tuple[list[int], list[int]]:
    """Return the order of the axes, slowest of `out` first, and the extents after merging axes in both arrays."""
    order = list(by_stride(out.strides))
    shape: list[int] = []
    last = (0, 0)
    for axis in order:
        n, step = x.shape[axis], (x.strides[axis], out.strides[axis])
        if n == 1:
            continue
        if shape and last == (step[0] * n, step[1] * n):
            shape[-1] *= n
        else:
            shape.append(n)
        last = step
    return order, shape
