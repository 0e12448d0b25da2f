"""Compute the coefficients of the polynomials in compiled functions, and write them as a Python module.

    python tools/polynomials.py             writes tenferro/exec/llvm/coefficients.py
    python tools/polynomials.py --check     fails if the module is outdated

Each polynomial interpolates its function at Chebyshev nodes, computed with 60 digits; its coefficients are then
rounded to float64. Its maximum error is within a few per cent of that of the minimax polynomial.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath

WIDTH = 96
"""Maximum width of a line of the module, in characters."""
PAGE = Path(__file__).parent.parent / "tenferro" / "exec" / "llvm" / "coefficients.py"
HALF_LN2 = mpmath.mpf("0.34658")
"""Bound of |r|, where r is the reduced argument of exp: slightly above ln(2) / 2."""
LARGEST_R2 = mpmath.mpf("0.6170")
"""Bound of r^2, where r is the reduced argument of sin and cos: slightly above (pi / 4)^2."""
LARGEST_T2 = mpmath.mpf("0.1716")
"""Bound of s^2, where s is the reduced argument of atan: slightly above (sqrt(2) - 1)^2."""
ROOTS = (mpmath.mpf("-0.29290"), mpmath.mpf("0.41422"))
"""Bounds of g in log(1 + g): slightly outside the interval from sqrt(1/2) - 1 to sqrt(2) - 1."""
LARGEST_S2 = mpmath.mpf("0.02944")
"""Bound of s^2 with s = f / (2 + f), slightly above its maximum for sqrt(1/2) <= 1 + f <= sqrt(2)."""

ERFC_CENTRE = mpmath.mpf("3.75")
"""Constant k in the argument (x - k) / (x + k) of erfc's polynomial.

`tenferro/exec/llvm/error_function.py` uses the same value.
"""


@dataclass(frozen=True)
class Polynomial:
    """Polynomial of a given degree that approximates a function on an interval.

    Attributes:
        meaning: the formula of the function, which the written module contains as the docstring of the coefficients.
    """

    name: str
    meaning: str
    function: Callable[[Any], Any]
    low: Any
    high: Any
    degree: int

    def coefficients(self) -> list[float]:
        """Return the coefficients in float64; the constant term is the first."""
        count = self.degree + 1
        middle, radius = (self.low + self.high) / 2, (self.high - self.low) / 2
        nodes = [
            middle + radius * mpmath.cos(mpmath.pi * (2 * k + 1) / (2 * count))
            for k in range(count)
        ]
        matrix = mpmath.matrix([[node**power for power in range(count)] for node in nodes])
        values = mpmath.matrix([self.function(node) for node in nodes])
        return [float(c) for c in mpmath.lu_solve(matrix, values)]


def rest_of_exp(r: Any) -> Any:
    """Return (e^r - 1 - r) / r^2, by a series for small r, where the formula cancels."""
    if abs(r) < mpmath.mpf("1e-6"):
        return sum([r**k / mpmath.factorial(k + 2) for k in range(12)])
    return (mpmath.expm1(r) - r) / r**2


def rest_of_log(z: Any) -> Any:
    """Return (2 atanh(s) / s - 2) / s^2 with s = sqrt(z), by a series for small z, where the formula cancels."""
    if abs(z) < mpmath.mpf("1e-8"):
        return sum([2 * z**k / (2 * k + 3) for k in range(12)])
    s = mpmath.sqrt(z)
    return (2 * mpmath.atanh(s) / s - 2) / z


def log_quotient(g: Any) -> Any:
    """log(1 + g) / g."""
    return mpmath.log1p(g) / g


def rest_of_sin(z: Any) -> Any:
    """Return (sin(r) / r - 1) / r^2 with r = sqrt(z), by a series for small z, where the formula cancels."""
    if abs(z) < mpmath.mpf("1e-8"):
        return sum([(-1) ** (k + 1) * z**k / mpmath.factorial(2 * k + 3) for k in range(8)])
    r = mpmath.sqrt(z)
    return (mpmath.sin(r) / r - 1) / z


def rest_of_cos(z: Any) -> Any:
    """Return (cos(r) - 1 + r^2 / 2) / r^4 with r = sqrt(z), by a series for small z, where the formula cancels."""
    if abs(z) < mpmath.mpf("1e-8"):
        return sum([(-1) ** k * z**k / mpmath.factorial(2 * k + 4) for k in range(8)])
    return (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2


def rest_of_odd(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function (f(s) / s - 1) / s^2 of z, with s = sqrt(z), for the odd function f."""

    def rest(z: Any) -> Any:
        s = mpmath.sqrt(z)
        return (function(s) / s - 1) / z

    return rest


def tail_of_log(z: Any) -> Any:
    """Return (2 atanh(s) / s - 2 - 2/3 s^2) / s^4 with s = sqrt(z), by a series for small z."""
    if abs(z) < mpmath.mpf("1e-8"):
        return sum([2 * z**k / (2 * k + 5) for k in range(12)])
    return (rest_of_log(z) - mpmath.mpf(2) / 3) / z


def rest_of_erf(z: Any) -> Any:
    """erf(x) / x - 1 with x = sqrt(z)."""
    return mpmath.erf(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1


def erf_quotient(z: Any) -> Any:
    """erf(x) / x with x = sqrt(z)."""
    return 1 + rest_of_erf(z)


def inverse_erf(w: Any) -> Any:
    """Return y / erf(y), where y is defined by 1 - erf(y)^2 = e^-w."""
    x = mpmath.sqrt(-mpmath.expm1(-w))
    return mpmath.erfinv(x) / x


def scaled_erfc(centre: Any) -> Callable[[Any], Any]:
    """Return the function (1 + 2 x) exp(x^2) erfc(x) of q = (x - k) / (x + k), where k is `centre`."""

    def scaled(q: Any) -> Any:
        x = centre * (1 + q) / (1 - q)
        return (1 + 2 * x) * mpmath.exp(x**2) * mpmath.erfc(x)

    return scaled


def quotient(centre: Any, x: Any) -> Any:
    """(x - k) / (x + k)."""
    return (x - centre) / (x + centre)


POLYNOMIALS = [
    Polynomial("EXP", "(e^r - 1 - r) / r^2 for |r| <= ln(2) / 2", rest_of_exp, -HALF_LN2, HALF_LN2, 10),
    Polynomial("EXP_SINGLE", "(e^r - 1 - r) / r^2 for |r| <= ln(2) / 2, float32", rest_of_exp, -HALF_LN2, HALF_LN2, 5),
    Polynomial("LOG", "(2 atanh(s) / s - 2) / s^2 in s^2, for |s| <= 3 - sqrt(8)", rest_of_log, mpmath.mpf(0), LARGEST_S2, 6),
    Polynomial("LOG_SINGLE", "log(1 + g) / g for sqrt(1/2) <= 1 + g <= sqrt(2), float32", log_quotient, *ROOTS, 11),
    Polynomial("SIN", "(sin(r) / r - 1) / r^2 in r^2, for |r| <= pi / 4", rest_of_sin, mpmath.mpf(0), LARGEST_R2, 5),
    Polynomial("COS", "(cos(r) - 1 + r^2 / 2) / r^4 in r^2, for |r| <= pi / 4", rest_of_cos, mpmath.mpf(0), LARGEST_R2, 5),
    Polynomial("ATAN", "(atan(s) / s - 1) / s^2 in s^2, for |s| <= sqrt(2) - 1", rest_of_odd(mpmath.atan), mpmath.mpf(0), LARGEST_T2, 10),
    Polynomial("ASIN", "(asin(s) / s - 1) / s^2 in s^2, for |s| <= 1/2", rest_of_odd(mpmath.asin), mpmath.mpf(0), mpmath.mpf("0.25"), 12),
    Polynomial("ERF", "erf(x) / x - 1 in x^2, for |x| <= 1", rest_of_erf, mpmath.mpf(0), mpmath.mpf(1), 12),
    Polynomial("ERFC", "(1 + 2 x) exp(x^2) erfc(x) in (x - k) / (x + k) with k = 3.75, for 0 <= x <= 28", scaled_erfc(ERFC_CENTRE), mpmath.mpf(-1), quotient(ERFC_CENTRE, mpmath.mpf(28)), 22),
    Polynomial("ERFINV", "y / erf(y) in w = -log(1 - erf(y)^2), for w <= 6.25, to seven digits", inverse_erf, mpmath.mpf(0), mpmath.mpf("6.25"), 8),
    Polynomial("ERFINV_FAR", "y / erf(y) in sqrt(w) - 4, for 2.5 <= sqrt(w) <= 6.2, to seven digits", lambda s: inverse_erf((s + 4) ** 2), mpmath.mpf("-1.5"), mpmath.mpf("2.2"), 10),
    Polynomial("LOG_TAIL", "(2 atanh(s) / s - 2 - 2/3 s^2) / s^4 in s^2, for |s| <= 3 - sqrt(8)", tail_of_log, mpmath.mpf(0), LARGEST_S2, 7),
]  # fmt: skip


def page() -> str:
    """Return the text of the Python module that contains all coefficients."""
    lines = [
        '"""Coefficients of polynomials, the constant one first; written by `python tools/polynomials.py`."""',
        "",
        "# fmt: off",
    ]
    for each in POLYNOMIALS:
        numbers = ", ".join([repr(c) for c in each.coefficients()])
        rows = textwrap.wrap(numbers, WIDTH, break_on_hyphens=False)
        lines += [f"{each.name} = (", *[f"    {row}" for row in rows], ")"]
        lines.append(f'"""Approximation of {each.meaning}."""')
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the module; with `--check`, compare its text with the existing file instead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    mpmath.mp.dps = 60
    text = page()
    if check:
        return int(PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
