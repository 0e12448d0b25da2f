"""The page of accuracy, from records."""

from __future__ import annotations

from typing import Any

from tools.accuracy.engines import ENGINES
from tools.accuracy.functions import FUNCTIONS

__all__ = ["DTYPES", "written"]

HEAD = """# Accuracy

The largest error of each function that was seen, in units in the last place of the exact value, which [mpmath](https://mpmath.org) gives in 60 digits and more. Correct rounding is 0.5.
Arguments are all that there are in float16 and bfloat16, for functions of one number; else structured ones (powers of two, whole numbers, multiples of a quarter of pi, ends of domains, points where formulas change, and their neighbours) and random ones of all sizes.
Those with the largest errors by another library, NumPy or SciPy in float64, are judged in many digits.
"NumPy" are the native kernels, "compiled" are loops and groups by LLVM, "PJRT" is XLA on the CPU, which takes subnormal numbers for zero: there they are left out.
Where a function is a sum of terms that cancel (near the zeros of the logarithm of the gamma function, and of the digamma function), the error is relative to the terms.
A dash: there is no such way, compiled loops call NumPy's kernel.

`make accuracy` writes this page; it goes on where it was ended. {counts}

"""
DTYPES = ("float16", "bfloat16", "float32", "float64")


def written(records: list[dict[str, Any]]) -> str:
    """The page: a table for each dtype, and where the largest errors are."""
    cells = {(r["function"], r["dtype"], r["engine"]): r for r in records}
    wheres = {
        tuple([(name, v) for name, v in sorted(r["environment"].items()) if name != "code"])
        for r in records
    }
    measured = [r for r in records if r["cell"] is not None]
    most = {
        dtype: max([r["cell"]["count"] for r in measured if r["dtype"] == dtype], default=0)
        for dtype in DTYPES
    }
    counts = (
        f"These are of at most {most['float32']:,} arguments of each function in float32 and "
        f"{most['float64']:,} in float64, by "
        + "; ".join(
            [", ".join([f"{name} {value}" for name, value in where]) for where in sorted(wheres)]
        )
        + "."
    )
    heads = [f"{dtype}, {engine}" for dtype in DTYPES for engine in ENGINES]
    lines = [HEAD.format(counts=counts)]
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
    for r in sorted(measured, key=lambda r: -r["cell"]["error"])[:30]:
        at = ", ".join([repr(x) for x in r["cell"]["arguments"]])
        lines.append(f"| {r['function']} | {r['dtype']} | {r['engine']} | {_shown(r)} | {at} |")
    return "\n".join(lines) + "\n"


def _shown(record: dict[str, Any] | None) -> str:
    if record is None:
        return ""
    return "-" if record["cell"] is None else f"{record['cell']['error']:.3g}"
