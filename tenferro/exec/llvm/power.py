"""LLVM code of powers, cube roots and hypot.

A power is e^(y ln(x)). The logarithm is represented as the sum of two numbers, because its error may grow by a factor
of 1000.

Sources: Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., chapters 4 and 10; ISO C, annex F.10.4.4, for
special cases of powers.
"""

from __future__ import annotations

import math

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm import exponential as ex
from tenferro.exec.llvm.formula import Formula
from tenferro.exec.llvm.ir import Value

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
"""Number below which hypot scales its arguments, because squares may become subnormal."""


def _logarithm(f: Formula, a: Value) -> tuple[Value, Value]:
    """Write two numbers with sum ln(a) = e ln(2) + 2 s + s^3 (2/3 + ..), where a = 2^e m and s = (m - 1) / (m + 1)."""
    e, m = ex.split_positive(f, a, ex.ONE - ex.SQRT_HALF)
    one = f.number(1.0)
    below, lost = f.two_difference(m, f.number(-1.0))
    s, s_low = f.quotient(f.subtract(m, one), below, None, lost)
    z, z_low = f.two_product(s, s)
    z_low = f.multiply_add(f.add(s, s), s_low, z_low)
    factor, factor_low = f.fast_two_sum(
        f.number(TWO_THIRDS), f.multiply(z, f.polynomial(z, coefficients.LOG_TAIL))
    )
    factor_low = f.add(factor_low, f.number(TWO_THIRDS_LOW))
    cube, cube_low = f.two_product(s, z)
    cube_low = f.multiply_add(s_low, z, f.multiply_add(s, z_low, cube_low))
    tail, tail_low = f.two_product(cube, factor)
    tail_low = f.multiply_add(cube_low, factor, f.multiply_add(cube, factor_low, tail_low))
    near, near_low = f.fast_two_sum(f.add(s, s), tail)
    near_low = f.add(near_low, f.add(f.add(s_low, s_low), tail_low))
    y, low = f.fast_two_sum(f.multiply(e, f.number(ex.LN2_HIGH)), near)
    low = f.add(low, f.multiply_add(e, f.number(ex.LN2_LOW), near_low))
    return f.fast_two_sum(y, low)


def _with_special_cases(f: Formula, x: Value, y: Value, power: Value) -> Value:
    """Write x^y from `power`, which is |x|^y, with the special cases for negative x, NaN, x = 1 and y = 0."""
    zero, one = f.number(0.0), f.number(1.0)
    half = f.multiply(f.number(0.5), y)
    is_integer = f.compare("oeq", f.intrinsic("rint", y), y)
    is_odd = f.compare("one", f.intrinsic("rint", half), half)
    signed = f.either(is_integer, f.either(is_odd, f.with_sign(power, x), power), power)
    undefined = f.either(is_integer, signed, f.number(math.nan))
    negative = f.select("oeq", x, f.number(-math.inf), signed, undefined)
    power = f.select("olt", x, zero, negative, signed)
    power = f.select("uno", x, y, f.add(x, y), power)
    power = f.select("oeq", x, one, one, power)
    return f.select("oeq", y, zero, one, power)


def _exp_of_product(f: Formula, x: Value, y: Value, low: Value) -> Value:
    """Write e^(x y + low), and correct the rounding error of the product."""
    product, lost = f.two_product(x, y)
    is_bounded = f.compare("olt", f.magnitude(product), f.number(MAX_EXPONENT))
    part = ex.reduce_argument(
        f, product, -746.0, 710.0, f.either(is_bounded, f.add(lost, low), f.number(0.0))
    )
    return ex.ldexp(f, ex.one_plus(f, part), part.n)


def pow_(f: Formula, x: Value, y: Value) -> Value:
    """Write x^y = e^(y ln|x|), with the special cases of ISO C."""
    a, zero, one = f.magnitude(x), f.number(0.0), f.number(1.0)
    high, low = _logarithm(f, a)
    high = f.select("olt", a, f.number(math.inf), high, a)
    high = f.select("oeq", a, zero, f.number(-math.inf), high)
    power = _exp_of_product(f, y, high, f.multiply(y, low))
    return _with_special_cases(f, x, y, f.select("oeq", a, one, one, power))


def cbrt(f: Formula, x: Value) -> Value:
    """Write the cube root, e^(ln|x| / 3) with the sign of x."""
    a = f.magnitude(x)
    high, low = _logarithm(f, a)
    root = _exp_of_product(
        f,
        f.number(THIRD),
        high,
        f.multiply_add(f.number(THIRD_LOW), high, f.multiply(f.number(THIRD), low)),
    )
    y = f.select("olt", a, f.number(math.inf), root, a)
    return f.with_sign(f.select("oeq", a, f.number(0.0), a, y), x)


def hypot(f: Formula, x: Value, y: Value) -> Value:
    """Write sqrt(x^2 + y^2), which is infinite if x or y is infinite.

    Arguments whose squares could overflow or underflow are scaled.
    """
    a, b = f.magnitude(x), f.magnitude(y)
    is_first = f.compare("ogt", a, b)
    larger, smaller = f.either(is_first, a, b), f.either(is_first, b, a)
    one = f.number(1.0)
    scale = f.select("ogt", larger, f.number(SQUARE_OVERFLOW), f.number(2.0**-600), one)
    scale = f.select("olt", larger, f.number(SQUARE_UNDERFLOW), f.number(2.0**600), scale)
    back = f.select("ogt", larger, f.number(SQUARE_OVERFLOW), f.number(2.0**600), one)
    back = f.select("olt", larger, f.number(SQUARE_UNDERFLOW), f.number(2.0**-600), back)
    larger, smaller = f.multiply(larger, scale), f.multiply(smaller, scale)
    square = f.multiply_add(larger, larger, f.multiply(smaller, smaller))
    root, infinity = f.multiply(f.intrinsic("sqrt", square), back), f.number(math.inf)
    for part in (a, b):
        root = f.select("oeq", part, infinity, infinity, root)
    return root
