"""Derivatives of einsum, which is linear in each operand. Each transpose is again an einsum.

The cotangent x_bar_j[inputs[j]] is an einsum of y_bar[output] and the conjugates of the other operands. If a label
occurs only in x_j, an operand of ones with this label is added.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

from tenferro.ext.einsum.families import Einsum
from tenferro.ext.einsum.notation import spare_labels
from tenferro.ext.einsum.plan import unbounded
from tenferro.extension import ExtensionAdRule
from tenferro.extension.algebra import add, apply_one, conj, scalar
from tenferro.extension.ops import BroadcastInDim

__all__ = ["EinsumRule"]


class EinsumRule(ExtensionAdRule):
    """Derivative rule of einsum: the product rule."""

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        parts = [
            builder.apply(op, *primals[:i], x_dot, *primals[i + 1 :])
            for i, x_dot in enumerate(tangents)
            if x_dot is not None
        ]
        return reduce(add, parts, None)

    def transpose_rule(
        self, op: Any, builder: Any, inputs: Any, linear: Any, cotangents: Any
    ) -> Any:
        (y_bar,) = cotangents
        active = linear.index(True)
        x, own = inputs[active], op.inputs[active]
        terms = {i: part for i, part in enumerate(op.inputs) if i != active}
        bound = set(op.output).union(*terms.values())
        filled = [label for label in dict.fromkeys(own) if label not in bound]
        ones = [
            apply_one(BroadcastInDim((x.shape[own.index(label)],), ()), scalar(y_bar, 1))
            for label in filled
        ]
        labels = (op.output, *terms.values(), *filled)
        # The transpose has more operands, or an operand that shares labels with all other operands. If the op's
        # optimiser may take too long for it, "auto" plans the path instead.
        is_planned = isinstance(op.optimize, str) and not unbounded(op.optimize, labels, own)
        planned = op.optimize if is_planned else "auto"
        pulled = Einsum(labels, own, planned, op.precision)
        x_bar = builder.apply(pulled, y_bar, *[conj(inputs[i]) for i in terms], *ones)
        return tuple([x_bar if i == active else None for i in range(len(inputs))])

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        lead = next(spare_labels("".join(op.inputs)))
        labels = [
            lead + part if has else part for part, has in zip(op.inputs, batched, strict=True)
        ]
        moved = replace(op, inputs=tuple(labels), output=lead + op.output)
        return builder.apply(moved, *inputs)
