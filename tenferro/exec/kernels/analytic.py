"""Kernels of the analytic family. SciPy is imported on first use, because its import is slow."""

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
    """Return the kernel of a function of scipy.special.

    Args:
        floats: the function for float32 and float64, if it is another.
    """

    def specialize(op: object, dtype: np.dtype[Any]) -> Function:
        from scipy import special as functions  # because importing scipy takes long

        function: Function = getattr(functions, name)
        if dtype in HALF_DTYPES:
            return in_float32(function)
        return function if floats is None or dtype.kind == "c" else floats

    return specialized(specialize, elementwise=True)


def erfinv(x: Array) -> Array:
    """Return SciPy's erfinv with the sign of x: the function is odd, and SciPy's gives 0 for -0."""
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
    """Return NumPy's tanh, except for the imaginary part where the real part of a complex x is infinite.

    There it is 0 with the sign of the imaginary part b of x. C99 and NumPy give it the sign of sin(2 b).
    """
    y: Array = np.tanh(x)
    if x.dtype.kind != "c":
        return y
    far = np.isinf(x.real) & np.isfinite(x.imag)
    return compose(y.real, np.where(far, np.copysign(0, x.imag), y.imag)) if far.any() else y


def erfc(x: Array) -> Array:
    """Return SciPy's erfc, and e^(-x^2) erfcx(x) for float64 above 2.

    x^2 is computed as the sum of two floats, because an error of half an ulp in x^2 is an error of x^2 / 2 ulps in
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
    """Return SciPy's digamma for positive x, psi(1 - x) - pi cot(pi x) for negative x, and NaN at the poles.

    SciPy's digamma loses digits near the poles.
    """
    from scipy import special as functions  # because importing scipy takes long

    if not np.fmin.reduce(x, axis=None, initial=1) <= 0:
        return functions.digamma(x)
    is_negative = x < 0
    r = x - np.round(x)
    y = np.where((r == 0) & (x <= 0), np.nan, functions.digamma(np.where(is_negative, 1 - x, x)))
    return np.where(is_negative, y - np.pi / np.tan(np.pi * r), y).astype(x.dtype)


def polygamma(op: ops.Polygamma, x: Array) -> Array:
    """Return the polygamma function by SciPy's Hurwitz zeta function; NaN at poles where the one-sided limits differ.

    Negative x are reflected, because the zeta function would sum a term for every pole between x and zero:

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
            # Near a pole, and for orders whose factorial overflows, the cotangent term exceeds the others.
            reflected = np.where(np.isfinite(poles), poles + (-y if n % 2 else y), poles)
            y = np.where(is_negative, reflected, y)
        is_pole = (x <= 0) & (x == np.floor(x))
        return np.where(is_pole, np.nan if n % 2 == 0 else np.inf, y).astype(x.dtype)

    return in_float32(values)(x)


def cotangents(n: int, x: Array) -> Array:
    """Return pi^(n+1) D_n(cot pi x). The distance to the nearest pole is exact, and so are the zeros between poles."""
    r = x - np.round(x)
    near, missing = np.abs(r), 0.5 - np.abs(r)
    is_near = near <= missing
    angle = np.pi * np.where(is_near, near, missing)
    sine, cosine = np.sin(angle), np.cos(angle)
    cotangent = np.copysign(np.where(is_near, cosine / sine, sine / cosine), r)
    # Coefficients that overflow are infinite; halfway between poles only the constant one is used.
    coefficients = [
        float(c) if c.bit_length() < 1024 else (-np.inf if c < 0 else np.inf)
        for c in derivative_of_cotangent(n)
    ]
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * cotangent + coefficient
    return np.where(cotangent == 0, coefficients[0], total) * np.pi ** (n + 1)


UFUNCS: KernelRows = {card: upcasting(getattr(np, card.ufunc)) for card in ops.CARDS if card.ufunc}
"""Kernels of the ops that name a ufunc of NumPy."""
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
