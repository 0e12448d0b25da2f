"""`require`: the function by which shape rules of extensions state conditions on extents, which may be symbols."""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from tenferro.dims import Extent, GuardLog, SymDim, Unknown, UpperBound, at_least, is_exact
from tenferro.errors import InvalidConfigError, ShapeError

__all__ = ["inferring", "require"]

_INFERENCE: ContextVar[tuple[str, GuardLog] | None] = ContextVar("inference", default=None)
"""The op whose types are being inferred, as errors name it, and the log of guards for its conditions."""


def _equal(lhs: Any, rhs: Any) -> bool | None:
    difference = lhs - rhs
    return difference == 0 if isinstance(difference, int) else None


def _divisible(lhs: Any, rhs: Any) -> bool | None:
    if isinstance(rhs, int) and rhs < 1:
        return False
    remainder = lhs % rhs
    return remainder == 0 if isinstance(remainder, int) else None


DECIDED: Mapping[str, Callable[[Any, Any], bool | None]] = {
    "==": _equal,
    ">=": at_least,
    "divisible by": _divisible,
}


@contextmanager
def inferring(op: str, guards: GuardLog) -> Generator[None]:
    """Return a context in which `require` names `op` in errors and adds guards to `guards`."""
    token = _INFERENCE.set((op, guards))
    try:
        yield
    finally:
        _INFERENCE.reset(token)


def _extent(entry: Any) -> Any:
    """Return an extent; a NumPy integer is converted to an int."""
    if isinstance(entry, SymDim | UpperBound | Unknown):
        return entry
    if hasattr(entry, "__index__") and not isinstance(entry, bool | np.bool_):
        return operator.index(entry)
    if is_exact(entry) and not isinstance(entry, int):
        return entry
    raise InvalidConfigError(
        f"require: extents must be integers, symbols, and arithmetic of them, got {entry!r:.60}"
    )


def require(lhs: Extent, relation: str, rhs: Extent, what: str) -> None:
    """Require a relation between two extents. Call this function in the method `infer_output_meta` of an extension op.

    Numbers are compared at once. If the result depends on symbols, a guard is added to the program. A guard is checked
    when the program runs, names the line of the user's code, and is saved in files and artifacts. Data-dependent
    extents are compared when the op runs.

    Args:
        lhs, rhs: extents, as in a shape: numbers, symbols, or arithmetic expressions of these.
        relation: "==", ">=" or "divisible by".
        what: a description of the extents for the error message.

    Raises:
        ShapeError: the relation cannot hold.
        InvalidConfigError: `relation` is unknown, `lhs` or `rhs` is not an extent, or symbols are compared outside of
            `infer_output_meta`.

    >>> require(8, "divisible by", 4, "rows of x0")
    >>> require(2, "==", 3, "rows and columns of x0")
    Traceback (most recent call last):
        ...
    tenferro.errors.ShapeError: rows and columns of x0 needs 2 == 3
    """
    if relation not in DECIDED:
        raise InvalidConfigError(
            f"require: the relation must be one of {', '.join(DECIDED)}, got {relation!r:.60}"
        )
    lhs, rhs = _extent(lhs), _extent(rhs)
    if not (is_exact(lhs) and is_exact(rhs)):
        return  # because a data-dependent extent is compared when the op runs, with the numbers of actual arrays
    holds = DECIDED[relation](lhs, rhs)
    if holds:
        return
    inference = _INFERENCE.get()
    reason = what if inference is None else f"{inference[0]}: {what}"
    if holds is False:
        raise ShapeError(f"{reason} needs {lhs} {relation} {rhs}")
    if inference is None:
        raise InvalidConfigError(
            f"require: {reason} needs {lhs} {relation} {rhs}, which a program checks when it runs; "
            "call this in infer_output_meta, while a program is traced"
        )
    inference[1].require(lhs, relation, rhs, reason)
