"""Derivative rules of an op: tangent, transpose and batch.

    jvp(op, inputs, outputs, tangents) -> tangents      None stands for a zero tangent, in arguments and results
    transpose(op, inputs, linear, y_bars) -> x_bars     `linear` flags linear operands; only the others have elements
    batch(op, inputs, batched) -> outputs               `batched` flags operands with a leading axis; outputs have one

All derivatives, forward and reverse and of every order, follow from the jvp and transpose rules. The batch rule is
needed to compute the matrix of a linear function. An op that never computes a tangent needs no transpose rule.

Complex convention: the inner product is <a, b> = Re(conj(a) b). A JVP rule never conjugates; transposing
multiplication by c multiplies by conj(c).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tenferro.ad.algebra import Value, add, apply, apply_one, broadcast, zeros
from tenferro.errors import ADRuleUnsupportedError
from tenferro.ops import StdTensorOp

__all__ = [
    "AdRows",
    "AdRule",
    "Tangents",
    "TransposeRule",
    "batched_by",
    "bilinear",
    "elementwise_batch",
    "inactive",
    "jointly_linear",
    "jvp_only",
    "linear",
    "partials",
    "refused",
]

Values = tuple[Value, ...]
Tangents = Sequence[Value | None]
Jvp = Callable[[Any, Values, Values, Tangents], Tangents]
TransposeRule = Callable[[Any, Values, tuple[bool, ...], Tangents], Tangents]
BatchRule = Callable[[Any, Values, tuple[bool, ...]], Values]


@dataclass(frozen=True, slots=True)
class AdRule:
    """Derivative and batch rules of an op.

    `reason` says why a derivative does not exist. `is_linear` receives a mask of operands, and returns whether the op
    is jointly linear in these operands. `is_linear` is None if `transpose` accepts any mask.
    """

    jvp: Jvp | None
    transpose: TransposeRule | None = None
    batch: BatchRule | None = None
    reason: str = ""
    is_linear: Callable[[tuple[bool, ...]], bool] | None = None


AdRows = Mapping[type[StdTensorOp], AdRule]
"""Derivative rules, by op class."""


def inactive(reason: str) -> AdRule:
    """Return the rule of an op without derivatives: its outputs do not depend differentiably on an input."""
    return AdRule(None, reason=reason)


def refused(reason: str) -> AdRule:
    """Return the rule of an op that has derivatives but no rule for them: an active input raises an error."""

    def jvp(op: StdTensorOp, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
        raise ADRuleUnsupportedError(f"{op.name}: has no linearize rule, because {reason}")

    return AdRule(jvp, reason=reason)


def jvp_only(jvp: Jvp) -> AdRule:
    """Return the rule of an op that never computes a tangent, and therefore needs only a tangent rule."""
    return AdRule(jvp)


def partials(*derivatives: Callable[..., Value] | None) -> AdRule:
    """Return the rule of an elementwise op whose tangent is the sum of partial derivatives times tangents.

    Each partial derivative is a function of the inputs and the output, such as `lambda x, y: ...`. It is None for an
    input on which the output does not depend.
    """

    def jvp(op: StdTensorOp, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
        total = None
        for derivative, x_dot in zip(derivatives, tangents, strict=True):
            if x_dot is not None and derivative is not None:
                total = add(total, derivative(*inputs, *outputs) * x_dot)
        return (total,)

    return AdRule(jvp)


def elementwise_batch(op: StdTensorOp, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Apply an elementwise op to batched operands; operands without the leading axis are broadcast along it."""
    example = inputs[batched.index(True)]
    dims = range(1, example.rank)
    return apply(
        op,
        *[
            x if is_batched else broadcast(x, example, tuple(dims))
            for x, is_batched in zip(inputs, batched, strict=True)
        ],
    )


def batched_by(batch: BatchRule, rows: AdRows) -> dict[type[StdTensorOp], AdRule]:
    """Return a copy of `rows` in which rules without a batch rule get the batch rule `batch`."""
    return {
        card: rule if rule.batch is not None else replace(rule, batch=batch)
        for card, rule in rows.items()
    }


def linear(transpose: Callable[..., Value | None], batch: BatchRule = elementwise_batch) -> AdRule:
    """Return the rule of an op that is linear in its first operand: y_dot = op(x_dot, *others).

    `transpose(op, x, *others, y_bar)` returns x_bar. It may use only the shape and dtype of x, not its elements.
    """

    def jvp(op: StdTensorOp, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
        x_dot = tangents[0]
        return (None,) * len(outputs) if x_dot is None else apply(op, x_dot, *inputs[1:])

    def transpose_rule(
        op: StdTensorOp, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
    ) -> Tangents:
        x_bar = transpose(op, *inputs, y_bars[0])
        return (x_bar, *([None] * (len(inputs) - 1)))

    return AdRule(jvp, transpose_rule, batch, is_linear=lambda mask: not any(mask[1:]))


def jointly_linear(transpose: TransposeRule, batch: BatchRule, count: int | None = None) -> AdRule:
    """Return the rule of an op that is jointly linear in its first `count` operands, by default in all operands."""

    def jvp(op: StdTensorOp, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
        n = len(inputs) if count is None else count
        if all(x_dot is None for x_dot in tangents[:n]):
            return (None,)
        dots = [
            zeros(x) if x_dot is None else x_dot
            for x, x_dot in zip(inputs[:n], tangents, strict=False)
        ]
        return apply(op, *dots, *inputs[n:])

    is_linear = None if count is None else lambda mask: not any(mask[count:])
    return AdRule(jvp, transpose, batch, is_linear=is_linear)


def bilinear(
    lhs_transpose: Callable[..., Value], rhs_transpose: Callable[..., Value], batch: BatchRule
) -> AdRule:
    """Return the rule of an op that is linear in each of two operands: y_dot = op(lhs_dot, rhs) + op(lhs, rhs_dot).

    `lhs_transpose(op, lhs, rhs, y_bar)` returns lhs_bar. It may use only the shape and dtype of `lhs`. `rhs_transpose`
    is the analogous function for `rhs`.
    """

    def jvp(op: StdTensorOp, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
        (lhs, rhs), (lhs_dot, rhs_dot) = inputs, tangents
        total = None if lhs_dot is None else apply_one(op, lhs_dot, rhs)
        return (total if rhs_dot is None else add(total, apply_one(op, lhs, rhs_dot)),)

    def transpose_rule(
        op: StdTensorOp, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
    ) -> Tangents:
        (y_bar,) = y_bars
        assert y_bar is not None
        if linear[0]:
            return (lhs_transpose(op, *inputs, y_bar), None)
        return (None, rhs_transpose(op, *inputs, y_bar))

    return AdRule(jvp, transpose_rule, batch, is_linear=lambda mask: not all(mask))
