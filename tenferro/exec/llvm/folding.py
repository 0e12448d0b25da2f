"""The terms of sums, of products of matrices and of other reductions combined to one number.

A long sum is one of short ones, and these go along as many lanes as the processor adds at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.code import (
    UNROLLED,
    Code,
    Element,
    Index,
    literal,
    llvm_type,
    memory_type,
)
from tenferro.types import DType

__all__ = ["BLOCK", "Combine", "Indices", "cell_of", "folded"]

BLOCK = 1024
"""Terms of a short sum."""
Indices = tuple[Index, ...]
Combine = Callable[[Code, Any, DType, Sequence[Element]], Element]


def folded(
    code: Code,
    op: Any,
    dtype: DType,
    extents: Sequence[int],
    term: Callable[[Indices], Element],
    combine: Combine,
    start: Any,
) -> Element:
    """All terms combined, axis within axis.

    Args:
        extents: of the axes that the terms lie along.
        start: what combines to the other.
    """
    if 0 in extents:
        return literal(start, dtype)

    def of_rest(index: Indices) -> Element:
        if len(index) == len(extents):
            return term(index)
        count, *inner = extents[len(index) :]
        return _along(
            code, op, dtype, count, lambda i: of_rest((*index, i)), combine, start,
            is_innermost=prod(inner) <= UNROLLED,
        )  # fmt: skip

    return of_rest(())


def _along(
    code: Code,
    op: Any,
    dtype: DType,
    count: int,
    term: Callable[[Index], Element],
    combine: Combine,
    start: Any,
    is_innermost: bool,
) -> Element:
    """The terms along an axis combined.

    Args:
        is_innermost: no term is a loop.
    """
    if count == 1 or (count <= UNROLLED and is_innermost):
        total = term(0)
        for i in range(1, count):
            total = combine(code, op, dtype, [total, term(i)])
        return total

    def short(begin: Index, size: int) -> Element:
        if combine is el.add and dtype.is_inexact and is_innermost:
            return _sum_in_lanes(code, op, dtype, size, lambda i: term(code.add(i, begin)))
        return _one_by_one(
            code,
            op,
            dtype,
            size,
            lambda i: term(code.add(i, begin)),
            combine,
            literal(start, dtype),
        )

    if count < 2 * BLOCK:
        return short(0, count)
    size = count % BLOCK
    rest = short(count - size, size) if size else literal(start, dtype)
    return _one_by_one(
        code,
        op,
        dtype,
        count // BLOCK,
        lambda i: short(code.scaled(i, BLOCK), BLOCK),
        combine,
        rest,
    )


def _one_by_one(
    code: Code,
    op: Any,
    dtype: DType,
    count: int,
    term: Callable[[Index], Element],
    combine: Combine,
    total: Element,
) -> Element:
    """A total combined with terms, one after the other."""
    cell = cell_of(code, dtype)
    code.store(total, cell, 0, dtype)

    def one(i: Index) -> None:
        x = term(i)
        total = combine(code, op, dtype, [code.load(cell, 0, dtype), x])
        code.store(total, cell, 0, dtype)

    code.loop(count, one)
    return code.load(cell, 0, dtype)


def _sum_in_lanes(
    code: Code, op: Any, dtype: DType, count: int, term: Callable[[Index], Element]
) -> Element:
    """The sum of each lane's terms, added up by halves, then the terms that fill no vector one after the other.

    The order is written out, so that it is the same whether LLVM makes vectors of it or not.
    """
    # Of vectors that leave equally few additions the widest comes first.
    lanes = min(code.lanes, key=lambda n: count // n + count % n, default=1)
    vectors, rest = divmod(count, lanes) if lanes > 1 else (0, count)
    part = dtype.real
    kind = f"<{lanes} x {llvm_type(part)}>"
    total = literal(0.0, dtype)
    if vectors:
        cells = [code.cell(memory_type(part), lanes) for _ in range(1 + dtype.is_complex)]
        for cell in cells:
            code.line(f"store {kind} zeroinitializer, ptr {cell}")

        def vector(number: Index) -> None:
            start = code.scaled(number, lanes)

            def lane(i: Index) -> None:
                x = term(code.add(start, i))
                for cell, each in zip(cells, x if dtype.is_complex else (x,), strict=True):
                    sum_ = el.add(code, op, part, [code.load(cell, i, part), each])
                    code.store(sum_, cell, i, part)

            code.loop(lanes, lane)

        code.loop(vectors, vector)
        sums = [_sum_of_halves(code, llvm_type(part), lanes, cell) for cell in cells]
        total = tuple(sums) if dtype.is_complex else sums[0]
    if not rest:
        return total
    return _one_by_one(
        code, op, dtype, rest, lambda i: term(code.add(i, count - rest)), el.add, total
    )


def _sum_of_halves(code: Code, kind: str, lanes: int, cell: str) -> str:
    """The lanes of a vector in memory, added up."""
    x = code.value(f"load <{lanes} x {kind}>, ptr {cell}")
    while lanes > 1:
        vector, lanes = f"<{lanes} x {kind}>", lanes // 2
        halves: list[str] = []
        for start in (0, lanes):
            places = ", ".join([f"i32 {i}" for i in range(start, start + lanes)])
            halves.append(
                code.value(
                    f"shufflevector {vector} {x}, {vector} poison, <{lanes} x i32> <{places}>"
                )
            )
        x = code.value(f"fadd <{lanes} x {kind}> {halves[0]}, {halves[1]}")
    return code.value(f"extractelement <1 x {kind}> {x}, i64 0")


def cell_of(code: Code, dtype: DType) -> str:
    """Memory of the function's own for a number."""
    return code.cell(memory_type(dtype), 2 if dtype.is_complex else 1)
