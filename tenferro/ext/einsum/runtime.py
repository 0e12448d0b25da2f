"""Native execution of einsum: a path per shapes, and a program per path, both cached by the executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tenferro.ext.einsum.plan import PLANS, plan
from tenferro.extension import ExpansionRuntime, ExtensionCaches

__all__ = ["EinsumRuntime"]


class EinsumRuntime(ExpansionRuntime):
    """Plans a path for the operands' shapes, then runs the expansion."""

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """The contraction along the planned path."""
        shapes = tuple([x.shape for x in inputs])
        path = caches.store(PLANS).get(
            (op, shapes), lambda: plan(op.inputs, op.output, shapes, op.optimize)
        )
        return super().execute(replace(op, optimize=path), inputs, caches)
