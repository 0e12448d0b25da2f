"""The two ways to run a program that are compared, and the allowed differences of their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tenferro.facts import Fact, ops_with
from tenferro.ops import elementwise as el
from tenferro.ops.reduction import ArgReduction
from tenferro.program import GraphProgram
from tenferro.types import DType, flatten, unflatten
from xla_peer.isolated import IsolatedExecutor
from xla_peer.known_faults import known_fault
from xla_peer.parity.candidates import bit_patterns, choices, counts_between, rivals
from xla_peer.parity.comparison import (
    Allowance,
    Alternatives,
    OutputParity,
    Tolerance,
    beyond,
    compare,
    explained,
    granted,
)
from xla_peer.parity.confidence import CONFIDENCE, decision_runs, in_words, rounding_runs
from xla_peer.parity.divergence import prefix
from xla_peer.parity.flipping import WIDER, Flipping, flipping
from xla_peer.parity.iterations import native_outputs
from xla_peer.parity.opinion import Opinion, opinion
from xla_peer.parity.pending import Pending, may_jump, pending_roundings
from xla_peer.parity.proven import proven_limits
from xla_peer.parity.sensitivity import Record, moved_outputs
from xla_peer.parity.ulps import modulus

__all__ = ["NativeAndPeer", "compared", "limits"]

JUMPS = ops_with(Fact.WHOLE) | {el.Remainder}
"""Ops whose result is a float that jumps if rounding flips a decision, such as a rounding to an integer."""


@dataclass(frozen=True)
class NativeAndPeer:
    """The two ways to run a program, natively and by another executor, with the rules for comparing their results.

    Attributes:
        peer: the other executor.
        tolerance: the user's tolerance, which replaces the bound of rounding.
        is_proven: whether the bound of rounding is proven, not sampled.
        confidence: confidence of the estimate; see `confidence`.
    """

    peer: Any
    tolerance: Tolerance | None = None
    is_proven: bool = False
    confidence: float = CONFIDENCE

    def outputs(self, program: GraphProgram, leaves: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Run a program natively and by the peer, and return both outputs."""
        return native_outputs(program, leaves), self.peer_outputs(program, leaves)

    def peer_outputs(self, program: GraphProgram, leaves: Sequence[Any]) -> list[Any]:
        """Run a program by the peer, and return the leaves of its result as arrays."""
        results, _ = flatten(self.peer.run(program, *unflatten(program.in_tree, leaves)))
        return list(map(np.asarray, results))

    def limits(
        self, program: GraphProgram, leaves: Sequence[Any], native: Sequence[Any]
    ) -> list[Allowance]:
        """Compute the allowed distances of the peer's outputs from the native outputs."""
        if self.is_proven and self.tolerance is None:
            return proven_limits(program, leaves, native)
        return limits(program, leaves, native, self.tolerance, self.confidence, self.platform)

    @property
    def platform(self) -> str:
        """The platform of the peer; by default the CPU."""
        return getattr(self.peer, "platform", "cpu")

    @property
    def is_isolated(self) -> bool:
        """Whether the peer runs in a separate process."""
        return isinstance(self.peer, IsolatedExecutor)

    @property
    def known_faults(self) -> tuple[str, ...]:
        """A note on known faults of the installed jaxlib on the peer's platform; empty if there are none."""
        fault = known_fault(getattr(self.peer, "platform", ""))
        return (fault,) if fault else ()

    @property
    def bound_in_words(self) -> str:
        """Origin of the bound: proven, or sampled with a confidence; empty for a user's tolerance."""
        if self.tolerance is not None:
            return ""
        return "proven" if self.is_proven else in_words(self.confidence)

    def compared(self, program: GraphProgram, leaves: Sequence[Any]) -> tuple[OutputParity, ...]:
        """Compare the outputs of both paths."""
        native, peer = self.outputs(program, leaves)
        return compared(program, native, peer, self.limits(program, leaves, native))

    def agree(self, program: GraphProgram, leaves: Sequence[Any]) -> bool:
        """Return whether all outputs agree within their bounds, which are computed only if any bits differ."""
        native, peer = self.outputs(program, leaves)
        if all([y.tobytes() == z.tobytes() for y, z in zip(native, peer, strict=True)]):
            return True
        allowed = self.limits(program, leaves, native)
        return not any([output.outside for output in compared(program, native, peer, allowed)])

    def opinion(self, program: GraphProgram, leaves: Sequence[Any]) -> Opinion:
        """Compare the reference interpreter's result with both paths, and decide which path is wrong."""
        native, peer = self.outputs(program, leaves)
        return opinion(program, leaves, native, peer, self.limits(program, leaves, native))


def compared(
    program: GraphProgram, native: Sequence[Any], other: Sequence[Any], allowed: Sequence[Allowance]
) -> tuple[OutputParity, ...]:
    """Compare each native output of a program with the same output of the other path."""
    return tuple([
        compare(name, y, z, *allowance)
        for name, y, z, allowance in zip(program.output_names, native, other, allowed, strict=True)
    ])  # fmt: skip


def limits(
    program: GraphProgram,
    leaves: Sequence[Any],
    outputs: Sequence[Any],
    tolerance: Tolerance | None = None,
    confidence: float = CONFIDENCE,
    platform: str = "cpu",
) -> list[Allowance]:
    """Compute, for each output, the allowed distances of its elements, and alternative values of some elements.

    Args:
        outputs: the native outputs.
        tolerance: the user's tolerances, which replace the bound of rounding.
        confidence: the confidence of the bound, which determines the number of runs.
        platform: the platform of the other path, whose rounding the runs simulate.
    """
    arrays = list(map(np.asarray, outputs))
    if tolerance is not None:
        return [granted(y, tolerance) for y in arrays]
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
    chosen = choices(static)
    slots = [*static.output_slots, *[choice.operand for choice in chosen]]
    tips = may_jump(static)
    record = Record() if tips else None
    runs_of = _runs(static, leaves, slots, confidence, platform, record)
    pending = pending_roundings(static, platform=platform)
    results = [*arrays, *[runs.values[0] for runs in runs_of[len(arrays) :]]]
    allowed = [
        explained(
            y, runs.values, pending[slot].least_ulps(static.types[slot].dtype), runs.drawn, tips
        )
        for y, runs, slot in zip(results, runs_of, slots, strict=True)
    ]
    if record is not None and record.has_flipped and record.is_complete:
        drawn = rounding_runs(confidence)
        flips = flipping(prefix(static, slots), leaves, record, drawn, platform)
        allowed = [
            _with_flips(number, y, flips, drawn, runs, allowance, least)
            for number, (y, runs, allowance, least) in enumerate(
                zip(results, runs_of, allowed, _least(static, slots, pending), strict=True)
            )
        ]
    for number, choice in enumerate(chosen, len(arrays)):
        y, (limit, seen, *_) = arrays[choice.output], allowed[choice.output]
        if isinstance(choice.op, ArgReduction):
            others = rivals(choice, runs_of[number].values[0], allowed[number].limit, y)
        else:
            others = counts_between(choice, runs_of[number].values, y)
        allowed[choice.output] = Allowance(limit, _joined(seen, others))
    return [
        allowance._replace(are_bits=are_bits)
        for allowance, are_bits in zip(allowed, bit_patterns(static), strict=False)
    ]


def _least(program: GraphProgram, slots: Sequence[int], pending: Sequence[Pending]) -> list[float]:
    """Return the difference of each slot that is always allowed, in units in the last place."""
    return [pending[slot].least_ulps(program.types[slot].dtype) for slot in slots]


@np.errstate(all="ignore")
def _with_flips(
    number: int,
    native: Any,
    flips: Flipping,
    drawn: int,
    runs: _Runs,
    allowance: Allowance,
    least: float,
) -> Allowance:
    """Compute allowed values of an output from runs with pinned decisions, and add the effects of flipped decisions."""
    if native.dtype.kind in "biu":
        others, _ = flips.alternatives(number, native, allowance.limit)
        return allowance._replace(alternatives=_joined(allowance.alternatives, others))
    pinned = explained(native, [run[number] for run in flips.pinned], least, drawn, False)
    is_wider = allowance.limit > WIDER * pinned.limit
    limit = np.where(is_wider, pinned.limit, allowance.limit)
    others, limit = flips.alternatives(number, native, limit)
    if flips.flipped is None:
        reach = np.max([modulus(run - runs.values[0]) for run in runs.values], axis=0)
        limit = np.where(is_wider & np.isfinite(reach), limit + 2 * reach, limit)
    reached = beyond(native, runs.values, limit)
    joined = _joined(_joined(allowance.alternatives, reached), others)
    return allowance._replace(limit=limit, alternatives=joined)


class _Runs(NamedTuple):
    """Values of one slot in several runs.

    Attributes:
        values: the value in a run with ordinary rounding, in `drawn` runs with random rounding, and in further runs.
        drawn: the number of runs with random rounding.
    """

    values: list[Any]
    drawn: int


def _runs(
    program: GraphProgram,
    leaves: Sequence[Any],
    slots: Sequence[int],
    confidence: float,
    platform: str,
    record: Record | None = None,
) -> list[_Runs]:
    """Return the values of each slot in runs that round differently.

    For slots in which rounding flips a decision, the number of runs is increased.
    """
    drawn = rounding_runs(confidence)
    moved = moved_outputs(prefix(program, slots), leaves, drawn, platform, record)
    runs_of = [_Runs(list(runs), drawn) for runs in zip(*moved, strict=True)]
    jumps = any(type(step.op) in JUMPS for step in program.instructions)
    flipping = [
        number for number, runs in enumerate(runs_of) if _flips_decision(runs.values, jumps)
    ]
    if flipping:
        drawn = decision_runs(confidence)
        moved = moved_outputs(
            prefix(program, [slots[n] for n in flipping]), leaves, drawn, platform
        )
        for number, runs in zip(flipping, zip(*moved, strict=True), strict=True):
            runs_of[number] = _Runs(list(runs), drawn)
    return runs_of


@np.errstate(all="ignore")
def _flips_decision(runs: Sequence[Any], jumps: bool) -> bool:
    """Return whether a decision, or the set of infinite or NaN elements, differs between runs.

    If `jumps` is set, a jump of a float counts as a difference, too.
    """
    first = runs[0]
    if DType.of(first.dtype).kind in "biu":
        return any((run != first).any() for run in runs[1:])
    kinds = [np.where(np.isfinite(run), 0, run) for run in runs]
    if not all(np.array_equal(kind, kinds[0], equal_nan=True) for kind in kinds[1:]):
        return True
    near = float(np.sqrt(ml_dtypes.finfo(first.real.dtype).eps))
    return jumps and any((np.abs(run - first) > near * np.abs(first)).any() for run in runs[1:])


def _joined(one: Alternatives, other: Alternatives) -> Alternatives:
    if not len(one.places):
        return other
    places, values = zip(one, other, strict=True)
    return Alternatives(np.concatenate(places), np.concatenate(values))
