"""Reports of the measurements: a Markdown table, geometric means, and a JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from cells import Cell
from contestants import CONTESTANTS
from interleaved import geometric_mean, put_into

__all__ = ["summary", "table", "write_json", "write_page"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "loops.md"


def table(cells: list[Cell]) -> str:
    """Return a Markdown table of milliseconds. In brackets after a contestant's time is native's time divided by this
    time.

    The last columns have the times to the first result.
    """
    names = [name for name in CONTESTANTS if any(name in cell.times for cell in cells)]
    firsts = [name for name in ("native", "PJRT", "jax") if name in names]
    head = ["kernel", *names, *[f"first: {name}" for name in firsts]]
    lines = [_row(head), _row(["---"] * len(head))]
    for cell in cells:
        row = [cell.name, *[_shown(cell, name) for name in names]]
        row += [
            _milliseconds(cell.times[name].first) if name in cell.times else "" for name in firsts
        ]
        lines.append(_row(row))
    return "\n".join(lines)


def summary(cells: list[Cell]) -> str:
    """Return lines with the geometric means of native's times divided by those of each contestant.

    Values and gradients have separate means, and so do first and later results.
    """
    lines: list[str] = []
    for gradient, what in ((False, "Values"), (True, "Gradients")):
        rows = [cell for cell in cells if cell.gradient is gradient]
        lines += _of_first_results(rows, what)
        for name in CONTESTANTS:
            if name == "native":
                continue
            ratios = [ratio for cell in rows if (ratio := cell.ratio(name)) is not None]
            if ratios:
                mean = geometric_mean(ratios)
                lines.append(
                    f"{what}: the ratio of times native / {name} is {mean:.2f} (geometric mean of {len(ratios)} programs)."
                )
    return "\n".join([*lines, *_gradients_over_values(cells)])


def _of_first_results(cells: list[Cell], what: str) -> list[str]:
    """Return lines with the ratios of native's time to the first result to those of PJRT and JAX.

    The time includes tracing and compiling.
    """
    lines: list[str] = []
    for name in ("PJRT", "jax"):
        ratios = [
            cell.times["native"].first / cell.times[name].first
            for cell in cells
            if {"native", name} <= cell.times.keys()
        ]
        if ratios:
            lines.append(
                f"{what}, first results: native / {name} is {geometric_mean(ratios):.2f} in the geometric mean "
                f"of {len(ratios)}."
            )
    return lines


def _gradients_over_values(cells: list[Cell]) -> list[str]:
    """Return lines that state, for each contestant, the time of the gradient divided by the time of the value."""
    values = {cell.kernel: cell.times for cell in cells if not cell.gradient}
    lines: list[str] = []
    for name in CONTESTANTS:
        ratios = [
            cell.times[name].median / values[cell.kernel][name].median
            for cell in cells
            if cell.gradient and name in cell.times and name in values.get(cell.kernel, ())
        ]
        if ratios:
            mean = geometric_mean(ratios)
            lines.append(
                f"{name}: the ratio of times gradient / value is {mean:.2f} (geometric mean of {len(ratios)} programs)."
            )
    return lines


def write_json(cells: list[Cell], path: Path) -> None:
    """Write all measurements to a JSON file; times are in seconds."""
    path.write_text(json.dumps([asdict(cell) for cell in cells], indent=1))


def write_page(text: str) -> None:
    """Write the table into docs/loops.md."""
    put_into(PAGE, "loops", text)


def _row(values: list[str]) -> str:
    return f"| {' | '.join(values)} |"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def _shown(cell: Cell, name: str) -> str:
    if name in cell.failures:
        return "did not finish"
    if name not in cell.times:
        return ""
    shown = _milliseconds(cell.times[name].median)
    return (
        shown
        if (ratio := cell.ratio(name)) is None or name == "native"
        else f"{shown} ({ratio:.2f})"
    )
