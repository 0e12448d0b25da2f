"""Sums of rows, which LLVM makes of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.code import Element, Index
from tenferro.exec.llvm.folding import Indices
from tenferro.exec.llvm.tensor import Body, Memory
from tenferro.types import TensorSpec

__all__ = ["rows_added"]

TERMS = 8
"""Terms of a sum of rows that are added before the sum is stored."""


def rows_added(
    body: Body,
    op: Any,
    y: TensorSpec,
    terms: Sequence[int],
    product: Callable[[Indices, Indices], Element],
) -> Memory:
    """Each row of the result as a sum of rows, a few terms at a time, one after the other.

    Args:
        product: a term of an element, by its index and the term's.
    """
    code, memory = body.code, body.result(y)
    count, (*outer, width) = prod(terms), y.shape

    def row(index: Indices) -> None:
        def added(start: Index, several: int, is_first: bool) -> None:
            def one(j: Index) -> None:
                at = (*index, j)
                offset = code.linear(at, y.shape)
                total = None if is_first else code.load(memory.pointer, offset, y.dtype)
                for k in range(several):
                    term = product(at, code.position(code.add(start, k), terms))
                    total = term if total is None else el.add(code, op, y.dtype, [total, term])
                code.store(total, memory.pointer, offset, y.dtype)

            code.loop(width, one)

        first = (count - 1) % TERMS + 1
        added(0, first, is_first=True)
        code.loop(
            (count - first) // TERMS,
            lambda block: added(code.add(code.scaled(block, TERMS), first), TERMS, is_first=False),
        )

    code.loops(outer, row)
    return memory
