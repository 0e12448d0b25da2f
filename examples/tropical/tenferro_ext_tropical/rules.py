"""Derivatives of the fused product, which are the derivatives of the selected terms.

Source: seed 000, section 14.
"""

from __future__ import annotations

from typing import Any

from tenferro.extension import ExtensionAdRule, ExtensionRuleSet
from tenferro.extension.algebra import (
    Value,
    add,
    apply_one,
    broadcast,
    compare,
    convert,
    lead_all,
    reduce_sum,
    take_along,
)
from tenferro.extension.ops import BroadcastInDim

__all__ = ["ProductRule", "shared_ties"]


class ProductRule(ExtensionAdRule):
    """y_dot[m, n] = x1_dot[m, k] + x2_dot[k, n], where k is the selected term, the first of several equal terms.

    For the algebra max_times, each tangent is multiplied by the other operand's element.
    """

    family_id = "tenferro-ext-tropical.fused_matmul.v1"

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (x1, x2), (x1_dot, x2_dot), winner = primals, tangents, outputs[1]
        rows, columns = winner.rank - 1, winner.rank - 2

        def left(x: Value) -> Value:
            return take_along(x, winner, rows)

        def right(x: Value) -> Value:
            return take_along(x, winner, columns)

        first = None if x1_dot is None else left(x1_dot)
        second = None if x2_dot is None else right(x2_dot)
        if op.algebra == "max_times":
            first = None if first is None else first * right(x2)
            second = None if second is None else left(x1) * second
        return add(first, second), None

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        return builder.apply(op, *lead_all(inputs, batched))


class SharedRule(ProductRule):
    """y_dot[m, n] = the mean of x1_dot[m, k] + x2_dot[k, n] over all k whose term equals y[m, n]."""

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (x1, x2), (x1_dot, x2_dot), y = primals, tangents, outputs[0]
        batch = y.rank - 2
        whole = (*x1.shape, x2.shape[-1])
        rows, columns = tuple(range(batch + 2)), (*range(batch), batch + 1, batch + 2)

        def left(x: Value) -> Value:
            return apply_one(BroadcastInDim(whole, rows), x)

        def right(x: Value) -> Value:
            return apply_one(BroadcastInDim(whole, columns), x)

        times = op.algebra == "max_times"
        every = left(x1) * right(x2) if times else left(x1) + right(x2)
        reached = broadcast(y, every, (*range(batch + 1), batch + 2))
        wins = convert(compare(every, "EQ", reached), y.dtype)
        count = reduce_sum(wins, (batch + 1,))
        share = wins / broadcast(count, every, (*range(batch + 1), batch + 2))
        first = None if x1_dot is None else left(x1_dot)
        second = None if x2_dot is None else right(x2_dot)
        if times:
            first = None if first is None else first * right(x2)
            second = None if second is None else left(x1) * second
        total = add(first, second)
        return None if total is None else reduce_sum(share * total, (batch + 1,)), None


def shared_ties() -> ExtensionRuleSet:
    """Return rules for an `AdContext` by which equal terms share the derivative; by default the first gets it."""
    return ExtensionRuleSet([SharedRule()])
