"""Convolutions of channels-last images as compiled sums of products of arrays in place.

Only the padding of images is copied. One call computes many rows of a result, without the GIL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from tenferro.exec.kernels.kernel import Array
from tenferro.exec.kernels.matrix_product import scratch, workers_for
from tenferro.exec.kernels.windows import PaddedLayout, Window, window_view
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import Workers, even_ranges
from tenferro.types import DType

__all__ = ["IMAGE_ORDERS", "CompiledSum", "DirectSums", "SumCompiler", "SumOfProducts", "in_order"]

TASKS = 6
"""Number of calls per result."""
MAX_KERNEL_BYTES = 1 << 24
"""Maximum bytes of kernels, which are read again for every few rows."""
MIN_PRODUCT_WORK = 1 << 24
"""Minimum number of multiplications by 1x1 kernels worth compiling; BLAS needs no copies of their images."""
MAX_COTANGENT_BYTES = 1 << 22
"""Maximum bytes of cotangents, which are read again for every few elements of a kernel."""
OUTPUTS_LAST = 2, 3, 1, 0
"""Permutation of kernels [o, c, k..] that makes outputs contiguous for vectors."""
UNCOPIED = None, None
"""Orders of arrays that are read without a copy."""
IMAGE_ORDERS = (0, 2, 3, 1), None
"""Order of axes [n, c, s..] of images with contiguous channels; kernels are copied by the plan."""
GRADIENT_ORDERS = (1, 2, 3, 0), (1, 2, 3, 0)
"""Orders of axes where n and o are channels and c is the batch, as in gradients of kernels."""
ONE_IMAGE = 0, 0, 0
"""Rows and strides of images if there is one."""
MIN_PLACES = 128
"""Minimum number of windows for which copies of images and of kernels cost less than copies of windows."""
MAX_PLANS = 16
"""Maximum number of plans per convolution, one for each layout of a group or phase."""
CompiledSum: TypeAlias = tuple[Callable[..., Any], int]
"""Function of pointers to a, b and y and of a range of tasks, and the number of tasks per row."""


@dataclass(frozen=True)
class SumOfProducts:
    """y[r, m, o], the sum over terms of a[r, m, terms] b[terms, o], with strides in elements.

    Attributes:
        rows: the strides of r in a and in y.
        images: the number of rows of an image, and the strides between images in a and in y; 0 rows for one image.
        places: the extent of m, and its strides in a and in y.
        outputs: the extent of o, which is contiguous in b, and its stride in y.
        terms: the extent, and the strides in a and in b, of each summed axis, the slowest first.
    """

    dtype: DType
    rows: tuple[int, int]
    images: tuple[int, int, int]
    places: tuple[int, int, int]
    outputs: tuple[int, int]
    terms: tuple[tuple[int, int, int], ...]


class SumCompiler(Protocol):
    """Compiler of sums of products."""

    def function(self, sums: SumOfProducts, multiplications: int) -> CompiledSum | None:
        """Return the compiled function, or None."""
        ...


class DirectSums:
    """Convolutions by compiled code, planned per layout of arrays."""

    def __init__(self, resources: Resources, compiler: SumCompiler) -> None:
        self.resources, self.compiler = resources, compiler
        self._plans: dict[Any, _Direct | Literal[False] | None] = {}

    def write(self, window: Window, x: Array, w: Array, out: Array) -> bool:
        """Write out [n, o, p..] from x [n, c, s..] and kernels [o, c, k..]; return whether that was possible."""
        key = window, x.shape, x.strides, w.shape, w.strides, out.strides
        direct = self._plans.get(key, False)
        if direct is False:
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            direct = self._plans[key] = _direct(window, x, w, out)
        if not direct:
            return False
        plan, orders = direct
        compiled = self.compiler.function(plan.sums, plan.multiplications)
        if compiled is None:
            return False
        workers = workers_for(self.resources, plan.multiplications)
        if (
            orders == UNCOPIED
        ):  # without the memory of copies, because small convolutions take microseconds
            plan.run(compiled, self.resources, workers, x, w, out)
            return True
        sizes = [0 if order is None else a.nbytes for order, a in zip(orders, (x, w), strict=True)]
        with scratch(self.resources, sizes) as memory:
            x, w = map(in_order, (x, w), orders, memory)
            plan.run(compiled, self.resources, workers, x, w, out)
        return True


def in_order(x: Array, order: Sequence[int] | None, into: Any = None) -> Array:
    """Return a copy with the axes in this order in memory, the slowest first; x itself without an order.

    Args:
        into: bytes for the copy; None for new memory.
    """
    if order is None:
        return x
    copy = _empty_in_order(x, order, into)
    copy[...] = x
    return copy


def _empty_in_order(x: Array, order: Sequence[int], into: Any = None) -> Array:
    copy = np.ndarray([x.shape[axis] for axis in order], x.dtype, into)
    return copy.transpose(sorted(range(x.ndim), key=order.__getitem__))


def _direct(window: Window, x: Array, w: Array, out: Array) -> _Direct | None:
    """Return the plan for uncopied arrays, or else for copies with contiguous channels; None if there is none."""
    plan = _plan(window, x, w, out)
    if plan is not None:
        return plan, UNCOPIED
    if out.ndim != 4 or _is_product(w, out):
        return None
    is_gradient = _has_few_places(w, out)
    if not is_gradient and out.size < MIN_PLACES * len(w):
        return None
    orders = GRADIENT_ORDERS if is_gradient else IMAGE_ORDERS
    x, w = (
        a if order is None else _empty_in_order(a, order)
        for order, a in zip(orders, (x, w), strict=True)
    )
    plan = _plan(window, x, w, out)
    return None if plan is None else (plan, orders)


def _plan(window: Window, x: Array, w: Array, out: Array) -> _Plan | None:
    if x.dtype not in (np.float32, np.float64) or out.ndim != 4:
        return None
    if any([step % x.itemsize for step in (*x.strides, *w.strides, *out.strides)]):
        return None
    if _is_product(w, out) and out.size * w[0].size < MIN_PRODUCT_WORK:
        return None
    has_contiguous_channels = (
        x.strides[1] == x.itemsize if x.shape[1] > 1 else not _has_few_places(w, out)
    )
    if has_contiguous_channels and w.nbytes <= MAX_KERNEL_BYTES:
        return _ImagePlan.plan(window, x, w, out)
    if (
        (x.strides[0] == x.itemsize or len(x) == 1)
        and w.strides[0] == x.itemsize
        and w.nbytes <= MAX_COTANGENT_BYTES
    ):
        return _KernelGradientPlan.plan(window, x, w, out)
    return None


def _is_product(w: Array, out: Array) -> bool:
    """Return whether BLAS writes the result in place: a kernel of one element, and no phase of a larger result."""
    steps = sorted(range(out.ndim), key=lambda axis: -abs(out.strides[axis]))
    return prod(w.shape[2:]) == 1 and out.transpose(steps).flags.c_contiguous


def _has_few_places(w: Array, out: Array) -> bool:
    """Return whether more products are summed along space than there are sums, as in gradients of kernels."""
    return prod(out.shape[2:]) < prod(w.shape[2:])


class _ImagePlan:
    """Sum over channels and kernel elements; rows and places are those of the result, in its order."""

    @classmethod
    def plan(cls, window: Window, x: Array, w: Array, out: Array) -> _ImagePlan | None:
        """Return the plan; None if padded channels are not contiguous."""
        layout = PaddedLayout(window, x.shape, x.strides)
        windows = window_view(window, layout.pad(x), w.shape[2:])
        if windows.strides[1] != x.itemsize and x.shape[1] > 1:
            return None
        return cls(layout, _padded_bytes(window, x, w, out), windows, w, out)

    def __init__(
        self, layout: PaddedLayout, padded_bytes: int, windows: Array, w: Array, out: Array
    ) -> None:
        size, outputs, channels = w.itemsize, len(w), windows.shape[1]
        height, width = w.shape[2:]
        slow, fast = sorted((2, 3), key=lambda axis: -abs(out.strides[axis]))
        y_strides = [stride // size for stride in out.strides]
        self.is_direct = w.transpose(*OUTPUTS_LAST).flags.c_contiguous
        self.layout, self.scratch_sizes = layout, (padded_bytes, 0 if self.is_direct else w.nbytes)
        strides = [stride // size for stride in windows.strides]
        inner = ((width * channels, 1, outputs),)
        if strides[5] != channels:
            inner = ((width, strides[5], channels * outputs), (channels, 1, outputs))
        self.sums = SumOfProducts(
            DType.of(w.dtype),
            (strides[slow], y_strides[slow]),
            (out.shape[slow], strides[0], y_strides[0]) if len(out) > 1 else ONE_IMAGE,
            (out.shape[fast], strides[fast], y_strides[fast]),
            (outputs, y_strides[1]),
            ((height, strides[4], width * channels * outputs), *inner),
        )
        self.multiplications = out.size * w[0].size
        self.rows = len(out) * out.shape[slow]

    def run(self, compiled: CompiledSum, resources: Resources, workers: Workers, x: Array, w: Array, out: Array) -> None:  # fmt: skip
        """Write out by the function of `sums`."""
        function, tasks = compiled
        parts = _task_ranges(tasks * self.rows, workers)
        with scratch(resources, self.scratch_sizes) as memory:
            image = self.layout.pad(x, memory[0])
            kernels = w.transpose(*OUTPUTS_LAST)
            if not self.is_direct:
                copy = np.ndarray(kernels.shape, w.dtype, memory[1])
                copy[...] = kernels
                kernels = copy
            pointers = _address(image), _address(kernels), _address(out)
            workers.for_each(lambda number: function(*pointers, *parts[number]), len(parts))


def _address(x: Array) -> int:
    return x.__array_interface__["data"][0]


def _padded_bytes(window: Window, x: Array, w: Array, out: Array) -> int:
    """Return the bytes of the part of x that windows read, with its padding."""
    steps = zip(out.shape[2:], window.strides, w.shape[2:], window.rhs_dilation, strict=True)
    edges = [sum(pair) + n for n, pair in zip(x.shape[2:], window.padding, strict=True)]
    reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in steps]
    return x.shape[0] * x.shape[1] * prod(map(max, edges, reach)) * x.itemsize


def _task_ranges(tasks: int, workers: Workers) -> list[tuple[int, int]]:
    """Split tasks into few ranges, because threads wait for the GIL between them."""
    count = min(tasks, TASKS) if workers.count > 1 else 1
    return even_ranges(tasks, count)


class _KernelGradientPlan:
    """Sum over positions, as in gradients of kernels; rows and places are kernel elements and the result's n."""

    def __init__(
        self, layout: PaddedLayout, padded_bytes: int, sums: SumOfProducts, out: Array
    ) -> None:
        self.layout, self.sums = layout, sums
        self.multiplications = out.size * prod([count for count, _, _ in sums.terms])
        self.is_direct = out.transpose(2, 3, 0, 1).flags.c_contiguous
        self.scratch_sizes = padded_bytes, 0 if self.is_direct else out.nbytes

    @classmethod
    def plan(cls, window: Window, x: Array, w: Array, out: Array) -> _KernelGradientPlan | None:
        """Return the plan; None if windows are not contiguous."""
        size, outputs = x.itemsize, len(w)
        channels, width = len(x), out.shape[3]
        layout = PaddedLayout(window, x.shape, x.strides)
        windows = window_view(window, layout.pad(x), w.shape[2:])
        strides = [stride // size for stride in windows.strides]
        if (channels > 1 and strides[0] != 1) or (width > 1 and strides[3] != channels):
            return None
        terms = tuple([
            (n, a, stride // size)
            for n, a, stride in zip(w.shape[1:], (strides[1], *strides[4:]), w.strides[1:], strict=True)
        ])  # fmt: skip
        row = width * channels
        sums = SumOfProducts(DType.of(x.dtype), (strides[2], row * outputs), ONE_IMAGE, (row, 1, outputs), (outputs, 1), terms)  # fmt: skip
        return cls(layout, _padded_bytes(window, x, w, out), sums, out)

    def run(self, compiled: CompiledSum, resources: Resources, workers: Workers, x: Array, w: Array, out: Array) -> None:  # fmt: skip
        """Write out by the function of `sums`."""
        function, tasks = compiled
        target = out.transpose(2, 3, 0, 1)
        height, width = out.shape[2:]
        with scratch(resources, self.scratch_sizes) as memory:
            image = self.layout.pad(x, memory[0])
            y = target if self.is_direct else np.ndarray(target.shape, out.dtype, memory[1])
            pointers = _address(image), _address(w), _address(y)
            parts = _task_ranges(tasks * height, workers)
            workers.for_each(lambda number: function(*pointers, *parts[number]), len(parts))
            if not self.is_direct:
                elements = [*product(range(height), range(width))]

                def copy_back(number: int) -> None:
                    target[elements[number]] = y[elements[number]]

                workers.for_each(copy_back, len(elements))


_Plan: TypeAlias = _ImagePlan | _KernelGradientPlan
_Direct: TypeAlias = tuple[_Plan, tuple[Sequence[int] | None, Sequence[int] | None]]
"""Plan, and the orders of axes in memory, the slowest first, in which x and w are copied; None without a copy."""
