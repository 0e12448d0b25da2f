"""The error function and its complement: an odd polynomial near 0, else erfc(x) = e^(-x^2) Q(q) / (1 + 2 x).

The quotient q = (x - k) / (x + k) takes what is positive to -1 .. 1, where Q is nearly flat.

The inverse is a polynomial of seven digits in w = -ln(1 - x^2), or in its root, and a step of Halley's.

Sources: Giles, Approximating the erfinv function, GPU Computing Gems (2012), for w; Shepherd and Laframboise, Chebyshev approximation of (1 + 2 x) exp(x^2) erfc(x), Math. Comp. 36 (1981).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm.exponential import exp_single, log_single, one_and, reduced, scaled
from tenferro.exec.llvm.formula import Formula

__all__ = ["erf", "erf_single", "erfc", "erfc_single", "erfinv", "erfinv_single"]

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
    """The same for a widened float32; its square is exact."""
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


NEAR_W = 6.25
"""From where on the root of w is the argument."""
NEAR_Y = 0.8
"""Up to where a step is made with erf, and from where on with its complement."""


def _erfinv(
    f: Formula, x: str, terms: Sequence[float], complement: Callable[[Formula, str], str]
) -> str:
    a, one = f.magnitude(x), f.number(1.0)
    below = f.subtract(one, a)
    w = f.negate(log_single(f, f.multiply(below, f.add(one, a))))
    far = f.polynomial(f.subtract(f.intrinsic("sqrt", w), f.number(4.0)), coefficients.ERFINV_FAR)
    near = f.polynomial(w, coefficients.ERFINV)
    y = f.multiply(a, f.select("olt", w, f.number(NEAR_W), near, far))
    rest = f.select(
        "olt",
        y,
        f.number(NEAR_Y),
        f.subtract(_near(f, y, terms), a),
        f.subtract(below, complement(f, y)),
    )
    slope = exp_single(f, f.negate(f.multiply(y, y)))
    step = f.divide(f.multiply(f.number(math.sqrt(math.pi) / 2), rest), slope)
    y = f.subtract(y, f.divide(step, f.multiply_add(y, step, one)))
    return f.with_sign(f.select("oeq", a, one, f.number(math.inf), y), x)


def erfinv(f: Formula, x: str) -> str:
    """The inverse of the error function."""
    return _erfinv(f, x, coefficients.ERF, _complement)


def erfinv_single(f: Formula, x: str) -> str:
    """The same."""
    return _erfinv(f, x, coefficients.ERF_SINGLE, _complement_single)
