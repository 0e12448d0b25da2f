"""The error function and its complement: an odd polynomial near 0, else erfc(x) = e^(-x^2) Q(q) / (1 + 2 x).

The quotient q = (x - k) / (x + k) takes what is positive to -1 .. 1, where Q is nearly flat.

Source: Shepherd and Laframboise, Chebyshev approximation of (1 + 2 x) exp(x^2) erfc(x), Math. Comp. 36 (1981).
"""

from __future__ import annotations

from collections.abc import Sequence

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm.exponential import one_and, reduced, scaled
from tenferro.exec.llvm.formula import Formula

__all__ = ["erf", "erf_single", "erfc", "erfc_single"]

CENTRE, CENTRE_SINGLE = 3.75, 3.0
"""k of the quotients; `tools/polynomials.py` has the same."""


def _quotient(f: Formula, a: str, centre: float, terms: Sequence[float]) -> str:
    """Q, of a number that is not negative."""
    k = f.number(centre)
    return f.polynomial(f.divide(f.subtract(a, k), f.add(a, k)), terms)


def _complement(f: Formula, a: str) -> str:
    """erfc(a), of a number between 0 and 28."""
    square, lost = f.product(a, a)
    part = reduced(f, f.negate(square), -800.0, 0.0, coefficients.EXP, f.negate(lost))
    below = f.multiply_add(f.number(2.0), a, f.number(1.0))
    above = _quotient(f, a, CENTRE, coefficients.ERFC)
    return scaled(f, f.multiply(one_and(f, part), f.divide(above, below)), part.n)


def _complement_single(f: Formula, a: str) -> str:
    """The same of a widened float32, whose square is exact."""
    square = f.negate(f.multiply(a, a))
    part = reduced(f, square, -120.0, 0.0, coefficients.EXP_SINGLE)
    below = f.multiply_add(f.number(2.0), a, f.number(1.0))
    above = _quotient(f, a, CENTRE_SINGLE, coefficients.ERFC_SINGLE)
    y = f.multiply(one_and(f, part), f.divide(above, below))
    return f.multiply(y, f.power_of_two(part.n))


def _at_most(f: Formula, x: str, largest: float) -> str:
    a, bound = f.magnitude(x), f.number(largest)
    return f.select("ogt", a, bound, bound, a)


def _near(f: Formula, x: str, terms: Sequence[float]) -> str:
    """erf(x) = x + x p(x^2), of a number between -1 and 1."""
    return f.multiply_add(x, f.polynomial(f.multiply(x, x), terms), x)


def _erf(f: Formula, x: str, near: str, complement: str) -> str:
    far = f.with_sign(f.subtract(f.number(1.0), complement), x)
    return f.select("olt", f.magnitude(x), f.number(1.0), near, far)


def erf(f: Formula, x: str) -> str:
    """1 - erfc(|x|) where that is not near 0."""
    return _erf(f, x, _near(f, x, coefficients.ERF), _complement(f, _at_most(f, x, 6.0)))


def erf_single(f: Formula, x: str) -> str:
    """The same."""
    complement = _complement_single(f, _at_most(f, x, 4.0))
    return _erf(f, x, _near(f, x, coefficients.ERF_SINGLE), complement)


def _erfc(f: Formula, x: str, near: str, complement: str) -> str:
    one = f.number(1.0)
    opposite = f.subtract(f.number(2.0), complement)
    far = f.select("olt", x, f.number(0.0), opposite, complement)
    return f.select("olt", f.magnitude(x), f.number(0.5), f.subtract(one, near), far)


def erfc(f: Formula, x: str) -> str:
    """Near 0 one less the error function; of other negative numbers two less the complement of |x|."""
    return _erfc(f, x, _near(f, x, coefficients.ERF), _complement(f, _at_most(f, x, 28.0)))


def erfc_single(f: Formula, x: str) -> str:
    """The same."""
    complement = _complement_single(f, _at_most(f, x, 10.5))
    return _erfc(f, x, _near(f, x, coefficients.ERF_SINGLE), complement)
