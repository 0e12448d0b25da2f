"""LLVM code of the error function, its complement and its inverse.

Near 0, erf is an odd polynomial. Elsewhere erfc(x) = e^(-x^2) Q(q) / (1 + 2 x), with a polynomial Q. The quotient
q = (x - k) / (x + k) maps x > 0 to -1 .. 1, where Q is nearly constant.

For the inverse, a polynomial in w = -ln(1 - x^2) or in sqrt(w) gives seven digits, and one step of Halley's iteration
the others.

Sources: Giles, Approximating the erfinv function, GPU Computing Gems (2012), for w.
Shepherd and Laframboise, Chebyshev approximation of (1 + 2 x) exp(x^2) erfc(x), Math. Comp. 36 (1981).
"""

from __future__ import annotations

import math

from tenferro.exec.llvm import coefficients, single
from tenferro.exec.llvm.exponential import ldexp, minimum, one_plus, reduce_argument
from tenferro.exec.llvm.formula import (
    Number,
    copysign,
    multiply_add,
    polynomial,
    sqrt,
    two_product,
    where,
)

__all__ = ["erf", "erfc", "erfinv"]

CENTRE = 3.75
"""Constant k of the quotient q; `tools/polynomials.py` has the same constant."""
ERF_SATURATION = 6.0
"""Argument above which erf is 1."""
ERFC_UNDERFLOW = 28.0
"""Argument above which erfc is 0."""
MIN_SQRT_W = 6.25
"""Value of w from which the inverse is a polynomial in sqrt(w) instead of w."""
MIN_ERFC_Y = 0.8
"""Approximation y of the inverse from which Halley's step computes erfc(y) instead of erf(y)."""


def _complement(a: Number) -> Number:
    """Write erfc(a) for 0 <= a <= `ERFC_UNDERFLOW`."""
    square, lost = two_product(a, a)
    part = reduce_argument(-square, -math.inf, math.inf, -lost)
    above = polynomial((a - CENTRE) / (a + CENTRE), coefficients.ERFC)
    return ldexp(one_plus(part) * (above / multiply_add(2.0, a, 1.0)), part.n)


def _near(x: Number) -> Number:
    """Write erf x = x + x p(x^2) for |x| <= 1."""
    return multiply_add(x, polynomial(x * x, coefficients.ERF), x)


def erf(x: Number) -> Number:
    """Write erf x; for |x| >= 1 it is 1 - erfc(|x|) with the sign of x."""
    complement = _complement(minimum(abs(x), ERF_SATURATION))
    far = copysign(1.0 - complement, x)
    return where(abs(x) < 1.0, _near(x), far)


def erfc(x: Number) -> Number:
    """Write erfc x.

    For |x| < 1/2 it is 1 - erf(x), and for x <= -1/2 it is 2 - erfc(|x|).
    """
    complement = _complement(minimum(abs(x), ERFC_UNDERFLOW))
    far = where(x < 0.0, 2.0 - complement, complement)
    return where(abs(x) < 0.5, 1.0 - _near(x), far)


def erfinv(x: Number) -> Number:
    """Write the inverse error function of x."""
    a = abs(x)
    below = 1.0 - a
    w = -single.log(below * (1.0 + a))
    far = polynomial(sqrt(w) - 4.0, coefficients.ERFINV_FAR)
    near = polynomial(w, coefficients.ERFINV)
    y = a * where(w < MIN_SQRT_W, near, far)
    residual = where(y < MIN_ERFC_Y, _near(y) - a, below - _complement(y))
    slope = single.exp(-(y * y))
    step = (math.sqrt(math.pi) / 2) * residual / slope
    y = y - step / multiply_add(y, step, 1.0)
    return copysign(where(a.equals(1.0), math.inf, y), x)
