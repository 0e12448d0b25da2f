"""Sums with NumPy's bits, from compiled code: the calls of its loops that its kernels come down to for row-major arrays.

A row of few floats is its dot product with ones. Other sums are NumPy's reductions: axes of extent 1 are left out,
neighbours that are both summed over, or both kept, are one, and the loop of `add` runs along the last of them, onto the
result of the rows before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tenferro.exec.kernels.row_sums import BLOCK, has_row_sums
from tenferro.exec.llvm import ufunc_loops
from tenferro.exec.llvm.code import Index, memory_type
from tenferro.exec.llvm.tensor import Body, Memory
from tenferro.exec.llvm.ufunc_loops import Loop, loop_of
from tenferro.types import DType, TensorSpec

__all__ = ["Sum", "sum_of", "write"]

TRIED = (DType.F32, DType.F64, DType.C32, DType.C64)


class Sum(NamedTuple):
    """The calls of a loop that make a sum.

    loop:     of `vecdot` or `add`
    is_dot:   whether it is the former, in one call for all rows
    groups:   neighbouring axes as one: the extent, and whether they are summed over
    """

    loop: Loop
    is_dot: bool
    groups: tuple[tuple[int, bool], ...]

    @property
    def outer(self) -> tuple[int, ...]:
        """The extents around a call."""
        return tuple([extent for extent, _ in self.groups[:-1]])

    def call(self, size: int) -> tuple[list[int], list[int]]:
        """The counts of a call, and its steps in bytes, for elements of a size.

        A dot product takes x, ones and the result; an addition the result, x and the result.
        """
        length, is_summed = self.groups[-1]
        if self.is_dot:
            return [self.groups[0][0], length], [length * size, 0, size, size, size]
        y_step = 0 if is_summed else size
        return [length], [y_step, size, y_step]

    def places(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """How many elements of the result, and of x, lie between neighbours along each outer extent."""
        y_steps, x_steps, y_step, x_step = list[int](), list[int](), 1, 1
        for extent, is_summed in reversed(self.groups):
            y_steps.insert(0, 0 if is_summed else y_step)
            x_steps.insert(0, x_step)
            x_step *= extent
            y_step *= 1 if is_summed else extent
        return tuple(y_steps[:-1]), tuple(x_steps[:-1])


def sum_of(x: TensorSpec, axes: Sequence[int]) -> Sum | None:
    """The sum of a row-major array over some axes; None where it is computed otherwise."""
    return _sum_of(x, axes) if is_known() else None


def _sum_of(x: TensorSpec, axes: Sequence[int]) -> Sum | None:
    if x.dtype.is_bool or x.dtype.accumulator is not x.dtype or not axes or not x.size:
        return None
    kinds = [(n, axis in axes) for axis, n in enumerate(x.shape) if n != 1] or [(1, True)]
    groups = tuple([
        (prod([n for n, _ in group]), is_summed)
        for is_summed, group in groupby(kinds, lambda kind: kind[1])
    ])  # fmt: skip
    are_last = {*axes} == {*range(x.rank - len(axes), x.rank)}
    count = prod([x.shape[axis] for axis in axes])
    if has_row_sums(x.dtype):
        if are_last and count <= BLOCK:
            rows = x.size // count
            loop = loop_of(np.vecdot, (x.dtype,) * 3)
            return None if loop is None else Sum(loop, True, ((rows, False), (count, True)))
        # The kernel sums longer rows in blocks, and takes first axes that lie as last ones do for those.
        are_first = {*axes} == {*range(len(axes))}
        if x.dtype is not DType.F64 if are_last else are_first and len(groups) == 1:
            return None
    loop = loop_of(np.add, (x.dtype,) * 3)
    return None if loop is None else Sum(loop, False, groups)


def write(body: Body, total: Sum, x: Memory, y: Memory) -> None:
    """Call the loop for all of y."""
    code, dtype = body.code, x.spec.dtype
    counts, steps = total.call(dtype.itemsize)
    if total.is_dot:
        kind, count = memory_type(dtype), counts[-1]
        ones = code.constant(f"[{count} x {kind}]", f"[{', '.join([f'{kind} 1.0'] * count)}]")
        ufunc_loops.call(code, total.loop, [x.pointer, ones, y.pointer], counts, steps)
        return
    body.write(body.filled(y.spec, start_of(dtype)), y)
    parts = 2 if dtype.is_complex else 1

    def one_call(index: tuple[Index, ...]) -> None:
        pointers = []
        for memory, places in zip((y, x), total.places(), strict=True):
            offset: Index = 0
            for i, step in zip(index, places, strict=True):
                offset = code.add(offset, code.scaled(i, step * parts))
            pointers.append(code.address(memory.pointer, offset, dtype))
        y_at, x_at = pointers
        ufunc_loops.call(code, total.loop, [y_at, x_at, y_at], counts, steps)

    code.loops(total.outer, one_call)


@cache
def start_of(dtype: DType) -> Any:
    """The zero where NumPy's sums start."""
    return np.add.reduce(np.full(1, -0.0, dtype.dtype))


@cache
def is_known() -> bool:
    """Whether NumPy's sums come down to these calls."""
    rng = np.random.default_rng(0)
    for dtype in TRIED:
        for shape, axes in (
            ((1,), (0,)), ((100,), (0,)), ((5000,), (0,)), ((7, 30), (1,)), ((7, 300), (1,)),
            ((30, 7), (0,)), ((1, 9, 4), (1,)), ((3, 4, 50), (0, 2)), ((2, 4, 5, 3), (1, 2)),
            ((3, 1, 5), (0, 1, 2)),
        ):  # fmt: skip
            x = rng.standard_normal(2 * prod(shape)).view("c16")[: prod(shape)]
            x = (x if dtype.is_complex else np.real(x)).astype(dtype.dtype).reshape(shape)
            total = _sum_of(TensorSpec(shape, dtype), axes)
            if (
                total is not None
                and _called(total, x, axes).tobytes() != _wanted(total, x, axes).tobytes()
            ):
                return False
    return True


def _wanted(total: Sum, x: Any, axes: tuple[int, ...]) -> Any:
    """The sum by NumPy itself."""
    if not total.is_dot:
        return np.add.reduce(x, axes)
    rows = x.reshape((*x.shape[: -len(axes)], -1))
    ones = np.ones(rows.shape[-1], x.dtype)
    return rows.dot(ones) if rows.ndim == 1 else np.vecdot(rows, ones)


def _called(total: Sum, x: Any, axes: tuple[int, ...]) -> Any:
    """The sum by calls of the loop."""
    size = x.itemsize
    shape = [n for axis, n in enumerate(x.shape) if axis not in axes]
    y = np.full(shape, 0 if total.is_dot else start_of(DType.of(x.dtype)), x.dtype)
    counts, steps = total.call(size)
    if total.is_dot:
        ufunc_loops.run(total.loop, [x, np.ones(counts[-1], x.dtype), y], counts, steps)
        return y
    y_start, x_start = y.ctypes.data, x.ctypes.data
    for y_offset, x_offset in _offsets(total):
        y_at = y_start + y_offset * size
        ufunc_loops.run(total.loop, [y_at, x_start + x_offset * size, y_at], counts, steps)
    return y


def _offsets(total: Sum) -> Iterator[tuple[int, int]]:
    """Elements of the result and of x before each call."""
    y_steps, x_steps = total.places()
    for index in np.ndindex(*total.outer):
        yield (
            sum([i * step for i, step in zip(index, y_steps, strict=True)]),
            sum([i * step for i, step in zip(index, x_steps, strict=True)]),
        )
