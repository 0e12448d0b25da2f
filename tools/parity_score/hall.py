"""The hall of miscompiles as a section of docs/verdicts.md: public reports, rebuilt, on each jaxlib at hand.

python -m tools.parity_score.hall [--write] [PYTHON ..]

Each PYTHON has another jaxlib; by default it is this one and those of `make oldest` and `make newest`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.hall.reports import ELSEWHERE, SEARCHES

__all__ = ["hall_section"]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "verdicts.md"
OTHERS = tuple(ROOT / folder / "bin" / "python" for folder in (".venv-oldest", ".venv-newest"))
CODE = (
    "import json, jaxlib; from tests.hall.reports import visited; "
    "print(json.dumps([jaxlib.__version__, visited()]))"
)
TITLE = "## The hall of miscompiles\n"
HEAD = f"""{TITLE}
Public reports of wrong values and crashes of XLA on CPU, rebuilt in `tests/hall` as small programs whose right values follow from the definition of the ops.
A cell says whether XLA's value is wrong there, and the verdict, or the signal that ended XLA's process; where a product that is not rounded before it is added is right too, the reports' numbers are not decidable.
"""


def hall_section(pythons: Sequence[str | Path] = ()) -> str:
    """Write the section, with a column for the jaxlib of each of these interpreters."""
    chosen = pythons or [sys.executable, *[python for python in OTHERS if python.exists()]]
    halls = sorted(
        [visited_by(str(python)) for python in chosen], key=lambda hall: numbers(hall[0])
    )
    head = ["report", "fault", *[f"jaxlib {version}" for version, _ in halls]]
    lines = [HEAD, row(head), row(["---"] * len(head))]
    for reports in zip(*[rows for _, rows in halls], strict=True):
        lines.append(row([*reports[0][:2], *[state for _, _, state in reports]]))
    lines += ["\nSearches of GitHub's issues:\n", *[f'- "{words}"' for words in SEARCHES]]
    lines += ["\nNot rebuilt:\n", *[f"- {name}: {reason}" for name, reason in ELSEWHERE]]
    return "\n".join(lines) + "\n"


def row(cells: list[str]) -> str:
    """Format a row in Markdown."""
    return f"| {' | '.join(cells)} |"


def numbers(version: str) -> list[int]:
    """Parse a version into numbers, which sort as versions do."""
    return list(map(int, version.split(".")))


def visited_by(python: str) -> tuple[str, list[list[str]]]:
    """Return the version of that interpreter's jaxlib, and the rows, from a process of its own."""
    done = subprocess.run([python, "-c", CODE], stdout=subprocess.PIPE, text=True, check=True)
    version, rows = json.loads(done.stdout.splitlines()[-1])
    return version, rows


def main() -> None:
    """Print the section, and write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="replace the section of docs/verdicts.md"
    )
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    arguments = parser.parse_args()
    section = hall_section(arguments.pythons)
    print(section)
    if arguments.write:
        PAGE.write_text(PAGE.read_text().partition(TITLE)[0] + section)


if __name__ == "__main__":
    main()
