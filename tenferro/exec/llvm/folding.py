"""The terms of sums, of products of matrices and of other reductions combined to one number.

A long sum is one of short ones, and these go along as many lanes as the processor adds at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

__all__ = ["BLOCK", "Combine", "Fold", "Indices", "cell_of"]

BLOCK = 1024
"""Terms of a short sum."""
CHAINS = 4
"""Of vectors, whose extremes are compared at the end."""
CHAINED = 64
"""Terms that fill the chains with the longest vectors of float32."""
EXTREMES = (el.maximum, el.minimum)
Indices = tuple[Index, ...]
Combine = Callable[[Code, Any, DType, Sequence[Element]], Element]


@dataclass(frozen=True)
class Fold:
    """How terms are combined to one number.

    code:     where it is written
    op:       the reduction or product
    dtype:    of the terms and of the result
    combine:  what combines two
    start:    what combines with a term to the term
    """

    code: Code
    op: Any
    dtype: DType
    combine: Combine
    start: Any

    def of(self, extents: Sequence[int], term: Callable[[Indices], Element]) -> Element:
        """All terms along axes of these extents, axis within axis."""
        if 0 in extents:
            return literal(self.start, self.dtype)

        def of_rest(index: Indices) -> Element:
            if len(index) == len(extents):
                return term(index)
            count, *inner = extents[len(index) :]
            is_innermost = prod(inner) <= UNROLLED
            return self._along(count, lambda i: of_rest((*index, i)), is_innermost)

        return of_rest(())

    def _two(self, x: Element, y: Element) -> Element:
        return self.combine(self.code, self.op, self.dtype, [x, y])

    def _along(self, count: int, term: Callable[[Index], Element], is_innermost: bool) -> Element:
        """The terms along an axis.

        Args:
            is_innermost: no term is a loop.
        """
        if count == 1 or (count <= UNROLLED and is_innermost):
            total = term(0)
            for i in range(1, count):
                total = self._two(total, term(i))
            return total
        code, start = self.code, literal(self.start, self.dtype)

        def short(begin: Index, size: int) -> Element:
            def one(i: Index) -> Element:
                return term(code.add(i, begin))

            goes_in_lanes = (
                self.dtype.is_float if self.combine is el.multiply else self.combine is el.add
            )
            if goes_in_lanes and self.dtype.is_inexact and is_innermost:
                return self._in_lanes(size, one)
            if self.combine in EXTREMES and self.dtype.is_float and is_innermost:
                return self._extreme_in_chains(size, one)
            return self._one_by_one(size, one, start)

        if count < 2 * BLOCK:
            return short(0, count)
        size = count % BLOCK
        rest = short(count - size, size) if size else start
        return self._one_by_one(count // BLOCK, lambda i: short(code.scaled(i, BLOCK), BLOCK), rest)

    def _extreme_in_chains(self, count: int, term: Callable[[Index], Element]) -> Element:
        """The extreme of several chains of terms, because a comparison takes long that sees NaN and the signs of zeros."""
        rest = count % CHAINED if count >= 2 * CHAINED else count
        extreme = literal(self.start, self.dtype)
        if rest < count:
            extreme = self._one_by_one(count - rest, term, extreme, CHAINS)
        if not rest:
            return extreme
        return self._one_by_one(rest, lambda i: term(self.code.add(i, count - rest)), extreme)

    def _one_by_one(
        self, count: int, term: Callable[[Index], Element], total: Element, chains: int = 1
    ) -> Element:
        """A total combined with terms, one after the other."""
        code, dtype = self.code, self.dtype
        cell = cell_of(code, dtype)
        code.store(total, cell, 0, dtype)

        def one(i: Index) -> None:
            x = term(i)
            code.store(self._two(code.load(cell, 0, dtype), x), cell, 0, dtype)

        code.loop(count, one, chains=chains)
        return code.load(cell, 0, dtype)

    def _in_lanes(self, count: int, term: Callable[[Index], Element]) -> Element:
        """The sum or product of each lane's terms, these by halves, then the terms that fill no vector one after the other.

        The order is written out, so that it is the same whether LLVM makes vectors of it or not.
        """
        code, op, dtype = self.code, self.op, self.dtype
        # Of vectors that leave equally few additions the widest comes first.
        lanes = min(code.lanes, key=lambda n: count // n + count % n, default=1)
        vectors, rest = divmod(count, lanes) if lanes > 1 else (0, count)
        part = dtype.real
        kind = f"<{lanes} x {llvm_type(part)}>"
        first = ", ".join([f"{llvm_type(part)} {literal(self.start, part)}"] * lanes)
        total = literal(self.start, dtype)
        if vectors:
            cells = [code.cell(memory_type(part), lanes) for _ in range(1 + dtype.is_complex)]
            for cell in cells:
                code.line(f"store {kind} <{first}>, ptr {cell}")

            def vector(number: Index) -> None:
                start = code.scaled(number, lanes)

                def lane(i: Index) -> None:
                    x = term(code.add(start, i))
                    for cell, each in zip(cells, x if dtype.is_complex else (x,), strict=True):
                        both = self.combine(code, op, part, [code.load(cell, i, part), each])
                        code.store(both, cell, i, part)

                code.loop(lanes, lane)

            code.loop(vectors, vector)
            instruction = "fadd" if self.combine is el.add else "fmul"
            totals = [_by_halves(code, instruction, llvm_type(part), lanes, cell) for cell in cells]
            total = tuple(totals) if dtype.is_complex else totals[0]
        if not rest:
            return total
        return self._one_by_one(rest, lambda i: term(code.add(i, count - rest)), total)


def _by_halves(code: Code, instruction: str, kind: str, lanes: int, cell: str) -> str:
    """The lanes of a vector in memory, added up or multiplied."""
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
        x = code.value(f"{instruction} <{lanes} x {kind}> {halves[0]}, {halves[1]}")
    return code.value(f"extractelement <1 x {kind}> {x}, i64 0")


def cell_of(code: Code, dtype: DType) -> str:
    """Memory of the function's own for a number."""
    return code.cell(memory_type(dtype), 2 if dtype.is_complex else 1)
