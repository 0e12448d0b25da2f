"""Write docs/accuracy.md from the records."""

from __future__ import annotations

from collections.abc import Sequence

from tools.accuracy.compiled import TABLE, WORST, bound_of
from tools.accuracy.engines import ENGINES
from tools.accuracy.functions import FUNCTIONS
from tools.accuracy.records import Record

__all__ = ["DTYPES", "written"]

HEAD = """# Accuracy

For readers who need to know the error of a function before they trust a result.
Afterwards you can look up the largest error seen, natively, compiled and through XLA.

Errors are in units in the last place of the exact value, which [mpmath](https://mpmath.org) gives in 60 digits and more. Correct rounding is 0.5.
Arguments are all that there are in float16 and bfloat16, for functions of one number; else structured ones (powers of two, whole numbers, multiples of a quarter of pi, ends of domains, points where formulas change, and their neighbours) and random ones of all sizes, the same for every way of running.
Those with the largest errors by another library, NumPy or SciPy in float64, or in long doubles for float64 where it has them, are judged in many digits; in float64 a thousand random ones are too.
"NumPy" are the native kernels, "compiled" are loops and groups by LLVM, "PJRT" is XLA on the CPU, which takes subnormal numbers for zero: there arguments and values that are subnormal are left out, and zeros in place of values up to 1,024 times the smallest normal number.
Where a function is a sum of terms that cancel (near the zeros of the logarithm of the gamma function, and of the digamma function), the error is relative to the terms.
A dash: there is no such way, compiled loops call NumPy's kernel. A question mark: that has not been measured.

`make accuracy` writes this page; it goes on where it was ended. {ran}

"""
BOUNDS = """
## Compiled functions and their bounds

The functions that LLVM's code computes have declared bounds, in `tenferro/exec/llvm/functions.py`: in float64 one of each function, in float32, of which arithmetic is in float64, {single} units for all, and in float16 and bfloat16 that value rounded again.
A function of one number is run with every bit pattern of float32, float16 and bfloat16, infinities, NaN and subnormal numbers among them, against NumPy's or SciPy's float64, in which an error of some units is 2^-28 units of float32.
A function of two numbers, and every function in float64, is run with as many arguments as the table says; what float64 is compared with is arithmetic of 64 bits, NumPy's long doubles, and Taylor's series in them for the error functions.
The {worst:,} worst by that are judged in many digits; of 16 bits there are fewer that are not exact. Where an infinity or NaN is not the other's, the error is infinite.
An error beyond its bound fails `make accuracy`.

| function | {heads} | judged in many digits |
| --- |{rules} --- |
"""
DTYPES = ("float16", "bfloat16", "float32", "float64")


def written(records: Sequence[Record]) -> str:
    """Return the page: a table for each dtype, the arguments with the largest errors, and the bounds of compiled functions."""
    bounds = {(r["function"], r["dtype"]): r for r in records if r["engine"] == "bound"}
    by_engine = [r for r in records if r["engine"] != "bound" and r["function"] in FUNCTIONS]
    cells = {(r["function"], r["dtype"], r["engine"]): r for r in by_engine}
    heads = [f"{dtype}, {engine}" for dtype in DTYPES for engine in ENGINES]
    lines = [HEAD.format(ran=_ran(records))]
    lines += [f"| function | {' | '.join(heads)} |", f"| --- |{' --- |' * len(heads)}"]
    for name in FUNCTIONS:
        row = [_shown(cells.get((name, d, e))) for d in DTYPES for e in ENGINES]
        lines.append(f"| {name} | {' | '.join(row)} |")
    lines += [
        "",
        "## Where the largest errors are",
        "",
        "| function | dtype | by | ulps | at |",
        "| --- | --- | --- | --- | --- |",
    ]
    measured = [r for r in by_engine if r["cell"] is not None]
    for r in sorted(measured, key=lambda r: -r["cell"]["error"])[:40]:
        at = ", ".join([repr(x) for x in r["cell"]["arguments"]])
        lines.append(f"| {r['function']} | {r['dtype']} | {r['engine']} | {_shown(r)} | {at} |")
    heads = [f"{dtype}: {text}" for dtype in DTYPES for text in ("bound", "largest", "of")]
    text = BOUNDS.format(
        single=bound_of("exp", "float32"),
        worst=WORST,
        heads=" | ".join(heads),
        rules=" --- |" * len(heads),
    )
    rows = [_bounds_row(name, [bounds.get((name, dtype)) for dtype in DTYPES]) for name in TABLE]
    return "\n".join(lines) + "\n" + text + "\n".join(rows) + "\n"


def _ran(records: Sequence[Record]) -> str:
    """Return the number of arguments, the date, the environment and the time of the measurement."""
    measured = [r for r in records if r["cell"] is not None]
    if not measured:
        return "It has not been run."
    most = {
        dtype: max([r["cell"]["count"] for r in measured if r["engine"] != "bound" and r["dtype"] == dtype], default=0)
        for dtype in ("float32", "float64")
    }  # fmt: skip
    wheres = {
        ", ".join([f"{key} {value}" for key, value in r["environment"].items() if key != "code"])
        for r in records
    }
    minutes = sum([r["seconds"] for r in records]) / 60
    dates = sorted({r["date"] for r in records})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return (
        f"These are of at most {most['float32']:,} arguments of each function in float32 and "
        f"{most['float64']:,} in float64, of {when}, by {'; '.join(sorted(wheres))}, in {minutes:.0f} minutes of one process."
    )


def _shown(record: Record | None) -> str:
    if record is None:
        return "?"
    return "-" if record["cell"] is None else f"{record['cell']['error']:.3g}"


def _bounds_row(name: str, records: Sequence[Record | None]) -> str:
    row = [name]
    judged = 0
    for dtype, record in zip(DTYPES, records, strict=True):
        bound = bound_of(name, dtype)
        row.append(f"{bound:.5g}")
        if record is None or record["cell"] is None:
            row += ["?" if record is None else "-", "0"]
            continue
        cell = record["cell"]
        judged += cell["judged"]
        row += [f"{cell['error']:.5g}", f"{cell['count']:,}"]
    return f"| {' | '.join([*row, f'{judged:,}'])} |"
