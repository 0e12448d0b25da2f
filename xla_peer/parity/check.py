"""`check_parity`: do both paths agree?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import tenferro as tnf
from tenferro.ad import AdContext
from tenferro.errors import InvalidConfigError
from tenferro.ops import elementwise as el
from tenferro.ops.reduction import ArgReduction
from tenferro.program import GraphProgram
from tenferro.types import flatten, unflatten
from xla_peer.executor import XlaExecutor
from xla_peer.notices import noticed
from xla_peer.parity.candidates import choices, counts_between, rivals
from xla_peer.parity.comparison import (
    Allowance,
    Alternatives,
    OutputParity,
    Tolerance,
    compare,
    explained,
    granted,
)
from xla_peer.parity.divergence import first_divergence, prefix
from xla_peer.parity.opinion import opinion
from xla_peer.parity.pending import pending_roundings
from xla_peer.parity.report import ParityReport
from xla_peer.parity.sensitivity import moved_outputs
from xla_peer.pullback import active, float_vjp

__all__ = ["check_parity", "limits"]

LOOKS = 32
"""Runs with roundings of their own, where the few that are always made tip a choice over."""
JUMPS = (el.Floor, el.Ceil, el.RoundNearestEven, el.RoundNearestAfz, el.Remainder)
"""Ops that make a step of a float of what rounding decides."""


def check_parity(
    fn_or_program: Callable[..., Any] | GraphProgram,
    *arrays: Any,
    executor: Any = None,
    grad: bool = False,
    ulps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    interpreter: bool | None = None,
    locate: bool = True,
    context: AdContext | None = None,
) -> ParityReport:
    """Run natively and through PJRT, and compare every element of every output.

    What may be apart is what rounding explains: each op may round a little differently
    (`xla_peer.parity.ROUNDING`), and how far that moves the results is measured on the program and the
    arrays at hand. Integers and bools must be equal, unless rounding tips them over.

    Args:
        fn_or_program: a function is traced on the arrays' shapes and dtypes.
        executor: where to run the other path; the CPU by default.
        grad: compare the gradients too, of the real part of the sum of the outputs, each weighted by
            numbers around one; a program without float inputs or outputs has none.
        ulps, rtol, atol: what is allowed in place of what rounding explains; any of those given suffices.
        interpreter: ask StableHLO's reference interpreter for a third opinion, in a process of its own;
            by default where the paths disagree and the program is small.
        locate: where the paths disagree, find the first op that parts.
        context: whose rules differentiate for `grad`.

    Raises:
        ArityError, DTypeError, ShapeError: arrays that do not fit.
        InvalidConfigError: a tolerance below zero, or without an end.

    >>> report = check_parity(lambda x: x * 2, np.arange(3.0))
    >>> report.ok, report.outputs[0].max_ulps
    (True, 0.0)
    """
    tolerance = _tolerance(ulps, rtol, atol)
    program = (
        fn_or_program
        if isinstance(fn_or_program, GraphProgram)
        else tnf.compile(fn_or_program, *arrays)
    )
    if grad:
        program = _with_gradient(program, arrays, context)
    peer = XlaExecutor() if executor is None else executor
    leaves = program.check_arguments(arrays)
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))

    def compared(part: GraphProgram, given: Sequence[Any]) -> tuple[OutputParity, ...]:
        arguments = unflatten(part.in_tree, given)
        native, _ = flatten(part.run(*arguments))
        other, _ = flatten(peer.run(part, *arguments))
        allowed = limits(part, given, native, tolerance)
        return tuple([
            compare(name, y, z, *allowance)
            for name, y, z, allowance in zip(
                part.output_names, native, other, allowed, strict=True
            )
        ])  # fmt: skip

    def judged(part: GraphProgram, given: Sequence[Any]) -> str:
        arguments = unflatten(part.in_tree, given)
        native, _ = flatten(part.run(*arguments))
        other, _ = flatten(peer.run(part, *arguments))
        return opinion(part, given, native, other, limits(part, given, native, tolerance))

    outputs = compared(static, leaves)
    agree = all(output.ok for output in outputs)
    asked = interpreter if interpreter is not None else not agree
    parted = None
    if locate and not agree:
        searching = f"looking for the first op of {program.name} that parts"
        with noticed(searching, "looked for it", getattr(peer, "notices", True)):
            parted = first_divergence(static, leaves, compared, judged)
    platform = getattr(peer, "platform", type(peer).__name__)
    return ParityReport(
        program=program.name,
        platform=platform,
        outputs=outputs,
        interpreter=judged(static, leaves) if asked else "",
        first_divergence=parted,
    )


def limits(
    program: GraphProgram,
    leaves: Sequence[Any],
    outputs: Sequence[Any],
    tolerance: Tolerance | None = None,
) -> list[Allowance]:
    """How far each element of each output may be apart, and what else it may be."""
    arrays = list(map(np.asarray, outputs))
    if tolerance is not None:
        return [granted(y, tolerance) for y in arrays]
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
    chosen = choices(static)
    slots = [*static.output_slots, *[choice.operand for choice in chosen]]
    runs_of, known = _runs(static, leaves, slots), pending_roundings(static)
    results = [*arrays, *[runs[0] for runs in runs_of[len(arrays) :]]]
    allowed = [
        explained(y, runs, known[slot].least_ulps(static.types[slot].dtype))
        for y, runs, slot in zip(results, runs_of, slots, strict=True)
    ]
    for number, choice in enumerate(chosen, len(arrays)):
        y, (limit, seen) = arrays[choice.output], allowed[choice.output]
        if isinstance(choice.op, ArgReduction):
            others = rivals(choice, runs_of[number][0], allowed[number].limit, y)
        else:
            others = counts_between(choice, runs_of[number], y)
        allowed[choice.output] = Allowance(limit, _joined(seen, others))
    return allowed[: len(arrays)]


def _runs(program: GraphProgram, leaves: Sequence[Any], slots: Sequence[int]) -> list[list[Any]]:
    """Of each slot, its values in runs that round differently; in more runs where these tip it over."""
    moved = moved_outputs(prefix(program, slots), leaves)
    runs_of = [list(runs) for runs in zip(*moved, strict=True)]
    jumps = any(isinstance(step.op, JUMPS) for step in program.instructions)
    tipping = [number for number, runs in enumerate(runs_of) if _tips_over(runs, jumps)]
    if tipping:
        moved = moved_outputs(prefix(program, [slots[number] for number in tipping]), leaves, LOOKS)
        for number, runs in zip(tipping, zip(*moved, strict=True), strict=True):
            runs_of[number] = list(runs)
    return runs_of


@np.errstate(all="ignore")
def _tips_over(runs: Sequence[Any], jumps: bool) -> bool:
    """A choice that differs between runs, or which elements are infinite or NaN; where the program `jumps`, a
    float that does so too.
    """
    first = runs[0]
    if first.dtype.kind in "biu":
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


def _tolerance(ulps: float | None, rtol: float | None, atol: float | None) -> Tolerance | None:
    given = {"ulps": ulps, "rtol": rtol, "atol": atol}
    for name, value in given.items():
        if value is not None and not 0 <= value < np.inf:
            raise InvalidConfigError(
                f"check_parity: {name} is a finite number of at least 0, got {value!r}"
            )
    if ulps is rtol is atol is None:
        return None
    return Tolerance(*[0.0 if value is None else value for value in given.values()])


def _with_gradient(
    program: GraphProgram, arrays: tuple[Any, ...], context: AdContext | None
) -> GraphProgram:
    """The program's result, and the gradient with respect to every float argument."""
    leaves = program.check_arguments(arrays)
    chosen = active(program.input_specs)
    seeds = np.random.default_rng(0)
    specs = program.specialize(program.bind([leaf.shape for leaf in leaves])).output_specs
    seeded = [specs[number] for number in active(specs)]
    if not chosen or not seeded:
        return program
    bars = [seeds.uniform(0.5, 1.5, spec.shape).astype(spec.dtype.dtype) for spec in seeded]

    def fn(*arguments: Any) -> Any:
        results, pull = float_vjp(program, flatten(arguments)[0], context)
        names = [program.input_names[number] for number in chosen]
        gradient = dict(zip(names, pull(tuple(bars)), strict=True))
        return {"value": unflatten(program.out_tree, results), "gradient": gradient}

    return tnf.compile(fn, *unflatten(program.in_tree, leaves), name=program.name)
