"""Write docs/stablehlo.md, which lists the StableHLO operations and types that the importer supports.

python tools/stablehlo_page.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from lowering.read import READERS
from lowering.read.refused import REFUSED, REWRITTEN
from lowering.syntax.definitions import DEFINITIONS
from lowering.types import element_type
from tenferro.types import DType

PAGE = Path(__file__).resolve().parent.parent / "docs" / "stablehlo.md"
FOREIGN = {
    "!quant.uniform per tensor, per axis": "read as stored integers",
    "!stablehlo.token": "read, and dropped: programs run in order",
    "tuple": "read as its elements",
    "!quant.uniform with scales for blocks": "refused: export with scales per tensor or per axis",
    "index": "read as int64",
    "bounds on extents": "read, and checked when the program runs",
    "f80, f128, tf32, integers of other widths": "refused: NumPy has no such dtype",
    "unranked tensors": "refused: give ranks",
}


def statuses() -> dict[str, str]:
    """Return the status of each operation: "read", "read: .." with a condition, or "refused: .." with a reason.

    Raises:
        LookupError: an operation is in no table.
    """
    status: dict[str, str] = {}
    for name in DEFINITIONS:
        if name in REFUSED:
            status[name] = f"refused: {REFUSED[name]}"
        elif name in READERS:
            status[name] = "read"
        elif name in REWRITTEN:
            status[name] = f"read: {REWRITTEN[name]}"
        else:
            raise LookupError(f"{name} is neither read nor refused")
    return status


def rows(status: Mapping[str, str], word: str) -> list[str]:
    """Return table rows for the statuses that begin with `word`.

    Each row has one reason, and all operations with this reason.
    """
    reasons: dict[str, list[str]] = {}
    for name, text in status.items():
        if text.startswith(f"{word}: "):
            reasons.setdefault(text.removeprefix(f"{word}: "), []).append(f"`{name}`")
    return [
        f"| {', '.join(sorted(names))} | {reason} |" for reason, names in sorted(reasons.items())
    ]


def page() -> str:
    """Return the text of docs/stablehlo.md."""
    status = statuses()
    plain = [name for name, text in status.items() if text == "read"]
    lines = [
        "# StableHLO, operation by operation",
        "",
        "This page is for readers who want to know whether tenferro can [import](import.md) a StableHLO module. It lists every "
        "operation and type. `tools/stablehlo_page.py` writes it from the tables of the readers.",
        "",
        "## Operations",
        "",
        "| dialect | read | operations |",
        "| --- | --- | --- |",
    ]
    for dialect in sorted({name.partition(".")[0] for name in plain}):
        names = sorted(name.partition(".")[2] for name in plain if name.startswith(f"{dialect}."))
        lines.append(f"| `{dialect}` | {len(names)} | {', '.join(f'`{name}`' for name in names)} |")
    lines += [
        "",
        "These operations contain other operations, or are replaced by other operations before a module is read:",
        "", "| operations | |", "| --- | --- |", *rows(status, "read"), "",
        "XLA differs from the specification in `stablehlo.scatter`: it ignores a whole window if any of its elements is "
        "out of bounds. `import_stablehlo(.., drops_windows=True)` "
        "gives programs that do the same.", "",
        "A module with one of these operations is refused, with an error that names the operation:",
        "", "| operations | why, or what instead |", "| --- | --- |", *rows(status, "refused"), "",
        "## Types",
        "",
        f"Element types are {', '.join(f'`{element_type(dtype)}`' for dtype in DType)}.",
        "", "| other types | |", "| --- | --- |", *[f"| {name} | {text} |" for name, text in FOREIGN.items()], "",
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    if parser.parse_args().check:
        is_current = PAGE.read_text() == page()
        print(
            f"{PAGE.name} is {'as the tables are' if is_current else 'out of date: run tools/stablehlo_page.py'}"
        )
        return not is_current
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
