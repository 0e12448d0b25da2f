"""The derivative row of the carrier: it asks the context for the family's rule."""

from __future__ import annotations

from typing import Any

from tenferro.ad.extension_rule import ExtensionAdRule, RuleBuilder
from tenferro.ad.rule import AdRows, AdRule, Tangents, Values
from tenferro.errors import ADRuleUnsupportedError, InvalidConfigError
from tenferro.ops.extension import Extension

__all__ = ["ROWS"]


def rule_of(op: Extension, inputs: Values, kind: str) -> ExtensionAdRule:
    """The family's rule on the context that differentiates.

    Raises:
        ADRuleUnsupportedError: there is none.
    """
    rule = inputs[0].emitter.extension_rules.get(op.family_id)
    if rule is None:
        raise ADRuleUnsupportedError(
            f"extension: {op.family_id}: no {kind} rule; give an AdContext whose rule sets have an "
            "ExtensionAdRule of that family"
        )
    return rule


def counted(op: Extension, kind: str, found: Any, wanted: int) -> Tangents:
    """What a rule gave, of the right number.

    Raises:
        InvalidConfigError: it is not.
    """
    values = (found,) if not isinstance(found, tuple | list) else tuple(found)
    if len(values) != wanted:
        raise InvalidConfigError(
            f"extension: family_id={op.family_id}: {kind} gives {len(values)} values, expected "
            f"{wanted}; None stands for zero"
        )
    return values


def jvp(op: Extension, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """By the family's `linearize`."""
    rule = rule_of(op, inputs, "linearize")
    builder = RuleBuilder(inputs[0].emitter)
    found = rule.linearize(op.op, builder, inputs, outputs, tuple(tangents))
    return counted(op, "linearize", found, op.output_count)


def transpose(
    op: Extension, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """By the family's `transpose_rule`."""
    rule = rule_of(op, inputs, "transpose_rule")
    builder = RuleBuilder(inputs[0].emitter)
    found = rule.transpose_rule(op.op, builder, inputs, linear, tuple(y_bars))
    return counted(op, "transpose_rule", found, op.input_count)


def batch(op: Extension, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """By the family's `batch_rule`."""
    rule = rule_of(op, inputs, "batch_rule")
    builder = RuleBuilder(inputs[0].emitter)
    found = rule.batch_rule(op.op, builder, inputs, batched)
    return tuple(counted(op, "batch_rule", found, op.output_count))  # pyright: ignore[reportReturnType]


ROWS: AdRows = {Extension: AdRule(jvp, transpose, batch)}
