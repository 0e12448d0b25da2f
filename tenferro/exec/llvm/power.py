"""LLVM code of powers, cube roots and hypot.

A power is e^(y ln(x)). The logarithm is the sum of two numbers, because its error may grow by a factor of 1000.

Sources: Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., chapters 4 and 10; ISO C, annex F.10.4.4, for
special cases of powers.
"""

from __future__ import annotations

import math

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm import exponential as ex
from tenferro.exec.llvm.formula import (
    Number,
    Operand,
    copysign,
    fast_two_sum,
    is_unordered,
    multiply_add,
    polynomial,
    quotient,
    rint,
    sqrt,
    two_difference,
    two_product,
    where,
)

__all__ = ["cbrt", "hypot", "pow_"]

TWO_THIRDS = 2.0 / 3.0
TWO_THIRDS_LOW = float.fromhex("0x1.5555555555555p-55")
"""2/3 - `TWO_THIRDS`."""
THIRD = 1.0 / 3.0
THIRD_LOW = float.fromhex("0x1.5555555555555p-56")
"""1/3 - `THIRD`."""
MAX_EXPONENT = 800.0
"""Magnitude of y ln(x) above which the power overflows or underflows; the rounding error of y ln(x) may then be NaN."""
SQUARE_OVERFLOW = 1e150
"""Number above which the sum of the squares of two such numbers may overflow."""
SQUARE_UNDERFLOW = 1e-120
"""Number below which hypot scales its arguments, because their squares may be subnormal."""


def _logarithm(a: Number) -> tuple[Number, Number]:
    """Write two numbers with sum ln(a) = e ln(2) + 2 s + s^3 (2/3 + ..), where a = 2^e m and s = (m - 1) / (m + 1)."""
    e, m = ex.split_positive(a, ex.ONE - ex.SQRT_HALF)
    below, lost = two_difference(m, -1.0)
    s, s_low = quotient(m - 1.0, below, None, lost)
    z, z_low = two_product(s, s)
    z_low = multiply_add(s + s, s_low, z_low)
    factor, factor_low = fast_two_sum(TWO_THIRDS, z * polynomial(z, coefficients.LOG_TAIL))
    factor_low = factor_low + TWO_THIRDS_LOW
    cube, cube_low = two_product(s, z)
    cube_low = multiply_add(s_low, z, multiply_add(s, z_low, cube_low))
    tail, tail_low = two_product(cube, factor)
    tail_low = multiply_add(cube_low, factor, multiply_add(cube, factor_low, tail_low))
    near, near_low = fast_two_sum(s + s, tail)
    near_low = near_low + ((s_low + s_low) + tail_low)
    y, low = fast_two_sum(e * ex.LN2_HIGH, near)
    low = low + multiply_add(e, ex.LN2_LOW, near_low)
    return fast_two_sum(y, low)


def _with_special_cases(x: Number, y: Number, power: Number) -> Number:
    """Write x^y from power = |x|^y, with the special cases for negative x, NaN, x = 1 and y = 0."""
    half = 0.5 * y
    is_integer = rint(y).equals(y)
    is_even = rint(half).equals(half)
    signed = where(is_integer, where(is_even, power, copysign(power, x)), power)
    undefined = where(is_integer, signed, math.nan)
    negative = where(x.equals(-math.inf), signed, undefined)
    power = where(x < 0.0, negative, signed)
    power = where(is_unordered(x, y), x + y, power)
    power = where(x.equals(1.0), 1.0, power)
    return where(y.equals(0.0), 1.0, power)


def _exp_of_product(x: Operand, y: Number, low: Number) -> Number:
    """Write e^(x y + low), and correct the rounding error of the product."""
    product, lost = two_product(x, y)
    is_bounded = abs(product) < MAX_EXPONENT
    part = ex.reduce_argument(product, -746.0, 710.0, where(is_bounded, lost + low, 0.0))
    return ex.ldexp(ex.one_plus(part), part.n)


def pow_(x: Number, y: Number) -> Number:
    """Write x^y = e^(y ln|x|), with the special cases of ISO C."""
    a = abs(x)
    high, low = _logarithm(a)
    high = where(a < math.inf, high, a)
    high = where(a.equals(0.0), -math.inf, high)
    power = _exp_of_product(y, high, y * low)
    return _with_special_cases(x, y, where(a.equals(1.0), 1.0, power))


def cbrt(x: Number) -> Number:
    """Write the cube root as e^(ln|x| / 3) with the sign of x."""
    a = abs(x)
    high, low = _logarithm(a)
    root = _exp_of_product(THIRD, high, multiply_add(THIRD_LOW, high, THIRD * low))
    y = where(a < math.inf, root, a)
    return copysign(where(a.equals(0.0), a, y), x)


def hypot(x: Number, y: Number) -> Number:
    """Write sqrt(x^2 + y^2), which is infinite if x or y is infinite; scale it if squares could over- or underflow."""
    a, b = abs(x), abs(y)
    is_first = a > b
    larger, smaller = where(is_first, a, b), where(is_first, b, a)
    scale = where(larger > SQUARE_OVERFLOW, 2.0**-600, 1.0)
    scale = where(larger < SQUARE_UNDERFLOW, 2.0**600, scale)
    back = where(larger > SQUARE_OVERFLOW, 2.0**600, 1.0)
    back = where(larger < SQUARE_UNDERFLOW, 2.0**-600, back)
    larger, smaller = larger * scale, smaller * scale
    square = multiply_add(larger, larger, smaller * smaller)
    root = sqrt(square) * back
    for part in (a, b):
        root = where(part.equals(math.inf), math.inf, root)
    return root
