"""Kernels of the analytic family. scipy is imported when first needed: it is slow to import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tenferro.exec.kernels.buffered import logistic, logistic_into, rsqrt, rsqrt_into
from tenferro.exec.kernels.elementwise import compose
from tenferro.exec.kernels.gamma import lgamma
from tenferro.exec.kernels.kernel import Array, Kernel, KernelRows, OfArrays, OfOp, in_float32
from tenferro.ops import analytic
from tenferro.ops.analytic import (
    Digamma,
    Erf,
    Erfc,
    ErfInv,
    Expm1,
    Lgamma,
    Log1p,
    Logistic,
    Polygamma,
    Rsqrt,
    Tanh,
    derivative_of_cotangent,
)

__all__ = ["ROWS", "UFUNCS", "logistic", "rsqrt"]


def low(function: Callable[..., Any], floats: Any = None, into: Any = None) -> Kernel:
    """An elementwise kernel that computes float16 and bfloat16 in float32.

    Args:
        floats: the ufunc that it is for the other floats.
        into: the function, written into a buffer.
    """
    return OfArrays(
        function,
        low=True,
        floats=None if floats is None else lambda: floats,
        elementwise=True,
        into=None if into is None else {function: into},
    )


def special(name: str) -> Kernel:
    """A kernel that is a function of scipy.special."""

    def ufunc() -> Callable[..., Any]:
        from scipy import special as functions  # because importing scipy takes long

        return getattr(functions, name)

    return OfArrays(lambda *arrays: ufunc()(*arrays), low=True, floats=ufunc, elementwise=True)


def erfinv(x: Array) -> Array:
    """SciPy's gives 0 for -0; the function is odd."""
    from scipy import special as functions  # because importing scipy takes long

    return np.copysign(functions.erfinv(x), x)


def log1p(x: Array) -> Array:
    """Complex: log|1 + z| from |1 + z|^2 - 1 = a (2 + a) + b^2, which is accurate near 0."""
    if x.dtype.kind != "c":
        return np.log1p(x)
    a, b = x.real, x.imag
    near = np.maximum(np.abs(a), np.abs(b)) < 0.5
    small = 0.5 * np.log1p(np.where(near, a * (2 + a) + b * b, 0))
    return compose(np.where(near, small, np.log(np.hypot(1 + a, b))), np.arctan2(b, 1 + a))


def expm1(x: Array) -> Array:
    """Complex: the real part e^a cos b - 1 is (e^a - 1) cos b - 2 sin^2(b / 2), which does not cancel near 0.

    At infinite a, e^a is 0 or infinite whatever the angle, also where b has none. Zeros of the real part
    are positive.
    """
    if x.dtype.kind != "c":
        return np.expm1(x)
    a, b = x.real, x.imag
    half = np.sin(b / 2)
    real, imag = np.expm1(a) * np.cos(b) - 2 * half * half + 0.0, np.exp(a) * np.sin(b)
    no_angle = np.isinf(a) & ~np.isfinite(b)
    real = np.where(np.isneginf(a) | no_angle, np.expm1(a), real)
    return compose(real, np.where(b == 0, b, np.where(np.isneginf(a) & no_angle, 0, imag)))


def tanh(x: Array) -> Array:
    """Complex: at infinite real parts the imaginary part is a zero of its own sign.

    It has the sign of sin(2 b) in C99 and NumPy.
    """
    y: Array = np.tanh(x)
    if x.dtype.kind != "c":
        return y
    far = np.isinf(x.real) & np.isfinite(x.imag)
    return compose(y.real, np.where(far, np.copysign(0, x.imag), y.imag)) if far.any() else y


def erfc(x: Array) -> Array:
    """SciPy's; from 2 on e^(-x^2) erfcx(x) with x^2 as a sum, because half a bit of x^2 is x^2 bits of the power."""
    from scipy import special as functions  # because importing scipy takes long

    y = functions.erfc(x)
    if x.dtype != np.float64 or not np.fmax.reduce(x, axis=None, initial=0) > 2:
        return y
    is_far = x > 2
    far = np.minimum(x[is_far], 30.0)
    short = far.astype(np.float32).astype(np.float64)  # whose square is exact
    power = np.exp(-short * short) * np.exp((short - far) * (short + far))
    y = np.asarray(y)
    y[is_far] = power * functions.erfcx(far)
    return y


def digamma(x: Array) -> Array:
    """SciPy's digamma; below 0 psi(1 - x) - pi cot(pi x), as its own loses digits near the poles, which are NaN."""
    from scipy import special as functions  # because importing scipy takes long

    if not np.fmin.reduce(x, axis=None, initial=1) <= 0:
        return functions.digamma(x)
    is_negative = x < 0
    r = x - np.round(x)
    y = np.where((r == 0) & (x <= 0), np.nan, functions.digamma(np.where(is_negative, 1 - x, x)))
    return np.where(is_negative, y - np.pi / np.tan(np.pi * r), y).astype(x.dtype)


def polygamma(op: Polygamma, x: Array) -> Array:
    """By scipy's Hurwitz zeta function; at the poles NaN where both sides differ.

    Below zero by reflection, because the zeta function adds up every pole up to zero:

        psi_n(x) = (-1)^n psi_n(1 - x) - pi^(n+1) D_n(cot pi x)

    Source: Abramowitz and Stegun 6.4.7.
    """
    from scipy import special as functions  # because importing scipy takes long

    n = op.order
    if n == 0:
        return low(digamma)(op, x)

    def values(x: Array) -> Array:
        is_negative = x < 0
        wide = x.astype(np.float64)
        y = functions.polygamma(n, np.where(is_negative, 1 - wide, wide))
        if is_negative.any():
            poles = -cotangents(n, wide)
            # Near a pole, and for orders whose factorial overflows, the cotangents outgrow the rest.
            reflected = np.where(np.isfinite(poles), poles + (-y if n % 2 else y), poles)
            y = np.where(is_negative, reflected, y)
        is_pole = (x <= 0) & (x == np.floor(x))
        return np.where(is_pole, np.nan if n % 2 == 0 else np.inf, y).astype(x.dtype)

    return in_float32(values)(x)


def cotangents(n: int, x: Array) -> Array:
    """pi^(n+1) D_n(cot pi x); the distance to the nearest pole is exact, and so are zeros half way."""
    r = x - np.round(x)
    near, missing = np.abs(r), 0.5 - np.abs(r)
    is_near = near <= missing
    angle = np.pi * np.where(is_near, near, missing)
    sine, cosine = np.sin(angle), np.cos(angle)
    cotangent = np.copysign(np.where(is_near, cosine / sine, sine / cosine), r)
    # A coefficient beyond every float is an infinity, but nothing half way between two poles.
    coefficients = [
        float(c) if c.bit_length() < 1024 else (-np.inf if c < 0 else np.inf)
        for c in derivative_of_cotangent(n)
    ]
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * cotangent + coefficient
    return np.where(cotangent == 0, coefficients[0], total) * np.pi ** (n + 1)


UFUNCS: KernelRows = {card: low(getattr(np, card.ufunc)) for card in analytic.CARDS if card.ufunc}
"""Of cards that name NumPy's function."""
ROWS: KernelRows = {
    Expm1: low(expm1, np.expm1),
    Log1p: low(log1p, np.log1p),
    Rsqrt: low(rsqrt, into=rsqrt_into),
    Tanh: low(tanh, np.tanh),
    Logistic: low(logistic, into=logistic_into),
    Erf: special("erf"),
    Erfc: low(erfc),
    ErfInv: low(erfinv),
    Lgamma: low(lgamma),
    Digamma: low(digamma),
    Polygamma: OfOp(polygamma, elementwise=True),
}
