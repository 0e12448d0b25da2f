"""Write docs/coverage.md: op x dtype x {infer, native, lower, XLA}, from the samples that the tests run.

python tools/coverage.py            writes the file
python tools/coverage.py --check    fails when the file is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tenferro.ad.rules import AD_RULES
from tenferro.ops import STD_OPS
from tenferro.types import DType
from tests.samples import SAMPLES

TARGET = Path(__file__).resolve().parent.parent / "docs" / "coverage.md"
HEADER = """# Coverage

Each cell says what the tests do with samples of that op in that dtype, the dtype being that of the first operand, or of the result where there is none.

- `x`: types inferred, values computed natively against the definition, lowered, verified, run through PJRT as parameters and as constants.
- `n`: inferred and computed natively; StableHLO or XLA has no counterpart, for the reason in the notes.
- blank: the op does not take the dtype.

This file is written by `python tools/coverage.py`.

"""


def table() -> str:
    """The page."""
    rows = [
        "| op | " + " | ".join(dtype.short for dtype in DType) + " |",
        "| --- |" + " --- |" * len(DType),
    ]
    notes: list[str] = []
    for card in STD_OPS:
        cells: list[str] = []
        for dtype in DType:
            samples = [sample for sample in SAMPLES[card] if sample.dtype is dtype]
            if dtype in card.accepts and not samples:
                raise SystemExit(f"{card.__name__} takes {dtype} and has no sample of it")
            cells.append("x" if any(s.xla for s in samples) else "n" if samples else " ")
        rows.append(f"| {card.__name__} | " + " | ".join(cells) + " |")
        reasons = sorted({s.because for s in SAMPLES[card] if not s.xla})
        notes += [f"- {card.__name__}: {reason}." for reason in reasons]
    bounds = [
        "| op | native ulps | XLA ulps | because |",
        "| --- | --- | --- | --- |",
    ]
    for card in STD_OPS:
        inexact = [s for s in SAMPLES[card] if s.ulps or s.xla_ulps]
        for because in sorted({s.because for s in inexact}):
            same = [s for s in inexact if s.because == because]
            bounds.append(
                f"| {card.__name__} | {max(s.ulps for s in same):g} | "
                f"{max(s.xla_ulps for s in same):g} | {because} |"
            )
    derivatives = [
        "| op | tangent | transpose | note |",
        "| --- | --- | --- | --- |",
    ]
    for card in STD_OPS:
        rule = AD_RULES[card]
        tangent = "" if rule.jvp is None else "rule"
        transpose = "rule" if rule.transpose is not None else ""
        derivatives.append(f"| {card.__name__} | {tangent} | {transpose} | {rule.reason} |")
    return (
        HEADER
        + "\n".join(rows)
        + "\n\n## Notes\n\n"
        + "\n".join(notes)
        + "\n\n## Declared distances\n\n"
        + "Native ulps are from the definition, XLA ulps from the native result; all other ops are exact.\n\n"
        + "\n".join(bounds)
        + "\n\n## Derivatives\n\n"
        + "An op without a transpose never occurs in a linear region: its tangent is made of those that have one. "
        + "Tangents, cotangents and second derivatives of every op are tested in every float and complex dtype it takes, natively and through PJRT.\n\n"
        + "\n".join(derivatives)
        + "\n"
    )


if __name__ == "__main__":
    page = table()
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_text() != page:
            raise SystemExit("docs/coverage.md is out of date: run `python tools/coverage.py`")
    else:
        TARGET.write_text(page)
        print(f"{len(STD_OPS)} ops in {TARGET.name}")
