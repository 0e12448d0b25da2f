"""Search for arguments at which compiled functions exceed their declared bounds.

For float32, float16 and bfloat16, all bit patterns are compared with NumPy or SciPy in float64. For float64, random
arguments are compared with extended precision. For the arguments with the largest differences, mpmath then computes
the exact errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.exec.llvm.functions import FUNCTIONS as TABLE
from tenferro.exec.llvm.functions import SINGLE_ULPS
from tools.accuracy import long_double
from tools.accuracy.arguments import CHUNK, all_singles, chunks, dtype_of
from tools.accuracy.engines import run_of
from tools.accuracy.errors import estimates, exact_values
from tools.accuracy.function import Function
from tools.accuracy.functions import FUNCTIONS
from tools.accuracy.measure import Cell, judged
from tools.accuracy.worst import Worst

__all__ = ["TABLE", "bound_of", "largest_error"]

WORST = 10_000
"""Number of arguments whose errors mpmath computes with many digits: those with the largest estimated errors."""
ALL_OF = 64
"""Every 64th chunk of float32 numbers is examined completely.

In the other chunks, correctly rounded results are skipped.
"""
CALLS: dict[str, Callable[..., Any]] = {
    # The public `hypot` does not call the compiled function: it scales its arguments and computes a root. The
    # absolute value of a complex number does call it.
    "hypot": lambda x, y: tnf.abs(tnf.lax.complex(x, y))
}
REFERENCES: dict[str, Callable[..., Any]] = {
    "erf": long_double.erf,
    "erfc": long_double.erfc,
    "erfinv": long_double.erfinv,
}
"""References for float64 in long doubles, for functions that SciPy computes only in float64."""
MOST_BITS = np.finfo(np.longdouble).nmant >= 63


def bound_of(name: str, dtype: str) -> float:
    """Return the declared bound in ulps.

    For 16-bit dtypes, it is the bound of float32 plus half an ulp for the rounding.
    """
    if dtype == "float64":
        return TABLE[name].ulps
    if dtype == "float32":
        return SINGLE_ULPS
    bits = {"float16": 10, "bfloat16": 7}[dtype]
    return 0.5 + SINGLE_ULPS * 2.0 ** (bits - 23)


def largest_error(name: str, dtype: str, count: int) -> Cell | None:
    """Return the largest error of a compiled function, and its arguments; None if the function is not compiled.

    Args:
        count: number of arguments in float64, and in float32 for functions of two numbers.
    """
    function = FUNCTIONS[name]
    function = replace(function, call=CALLS.get(name, function.call))
    run = run_of(function, "compiled", dtype)
    if run is None:
        return None
    reference = function.reference
    if dtype == "float64":
        if not MOST_BITS:
            raise RuntimeError("long doubles have no more bits than float64 here")
        reference = REFERENCES.get(name, reference)
    worst = Worst(WORST, WORST)
    looked_at = 0
    for number, xs in enumerate(_arguments(function, dtype, count)):
        y = run(xs)
        exact = exact_values(reference, xs)
        if dtype == "float32" and number % ALL_OF:
            # Keep only results that differ from the nearest float. These results are few, and the largest errors are
            # among them.
            with np.errstate(all="ignore"):
                rounded = exact.astype(np.float32)
            other = np.flatnonzero(rounded.view(np.uint32) != y.view(np.uint32))
            xs, y, exact = [x[other] for x in xs], y[other], exact[other]
        if len(y):
            worst.add(estimates(exact, y, is_strict=True), xs, y)
        looked_at += CHUNK
    entries = worst.entries()
    if len(entries) and np.isinf(entries[0, 0]):
        return Cell(looked_at, 0, np.inf, tuple(entries[0, 1:-1].tolist()), float(entries[0, -1]))
    return judged(function, dtype, looked_at, [], entries, WORST)


def _arguments(function: Function, dtype: str, count: int) -> Iterator[list[np.ndarray]]:
    if function.arity == 2 or dtype == "float64":
        yield from chunks(function, dtype, count)
    elif dtype == "float32":
        yield from all_singles()
    else:
        yield [np.arange(CHUNK, dtype=np.uint16).view(dtype_of(dtype))]
