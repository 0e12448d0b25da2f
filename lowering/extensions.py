"""Lowerings of extension families that write StableHLO directly, by platform."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tenferro.errors import DuplicateFamilyError, InvalidConfigError
from tenferro.ops.extension import Extension
from tenferro.program import GraphProgram, family_count, family_of, registered_family
from tenferro.rules.family_id import check_family_id

__all__ = [
    "GPUS",
    "INLINE",
    "PLATFORMS",
    "lowering_of",
    "lowerings_in",
    "register_extension_lowering",
    "registration_count",
]

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
GPUS = ("cuda", "rocm")
INLINE = "inline"
"""Name of the pseudo-platform for compilers without custom calls."""

Rule = Callable[..., Any]
_RULES: dict[tuple[str, str | None], Rule] = {}
_LOCK = threading.Lock()
_REGISTERED: list[tuple[str, str | None]] = []
"""Family id and platform of every registration so far, in order; a replacement is appended, and nothing removed."""


def register_extension_lowering(
    family_id: str, rule: Rule, platform: str | None = None, *, replace: bool = False
) -> None:
    """Register `rule(op, writer, *operands)` as the lowering of a family, on one platform or on all.

    Rules of the platform "inline" apply if a program is lowered with `linalg="inline"`. They use only standard
    operations, for compilers without custom calls.

    The class of the writer is `lowering.writer.Writer`. `writer.op(name, *operands)` returns the result of an
    elementwise operation. `writer.op(name, *operands, result=spec, **attributes)` returns the result of any other
    operation with one result. `writer.operation` adds an operation with several results, or with regions, which
    `writer.region` creates. The rule returns one value or a tuple of values, which must have the types that the
    family's shape rule declares. The rule takes precedence over the family's expansion from the next run on, also in
    programs that an executor has already compiled.

    Raises:
        DuplicateFamilyError: the family already has a rule for the platform, and `replace` is not set.
        InvalidConfigError: the rule is not a function, or the platform is unknown.
        MalformedFamilyIdError: the id is not `<package>.<name>.v<major>`.
    """
    check_family_id(family_id)
    if platform not in (None, INLINE, *PLATFORMS):
        raise InvalidConfigError(
            f"register_extension_lowering: platform must be one of {(*PLATFORMS, INLINE)} or None for all, "
            f"got {platform!r}"
        )
    if not callable(rule):
        raise InvalidConfigError(
            f"register_extension_lowering: rule must be a function, got {rule!r:.60}"
        )
    with _LOCK:
        if (family_id, platform) in _RULES and not replace:
            raise DuplicateFamilyError(
                f"family_id {family_id!r} already has a lowering for {platform or 'every platform'}"
            )
        _RULES[family_id, platform] = rule
        _REGISTERED.append((family_id, platform))


def has_lowering(family_id: str, platform: str) -> bool:
    """Return whether the family with this id has a rule for the platform or for all platforms."""
    family = registered_family(family_id)
    return any([
        (family_id, target) in _RULES
        or (family is not None and family.lowering_for(target) is not None)
        for target in (platform, None)
    ])  # fmt: skip


def lowering_of(op: Extension, platform: str, linalg: str = "library") -> Rule | None:
    """Return the op's lowering for `platform`, or its lowering for all platforms, or None if it has neither.

    If `linalg` is "inline", a lowering for "inline" takes precedence. Lowerings that were registered separately take
    precedence over lowerings that are part of the op's family.
    """
    targets = [platform, None] if linalg == "library" else [INLINE, platform, None]
    for target in targets:
        if (op.family_id, target) in _RULES:
            return _RULES[op.family_id, target]
    family = family_of(op.op)
    rules = [None if family is None else family.lowering_for(target) for target in targets]
    return next((rule for rule in rules if rule is not None), None)


def lowerings_in(program: GraphProgram, platform: str, linalg: str = "library") -> tuple[Any, ...]:
    """Return the lowering of each extension op in a program, with None for an op without a lowering.

    The StableHLO text depends only on the program and these lowerings, so they are a key of compiled modules.
    """
    return tuple([lowering_of(op, platform, linalg) for op in program.extensions])


def registration_count() -> int:
    """Return the number of registrations of lowerings and families.

    While this number is constant, `lowering_of` returns the same lowering for the same arguments.
    """
    return len(_REGISTERED) + family_count()
