"""`ExpansionRuntime`: runs the ops of an extension family as programs of standard ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.exec.plan import NATIVE, Binder
from tenferro.exec.plan.finish import finish
from tenferro.exec.printer import Runner
from tenferro.ops.extension import Extension
from tenferro.passes import NATIVE_PASSES
from tenferro.program import ExtensionCacheKey, ExtensionCaches, ExtensionRuntime, expansion_of
from tenferro.types import DType, TensorSpec

__all__ = ["ExpansionRuntime"]


class ExpansionRuntime(ExtensionRuntime):
    """Runtime that executes an op's expansion, the program that its `lower_to_standard_ops` writes.

    The executor's caches store the schedules under `ExtensionCacheKey(family_id, "programs")`, by op and input types.

    >>> ExpansionRuntime("example.identity.v1").family_id
    'example.identity.v1'
    """

    order = "K"

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id
        self._programs = ExtensionCacheKey(family_id, "programs")

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        carrier = Extension(op)
        specs = tuple([TensorSpec.of(x.shape, DType.of(x.dtype)) for x in inputs])

        def compiled() -> Runner:
            program = expansion_of(carrier, specs, keep=lambda family: False)
            return Runner(finish(Binder(passes=NATIVE_PASSES, plan=NATIVE).schedule(program), "K"))

        return caches.store(self._programs).get((carrier, specs), compiled)(inputs)

    def compiles_expansion(self, op: Any) -> bool:
        return True
