"""Kernels of the incomplete gamma functions in float64, for arguments at which SciPy's functions lose digits.

These are a above 20 with x far from a. SciPy computes a prefactor times a sum, and the relative error of its prefactor
is proportional to the prefactor's logarithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tenferro.special.gammas import STIRLING

__all__ = ["gammainc", "gammaincc", "poch"]

STIRLING_FROM = 20.0
SERIES_FROM, SERIES_TERMS = 0.2, 26
LARGEST = 2e4
"""Largest a for which these kernels are used. For larger a, SciPy's functions are called."""
TERMS = 1200
BLOCK = 4096
UNIFORM = 2.5
"""Distance of x from the mean, in standard deviations, within which SciPy's expansion is accurate."""
FRACTION_FROM = 0.3
"""Smallest x for which the continued fraction converges within `TERMS` terms."""


def _stirling(a: np.ndarray) -> np.ndarray:
    return np.polyval(STIRLING, 1 / a)


def _split_product(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rounded product x y and its rounding error, by Dekker's algorithm."""

    def halves(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        high = z * 134217729.0
        high = high - (high - z)
        return high, z - high

    product, (a, b), (c, d) = x * y, halves(x), halves(y)
    return product, ((a * c - product) + a * d + b * c) + b * d


def _near_mean(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Compute (x / a)^a e^(a - x) for |x - a| <= 0.2 a.

    The negative exponent is (x - a)^2 / (2 a), computed as a sum of two floats, plus a smaller term.
    """
    away = x - a
    square, rest = _split_product(away, away)
    exponent = square / (2 * a)
    back, off = _split_product(exponent, 2 * a)
    error = ((square - back) - off + rest) / (2 * a)
    part = away / a
    series = np.zeros_like(part)
    for k in range(SERIES_TERMS, 2, -1):
        series = series * part + (-1.0) ** (k + 1) / k
    return np.exp(-exponent) * np.exp(away * part * part * series - error)


def _far(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Compute (x / a)^a e^(a - x) as powers of a root that neither overflows nor underflows."""
    quotient = x / a
    back, off = _split_product(quotient, a)
    error = ((x - back) - off) / quotient
    away = a - x
    rest = (a - (away + x)) + ((away + x) - away - x)
    parts = 2.0 ** np.ceil(np.log2(np.maximum(np.maximum(a, x) / 700, 2)))
    root = np.power(quotient, a / parts) * np.exp(away / parts)
    return np.power(root, parts - 1) * np.exp(error + rest) * root


def _prefactor(special: Any, a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """x^a e^-x / Gamma(a + 1)."""
    result = np.empty_like(a)
    is_small = a < STIRLING_FROM
    p, t = a[is_small], x[is_small]
    half = np.power(t, 0.5 * p) * np.exp(-0.5 * t)
    # For p >= 1, p * gamma(p) is used: the rounding of p + 1 in gamma(p + 1) would cause an error of
    # about p * log(p) ulps.
    factorial = np.where(p < 1, special.gamma(p + 1), p * special.gamma(p))
    result[is_small] = half / factorial * half
    is_near = ~is_small & (np.abs(x - a) <= SERIES_FROM * a)
    is_far = ~is_small & ~is_near
    for mask, power in ((is_near, _near_mean), (is_far, _far)):
        p = a[mask]
        result[mask] = power(p, x[mask]) / (np.sqrt(2 * np.pi * p) * _stirling(p))
    return result


def _lower(special: Any, a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Compute P(a, x) for x <= max(a, 1): `_prefactor` times the sum of x^n / ((a + 1) .. (a + n)) (DLMF 8.11.4)."""
    quotients = []
    total, term = np.zeros_like(a), np.ones_like(a)
    for n in range(1, TERMS):
        factor = x / (a + n)
        term = term * factor
        quotients.append(factor)
        if not (term > 1e-18).any():
            break
    for factor in reversed(quotients):
        total = factor * (1 + total)
    return _prefactor(special, a, x) * (1 + total)


def _upper(special: Any, a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Compute Q(a, x) for x >= max(a, FRACTION_FROM): `_prefactor` times a, over a continued fraction (DLMF 8.9.2).

    The continued fraction is evaluated from its last term to its first.
    """
    count = int(min(TERMS, 40 + 400 / float(np.sqrt(x.min(initial=1e3)))))
    fraction = np.zeros_like(a)
    for n in range(count, 0, -1):
        fraction = n * (n - a) / (x + 2 * n + 1 - a - fraction)
    return _prefactor(special, a, x) * (a / (x + 1 - a - fraction))


def _incomplete(special: Any, is_upper: bool) -> Callable[..., Any]:
    scipys = special.gammaincc if is_upper else special.gammainc

    def kernel(a: np.ndarray, x: np.ndarray) -> Any:
        a, x = np.broadcast_arrays(a, x)
        result = np.array(scipys(a, x))
        is_inside = (a > 0) & (x > 0) & (a < LARGEST) & (x < LARGEST)
        away = np.abs(x - a)
        # Near the mean, SciPy's function is called, because its uniform expansion by Temme is accurate there.
        is_uniform = (a > 20) & (away < np.minimum(0.3 * a, UNIFORM * np.sqrt(np.maximum(a, 1.0))))
        usual = is_inside & ~is_uniform
        is_low = (x < a) & (x > 1.1) if is_upper else x <= np.maximum(a, 1.0)
        is_high = (x >= np.maximum(a, FRACTION_FROM)) if is_upper else ~is_low
        with np.errstate(all="ignore"):
            for tail, mask in ((_lower, is_low), (_upper, is_high)):
                at = np.flatnonzero(usual & mask)
                for block in np.split(at, range(BLOCK, len(at), BLOCK)):
                    values = tail(special, a.flat[block], x.flat[block])
                    is_other = (tail is _lower) == is_upper
                    result.flat[block] = 1 - values if is_other else values
        return result

    return kernel


def gammainc(special: Any) -> Callable[..., Any]:
    """Return the kernel of P(a, x), the lower regularised incomplete gamma function."""
    return _incomplete(special, is_upper=False)


def gammaincc(special: Any) -> Callable[..., Any]:
    """Return the kernel of Q(a, x), the upper regularised incomplete gamma function."""
    return _incomplete(special, is_upper=True)


def poch(special: Any) -> Callable[..., Any]:
    """Return the kernel of (z)_m = Gamma(z + m) / Gamma(z), which corrects for the rounding of z + m.

    If z or z + m is large, SciPy's function is called.
    """

    def kernel(z: np.ndarray, m: np.ndarray) -> Any:
        z, m = np.broadcast_arrays(z, m)
        total = z + m
        is_usual = (z > 0) & (total > 0) & (np.maximum(z, total) < 170) & (m != 0)
        first, last = np.where(is_usual, z, 1.0), np.where(is_usual, total, 1.0)
        other = last - first
        rounding = np.where(is_usual, (first - (last - other)) + (m - other), 0.0)
        quotient = special.gamma(last) / special.gamma(first)
        corrected = quotient * (1 + rounding * special.digamma(last))
        return np.where(is_usual, corrected, special.poch(z, m))

    return kernel
