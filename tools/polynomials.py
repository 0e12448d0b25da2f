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
LARGEST_S2 = mpmath.mpf("0.02944")
"""(f / (2 + f))^2 for 1 + f between sqrt(1/2) and sqrt(2), a little more than that."""


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


POLYNOMIALS = [
    Polynomial("EXP", "(e^r - 1 - r) / r^2, |r| <= ln(2) / 2", rest_of_exp, -HALF_LN2, HALF_LN2, 10),
    Polynomial("EXP_SINGLE", "the same, for float32", rest_of_exp, -HALF_LN2, HALF_LN2, 5),
    Polynomial("LOG", "(2 atanh(s) / s - 2) / s^2 in s^2, |s| <= 3 - sqrt(8)", rest_of_log, mpmath.mpf(0), LARGEST_S2, 6),
    Polynomial("LOG_SINGLE", "the same, for float32", rest_of_log, mpmath.mpf(0), LARGEST_S2, 3),
    Polynomial("SIN", "(sin(r) / r - 1) / r^2 in r^2, |r| <= pi / 4", rest_of_sin, mpmath.mpf(0), LARGEST_R2, 5),
    Polynomial("COS", "(cos(r) - 1 + r^2 / 2) / r^4 in r^2, |r| <= pi / 4", rest_of_cos, mpmath.mpf(0), LARGEST_R2, 5),
    Polynomial("SIN_SINGLE", "the same as SIN, for float32", rest_of_sin, mpmath.mpf(0), LARGEST_R2, 3),
    Polynomial("COS_SINGLE", "the same as COS, for float32", rest_of_cos, mpmath.mpf(0), LARGEST_R2, 3),
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
