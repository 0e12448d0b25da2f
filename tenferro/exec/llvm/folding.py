"""Reductions to a scalar, in an order of terms that LLVM's passes do not change.

A long sum is a sum of block sums. The sum of a block has an accumulator for each lane of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.code import (
    MAX_UNROLLED,
    Code,
    Element,
    Index,
    literal,
    llvm_type,
    memory_type,
)
from tenferro.exec.llvm.ir import Value, VectorType, splat
from tenferro.types import DType

__all__ = [
    "BLOCK_TERMS",
    "INTERLEAVE",
    "MIN_INTERLEAVED_TERMS",
    "Combine",
    "Fold",
    "Indices",
    "alloca_scalar",
]

BLOCK_TERMS = 1024
"""Number of terms of a block sum."""
INTERLEAVE = 4
"""Number of independent vector accumulators of a maximum or minimum."""
MIN_INTERLEAVED_TERMS = 64
"""Number of terms in `INTERLEAVE` of the widest vectors of float32."""
EXTREMES = (el.maximum, el.minimum)
Indices = tuple[Index, ...]
Combine = Callable[[Code, Any, DType, Sequence[Element]], Element]


@dataclass(frozen=True)
class Fold:
    """Writer of a reduction to a scalar.

    Attributes:
        op: the reduction, or a product of matrices.
        dtype: the dtype of the terms and of the result.
        combine: writes the combination of two terms.
        start: the identity of the combination.
    """

    code: Code
    op: Any
    dtype: DType
    combine: Combine
    start: Any

    def reduce(self, extents: Sequence[int], term: Callable[[Indices], Element]) -> Element:
        """Write the reduction of the terms at all indices of a shape; the last axis is reduced first."""
        if 0 in extents:
            return literal(self.start, self.dtype)

        def reduce_axes(index: Indices) -> Element:
            if len(index) == len(extents):
                return term(index)
            count, *inner = extents[len(index) :]
            is_innermost = prod(inner) <= MAX_UNROLLED
            return self._along(count, lambda i: reduce_axes((*index, i)), is_innermost)

        return reduce_axes(())

    def _combine(self, x: Element, y: Element) -> Element:
        return self.combine(self.code, self.op, self.dtype, [x, y])

    def _along(self, count: int, term: Callable[[Index], Element], is_innermost: bool) -> Element:
        """Write the reduction of the terms at the indices 0, 1, .. count - 1 of one axis.

        Args:
            is_innermost: whether the code of a term contains no loop.
        """
        if count == 1 or (count <= MAX_UNROLLED and is_innermost):
            total = term(0)
            for i in range(1, count):
                total = self._combine(total, term(i))
            return total
        code, start = self.code, literal(self.start, self.dtype)

        def block(begin: Index, size: int) -> Element:
            def element(i: Index) -> Element:
                return term(code.add(i, begin))

            has_lanes = (
                self.dtype.is_float if self.combine is el.multiply else self.combine is el.add
            )
            if has_lanes and self.dtype.is_inexact and is_innermost:
                return self._in_lanes(size, element)
            if self.combine in EXTREMES and self.dtype.is_float and is_innermost:
                return self._interleaved_extreme(size, element)
            return self._sequential(size, element, start)

        if count < 2 * BLOCK_TERMS:
            return block(0, count)
        size = count % BLOCK_TERMS
        rest = block(count - size, size) if size else start
        return self._sequential(
            count // BLOCK_TERMS, lambda i: block(code.scaled(i, BLOCK_TERMS), BLOCK_TERMS), rest
        )

    def _interleaved_extreme(self, count: int, term: Callable[[Index], Element]) -> Element:
        """Write a maximum or minimum with several accumulators, because its instructions have a long latency."""
        rest = count % MIN_INTERLEAVED_TERMS if count >= 2 * MIN_INTERLEAVED_TERMS else count
        extreme = literal(self.start, self.dtype)
        if rest < count:
            extreme = self._sequential(count - rest, term, extreme, INTERLEAVE)
        if not rest:
            return extreme
        return self._sequential(rest, lambda i: term(self.code.add(i, count - rest)), extreme)

    def _sequential(
        self, count: int, term: Callable[[Index], Element], total: Element, interleave: int = 1
    ) -> Element:
        """Write the combination of a total with the terms, one after the other."""
        code, dtype = self.code, self.dtype
        cell = alloca_scalar(code, dtype)
        code.store(total, cell, 0, dtype)

        def body(i: Index) -> None:
            x = term(i)
            code.store(self._combine(code.load(cell, 0, dtype), x), cell, 0, dtype)

        code.loop(count, body, interleave=interleave)
        return code.load(cell, 0, dtype)

    def _in_lanes(self, count: int, term: Callable[[Index], Element]) -> Element:
        """Write a sum or product: first within each lane, then over the lanes in pairs, then with the remaining terms.

        The order of terms does not depend on whether LLVM vectorises the loop.
        """
        code, op, dtype = self.code, self.op, self.dtype
        widths = code.lanes, code.lanes // 2 or 1
        lanes = min(widths, key=lambda n: count // n + count % n)
        vectors, rest = divmod(count, lanes) if lanes > 1 else (0, count)
        part = dtype.real
        total = literal(self.start, dtype)
        if vectors:
            cells = [code.alloca(memory_type(part), lanes) for _ in range(1 + dtype.is_complex)]
            for cell in cells:
                code.store_value(splat(literal(self.start, part), lanes), cell)

            def vector(number: Index) -> None:
                start = code.scaled(number, lanes)

                def lane(i: Index) -> None:
                    x = term(code.add(start, i))
                    for cell, y in zip(cells, x if dtype.is_complex else (x,), strict=True):
                        both = self.combine(code, op, part, [code.load(cell, i, part), y])
                        code.store(both, cell, i, part)

                code.loop(lanes, lane)

            code.loop(vectors, vector)
            instruction = "fadd" if self.combine is el.add else "fmul"
            totals = [
                _reduce_lanes(code, instruction, llvm_type(part), lanes, cell) for cell in cells
            ]
            total = tuple(totals) if dtype.is_complex else totals[0]
        if not rest:
            return total
        return self._sequential(rest, lambda i: term(code.add(i, count - rest)), total)


def _reduce_lanes(code: Code, instruction: str, kind: str, lanes: int, cell: str) -> str:
    """Write the sum or product of the lanes of a vector in memory, by adding or multiplying halves."""
    x = code.load_value(VectorType(lanes, kind), cell)
    while lanes > 1:
        lanes //= 2
        halves = [code.shuffle(x, "poison", range(start, start + lanes)) for start in (0, lanes)]
        x = code.value(instruction, *halves)
    return code.value("extractelement", x, Value(0, "i64"))


def alloca_scalar(code: Code, dtype: DType) -> str:
    """Write an allocation of memory for a scalar on the stack, and return its pointer."""
    return code.alloca(memory_type(dtype), 2 if dtype.is_complex else 1)
