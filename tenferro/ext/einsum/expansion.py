"""An einsum as standard ops, which contract operands in pairs.

Contracting a pair needs at most three kinds of ops: diagonals of repeated labels, sums over labels that only one of the
operands has, and one `DotGeneral`. The result is transposed once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.extension.algebra import apply_one
from tenferro.extension.ops import (
    Convert,
    DotGeneral,
    EmbedDiag,
    ExtractDiag,
    Multiply,
    ReduceSum,
    Transpose,
)
from tenferro.types import DType

__all__ = ["expand"]

Labelled = tuple[str, Any]
"""Operand: the labels of its axes, and its value."""


def expand(
    inputs: Sequence[str], output: str, path: Sequence[Sequence[int]], values: Any, precision: str | None
) -> Any:  # fmt: skip
    """Evaluate the einsum of `values`, with products of a precision.

    Each entry of `path` lists the positions of the operands that a step contracts.
    """
    dtype = DType.of(values[0].dtype)
    counted = DType.I32 if dtype.is_bool else dtype
    pending = [
        (labels, _converted(value, counted)) for labels, value in zip(inputs, values, strict=True)
    ]
    output_labels = "".join(dict.fromkeys(output))
    for step in path:
        operands = [pending[i] for i in step]
        pending = [entry for i, entry in enumerate(pending) if i not in step]
        needed = set(output_labels).union(*(labels for labels, _ in pending))
        product = operands[0]
        for position, operand in enumerate(operands[1:], 2):
            later = set().union(*(labels for labels, _ in operands[position:]))
            product = _pair(product, operand, needed | later, precision)
        pending.append(product)
    ((labels, value),) = [_summed(entry, set(output_labels)) for entry in pending]
    value = _ordered(value, [labels.index(label) for label in output_labels])
    return _converted(_embedded(value, output_labels, output), dtype)


def _pair(left: Labelled, right: Labelled, needed: set[str], precision: str | None) -> Labelled:
    """Multiply two operands, and sum over labels that no later step needs."""
    left = _summed(left, needed | set(right[0]))
    right = _summed(right, needed | set(left[0]))
    (a, lhs), (b, rhs) = left, right
    batch = [label for label in a if label in b and label in needed]
    summed = [label for label in a if label in b and label not in needed]
    if not summed and len(batch) == len(a) == len(b):
        return a, apply_one(Multiply(), lhs, _ordered(rhs, [b.index(x) for x in a]))
    lhs_summed, rhs_summed = (tuple([side.index(x) for x in summed]) for side in (a, b))
    lhs_batch, rhs_batch = (tuple([side.index(x) for x in batch]) for side in (a, b))
    op = DotGeneral(lhs_summed, rhs_summed, lhs_batch, rhs_batch, precision)
    free = [label for label in a if label not in b] + [label for label in b if label not in a]
    return "".join(batch + free), apply_one(op, lhs, rhs)


def _summed(operand: Labelled, needed: set[str]) -> Labelled:
    """Extract diagonals of repeated labels, then sum over labels that no later step needs."""
    labels, value = operand
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first, last = labels.index(label), labels.rindex(label)
            value = apply_one(ExtractDiag(first, last), value)
            labels = labels[:last] + labels[last + 1 :]
    away = tuple([axis for axis, label in enumerate(labels) if label not in needed])
    if away:
        value = apply_one(ReduceSum(away), value)
        labels = "".join([label for label in labels if label in needed])
    return labels, value


def _embedded(value: Any, labels: str, output: str) -> Any:
    """Write a diagonal for each label that `output` repeats, and transpose the axes to the order of `output`."""
    for position, label in enumerate(output):
        if label in output[:position]:
            value = apply_one(EmbedDiag(labels.index(label), len(labels)), value)
            labels += label
    axes = {
        label: [i for i, axis_label in enumerate(labels) if axis_label == label] for label in labels
    }
    return _ordered(value, [axes[label].pop(0) for label in output])


def _ordered(value: Any, perm: Sequence[int]) -> Any:
    return value if list(perm) == sorted(perm) else apply_one(Transpose(tuple(perm)), value)


def _converted(value: Any, dtype: DType) -> Any:
    same = DType.of(value.dtype) is dtype
    return value if same else apply_one(Convert(dtype), value)
