"""Measurement of the effects of single decisions that rounding may flip.

A decision is an op on floats that returns integers, bools or whole numbers. Runs with pinned decisions round
differently, but keep all decisions. They show how much rounding alone changes an output. The change of a decision's
operands in these runs shows which of its elements may flip. Each of these elements is flipped in a separate run. An
output may then differ by the sum of any of the effects. If the effects were not separated, one element that may flip
would excuse errors in all other elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.exec.runtime.numpy_state import numpy_state
from tenferro.ops import StdTensorOp
from tenferro.program import GraphProgram
from xla_peer.parity.comparison import NO_ALTERNATIVES, Alternatives
from xla_peer.parity.confidence import SAFETY
from xla_peer.parity.sensitivity import (
    Kernel,
    Moved,
    Operands,
    Plain,
    Record,
    Together,
    changed_run,
    decides,
)

__all__ = ["WIDER", "Flipping", "flipping"]

AMPLIFIED = SAFETY / 2
"""Distance of operands from a tie within which a decision may flip; the unit is the operands' change by rounding."""
MOST_FLIPS = 64
"""Maximum number of elements that are flipped, each in a separate run."""
MOST_SUMS = 512
"""Maximum number of distinct sums of effects at an element of an output; with more, their whole range is allowed."""
WIDER = 16.0
"""Ratio of the bound from free runs to the bound from runs with pinned decisions, above which the second is used.

Above this ratio, flipped decisions rather than rounding make the first bound large.
"""


class Flips:
    """Elements of decisions that may flip, each with its alternative value.

    Attributes:
        values: alternative values by the number of the decision and the row-major position of the element.
    """

    def __init__(self) -> None:
        self.values: dict[tuple[int, int], Any] = {}

    def add(self, position: int, result: Any, other: Any) -> None:
        """Record the elements of a decision whose values in `result` and `other` differ.

        At most `MOST_FLIPS` + 1 elements are recorded, which suffices to see that there are too many.
        """
        (places,) = np.nonzero((other != result).ravel() & (other == other).ravel())
        for place in places[: MOST_FLIPS + 1].tolist():
            if len(self.values) > MOST_FLIPS:
                return
            self.values.setdefault((position, place), other.ravel()[place])


class Pinned(Moved):
    """Modified execution that rounds at random, but keeps the decisions of the run with ordinary rounding.

    It records in `flips` the elements of decisions that may flip.
    """

    def __init__(
        self, generator: np.random.Generator, platform: str, plain: Record, flips: Flips
    ) -> None:
        super().__init__(generator, platform)
        self.plain, self.flips = plain, flips

    def results(self, op: StdTensorOp, kernel: Kernel, operands: Operands) -> list[Any]:
        if not decides(op, operands):
            return super().results(op, kernel, operands)
        arrays, result = self.plain.entries[self.position]
        before = self._before_a_decision(operands)
        for times in (AMPLIFIED, -AMPLIFIED):
            moved = [_farther(x, y, times) for x, y in zip(arrays, before, strict=True)]
            with np.errstate(all="ignore"):
                (other,) = self._decided(op, kernel, operands, moved)
            self.flips.add(self.position, result, other)
        self.position += 1
        return [result]


class PinnedTogether(Pinned, Together):
    """Modified execution that increases all sums of many terms, but keeps the decisions of ordinary rounding."""


class Flipped(Plain):
    """Modified execution that flips one element of one decision."""

    def __init__(self, position: int, place: int, value: Any) -> None:
        self.flip, self.place, self.value = position, place, value
        self.position = 0

    def results(self, op: StdTensorOp, kernel: Kernel, operands: Operands) -> list[Any]:
        results = super().results(op, kernel, operands)
        if decides(op, operands):
            if self.position == self.flip:
                changed = results[0].copy()
                changed.ravel()[self.place] = self.value
                results = [changed]
            self.position += 1
        return results


@dataclass(frozen=True)
class Flipping:
    """Outputs of runs with pinned decisions, and of runs with one element of one decision flipped.

    Attributes:
        pinned: the outputs of a run with ordinary rounding, of runs that round at random, and of a run in which all
            sums are increased. All runs make the same decisions.
        flipped: the outputs of one run per element that may flip; None if there are more than `MOST_FLIPS`.
    """

    pinned: list[list[Any]]
    flipped: list[list[Any]] | None

    def alternatives(self, number: int, native: Any, limit: Any) -> tuple[Alternatives, Any]:
        """Return the alternative values of an output that flipped decisions cause, and the limits of its elements.

        An alternative value is the native value plus the sum of some effects. If an element has too many such sums,
        its limit is increased instead.

        Args:
            number, native: the index and the native value of the output.
            limit: the limit of each element without flips.
        """
        if not self.flipped:
            return NO_ALTERNATIVES, limit
        exact = native.dtype.kind in "biu"
        wide = np.dtype(object if native.dtype.itemsize == 8 and exact else np.float64)
        wide = np.dtype(np.complex128) if native.dtype.kind == "c" else wide
        plain = self.pinned[0][number].astype(wide).ravel()
        runs = [run[number].astype(wide).ravel() for run in self.flipped]
        effects = np.stack([run - plain for run in runs])
        is_finite = np.ones(effects.shape, bool) if exact else np.isfinite(effects)
        has_effect = is_finite & (np.abs(effects) > np.ravel(limit) / SAFETY)
        limit, places, values = np.array(limit), list[int](), list[Any]()
        for place in np.flatnonzero(has_effect.any(0)).tolist():
            sums = _sums(effects[has_effect[:, place], place], float(limit.ravel()[place]))
            if sums is None:
                reached = np.abs(effects[has_effect[:, place], place]).sum()
                limit.ravel()[place] += 0 if exact else float(reached)
                sums = list(effects[has_effect[:, place], place])
            places += [place] * len(sums)
            values += [plain[place] + each for each in sums]
        if not places:
            return NO_ALTERNATIVES, limit
        if native.dtype.kind in "iu":
            info = np.iinfo(native.dtype)
            kept = [number for number, y in enumerate(values) if info.min <= y <= info.max]
            places, values = [places[n] for n in kept], [values[n] for n in kept]
        return Alternatives(
            np.array(places, np.int64), np.array(values).astype(native.dtype)
        ), limit


def flipping(
    program: GraphProgram, leaves: Sequence[Any], plain: Record, runs: int, platform: str
) -> Flipping:
    """Run a program with pinned decisions, and with each element flipped that may flip.

    Args:
        plain: the complete record of the decisions of a run with ordinary rounding.
        runs: the number of runs with random rounding.
    """
    flips = Flips()
    _, run = changed_run(program, leaves, platform)
    with numpy_state():
        pinned = [run(change=Plain())]
        for seed in range(runs):
            pinned.append(run(change=Pinned(np.random.default_rng(seed), platform, plain, flips)))
        together = PinnedTogether(np.random.default_rng(runs), platform, plain, flips)
        pinned.append(run(change=together))
        if len(flips.values) > MOST_FLIPS:
            return Flipping(pinned, None)
        changes = [Flipped(*where, value) for where, value in flips.values.items()]
        return Flipping(pinned, [run(change=change) for change in changes])


@np.errstate(all="ignore")
def _farther(x: Any, y: Any, times: float) -> Any:
    """Return x + times * (y - x), and x where this is not finite."""
    if x.dtype.kind in "biu":
        return y
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    moved = x.astype(wide) + times * (y.astype(wide) - x.astype(wide))
    return np.where(np.isfinite(moved), moved, x).astype(x.dtype)


def _sums(effects: Any, limit: float) -> list[Any] | None:
    """Return the distinct sums of effects that exceed the limit; None if there are more than `MOST_SUMS` sums."""
    sums: list[Any] = [0]
    for effect in effects:
        sums = list(_distinct([*sums, *[each + effect for each in sums]], limit))
        if len(sums) > MOST_SUMS:
            return None
    return [each for each in sums if abs(each) > limit]


def _distinct(values: Sequence[Any], limit: float) -> Iterator[Any]:
    """Yield values that differ by more than a fraction of the limit."""
    last = None
    for value in sorted(values, key=lambda x: (x.real, x.imag)):
        if last is None or abs(value - last) > max(limit / SAFETY, EPS * abs(value)):
            yield value
            last = value


EPS = 4 * float(ml_dtypes.finfo(np.float64).eps)
"""Relative difference of sums that are equal up to rounding."""
