"""LLVM code of the error function, its complement and its inverse.

Near 0, erf is an odd polynomial. Elsewhere erfc(x) = e^(-x^2) Q(q) / (1 + 2 x), with a polynomial Q. The quotient
q = (x - k) / (x + k) maps x > 0 to -1 .. 1, where Q is nearly constant.

For the inverse, a polynomial in w = -ln(1 - x^2) or in sqrt(w) gives seven digits. One step of Halley's iteration gives
the others.

Sources: Giles, Approximating the erfinv function, GPU Computing Gems (2012), for w.
Shepherd and Laframboise, Chebyshev approximation of (1 + 2 x) exp(x^2) erfc(x), Math. Comp. 36 (1981).
"""

from __future__ import annotations

import math

from tenferro.exec.llvm import coefficients, single
from tenferro.exec.llvm.exponential import ldexp, minimum, one_plus, reduce_argument
from tenferro.exec.llvm.formula import Formula
from tenferro.exec.llvm.ir import Value

__all__ = ["erf", "erfc", "erfinv"]

CENTRE = 3.75
"""Constant k of the quotient q; `tools/polynomials.py` has the same constant."""
ERF_SATURATION = 6.0
"""Argument above which erf is 1."""
ERFC_UNDERFLOW = 28.0
"""Argument above which erfc is 0."""
MIN_SQRT_W = 6.25
"""Value of w above which the inverse is approximated by a polynomial in sqrt(w) instead of w."""
MIN_ERFC_Y = 0.8
"""Approximation y of the inverse above which Halley's step computes erfc(y) instead of erf(y)."""


def _complement(f: Formula, a: Value) -> Value:
    """Write erfc(a) for 0 <= a <= `ERFC_UNDERFLOW`."""
    square, lost = f.two_product(a, a)
    part = reduce_argument(f, f.negate(square), -math.inf, math.inf, f.negate(lost))
    k, below = f.number(CENTRE), f.multiply_add(f.number(2.0), a, f.number(1.0))
    above = f.polynomial(f.divide(f.subtract(a, k), f.add(a, k)), coefficients.ERFC)
    return ldexp(f, f.multiply(one_plus(f, part), f.divide(above, below)), part.n)


def _near(f: Formula, x: Value) -> Value:
    """Write erf x = x + x p(x^2) for |x| <= 1."""
    return f.multiply_add(x, f.polynomial(f.multiply(x, x), coefficients.ERF), x)


def erf(f: Formula, x: Value) -> Value:
    """Write erf x; for |x| >= 1 it is 1 - erfc(|x|) with the sign of x."""
    one, complement = f.number(1.0), _complement(f, minimum(f, f.magnitude(x), ERF_SATURATION))
    far = f.with_sign(f.subtract(one, complement), x)
    return f.select("olt", f.magnitude(x), one, _near(f, x), far)


def erfc(f: Formula, x: Value) -> Value:
    """Write erfc x.

    For |x| < 1/2 it is 1 - erf(x), and for x <= -1/2 it is 2 - erfc(|x|).
    """
    one, complement = f.number(1.0), _complement(f, minimum(f, f.magnitude(x), ERFC_UNDERFLOW))
    opposite = f.subtract(f.number(2.0), complement)
    far = f.select("olt", x, f.number(0.0), opposite, complement)
    return f.select("olt", f.magnitude(x), f.number(0.5), f.subtract(one, _near(f, x)), far)


def erfinv(f: Formula, x: Value) -> Value:
    """Write the inverse of the error function at x."""
    a, one = f.magnitude(x), f.number(1.0)
    below = f.subtract(one, a)
    w = f.negate(single.log(f, f.multiply(below, f.add(one, a))))
    far = f.polynomial(f.subtract(f.intrinsic("sqrt", w), f.number(4.0)), coefficients.ERFINV_FAR)
    near = f.polynomial(w, coefficients.ERFINV)
    y = f.multiply(a, f.select("olt", w, f.number(MIN_SQRT_W), near, far))
    residual = f.select(
        "olt",
        y,
        f.number(MIN_ERFC_Y),
        f.subtract(_near(f, y), a),
        f.subtract(below, _complement(f, y)),
    )
    slope = single.exp(f, f.negate(f.multiply(y, y)))
    step = f.divide(f.multiply(f.number(math.sqrt(math.pi) / 2), residual), slope)
    y = f.subtract(y, f.divide(step, f.multiply_add(y, step, one)))
    return f.with_sign(f.select("oeq", a, one, f.number(math.inf), y), x)
