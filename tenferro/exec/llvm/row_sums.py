"""Sums of rows, whose innermost loop is along a row, so that LLVM vectorises it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.code import Element, Index
from tenferro.exec.llvm.folding import Indices
from tenferro.exec.llvm.tensor import Body, Memory
from tenferro.types import TensorSpec

__all__ = ["sum_rows"]

UNROLLED_TERMS = 8
"""Number of terms that are added to an element's partial sum between its load and its store."""


def sum_rows(
    body: Body,
    op: Any,
    y: TensorSpec,
    extents: Sequence[int],
    term: Callable[[Indices, Indices], Element],
) -> Memory:
    """Write the rows of y as sums of rows, and return the memory of y; each pass over a row adds a few terms.

    Args:
        extents: the extents of the axes that are summed over.
        term: the function that writes a term, for the index of an element of y and the index of the term.
    """
    code, memory = body.code, body.result(y)
    count, (*outer, width) = prod(extents), y.shape

    def sum_row(index: Indices) -> None:
        def add_terms(start: Index, terms: int, is_first: bool) -> None:
            def element(j: Index) -> None:
                position = (*index, j)
                offset = code.ravel_index(position, y.shape)
                total = None if is_first else code.load(memory.pointer, offset, y.dtype)
                for k in range(terms):
                    x = term(position, code.unravel_index(code.add(start, k), extents))
                    total = x if total is None else el.add(code, op, y.dtype, [total, x])
                code.store(total, memory.pointer, offset, y.dtype)

            code.loop(width, element)

        first = (count - 1) % UNROLLED_TERMS + 1
        add_terms(0, first, is_first=True)
        code.loop(
            (count - first) // UNROLLED_TERMS,
            lambda block: add_terms(
                code.add(code.scaled(block, UNROLLED_TERMS), first), UNROLLED_TERMS, is_first=False
            ),
        )

    code.loops(outer, sum_row)
    return memory
