"""Native execution of einsum. The executor caches one path per tuple of shapes, and one program per path."""

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
    """Runtime of einsum.

    It plans a path for the shapes of the operands, then runs the op's expansion along that path.
    """

    order = "K"

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    @cached_property
    def _expansion(self) -> ExpansionRuntime:
        from tenferro.extension import ExpansionRuntime  # because it loads the executor

        return ExpansionRuntime(self.family_id)

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Contract the operands along a path, which is planned for their shapes or found in the cache."""
        shapes = tuple([x.shape for x in inputs])
        path = caches.store(PLANS).get(
            (op, shapes), lambda: plan(op.inputs, op.output, shapes, op.optimize)
        )
        return self._expansion.execute(replace(op, optimize=path), inputs, caches)

    def compiles_expansion(self, op: Any) -> bool:
        """Return True, because `execute` also runs the expansion, so the results are bitwise equal."""
        return True
