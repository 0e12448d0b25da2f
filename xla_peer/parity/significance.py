"""`digits`, which shows where a function loses significant digits, line by line.

The program runs op by op, once with ordinary rounding and a few times with random rounding, as in `check_parity`. The
change of a value relative to its size gives its number of significant digits. An op loses as many digits as its
operands have more significant digits than its result. The line with the largest loss is called the culprit.
"""

from __future__ import annotations

import html
import itertools
import linecache
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.exec.runtime.numpy_state import numpy_state
from tenferro.program import GraphProgram
from tenferro.table import aligned
from tenferro.types import flatten
from xla_peer.json_values import json_value
from xla_peer.parity.movement import Record, RecordedMoves, RecordedValues, significant_digits
from xla_peer.parity.sensitivity import changed_run
from xla_peer.pullback import float_arguments
from xla_peer.tracing import differentiable, traced

__all__ = ["Digits", "LineDigits", "digits"]

RUNS = 6
MOST_BYTES = 180_000
"""Maximum total size of the table rows of an HTML page, in bytes."""
MOST_COLUMNS = 300
"""Maximum number of columns of a source line that are shown."""
LEAST = 1.0
"""Minimum number of digits that a line must lose to be shown."""
STYLE = """body { font: 13px/1.5 ui-monospace, monospace; margin: 16px; color: #1f2328; background: #fff; }
table { border-collapse: collapse; } td { padding: 0 10px; white-space: pre; } td.n { text-align: right; color: #6e7781; }
tr.culprit { outline: 2px solid #b42318; } p { font-family: system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #0d1117; } }
"""


@dataclass(frozen=True)
class LineDigits:
    """Loss of digits in one line of the user's source.

    Attributes:
        file, line: the file and the number of the line.
        text: the text of the line; empty if the file cannot be read.
        op: the op of the line that loses the most digits.
        lost: the number of decimal digits that this op loses.
        left: the number of significant decimal digits of the op's result.
        gradient_lost, gradient_left: the same numbers for the op of the line's derivative that loses the most digits;
            None if the line has no derivative.
    """

    file: str
    line: int
    text: str
    op: str
    lost: float
    left: float
    gradient_lost: float | None = None
    gradient_left: float | None = None

    @property
    def worst(self) -> float:
        """The number of digits that the line or its derivative loses, whichever is larger."""
        return max(self.lost, self.gradient_lost or 0.0)


@dataclass(frozen=True)
class Digits:
    """Significant digits that a function loses, by line. `print` shows a table, and `to_html` shows the source.

    Attributes:
        name: name of the program.
        lines: the source lines that contain an op, sorted by file and line number.
        left: the number of significant digits of each output.
    """

    name: str
    lines: tuple[LineDigits, ...]
    left: tuple[float, ...]

    @property
    def culprit(self) -> LineDigits | None:
        """The line that loses the most digits; None if no line loses a whole digit."""
        worst = max(self.lines, key=lambda line: line.worst, default=None)
        return worst if worst is not None and worst.worst >= LEAST else None

    def __repr__(self) -> str:
        culprit = self.culprit
        location = "no line loses a digit" if culprit is None else f"{culprit.file}:{culprit.line}"
        return f"<Digits {self.name}: {location:.80}>"

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON-compatible values."""
        culprit = self.culprit
        return json_value({
            "name": self.name,
            "left": list(self.left),
            "culprit": None if culprit is None else asdict(culprit),
            "lines": [asdict(line) for line in self.lines],
        })  # fmt: skip

    def __str__(self) -> str:
        left = ", ".join(f"{digits:.1f}" for digits in self.left)
        lines = [f"{self.name}: {left or 'no'} significant digits in the result"]
        culprit = self.culprit
        if culprit is not None:
            lines.append(
                f"{culprit.file}:{culprit.line} loses {culprit.worst:.1f}, by {culprit.op}: {culprit.text.strip()}"
            )
        rows = [
            (f"{line.file}:{line.line}", line.op, _shown(line.lost), _shown(line.left),
             _shown(line.gradient_lost), _shown(line.gradient_left), line.text.strip())
            for line in sorted(self.lines, key=lambda line: -line.worst)[:20]
            if line.worst >= LEAST
        ]  # fmt: skip
        head = ("line", "op", "lost", "left", "in the gradient", "left there", "source")
        return "\n".join([*lines, *(aligned([head, *rows]) if rows else [])])

    def to_html(self) -> str:
        """Return a self-contained HTML page below 200 kB, which shows the source with digits beside its lines.

        The first link leads to the culprit.
        """
        culprit = self.culprit
        link = "no line loses a digit"
        if culprit is not None:
            link = (
                f'<a href="#culprit">{html.escape(culprit.file)}:{culprit.line}</a> loses {culprit.worst:.1f} '
                f"digits, by {html.escape(culprit.op)}"
            )
        left = ", ".join(f"{digits:.1f}" for digits in self.left) or "none"
        parts = [
            f"<!doctype html><meta charset=utf-8><title>{html.escape(self.name)}</title><style>{STYLE}</style>",
            f"<p><b>{html.escape(self.name)}</b>: {link}. Significant digits of the result: {left}.</p>",
        ]
        shown = self._shown_lines(culprit)
        if len(shown) < len(self.lines):
            parts.append(f"<p>The {len(shown)} lines of {len(self.lines)} that lose most.</p>")
        for file in dict.fromkeys(line.file for line in shown):
            of_file = {line.line: line for line in shown if line.file == file}
            parts += [f"<h3>{html.escape(file)}</h3><table>", *_rows(of_file, culprit), "</table>"]
        return "\n".join(parts)

    _repr_html_ = to_html

    def _shown_lines(self, culprit: LineDigits | None) -> list[LineDigits]:
        """Return the culprit and the next worst lines, as many as fit into `MOST_BYTES`, in source order."""
        by_loss = sorted(self.lines, key=lambda line: (line != culprit, -line.worst))
        sizes = itertools.accumulate(_length(_rows({line.line: line}, culprit)) for line in by_loss)
        count = sum(size <= MOST_BYTES for size in sizes)
        return sorted(by_loss[:count], key=lambda line: (line.file, line.line))


def _rows(of_file: dict[int, LineDigits], culprit: LineDigits | None) -> list[str]:
    """Write HTML table rows for the lines of a file that have an op, and the lines before and after each of them."""
    rows: list[str] = []
    file = next(iter(of_file.values())).file
    for number in sorted({n + d for n in of_file for d in (-1, 0, 1) if n + d > 0}):
        line = of_file.get(number)
        text = html.escape(linecache.getline(file, number).rstrip("\n")[:MOST_COLUMNS])
        mark = ' class="line"' if line is not None else ""
        if line is not None and line == culprit:
            mark = ' class="culprit" id="culprit"'
        lost = _shown(line.lost) if line else ""
        gradient = _shown(line.gradient_lost) if line else ""
        shade = min(line.worst / 16, 1.0) if line else 0.0
        rows.append(
            f'<tr{mark} style="background: rgba(210, 60, 40, {shade:.2f})"><td class=n>{number}</td>'
            f"<td class=n>{lost}</td><td class=n>{gradient}</td><td>{text}</td></tr>"
        )
    return rows


def _length(rows: list[str]) -> int:
    return sum(len(row.encode()) + 1 for row in rows)


def _shown(value: float | None) -> str:
    return "" if value is None or value < 0.05 else f"{value:.1f}"


def digits(fn: Callable[..., Any] | GraphProgram, *arrays: Any, grad: bool = False) -> Digits:
    """Measure the significant digits that a function loses, line by line.

    For a value v, let d(v) = -log10(|v' - v| / |v|), where v' is the value in a run that rounds differently. An op y =
    f(x) loses d(x) - d(y) digits, for the operand x with the fewest digits; a negative number counts as 0. For
    elementwise ops the loss is computed for each element, and the 90 % quantile of the elements is used. The reason is
    that sums which are near zero by chance lose digits in only few elements. For all other ops, d(y) is computed from
    max |y' - y| / max |y|.

    Args:
        fn: a function of tensors, or a program.
        arrays: the arguments of `fn`.
        grad: whether to add columns for the gradient of the sum of the outputs.

    Raises:
        ArityError, DTypeError, ShapeError: the arrays do not fit.
        InvalidConfigError: there are too many intermediate values to keep.

    >>> def f(x):
    ...     y = x + 1e8
    ...     return y - 1e8
    >>> report = digits(f, np.array([0.1, 0.2]))
    >>> report.culprit.op, round(report.culprit.lost) >= 8
    ('Subtract', True)

    Source: stochastic arithmetic, as in CADNA (Vignes, 2004).
    """
    program = traced(fn, *arrays)
    if grad:
        function = differentiable(fn, program)
        program = tnf.compile(
            tnf.value_and_grad(_total(function), float_arguments(arrays)), *arrays
        )
    leaves = program.check_arguments(arrays)
    _, run = changed_run(program, leaves)
    record = Record()
    with numpy_state():
        outputs = [run(change=RecordedValues(record))]
        for seed in range(RUNS):
            record.restart()
            outputs.append(run(change=RecordedMoves(np.random.default_rng(seed), record)))
    left = [significant_digits(runs) for runs in zip(*outputs, strict=True)]
    return Digits(program.name, _by_line(record), tuple(left))


def _total(function: Callable[..., Any]) -> Callable[..., Any]:
    def total(*arguments: Any) -> Any:
        outputs = [y for y in flatten(function(*arguments))[0] if y.dtype.is_inexact]
        return sum(tnf.sum(tnf.real(y)) for y in outputs)

    return total


def _by_line(record: Record) -> tuple[LineDigits, ...]:
    lines: dict[tuple[str, int], dict[str, Any]] = {}
    for execution in record.steps:
        step = execution.step
        loss = None if step.source is None or step.bodies else execution.loss()
        if step.source is None or loss is None:
            continue
        line = lines.setdefault((step.source.file, step.source.line), {})
        kind = "gradient" if step.source.derivative_of else "value"
        if kind not in line or loss[0] > line[kind][0]:
            line[kind] = (*loss, step.op.name)
    return tuple([
        LineDigits(
            file,
            number,
            linecache.getline(file, number).rstrip("\n"),
            max(of.values())[2],
            *of.get("value", (0.0, math.inf))[:2],
            *(of["gradient"][:2] if "gradient" in of else (None, None)),
        )
        for (file, number), of in sorted(lines.items())
    ])  # fmt: skip
