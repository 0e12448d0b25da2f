"""Tropical contractions of tensors: two operands at a time, by a fused matrix product or by broadcasting."""

from __future__ import annotations

import math
from typing import Any

import tenferro as tnf
from tenferro.errors import InvalidConfigError
from tenferro_ext_tropical.algebras import MAX_PLUS, Algebra
from tenferro_ext_tropical.matmul import matmul

__all__ = ["einsum"]


def einsum(subscripts: str, *operands: Any, algebra: Algebra = MAX_PLUS) -> Any:
    """Contract tensors: combine elements by times, and reduce by plus over all labels that the output does not name.

    >>> import numpy as np
    >>> einsum("ij,jk->ik", np.array([[0.0, 5.0]]), np.array([[1.0], [2.0]]))
    array([[7.]])

    Raises:
        InvalidConfigError: `subscripts` has no arrow, or does not match the number and ranks of the operands.
    """
    left, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != len(operands):
        raise InvalidConfigError(
            f"tropical einsum: {subscripts!r} needs an arrow, and names {len(terms)} operands; got "
            f"{len(operands)}"
        )
    for term, x in zip(terms, operands, strict=True):
        if len(term) != len(x.shape) or len(set(term)) != len(term):
            raise InvalidConfigError(
                f"tropical einsum: {term!r} must label each axis of {tuple(x.shape)} once"
            )
    labels, result = terms[0], operands[0]
    for place, (term, x) in enumerate(zip(terms[1:], operands[1:], strict=True), 2):
        needed = set(output).union(*terms[place:])
        labels, result = _pair(algebra, labels, result, term, x, needed)
    labels, result = _reduced(algebra, labels, result, set(output))
    return tnf.permute_dims(result, tuple(labels.index(label) for label in output))


def _pair(algebra: Algebra, a: str, x: Any, b: str, y: Any, needed: set[str]) -> tuple[str, Any]:
    a, x = _reduced(algebra, a, x, needed | set(b))
    b, y = _reduced(algebra, b, y, needed | set(a))
    batch = [label for label in a if label in b and label in needed]
    inner = [label for label in a if label in b and label not in needed]
    rows = [label for label in a if label not in b]
    columns = [label for label in b if label not in a]
    extents = dict(zip(a + b, (*x.shape, *y.shape), strict=True))

    def grouped(labels: str, tensor: Any, groups: list[list[str]]) -> Any:
        tensor = tnf.permute_dims(tensor, tuple(labels.index(i) for group in groups for i in group))
        sizes = [math.prod(extents[label] for label in group) for group in groups]
        return tnf.reshape(tensor, tuple(sizes))

    made = "".join(batch + rows + columns)
    shape = tuple(extents[label] for label in made)
    left = grouped(a, x, [batch, rows, inner])
    right = grouped(b, y, [batch, inner, columns])
    if inner:
        return made, tnf.reshape(matmul(left, right, algebra), shape)
    return made, tnf.reshape(algebra.combine(left, right), shape)


def _reduced(algebra: Algebra, labels: str, x: Any, needed: set[str]) -> tuple[str, Any]:
    away = tuple(axis for axis, label in enumerate(labels) if label not in needed)
    if not away:
        return labels, x
    kept = "".join(label for label in labels if label in needed)
    return kept, algebra.reduce(x, axis=away)
