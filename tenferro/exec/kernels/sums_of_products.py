"""Convolutions of images with channels last as sums of products of arrays that stay where they lie, by machine code.

Nothing but the zeros around an image is copied. One call makes many rows of a result, without Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from tenferro.exec.kernels.kernel import Array
from tenferro.exec.kernels.matrix_product import scratch, workers_for
from tenferro.exec.kernels.windows import Edges, Window, windows_of
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import Workers
from tenferro.types import DType

__all__ = ["Compiled", "DirectSums", "Machine", "SumOfProducts"]

PARTS = 6
"""Calls, at least, that make a result."""
KERNELS_BYTES = 5 << 18
"""Of kernels that stay in cache while they are read for every few places; of larger ones those of fewer outputs."""
LARGEST_KERNELS = 1 << 24
"""Bytes of kernels that are read in parts."""
LARGE_PRODUCT = 1 << 24
"""Multiplications by kernels of one element, of whose images BLAS needs no copies, that are worth compiling."""
BLOCK, FEWEST_OUTPUTS = 64, 16
"""Outputs of a block of kernels, at most and at least; of kernels of one element there may be more."""
TERMS_BYTES = 1 << 22
"""The same of cotangents, which are read for every few elements of a kernel."""
OUTPUTS_LAST = 2, 3, 1, 0
"""Axes of kernels [o, c, k..], whose outputs are neighbours for vectors."""
PLANS = 16
"""Kept for one convolution, which has one for each group or phase of another layout."""
Compiled: TypeAlias = tuple[Callable[..., Any], int]
"""A function of pointers to a, b and y, and of tasks from where to where; the number of tasks of a row."""


@dataclass(frozen=True)
class SumOfProducts:
    """y[r, m, o], the sum over terms of a[r, m, terms] b[terms, o], with steps in elements.

    Attributes:
        rows: the steps of r in a and in y.
        places: how many m there are, and their steps in a and in y.
        outputs: how many o there are, which are neighbours in b, and their step in y.
        terms: for each axis that is summed, the slowest first, its extent and its steps in a and in b.
    """

    dtype: DType
    rows: tuple[int, int]
    places: tuple[int, int, int]
    outputs: tuple[int, int]
    terms: tuple[tuple[int, int, int], ...]


class Machine(Protocol):
    """Compiled code for sums of products."""

    def function(self, sums: SumOfProducts, multiplications: int) -> Compiled | None:
        """The function; None where there is none."""
        ...


class DirectSums:
    """Convolutions by machine code, planned for each layout of arrays that is seen."""

    def __init__(self, resources: Resources, machine: Machine) -> None:
        self.resources, self.machine = resources, machine
        self._plans: dict[Any, _Plan | Literal[False] | None] = {}

    def write(self, window: Window, x: Array, w: Array, out: Array) -> bool:
        """Write out [n, o, p..] of x [n, c, s..] and kernels [o, c, k..]; whether there was a way."""
        key = window, x.shape, x.strides, w.shape, w.strides, out.strides
        plan = self._plans.get(key, False)
        if plan is False:
            if len(self._plans) >= PLANS:
                self._plans.clear()
            plan = self._plans[key] = _plan(window, x, w, out)
        if not plan:
            return False
        compiled = self.machine.function(plan.sums, plan.multiplications)
        if compiled is None:
            return False
        workers = workers_for(self.resources, plan.multiplications)
        plan.run(compiled, self.resources, workers, x, w, out)
        return True


class _Plan(Protocol):
    """A way to write convolutions of arrays of one layout."""

    sums: SumOfProducts
    multiplications: int

    def run(self, compiled: Compiled, resources: Resources, workers: Workers, x: Array, w: Array, out: Array) -> None:  # fmt: skip
        """Write out by the function of `sums`."""
        ...


def _plan(window: Window, x: Array, w: Array, out: Array) -> _Plan | None:
    if x.dtype not in (np.float32, np.float64) or out.ndim != 4:
        return None
    if any([step % x.itemsize for step in (*x.strides, *w.strides, *out.strides)]):
        return None
    is_product = prod(w.shape[2:]) == 1
    if is_product and out.size * w[0].size < LARGE_PRODUCT:
        return None
    if x.strides[1] == x.itemsize and x.shape[1] > 1 and w.nbytes <= LARGEST_KERNELS:
        return _OfImages.of(window, x, w, out)
    if x.strides[0] == x.itemsize and w.strides[0] == x.itemsize and w.nbytes <= TERMS_BYTES:
        return _OfKernels.of(window, x, w, out)
    return None


class _OfImages:
    """Channels and the kernel's elements are summed; rows and places are those of the result, in its order.

    Kernels that no cache holds are read in blocks of outputs, which a thread lays beside each other first: rows of them
    that are far apart are on as many pages. Those of one element have few rows, and stay.
    """

    @classmethod
    def of(cls, window: Window, x: Array, w: Array, out: Array) -> _OfImages | None:
        """None where no cache holds the kernels of several outputs, or channels are apart once x has its edges."""
        several = _outputs_at_once(w)
        if not several:
            return None
        edges = Edges(window, x.shape, x.strides)
        windows = windows_of(window, edges.around(x), w.shape[2:])
        if windows.strides[1] != x.itemsize:
            return None
        return cls(edges, _room_of(window, x, w, out), windows, w, out, several)

    def __init__(
        self, edges: Edges, room: int, windows: Array, w: Array, out: Array, several: int
    ) -> None:
        size, outputs, channels = w.itemsize, len(w), windows.shape[1]
        height, width = w.shape[2:]
        self.several = several
        self.is_laid_out = several < outputs and height * width > 1
        apart = several if self.is_laid_out else outputs
        slow, fast = sorted((2, 3), key=lambda axis: -abs(out.strides[axis]))
        to = [stride // size for stride in out.strides]
        self.is_direct = w.transpose(*OUTPUTS_LAST).flags.c_contiguous
        self.edges, self.rooms = edges, (room, 0 if self.is_direct else w.nbytes)
        step = [stride // size for stride in windows.strides]
        inner = ((width * channels, 1, apart),)
        if step[5] != channels:
            inner = ((width, step[5], channels * apart), (channels, 1, apart))
        self.sums = SumOfProducts(
            DType.of(w.dtype),
            (step[slow], to[slow]),
            (out.shape[fast], step[fast], to[fast]),
            (several, to[1]),
            ((height, step[4], width * channels * apart), *inner),
        )
        self.multiplications = out.size * w[0].size
        self.rows, self.blocks = out.shape[slow], range(0, outputs, several)
        images = range(len(out))
        self.images = [(n * windows.strides[0], n * out.strides[0]) for n in images]

    def run(self, compiled: Compiled, resources: Resources, workers: Workers, x: Array, w: Array, out: Array) -> None:  # fmt: skip
        """Write out by the function of `sums`."""
        function, tasks = compiled
        parts = [*product(self.blocks, _cuts(tasks * self.rows, len(self.blocks), workers))]
        with scratch(resources, self.rooms) as memory:
            image = self.edges.around(x, memory[0])
            kernels = w.transpose(*OUTPUTS_LAST)
            if not self.is_direct:
                copy = np.ndarray(kernels.shape, w.dtype, memory[1])
                copy[...] = kernels
                kernels = copy
            a, b, y = _address(image), _address(kernels), _address(out)
            apart, beside = out.strides[1], w.itemsize

            def work(number: int) -> None:
                first, rows = parts[number]
                block = b + first * beside
                with scratch(resources, [self.several * w[0].nbytes if self.is_laid_out else 0]) as (room,):  # fmt: skip
                    if self.is_laid_out:
                        part = kernels[..., first : first + self.several]
                        copy = np.ndarray(part.shape, w.dtype, room)
                        copy[...] = part
                        block = _address(copy)
                    for from_a, to_y in self.images:
                        function(a + from_a, block, y + to_y + first * apart, *rows)

            workers.deal(work, len(parts))


def _address(x: Array) -> int:
    return x.__array_interface__["data"][0]


def _outputs_at_once(w: Array) -> int:
    """The outputs of a block, with kernels in cache; 0 where it holds those of few alone."""
    outputs = several = len(w)
    if w.nbytes > KERNELS_BYTES and prod(w.shape[2:]) > 1 and outputs % BLOCK == 0:
        several = BLOCK
    while w[:several].nbytes > KERNELS_BYTES:
        if several % (2 * FEWEST_OUTPUTS):
            return 0
        several //= 2
    return several


def _room_of(window: Window, x: Array, w: Array, out: Array) -> int:
    """Bytes of the part of x that windows read, with the zeros around it."""
    steps = zip(out.shape[2:], window.strides, w.shape[2:], window.rhs_dilation, strict=True)
    edges = [sum(pair) + n for n, pair in zip(x.shape[2:], window.padding, strict=True)]
    reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in steps]
    return x.shape[0] * x.shape[1] * prod(map(max, edges, reach)) * x.itemsize


def _cuts(tasks: int, blocks: int, workers: Workers) -> list[tuple[int, int]]:
    """Parts of the tasks of each block, few, because between them threads wait for Python's lock."""
    count = min(tasks, -(-PARTS // blocks)) if workers.count > 1 else 1
    return [*pairwise([tasks * i // count for i in range(count + 1)])]


class _OfKernels:
    """As in gradients of kernels: places are summed; rows and places are the elements of the result and its n."""

    def __init__(self, edges: Edges, room: int, sums: SumOfProducts, out: Array) -> None:
        self.edges, self.sums = edges, sums
        self.multiplications = out.size * prod([count for count, _, _ in sums.terms])
        self.is_direct = out.transpose(2, 3, 0, 1).flags.c_contiguous
        self.rooms = room, 0 if self.is_direct else out.nbytes

    @classmethod
    def of(cls, window: Window, x: Array, w: Array, out: Array) -> _OfKernels | None:
        """None where windows are apart."""
        size, outputs = x.itemsize, len(w)
        channels, width = len(x), out.shape[3]
        edges = Edges(window, x.shape, x.strides)
        windows = windows_of(window, edges.around(x), w.shape[2:])
        step = [stride // size for stride in windows.strides]
        if step[0] != 1 or (width > 1 and step[3] != channels):
            return None
        terms = tuple([
            (n, a, stride // size)
            for n, a, stride in zip(w.shape[1:], (step[1], *step[4:]), w.strides[1:], strict=True)
        ])  # fmt: skip
        row = width * channels
        sums = SumOfProducts(DType.of(x.dtype), (step[2], row * outputs), (row, 1, outputs), (outputs, 1), terms)  # fmt: skip
        return cls(edges, _room_of(window, x, w, out), sums, out)

    def run(self, compiled: Compiled, resources: Resources, workers: Workers, x: Array, w: Array, out: Array) -> None:  # fmt: skip
        """Write out by the function of `sums`."""
        function, tasks = compiled
        target = out.transpose(2, 3, 0, 1)
        height, width = out.shape[2:]
        with scratch(resources, self.rooms) as memory:
            image = self.edges.around(x, memory[0])
            y = target if self.is_direct else np.ndarray(target.shape, out.dtype, memory[1])
            pointers = _address(image), _address(w), _address(y)
            parts = _cuts(tasks * height, 1, workers)
            workers.deal(lambda number: function(*pointers, *parts[number]), len(parts))
            if not self.is_direct:
                places = [*product(range(height), range(width))]

                def turn(number: int) -> None:
                    target[places[number]] = y[places[number]]

                workers.deal(turn, len(places))
