"""Rules of printing: it has no derivatives, and a batch prints one line per slice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenferro.ext.printing.families import DebugPrint
from tenferro.extension import ExtensionAdRule
from tenferro.extension.algebra import apply_one
from tenferro.extension.ops import BroadcastInDim

__all__ = ["DebugPrintRule"]


class DebugPrintRule(ExtensionAdRule):
    """Rule of `DebugPrint`: the output has no tangent."""

    family_id = DebugPrint.family_id

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return None

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        after, *values = inputs
        size = next(x.shape[0] for x, many in zip(inputs, batched, strict=True) if many)
        if any(batched[1:]):
            op = replace(op, batch_rank=op.batch_rank + 1)
            values = [
                x
                if many
                else apply_one(BroadcastInDim((size, *x.shape), tuple(range(1, x.rank + 1))), x)
                for x, many in zip(values, batched[1:], strict=True)
            ]
        printed = builder.apply(op, after, *values)
        return apply_one(BroadcastInDim((size,), ()), printed)
