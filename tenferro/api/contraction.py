"""`einsum` on standard ops, with contraction paths from opt_einsum.

Each pairwise step is at most: diagonals of repeated labels, sums over labels that only one operand
has, one `DotGeneral`, one transpose.

Source: NumPy's einsum syntax; opt_einsum (Smith and Gray, 2018, doi:10.21105/joss.00753).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tenferro.api.elementwise import multiply
from tenferro.api.linear import dot_general
from tenferro.api.manipulation import diagonal, expand_dims, permute_dims
from tenferro.api.promotion import broadcast_shapes, broadcast_to, convert, result_type
from tenferro.api.reductions import sum as sum_over
from tenferro.dims import is_static
from tenferro.errors import InvalidConfigError, ShapeError
from tenferro.exec.dispatch import apply, as_operand, spec_of
from tenferro.ops.structural import EmbedDiag
from tenferro.types import DType

__all__ = ["einsum"]

_TYPICAL_EXTENT = 32
"""What a symbolic extent counts as while a path is planned; any answer is right, some are faster."""


def einsum(subscripts: str, /, *operands: Any, optimize: Any = "auto") -> Any:
    """The sum over all labels that the output leaves out, of products of the operands' elements.

    Args:
        subscripts: NumPy's notation, such as "ij,jk->ik"; `...` stands for broadcast axes; without
            an arrow the output has the labels that occur once, in alphabetical order. A label
            repeated in an operand takes its diagonal; repeated in the output it embeds one.
        optimize: an opt_einsum optimiser, an explicit path, or False for left to right.

    Raises:
        InvalidConfigError: subscripts that cannot be read or do not match the operands.
        ShapeError: one label with two extents.

    >>> import numpy as np
    >>> einsum("ij,j->i", np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0]))
    array([3., 7.])
    """
    tensors = [as_operand(operand) for operand in operands]
    if not tensors:
        raise InvalidConfigError("einsum: needs at least one operand")
    inputs, output, tensors = _parse(subscripts, tensors)
    dtype = result_type(*tensors)
    counted = DType.I32 if dtype.is_bool else dtype
    tensors = [convert(tensor, counted) for tensor in tensors]
    extents = _extents(inputs, tensors, subscripts)
    distinct_output = "".join(dict.fromkeys(output))
    pending: list[tuple[str, Any]] = list(zip(inputs, tensors, strict=True))
    for step in _path(inputs, distinct_output, extents, optimize):
        taken = [pending.pop(index) for index in sorted(step, reverse=True)][::-1]
        others = (
            set(distinct_output).union(*(labels for labels, _ in pending))
            if pending
            else set(distinct_output)
        )
        pending.append(_contract_step(taken, others))
    ((labels, result),) = pending
    labels, result = _sum_away(labels, result, set(distinct_output))
    result = permute_dims(result, [labels.index(label) for label in distinct_output])
    result = _repeat_labels(result, distinct_output, output)
    return convert(result, dtype)


def _parse(subscripts: str, tensors: list[Any]) -> tuple[list[str], str, list[Any]]:
    """Labels of each operand and of the output, the ellipsis written out in labels of its own."""
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(tensors):
        raise InvalidConfigError(
            f"einsum: {subscripts!r} names {len(inputs)} operands, got {len(tensors)}"
        )
    for part in [*inputs, output]:
        plain = part.replace("...", "", 1)
        if not all(label.isalpha() for label in plain):
            raise InvalidConfigError(
                f"einsum: {part!r} in {subscripts!r} is not labels and one ..."
            )
    used = set(text)
    spare = [chr(code) for code in range(0x100, 0x200) if chr(code) not in used]
    widths = [
        len(tensor.shape) - len(part.replace("...", "")) if "..." in part else 0
        for part, tensor in zip(inputs, tensors, strict=True)
    ]
    for part, tensor, width in zip(inputs, tensors, widths, strict=True):
        if width < 0 or ("..." not in part and len(part) != len(tensor.shape)):
            raise InvalidConfigError(
                f"einsum: {part!r} does not label the axes of {spec_of(tensor)}"
            )
    widest = max(widths)
    dots = "".join(spare[:widest])
    if any("..." in part for part in inputs):
        tensors = _broadcast_ellipsis(inputs, tensors, widths, widest)
        inputs = [part.replace("...", dots) if "..." in part else part for part in inputs]
    if not arrow:
        counts = Counter("".join(inputs))
        output = dots + "".join(
            sorted(label for label in counts if counts[label] == 1 and label not in dots)
        )
    else:
        output = output.replace("...", dots)
    for label in output:
        if not any(label in part for part in inputs):
            raise InvalidConfigError(f"einsum: output label {label!r} is in no operand")
    return inputs, output, tensors


def _broadcast_ellipsis(
    inputs: list[str], tensors: list[Any], widths: list[int], widest: int
) -> list[Any]:
    """Give every operand with an ellipsis the same axes there."""
    slots = [part.index("...") if "..." in part else 0 for part in inputs]
    shape = broadcast_shapes(
        *(
            tensor.shape[slot : slot + width]
            for tensor, slot, width in zip(tensors, slots, widths, strict=True)
        )
    )
    result: list[Any] = []
    for part, tensor, slot, width in zip(inputs, tensors, slots, widths, strict=True):
        if "..." in part:
            if width < widest:
                tensor = expand_dims(tensor, axis=tuple(range(slot, slot + widest - width)))
            wanted = (*tensor.shape[:slot], *shape, *tensor.shape[slot + widest :])
            tensor = broadcast_to(tensor, wanted)
        result.append(tensor)
    return result


def _extents(inputs: Sequence[str], tensors: Sequence[Any], subscripts: str) -> dict[str, Any]:
    extents: dict[str, Any] = {}
    for part, tensor in zip(inputs, tensors, strict=True):
        for label, extent in zip(part, tensor.shape, strict=True):
            known = extents.setdefault(label, extent)
            if is_static(known) and is_static(extent) and known != extent:
                raise ShapeError(
                    f"einsum: label {label!r} of {subscripts!r} has extents {known} and {extent}"
                )
    return extents


def _path(
    inputs: list[str], output: str, extents: dict[str, Any], optimize: Any
) -> list[tuple[int, ...]]:
    """Which operands to contract at each step."""
    if len(inputs) == 1:
        return []
    if optimize is False or len(inputs) == 2:
        return [(0, 1)] * (len(inputs) - 1)
    import opt_einsum  # because importing it takes as long as NumPy

    shapes = [
        tuple(extents[label] if is_static(extents[label]) else _TYPICAL_EXTENT for label in part)
        for part in inputs
    ]
    equation = ",".join(inputs) + "->" + output
    path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=optimize)
    return [tuple(step) for step in path]


def _contract_step(taken: list[tuple[str, Any]], others: set[str]) -> tuple[str, Any]:
    """The product of the operands, with labels that nothing else needs summed over."""
    labels, tensor = taken[0]
    for next_labels, next_tensor in taken[1:]:
        labels, tensor = _pair(labels, tensor, next_labels, next_tensor, others)
    return labels, tensor


def _pair(a: str, lhs: Any, b: str, rhs: Any, others: set[str]) -> tuple[str, Any]:
    a, lhs = _sum_away(a, lhs, others | set(b))
    b, rhs = _sum_away(b, rhs, others | set(a))
    shared = [label for label in a if label in b]
    batch = [label for label in shared if label in others]
    contracted = [label for label in shared if label not in others]
    free_a = [label for label in a if label not in shared]
    free_b = [label for label in b if label not in shared]
    labels = "".join(batch + free_a + free_b)
    if not contracted and not free_a and not free_b:
        return a, multiply(lhs, permute_dims(rhs, [b.index(label) for label in a]))
    axes = [
        [side.index(label) for label in group] for group in (contracted, batch) for side in (a, b)
    ]
    return labels, dot_general(lhs, rhs, (axes[0], axes[1]), (axes[2], axes[3]))


def _sum_away(labels: str, tensor: Any, needed: set[str]) -> tuple[str, Any]:
    """Take diagonals of repeated labels and sum over those nobody needs."""
    while len(set(labels)) < len(labels):
        label = next(label for label in labels if labels.count(label) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        tensor = diagonal(tensor, axis1=first, axis2=second)
        kept = labels[:first] + labels[first + 1 : second] + labels[second + 1 :]
        labels = kept + label
    away = tuple(axis for axis, label in enumerate(labels) if label not in needed)
    if away:
        tensor = sum_over(tensor, axis=away, dtype=spec_of(tensor).dtype)
        labels = "".join(label for label in labels if label in needed)
    return labels, tensor


def _repeat_labels(tensor: Any, labels: str, output: str) -> Any:
    """Embed a diagonal for each further occurrence of a label in the output."""
    for place, label in enumerate(output):
        first = output.index(label)
        if place != first:
            axis = labels.index(label)
            tensor = apply(EmbedDiag(axis, len(labels)), tensor)
            labels += label
    if labels != output:
        order: list[int] = []
        for place, label in enumerate(output):
            occurrence = output[:place].count(label)
            axes = [axis for axis, other in enumerate(labels) if other == label]
            order.append(axes[occurrence])
        tensor = permute_dims(tensor, order)
    return tensor
