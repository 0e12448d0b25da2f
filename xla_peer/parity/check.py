"""`check_parity`, which compares native results with the results of XLA or another implementation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.ad import AdContext
from tenferro.errors import InvalidConfigError, PeerEndedError, TenferroError
from tenferro.program import GraphProgram
from tenferro.types import flatten, unflatten
from xla_peer.isolated import isolated_peer
from xla_peer.notices import noticed
from xla_peer.parity.budget import LOCATE_SECONDS, Budget
from xla_peer.parity.collectives import wrong_collective
from xla_peer.parity.comparison import Allowance, OutputParity, Tolerance, compare
from xla_peer.parity.confidence import CONFIDENCE, required_confidence
from xla_peer.parity.contenders import Contender, original_outputs
from xla_peer.parity.decisions import decisions
from xla_peer.parity.definitions import by_definition
from xla_peer.parity.divergence import Divergence, alone, first_divergence, shown, values_of
from xla_peer.parity.endings import Ending, ending_of_text, first_ending
from xla_peer.parity.explanations import explain
from xla_peer.parity.interpreter import interpreted
from xla_peer.parity.iterations import native_outputs
from xla_peer.parity.matching import first_difference
from xla_peer.parity.opinion import NATIVE, PEER, Opinion, opinion
from xla_peer.parity.original import OriginalWitness, divergence_of_text, first_ending_of_text
from xla_peer.parity.paths import NativeAndPeer, compared
from xla_peer.parity.precision import LowerPrecision, granted_precision, required_precision
from xla_peer.parity.proven import lost_bounds
from xla_peer.parity.report import ParityReport
from xla_peer.parity.untouched import Untouched, reaching, untouched
from xla_peer.pullback import active, float_vjp
from xla_peer.tracing import traced

__all__ = ["budget_of", "check_parity", "departing", "tolerance_of"]


def check_parity(
    fn_or_program: Callable[..., Any] | GraphProgram,
    *arrays: Any,
    against: Any = None,
    executor: Any = None,
    grad: bool = False,
    ulps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    bound: str = "sampled",
    confidence: float = CONFIDENCE,
    interpreter: bool | None = None,
    locate: bool = True,
    locate_seconds: float = LOCATE_SECONDS,
    context: AdContext | None = None,
    isolated: bool | None = None,
    precision: str | None = None,
    search: int = 0,
    seed: int = 0,
) -> ParityReport:
    """Run a program natively and through PJRT or by `against`, and compare every element of every output.

    Results may differ by what rounding explains. Two implementations of an op may differ by the bound in
    `xla_peer.parity.ROUNDING`, and the effect on the results is measured for this program and these arrays.
    Integers and bools must be equal, unless rounding flips the decision that they depend on. Each output has a verdict:
    see `OutputParity.verdict`.

    Args:
        fn_or_program: a program, or a function, which is traced for the shapes and dtypes of the arrays. For an
            imported program, the original text runs too, which reveals faults of the import.
        against: another computation to compare with instead of PJRT: a program, a StableHLO module (text, bytes, a
            path), an artifact, or a function of JAX, PyTorch or NumPy. The program itself runs natively. If the two
            results disagree, PJRT and the interpreter decide which of them is wrong.
        executor: the executor to compare with, which also runs modules; by default XLA on the CPU.
        grad: whether to compare gradients too. The differentiated function is the real part of the sum of all outputs,
            weighted by numbers around one. A program without float inputs or outputs has no gradient.
        ulps, rtol, atol: tolerances that replace the bound of rounding; an element needs to satisfy only one of them.
        bound: "sampled" estimates the bound from runs that round differently. "proven" uses `xla_peer.error_bound`,
            which is wider, but no right implementation exceeds it. Outputs without a proven bound are `not decidable
            here`.
        confidence: confidence of the estimate, between 0 and 1. A higher confidence needs more runs; the report shows
            their number.
        interpreter: whether StableHLO's reference interpreter computes a third result, in a separate process. By
            default it does so if the paths disagree and the program is small.
        locate: whether to find the first op that diverges if the paths disagree; in a loop, with its iteration.
        locate_seconds: the time for this search. When it is over, the report names the first op that is known to
            diverge, and says that the search ended.
        context: the context with the derivative rules for `grad`.
        isolated: whether XLA runs in a child process. If it crashes, hangs or exhausts memory there, the verdict is
            `peer ended`, and the report has the module that causes this. By default XLA runs in a child process,
            unless the environment variable TENFERRO_ISOLATED is `off`. A function given as `against` runs in the
            calling process unless `jax.jit` has wrapped it. `executor=IsolatedExecutor(timeout=.., memory_limit=..)`
            sets limits.
        precision: if None, products on accelerators may have fewer bits, as far as the module or the executor's
            precision permits; the verdict is `lower precision`. "highest" does not accept fewer bits.
        search: number of other arguments that are tried natively, to reach the branches and outcomes in
            `report.untouched`. They are scaled from the given arguments, or drawn by `seed`. Arguments that reach such
            a branch or outcome are checked too. The report is about the first arguments on which the paths disagree,
            which are in `report.leaves`. If the paths never disagree, it is about the given arguments.

    Raises:
        ArityError, DTypeError, ShapeError: the arrays do not fit, or outputs of `against` have wrong types.
        InvalidConfigError: a tolerance is negative or not finite; `grad` is given with `against`; `search` is
            negative; `locate_seconds` is negative or NaN; `bound` or `precision` is unknown; a proven bound is combined
            with a tolerance; or the confidence is not between 0 and 1.

    >>> report = check_parity(lambda x: x * 2, np.arange(3.0))
    >>> report.ok, report.outputs[0].verdict
    (True, 'equal')
    >>> check_parity(lambda x: x * 2, np.arange(3.0), against=lambda x: x + x + 1, interpreter=False).ok
    False
    """
    if search < 0:
        raise InvalidConfigError(
            f"check_parity: search must be a number of arguments of at least 0, got {search}"
        )
    budget_of("check_parity", locate_seconds)
    tolerance = tolerance_of("check_parity", ulps, rtol, atol)
    is_proven = _is_proven(bound, tolerance)
    is_granted = required_precision("check_parity", precision) is None and tolerance is None
    program = traced(fn_or_program, *arrays)
    if grad and against is not None:
        raise InvalidConfigError(
            "check_parity: to compare gradients of two programs, pass both gradients; grad= is for one program"
        )
    if grad:
        program = _with_gradient(program, arrays, context)
    peer = isolated_peer(executor, isolated)
    leaves = program.check_arguments(arrays)
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
    paths = NativeAndPeer(
        peer, tolerance, is_proven, required_confidence("check_parity", confidence)
    )
    contender = None if against is None else Contender(against, static, peer)

    def checked(arguments: Sequence[Any]) -> ParityReport:
        budget = budget_of("check_parity", locate_seconds)
        check = Check(static, arguments, paths, interpreter, is_granted, budget)
        return check.report(locate) if contender is None else check.against(contender, locate)

    report = replace(checked(leaves), untouched=untouched(static, leaves), leaves=tuple(leaves))
    return _searched(static, leaves, report, checked, search, seed)


def _searched(
    program: GraphProgram,
    leaves: Sequence[Any],
    report: ParityReport,
    checked: Callable[[Sequence[Any]], ParityReport],
    tries: int,
    seed: int,
) -> ParityReport:
    """Search for arguments on which the paths disagree, and return the report about them, or else `report`.

    Args:
        report: the report about the given arguments.
        checked: a function that checks other arguments.
        tries: the number of other arguments to try.
    """
    if not (tries and report.ok and report.untouched):
        return report
    reached: list[Untouched] = []
    for side, arguments in reaching(program, leaves, tries, seed):
        attempt = checked(arguments)
        if any([output.outside or output.ended for output in attempt.outputs]):
            note = f"on arguments of the search, in report.leaves, which reach: {side}"
            return replace(
                attempt,
                notes=(note, *attempt.notes),
                untouched=untouched(program, arguments),
                leaves=tuple(arguments),
            )
        reached.append(side)
        still = {each.key for each in untouched(program, arguments)}
        rest = tuple([each for each in report.untouched if each.key in still])
        report = replace(report, untouched=rest)
    words = f"the search reached {len(reached)} more sides of decisions, and the paths agree there"
    return replace(report, notes=(*report.notes, words))


class Check:
    """Check of one program on one set of arguments, by several executors whose results are combined in a report."""

    def __init__(
        self,
        program: GraphProgram,
        leaves: Sequence[Any],
        paths: NativeAndPeer,
        interpreter: bool | None,
        is_granted: bool,
        budget: Budget,
    ) -> None:
        self.program, self.leaves, self.paths = program, leaves, paths
        self.is_granted, self.budget = is_granted, budget
        self.platform = getattr(paths.peer, "platform", type(paths.peer).__name__)
        self.interpreter = interpreter

    def report(self, locate: bool) -> ParityReport:
        """Compare native outputs with the outputs of the peer and, for an imported program, of the original module."""
        program, leaves = self.program, self.leaves
        native = native_outputs(program, leaves)
        try:
            peer = self.paths.peer_outputs(program, leaves)
        except PeerEndedError as error:
            ending = first_ending(
                program, leaves, self.paths.peer, error, self.platform, locate, self.budget
            )
            return self._ended(native, ending)
        allowed = self.paths.limits(program, leaves, native)
        outputs = compared(program, native, peer, allowed)
        if self.is_granted and self.paths.platform != "cpu":
            outputs = self._regraded(outputs, native, peer, allowed)
        agree = not any(output.outside for output in outputs)
        is_asked = self.interpreter if self.interpreter is not None else not agree
        third = opinion(program, leaves, native, peer, allowed) if is_asked else Opinion("")
        parted, notes = self._located(agree, locate)
        defined = None if parted is None else by_definition(parted)
        alone = defined.alone if defined is not None and defined.alone else third.alone
        side = {NATIVE: NATIVE, PEER: self.platform}.get(alone, "")
        outputs = tuple([blamed(output, side) for output in outputs])
        notes += () if defined is None else (defined.words,)
        if parted is not None:
            outputs, reason = departing(outputs, parted)
            notes = (*notes, *reason)
        outputs, words, ending = self._with_original(outputs, native, peer, allowed, locate)
        if parted is None and locate and ending is None and any(o.outside for o in outputs):
            parted = divergence_of_text(program, leaves, outputs, self.paths, self.budget)
        return ParityReport(
            program=program.name,
            platform=self.platform,
            outputs=outputs,
            interpreter=third.words,
            first_divergence=parted,
            decisions=decisions(program, leaves, outputs, self.paths.platform),
            notes=(
                *self.paths.known_faults,
                *notes,
                *words,
                *self._open_steps(outputs),
                *self.budget.notes,
            ),
            bound=self.paths.bound_in_words,
            ended=ending,
        )

    def _regraded(
        self,
        outputs: tuple[OutputParity, ...],
        native: Sequence[Any],
        peer: Sequence[Any],
        allowed: Sequence[Allowance],
    ) -> tuple[OutputParity, ...]:
        """Set the verdict `lower precision` for outputs that differ because the peer's products have fewer bits.

        The verdict is set only if the module permits products with fewer bits.
        """
        granted = granted_precision(self.program, self.paths.peer)
        lower = LowerPrecision(self.program, self.leaves, granted, self.paths.platform)
        explanations = list(map(lower.explains, range(len(outputs)), native, peer, allowed))
        return tuple([
            replace(output, outside=0, lower=how) if how and output.outside else output
            for output, how in zip(outputs, explanations, strict=True)
        ])  # fmt: skip

    def _ended(
        self, native: Sequence[Any], ending: Ending, sides: tuple[str, str] = (NATIVE, "other")
    ) -> ParityReport:
        """Return the report about a peer whose process ended without returning outputs."""
        program = self.program
        outputs = [
            replace(compare(name, y, y, np.zeros(y.shape)), ended=ending.how)
            for name, y in zip(program.output_names, native, strict=True)
        ]
        return ParityReport(
            program=program.name,
            platform=self.platform if sides[1] == "other" else sides[1],
            outputs=tuple(outputs),
            sides=sides,
            notes=(*self.paths.known_faults, *self.budget.notes),
            ended=ending,
        )

    def _open_steps(self, outputs: Sequence[OutputParity]) -> tuple[str, ...]:
        """Return report lines about steps without a proven bound, if an output is undecided because of such a step."""
        if not self.paths.is_proven or not any(output.undecided for output in outputs):
            return ()
        return lost_bounds(self.program, self.leaves)

    def _located(self, agree: bool, locate: bool) -> tuple[Divergence | None, tuple[str, ...]]:
        """Find the first op that diverges. If the peer's process ends during the search, return a note instead."""
        if agree or not locate:
            return None, ()
        searching = f"searching for the first op of {self.program.name} that diverges"
        with noticed(searching, "searched for it", getattr(self.paths.peer, "notices", True)):
            try:
                return first_divergence(self.program, self.leaves, self.paths, self.budget), ()
            except PeerEndedError as error:
                return None, (f"a part of the program ended the peer: {error.ending}",)

    def _with_original(
        self,
        outputs: tuple[OutputParity, ...],
        native: Sequence[Any],
        peer: Sequence[Any],
        allowed: Sequence[Allowance],
        locate: bool,
    ) -> tuple[tuple[OutputParity, ...], tuple[str, ...], Ending | None]:
        """Run the original module through PJRT, compare its outputs with the native outputs, and correct the verdicts.

        Return the corrected outputs, notes, and how the process ended if the original module ended it.
        """
        program = self.program
        try:
            results = original_outputs(program, self.leaves, self.paths.peer)
        except PeerEndedError as error:
            ending = ending_of_text(program, self.leaves, error, self.platform)
            if locate:
                ending = first_ending_of_text(ending, self.paths.peer, self.budget)
            ended = [replace(output, ended=ending.how) for output in outputs]
            return tuple(ended), ("the original text ends the peer, its import does not",), ending
        except TenferroError as error:
            refusal = f"the original text has no opinion: {str(error).splitlines()[0]:.200}"
            return outputs, (refusal,), None
        if results is None:
            return outputs, (), None
        originals = compared(program, native, results, allowed)
        peers = compared(program, peer, results, allowed)
        witness = OriginalWitness(program, self.leaves, self.interpreter is not False)
        words: list[str] = []
        joined: list[OutputParity] = []
        for number, (output, original, of_peer) in enumerate(
            zip(outputs, originals, peers, strict=True)
        ):
            if not original.outside and output.outside:
                output = blamed(output, output.alone or self.platform)
                words.append(f"{output.name}: the original text through PJRT agrees with native")
            elif original.outside and output.outside and not of_peer.outside:
                words.append(
                    f"{output.name}: the original text through PJRT agrees with the lowered one"
                )
            elif original.outside:
                values = native[number], results[number], allowed[number]
                side, reason = witness.opinion(number, *values, self.platform)
                output = blamed(original, side)
                words.append(
                    f"{output.name}: through PJRT, the original text has another result than its import; {reason}"
                )
            joined.append(output)
        return tuple(joined), tuple(words), None

    def against(self, contender: Contender, locate: bool) -> ParityReport:
        """Compare native outputs with the outputs of `contender`; PJRT and the interpreter decide which are wrong."""
        program, leaves = self.program, self.leaves
        arguments = unflatten(program.in_tree, leaves)
        native = native_outputs(program, leaves)
        try:
            other = contender.outputs(arguments)
        except PeerEndedError as error:
            ending = ending_of_text(program, leaves, error, self.platform)
            return self._ended(native, ending, (NATIVE, contender.name))
        allowed = self.paths.limits(program, leaves, native)
        outputs = compared(program, native, other, allowed)
        sides = (NATIVE, contender.name)
        wrong = [number for number, output in enumerate(outputs) if output.outside]
        notes: tuple[str, ...] = ()
        parted = None
        if wrong:
            outputs, notes = self._attributed(outputs, native, other, allowed, contender.name)
        if wrong and locate:
            theirs = contender.as_program(arguments)
            parted = differing(program, theirs, leaves, wrong, sides, self.budget)
            notes += self._wrong_collective(other, allowed)
        return ParityReport(
            program=program.name,
            platform=contender.name,
            outputs=outputs,
            first_divergence=parted,
            sides=sides,
            decisions=decisions(program, leaves, outputs, self.paths.platform),
            notes=(
                *self.paths.known_faults,
                *notes,
                *self._open_steps(outputs),
                *self.budget.notes,
            ),
            bound=self.paths.bound_in_words,
        )

    def _wrong_collective(
        self, other: Sequence[Any], allowed: Sequence[Allowance]
    ) -> tuple[str, ...]:
        """Find a collective whose modification makes the native outputs equal to the outputs of the contender.

        Only a module for several devices is searched.
        """
        origin = self.program.origin
        if origin is None or "sdy.manual_computation" not in origin.text:
            return ()

        def matches(changed: GraphProgram) -> bool:
            outputs = native_outputs(changed, self.leaves)
            parities = compared(self.program, outputs, other, allowed)
            return not any(parity.outside for parity in parities)

        words = wrong_collective(origin.text, matches, origin.trusted)
        return () if words is None else (words,)

    def _attributed(
        self,
        outputs: tuple[OutputParity, ...],
        native: Sequence[Any],
        other: Sequence[Any],
        allowed: Sequence[Allowance],
        name: str,
    ) -> tuple[tuple[OutputParity, ...], tuple[str, ...]]:
        """Determine which of native and `name` is wrong for each output that differs, and return notes with reasons."""
        program = self.program
        notes: list[str] = []
        with_native = with_other = None
        try:
            peer = self.paths.peer_outputs(program, self.leaves)
            with_native = compared(program, native, peer, allowed)
            with_other = compared(program, other, peer, allowed)
        except PeerEndedError as error:
            notes.append(f"PJRT has no opinion: it ended over the program, {error.ending}")
        attributed: list[OutputParity] = []
        alone_by_peer: list[int] = []
        third: Sequence[Any] | str | None = None
        for number, output in enumerate(outputs):
            if not output.outside:
                attributed.append(output)
                continue
            agrees = False, False
            if with_native is not None and with_other is not None:
                agrees = not with_native[number].outside, not with_other[number].outside
            witness = "PJRT"
            if agrees[0] == agrees[1] and self.interpreter is not False:
                third = interpreted(program, self.leaves) if third is None else third
                if not isinstance(third, str):
                    limit = allowed[number]
                    agrees = (
                        not compare("", native[number], third[number], *limit).outside,
                        not compare("", other[number], third[number], *limit).outside,
                    )
                    witness = "the reference interpreter"
            side = {(True, False): name, (False, True): NATIVE}.get(agrees, "")
            attributed.append(blamed(output, side))
            if side == NATIVE and witness == "PJRT":
                alone_by_peer.append(number)
            if side:
                notes.append(
                    f"{output.name}: {witness} agrees with {NATIVE if side == name else name}"
                )
        by_peer = None
        if alone_by_peer:
            by_peer = first_divergence(program, self.leaves, self.paths, self.budget)
        if by_peer is not None:
            named, reason = departing(tuple([attributed[n] for n in alone_by_peer]), by_peer)
            for number, output in zip(alone_by_peer, named, strict=True):
                attributed[number] = output
            notes += reason
        return tuple(attributed), tuple(notes)


def departing(
    outputs: tuple[OutputParity, ...], divergence: Divergence
) -> tuple[tuple[OutputParity, ...], tuple[str, ...]]:
    """Record the known explanation of a divergence, if any, in the outputs; return the outputs and a sentence."""
    explanation = explain(divergence)
    if explanation is None:
        return outputs, ()
    named = [
        replace(output, departs=explanation.name)
        if output.outside and explanation.excuses
        else output
        for output in outputs
    ]
    return tuple(named), (f"{explanation.name}: {explanation.reason}",)


def blamed(output: OutputParity, side: str) -> OutputParity:
    """Record in an output that differs which path is wrong; other outputs are returned unchanged."""
    return replace(output, alone=side) if output.outside and side else output


def differing(
    program: GraphProgram,
    other: GraphProgram | None,
    leaves: Sequence[Any],
    outputs: Sequence[int],
    sides: tuple[str, str],
    budget: Budget | None = None,
) -> Divergence | None:
    """Find the first op at which two programs differ, from their intermediate values."""
    if other is None:
        return None
    other = other.specialize(other.bind([leaf.shape for leaf in leaves]))
    difference = first_difference(program, other, leaves, outputs, budget)
    if difference is None:
        return None
    instruction, there = difference.instruction, difference.other_instruction
    values = values_of(difference.program, instruction.outputs, difference.leaves)
    others = values
    words = f"the {sides[1]} has no such value"
    if there is not None:
        words = f"in the {sides[1]}: {shown(difference.other, there)}"
        words += f" at {there.source}" if there.source else ""
        there_values = values_of(difference.other, there.outputs, difference.other_leaves)
        if [y.shape for y in there_values] == [y.shape for y in values]:
            others = there_values
    alone_program, alone_leaves = alone(difference.program, difference.number, difference.leaves)
    parities = [
        compare(name, y, z if z.dtype == y.dtype else y, np.zeros(y.shape))
        for name, y, z in zip(alone_program.output_names, values, others, strict=True)
    ]
    worst = max(parities, key=lambda parity: parity.outside)
    return Divergence(
        op=shown(difference.program, instruction),
        line=str(instruction.source or ""),
        output=worst,
        verdict=f"both programs compute its operands, but only the {sides[0]} one computes its result",
        program=alone_program,
        leaves=tuple(alone_leaves),
        iterations=difference.iterations,
        other=words,
        sides=sides,
    )


def budget_of(name: str, seconds: float) -> Budget:
    """Return the budget of the searches of a check.

    Raises:
        InvalidConfigError: the time is negative or NaN.
    """
    if not seconds >= 0:
        raise InvalidConfigError(
            f"{name}: locate_seconds must be a time of at least 0 seconds, got {seconds!r}"
        )
    return Budget(seconds)


def _is_proven(bound: str, tolerance: Tolerance | None) -> bool:
    if bound not in ("sampled", "proven"):
        raise InvalidConfigError(
            f'check_parity: bound must be "sampled" or "proven", got {bound!r}'
        )
    if bound == "proven" and tolerance is not None:
        raise InvalidConfigError(
            'check_parity: bound="proven" replaces ulps=, rtol= and atol=; leave these out'
        )
    return bound == "proven"


def tolerance_of(
    name: str, ulps: float | None, rtol: float | None, atol: float | None
) -> Tolerance | None:
    """Return the user's tolerances; None if there are none, so that the bound of rounding decides.

    Raises:
        InvalidConfigError: a tolerance is negative or not finite.
    """
    bounds = {"ulps": ulps, "rtol": rtol, "atol": atol}
    for bound, value in bounds.items():
        if value is not None and not 0 <= value < np.inf:
            raise InvalidConfigError(
                f"{name}: {bound} must be a finite number of at least 0, got {value!r}"
            )
    if ulps is rtol is atol is None:
        return None
    return Tolerance(*[0.0 if value is None else value for value in bounds.values()])


def _with_gradient(
    program: GraphProgram, arrays: tuple[Any, ...], context: AdContext | None
) -> GraphProgram:
    """Return a program that computes the result, and the gradient with respect to every float argument."""
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
