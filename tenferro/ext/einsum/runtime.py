"""Native execution of einsum. The executor caches a path for each tuple of shapes, and a program for each path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tenferro.ext.einsum.plan import PLANS, plan
from tenferro.extension import ExtensionCaches, ExtensionRuntime

if TYPE_CHECKING:
    from tenferro.extension import ExpansionRuntime

__all__ = ["EinsumRuntime"]


class EinsumRuntime(ExtensionRuntime):
    """Runtime of einsum: plans a path for the operands' shapes, then runs the op's expansion along the path."""

    order = "K"

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    @cached_property
    def _expansion(self) -> ExpansionRuntime:
        from tenferro.extension import ExpansionRuntime  # because it loads the executor

        return ExpansionRuntime(self.family_id)

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Plan a path for the shapes, or look it up, and contract the operands along the path."""
        shapes = tuple([x.shape for x in inputs])
        path = caches.store(PLANS).get(
            (op, shapes), lambda: plan(op.inputs, op.output, shapes, op.optimize)
        )
        return self._expansion.execute(replace(op, optimize=path), inputs, caches)

    def compiles_expansion(self, op: Any) -> bool:
        """Return True: only the expansion is executed."""
        return True
