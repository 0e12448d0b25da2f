"""Convolutions of images with channels last as sums of products of arrays that stay where they lie, by machine code.

Nothing but the zeros around an image is copied. One call makes many rows of a result, without Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Any, Protocol

import numpy as np

from tenferro.exec.kernels.kernel import Array
from tenferro.exec.kernels.matrix_product import scratch
from tenferro.exec.kernels.windows import Window, padded, windows_of
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import Workers
from tenferro.types import DType

__all__ = ["Machine", "SumOfProducts", "is_summed"]

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

    def function(
        self, sums: SumOfProducts, multiplications: int
    ) -> tuple[Callable[..., Any], int] | None:
        """The function of pointers to a, b and y, and of tasks from where to where; the number of tasks of a row. None
        where there is none.
        """
        ...


def is_summed(
    window: Window,
    x: Array,
    w: Array,
    out: Array,
    resources: Resources,
    workers: Workers,
    machine: Machine,
) -> bool:
    """Whether out [n, o, p..] of x [n, c, s..] and kernels [o, c, k..] has been written by machine code."""
    if x.dtype not in (np.float32, np.float64) or out.ndim != 4:
        return False
    if any([step % x.itemsize for step in (*x.strides, *w.strides, *out.strides)]):
        return False
    is_product = prod(w.shape[2:]) == 1
    if is_product and out.size * w[0].size < LARGE_PRODUCT:
        return False
    if x.strides[1] == x.itemsize and x.shape[1] > 1 and w.nbytes <= LARGEST_KERNELS:
        return _of_images(window, x, w, out, resources, workers, machine)
    if x.strides[0] == x.itemsize and w.strides[0] == x.itemsize and w.nbytes <= TERMS_BYTES:
        return _of_kernels(window, x, w, out, resources, workers, machine)
    return False


def _of_images(
    window: Window,
    x: Array,
    w: Array,
    out: Array,
    resources: Resources,
    workers: Workers,
    machine: Machine,
) -> bool:
    """Channels and the kernel's elements are summed; rows and places are those of the result, in its order.

    Kernels that no cache holds are read in blocks of outputs, which a thread lays beside each other first: rows of them
    that are far apart are on as many pages. Those of one element have few rows, and stay.
    """
    size, outputs, channels = x.itemsize, len(w), x.shape[1]
    height, width = w.shape[2:]
    several = _outputs_at_once(w)
    if not several:
        return False
    is_laid_out = several < outputs and height * width > 1
    apart = several if is_laid_out else outputs
    slow, fast = sorted((2, 3), key=lambda axis: -abs(out.strides[axis]))
    to = [stride // size for stride in out.strides]
    kernels = w.transpose(2, 3, 1, 0)
    is_direct = kernels.flags.c_contiguous
    rooms = _room_of(window, x, w, out), 0 if is_direct else w.nbytes
    with scratch(resources, rooms) as memory:
        windows = windows_of(window, padded(window, x, memory[0]), w.shape[2:])
        step = [stride // size for stride in windows.strides]
        inner = ((width * channels, 1, apart),)
        if step[5] != channels:
            inner = ((width, step[5], channels * apart), (channels, 1, apart))
        sums = SumOfProducts(
            DType.of(x.dtype),
            (step[slow], to[slow]),
            (out.shape[fast], step[fast], to[fast]),
            (several, to[1]),
            ((height, step[4], width * channels * apart), *inner),
        )
        compiled = machine.function(sums, out.size * w[0].size)
        if compiled is None:
            return False
        function, tasks = compiled
        if not is_direct:
            copy = np.ndarray(kernels.shape, w.dtype, memory[1])
            copy[...] = kernels
            kernels = copy
        blocks = range(0, outputs, several)
        parts = [*product(blocks, _cuts(tasks * out.shape[slow], len(blocks), workers))]

        def work(number: int) -> None:
            first, rows = parts[number]
            block = kernels[..., first : first + several]
            with scratch(resources, [block.nbytes if is_laid_out else 0]) as (room,):
                if is_laid_out:
                    copy = np.ndarray(block.shape, w.dtype, room)
                    copy[...] = block
                    block = copy
                for a, y in zip(windows, out[:, first:], strict=True):
                    function(a.ctypes.data, block.ctypes.data, y.ctypes.data, *rows)

        workers.deal(work, len(parts))
    return True


def _outputs_at_once(w: Array) -> int:
    """The outputs of a block, whose kernels a cache holds; 0 where it holds those of few alone."""
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


def _of_kernels(
    window: Window,
    x: Array,
    w: Array,
    out: Array,
    resources: Resources,
    workers: Workers,
    machine: Machine,
) -> bool:
    """As in gradients of kernels: places are summed; rows and places are the elements of the result and its n."""
    size, outputs = x.itemsize, len(w)
    channels, (height, width) = len(x), out.shape[2:]
    target = out.transpose(2, 3, 0, 1)
    is_direct = target.flags.c_contiguous
    rooms = _room_of(window, x, w, out), 0 if is_direct else out.nbytes
    with scratch(resources, rooms) as memory:
        windows = windows_of(window, padded(window, x, memory[0]), w.shape[2:])
        step = [stride // size for stride in windows.strides]
        if step[0] != 1 or (width > 1 and step[3] != channels):
            return False
        terms = tuple([
            (n, a, stride // size)
            for n, a, stride in zip(w.shape[1:], (step[1], *step[4:]), w.strides[1:], strict=True)
        ])  # fmt: skip
        row = width * channels
        sums = SumOfProducts(DType.of(x.dtype), (step[2], row * outputs), (row, 1, outputs), (outputs, 1), terms)  # fmt: skip
        compiled = machine.function(sums, out.size * prod(w.shape[1:]))
        if compiled is None:
            return False
        function, tasks = compiled
        y = target if is_direct else np.ndarray(target.shape, out.dtype, memory[1])
        pointers = windows.ctypes.data, w.ctypes.data, y.ctypes.data
        parts = _cuts(tasks * height, 1, workers)
        workers.deal(lambda number: function(*pointers, *parts[number]), len(parts))
        if not is_direct:
            places = [*product(range(height), range(width))]

            def turn(number: int) -> None:
                target[places[number]] = y[places[number]]

            workers.deal(turn, len(places))
    return True
