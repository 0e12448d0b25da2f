"""Relations between the elements of two tensors, and patterns of the dependence on input elements.

A pattern tells, for each element of a tensor, the set of input elements on which it depends. It is a boolean
`scipy.sparse.csr_array` with one row per element of the tensor, in row-major order, and one column per input element.
None is the empty pattern. A relation maps the pattern of an operand to the pattern of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from tenferro.errors import UnsupportedError

__all__ = [
    "MAX_NONZEROS",
    "SAME",
    "Groups",
    "Matrix",
    "Moves",
    "Pattern",
    "Relation",
    "Same",
    "identity",
    "kept",
    "stacked",
    "union",
]

Pattern: TypeAlias = Any
"""Boolean `scipy.sparse.csr_array`, or None if no element depends on an input."""
Index: TypeAlias = np.ndarray[Any, Any]

MAX_NONZEROS = 1 << 28
"""Maximum number of nonzeros of a pattern. Their indices then take 1 GiB."""


class Relation:
    """Relation between the elements of a result and the elements of an operand that the result reads."""

    def of(self, pattern: Pattern) -> Pattern:
        """Compute the pattern of the result from the pattern of the operand."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Same(Relation):
    """Relation of an op in which element i of the result reads element i of the operand."""

    def of(self, pattern: Pattern) -> Pattern:
        """Return the pattern of the operand, because the result has the same pattern."""
        return pattern


SAME = Same()


@dataclass(frozen=True, eq=False)
class Moves(Relation):
    """Relation in which element i of the result reads element index[i] of the operand, or none if the index is -1."""

    index: Index

    def of(self, pattern: Pattern) -> Pattern:
        """Select, for each element of the result, the row of the operand's pattern that it reads."""
        index = self.index
        if not pattern.shape[0]:
            return None
        starts, sizes = pattern.indptr[:-1], np.diff(pattern.indptr)
        counts = np.where(index >= 0, sizes[index], 0)
        ends = np.cumsum(counts, dtype=np.int64)
        total = int(ends[-1]) if ends.size else 0
        _require(total)
        first = ends - counts
        places = np.repeat(starts[index] - first, counts) + np.arange(total)
        return _pattern(pattern.indices[places], np.append(0, ends), (index.size, pattern.shape[1]))


@dataclass(frozen=True, eq=False)
class Groups(Relation):
    """Relation in which element i of the result reads all elements j of the operand with members[j] = index[i].

    Args:
        index: the group that each element of the result reads; None if element i reads group i.
        members: the group of each element of the operand.
        count: the number of groups.
    """

    index: Index | None
    members: Index
    count: int

    def of(self, pattern: Pattern) -> Pattern:
        """Unite the rows of the operand's pattern in each group."""
        size = self.members.size
        matrix = sp.csr_array(
            (np.ones(size, bool), (self.members, np.arange(size))), (self.count, size)
        )
        united = _product(matrix, pattern)
        return united if self.index is None else Moves(self.index).of(united)


@dataclass(frozen=True, eq=False)
class Matrix(Relation):
    """Relation in which element rows[k] of the result reads element columns[k] of the operand, for each k.

    Args:
        rows, columns: the numbers of the related elements in the result and in the operand.
    """

    rows: Index
    columns: Index
    shape: tuple[int, int]

    def of(self, pattern: Pattern) -> Pattern:
        """Multiply the relation, as a boolean matrix, by the operand's pattern."""
        entries = np.ones(self.rows.size, bool)
        return _product(sp.csr_array((entries, (self.rows, self.columns)), self.shape), pattern)


def _pattern(indices: Index, indptr: Index, shape: tuple[int, int]) -> Pattern:
    return sp.csr_array((np.ones(indices.size, bool), indices, indptr), shape)


def _product(matrix: Any, pattern: Pattern) -> Pattern:
    """Return the boolean product of two sparse matrices; None if it has no nonzeros."""
    sizes = np.diff(pattern.indptr).astype(np.float64)
    rows = np.minimum(matrix.astype(np.float64) @ sizes, pattern.shape[1])
    _require(rows.sum())
    return kept(matrix @ pattern)


def _require(nonzeros: float) -> None:
    if nonzeros > MAX_NONZEROS:
        raise UnsupportedError(
            f"sparsity: a pattern would have {int(nonzeros)} nonzeros; at most {MAX_NONZEROS} are supported. "
            "A derivative with so many nonzeros is dense: use jvp, vjp or hvp"
        )


def kept(pattern: Pattern) -> Pattern:
    """Return `pattern`; None if it has no nonzeros."""
    return pattern if pattern is not None and pattern.nnz else None


def identity(size: int, first: int, columns: int) -> Pattern:
    """Return the pattern of an input with `size` elements: its element i is input element first + i."""
    return _pattern(np.arange(first, first + size), np.arange(size + 1), (size, columns))


def union(*patterns: Pattern) -> Pattern:
    """Return the union of several patterns of one tensor."""
    total: Pattern = None
    for pattern in patterns:
        if pattern is None or pattern is total:
            continue
        total = pattern if total is None else total + pattern
    return total


def stacked(patterns: Sequence[Pattern], size: int, columns: int) -> Pattern:
    """Concatenate the rows of patterns of tensors with `size` elements each."""
    if all([pattern is None for pattern in patterns]):
        return None
    empty = sp.csr_array((size, columns), dtype=bool)
    blocks = [empty if pattern is None else pattern for pattern in patterns]
    return sp.csr_array(sp.vstack(blocks, format="csr"))
