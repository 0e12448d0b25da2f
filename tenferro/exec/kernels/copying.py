"""Copies of arrays to a different memory order.

Compiled code transposes if it can write whole cache lines. Otherwise NumPy copies in the memory order of the result.
"""

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
"""Minimum size in bytes of a result for which compiled copies bypass the caches and use several threads.

Copying a smaller result takes less time than waking a thread.
"""
MIN_TILED_BYTES = costs.CACHE // 4
"""Minimum size in bytes of a result for which a copy is compiled.

Compilation takes as long as about fifty copies by NumPy.
"""
MAX_ITEM_BYTES = 64
"""Maximum size in bytes of a run that is contiguous in both arrays and copied as one element."""
Order: TypeAlias = Literal["C", "F"]
MAX_PLANS = 8
"""Maximum number of copies that a `Dense` caches; the results of a program have few layouts."""


class Dense:
    """Function that copies arrays to "C" or "F" order in new memory.

    For large arrays, the copy is planned once for each layout.
    """

    def __init__(self, order: Order, resources: Resources = SERIAL_RESOURCES) -> None:
        self.order: Order = order
        self.resources = resources
        self._copies: BoundedCache[Copy] = BoundedCache(MAX_PLANS)

    def __call__(self, x: Any) -> Any:
        """Return a copy of an array in the memory order `self.order`."""
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
    """Function that copies an array to another, for arrays of certain shapes, strides and dtypes."""

    def __init__(self, out: Any, x: Any) -> None:
        """Plan the copy for arrays with the strides of `out` and x."""
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
        """Copy x to `out`."""
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
        """Return a view of an array whose axes are in the memory order of the result, slowest axis first.

        Axes are merged if both arrays allow it. A short run of elements that is contiguous in both arrays is viewed as
        one element.
        """
        x = x.transpose(self.perm).reshape(self.shape, copy=False)
        return x.view(f"V{self.run}")[..., 0] if self.run else x


def fastest_axis(x: Any) -> int:
    """Return the axis with the smallest stride; if several axes have it, as in arrays of windows, the longest."""
    return min(
        range(x.ndim), key=lambda axis: (abs(x.strides[axis]) or inf, -x.shape[axis]), default=0
    )


def _merge_axes(x: Any, out: Any) -> tuple[list[int], list[int]]:
    """Merge axes that are contiguous in both arrays.

    Return the order of the axes, the slowest axis of `out` first, and the extents after axes have been merged.
    """
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
