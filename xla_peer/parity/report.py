"""`ParityReport`, the result of `check_parity`, with forms for terminals, notebooks and programs."""

from __future__ import annotations

import html
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tenferro.table import aligned, first_of
from tenferro.types import DType
from xla_peer.json_values import json_value
from xla_peer.parity.comparison import OutputParity
from xla_peer.parity.decisions import Decision
from xla_peer.parity.divergence import Divergence
from xla_peer.parity.endings import OUTSIDE, Ending
from xla_peer.parity.shrinking import shrunk_divergence, shrunk_ending
from xla_peer.parity.untouched import Untouched

__all__ = ["ParityReport"]

MOST_UNTOUCHED = 5
"""Maximum number of branches and outcomes that the arguments did not reach, as shown in a report."""
MOST_SHORT = 15
"""Maximum number of lines of a short report."""
WIDTH = 240
"""Maximum width of a line of a short report, in characters."""


@dataclass(frozen=True)
class ParityReport:
    """Result of a parity check, with a comparison of each output on both paths. `print(report)` shows a table.

    Attributes:
        program: the name of the program.
        platform: platform of the peer.
        outputs: one comparison per output.
        interpreter: a sentence about StableHLO's reference interpreter: the path with which it agrees, that it shares
            an expansion with PJRT, that its result is between the two, or why it has no opinion.
        first_divergence: the first op whose inputs agree on both paths and whose output does not; None if all ops
            agree.
        sides: the names of the two paths that are compared.
        decisions: for unstable outputs, the decision that rounding flips.
        notes: sentences about known faults of the peer, and about further results that were compared.
        bound: origin of the bound: proven, or sampled with a number of runs and a confidence; empty for a
            user's tolerance.
        ended: how the peer's process ended, and the module that causes this; None if it returned outputs.
        untouched: branches and outcomes of decisions that the arguments did not reach, so that they are not checked.
        leaves: the arguments that were checked: those of the caller, or arguments that `search=` found.
    """

    HEADER: ClassVar = (
        "output", "type", "verdict", "of its bound", "at", "native", "other", "ulps", "allowed", "of the norm",
        "notes",
    )  # fmt: skip

    program: str
    platform: str
    outputs: tuple[OutputParity, ...]
    interpreter: str = ""
    first_divergence: Divergence | None = field(default=None)
    sides: tuple[str, str] = ("native", "other")
    decisions: tuple[Decision, ...] = ()
    notes: tuple[str, ...] = ()
    bound: str = ""
    ended: Ending | None = None
    untouched: tuple[Untouched, ...] = ()
    leaves: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether every output is equal or differs for a known reason: none is wrong or undecided."""
        return all(output.ok for output in self.outputs)

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON-compatible values."""
        first = self.first_divergence
        return {
            "ok": self.ok,
            "program": self.program,
            "platform": self.platform,
            "interpreter": self.interpreter,
            "outputs": [output.to_dict() for output in self.outputs],
            "first_divergence": None if first is None else first.to_dict(),
            "sides": list(self.sides),
            "decisions": [decision.to_dict() for decision in self.decisions],
            "notes": list(self.notes),
            "bound": self.bound,
            "ended": None if self.ended is None else self.ended.to_dict(),
            "untouched": [each.to_dict() for each in self.untouched],
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON, with "nan", "inf" and "-inf" for numbers that JSON lacks."""
        return json.dumps(json_value(self.to_dict()), indent=2, allow_nan=False)

    @property
    def reproduction(self) -> Divergence | Ending | None:
        """The part of the program that shows the disagreement; None if all outputs agree.

        `save` shrinks and writes it.
        """
        return self.ended or self.first_divergence

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        one, other = self.sides[0], self.platform
        word = "agree" if self.ok else "DISAGREE"
        if self.ended is not None:
            return f"{self.program}: {other} ENDED: {self.ended.how}"
        if not self.ok and not any(output.outside for output in self.outputs):
            word = "cannot be told apart: not decidable here"
        return f"{self.program}: {one} and {other} {word}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The header of the table, with the names of the two paths."""
        names: dict[str, str] = dict(zip(("native", "other"), self.sides, strict=True))
        return tuple([names.get(word, word) for word in self.HEADER])

    def rows(self) -> list[tuple[str, ...]]:
        """Return the rows of the table, one for each output, with the columns of `HEADER`."""
        return [
            (
                output.name,
                str(output.spec),
                output.verdict,
                *_worst(output),
                f"{output.of_norm:.1e}" if output.of_norm else "",
                _notes(output),
            )
            for output in self.outputs
        ]

    def __repr__(self) -> str:
        return (
            f"<ParityReport {self.verdict}: {first_of([output.name for output in self.outputs])}>"
        )

    def __str__(self) -> str:
        lines = [self.verdict, *self.summary(), *aligned([self.columns, *self.rows()])]
        return "\n".join([*lines, *self.below()])

    def below(self) -> list[str]:
        """Return the lines below the table."""
        lines = [f"bound: {self.bound}"] * bool(self.bound)
        lines += [f"interpreter: {self.interpreter}"] * bool(self.interpreter)
        lines += [*self.notes, *map(str, self.decisions)]
        lines += [str(each) for each in (self.first_divergence, self.ended) if each is not None]
        rest = len(self.untouched) - MOST_UNTOUCHED
        lines += [f"not reached: {each}" for each in self.untouched[:MOST_UNTOUCHED]]
        return lines + [f"not reached: {rest} more sides of decisions"] * (rest > 0)

    def summary(self) -> list[str]:
        """Summarise a disagreement in two lines; empty if there is none.

        The first line names the op and the wrong path. The second line contains the difference and advice.
        """
        first, ended = self.first_divergence, self.ended
        bad = [output for output in self.outputs if not output.ok]
        if ended is not None:
            at = f" at {ended.op}" if ended.op else ""
            where = f", {ended.line}" if ended.line else ""
            words = f"{self.platform} ended by {ended.how} while {ended.stage}{at}{where}"
            return [f"{words:.{WIDTH}}", f"to do: {self._advice(bad)}"]
        if not bad:
            return []
        worst = max(bad, key=lambda output: (output.outside, output.share))
        at = f" at {first.op}" if first is not None else ""
        where = f", {first.line}" if first is not None and first.line else ""
        sides = (self.sides[0], self.platform if self.sides[1] == "other" else self.sides[1])
        size = f"{worst.name}{_size_of(worst, sides)}; to do: {self._advice(bad)}"
        verdict = (
            "wrong, on a side that is not known," if worst.verdict == "wrong" else worst.verdict
        )
        return [f"{verdict}{at:.{WIDTH}}{where}", size]

    def short(self) -> str:
        """Write the report in at most fifteen lines: first the op, the wrong path and the difference, then advice."""
        first, bad = self.first_divergence, [output for output in self.outputs if not output.ok]
        lines = [self.verdict, *self.summary()]
        lines += [f"in {iteration}" for iteration in (first.iterations if first else ())[:2]]
        lines += [f"{output.name}: {output.verdict}" for output in bad[:3]] * (len(bad) > 1)
        lines += [f"note: {note}" for note in self.notes[:2]]
        lines += [f"not reached: {each}" for each in self.untouched[:2]]
        return "\n".join([f"{line:.{2 * WIDTH}}" for line in lines[:MOST_SHORT]])

    def _advice(self, bad: list[OutputParity]) -> str:
        """Return a sentence about what the user should do next."""
        if self.ended is not None and self.ended.recurs is False:
            return f"check again; it did not end again on the same program, so {OUTSIDE}"
        if self.ended is not None:
            return "report.save(folder) writes a small module that ends it; `tenferro triage folder` makes an issue of it"
        sides = {output.alone for output in bad if output.alone}
        if not any(output.outside for output in bad):
            return "these arguments decide nothing; try others that cancel less"
        if "native" in sides:
            return "tenferro itself is wrong here; please report it, with what report.save(folder) writes"
        if "import" in sides:
            return "the import of the module is wrong; please report it to tenferro"
        words = "report.save(folder) writes a small module; `tenferro triage folder` makes an issue of it"
        return (
            words
            if self.reproduction is not None
            else "compare the intermediate values with those of xla_peer.golden; see docs/parity.md"
        )

    def save(self, folder: Any, seconds: float = 20.0) -> Path | None:
        """Write a shrunk reproduction to a folder; return None if all outputs agree.

        The reproduction is shrunk: intermediate values become arguments, and arrays become simpler, as long as the
        paths still diverge or the peer's process still ends. See `Divergence.save` for the files; `tenferro triage
        FOLDER` writes an issue from them.

        Args:
            seconds: time after which no smaller program is tried.

        Raises:
            OSError: the folder cannot be made or written.
        """
        if self.ended is not None:
            return shrunk_ending(self.ended, seconds).save(folder)
        if self.first_divergence is not None:
            return shrunk_divergence(self.first_divergence, seconds).save(folder)
        return None

    def print(self) -> None:
        """Print the report."""
        print(self)

    def to_html(self) -> str:
        """Show the report as a self-contained table."""
        rows = [
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows()
        ]
        head = "".join(f"<th>{cell}</th>" for cell in self.columns)
        colour = "#1a7f37" if self.ok else "#b42318"
        return (
            '<div style="font-family: ui-monospace, monospace; font-size: 13px">'
            f'<p style="color: {colour}; font-weight: 600">{html.escape(self.verdict)}</p>'
            '<table style="border-collapse: collapse; text-align: left; white-space: nowrap; font-size: 13px" cellpadding="4">'
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
            + "".join(
                f"<pre>{html.escape(text)}</pre>" for text in (*self.summary(), *self.below())
            )
            + "</div>"
        )

    _repr_html_ = to_html


def _size_of(output: OutputParity, sides: tuple[str, str]) -> str:
    """Describe the element with the largest difference: index, both values, and the difference and bound in ulps."""
    if output.worst is None:
        return ""
    one, other = sides
    return (
        f"{list(output.worst)}: {one} {_shown(output.native)}, {other} {_shown(output.xla)}, "
        f"{output.distance}; {output.outside} of {output.spec.size} elements are beyond the bound"
    )


def _worst(output: OutputParity) -> tuple[str, ...]:
    """Return table cells about the element whose difference is largest relative to its bound.

    The cells contain this quotient, the index, both values, and the difference and the bound in ulps.
    """
    words = ""
    if output.ended:
        words = "no result"
    elif output.worst is None:
        words = "empty"
    elif output.max_ulps == 0:
        words = "equal"
    elif output.share == 0:
        words = "not decidable" if output.undecided else "explained"
    if words:
        return (words, "", "", "", "", "")
    return (
        _share(output),
        str(list(output.worst or ())),
        _shown(output.native),
        _shown(output.xla),
        f"{output.ulps:.3g}",
        f"{output.allowed:.3g}" if math.isfinite(output.allowed) else "",
    )


def _share(output: OutputParity) -> str:
    """Format the largest quotient of a difference and its bound; if there is no quotient, return words instead."""
    if math.isinf(output.share):
        return "beyond any" if output.allowed else "none allowed"
    if output.share < 0.005:
        return "< 1%"
    return f"{output.share:.0%}" if output.share < 10 else f"{output.share:.3g} times"


def _shown(value: Any) -> str:
    """Return the shortest text that identifies a number."""
    return str(value.item() if DType.of(value.dtype).kind in "biu" else value)


def _notes(output: OutputParity) -> str:
    notes = [
        f"{count} {word}"
        for count, word in (
            (output.outside, "beyond what rounding explains"),
            (output.nan, "NaN on one path"),
            (output.inf, "infinite on one path"),
            (output.zero_sign, "zeros of different sign"),
            (output.flushed, "subnormals flushed"),
            (output.unstable, "may change with rounding"),
            (output.undecided, "not decidable: any value would do"),
        )
        if count
    ]
    return ", ".join(notes) or ("" if output.ended else "ok")
