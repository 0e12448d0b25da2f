"""Derivative rules of extension families, and sets of rules for contexts.

Source: docs/specification/derivatives.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tenferro.dispatch import apply
from tenferro.errors import ADRuleUnsupportedError, DuplicateFamilyError, UnsupportedError
from tenferro.graph import Value
from tenferro.ops import StdTensorOp
from tenferro.ops.extension import Extension
from tenferro.rules.family_id import check_family_id

__all__ = ["ExtensionAdRule", "ExtensionRuleSet", "RuleBuilder", "has_role"]

Tangents = Sequence[Value | None]


class RuleBuilder:
    """Interface through which an extension's derivative rule emits ops."""

    __slots__ = ("emitter",)

    def __init__(self, emitter: Any) -> None:
        self.emitter = emitter

    def apply(self, op: Any, *inputs: Value) -> Any:
        """Apply a standard or extension op. Return its output, or a tuple if the op has several outputs."""
        outputs = apply(op if isinstance(op, StdTensorOp) else Extension(op), *inputs)
        return outputs[0] if len(outputs) == 1 else outputs


class ExtensionAdRule:
    """Derivative rules of one family. Subclasses override the methods that they support.

    The arguments and results of the methods are tensors of the graph, which have operators. None stands for the zero
    tangent of an inactive value. A rule may emit standard ops, and ops of other families that have rules. Tangents and
    cotangents must have the shape and dtype of the primal value.

    Attributes:
        family_id: the id of the family. A rule in an `ExtensionRuleSet` needs it; the rule of a `Family` does not.
    """

    family_id: str

    def linearize(
        self,
        op: Any,
        builder: RuleBuilder,
        primals: tuple[Value, ...],
        outputs: tuple[Value, ...],
        tangents: Tangents,
    ) -> Any:
        """Return the tangents of the outputs, as linear functions of `tangents`.

        The result is one value, or a tuple with one value per output.
        """
        raise ADRuleUnsupportedError(f"extension: {op.family_id}: no linearize rule")

    def transpose_rule(
        self,
        op: Any,
        builder: RuleBuilder,
        inputs: tuple[Value, ...],
        linear: tuple[bool, ...],
        cotangents: Tangents,
    ) -> Any:
        """Return the cotangents of the inputs; None for inputs that are not linear.

        Only the shape and dtype of a linear input may be used, because the input has no elements.
        """
        raise ADRuleUnsupportedError(f"extension: {op.family_id}: no transpose_rule")

    def batch_rule(
        self, op: Any, builder: RuleBuilder, inputs: tuple[Value, ...], batched: tuple[bool, ...]
    ) -> Any:
        """Return the outputs with a leading axis; `batched` is the mask of inputs that have one."""
        raise UnsupportedError(f"extension: {op.family_id}: no batch_rule")


def has_role(rule: ExtensionAdRule, role: str) -> bool:
    """Return whether a rule overrides the method named `role`.

    >>> has_role(ExtensionAdRule(), "linearize")
    False
    """
    return getattr(type(rule), role) is not getattr(ExtensionAdRule, role)


class ExtensionRuleSet(Mapping[str, ExtensionAdRule]):
    """Mapping from family ids to derivative rules; two sets are combined with `+`.

    Raises:
        DuplicateFamilyError: a family has two rules.
        MalformedFamilyIdError: an id is not `<package>.<name>.v<major>`.
    """

    def __init__(self, rules: Iterable[ExtensionAdRule] = ()) -> None:
        self._rules: dict[str, ExtensionAdRule] = {}
        for rule in rules:
            family_id = check_family_id(getattr(rule, "family_id", None))
            if family_id in self._rules:
                raise DuplicateFamilyError(f"family_id {family_id!r} already has a rule")
            self._rules[family_id] = rule

    def __add__(self, other: ExtensionRuleSet) -> ExtensionRuleSet:
        return ExtensionRuleSet([*self.values(), *other.values()])

    def __getitem__(self, family_id: str) -> ExtensionAdRule:
        return self._rules[family_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)
