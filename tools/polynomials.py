"""Compute the polynomials of compiled functions, and write them as a module.

    python tools/polynomials.py           write tenferro/exec/llvm/coefficients.py
    python tools/polynomials.py --check   fail where the module is another

Each is the polynomial of its degree with the least largest error in units of the function it serves, to within a
few per cent: it meets the function at the zeros of a Chebyshev polynomial, in 60 digits, and is rounded at the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath

PAGE = Path(__file__).parent.parent / "tenferro" / "exec" / "llvm" / "coefficients.py"
HALF_LN2 = mpmath.mpf("0.34658")
"""What is left of an argument of exp, a little more than half of the logarithm of 2."""
LARGEST_R2 = mpmath.mpf("0.6170")
"""r^2 for |r| up to a quarter of pi, a little more than that."""
LARGEST_T2 = mpmath.mpf("0.1716")
"""s^2 for |s| up to sqrt(2) - 1, a little more than that."""
ROOTS = (mpmath.mpf("-0.29290"), mpmath.mpf("0.41422"))
"""From sqrt(1/2) to sqrt(2) less 1, and a little more."""
LARGEST_S2 = mpmath.mpf("0.02944")
"""(f / (2 + f))^2 for 1 + f between sqrt(1/2) and sqrt(2), a little more than that."""

LARGEST_ERF, MIDDLE_ERF = mpmath.mpf("3.925"), mpmath.mpf("7.7")
"""From where on erf(x) is 1 in float32, and a half of its square; `tenferro/exec/llvm/single.py` has the same."""
MIDDLE_W, MIDDLE_ROOT = mpmath.mpf("2.5"), mpmath.mpf("3.125")
"""What is taken from w, and from its root; `tenferro/exec/llvm/single.py` has the same."""
CENTRE, CENTRE_SINGLE = mpmath.mpf("3.75"), mpmath.mpf(3)
"""k of the quotients (x - k) / (x + k); `tenferro/exec/llvm/error_function.py` and `single.py` have the same."""


@dataclass(frozen=True)
class Polynomial:
    """A polynomial of a degree that is near a function between two ends.

    Attributes:
        meaning: what is written above it.
    """

    name: str
    meaning: str
    function: Callable[[Any], Any]
    low: Any
    high: Any
    degree: int

    def coefficients(self) -> list[float]:
        """From the constant one up."""
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
    """(e^r - 1 - r) / r^2."""
    if abs(r) < mpmath.mpf("1e-6"):
        return sum([r**k / mpmath.factorial(k + 2) for k in range(12)])
    return (mpmath.expm1(r) - r) / r**2


def rest_of_log(z: Any) -> Any:
    """(2 atanh(s) / s - 2) / s^2 with s = sqrt(z)."""
    if abs(z) < mpmath.mpf("1e-8"):
        return sum([2 * z**k / (2 * k + 3) for k in range(12)])
    s = mpmath.sqrt(z)
    return (2 * mpmath.atanh(s) / s - 2) / z


def log_quotient(g: Any) -> Any:
    """log(1 + g) / g."""
    return mpmath.log1p(g) / g


def rest_of_sin(z: Any) -> Any:
    """(sin(r) / r - 1) / r^2 with r = sqrt(z)."""
    if abs(z) < mpmath.mpf("1e-8"):
        return sum([(-1) ** (k + 1) * z**k / mpmath.factorial(2 * k + 3) for k in range(8)])
    r = mpmath.sqrt(z)
    return (mpmath.sin(r) / r - 1) / z


def rest_of_cos(z: Any) -> Any:
    """(cos(r) - 1 + r^2 / 2) / r^4 with r = sqrt(z)."""
    if abs(z) < mpmath.mpf("1e-8"):
        return sum([(-1) ** k * z**k / mpmath.factorial(2 * k + 4) for k in range(8)])
    return (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2


def rest_of_odd(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """(f(s) / s - 1) / s^2 with s = sqrt(z)."""

    def rest(z: Any) -> Any:
        s = mpmath.sqrt(z)
        return (function(s) / s - 1) / z

    return rest


def tail_of_log(z: Any) -> Any:
    """(2 atanh(s) / s - 2 - 2/3 s^2) / s^4 with s = sqrt(z)."""
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
    """y / erf(y) with 1 - erf(y)^2 = e^-w."""
    x = mpmath.sqrt(-mpmath.expm1(-w))
    return mpmath.erfinv(x) / x


def scaled_erfc(centre: Any) -> Callable[[Any], Any]:
    """(1 + 2 x) exp(x^2) erfc(x) of q = (x - k) / (x + k)."""

    def scaled(q: Any) -> Any:
        x = centre * (1 + q) / (1 - q)
        return (1 + 2 * x) * mpmath.exp(x**2) * mpmath.erfc(x)

    return scaled


def quotient(centre: Any, x: Any) -> Any:
    """(x - k) / (x + k)."""
    return (x - centre) / (x + centre)


POLYNOMIALS = [
    Polynomial("EXP", "(e^r - 1 - r) / r^2, |r| <= ln(2) / 2", rest_of_exp, -HALF_LN2, HALF_LN2, 10),
    Polynomial("EXP_SINGLE", "the same, for float32", rest_of_exp, -HALF_LN2, HALF_LN2, 5),
    Polynomial("LOG", "(2 atanh(s) / s - 2) / s^2 in s^2, |s| <= 3 - sqrt(8)", rest_of_log, mpmath.mpf(0), LARGEST_S2, 6),
    Polynomial("LOG_SINGLE", "log(1 + g) / g, sqrt(1/2) <= 1 + g <= sqrt(2), for float32", log_quotient, *ROOTS, 11),
    Polynomial("LOG_POWER", "the same, for powers of float32", log_quotient, *ROOTS, 15),
    Polynomial("SIN", "(sin(r) / r - 1) / r^2 in r^2, |r| <= pi / 4", rest_of_sin, mpmath.mpf(0), LARGEST_R2, 5),
    Polynomial("COS", "(cos(r) - 1 + r^2 / 2) / r^4 in r^2, |r| <= pi / 4", rest_of_cos, mpmath.mpf(0), LARGEST_R2, 5),
    Polynomial("SIN_SINGLE", "the same as SIN, for float32, |r| <= pi / 2", rest_of_sin, mpmath.mpf(0), 4 * LARGEST_R2, 4),
    Polynomial("COS_SINGLE", "the same as COS, for float32", rest_of_cos, mpmath.mpf(0), LARGEST_R2, 3),
    Polynomial("ATAN", "(atan(s) / s - 1) / s^2 in s^2, |s| <= sqrt(2) - 1", rest_of_odd(mpmath.atan), mpmath.mpf(0), LARGEST_T2, 10),
    Polynomial("ATAN_SINGLE", "the same, for float32", rest_of_odd(mpmath.atan), mpmath.mpf(0), LARGEST_T2, 5),
    Polynomial("ASIN", "(asin(s) / s - 1) / s^2 in s^2, |s| <= 1/2", rest_of_odd(mpmath.asin), mpmath.mpf(0), mpmath.mpf("0.25"), 12),
    Polynomial("ASIN_SINGLE", "the same, for float32", rest_of_odd(mpmath.asin), mpmath.mpf(0), mpmath.mpf("0.25"), 6),
    Polynomial("ERF", "erf(x) / x - 1 in x^2, |x| <= 1", rest_of_erf, mpmath.mpf(0), mpmath.mpf(1), 12),
    Polynomial("ERF_SINGLE", "erf(x) / x in x^2 - 7.7, |x| <= 3.925, for float32", lambda t: erf_quotient(t + MIDDLE_ERF), -MIDDLE_ERF, LARGEST_ERF**2 - MIDDLE_ERF, 19),
    Polynomial("ERFC", "(1 + 2 x) exp(x^2) erfc(x) in (x - k) / (x + k), k = 3.75, 0 <= x <= 28", scaled_erfc(CENTRE), mpmath.mpf(-1), quotient(CENTRE, mpmath.mpf(28)), 22),
    Polynomial("ERFC_SINGLE", "the same with k = 3, for float32, 0 <= x <= 10.5", scaled_erfc(CENTRE_SINGLE), mpmath.mpf(-1), quotient(CENTRE_SINGLE, mpmath.mpf("10.5")), 12),
    Polynomial("ERFINV", "y / erf(y) in w = -log(1 - erf(y)^2), w <= 6.25, to seven digits", inverse_erf, mpmath.mpf(0), mpmath.mpf("6.25"), 8),
    Polynomial("ERFINV_FAR", "the same in sqrt(w) - 4, 2.5 <= sqrt(w) <= 6.2", lambda s: inverse_erf((s + 4) ** 2), mpmath.mpf("-1.5"), mpmath.mpf("2.2"), 10),
    Polynomial("ERFINV_SINGLE", "the same in w - 2.5, w <= 5, for float32", lambda t: inverse_erf(t + MIDDLE_W), -MIDDLE_W, MIDDLE_W, 12),
    Polynomial("ERFINV_FAR_SINGLE", "the same in sqrt(w) - 3.125, 5 <= w <= 16, for float32", lambda s: inverse_erf((s + MIDDLE_ROOT) ** 2), mpmath.sqrt(2 * MIDDLE_W) - MIDDLE_ROOT, 4 - MIDDLE_ROOT, 12),
    Polynomial("LOG_TAIL", "(2 atanh(s) / s - 2 - 2/3 s^2) / s^4 in s^2, |s| <= 3 - sqrt(8)", tail_of_log, mpmath.mpf(0), LARGEST_S2, 7),
    Polynomial("CBRT", "the cube root of 1 .. 2", mpmath.cbrt, mpmath.mpf(1), mpmath.mpf(2), 4),
]  # fmt: skip


def page() -> str:
    """The module."""
    lines = [
        '"""Polynomials of compiled functions, the constant coefficient first; `python tools/polynomials.py` writes them."""',
        "",
        "# fmt: off",
    ]
    for each in POLYNOMIALS:
        lines.append(f"{each.name} = (")
        lines += [f"    {c!r}," for c in each.coefficients()]
        lines += [")", f'"""{each.meaning}."""']
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write it, or compare."""
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
