"""Kernels in float64, for arguments where SciPy's function has errors of a hundred ulps and a simple formula has
few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["dawsn", "erfi", "expi", "exponential_series", "hyp2f1", "ive", "kv", "kve", "owens_t"]

ROOT = 2 / math.sqrt(math.pi)
ERFI_TERMS = 20
EI_TERMS = 38
"""Number of terms of the asymptotic series for x >= 40; there the next term is 2^-53 times the first."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
STEP = 1 / 16
"""Step h of the trapezoidal rule for K_v(x), x >= 0.25; its error is e^(-2 pi 1.5 / h)."""


def exponential_series(value: np.ndarray, logarithm: Sequence[np.ndarray]) -> np.ndarray:
    """Return the coefficients of a power series whose logarithm has these coefficients, first power first.

    Args:
        value: the power series at 0.
    """
    terms: list[Any] = [value]
    for i in range(1, len(logarithm) + 1):
        terms.append(sum(k * logarithm[k - 1] * terms[i - k] for k in range(1, i + 1)) / i)
    return np.stack(terms)


def _wide(*xs: Any) -> list[np.ndarray]:
    return [np.asarray(x, np.float64) for x in xs]


def _exp_of_square(x: np.ndarray, factor: float) -> np.ndarray:
    """e^(factor x^2), accurate for large x.

    x^2 is split into a part of few bits and a rest, because its rounding would cause an error of x^2 units.
    """
    short = np.round(np.clip(x, -1e3, 1e3) * 128) / 128
    with np.errstate(over="ignore", invalid="ignore"):
        rest = np.where(np.isfinite(x), (x - short) * (x + short), 0.0)
        return np.exp(factor * short * short) * np.exp(factor * rest)


def _series(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return x where |x| < 1, else 0; and sqrt(pi) / 2 erfi(x) / x for these values."""
    near = np.where(np.abs(x) < 1, x, 0.0)
    series = np.zeros_like(near)
    for n in range(ERFI_TERMS, -1, -1):
        series = series * near * near + 1 / (math.factorial(n) * (2 * n + 1))
    return near, series


def dawsn(special: Any) -> Any:
    """Return Dawson's integral; near 0, where SciPy has errors of a hundred ulps, by the series of erfi.

    The series is multiplied by e^(-x^2).
    """

    def kernel(x: Any) -> Any:
        (x,) = _wide(x)
        near, series = _series(x)
        return np.where(np.abs(x) < 1, np.exp(-near * near) * near * series, special.dawsn(x))

    return kernel


def hyp2f1(special: Any) -> Any:
    """Return SciPy's function, for -9 < x < -1 after Pfaff's transformation (DLMF 15.8.1).

    The transformation is accurate also for a = b + 1.
    """

    def kernel(a: Any, b: Any, c: Any, x: Any) -> Any:
        a, b, c, x = np.broadcast_arrays(*_wide(a, b, c, x))
        is_between = (x > -9) & (x < -1)
        inner = np.where(is_between, x, 0.0)
        power = np.power(1 - inner, -a)
        pfaff = power * special.hyp2f1(a, c - b, c, inner / (inner - 1))
        return np.where(is_between, pfaff, special.hyp2f1(a, b, c, x))

    return kernel


def erfi(special: Any) -> Any:
    """Return erfi: near 0 by its series (DLMF 7.6.2), elsewhere as Dawson's integral times 2 / sqrt(pi) e^(x^2)."""

    def kernel(x: Any) -> Any:
        (x,) = _wide(x)
        near, series = _series(x)
        far = ROOT * _exp_of_square(x, 1.0) * special.dawsn(x)
        far = np.where(np.abs(x) < 27, far, np.copysign(np.inf, x))
        return np.where(np.isnan(x), x, np.where(np.abs(x) < 1, ROOT * near * series, far))

    return kernel


def expi(special: Any) -> Any:
    """Return Ei(x), for x >= 40 by the asymptotic series e^x / x sum k! / x^k (DLMF 6.12.2).

    SciPy sums only 20 terms of it.
    """

    def kernel(x: Any) -> Any:
        (x,) = _wide(x)
        far = np.where((x >= 40) & (x < 720), x, 40.0)
        series = np.ones_like(far)
        for k in range(EI_TERMS, 0, -1):
            series = 1 + series * (k / far)
        half = np.exp(far / 2)
        with np.errstate(over="ignore"):
            return np.where((x >= 40) & (x < 720), half * (series / far) * half, special.expi(x))

    return kernel


def ive(special: Any) -> Any:
    """Return e^-|x| times SciPy's `iv`, which is more accurate than its `ive`, unless `iv` overflows or underflows."""

    def kernel(v: Any, x: Any) -> Any:
        v, x = _wide(v, x)
        with np.errstate(over="ignore", invalid="ignore"):
            plain = special.iv(v, x)
            is_usual = (np.abs(x) < 600) & (np.abs(plain) > 1e-280) & np.isfinite(plain)
            return np.where(is_usual, plain * np.exp(-np.abs(x)), special.ive(v, x))

    return kernel


def kve(special: Any) -> Any:
    """Return SciPy's function, corrected for 0.25 < x <= 2, where its series cancels.

    There the integral and the recurrence in the order are used.
    """

    def kernel(v: Any, x: Any) -> Any:
        v, x = np.broadcast_arrays(*_wide(v, x))
        result = np.array(special.kve(v, x))
        result[(x == np.inf) & np.isfinite(v)] = 0.0  # SciPy's functions return NaN
        is_cancelling = (x > 0.25) & (x <= 2) & (np.abs(v) < 100)
        if is_cancelling.any():
            result[is_cancelling] = _scaled_integral(np.abs(v[is_cancelling]), x[is_cancelling])
        return result

    return kernel


def kv(special: Any) -> Any:
    """Return SciPy's function; where its series cancels, e^-x times `kve`."""
    scaled = kve(special)

    def kernel(v: Any, x: Any) -> Any:
        v, x = np.broadcast_arrays(*_wide(v, x))
        is_cancelling = (x > 0.25) & (x <= 2) & (np.abs(v) < 100)
        inside = np.where(is_cancelling, x, 1.0)
        return np.where(is_cancelling, np.exp(-inside) * scaled(v, inside), special.kv(v, x))

    return kernel


def _scaled_integral(v: np.ndarray, x: np.ndarray) -> np.ndarray:
    """e^x K_v(x): by the trapezoidal rule for orders below 1.5 (DLMF 10.32.9), then K_(u+1) = K_(u-1) + 2 u / x K_u."""
    count = np.round(v)
    rest = v - count
    t = STEP * np.arange(0, math.ceil(math.acosh(1 + 45 / 0.25) / STEP) + 1)
    weights = np.where(t == 0, STEP / 2, STEP)
    fall = weights * np.exp(-2 * x[:, None] * np.square(np.sinh(t / 2)))
    lower, upper = (np.sum(fall * np.cosh(u[:, None] * t), axis=1) for u in (rest, rest + 1))
    result = np.where(count == 0, lower, upper)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(1, int(count.max(initial=0))):
            lower, upper = upper, lower + 2 * (rest + k) / x * upper
            result = np.where(count > k, upper, result)
    return result


def owens_t(special: Any) -> Any:
    """Return SciPy's function, and Gauss-Legendre quadrature where |a| <= 1 and |h a| <= 1.

    There the integrand varies little.
    """

    def kernel(h: Any, a: Any) -> Any:
        h, a = np.broadcast_arrays(*_wide(h, a))
        is_flat = (np.abs(a) <= 1) & (np.abs(a) * np.abs(h) <= 1)
        height, width = np.where(is_flat, h, 0.0), np.where(is_flat, a, 0.0)
        mean = np.zeros_like(width)
        for node, weight in zip((1 + NODES) / 2, WEIGHTS / 2, strict=True):
            t = node * width
            mean += weight * np.exp(-0.5 * np.square(height * t)) / (1 + t * t)
        flat = width / (2 * math.pi) * (_exp_of_square(height, -0.5) * mean)
        return np.where(is_flat, flat, special.owens_t(h, a))

    return kernel
