"""Batch rule of random bits, which computes words for many keys at once. Integers have no derivatives."""

from __future__ import annotations

from typing import Any

from tenferro.extension import ExtensionAdRule
from tenferro.extension.algebra import apply_one
from tenferro.extension.ops import BroadcastInDim

__all__ = ["ThreefryRule"]


class ThreefryRule(ExtensionAdRule):
    """Batch rule of Threefry. The op itself accepts a batch of keys with a batch of words."""

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        size = next(x.shape[0] for x, many in zip(inputs, batched, strict=True) if many)
        spread = [
            x
            if many
            else apply_one(BroadcastInDim((size, *x.shape), tuple(range(1, x.rank + 1))), x)
            for x, many in zip(inputs, batched, strict=True)
        ]
        return builder.apply(op, *spread)
