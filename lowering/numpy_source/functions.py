"""Functions in plain NumPy for ops that NumPy lacks; a generated file contains copies of the functions that it calls.

Each function calls only NumPy and other functions of this module. A generated file may be traced again. So most
functions call only NumPy functions that also accept tensors of a trace.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# ---- elements --------------------------------------------------------------------------------------


def integer_quotient(x: Any, y: Any) -> Any:
    """Return the quotient x / y of integers, rounded towards zero; x / 0 is the integer with all bits set."""
    divisor = np.where(y == 0, np.ones_like(y), y)
    quotient = x // divisor
    rest = x - quotient * divisor
    truncated = np.where((rest != 0) & ((x < 0) != (y < 0)), quotient + 1, quotient)
    return np.where(y == 0, ~np.zeros_like(truncated), truncated)


def integer_remainder(x: Any, y: Any) -> Any:
    """Return the remainder of x / y of integers, with the sign of x; the remainder is x if y is 0."""
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, np.ones_like(y), y)))


def integer_power(x: Any, y: Any) -> Any:
    """Return x^y for integers, modulo 2^bits; for a negative y the result is 0 unless x is 1 or -1."""
    if hasattr(x, "at"):  # a tensor of a trace
        return np.power(x, y)
    x, y = np.broadcast_arrays(x, y)
    result, base = np.ones_like(x), x
    exponent = np.where(y < 0, np.zeros_like(y), y)
    while exponent.any():
        result = np.where(exponent & 1, result * base, result)
        base, exponent = base * base, exponent >> 1
    if x.dtype.kind == "u":
        return result
    odd = np.where(y & 1, x, np.ones_like(x))
    inverse = np.where(x == 1, x, np.where(x == -1, odd, np.zeros_like(x)))
    return np.where(y < 0, inverse, result)


def power(x: Any, y: Any) -> Any:
    """Return x^y; for y = 1/2 and x = 0, -0 or -inf the result is |x|, where NumPy returns the square root of x."""
    is_special = (y == 0.5) & ((x == 0) | (x == -np.inf))
    return np.where(is_special, np.abs(x), np.power(x, y))


def unsigned(x: Any) -> Any:
    """Return the bits of x as unsigned integers."""
    return x.view(f"u{x.dtype.itemsize}")


def shift_left(x: Any, y: Any) -> Any:
    """Return x shifted left by y bits; 0 if y is at least the number of bits of x."""
    width, amount = 8 * x.dtype.itemsize, unsigned(y)
    shifted = unsigned(x) << np.minimum(amount, width - 1)
    return np.where(amount < width, shifted, np.zeros_like(shifted)).view(x.dtype)


def shift_right_logical(x: Any, y: Any) -> Any:
    """Return x shifted right by y bits, filled with zeros; 0 if y is at least the number of bits of x."""
    width, amount = 8 * x.dtype.itemsize, unsigned(y)
    shifted = unsigned(x) >> np.minimum(amount, width - 1)
    return np.where(amount < width, shifted, np.zeros_like(shifted)).view(x.dtype)


def shift_right_arithmetic(x: Any, y: Any) -> Any:
    """Return x shifted right by y bits, filled with copies of the highest bit of x."""
    signed = x.view(f"i{x.dtype.itemsize}")
    amount = np.minimum(unsigned(y), 8 * x.dtype.itemsize - 1)
    return (signed >> amount.astype(signed.dtype)).view(x.dtype)


def population_count(x: Any) -> Any:
    """Return the number of bits of x that are 1."""
    return np.bitwise_count(unsigned(x)).astype(x.dtype)


def count_leading_zeros(x: Any) -> Any:
    """Return the number of zeros above the highest bit of x that is 1."""
    bits, width = unsigned(x), 8 * x.dtype.itemsize
    step = 1
    while step < width:
        bits = bits | (bits >> step)
        step *= 2
    return (width - np.bitwise_count(bits)).astype(x.dtype)


def round_half_away(x: Any) -> Any:
    """Return the nearest integer; a half is rounded away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(np.ones_like(x), x), whole)


def to_integer(x: Any, dtype: Any) -> Any:
    """Convert floats to integers: round towards zero, clip to the range of `dtype`, and convert NaN to 0."""
    info = np.iinfo(dtype)
    wide = x.astype(np.float64)
    above, below = wide >= float(info.max), wide <= float(info.min)
    inside = np.where(above | below | np.isnan(wide), 0.0, wide).astype(dtype)
    limited = np.where(below, np.full_like(inside, info.min), inside)
    return np.where(above, np.full_like(inside, info.max), limited)


def reinterpreted(x: Any, dtype: Any) -> Any:
    """Return the bits of x as another dtype: a narrower dtype adds a last axis, a wider dtype removes it."""
    old, new = x.dtype.itemsize, np.dtype(dtype).itemsize
    shape = (*x.shape, old // new) if old > new else x.shape[:-1]
    return np.frombuffer(x.tobytes(), dtype).reshape(shape)


def complex_of(real: Any, imag: Any) -> Any:
    """Return complex numbers with exactly these parts; `real + 1j * imag` would lose infinities and signs of zeros."""
    if hasattr(real, "at"):  # a tensor of a trace
        return real + imag * 1j
    result = np.empty(
        np.broadcast_shapes(real.shape, imag.shape), np.result_type(real, np.complex64)
    )
    result.real, result.imag = real, imag
    return result


def reduce_precision(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Round floats to a format with fewer bits; numbers out of its range become infinity or zero."""
    dtype = x.dtype
    x = x.astype(np.float32) if dtype.itemsize == 2 else x
    integer = np.dtype(f"u{x.dtype.itemsize}").type
    mantissa, exponent = (23, 8) if x.dtype.itemsize == 4 else (52, 11)
    bits = x.view(integer)
    if mantissa_bits < mantissa:
        cut = mantissa - mantissa_bits
        last = (bits >> integer(cut)) & integer(1)
        bits = (bits + last + integer((1 << (cut - 1)) - 1)) & ~integer((1 << cut) - 1)
    if exponent_bits < exponent:
        bias, reach = (1 << (exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        sign = bits & integer(1 << (exponent + mantissa))
        field = (bits >> integer(mantissa)) & integer((1 << exponent) - 1)
        infinity = integer(((1 << exponent) - 1) << mantissa)
        bits = np.where(field > bias + reach, sign | infinity, bits)
        bits = np.where(field <= bias - reach, sign, bits)
    return np.where(np.isnan(x), x, bits.view(x.dtype)).astype(dtype)


# ---- special functions -------------------------------------------------------------------------------


def shares(x: Any, axis: Any = None) -> Any:
    """Return e^(x - max), to which softmax is proportional; at an infinite maximum, 1 where x equals it and else 0."""
    top = np.max(x, axis=axis, keepdims=True)
    infinite, shift = np.isinf(top), np.where(np.isfinite(top), top, 0.0)
    powers = np.exp(np.where(infinite, 0.0, x) - shift)
    return np.where(infinite, (x == top).astype(x.dtype), powers)


def softmax(x: Any, axis: Any = None) -> Any:
    """Divide e^x by its sum along axes, without overflow."""
    powers = shares(x, axis)
    return powers / np.sum(powers, axis=axis, keepdims=True)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return log(sum of e^x) along axes, without overflow."""
    top = np.max(x, axis=axis, keepdims=True)
    logs = np.log(np.sum(shares(x, axis), axis=axis, keepdims=True))
    total = np.where(np.isinf(top), top, logs + np.where(np.isfinite(top), top, 0.0))
    return total if keepdims else np.squeeze(total, axis)


def sech_squared(x: Any, tanh: Any) -> Any:
    """Return 1 / cosh(x)^2, the derivative of tanh, from x and tanh(x)."""
    is_near = np.abs(x) < 0.5
    e = np.exp(-np.abs(np.where(is_near, 1.0, x)))
    return np.where(is_near, 1.0 - tanh * tanh, (e + e) * (e + e) / ((1.0 + e * e) * (1.0 + e * e)))


def logistic_slope(x: Any) -> Any:
    """Return 1 / (4 cosh(x / 2)^2), the derivative of the logistic function."""
    is_near = np.abs(x) < 1.0
    tanh = np.tanh(0.5 * np.where(is_near, x, 0.0))
    e = np.exp(-np.abs(np.where(is_near, 1.0, x)))
    return np.where(is_near, 0.25 * (1.0 - tanh * tanh), e / ((1.0 + e) * (1.0 + e)))


def polynomial(x: Any, coefficients: Any) -> Any:
    """Return the polynomial c[0] + c[1] x + c[2] x^2 + .. with c = `coefficients`."""
    y = coefficients[-1] + 0 * x
    for coefficient in coefficients[-2::-1]:
        y = y * x + coefficient
    return y


def complex_log1p(z: Any) -> Any:
    """Return log(1 + z) for complex z = a + ib.

    Near 0 the real part is log1p(|1 + z|^2 - 1) / 2, where |1 + z|^2 - 1 = a (2 + a) + b^2 is computed without
    cancellation.
    """
    a, b = z.real, z.imag
    is_near = np.maximum(np.abs(a), np.abs(b)) < 0.5
    near = 0.5 * np.log1p(np.where(is_near, a * (2 + a) + b * b, 0))
    real = np.where(is_near, near, np.log(np.hypot(1 + a, b)))
    return complex_of(real, np.arctan2(b, 1 + a))


def complex_expm1(z: Any) -> Any:
    """Return e^z - 1 for complex z = a + ib; the real part is (e^a - 1) cos b - 2 sin^2(b / 2), accurate near 0."""
    a, b = z.real, z.imag
    half = np.sin(b / 2)
    real, imag = np.expm1(a) * np.cos(b) - 2 * half * half + 0.0, np.exp(a) * np.sin(b)
    has_no_angle = np.isinf(a) & ~np.isfinite(b)
    real = np.where((a == -np.inf) | has_no_angle, np.expm1(a), real)
    imag = np.where(b == 0, b, np.where((a == -np.inf) & has_no_angle, 0, imag))
    return complex_of(real, imag)


def rsqrt(x: Any) -> Any:
    """Return 1 / sqrt(x); 0 for a complex number with an infinite part."""
    y = 1 / np.sqrt(x)
    return np.where(np.isinf(x), np.zeros_like(y), y) if x.dtype.kind == "c" else y


def logistic(x: Any) -> Any:
    """Return 1 / (1 + e^-x), and for real x e^x if e^-x would overflow."""
    y = 1 / (1 + np.exp(-x))
    if np.iscomplexobj(x):
        return y
    return np.where(x < (-87.0 if x.dtype == np.float32 else -708.0), np.exp(x), y)


ERF = (
    0.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792,
    0.0052239776248180145, -0.000854832698083379, 0.0001205533111164271, -1.4925595266831182e-05,
    1.6461000484121368e-06, -1.6350312701054695e-07, 1.4659775274047436e-08,
    -1.1372848856791674e-09, 5.957176147748911e-11,
)  # fmt: skip
"""Coefficients of a polynomial in x^2 that approximates erf(x) / x - 1 for |x| <= 1."""
ERFC = (
    1.2375126308378275, -0.1402405985855467, 0.003585415485463779, 0.08227673849011204,
    -0.10880393014171236, 0.09230432116153116, -0.05869339859030941, 0.028362277400457724,
    -0.009746579553431873, 0.001755626017152004, 0.00029371366631088616, -0.00029015496529570924,
    5.1648913469599865e-05, 2.2387259638230133e-05, -1.1442990926805438e-05, -9.801666755858578e-07,
    1.7481190468391965e-06, -4.815839621672849e-08, -2.5261465267715506e-07, 1.5996335215573707e-08,
    3.285083556233316e-08, -8.782125734803513e-10, -2.410821536542233e-09,
)  # fmt: skip
"""Coefficients of a polynomial in (x - k) / (x + k), k = 3.75, that approximates (1 + 2 x) exp(x^2) erfc(x).

It holds for 0 <= x <= 28.
"""
ERFINV = (
    0.8862261978545369, 0.23203255984471685, 0.011468011650000085, -0.002199594496708503,
    -0.000241129983900583, 9.887347802447058e-05, -1.1387677026111827e-05, 5.802103343812262e-07,
    -1.0232947239685764e-08,
)  # fmt: skip
"""Coefficients of a polynomial in w = -log(1 - erf(y)^2) that approximates y / erf(y) to seven digits if w <= 6.25."""
ERFINV_FAR = (
    3.839783754417199, 1.009493223610987, 0.0012609942147370709, -0.000870616830000943,
    0.00031754906812867396, -0.0001111073049611938, 5.6965203357876566e-05, -4.033009582788626e-05,
    2.1541665636942442e-05, -6.295565810583698e-06, 7.458155501324895e-07,
)  # fmt: skip
"""Coefficients of a polynomial in sqrt(w) - 4 that approximates y / erf(y) to seven digits, for 2.5 <= sqrt(w) <= 6.2.

As for `ERFINV`, w = -log(1 - erf(y)^2).
"""


def erfc_of_positive(x: Any) -> Any:
    """Return erfc(x) for x >= 0 in float64, as the product of exp(-x^2) and a rational function.

    x^2 is split into the square of a rounded x, which is exact, and a small rest.
    """
    x = np.minimum(x, 28.0)
    short = np.round(x * 1024) / 1024  # so few bits that short * short is exact
    gauss = np.exp(-short * short) * np.exp((short - x) * (short + x))
    return gauss * polynomial((x - 3.75) / (x + 3.75), ERFC) / (1 + 2 * x)


def erf(x: Any) -> Any:
    """Return the error function: an odd polynomial near 0, else 1 - erfc|x| with the sign of x."""
    wide = x.astype(np.float64)
    near = np.clip(wide, -1.0, 1.0)
    far = np.copysign(1 - erfc_of_positive(np.abs(wide)), wide)
    y = np.where(np.abs(wide) < 1, near + near * polynomial(near * near, ERF), far)
    return y.astype(x.dtype)


def erfc(x: Any) -> Any:
    """Return 1 - erf(x), with a small relative error also where the result is near 0."""
    wide = x.astype(np.float64)
    near = np.clip(wide, -1.0, 1.0)
    far = erfc_of_positive(np.abs(wide))
    far = np.where(wide < 0, 2 - far, far)
    y = np.where(np.abs(wide) < 0.5, 1 - (near + near * polynomial(near * near, ERF)), far)
    return y.astype(x.dtype)


def erfinv(x: Any) -> Any:
    """Return the inverse of the error function.

    A polynomial approximates it to seven digits, and a step of Halley's iteration makes the result accurate.
    """
    a = np.abs(x.astype(np.float64))
    w = -np.log1p(-a) - np.log1p(a)
    near = polynomial(np.minimum(w, 6.25), ERFINV)
    far = polynomial(np.clip(np.sqrt(w), 2.5, 6.2) - 4, ERFINV_FAR)
    y = a * np.where(w < 6.25, near, far)
    small = np.minimum(y, 1.0)
    below = small + small * polynomial(small * small, ERF) - a
    residual = np.where(y < 0.8, below, (1 - a) - erfc_of_positive(y))
    step = 0.5 * np.sqrt(np.pi) * residual * np.exp(y * y)
    y = np.where(a == 1, np.inf, y - step / (1 + y * step))
    return np.copysign(y, x).astype(x.dtype)


LGAMMA = (
    0.42278433509846713, 0.3224670334241132, -0.06735230105319814, 0.02058080842778457, -0.0073855510286681535,
    0.002890510330738737, -0.0011927539120010226, 0.0005096695248853096, -0.00022315475074520367, 9.945750909889392e-05,
    -4.4926351103833334e-05, 2.050726741605779e-05, -9.438458716242811e-06, 4.374374916915131e-06, -2.0449201467015115e-06,
    9.578663334114758e-07, -4.303558760359961e-07, 2.0304806751615227e-07, -1.3412819758517287e-07, 6.379047507619774e-08,
)  # fmt: skip
"""Coefficients of a polynomial in s that approximates log(Gamma(2 + s)) / s for |s| <= 1/2."""
BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
)
"""Bernoulli numbers B_2, B_4, .."""


def lgamma(x: Any) -> Any:
    """Return log |Gamma(x)|.

    Around 1 and 2 it is a polynomial, and from there up to 12 the recurrence Gamma(x + 1) = x Gamma(x) is applied. From
    12 on, Stirling's series is used, and below 1/2 the reflection formula.

    Source: Abramowitz and Stegun 6.1.17, 6.1.40.
    """
    wide = x.astype(np.float64)
    a = np.where(wide < 0.5, 1 - wide, wide)
    steps = np.clip(np.ceil(a - 2.5), 0.0, 10.0)
    s = a - steps - np.where(a < 1.5, 1.0, 2.0)
    s = np.where(np.abs(s) <= 0.5, s, 0.0)
    product = np.ones_like(a)
    for i in range(1, 11):
        product = np.where(i <= steps, product * (a - i), product)
    near = s * polynomial(s, LGAMMA) - np.where(a < 1.5, np.log1p(s), 0.0) + np.log(product)
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)]
    z = np.maximum(a, 12.0)
    far = (z - 0.5) * (np.log(z) - 1) - 0.5 + 0.5 * np.log(2 * np.pi)
    far = far + polynomial(1 / (z * z), terms) / z
    y = np.where(a < 12, near, np.where(np.isinf(a), np.inf, far))
    r = wide - np.round(wide)
    is_tiny = np.abs(wide) < 1e-290
    sine = np.abs(np.sin(np.pi * r))
    reflected = np.where(is_tiny, -np.log(np.abs(wide)), np.log(np.pi) - np.log(sine) - y)
    reflected = np.where(np.isinf(wide) | ((r == 0) & ~is_tiny), np.inf, reflected)
    return np.where(wide < 0.5, reflected, y).astype(x.dtype)


DIGAMMA = (
    0.951055876031833, -0.4236274212814605, 0.2405424842407742, -0.14840492305390884, 0.09498872445494122,
    -0.061922133273064534, 0.04076083381242074, -0.02697579675613825, 0.0179072524394512, -0.011908218001568644,
    0.007926944646403797, -0.005279964873257405, 0.003519006401502276, -0.002345267632540769, 0.0015566317474486838,
    -0.0010376374098418604, 0.0007233266279287554, -0.0004821990530566789, 0.0002272331660987376, -0.00015148586836773365,
    0.00025968482126430747, -0.00017312261802727394,
)  # fmt: skip
"""Coefficients of a polynomial in x - 3/2 that approximates digamma(x) / (x - r) for 1 <= x <= 2; r is the root."""


def digamma(x: Any) -> Any:
    """Return the derivative of log Gamma.

    Near its positive root it is a polynomial, else an asymptotic series after a recurrence, with reflection below 0.

    Source: Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18.
    """
    wide = x.astype(np.float64)
    a = np.where(wide < 0, 1 - wide, wide)
    y, z = np.zeros_like(a), a
    for _ in range(10):
        y, z = np.where(z < 10, y - 1 / z, y), np.where(z < 10, z + 1, z)
    terms = [-b / (2 * k) for k, b in enumerate(BERNOULLI, 1)]
    y = y + (np.log(z) - 0.5 / z + polynomial(1 / (z * z), terms) / (z * z))
    root, rest = 1.4616321449683622, 9.549995429965697e-17
    near = np.clip(a, 1.0, 2.0)
    near = ((near - root) - rest) * polynomial(near - 1.5, DIGAMMA)
    y = np.where(np.abs(a - 1.5) <= 0.5, near, y)
    r = wide - np.round(wide)
    y = np.where(wide < 0, y - np.pi / np.tan(np.pi * r), y)
    return np.where((r == 0) & (wide <= 0), np.nan, y).astype(x.dtype)


def polygamma(n: int, x: Any) -> Any:
    """Return the n-th derivative of digamma, by an asymptotic series after a recurrence, with reflection below 0.

    Source: Abramowitz and Stegun 6.4.6, 6.4.7, 6.4.11.
    """
    if n == 0:
        return digamma(x)
    wide = x.astype(np.float64)
    factorial = float(np.prod(np.arange(1.0, n + 1)))
    sign = 1.0 if n % 2 else -1.0
    z, y = np.where(wide < 0, 1 - wide, wide), np.zeros_like(wide)
    for _ in range(10 + n):
        y = np.where(z < 10 + n, y + (1 / z) ** (n + 1), y)
        z = np.where(z < 10 + n, z + 1, z)
    tail = 1 / n + 0.5 / z
    for k, b in enumerate(BERNOULLI, 1):
        ratio = float(np.prod([(n + j) / j for j in range(1, 2 * k)])) / (2 * k)
        tail = tail + b * ratio / z ** (2 * k)
    y = sign * factorial * (y + tail / z**n)
    coefficients = [0.0, 1.0]
    for _ in range(n):
        slopes = [j * c for j, c in enumerate(coefficients)][1:]
        coefficients = [0.0] * (len(slopes) + 2)
        for j, slope in enumerate(slopes):
            coefficients[j] -= slope
            coefficients[j + 2] -= slope
    r = wide - np.round(wide)
    near, missing = np.abs(r), 0.5 - np.abs(r)
    angle = np.pi * np.minimum(near, missing)
    cotangent = np.where(
        near <= missing, np.cos(angle) / np.sin(angle), np.sin(angle) / np.cos(angle)
    )
    poles = np.pi ** (n + 1) * polynomial(np.copysign(cotangent, r), coefficients)
    y = np.where(wide < 0, -sign * y - poles, y)
    is_pole = (wide <= 0) & (r == 0)
    return np.where(is_pole, np.inf if n % 2 else np.nan, y).astype(x.dtype)


# ---- shapes ----------------------------------------------------------------------------------------


def require(lhs: Any, relation: str, rhs: Any, reason: str) -> None:
    """Check a relation between two extents, if both are numbers; while a function is traced, they may be symbolic.

    Raises:
        ValueError: the relation does not hold.
    """
    if not (isinstance(lhs, int) and isinstance(rhs, int)):
        return
    met = {
        "==": lhs == rhs,
        ">=": lhs >= rhs,
        "is 1 or": lhs in (1, rhs),
        "divisible by": rhs >= 1 and lhs % max(rhs, 1) == 0,
    }
    if not met[relation]:
        raise ValueError(f"{reason} needs {lhs} {relation} {rhs}")


def padded(x: Any, value: Any, low: Any, high: Any, interior: Any) -> Any:
    """Pad x with `value`: `interior` elements between neighbours, `low` before and `high` after, per axis.

    Negative `low` or `high` remove elements.
    """
    for axis, (n, gap) in enumerate(zip(x.shape, interior, strict=True)):
        if gap and n > 1:
            shape = [*x.shape[: axis + 1], gap, *x.shape[axis + 1 :]]
            between = np.broadcast_to(value, shape)
            pairs = np.concatenate([np.expand_dims(x, axis + 1), between], axis + 1)
            wide = pairs.reshape(*x.shape[:axis], n * (gap + 1), *x.shape[axis + 1 :])
            x = wide[(slice(None),) * axis + (slice(0, -gap),)]
    edges = list(zip(low, high, strict=True))
    wide = np.pad(x, [(max(a, 0), max(b, 0)) for a, b in edges], constant_values=value)
    sides = zip(wide.shape, edges, strict=True)
    return wide[tuple([slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in sides])]


def embedded_diagonal(x: Any, axis_a: int, axis_b: int) -> Any:
    """Return an array that is x where the indices of `axis_a` and `axis_b` are equal, and zero elsewhere."""
    axis = axis_a - (axis_b < axis_a)
    n = x.shape[axis]
    places = [1] * (x.ndim + 1)
    places[axis_a] = places[axis_b] = n
    is_equal = np.eye(n, dtype=bool).reshape(places)
    return np.where(is_equal, np.expand_dims(x, axis_b), np.zeros((), x.dtype))


def sorted_by_first(axis: int, *operands: Any) -> Any:
    """Return all operands, reordered as a stable sort of the first operand along `axis` requires."""
    order = np.argsort(operands[0], axis=axis, kind="stable")
    return tuple([np.take_along_axis(x, order, axis=axis) for x in operands])


def top_k(x: Any, k: int) -> Any:
    """Return the k largest elements along the last axis, in descending order, and their indices.

    Equal elements are in the order of their indices.
    """
    order = np.flip(np.argsort(np.flip(x, -1), axis=-1, kind="stable"), -1)[..., :k]
    indices = x.shape[-1] - 1 - order
    return np.take_along_axis(x, indices, axis=-1), indices


def stacked(rows: Any, shape: Any, dtype: Any) -> Any:
    """Stack rows along a new leading axis; if there are no rows, return an empty array of this shape and dtype."""
    return np.stack(rows) if len(rows) else np.empty(shape, dtype)


def truncated(x: Any, size: Any, axis: int) -> Any:
    """Return the first `size` elements along an axis; `size` is rounded to an integer, and is 0 if it is not finite."""
    count = int(np.trunc(size + np.copysign(0.5, size))) if np.isfinite(size) else 0
    index = [slice(None)] * x.ndim
    index[axis] = slice(0, min(max(count, 0), x.shape[axis]))
    return x[tuple(index)]


def padded_to(x: Any, extent: int, axis: int) -> Any:
    """Pad x with zeros at the end of `axis`, up to `extent` elements.

    Raises:
        ValueError: x already has more elements.
    """
    missing = extent - x.shape[axis]
    if missing < 0:
        raise ValueError(
            f"axis {axis} has {x.shape[axis]} elements, more than {extent}; it is not cut"
        )
    return np.pad(x, [(0, missing if i == axis else 0) for i in range(x.ndim)])


# ---- positions -------------------------------------------------------------------------------------


def start_indices(indices: Any, vector_axis: int) -> Any:
    """Split `indices` along `vector_axis` into an int64 array for each component of the index vectors.

    Return the list of arrays, and their shape.
    """
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(2**63 - 1))
    indices = indices.astype(np.int64)
    if vector_axis == indices.ndim:
        return [indices], indices.shape
    starts = np.moveaxis(indices, vector_axis, 0)
    return [starts[i] for i in range(starts.shape[0])], starts.shape[1:]


def spread(values: Any, axes: Any, rank: int) -> Any:
    """Reshape an array to a higher rank: its axes become `axes`, and all others have extent 1."""
    shape = [1] * rank
    for axis, extent in zip(axes, values.shape, strict=True):
        shape[axis] = extent
    return values.reshape(shape)


def positions(starts: Any, batch: Any, windows: Any, sizes: Any, rank: int, numbers: Any) -> Any:
    """Return, for each axis of an operand, the index along it of each element of a gather's result.

    The arrays of indices broadcast to the result's shape.

    Args:
        starts: for an axis of the operand, the first index of each window.
        batch: the extents of the result's axes that enumerate windows, by axis.
        windows: for an axis of the operand, the axis of the result that enumerates the elements of a window.
        sizes: the extent of a window along each axis of the operand.
        rank: the rank of the result.
        numbers: for a batching axis of the operand, the position of the matching axis in `batch`.
    """
    axes = list(batch)
    along = []
    for axis in range(len(sizes)):
        position = np.zeros((1,) * rank, np.int64)
        if axis in starts:
            position = position + spread(starts[axis], axes, rank)
        if axis in numbers:
            place = axes[numbers[axis]]
            position = position + spread(np.arange(batch[place]), [place], rank)
        if axis in windows:
            position = position + spread(np.arange(sizes[axis]), [windows[axis]], rank)
        along.append(position)
    return along


def indexable(x: Any, indices: Any) -> Any:
    """Return x, converted to a tensor if `indices` is a tensor of a trace, which cannot index a NumPy array."""
    if hasattr(x, "at") or not hasattr(indices, "at"):
        return x
    is_empty = (
        np.sum(np.reshape(indices, -1)[:0]) == 0
    )  # a tensor that is true, so that np.where returns a tensor
    return np.where(is_empty, x, x)


def take(x: Any, indices: Any, axis: int = 0) -> Any:
    """Return the slices of x along an axis at these indices, which are clipped to be in bounds."""
    return np.take(indexable(x, indices), indices, axis=axis, mode="clip")


def take_along(x: Any, indices: Any, axis: int) -> Any:
    """Return `np.take_along_axis` of x at these indices, which are clipped to be in bounds."""
    clipped = np.clip(indices.astype(np.int64), 0, x.shape[axis] - 1)
    return np.take_along_axis(indexable(x, indices), clipped, axis)


def batch_numbers(axes: Any, index_axes: Any, vector_axis: int) -> Any:
    """Return, for each batching axis of an operand, the matching axis of the indices without their vector axis."""
    pairs = zip(axes, index_axes, strict=True)
    return {axis: number - (number > vector_axis) for axis, number in pairs}


def gather(
    x: Any,
    indices: Any,
    offset_dims: Any = (),
    collapsed: Any = (),
    batching: Any = (),
    index_batching: Any = (),
    index_map: Any = (),
    vector_axis: int = 0,
    sizes: Any = (),
) -> Any:
    """Return windows of x, as StableHLO's gather: `indices` contains their first indices, clipped to be in bounds."""
    parts, batch_shape = start_indices(indices, vector_axis)
    window = [axis for axis in range(x.ndim) if axis not in (*collapsed, *batching)]
    rank = len(batch_shape) + len(window)
    batch_axes = [axis for axis in range(rank) if axis not in offset_dims]
    starts = {}
    for axis, start in zip(index_map, parts, strict=True):
        starts[axis] = np.clip(start, 0, x.shape[axis] - sizes[axis])
    places = dict(zip(window, sorted(offset_dims), strict=True))
    batch = dict(zip(batch_axes, batch_shape, strict=True))
    shape = [batch.get(axis, 0) for axis in range(rank)]
    for axis, place in places.items():
        shape[place] = sizes[axis]
    if not x.ndim or 0 in shape:
        return np.broadcast_to(x if not x.ndim else np.zeros((), x.dtype), shape)
    numbers = batch_numbers(batching, index_batching, vector_axis)
    where = positions(starts, batch, places, sizes, rank, numbers)
    return np.broadcast_to(indexable(x, indices)[tuple(where)], shape)


def scatter(
    x: Any,
    indices: Any,
    updates: Any,
    combiner: str,
    window_dims: Any = (),
    inserted: Any = (),
    batching: Any = (),
    index_batching: Any = (),
    index_map: Any = (),
    vector_axis: int = 0,
) -> Any:
    """Combine windows of `updates` into x, as StableHLO's scatter; a window out of bounds is omitted."""
    parts, batch_shape = start_indices(indices, vector_axis)
    window = [axis for axis in range(x.ndim) if axis not in (*inserted, *batching)]
    rank = updates.ndim
    batch_axes = [axis for axis in range(rank) if axis not in window_dims]
    places = dict(zip(window, sorted(window_dims), strict=True))
    sizes = [updates.shape[places[axis]] if axis in places else 1 for axis in range(x.ndim)]
    starts, fits = {}, np.ones((1,) * rank, bool)
    for axis, start in zip(index_map, parts, strict=True):
        is_inside = (start >= 0) & (start <= x.shape[axis] - sizes[axis])
        fits = fits & spread(is_inside, batch_axes, rank)
        starts[axis] = np.where(is_inside, start, 0)
    batch = dict(zip(batch_axes, batch_shape, strict=True))
    numbers = batch_numbers(batching, index_batching, vector_axis)
    where = positions(starts, batch, places, sizes, rank, numbers)
    flat = np.zeros((1,) * rank, np.int64)
    for position, extent in zip(where, x.shape, strict=True):
        flat = flat * extent + position
    size = int(np.prod(x.shape))
    flat = np.broadcast_to(np.where(fits, flat, size), updates.shape)
    traced = [y for y in (x, flat, updates) if hasattr(y, "at")]
    if traced:  # tensors of a trace
        longer = np.concatenate([np.reshape(x, -1), np.zeros(1, x.dtype)])
        target = indexable(longer, traced[0]).at[np.reshape(flat, -1)]
        combined = getattr(target, combiner)(np.reshape(updates, -1))
        return np.reshape(combined[:size], x.shape)
    target = np.append(x, np.zeros((), x.dtype))
    if combiner == "set":
        target[flat.ravel()] = updates.ravel()
    else:
        ufuncs = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}
        ufuncs[combiner].at(target, flat.ravel(), updates.ravel())
    return target[:size].reshape(x.shape)


def dynamic_slice(x: Any, starts: Any, sizes: Any) -> Any:
    """Return the window of x with these first indices, which are clipped so that the window is in bounds."""
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        first = np.clip(start, 0, x.shape[axis] - size).astype(np.int64)
        x = take(x, first + np.arange(size), axis)
    return x


def dynamic_update_slice(x: Any, update: Any, starts: Any) -> Any:
    """Return x with a window replaced by `update`; its first indices are clipped so that the window is in bounds."""
    inside, shifted = np.ones((1,) * x.ndim, bool), update
    if 0 in update.shape:
        return x
    for axis, start in enumerate(starts):
        n, size = x.shape[axis], update.shape[axis]
        place = np.arange(n) - np.clip(start, 0, n - size).astype(np.int64)
        inside = inside & spread((place >= 0) & (place < size), [axis], x.ndim)
        shifted = take(shifted, place, axis)
    return np.where(inside, shifted, x)


# ---- products --------------------------------------------------------------------------------------


def convolution(
    x: Any,
    kernel: Any,
    strides: Any = None,
    padding: Any = None,
    x_dilation: Any = None,
    kernel_dilation: Any = None,
    reverse: Any = None,
    feature_groups: int = 1,
    batch_groups: int = 1,
) -> Any:
    """Return the convolution of x [batch, features, space..] with a kernel [outputs, inputs, space..]."""
    count = x.ndim - 2
    ones = (1,) * count
    strides, kernel_dilation = strides or ones, kernel_dilation or ones
    low, high = zip(*(padding or ((0, 0),) * count), strict=True) if count else ((), ())
    gaps = tuple([step - 1 for step in x_dilation or ones])
    if any(low) or any(high) or any(gaps):
        x = padded(x, np.zeros((), x.dtype), (0, 0, *low), (0, 0, *high), (0, 0, *gaps))
    if reverse:
        kernel = np.flip(kernel, tuple([axis + 2 for axis, flag in enumerate(reverse) if flag]))
    sizes = kernel.shape[2:]
    widths = [(n - 1) * d + 1 if n else 0 for n, d in zip(sizes, kernel_dilation, strict=True)]
    counts = [
        0 if not n or width > n else (n - width) // step + 1
        for n, width, step in zip(x.shape[2:], widths, strides, strict=True)
    ]
    batch, outputs = x.shape[0] // batch_groups, kernel.shape[0]
    groups = feature_groups * batch_groups
    if 0 in (outputs, *counts):
        return np.zeros((batch, outputs, *counts), x.dtype)
    parts = []
    for g in range(groups):
        features = slice(None)
        rows = slice(None)
        if feature_groups > 1:
            features = slice(g * kernel.shape[1], (g + 1) * kernel.shape[1])
        if batch_groups > 1:
            rows = slice(g * batch, (g + 1) * batch)
        part = slice(g * outputs // groups, (g + 1) * outputs // groups)
        total = np.zeros((part.stop - part.start, batch, *counts), x.dtype)
        for tap in np.ndindex(*sizes):
            window = [
                slice(t * d, t * d + (n - 1) * step + 1, step)
                for t, d, n, step in zip(tap, kernel_dilation, counts, strides, strict=True)
            ]
            seen = x[(rows, features, *window)]
            total = total + np.tensordot(kernel[(part, slice(None), *tap)], seen, (1, 1))
        parts.append(np.moveaxis(total, 0, 1))
    return np.concatenate(parts, 1)


def convolution_of(layouts: str, x: Any, kernel: Any, **options: Any) -> Any:
    """Return the convolution of arrays whose axes have other orders, such as "NHWC,HWIO->NHWC"."""
    operands, result = layouts.split("->")
    lhs, rhs = operands.split(",")
    space = "".join(sorted({*lhs} - {*"NC"}))
    x = np.transpose(x, [lhs.index(axis) for axis in "NC" + space])
    kernel = np.transpose(kernel, [rhs.index(axis) for axis in "OI" + space])
    y = convolution(x, kernel, **options)
    return np.transpose(y, [("NC" + space).index(axis) for axis in result])


# ---- matrices --------------------------------------------------------------------------------------


def hermitian_part(a: Any) -> Any:
    """Return (a + a^H) / 2."""
    return 0.5 * (a + np.conj(np.swapaxes(a, -1, -2)))


def cholesky(a: Any) -> Any:
    """Return L with A = L L^H; L is NaN for a matrix that is not positive definite."""
    a = hermitian_part(a)
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        if a.ndim == 2:
            return np.tril(np.full_like(a, np.nan))
        return np.stack([cholesky(matrix) for matrix in a])


def eig(a: Any, dtype: Any) -> Any:
    """Return eigenvalues and eigenvectors, converted to the complex `dtype`."""
    values, vectors = np.linalg.eig(a)
    return values.astype(dtype), vectors.astype(dtype)


def solve(a: Any, b: Any) -> Any:
    """Return X with A X = B; X is NaN if A is singular."""
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        if a.ndim == 2:
            return np.full_like(b, np.nan)
        return np.stack([solve(left, right) for left, right in zip(a, b, strict=True)])


def triangular_solve(a: Any, b: Any, lower: bool = True, unit_diagonal: bool = False) -> Any:
    """Return X with A X = B by substitution; only the lower or upper triangle of A is used."""
    n = a.shape[-1]
    rows = [None] * n
    for i in range(n) if lower else range(n)[::-1]:
        y = b[..., i, :]
        rows[i] = y = y if unit_diagonal else y / a[..., i, i, None]
        b = b - a[..., i, None] * y[..., None, :]
    return np.stack(rows, -2) if n else b


def getrf(a: Any) -> Any:
    """Return the LU factorisation with L below the diagonal and U on and above it, and the row swaps.

    Entry i of the swaps is the number of the row, from zero, with which row i is swapped.
    """
    m, n = a.shape[-2:]
    rows, columns = np.arange(m), np.arange(n)
    pivots = np.zeros((*a.shape[:-2], min(m, n)), np.int64)
    for i in range(min(m, n)):
        size = np.abs(a[..., i].real) + np.abs(a[..., i].imag)
        pivot = np.argmax(np.where(rows < i, -1.0, size), -1)[..., None]
        swapped = np.where(rows == i, pivot, np.where(rows == pivot, i, rows))
        a = np.take_along_axis(a, swapped[..., None], -2)
        corner = a[..., i, i, None]
        below = np.where(rows > i, a[..., i] / np.where(corner == 0, 1, corner), a[..., i])
        rest = (rows > i)[:, None] & (columns > i)
        rest = np.where(rest, a - below[..., None] * a[..., i, None, :], a)
        a = np.where(columns == i, below[..., None], rest)
        pivots = np.where(np.arange(min(m, n)) == i, pivot, pivots)
    return a, pivots


def pivots_to_permutation(pivots: Any, size: int) -> Any:
    """Return the order of rows after row i has been swapped with row pivots[i], for i = 0, 1, .."""
    rows = np.arange(size)
    order = np.broadcast_to(rows, (*pivots.shape[:-1], size)).astype(pivots.dtype)
    for i in range(pivots.shape[-1]):
        pivot = pivots[..., i, None]
        swapped = np.where(rows == i, pivot, np.where(rows == pivot, i, rows))
        order = np.take_along_axis(order, swapped.astype(np.int64), -1)
    return order


def lu(a: Any) -> Any:
    """Return the factorisation A[order] = L U, with L below the diagonal and U on and above it, and `order`."""
    packed, pivots = getrf(a)
    return packed, pivots_to_permutation(pivots, a.shape[-2])


def getrf_info(packed: Any) -> Any:
    """Return the number of the first zero on the diagonal of U, counted from one; 0 if there is no zero."""
    is_zero = np.diagonal(packed, 0, -2, -1) == 0
    if not is_zero.shape[-1]:
        return np.zeros(is_zero.shape[:-1], np.int32)
    first = np.argmax(is_zero, -1) + 1
    return np.where(np.any(is_zero, -1), first, 0).astype(np.int32)


def reflector(column: Any, i: int) -> Any:
    """Return v, tau and beta of the reflection 1 - conj(tau) v v^H that makes a column zero below element i.

    Element i of the reflected column is beta. Element i of v is one, and the elements of v above are zero.
    """
    rows = np.arange(column.shape[-1])
    corner, below = column[..., i], np.where(rows > i, column, 0)
    tail = np.sum(np.real(below) ** 2 + np.imag(below) ** 2, -1) + corner.imag**2
    is_done = tail == 0
    length = np.sqrt(np.where(is_done, 1, tail + corner.real**2))
    beta = np.where(is_done, corner.real, np.where(corner.real < 0, length, -length))
    factor = np.where(is_done, 0, (beta - corner) / np.where(is_done, 1, beta))
    vector = below / np.where(is_done, 1, corner - beta)[..., None]
    return np.where(rows == i, 1, vector), factor, beta


def reflected(a: Any, i: int, j: int) -> Any:
    """Apply the reflection that makes column j of A zero below row i; return A, and the reflection's factor tau.

    The reflection's vector is stored in place of the zeros.
    """
    rows, columns = np.arange(a.shape[-2]), np.arange(a.shape[-1])
    vector, factor, beta = reflector(a[..., j], i)
    shared = np.conj(vector)[..., None, :] @ a
    rest = a - (np.conj(factor)[..., None] * vector)[..., None] * shared
    column = np.where(rows == i, beta[..., None], np.where(rows > i, vector, a[..., j]))
    rest = np.where((rows >= i)[:, None] & (columns > j), rest, a)
    return np.where(columns == j, column[..., None], rest).astype(a.dtype), factor.astype(a.dtype)


def geqrf(a: Any) -> Any:
    """Return R on and above the diagonal and Householder vectors below it, and the reflections' factors tau."""
    count = min(a.shape[-2:])
    factors = np.zeros((*a.shape[:-2], count), a.dtype)
    for i in range(count):
        a, factor = reflected(a, i, i)
        factors = np.where(np.arange(count) == i, factor[..., None], factors)
    return a, factors


def geqp3(a: Any) -> Any:
    """Return the QR factorisation with column pivoting: `geqrf`'s packed matrix, the columns' order, and tau.

    In each step the remaining column of largest norm is moved to the front. The order counts from one.
    """
    m, n = a.shape[-2:]
    rows, columns = np.arange(m), np.arange(n)
    order = np.broadcast_to(columns, (*a.shape[:-2], n))
    factors = np.zeros((*a.shape[:-2], min(m, n)), a.dtype)
    for i in range(min(m, n)):
        size = np.sum(np.where((rows >= i)[:, None], a.real**2 + a.imag**2, 0), -2)
        longest = np.argmax(np.where(columns < i, -1.0, size), -1)[..., None]
        swapped = np.where(columns == i, longest, np.where(columns == longest, i, columns))
        a = np.take_along_axis(a, swapped[..., None, :], -1)
        order = np.take_along_axis(order, swapped, -1)
        a, factor = reflected(a, i, i)
        factors = np.where(np.arange(min(m, n)) == i, factor[..., None], factors)
    return a, (order + 1).astype(np.int32), factors


def gehrd(a: Any) -> Any:
    """Return a Hessenberg matrix similar to A, with Householder vectors in place of its zeros, and the factors tau."""
    count = max(a.shape[-1] - 1, 0)
    rows, factors = np.arange(a.shape[-1]), np.zeros((*a.shape[:-2], count), a.dtype)
    for j in range(count):
        a, factor = reflected(a, j + 1, j)
        here = np.where(rows > j + 1, a[..., j], rows == j + 1)
        a = (
            a
            - (factor[..., None] * (a @ here[..., None])[..., 0])[..., None]
            * np.conj(here)[..., None, :]
        )
        a = a.astype(factors.dtype)
        factors = np.where(np.arange(count) == j, factor[..., None], factors).astype(a.dtype)
    return a, factors


def sytrd(a: Any, lower: bool) -> Any:
    """Reduce a Hermitian matrix, of which one triangle is used, to a similar tridiagonal matrix.

    Return the matrix with Householder vectors packed into the triangle, the diagonal, the off-diagonal, and the
    reflections' factors tau.
    """
    if not lower:
        packed, *others = sytrd(a[..., ::-1, ::-1], True)
        return packed[..., ::-1, ::-1], *[y[..., ::-1] for y in others]
    strict = np.tril(a, -1)
    diagonal = np.real(np.diagonal(a, 0, -2, -1))[..., None] * np.eye(a.shape[-1], dtype=a.dtype)
    reduced, factors = gehrd(strict + np.conj(np.swapaxes(strict, -1, -2)) + diagonal)
    below = [np.real(np.diagonal(reduced, -k, -2, -1)) for k in (0, 1)]
    return np.tril(reduced) + np.triu(a, 1), *below, factors


def gtsv(below: Any, diagonal: Any, above: Any, b: Any) -> Any:
    """Return X with T X = B for a tridiagonal T, by elimination with row swaps, and `info`.

    `info` is the number of the first zero pivot, counted from one, or 0.
    """
    n = b.shape[-2]
    if not b.size:
        return b, np.zeros(b.shape[:-2], np.int32)
    d, x = ([y[..., i] for i in range(n)] for y in (diagonal, np.swapaxes(b, -1, -2)))
    low = [below[..., i + 1] for i in range(n - 1)]
    first = [above[..., i] for i in range(n - 1)] + [np.zeros_like(d[0])]
    second = [np.zeros_like(d[0])] * n
    with np.errstate(all="ignore"):
        for i in range(n - 1):
            stays = np.abs(d[i].real) + np.abs(d[i].imag) >= np.abs(low[i].real) + np.abs(
                low[i].imag
            )
            pivot, other = np.where(stays, d[i], low[i]), np.where(stays, low[i], d[i])
            factor = other / np.where(pivot == 0, 1, pivot)
            rows = [(first[i], d[i + 1]), (np.zeros_like(d[i]), first[i + 1])]
            mine, next_ = (
                [np.where(stays, p, q) for p, q in each]
                for each in (rows, [(q, p) for p, q in rows])
            )
            d[i], first[i], second[i] = pivot, *mine
            d[i + 1], first[i + 1] = (q - factor * p for p, q in zip(mine, next_, strict=True))
            swap = stays[..., None]
            top, bottom = np.where(swap, x[i], x[i + 1]), np.where(swap, x[i + 1], x[i])
            x[i], x[i + 1] = top, bottom - factor[..., None] * top
        for i in range(n)[::-1]:
            for k, coefficient in ((i + 1, first[i]), (i + 2, second[i])):
                if k < n:
                    x[i] = x[i] - coefficient[..., None] * x[k]
            x[i] = x[i] / d[i][..., None]
    is_zero = np.stack([pivot == 0 for pivot in d], -1)
    info = np.where(np.any(is_zero, -1), np.argmax(is_zero, -1) + 1, 0)
    return np.stack(x, -2), info.astype(np.int32)


def geev(a: Any, dtype: Any) -> Any:
    """Return eigenvalues, and left and right eigenvectors of unit length.

    Left eigenvectors are NaN if the right eigenvectors are linearly dependent.
    """
    values, right = eig(a, dtype)
    identity = np.broadcast_to(np.eye(a.shape[-1], dtype=dtype), a.shape)
    left = solve(np.conj(np.swapaxes(right, -1, -2)), identity)
    return values, left / np.linalg.norm(left, axis=-2)[..., None, :], right


def schur(a: Any) -> Any:
    """Return the Schur form T and the unitary Z with A = Z T Z^H.

    Each step deflates one eigenvector, or for a real A one pair of conjugate eigenvectors. The real and the imaginary
    part of such a vector are made orthogonal, so that both diagonal elements of its 2 x 2 block are equal.
    """
    n, t, z = len(a), a.copy(), np.eye(len(a), dtype=a.dtype)
    i = 0
    while i < n - 1:
        values, vectors = np.linalg.eig(t[i:, i:])
        basis = vectors[:, :1]
        if a.dtype.kind == "f" and values[0].imag != 0:
            basis = basis * np.exp(-0.5j * np.angle(np.sum(basis**2)))
            basis = np.concatenate([np.real(basis), np.imag(basis)], 1)
        q = np.linalg.qr(np.real(basis) if a.dtype.kind == "f" else basis, "complete")[0]
        t[:, i:] = t[:, i:] @ q
        t[i:] = np.conj(q.T) @ t[i:]
        z[:, i:] = z[:, i:] @ q
        size = basis.shape[1]
        t[i + size :, i : i + size] = 0
        i += size
    return t, z


def gees(a: Any, dtype: Any) -> Any:
    """Return the Schur form, Schur vectors and eigenvalues of each matrix, and 1 if it is not finite, else 0."""
    t, z = np.full_like(a, np.nan), np.full_like(a, np.nan)
    is_finite = np.all(np.isfinite(a), (-2, -1))
    for index in np.argwhere(is_finite):
        t[(*index,)], z[(*index,)] = schur(a[(*index,)])
    values = np.diagonal(t, 0, -2, -1).astype(dtype)
    if a.dtype.kind == "f":
        product = np.diagonal(t, 1, -2, -1) * np.diagonal(t, -1, -2, -1)
        height = 1j * np.sqrt(np.maximum(-product, 0))
        none = np.zeros((*a.shape[:-2], 1))
        values = values + np.concatenate([height, none], -1) - np.concatenate([none, height], -1)
    return t, z, values.astype(dtype), np.where(is_finite, 0, 1).astype(np.int32)


def householder_product(packed: Any, factors: Any) -> Any:
    """Return the leading columns of the product of the reflections that `geqrf` returns in packed form."""
    m, n = packed.shape[-2:]
    rows = np.arange(m)
    q = np.broadcast_to(np.eye(m, n, dtype=packed.dtype), packed.shape)
    for i in reversed(range(factors.shape[-1])):
        vector = np.where(rows == i, 1, np.where(rows > i, packed[..., i], 0))[..., None]
        shared = np.conj(np.swapaxes(vector, -1, -2)) @ q
        q = q - factors[..., i, None, None] * vector * shared
    return q


def distinct(values: Any) -> Any:
    """Return the values unchanged if they are distinct.

    Raises:
        ValueError: two values coincide up to rounding, so that their vectors have no derivative.
    """
    gaps = np.abs(np.diff(np.sort(values, axis=-1), axis=-1))
    largest = np.max(np.abs(values), axis=-1, keepdims=True, initial=0)
    if (gaps <= 16 * np.finfo(values.dtype).eps * largest).any():
        raise ValueError("two values coincide; the vectors have no derivative there")
    return values


def threefry(key: Any, x0: Any, x1: Any) -> Any:
    """Return two arrays of random 32-bit words for a key and two arrays of counters, by Threefry-2x32.

    Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (2011).
    """
    shape = key.shape[:-1] + (1,) * (x0.ndim - key.ndim + 1)
    words = [key[..., 0].reshape(shape), key[..., 1].reshape(shape)]
    words.append(words[0] ^ words[1] ^ np.uint32(0x1BD11BDA))
    x0, x1 = x0 + words[0], x1 + words[1]
    for group in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
            x1 = x1 ^ x0
        x0 = x0 + words[(group + 1) % 3]
        x1 = x1 + words[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


# ---- the check of a file -----------------------------------------------------------------------------


def mapped_arrays(path: Any) -> Any:
    """Return the arrays of a safetensors file by name; they are mapped from the file and not copied."""
    import json

    content = np.memmap(path, np.uint8, "r")
    first = 8 + int.from_bytes(content[:8].tobytes(), "little")
    arrays = {}
    for name, entry in json.loads(content[8:first].tobytes()).items():
        if name != "__metadata__":
            kind = entry["dtype"]
            dtype = "?" if kind == "BOOL" else f"<{kind[0].lower()}{int(kind[1:]) // 8}"
            begin, end = entry["data_offsets"]
            elements = np.asarray(content[first + begin : first + end])
            arrays[name] = elements.view(dtype).reshape(entry["shape"])
    return arrays


def disagreement(actual: Any, expected: Any, limit: Any, other: Any = None) -> str:
    """Describe the first element at which two arrays differ by more than `limit`; return "" if there is none.

    Args:
        other: flat indices of elements, and alternative values that these elements may have.
    """
    actual = np.asarray(actual)
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return (
            f"it is {actual.dtype}{list(actual.shape)}, not {expected.dtype}{list(expected.shape)}"
        )
    is_same = actual == expected
    if actual.dtype.kind in "fc":
        is_same |= np.isnan(actual) & np.isnan(expected)
        units = 4 * np.finfo(actual.dtype).eps * np.abs(expected)
        is_same |= np.abs(actual - expected) <= np.maximum(limit, units)
    is_same = np.ravel(is_same)
    for place, value in zip(*(other or ((), ())), strict=True):
        is_same[place] |= np.ravel(actual)[place] == value
    if is_same.all():
        return ""
    place = int(np.argmin(is_same))
    return f"element {place} is {np.ravel(actual)[place]}, not {np.ravel(expected)[place]}"
