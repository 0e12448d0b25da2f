"""Write docs/coverage.md from the record of executed tests; `make coverage` runs the tests first, to write the record.

python tools/coverage.py            writes the page
python tools/coverage.py --check    fails if an op has no entry, or a supported dtype has no sample
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tenferro.ad.rules import AD_RULES
from tenferro.ops import STD_OPS
from tests.ledger.ledger import COLUMNS, Ledger
from tests.ledger.writing import EXTENSIONS, OPS
from tests.samples import SAMPLES

TARGET = Path(__file__).resolve().parent.parent / "docs" / "coverage.md"
HEADER = """# Coverage

This page is for readers who ask what was tested, op by op and dtype by dtype.
Afterwards you can tell a check that passed from one that does not apply.

The table shows which samples passed in a recorded run of the tests; it is not a list of declarations.
Each row lists an op, with those of its dtypes that have the same entries. The dtype is that of the operand that determines the op's semantics, or of the result if there is no operand.

{columns}

`x`: samples passed. `-`: the check does not apply. Integers and bools have no derivatives; other reasons are in the notes. `GAP`: the check applies, but no sample ran.
The numbers of samples are in `tests/ledger/ledger.json`.

This file is written by `make coverage`.
"""


def page(ledger: Ledger) -> str:
    """Return the text of docs/coverage.md."""
    columns = "\n".join(f"- {name}: {meaning}." for name, meaning in COLUMNS.items())
    parts = [HEADER.format(columns=columns), ledger.to_markdown(), distances(), derivatives()]
    return "\n".join(part.strip() + "\n" for part in parts)


def distances() -> str:
    """Return a table of the largest error that the tests allow each op's results, with the reason for it."""
    rows = ["| op | native ulps | XLA ulps | because |", "| --- | --- | --- | --- |"]
    for card in STD_OPS:
        inexact = [sample for sample in SAMPLES[card] if sample.ulps or sample.xla_ulps]
        for because in sorted({sample.because for sample in inexact}):
            same = [sample for sample in inexact if sample.because == because]
            native, xla = max(s.ulps for s in same), max(s.xla_ulps for s in same)
            rows.append(f"| {card.__name__} | {native:g} | {xla:g} | {because} |")
    return (
        "## Declared distances\n\n"
        "Native ulps are the distance from the definition, and XLA ulps the distance from the native result. All other ops are exact.\n\n"
        + "\n".join(rows)
    )


def derivatives() -> str:
    """Return a table that shows which ops have a tangent rule and a transpose rule."""
    rows = ["| op | tangent | transpose | note |", "| --- | --- | --- | --- |"]
    for card in STD_OPS:
        rule = AD_RULES[card]
        tangent, transpose = ("rule" if part else "" for part in (rule.jvp, rule.transpose))
        rows.append(f"| {card.__name__} | {tangent} | {transpose} | {rule.reason} |")
    return (
        "## Derivatives\n\n"
        "An op without a transpose never occurs in a linear region: its tangent consists of ops with transposes. "
        "Second derivatives are tested too, natively and through PJRT.\n\n" + "\n".join(rows)
    )


def complaints(ledger: Ledger) -> list[str]:
    """Return a message for each op or dtype that the tests should cover but that the record does not contain."""
    unsampled = [
        f"{entry.op} takes {dtype} and has no sample of it"
        for entry in OPS
        for dtype in entry.dtypes
        if not any(sample.dtype is dtype for sample in entry.samples)
    ]
    known = {row.op for row in ledger.rows}
    missing = [f"{entry.op} is not in it" for entry in (*OPS, *EXTENSIONS) if entry.op not in known]
    return unsampled + missing


if __name__ == "__main__":
    ledger = Ledger.load()
    if problems := complaints(ledger):
        raise SystemExit(f"the ledger of coverage: {'; '.join(problems)}: run `make coverage`")
    if "--check" not in sys.argv:
        TARGET.write_text(page(ledger))
        print(
            f"{len(ledger.ops)} rows of ops and {len(ledger.extensions)} of families in {TARGET.name}"
        )
