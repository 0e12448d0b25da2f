"""The error function and its complement: an odd polynomial near 0, else erfc(x) = e^(-x^2) Q(q) / (1 + 2 x).

The quotient q = (x - k) / (x + k) takes what is positive to -1 .. 1, where Q is nearly flat.

The inverse is a polynomial of seven digits in w = -ln(1 - x^2), or in its root, and a step of Halley's.

Sources: Giles, Approximating the erfinv function, GPU Computing Gems (2012), for w; Shepherd and Laframboise, Chebyshev approximation of (1 + 2 x) exp(x^2) erfc(x), Math. Comp. 36 (1981).
"""

from __future__ import annotations

import math

from tenferro.exec.llvm import coefficients, single
from tenferro.exec.llvm.exponential import one_and, reduced, scaled
from tenferro.exec.llvm.formula import Formula

__all__ = ["erf", "erfc", "erfinv"]

CENTRE = 3.75
"""k of the quotient; `tools/polynomials.py` has the same."""
WHOLE = 6.0
"""The error function of what is above it is 1."""
VANISHED = 28.0
"""The complement of what is above it is 0."""


def _complement(f: Formula, a: str) -> str:
    """erfc(a), of a number between 0 and `VANISHED`."""
    square, lost = f.product(a, a)
    part = reduced(f, f.negate(square), -math.inf, math.inf, f.negate(lost))
    k, below = f.number(CENTRE), f.multiply_add(f.number(2.0), a, f.number(1.0))
    above = f.polynomial(f.divide(f.subtract(a, k), f.add(a, k)), coefficients.ERFC)
    return scaled(f, f.multiply(one_and(f, part), f.divide(above, below)), part.n)


def _at_most(f: Formula, x: str, largest: float) -> str:
    a, bound = f.magnitude(x), f.number(largest)
    return f.select("ogt", a, bound, bound, a)


def _near(f: Formula, x: str) -> str:
    """erf(x) = x + x p(x^2), of a number between -1 and 1."""
    return f.multiply_add(x, f.polynomial(f.multiply(x, x), coefficients.ERF), x)


def erf(f: Formula, x: str) -> str:
    """1 - erfc(|x|) where that is not near 0."""
    one = f.number(1.0)
    far = f.with_sign(f.subtract(one, _complement(f, _at_most(f, x, WHOLE))), x)
    return f.select("olt", f.magnitude(x), one, _near(f, x), far)


def erfc(f: Formula, x: str) -> str:
    """Near 0 one less the error function; of other negative numbers two less the complement of |x|."""
    one, complement = f.number(1.0), _complement(f, _at_most(f, x, VANISHED))
    opposite = f.subtract(f.number(2.0), complement)
    far = f.select("olt", x, f.number(0.0), opposite, complement)
    return f.select("olt", f.magnitude(x), f.number(0.5), f.subtract(one, _near(f, x)), far)


NEAR_W = 6.25
"""From where on the root of w is the argument."""
NEAR_Y = 0.8
"""Up to where a step is made with erf, and from where on with its complement."""


def erfinv(f: Formula, x: str) -> str:
    """The inverse of the error function."""
    a, one = f.magnitude(x), f.number(1.0)
    below = f.subtract(one, a)
    w = f.negate(single.log(f, f.multiply(below, f.add(one, a))))
    far = f.polynomial(f.subtract(f.intrinsic("sqrt", w), f.number(4.0)), coefficients.ERFINV_FAR)
    near = f.polynomial(w, coefficients.ERFINV)
    y = f.multiply(a, f.select("olt", w, f.number(NEAR_W), near, far))
    rest = f.select(
        "olt",
        y,
        f.number(NEAR_Y),
        f.subtract(_near(f, y), a),
        f.subtract(below, _complement(f, y)),
    )
    slope = single.exp(f, f.negate(f.multiply(y, y)))
    step = f.divide(f.multiply(f.number(math.sqrt(math.pi) / 2), rest), slope)
    y = f.subtract(y, f.divide(step, f.multiply_add(y, step, one)))
    return f.with_sign(f.select("oeq", a, one, f.number(math.inf), y), x)
