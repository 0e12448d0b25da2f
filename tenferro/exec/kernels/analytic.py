"""Kernels of the analytic family. SciPy is imported at the first call that uses it, because its import is slow."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tenferro.exec.kernels.composed import logistic, rsqrt
from tenferro.exec.kernels.elementwise import compose
from tenferro.exec.kernels.gamma import lgamma
from tenferro.exec.kernels.kernel import (
    HALF_DTYPES,
    Array,
    Function,
    Kernel,
    KernelRows,
    elementwise,
    in_float32,
    specialized,
)
from tenferro.ops import analytic as ops
from tenferro.ops.analytic import derivative_of_cotangent

__all__ = ["ROWS", "UFUNCS"]

upcasting = partial(elementwise, upcasts=True)


def special(name: str, floats: Function | None = None) -> Kernel:
    """Return the kernel that calls the function `name` of scipy.special.

    Args:
        floats: the function that is called for float32 and float64 instead.
    """

    def specialize(op: object, dtype: np.dtype[Any]) -> Function:
        from scipy import special as functions  # because importing scipy takes long

        function: Function = getattr(functions, name)
        if dtype in HALF_DTYPES:
            return in_float32(function)
        return function if floats is None or dtype.kind == "c" else floats

    return specialized(specialize, elementwise=True)


def erfinv(x: Array) -> Array:
    """Return SciPy's erfinv with the sign of x, because SciPy returns 0 instead of -0 for x = -0."""
    from scipy import special as functions  # because importing scipy takes long

    return np.copysign(functions.erfinv(x), x)


def log1p(x: Array) -> Array:
    """Return log(1 + x), accurate near 0.

    For complex z = a + i b, log|1 + z| is computed from |1 + z|^2 - 1 = a (2 + a) + b^2.
    """
    if x.dtype.kind != "c":
        return np.log1p(x)
    a, b = x.real, x.imag
    near = np.maximum(np.abs(a), np.abs(b)) < 0.5
    small = 0.5 * np.log1p(np.where(near, a * (2 + a) + b * b, 0))
    return compose(np.where(near, small, np.log(np.hypot(1 + a, b))), np.arctan2(b, 1 + a))


def tanh(x: Array) -> Array:
    """Return NumPy's tanh, except for complex x = a + i b with infinite a.

    The imaginary part is then 0 with the sign of b; in NumPy and C99 it has the sign of sin(2 b).
    """
    y: Array = np.tanh(x)
    if x.dtype.kind != "c":
        return y
    far = np.isinf(x.real) & np.isfinite(x.imag)
    return compose(y.real, np.where(far, np.copysign(0, x.imag), y.imag)) if far.any() else y


def erfc(x: Array) -> Array:
    """Return SciPy's erfc, but for float64 x > 2 the more accurate e^(-x^2) erfcx(x).

    x^2 is computed as the sum of two floats, because an error of 1/2 ulp of x^2 would cause an error of x^2 / 2 ulp of
    the exponential.
    """
    from scipy import special as functions  # because importing scipy takes long

    y = functions.erfc(x)
    if x.dtype != np.float64 or not np.fmax.reduce(x, axis=None, initial=0) > 2:
        return y
    is_far = x > 2
    far = np.minimum(x[is_far], 30.0)
    short = far.astype(np.float32).astype(np.float64)  # the square of `short` is exact
    power = np.exp(-short * short) * np.exp((short - far) * (short + far))
    y = np.asarray(y)
    y[is_far] = power * functions.erfcx(far)
    return y


def digamma(x: Array) -> Array:
    """Return the digamma function psi, and NaN at its poles.

    For negative x, psi(x) is computed as psi(1 - x) - pi cot(pi x), because SciPy loses digits near the poles.
    """
    from scipy import special as functions  # because importing scipy takes long

    if not np.fmin.reduce(x, axis=None, initial=1) <= 0:
        return functions.digamma(x)
    is_negative = x < 0
    r = x - np.round(x)
    y = np.where((r == 0) & (x <= 0), np.nan, functions.digamma(np.where(is_negative, 1 - x, x)))
    return np.where(is_negative, y - np.pi / np.tan(np.pi * r), y).astype(x.dtype)


def polygamma(op: ops.Polygamma, x: Array) -> Array:
    """Return the polygamma function psi_n of order n = `op.order`.

    At a pole the result is NaN if the one-sided limits differ, else infinite. For x >= 0, SciPy computes psi_n by the
    Hurwitz zeta function. For x < 0, SciPy would add a term for each pole between x and 0, so x is reflected:

        psi_n(x) = (-1)^n psi_n(1 - x) - pi^(n+1) D_n(cot pi x)

    Source: Abramowitz and Stegun 6.4.7.
    """
    from scipy import special as functions  # because importing scipy takes long

    n = op.order
    if n == 0:
        return upcasting(digamma)(op, x)

    def values(x: Array) -> Array:
        is_negative = x < 0
        wide = x.astype(np.float64)
        y = functions.polygamma(n, np.where(is_negative, 1 - wide, wide))
        if is_negative.any():
            poles = -cotangents(n, wide)
            # Near a pole, and for orders whose factorial overflows, the term of the cotangent is infinite. Then the
            # other term, which is smaller but may be infinite, too, is omitted.
            reflected = np.where(np.isfinite(poles), poles + (-y if n % 2 else y), poles)
            y = np.where(is_negative, reflected, y)
        is_pole = (x <= 0) & (x == np.floor(x))
        return np.where(is_pole, np.nan if n % 2 == 0 else np.inf, y).astype(x.dtype)

    return in_float32(values)(x)


def cotangents(n: int, x: Array) -> Array:
    """Return pi^(n+1) D_n(cot pi x), where D_n is the polynomial of `derivative_of_cotangent`.

    The distance from x to the nearest pole is computed exactly, so the cotangent is exactly 0 at its zeros.
    """
    r = x - np.round(x)
    near, missing = np.abs(r), 0.5 - np.abs(r)
    is_near = near <= missing
    angle = np.pi * np.where(is_near, near, missing)
    sine, cosine = np.sin(angle), np.cos(angle)
    cotangent = np.copysign(np.where(is_near, cosine / sine, sine / cosine), r)
    # Coefficients that overflow are infinite. Where the cotangent is 0, only the constant coefficient is used below.
    coefficients = [
        float(c) if c.bit_length() < 1024 else (-np.inf if c < 0 else np.inf)
        for c in derivative_of_cotangent(n)
    ]
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * cotangent + coefficient
    return np.where(cotangent == 0, coefficients[0], total) * np.pi ** (n + 1)


UFUNCS: KernelRows = {card: upcasting(getattr(np, card.ufunc)) for card in ops.CARDS if card.ufunc}
"""Kernels of the ops whose class names a NumPy ufunc."""
ROWS: KernelRows = {
    ops.Expm1: special("expm1", np.expm1),
    ops.Log1p: upcasting(log1p, np.log1p),
    ops.Rsqrt: upcasting(rsqrt),
    ops.Tanh: upcasting(tanh, np.tanh),
    ops.Logistic: upcasting(logistic),
    ops.Erf: special("erf"),
    ops.Erfc: upcasting(erfc),
    ops.ErfInv: upcasting(erfinv),
    ops.Lgamma: upcasting(lgamma),
    ops.Digamma: upcasting(digamma),
    ops.Polygamma: Kernel(polygamma, elementwise=True),
}
