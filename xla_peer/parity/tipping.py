"""Decisions that rounding may flip, one element at a time, and their effects on the outputs.

Runs that keep the decisions of the unchanged run show how far rounding alone moves an output. The movement of a
decision's operands in these runs shows which of its elements may flip. Each of these elements is flipped in a
separate run. An output may then differ by the sum of some of the effects. Without this, one element that may
flip would excuse errors in all others.
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

__all__ = ["WIDER", "Tipping", "tipping"]

AMPLIFIED = SAFETY / 2
"""Distance from a tie within which a decision may flip, as a multiple of its operands' movement."""
MOST_FLIPS = 64
"""Maximum number of elements that are flipped, each in a separate run."""
MOST_SUMS = 512
"""Maximum number of distinct sums of effects at one element of an output. If there are more, their range is allowed."""
WIDER = 16.0
"""Ratio of the bound with flips to the bound with pinned decisions, above which flips are said to cause the bound."""


class Flips:
    """Elements of decisions that may flip, each with its alternative value."""

    def __init__(self) -> None:
        self.values: dict[tuple[int, int], Any] = {}

    def add(self, position: int, result: Any, other: Any) -> None:
        """Record the elements of a decision that may flip, up to one more than `MOST_FLIPS`."""
        (places,) = np.nonzero((other != result).ravel() & (other == other).ravel())
        for place in places[: MOST_FLIPS + 1].tolist():
            if len(self.values) > MOST_FLIPS:
                return
            self.values.setdefault((position, place), other.ravel()[place])


class Pinned(Moved):
    """Change that rounds differently, but keeps the decisions of the unchanged run."""

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
    """Change that moves all sums of many terms up, but keeps the decisions of the unchanged run."""


class Flipped(Plain):
    """Change that flips one element of one decision."""

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
class Tipping:
    """Outputs of runs with pinned decisions, and of runs with one element of one decision flipped.

    Attributes:
        pinned: the outputs of the unchanged run, of runs that round at random, and of a run in which all sums
            move up.
        flipped: the outputs of one run per element that may flip; None if there are more than `MOST_FLIPS`.
    """

    pinned: list[list[Any]]
    flipped: list[list[Any]] | None

    def alternatives(self, number: int, native: Any, limit: Any) -> tuple[Alternatives, Any]:
        """Return the sums of effects of flips on an output's elements, and limits for elements with too many sums."""
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


def tipping(
    program: GraphProgram, leaves: Sequence[Any], plain: Record, runs: int, platform: str
) -> Tipping:
    """Run a program with flipped decisions; its record of decisions must be complete."""
    flips = Flips()
    _, run = changed_run(program, leaves, platform)
    with numpy_state():
        pinned = [run(change=Plain())]
        for seed in range(runs):
            pinned.append(run(change=Pinned(np.random.default_rng(seed), platform, plain, flips)))
        together = PinnedTogether(np.random.default_rng(runs), platform, plain, flips)
        pinned.append(run(change=together))
        if len(flips.values) > MOST_FLIPS:
            return Tipping(pinned, None)
        changes = [Flipped(*where, value) for where, value in flips.values.items()]
        return Tipping(pinned, [run(change=change) for change in changes])


@np.errstate(all="ignore")
def _farther(x: Any, y: Any, times: float) -> Any:
    """Move x towards y by a multiple of their distance."""
    if x.dtype.kind in "biu":
        return y
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    moved = x.astype(wide) + times * (y.astype(wide) - x.astype(wide))
    return np.where(np.isfinite(moved), moved, x).astype(x.dtype)


def _sums(effects: Any, limit: float) -> list[Any] | None:
    """Return the distinct sums of one or more effects; None if there are more than `MOST_SUMS`."""
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
