"""Write docs/accuracy.md from the records."""

from __future__ import annotations

from collections.abc import Sequence

from tools.accuracy.compiled import TABLE, WORST, bound_of
from tools.accuracy.engines import ENGINES
from tools.accuracy.functions import FUNCTIONS
from tools.accuracy.records import Record

__all__ = ["DTYPES", "written"]

HEAD = """# Accuracy

This page is for readers who need to know the error of a function before they trust a result.
Afterwards you can look up the largest measured error: natively, in compiled code, and through XLA.

Errors are in units in the last place of the exact value, which [mpmath](https://mpmath.org) computes with at least 60 digits. A correctly rounded result has an error of at most 0.5.

Each function is run in three ways: "NumPy" by the native kernels, "compiled" by code that LLVM compiles, and "PJRT" by XLA on the CPU.
A dash means that compiled code calls NumPy's kernel. A question mark means that the error has not been measured.

All ways run on the same arguments. A function of one number is run on all numbers of float16 and bfloat16.
In all other cases the arguments are structured and random ones.
Structured arguments are powers of two, whole numbers, multiples of a quarter of pi, ends of domains, points where formulas change, and their neighbours; random arguments have all magnitudes.
The result for each argument is first compared with a reference: NumPy or SciPy in float64, or, for float64, in long doubles if they are available.
The arguments with the largest differences, and in float64 a thousand random arguments, are then judged with many digits.

XLA flushes subnormal numbers to zero. So for PJRT, subnormal arguments and values are excluded, and so are zeros in place of values up to 1,024 times the smallest normal number.
If a function is a sum of terms that cancel, the error is relative to the terms. This applies to the logarithm of the gamma function and the digamma function near their zeros.

`make accuracy` writes this page; an interrupted run can be resumed. {ran}

"""
BOUNDS = """
## Compiled functions and their bounds

Functions that are computed by compiled code have declared bounds, in `tenferro/exec/llvm/functions.py`.
In float64 each function has its own bound. In float32 the bound of all functions is {single} units, because they are computed in float64. In float16 and bfloat16 the result is rounded once more.

A function of one number is run on every bit pattern of float32, float16 and bfloat16, including infinities, NaN and subnormal numbers. The reference is NumPy or SciPy in float64; an error of a few units of float64 is 2^-28 units of float32.
A function of two numbers, and every function in float64, is run on the number of arguments that the table shows. The reference for float64 has 64 significant bits: NumPy's long doubles, and for the error functions their Taylor series in long doubles.
The {worst:,} arguments with the largest differences are judged with many digits; in dtypes of 16 bits fewer results are inexact. If only one of the result and the reference is infinite or NaN, the error is infinite.
`make accuracy` fails if an error exceeds its bound.

| function | {heads} | judged in many digits |
| --- |{rules} --- |
"""
DTYPES = ("float16", "bfloat16", "float32", "float64")


def written(records: Sequence[Record]) -> str:
    """Return the page, with a table of the largest errors and their arguments, and a table of the declared bounds."""
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
    """Return the sentence of the page about the measurement: number of arguments, date, environment, duration."""
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
        f"The errors were measured on at most {most['float32']:,} arguments per function in float32 and "
        f"{most['float64']:,} in float64, on {when}, with {'; '.join(sorted(wheres))}, in {minutes:.0f} minutes of one process."
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
