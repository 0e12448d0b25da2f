"""Conditions on extents that cannot be decided during tracing. They are recorded, and checked at run time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenferro.dims.extent import Extent, UpperBound, is_exact
from tenferro.dims.parsing import parse_dim
from tenferro.dims.symdim import Dim
from tenferro.errors import GuardError, InvalidConfigError

__all__ = ["RELATIONS", "Guard", "GuardLog", "load_guards", "save_guards"]

MOST_GUARDS = 100_000
"""Maximum number of guards in a file."""

RELATIONS: Mapping[str, Any] = {
    "==": lambda lhs, rhs: lhs == rhs,
    ">=": lambda lhs, rhs: lhs >= rhs,
    "is 1 or": lambda lhs, rhs: lhs in (1, rhs),
    "divisible by": lambda lhs, rhs: rhs >= 1 and lhs % rhs == 0,
}


@dataclass(frozen=True, slots=True)
class Guard:
    """Condition `lhs relation rhs` on extents; `reason` names the op and the axis that require it.

    >>> from tenferro.dims import SymDim, Symbol
    >>> Guard(SymDim("n"), "==", 3, "Add: axis 0").check({Symbol("n"): 4})
    Traceback (most recent call last):
        ...
    tenferro.errors.GuardError: Add: axis 0 needs n == 3, got 4 and 3
    """

    lhs: Dim
    relation: str
    rhs: Dim
    reason: str
    source: str | None = field(default=None, compare=False)

    def check(self, bindings: Mapping[Any, int]) -> None:
        """Raise `GuardError` if the guard does not hold; the message contains the values of both extents."""
        lhs, rhs = (
            side if isinstance(side, int) else side.evaluate(bindings)
            for side in (self.lhs, self.rhs)
        )
        if not RELATIONS[self.relation](lhs, rhs):
            raise GuardError(
                f"{self.reason} needs {self.lhs} {self.relation} {self.rhs}, got {lhs} and {rhs}"
            ).at(self.source)

    def __str__(self) -> str:
        return f"{self.lhs} {self.relation} {self.rhs}  ({self.reason})"


def save_guards(guards: Iterable[Guard]) -> list[Any]:
    """Convert guards to values that JSON can represent."""
    return [
        [str(guard.lhs), guard.relation, str(guard.rhs), guard.reason, guard.source]
        for guard in guards
    ]


def load_guards(saved: Sequence[Any]) -> tuple[Guard, ...]:
    """Load the guards that `save_guards` saved.

    Raises:
        InvalidConfigError: a relation is unknown, `lhs` or `rhs` is not an extent, or there are too many guards.

    >>> load_guards([["n", "==", "m*2", "Add: axis 0", None]])
    (Guard(lhs=n, relation='==', rhs=m*2, reason='Add: axis 0', source=None),)
    """
    if len(saved) > MOST_GUARDS:
        raise InvalidConfigError(f"load: {len(saved)} guards, at most {MOST_GUARDS}")
    return tuple([_loaded(*entry) for entry in saved])


def _loaded(lhs: str, relation: str, rhs: str, reason: str, source: str | None) -> Guard:
    if relation not in RELATIONS:
        raise InvalidConfigError(
            f"load: a guard's relation must be one of {', '.join(RELATIONS)}, got {relation!r:.60}"
        )
    line = None if source is None else str(source)
    return Guard(parse_dim(lhs), relation, parse_dim(rhs), str(reason), line)


@dataclass(slots=True, eq=False)
class GuardLog:
    """Log of the guards that shape inference requires. Equal guards are recorded once.

    Data-dependent extents (`UpperBound`, `UNKNOWN`) cannot be guarded before the run. Instead, the kernel of the op
    compares the actual extents of the arrays.
    """

    guards: dict[Guard, Guard] = field(default_factory=dict[Guard, Guard], init=False)

    def require(self, lhs: Extent, relation: str, rhs: Extent, reason: str) -> None:
        """Record the guard `lhs relation rhs`."""
        if is_exact(lhs) and is_exact(rhs):
            guard = Guard(lhs, relation, rhs, reason)  # type: ignore[arg-type]  # because both are exact
            self.guards.setdefault(guard, guard)

    def carry(self, guard: Guard, bindings: Mapping[Any, Any]) -> None:
        """Add a guard of an inner program to this trace, after replacing its symbols by `bindings`.

        If both extents then are numbers, the guard is checked at once.

        Raises:
            GuardError: the guard does not hold.
        """
        sides = [
            side if isinstance(side, int) else side.evaluate(bindings)
            for side in (guard.lhs, guard.rhs)
        ]
        if all([isinstance(side, int) for side in sides]):
            guard.check(bindings)
        elif sides[0] != sides[1] or guard.relation not in ("==", ">=", "<="):
            carried = Guard(sides[0], guard.relation, sides[1], guard.reason, guard.source)
            self.guards.setdefault(carried, carried)

    def meet(self, lhs: Extent, rhs: Extent, reason: str) -> Extent | None:
        """Return the common extent of `lhs` and `rhs`, or None if they cannot be equal.

        Add a guard if values decide that.

        >>> log = GuardLog()
        >>> log.meet(3, 3, ""), log.meet(3, 4, "")
        (3, None)
        """
        if lhs is rhs or lhs == rhs:
            return lhs
        if isinstance(lhs, int) and isinstance(rhs, int):
            return None
        if not is_exact(lhs):
            return lhs if isinstance(lhs, UpperBound) and not is_exact(rhs) else rhs
        if not is_exact(rhs):
            return lhs
        difference = lhs - rhs
        if isinstance(difference, int):
            return None
        self.require(lhs, "==", rhs, reason)
        return rhs if isinstance(rhs, int) else lhs
