"""`judge`, which decides which of two sets of outputs of a module is right, whatever computed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tenferro.errors import PeerEndedError, TenferroError
from tenferro.program import GraphProgram
from xla_peer.isolated import isolated_peer
from xla_peer.parity.budget import LOCATE_SECONDS, Budget
from xla_peer.parity.check import budget_of, departing, tolerance_of
from xla_peer.parity.comparison import Allowance, OutputParity, compare
from xla_peer.parity.contenders import checked_outputs, original_outputs, program_of_module
from xla_peer.parity.decisions import decisions
from xla_peer.parity.definitions import by_definition
from xla_peer.parity.divergence import Divergence, first_divergence
from xla_peer.parity.interpreter import interpreted, interpreted_text
from xla_peer.parity.iterations import native_outputs
from xla_peer.parity.opinion import PEER
from xla_peer.parity.paths import NativeAndPeer
from xla_peer.parity.precision import LowerPrecision, granted_precision, required_precision
from xla_peer.parity.report import ParityReport
from xla_peer.parity.untouched import untouched

__all__ = ["judge"]


def judge(
    module: Any,
    inputs: Sequence[Any],
    outputs_a: Sequence[Any],
    outputs_b: Sequence[Any],
    *,
    executor: Any = None,
    ulps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    interpreter: bool | None = None,
    locate: bool = True,
    locate_seconds: float = LOCATE_SECONDS,
    isolated: bool | None = None,
    precision: str | None = None,
) -> ParityReport:
    """Judge two sets of outputs of one module, a and b, such as those of two compilers.

    The module runs natively, and the effect of rounding on that run bounds the distance of right outputs. The verdict
    of an output is `equal`, `rounding` or `unstable` if both a and b are within the bound of the native output. It is
    `wrong: a` if only b is within the bound, and `wrong: b` if only a is. It is `wrong: a and b` if neither is, and a
    and b differ from each other. It is `not decidable here` if the bound is wider than the values. If the native run
    may be wrong itself, the module's text also runs through PJRT and StableHLO's reference interpreter.

    Args:
        module: StableHLO as text, bytes, a `StableHloModule` or a path; a program, an artifact, or a function of
            tenferro or JAX, which is traced on `inputs`.
        inputs: the arguments of `main`, in order.
        outputs_a, outputs_b: the two sets of results of `main`, in order.
        executor: the executor that runs the text; XLA on the CPU by default.
        ulps, rtol, atol: tolerances that replace the bound of rounding; an element needs to satisfy only one of them.
        interpreter: whether to run the reference interpreter; by default it runs if the native run and PJRT do not
            decide.
        locate: whether to find the first op that diverges, if PJRT also computes the wrong output.
        locate_seconds: the time for this search; see `check_parity`.
        precision: if None, products may have fewer bits as far as the module permits; the verdict is `lower
            precision`. "highest" does not accept fewer bits.
        isolated: see `check_parity`. If the module ends XLA's process, PJRT's result is not used.

    Raises:
        MlirDiagnosticError, UnsupportedError: the text is not a module, or has operations without a counterpart.
        ArityError, ShapeError, DTypeError: inputs or outputs do not match the module.
        InvalidConfigError: the precision is unknown, or `locate_seconds` is negative or NaN.

    >>> text = '''
    ... func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
    ...   %y = stablehlo.exponential %x : tensor<2xf64>
    ...   return %y : tensor<2xf64>
    ... }'''
    >>> import numpy as np
    >>> x = np.array([0.0, 1.0])
    >>> report = judge(text, [x], [np.exp(x)], [np.exp(x) + [0, 1e-9]])
    >>> report.ok, report.outputs[0].verdict
    (False, 'wrong: b')
    """
    budget = budget_of("judge", locate_seconds)
    tolerance = tolerance_of("judge", ulps, rtol, atol)
    program = program_of_module(module, inputs)
    leaves = program.check_leaves(list(inputs))
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
    one = checked_outputs("judge", static, outputs_a, "a")
    other = checked_outputs("judge", static, outputs_b, "b")
    native = native_outputs(static, leaves)
    paths = NativeAndPeer(isolated_peer(executor, isolated), tolerance)
    allowed = paths.limits(static, leaves, native)
    witnesses = Witnesses(static, leaves, paths, interpreter)
    outputs: list[OutputParity] = []
    notes: list[str] = []
    is_granted = required_precision("judge", precision) is None and tolerance is None
    lower = LowerPrecision(
        static,
        leaves,
        granted_precision(program, paths.peer) if is_granted else "highest",
        paths.platform,
    )
    for number, name in enumerate(static.output_names):
        sides = (one[number], other[number])
        explained = _computed_lower(name, number, sides, native[number], allowed[number], lower)
        if is_granted and explained is not None:
            outputs.append(explained)
            continue
        output, words = _judged(
            name, number, one[number], other[number], native[number], allowed[number], witnesses
        )
        outputs.append(output)
        notes += words
    parted = None
    if locate and any([output.outside for output in outputs]):
        parted = _located(static, leaves, paths, witnesses, outputs, one, other, allowed, budget)
        notes += budget.notes
    if parted is not None:
        outputs, words = _defined(parted, outputs, witnesses, (one, other), allowed)
        notes += words
        named, reason = departing(tuple(outputs), parted)
        outputs, notes = list(named), [*notes, *reason]
    return ParityReport(
        program=static.name,
        platform="b",
        outputs=tuple(outputs),
        first_divergence=parted,
        sides=("a", "b"),
        decisions=decisions(static, leaves, outputs, paths.platform),
        notes=(*paths.known_faults, *notes, *[witnesses.ended] * bool(witnesses.ended)),
        bound=paths.bound_in_words,
        untouched=untouched(static, leaves),
        leaves=tuple(leaves),
    )


def _computed_lower(
    name: str,
    number: int,
    sides: tuple[Any, Any],
    native: Any,
    allowance: Allowance,
    lower: LowerPrecision,
) -> OutputParity | None:
    """Return the verdict `lower precision` if products with fewer bits, as the module permits, explain the difference.

    Return None if a or b remains unexplained, or if neither has fewer bits.
    """
    explanations = [lower.explains(number, native, y, allowance) for y in sides]
    if None in explanations or not any(explanations):
        return None
    words = "; ".join(
        [f"{side} {how}" for side, how in zip("ab", explanations, strict=True) if how]
    )
    return replace(compare(name, *sides, *allowance), outside=0, lower=words)


class Witnesses:
    """Results of PJRT and of the reference interpreter for a program; each is computed when it is first needed."""

    def __init__(
        self,
        program: GraphProgram,
        leaves: Sequence[Any],
        paths: NativeAndPeer,
        interpreter: bool | None,
    ) -> None:
        self.program, self.leaves, self.paths = program, leaves, paths
        self.interpreter = interpreter
        self._peer: list[Any] | str | None = None
        self._third: list[Any] | str | None = None

    @property
    def peer(self) -> list[Any] | str:
        """PJRT's outputs, or a text that says how its process ended.

        PJRT runs the module's original text, or the lowered program if there is no text.
        """
        if self._peer is None:
            try:
                self._peer = self._through_peer()
            except PeerEndedError as error:
                self._peer = error.ending
        return self._peer

    def _through_peer(self) -> list[Any]:
        try:
            original = original_outputs(self.program, self.leaves, self.paths.peer)
        except PeerEndedError:
            raise
        except TenferroError:
            original = None  # XLA rejects the module's text, but may compile the lowered program
        if original is None:
            return self.paths.peer_outputs(self.program, self.leaves)
        return original

    def peer_agrees(self, number: int, y: Any, allowance: Allowance) -> bool:
        """Return whether output number `number` of PJRT agrees with `y`; False if PJRT's process ended."""
        peer = self.peer
        return not isinstance(peer, str) and not compare("", peer[number], y, *allowance).outside

    def peer_gives(self, number: int, y: Any) -> bool:
        """Return whether output number `number` of PJRT has the same bits as `y`."""
        peer = self.peer
        return not isinstance(peer, str) and peer[number].tobytes() == y.tobytes()

    @property
    def ended(self) -> str:
        """A note if PJRT's process ended; otherwise empty."""
        if not isinstance(self._peer, str):
            return ""
        return f"PJRT has no opinion: it ended over the module, {self._peer}"

    @property
    def third(self) -> list[Any] | str:
        """The reference interpreter's outputs, or the reason why there are none."""
        if self._third is None:
            self._third = "it was not asked" if self.interpreter is False else self._interpreted()
        return self._third

    def _interpreted(self) -> list[Any] | str:
        """Return the interpreter's outputs for the original text or, if it does not read the text, for the import."""
        results = interpreted_text(self.program, self.leaves)
        return interpreted(self.program, self.leaves) if isinstance(results, str) else results


def _judged(
    name: str,
    number: int,
    one: Any,
    other: Any,
    native: Any,
    allowance: Allowance,
    witnesses: Witnesses,
) -> tuple[OutputParity, list[str]]:
    """Judge one output by the native run, and return the verdict with notes for the report.

    Args:
        name, number: the name and the index of the output.
        one, other: the output in set a and in set b.
        native: the native output.
    """
    together = compare(name, one, other, *allowance)
    of_one, of_other = (
        compare(name, native, one, *allowance),
        compare(name, native, other, *allowance),
    )
    if one.tobytes() == other.tobytes():
        words = [f"{name}: both part from the native run"] * bool(of_one.outside)
        return together, words
    if not (of_one.outside or of_other.outside):
        # Both a and b agree with the native run, so they may differ from each other by twice the bound.
        reached = max(of_one.reached, of_other.reached, together.reached)
        undecided = max(of_one.undecided, of_other.undecided)
        return replace(together, outside=0, reached=reached, undecided=undecided), []
    if of_one.outside and of_other.outside:
        return _by_witnesses(name, number, one, other, together, allowance, witnesses)
    side, right, agrees = ("a", other, "b") if of_one.outside else ("b", one, "a")
    wrong = one if side == "a" else other
    parted = max(together.outside, of_one.outside, of_other.outside)
    words = [f"{name}: the native run agrees with {agrees}"]
    if witnesses.peer_agrees(number, wrong, allowance):
        # The native run and PJRT disagree: one of them agrees with a, and the other with b.
        third = witnesses.third
        if isinstance(third, str):
            words.append(
                f"{name}: PJRT gives here what {side} has, and the reference interpreter has no opinion: {third}"
            )
            if right.tobytes() == native.tobytes() and witnesses.peer_gives(number, wrong):
                side = ""  # a or b may run the same code as the native run or PJRT, so their agreement proves nothing
        else:
            by_third = compare(name, third[number], right, *allowance).outside
            words.append(
                f"{name}: PJRT gives here what {side} has; the reference interpreter agrees with "
                f"{side if by_third else agrees}"
            )
            side = agrees if by_third else side
    return replace(together, outside=parted, alone=side), words


def _by_witnesses(
    name: str,
    number: int,
    one: Any,
    other: Any,
    together: OutputParity,
    allowance: Allowance,
    witnesses: Witnesses,
) -> tuple[OutputParity, list[str]]:
    """Judge an output for which the native run agrees with neither a nor b, by PJRT."""
    if not together.outside:
        return together, [f"{name}: both part from the native run in the same way"]
    of_one, of_other = (not witnesses.peer_agrees(number, y, allowance) for y in (one, other))
    if witnesses.ended:
        return together, [f"{name}: the native run agrees with neither"]
    if of_one != of_other:
        side, agrees = ("a", "b") if of_one else ("b", "a")
        words = f"{name}: the native run agrees with neither, PJRT with {agrees}"
        return replace(together, alone=side), [words]
    return replace(together, alone="a and b"), [
        f"{name}: the native run and PJRT agree with neither"
    ]


def _defined(
    parted: Divergence,
    outputs: Sequence[OutputParity],
    witnesses: Witnesses,
    sides: tuple[Sequence[Any], Sequence[Any]],
    allowed: Sequence[Allowance],
) -> tuple[list[OutputParity], list[str]]:
    """Return verdicts, corrected by the exact value of the op on which PJRT diverges, and a note about the op."""
    defined = by_definition(parted)
    if defined is None:
        return list(outputs), []
    blames: list[OutputParity] = []
    for number, output in enumerate(outputs):
        agree = [witnesses.peer_agrees(number, y[number], allowed[number]) for y in sides]
        if output.outside and defined.alone and agree[0] != agree[1]:
            of_peer, of_native = ("a", "b") if agree[0] else ("b", "a")
            output = replace(output, alone=of_peer if defined.alone == PEER else of_native)
        blames.append(output)
    return blames, [defined.words]


def _located(
    program: GraphProgram,
    leaves: Sequence[Any],
    paths: NativeAndPeer,
    witnesses: Witnesses,
    outputs: Sequence[OutputParity],
    one: Sequence[Any],
    other: Sequence[Any],
    allowed: Sequence[Allowance],
    budget: Budget,
) -> Divergence | None:
    """Find the first op on which PJRT diverges from the native run, if PJRT also computes the wrong output."""
    for number, output in enumerate(outputs):
        wrong = {"a": (one,), "b": (other,), "": (one, other)}.get(output.alone, ())
        if output.outside and any(
            [witnesses.peer_agrees(number, y[number], allowed[number]) for y in wrong]
        ):
            try:
                return first_divergence(program, leaves, paths, budget)
            except PeerEndedError:
                return None  # a part may end the process even if the whole module does not
    return None
