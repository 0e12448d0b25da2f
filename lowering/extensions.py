"""Direct StableHLO of extension families, per platform."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tenferro.errors import DuplicateFamilyError, InvalidConfigError

__all__ = ["lowering_of", "register_extension_lowering"]

Rule = Callable[..., Any]
_RULES: dict[tuple[str, str | None], Rule] = {}
_LOCK = threading.Lock()


def register_extension_lowering(
    family_id: str, rule: Rule, platform: str | None = None, *, replace: bool = False
) -> None:
    """Write the ops of a family by `rule(op, writer, *operands)`, on one platform or on all.

    The rule for the platform "inline" is the one for `linalg="inline"`: standard statements alone, for
    compilers that know no custom call.

    The writer is the one the emitters use: `writer.op(name, *operands, result=spec)` and its kin
    give values; the rule gives one value, or a tuple, of the declared types. It comes before the
    family's expansion.

    Raises:
        DuplicateFamilyError: there is a rule for that family and platform, and `replace` is not set.
        InvalidConfigError: the rule is no function.
    """
    if not callable(rule):
        raise InvalidConfigError(
            f"register_extension_lowering: rule is a function, got {rule!r:.60}"
        )
    with _LOCK:
        if (family_id, platform) in _RULES and not replace:
            raise DuplicateFamilyError(
                f"family_id {family_id!r} already has a lowering for {platform or 'every platform'}"
            )
        _RULES[family_id, platform] = rule


def lowering_of(family_id: str, platform: str, linalg: str = "library") -> Rule | None:
    """The rule for that platform, else the one for all; if `linalg` is "inline", that one first."""
    places = [platform, None] if linalg == "library" else ["inline", platform, None]
    return next((_RULES[family_id, p] for p in places if (family_id, p) in _RULES), None)
