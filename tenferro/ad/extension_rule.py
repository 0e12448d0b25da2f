"""Derivative rules of extension families, and the sets of them that a context owns.

Source: seed 003, "Implementing An Extension Op"; seed 000, section 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tenferro.ad.algebra import Value, convert, emit, full, reduce_sum, zeros
from tenferro.errors import ADRuleUnsupportedError, DuplicateFamilyError, UnsupportedError
from tenferro.ops import StdTensorOp
from tenferro.ops.extension import Extension
from tenferro.rules.family_id import check_family_id
from tenferro.types import DType

__all__ = ["ExtensionAdRule", "ExtensionRuleSet", "RuleBuilder"]

Tangents = Sequence[Value | None]


class RuleBuilder:
    """What a rule writes ops with; values have operators, and numbers take their shape and dtype."""

    __slots__ = ("emitter",)

    def __init__(self, emitter: Any) -> None:
        self.emitter = emitter

    def apply(self, op: Any, *inputs: Value) -> Any:
        """The output of an op, standard or extension; a tuple when it has several."""
        carrier = op if isinstance(op, StdTensorOp) else Extension(op)
        made = self.emitter.emit_all(carrier, *[x.handle for x in inputs])
        values = tuple(Value(self.emitter, handle) for handle in made)
        return values[0] if len(values) == 1 else values

    def zeros_like(self, x: Value) -> Value:
        """Zeros of that type; only where a rule cannot do with None."""
        return zeros(x)

    def full_like(self, x: Value, number: Any) -> Value:
        """A number in that shape and dtype."""
        return full(x, number)

    def convert(self, x: Value, dtype: DType) -> Value:
        """X in another dtype."""
        return convert(x, dtype)

    def reduce_sum_all(self, x: Value) -> Value:
        """The sum of all elements, the cotangent of a scalar that was broadcast."""
        return reduce_sum(x, range(x.rank))

    def emit(self, op: StdTensorOp, *inputs: Value) -> Value:
        """The one output of a standard op."""
        return emit(op, *inputs)


class ExtensionAdRule:
    """The derivatives of one family; derive from it and override what there is.

    Values in and out are tensors of the graph with operators; None is a zero tangent, an inactive
    one, and must stay None. A rule emits standard ops, and ops of families that have rules. What it
    gives must have the shape and dtype of what it is a tangent or cotangent of.

    Attributes:
        family_id: whose ops it differentiates.
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
        """Tangents of the outputs, linear in `tangents`; one value, or a tuple, one per output."""
        raise ADRuleUnsupportedError(f"extension: {self.family_id}: no linearize rule")

    def transpose_rule(
        self,
        op: Any,
        builder: RuleBuilder,
        inputs: tuple[Value, ...],
        linear: tuple[bool, ...],
        cotangents: Tangents,
    ) -> Any:
        """Cotangents of the inputs, None for those that are not linear.

        Of a linear input only type, shape and dtype may be used.
        """
        raise ADRuleUnsupportedError(f"extension: {self.family_id}: no transpose_rule rule")

    def batch_rule(
        self, op: Any, builder: RuleBuilder, inputs: tuple[Value, ...], batched: tuple[bool, ...]
    ) -> Any:
        """The outputs with a leading axis, given inputs of which some have one."""
        raise UnsupportedError(f"extension: {self.family_id}: no batch_rule rule")


class ExtensionRuleSet(Mapping[str, ExtensionAdRule]):
    """Rules by family; sets are added with `+`.

    Raises:
        DuplicateFamilyError: two rules of one family.
        MalformedFamilyIdError: an id that is not `<package>.<name>.v<major>`.
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
