"""Polygamma functions, the derivatives of digamma, for the whole real line.

For x >= 0, psi_n(x) is a sum over all poles. The terms of the ten nearest poles are summed separately. The
Euler-Maclaurin formula approximates the sum over all other poles. With a = x + 10 and the Bernoulli numbers B_2k:

    psi_n(x) = (-1)^(n+1) [sum over k < 10 of n! / (x + k)^(n+1)
                           + (n-1)! / a^n (1 + n / 2a + sum over k of B_2k (n+2k-1)! / ((n-1)! (2k)!) a^-2k)]

For x < 0 the reflection formula is used. It contains the n-th derivative of the cotangent, which is a polynomial D_n in
the cotangent:

    psi_n(x) = (-1)^n psi_n(1 - x) - pi^(n+1) D_n(cot pi x),    D_0(c) = c,  D_n+1 = -(1 + c^2) D_n'

Source: Abramowitz and Stegun 6.4.7, 23.1.30.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from lowering.writer import Value, Writer
from tenferro.ops.analytic import derivative_of_cotangent

__all__ = ["polygamma"]

NEAREST = 10
"""Number of poles k = 0, 1, .. whose terms n! / (x + k)^(n+1) are summed one by one."""
BERNOULLI = [
    Fraction(*ratio)
    for ratio in ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510))
]
"""Bernoulli numbers B_2, B_4, .., B_16."""


def polygamma(w: Writer, n: int, x: Value) -> Value:
    """Emit psi_n for float32 or float64 and n >= 1.

    At a pole (x = 0, -1, -2, ..) the limits from the left and from the right differ in sign if n is even. The result is
    then NaN; for odd n it is infinity.
    """
    zero = w.full(0, x.spec)
    is_negative = w.compare("LT", x, zero)
    mirrored = w.op("subtract", w.full(1, x.spec), x)
    y = right_of_zero(w, n, w.select(is_negative, mirrored, x))
    # The reflection formula is evaluated for all x. The cotangent has poles at positive integers too. So a positive x
    # is replaced by -0.5: otherwise derivatives would be NaN there if another compiler differentiates the module.
    left = w.select(is_negative, x, w.full(-0.5, x.spec))
    poles = w.op("negate", cotangents(w, n, left))
    others = w.op("subtract" if n % 2 else "add", poles, y)
    # The cotangent's term overflows near a pole, and everywhere if n! overflows. Where it is infinite it is the result:
    # the other term is negligible, but may be infinite with the opposite sign, so that the sum would be NaN.
    finite = w.op("is_finite", poles)
    reflected = w.select(finite, others, poles)
    is_whole = w.compare("EQ", x, w.op("floor", x))
    is_pole = w.op("and", w.compare("LE", x, zero), is_whole)
    at_pole = w.full(math.inf if n % 2 else math.nan, x.spec)
    return w.select(is_pole, at_pole, w.select(is_negative, reflected, y))


def right_of_zero(w: Writer, n: int, x: Value) -> Value:
    """Emit psi_n of x >= 0."""
    total = tail(w, n, w.op("add", x, w.full(NEAREST, x.spec)))
    for k in reversed(range(NEAREST)):
        distance = w.op("add", x, w.full(k, x.spec)) if k else x
        total = w.op("add", total, ratio(w, math.factorial(n), distance, n + 1))
    return total if n % 2 else w.op("negate", total)


def tail(w: Writer, n: int, a: Value) -> Value:
    """Emit the sum of n! / (a + k)^(n+1) over all k >= 0, for a >= 10."""
    inverse = w.op("divide", w.full(1, a.spec), a)
    coefficients = [
        number
        * Fraction(math.factorial(n + 2 * k - 1), math.factorial(n - 1) * math.factorial(2 * k))
        for k, number in enumerate(BERNOULLI, 1)
    ]
    square = w.op("multiply", inverse, inverse)
    series = w.op("multiply", square, horner(w, coefficients, square))
    half = w.op("multiply", w.full(n / 2, a.spec), inverse)
    factor = w.op("add", w.full(1, a.spec), w.op("add", half, series))
    return w.op("multiply", ratio(w, math.factorial(n - 1), a, n), factor)


def ratio(w: Writer, numerator: int, x: Value, power: int) -> Value:
    """Emit `numerator / x**power`.

    Let s be a power of two near `numerator**(1 / power)`. The quotient is computed as `(numerator / s**power) / (x /
    s)**power`, because `numerator` and `x**power` could overflow.
    """
    exponent = round(math.log2(numerator) / power)
    scaled = w.op("multiply", x, w.full(2.0**-exponent, x.spec)) if exponent else x
    rest = Fraction(numerator, 2 ** (exponent * power))
    return w.op("divide", w.full(float(rest), x.spec), integer_power(w, scaled, power))


def integer_power(w: Writer, x: Value, power: int) -> Value:
    """Emit x^power by repeated squaring."""
    result: Value | None = None
    while True:
        if power & 1:
            result = x if result is None else w.op("multiply", result, x)
        power >>= 1
        if not power:
            assert result is not None
            return result
        x = w.op("multiply", x, x)


def cotangents(w: Writer, n: int, x: Value) -> Value:
    """Emit pi^(n+1) D_n(cot pi x), as an even or odd polynomial in p = pi cot pi x.

    The distance r to the nearest pole is exact. For |r| > 1/4 the cotangent is computed as the tangent of pi (1/2 -
    |r|). At |r| = 1/2 the result is therefore exactly 0.
    """
    r = w.op("subtract", x, w.op("round_nearest_even", x))
    size = w.op("abs", r)
    missing = w.op("subtract", w.full(0.5, x.spec), size)
    is_near = w.compare("LE", size, missing)
    angle = w.op("multiply", w.full(math.pi, x.spec), w.select(is_near, size, missing))
    sine, cosine = w.op("sine", angle), w.op("cosine", angle)
    over, under = w.select(is_near, cosine, sine), w.select(is_near, sine, cosine)
    scaled = w.op("multiply", w.full(math.pi, x.spec), over)
    p = w.op("divide", scaled, w.op("multiply", under, w.op("sign", r)))
    coefficients = derivative_of_cotangent(n)
    lowest = (n + 1) % 2
    numbers = [float_of(coefficients[j], n + 1 - j, x) for j in range(lowest, n + 2, 2)]
    y = horner(w, numbers, w.op("multiply", p, p))
    if lowest:
        y = w.op("multiply", p, y)
    if all(map(math.isfinite, numbers)):
        return y
    # If a coefficient is infinite, `y` is 0 times infinity, NaN, where p is 0. There the polynomial equals its constant
    # term.
    at_zero = w.full(0 if lowest else numbers[0], x.spec)
    return w.select(w.compare("EQ", p, w.full(0, x.spec)), at_zero, y)


def float_of(coefficient: int, power: int, x: Value) -> float:
    """Return `coefficient * pi**power`, or an infinity of the same sign if the product overflows x's dtype."""
    bits = math.log2(abs(coefficient)) + power * math.log2(math.pi)
    if bits >= np.finfo(x.dtype.dtype).maxexp:
        return math.inf if coefficient > 0 else -math.inf
    return coefficient * math.pi**power


def horner(w: Writer, coefficients: Sequence[float | Fraction], x: Value) -> Value:
    """Emit the value at x of the polynomial with these coefficients, from the constant term upwards."""
    y = w.full(float(coefficients[-1]), x.spec)
    for coefficient in reversed(coefficients[:-1]):
        y = w.op("add", w.op("multiply", y, x), w.full(float(coefficient), x.spec))
    return y
