"""Derivative rules of extension ops.

The rule of the context takes precedence over the rule of the op's family. An op without either is differentiated by
its expansion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.ad import derived
from tenferro.ad.algebra import Value
from tenferro.ad.extension_rule import ExtensionAdRule, RuleBuilder, has_role
from tenferro.ad.rule import AdRows, AdRule, Tangents, Values
from tenferro.errors import (
    ADRuleUnsupportedError,
    DTypeError,
    DuplicateFamilyError,
    InvalidConfigError,
    ShapeError,
    TenferroError,
)
from tenferro.interruption import is_interruption
from tenferro.ops.extension import Extension
from tenferro.program import family_of
from tenferro.types import TensorSpec

__all__ = ["ROWS"]


def rule_of(op: Extension, inputs: Values, role: str) -> Callable[..., Any] | None:
    """Return the method of the rule that differentiates `op`; None if its expansion must be differentiated instead.

    The context's rule takes precedence over the rule of the family.

    Args:
        role: the name of the method of `ExtensionAdRule`: "linearize", "transpose_rule" or "batch_rule".

    Raises:
        ADRuleUnsupportedError: the context and the family have no rule, and the op does not set `from_expansion`.
        DuplicateFamilyError: the family defines its batch rule twice, as `batch` and as a method of `rules`.
    """
    for rule in (inputs[0].emitter.extension_rules.get(op.family_id), _of_family(op, role)):
        if rule is not None and has_role(rule, role):
            return getattr(rule, role)
    family = family_of(op.op)
    if role == "batch_rule" and family is not None and family.batch is not None:
        return family.batch
    if getattr(op.op, "from_expansion", False):
        return None
    rule_name = role if role.endswith("_rule") else f"{role} rule"
    raise ADRuleUnsupportedError(
        f"extension: {op.family_id}: no {rule_name}; its family has none, and neither has the AdContext: "
        "give an ExtensionAdRule to one of them, or set from_expansion on the op"
    )


def _of_family(op: Extension, role: str) -> ExtensionAdRule | None:
    family = family_of(op.op)
    if family is None or family.rules is None:
        return None
    is_twice = family.batch is not None and has_role(family.rules, role)
    if role == "batch_rule" and is_twice:
        raise DuplicateFamilyError(
            f"extension: {op.family_id}: its family has two batch rules, batch and batch_rule of rules"
        )
    return family.rules


def called(
    rule: Callable[..., Any], op: Extension, kind: str, emitter: Any, *arguments: Any
) -> Any:
    """Call a rule with these arguments and return its result.

    Raises:
        TenferroError: the rule raised this error; the message gets the name of the family.
        InvalidConfigError: the rule raised an error of another class.
    """
    where = f"extension: family_id={op.family_id}: {kind} of {op.op}"
    try:
        return rule(op.op, RuleBuilder(emitter), *arguments)
    except TenferroError as error:
        if op.family_id not in str(error):
            error.args = (f"{where}: {error.text()}", *error.args[1:])
        raise
    except Exception as error:
        if is_interruption(error):
            raise
        raise InvalidConfigError(f"{where} failed: {type(error).__name__}: {error}") from error


def checked(
    op: Extension, kind: str, emitter: Any, result: Any, types: Sequence[TensorSpec | None]
) -> Any:
    """Check the values that a rule returned, and return them as a tuple.

    Args:
        types: the required type of each value; None if the value is not used.

    Raises:
        InvalidConfigError: the number of values is wrong, or a result is not a `Value` of this graph.
        DTypeError, ShapeError: a value has a wrong type.
    """
    where = f"extension: family_id={op.family_id}: {kind} of {op.op}"
    values = tuple(result) if isinstance(result, tuple | list) else (result,)
    zero, what = ZERO_AND_NAME[kind]
    if len(values) != len(types):
        raise InvalidConfigError(
            f"{where} gives {len(values)} values, expected {len(types)}{zero and '; ' + zero}"
        )
    for index, (value, expected) in enumerate(zip(values, types, strict=True)):
        if expected is None or (value is None and zero):
            continue
        if not isinstance(value, Value) or value.emitter is not emitter:
            raise InvalidConfigError(
                f"{where}: {what} {index} must be a Value made in this call{zero and '; ' + zero}, "
                f"got {value!r:.60}"
            )
        require_type(f"{where}: {what} {index}", value, expected)
    return values


ZERO = "None stands for zero"
ZERO_AND_NAME = {
    "linearize": (ZERO, "tangent"),
    "transpose_rule": (ZERO, "cotangent"),
    "batch_rule": ("", "output"),
}
"""Texts for error messages, by the name of the rule: a hint about None, and a name for the values returned."""


def require_type(where: str, value: Value, expected: TensorSpec) -> None:
    """Require that `value` has the type `expected`.

    Symbolic extents that may be equal are compared by guards, at run time.

    Raises:
        DTypeError, ShapeError: the value has another type.
    """
    actual = value.type
    if actual == expected:
        return
    if actual.dtype is not expected.dtype:
        raise DTypeError(f"{where} must be {expected}, got {actual}")
    guards = value.emitter.graph.guards
    met = [
        guards.meet(a, b, f"{where}: axis {axis}")
        for axis, (a, b) in enumerate(zip(actual.shape, expected.shape, strict=False))
    ]
    if actual.rank != expected.rank or None in met:
        raise ShapeError(f"{where} must be {expected}, got {actual}")


def jvp(op: Extension, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Return the tangents of the outputs, by the rule `linearize` or, without a rule, by the op's expansion."""
    rule, emitter = rule_of(op, inputs, "linearize"), inputs[0].emitter
    if rule is None:
        return derived.tangents(op, inputs, tangents)
    result = called(rule, op, "linearize", emitter, inputs, outputs, tuple(tangents))
    types = [y.type if y.dtype.is_inexact else None for y in outputs]
    return checked(op, "linearize", emitter, result, types)


def transpose(
    op: Extension, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """Return the cotangents of the inputs, by the rule `transpose_rule` or, without a rule, by the op's expansion."""
    rule, emitter = rule_of(op, inputs, "transpose_rule"), inputs[0].emitter
    if rule is None:
        return derived.cotangents(op, inputs, linear, y_bars)
    result = called(rule, op, "transpose_rule", emitter, inputs, linear, tuple(y_bars))
    types = [x.type if is_linear else None for x, is_linear in zip(inputs, linear, strict=True)]
    return checked(op, "transpose_rule", emitter, result, types)


def batch(op: Extension, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Return the batched outputs, by the rule `batch_rule` or, without a rule, by the op's expansion."""
    rule, emitter = rule_of(op, inputs, "batch_rule"), inputs[0].emitter
    if rule is None:
        return derived.batches(op, inputs, batched)
    result = called(rule, op, "batch_rule", emitter, inputs, batched)
    size = inputs[batched.index(True)].shape[0]
    slices = [
        TensorSpec.of(x.shape[1:], x.dtype) if has else x.type
        for x, has in zip(inputs, batched, strict=True)
    ]
    types = [TensorSpec.of((size, *spec.shape), spec.dtype) for spec in op.infer(*slices)]
    return checked(op, "batch_rule", emitter, result, types)


ROWS: AdRows = {Extension: AdRule(jvp, transpose, batch)}
