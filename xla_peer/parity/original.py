"""Search in the original text of an imported program, if only the text has other results or ends the peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from lowering import import_stablehlo
from lowering.importing import NamedValue, import_values
from lowering.module import StableHloModule
from tenferro.errors import PeerEndedError, TenferroError
from tenferro.program import GraphProgram
from xla_peer.parity.budget import Budget, SearchTimeoutError
from xla_peer.parity.comparison import Allowance, OutputParity, compare
from xla_peer.parity.contenders import original_outputs
from xla_peer.parity.divergence import Divergence
from xla_peer.parity.endings import Ending, ending_of_text
from xla_peer.parity.interpreter import interpreted_text
from xla_peer.parity.iterations import native_outputs
from xla_peer.parity.paths import NativeAndPeer, compared

__all__ = ["OriginalWitness", "divergence_of_text", "first_ending_of_text"]


class OriginalWitness:
    """Results of the reference interpreter for the original text, which it runs when they are first needed.

    Args:
        program: an imported program, with its arguments `leaves`.
        is_asked: whether the interpreter may run.
    """

    def __init__(self, program: GraphProgram, leaves: Sequence[Any], is_asked: bool) -> None:
        self.program, self.leaves = program, leaves
        self._results: list[Any] | str | None = None if is_asked else "it was not asked"

    def opinion(
        self, number: int, native: Any, original: Any, allowance: Allowance, platform: str
    ) -> tuple[str, str]:
        """Return which side is wrong if native and the original text disagree, and a sentence with the reason.

        The platform is wrong if the interpreter agrees with native, and the import if it agrees with PJRT; else return
        "".

        Args:
            number: the number of the output.
            native, original: the values of the output.
        """
        if self._results is None:
            self._results = interpreted_text(self.program, self.leaves)
        third = self._results
        if isinstance(third, str):
            return "", f"the reference interpreter has no opinion on it: {third}"
        by_native, by_original = (
            not compare("", y, third[number], *allowance).outside for y in (native, original)
        )
        agrees = by_native, by_original
        side = {(True, False): platform, (False, True): "import"}.get(agrees, "")
        with_whom = {(True, False): "native", (False, True): "it", (True, True): "both"}
        return side, f"the reference interpreter agrees with {with_whom.get(agrees, 'neither')}"


class _Cuts(NamedTuple):
    """A module, and the values of each operation of its `main` that has results, in order."""

    module: StableHloModule
    operations: list[list[NamedValue]]


def divergence_of_text(
    program: GraphProgram,
    leaves: Sequence[Any],
    outputs: Sequence[OutputParity],
    paths: NativeAndPeer,
    budget: Budget | None = None,
) -> Divergence | None:
    """Find the first operation of the original text whose results through PJRT differ from the native results.

    The text is cut after an operation, which bisection chooses. Return None if the text cannot be cut.

    Args:
        outputs: the comparisons of the outputs of the program.
    """
    wrong = {number for number, output in enumerate(outputs) if output.outside}
    try:
        cuts = _cuts(program, leaves)
        makers = [
            number
            for number, values in enumerate(cuts.operations if cuts else ())
            if any(wrong.intersection(value.outputs) for value in values)
        ]
        if cuts is None or not makers:
            return None
        first = _first(
            makers[0],
            lambda number: _parting(cuts.module, number, leaves, paths),
            budget or Budget(),
        )
    except TenferroError:
        return None
    if first is None:
        return None
    number, (part, output) = first
    return Divergence(
        op=_shown(cuts.operations[number]),
        line=_line(cuts.operations[number]),
        output=output,
        verdict="only the original text diverges; the text that its import is lowered to does not",
        program=part,
        leaves=tuple(leaves),
        platform=paths.platform,
        isolated=paths.is_isolated,
        text=str(part.origin),
    )


def first_ending_of_text(whole: Ending, peer: Any, budget: Budget | None = None) -> Ending:
    """Find the first operation with which the original text ends the peer, by bisection; see `divergence_of_text`.

    Timeouts are not bisected, because each attempt would take as long.

    Args:
        whole: the ending with the entire text, which is returned if the text cannot be cut.
    """
    leaves = whole.leaves
    if whole.how == "timeout":
        return whole
    try:
        cuts = _cuts(whole.program, leaves)
        if cuts is None:
            return whole
        last = len(cuts.operations) - 1
        first = _first(
            last, lambda number: _ended(cuts.module, number, leaves, peer), budget or Budget()
        )
    except TenferroError:
        return whole
    if first is None:
        return replace(whole, recurs=False)
    number, (part, earlier) = first
    return replace(
        ending_of_text(part, leaves, earlier, whole.platform),
        op=_shown(cuts.operations[number]),
        line=_line(cuts.operations[number]),
        module=str(part.origin),
        recurs=True,
    )


def _cuts(program: GraphProgram, leaves: Sequence[Any]) -> _Cuts | None:
    """Return the original text with its operations; None if there is no text."""
    if program.origin is None:
        return None
    module = program.origin.refined([leaf.shape for leaf in leaves])
    _, named = import_values(module)
    by_operation = groupby(named, lambda value: value.name.partition("#")[0])
    return _Cuts(module, [list(values) for _, values in by_operation])


def _first(last: int, failing: Callable[[int], Any], budget: Budget) -> tuple[int, Any] | None:
    """Find the first failing number from 0 to `last` by bisection; None if `last` does not fail.

    Return the number, and the description of the failure that `failing` returns for it. If the time is over, return the
    first number that is known to fail.
    """
    failure = failing(last)
    if failure is None:
        return None
    low, high = -1, last
    while high - low > 1:
        middle = (low + high) // 2
        try:
            with budget.step():
                earlier = failing(middle)
        except SearchTimeoutError:
            break
        if earlier is None:
            low = middle
        else:
            high, failure = middle, earlier
    return high, failure


def _parting(
    module: StableHloModule, number: int, leaves: Sequence[Any], paths: NativeAndPeer
) -> tuple[GraphProgram, OutputParity] | None:
    """Cut a module after an operation, and return it as a program with the output that differs; None if none differs."""
    part = _cut(module, number)
    native, other = native_outputs(part, leaves), original_outputs(part, leaves, paths.peer)
    if other is None:
        return None
    outputs = compared(part, native, other, paths.limits(part, leaves, native))
    output = next((output for output in outputs if output.outside), None)
    return None if output is None else (part, output)


def _cut(module: StableHloModule, number: int) -> GraphProgram:
    """Cut a module after an operation, and import it with the same settings as the whole module."""
    return import_stablehlo(
        module.until(number), trusted=module.trusted, drops_windows=module.drops_windows
    )


def _ended(
    module: StableHloModule, number: int, leaves: Sequence[Any], peer: Any
) -> tuple[GraphProgram, PeerEndedError] | None:
    """Cut a module after an operation, and return it as a program with the peer's ending; None if the peer runs it."""
    part = _cut(module, number)
    try:
        original_outputs(part, leaves, peer)
    except PeerEndedError as error:
        return part, error
    return None


def _shown(values: Sequence[NamedValue]) -> str:
    """Return the beginning of an operation's line: the names of its results and operands, without attributes."""
    return values[0].text.strip().partition(" <{")[0]


def _line(values: Sequence[NamedValue]) -> str:
    return f"<stablehlo>:{values[0].line}"
