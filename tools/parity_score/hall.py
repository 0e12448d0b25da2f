"""The hall of miscompiles as a section of docs/verdicts.md: public reports, rebuilt, on each jaxlib at hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.hall.reports import ELSEWHERE, SEARCHES

__all__ = ["hall_section"]

OLDEST = Path(__file__).parents[2] / ".venv-oldest" / "bin" / "python"
CODE = (
    "import json, jaxlib; from tests.hall.reports import visited; "
    "print(json.dumps([jaxlib.__version__, visited()]))"
)
HEAD = """## The hall of miscompiles

Public reports of wrong values from XLA on CPU, rebuilt in `tests/hall` as small programs whose right values follow from the definition of the ops.
A cell says whether XLA's value is wrong there, and the verdict; where a product that is not rounded before it is added is right too, the reports' numbers are not decidable.
"""


def hall_section(oldest: Path = OLDEST) -> str:
    """The table, with a column for the other jaxlib where that environment exists."""
    pythons = [sys.executable, *[str(oldest)] * oldest.exists()]
    halls = [visited_by(python) for python in pythons]
    head = ["report", "fault", *[f"jaxlib {version}" for version, _ in halls]]
    lines = [HEAD, row(head), row(["---"] * len(head))]
    for reports in zip(*[rows for _, rows in halls], strict=True):
        cells = [f"{state}: {verdict}" for _, _, state, verdict in reports]
        lines.append(row([*reports[0][:2], *cells]))
    lines += ["\nSearches of GitHub's issues:\n", *[f'- "{words}"' for words in SEARCHES]]
    lines += ["\nNot rebuilt:\n", *[f"- {name}: {reason}" for name, reason in ELSEWHERE]]
    return "\n".join(lines) + "\n"


def row(cells: list[str]) -> str:
    """A row in Markdown."""
    return f"| {' | '.join(cells)} |"


def visited_by(python: str) -> tuple[str, list[list[str]]]:
    """The version of its jaxlib, and the rows, from a process of that Python."""
    done = subprocess.run([python, "-c", CODE], capture_output=True, text=True, check=True)
    version, rows = json.loads(done.stdout.splitlines()[-1])
    return version, rows
