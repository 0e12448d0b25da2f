"""Derivatives of Bessel functions in their order, as kernels in float64.

A function is represented by the array c_0, .. c_n of coefficients of its truncated power series in the order, so that
n! c_n is the n-th derivative. With u = v - floor(v), H_u and K_u are computed as

    H_u(x) = 2 / (pi i) e^(-i pi u / 2) e^(i x)  int e^(-x sinh s tanh s) cosh(u t) dt/ds ds,   t = s + i gd(s),   s > 0
    K_u(x) = e^-x  int e^(-2 x sinh(s/2)^2) cosh(u s) ds,   s > 0

by the trapezoidal rule, along the path of steepest descent, where gd is Gudermann's function. Upward recurrence in the
order is stable for H and K. For large x, J is the real part of H. For other x, J and I follow from the Wronskians
and from the continued fraction of f_(v+1) / f_v, whose terms all have one sign.

Source: NIST's DLMF, 10.9.10 and 10.32.9 for the integrals, 10.5.2 and 10.28.2 for the Wronskians, 10.10.1 and 10.33.1
for the continued fractions, 10.17.3 and 10.40.1 for the asymptotic series.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tenferro.special.kernels import exponential_series

__all__ = ["kernel_of"]

Series = np.ndarray
"""Coefficients of power series in the order, as an array whose first axis numbers the coefficients."""

LARGEST_ORDER = 2.0e4
"""Maximum order. It bounds the number of recurrence steps, and derivatives at larger orders are NaN."""
BLOCK = 1024
NODES, STEP = 96, 0.1
"""Minimum number of nodes of the trapezoidal rule, and its maximum step."""
DECAY = 42.0
"""Integrals are truncated where their decaying factor falls to e^-DECAY."""
FRACTION_STEPS = 30
ASYMPTOTIC_TERMS = 40
ASYMPTOTIC_FROM = 60.0
EVEN_TERMS = 16
TINY = 1e-8
"""Bound on an argument below which its square is negligible."""


def _product(first: Series, second: Series) -> Series:
    result = np.zeros(np.broadcast_shapes(first.shape, second.shape), np.result_type(first, second))
    for i in range(len(result)):
        result[i] = sum(first[k] * second[i - k] for k in range(i + 1))
    return result


def _reciprocal(series: Series) -> Series:
    result = np.zeros_like(series)
    result[0] = 1 / series[0]
    for i in range(1, len(series)):
        result[i] = -result[0] * sum(series[k] * result[i - k] for k in range(1, i + 1))
    return result


def _times_order(series: Series, order: np.ndarray) -> Series:
    """Multiply a power series around the order v by the linear series v + t, where t is its variable."""
    result = series * order
    result[1:] += series[:-1]
    return result


def _sine_and_cosine(order: np.ndarray, count: int) -> tuple[Series, Series]:
    """Return the power series of sin and cos of pi (v + t) in t. Zero coefficients at whole and half v are exact."""
    whole = np.round(order)
    flip = np.where(whole % 2 == 0, 1.0, -1.0)
    sine = flip * np.sin(np.pi * (order - whole))
    half = np.abs(order - whole) == 0.5
    cosine = np.where(half, 0.0, flip * np.cos(np.pi * (order - whole)))
    turns = (sine, cosine, -sine, -cosine)
    scale = [math.pi**k / math.factorial(k) for k in range(count + 1)]
    return (
        np.stack([scale[k] * turns[k % 4] for k in range(count + 1)]),
        np.stack([scale[k] * turns[(k + 1) % 4] for k in range(count + 1)]),
    )


def _nodes(end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes of the trapezoidal rule from 0 to `end`, and their weights."""
    count = max(NODES, math.ceil(float(end.max(initial=0.0)) / STEP))
    steps = np.arange(count + 1) / count
    weights = np.where(steps == 0, 0.5, 1.0) * (end[:, None] / count)
    return end[:, None] * steps, weights


def _ends(x: np.ndarray, excess: float) -> np.ndarray:
    """Return the s at which x sinh(s) tanh(s) = DECAY + excess s: there an integral is truncated."""
    end = np.zeros_like(x)
    for _ in range(4):
        level = (DECAY + excess * end) / x
        # For a large level, cosh(s) equals the level, and s is computed as a logarithm, which does not overflow.
        cosine = np.minimum(0.5 * (level + np.sqrt(np.square(np.minimum(level, 1e150)) + 4)), 1e300)
        end = np.where(
            level > 1e100,
            math.log(2) + np.log(np.maximum(level, 1.0)),
            np.arccosh(np.maximum(cosine, 1.0)),
        )
    return end


def _hankel(u: np.ndarray, x: np.ndarray, count: int) -> list[Series]:
    """Return H_u(x) and H_(u+1)(x), for 0 <= u < 1, as series in the order."""
    s, weights = _nodes(_ends(x, 2.0))
    with np.errstate(over="ignore"):
        fall = weights * np.exp(-x[:, None] * np.sinh(s) * np.tanh(s))
        fall = fall * (1 + 1j / np.cosh(s))
    angle = np.arctan(np.sinh(s))
    factor = (2 / math.pi) * (np.sin(x) - 1j * np.cos(x))
    rising, falling = s + 1j * (angle - math.pi / 2), -s - 1j * (angle + math.pi / 2)
    results = []
    for order in (u, u + 1):
        up, down = (0.5 * fall * np.exp(order[:, None] * t) for t in (rising, falling))
        terms = []
        for k in range(count + 1):
            terms.append(factor * np.sum(up + down, axis=1))
            up, down = up * rising / (k + 1), down * falling / (k + 1)
        results.append(np.stack(terms))
    return results


def _macdonald(u: np.ndarray, x: np.ndarray, count: int) -> list[Series]:
    """Return e^x K_u(x) and e^x K_(u+1)(x), for 0 <= u < 1, as series in the order."""
    s, weights = _nodes(_ends(0.5 * x, 2.0))
    with np.errstate(over="ignore"):
        fall = weights * np.exp(-2 * x[:, None] * np.square(np.sinh(0.5 * s)))
    results = []
    for order in (u, u + 1):
        angle = order[:, None] * s
        with np.errstate(over="ignore", invalid="ignore"):
            turns = (np.cosh(angle), np.sinh(angle))
            terms, power = [], fall
            for k in range(count + 1):
                product = np.where(power == 0, 0.0, power * turns[k % 2])
                terms.append(np.sum(product, axis=1))
                power = power * s / (k + 1)
        results.append(np.stack(terms))
    return results


def _raised(
    pair: list[Series], u: np.ndarray, steps: np.ndarray, x: np.ndarray, sign: float
) -> list[Series]:
    """Return f of orders u + steps and u + steps + 1, by the recurrence f_(v+1) = 2 v / x f_v + sign f_(v-1)."""
    lower, upper = pair
    low, high = lower.copy(), upper.copy()
    order = np.argsort(-steps, kind="stable")
    counts = steps[order]
    active = len(order)
    for k in range(1, int(steps.max(initial=0)) + 1):
        while active and counts[active - 1] < k:
            active -= 1
        at = order[:active]
        next_one = 2 * _times_order(high[:, at], u[at] + k) / x[at] + sign * low[:, at]
        low[:, at], high[:, at] = high[:, at], next_one
    return [low, high]


def _ratio(v: np.ndarray, x: np.ndarray, count: int, sign: float) -> Series:
    """Return f_(v+1) / f_v as a series in the order; f is J if `sign` is -1, and I if it is 1.

    The continued fraction of the ratio is evaluated from its last term to its first.
    """
    spread = np.sqrt(36.0 * x) if sign > 0 else 8.0 * np.cbrt(np.maximum(x, 1.0))
    steps = (FRACTION_STEPS + spread).astype(np.int64)
    ratio = np.zeros((count + 1, len(v)))
    order = np.argsort(-steps, kind="stable")
    counts = steps[order]
    active = 0
    for k in range(int(steps.max(initial=0)), 0, -1):
        while active < len(order) and counts[active] >= k:
            active += 1
        at = order[:active]
        slope = sign * ratio[:, at]
        slope[0] += 2 * (v[at] + k) / x[at]
        if count:
            slope[1] += 2 / x[at]
        ratio[:, at] = _reciprocal(slope)
    return ratio


def _asymptotic(v: np.ndarray, x: np.ndarray, count: int) -> Series:
    """Return e^-x I_v(x) sqrt(2 pi x), the sum of (-1)^k a_k(v) / x^k, as a series in the order."""
    term = np.zeros((count + 1, len(v)))
    term[0] = 1
    total = term.copy()
    for k in range(1, ASYMPTOTIC_TERMS):
        odd = (k - 0.5) ** 2
        term = (_times_order(_times_order(term, v), v) - odd * term) / (-2.0 * k * x)
        total += term
    return total


def _leading(special: Any, v: np.ndarray, x: np.ndarray, count: int) -> Series:
    """Return (x / 2)^v / Gamma(v + 1) as a series in v.

    The derivatives of the logarithm of Gamma are polygamma functions.
    """
    logarithm = [-special.polygamma(k - 1, v + 1) / math.factorial(k) for k in range(1, count + 1)]
    if count:
        logarithm[0] = np.log(0.5 * x) + logarithm[0]
    return exponential_series(np.power(0.5 * x, v) * special.rgamma(v + 1), logarithm)


def _bessel(special: Any, name: str, v: np.ndarray, x: np.ndarray, count: int) -> Series:
    """Return J, Y, e^-x I or e^x K as a series in the order v, at v >= 0 and finite x > 0."""
    steps = np.floor(v)
    u = v - steps
    with np.errstate(all="ignore"):
        if name in "JY":
            lower, upper = _raised(_hankel(u, x, count), u, steps, x, -1.0)
            if name == "Y":
                return np.imag(lower)
            result = np.real(lower).copy()
            tiny = x < TINY
            result[:, tiny] = _leading(special, v[tiny], x[tiny], count)
            near = (x <= np.maximum(v, 1.0)) & ~tiny
            if near.any():
                ratio = _ratio(v[near], x[near], count, -1.0)
                base = _product(ratio, np.imag(lower)[:, near]) - np.imag(upper)[:, near]
                inside = (2 / math.pi) * _reciprocal(base * x[near])
                result[:, near] = np.where(np.isfinite(inside), inside, 0.0)
            return result
        if name == "K":
            return _raised(_macdonald(u, x, count), u, steps, x, 1.0)[0]
        far = (x >= ASYMPTOTIC_FROM) & (v * v <= 4 * x)
        result = np.empty((count + 1, len(v)))
        tiny = x < TINY
        result[:, tiny] = _leading(special, v[tiny], x[tiny], count) * np.exp(-x[tiny])
        result[:, far] = _asymptotic(v[far], x[far], count) / np.sqrt(2 * math.pi * x[far])
        near = ~far & ~tiny
        lower, upper = _raised(
            _macdonald(u[near], x[near], count), u[near], steps[near], x[near], 1.0
        )
        base = upper + _product(_ratio(v[near], x[near], count, 1.0), lower)
        inside = _reciprocal(base * x[near])
        result[:, near] = np.where(np.isfinite(inside), inside, 0.0)
        central = ~tiny & ((v == 0) | ((v < 0.25) & near & (x >= 1)))
        if central.any():
            result[:, central] = _by_parts(v[central], x[central], count)
        return result


def _by_parts(v: np.ndarray, x: np.ndarray, count: int) -> Series:
    """Return e^-x I_v(x) as a series in the order, for small v.

    The part of I_v that is an even function of v is computed from its series at v = 0. The odd part is
    -sin(pi v) K_v / pi.
    """
    total = count + EVEN_TERMS
    pair = _macdonald(np.zeros_like(x), x, total)
    base = pair[1] + _product(_ratio(np.zeros_like(x), x, total, 1.0), pair[0])
    even = _reciprocal(base * x)
    even[1::2] = 0
    shifted = np.stack([
        sum(even[m] * math.comb(m, j) * v ** (m - j) for m in range(j, total + 1))
        for j in range(count + 1)
    ])  # fmt: skip
    odd = _product(_sine_and_cosine(v, count)[0], _macdonald(v, x, count)[0])
    return shifted - odd * (np.exp(-2 * x) / math.pi)


def _reflected(special: Any, name: str, w: np.ndarray, x: np.ndarray, count: int) -> Series:
    """Return a function as a series in v at v = -w < 0, for finite x > 0, by reflection formulas."""
    value = _bessel(special, name, w, x, count)
    with np.errstate(all="ignore"):
        if name in "JY":
            sine, cosine = _sine_and_cosine(w, count)
            other = _bessel(special, "Y" if name == "J" else "J", w, x, count)
            sign = -1.0 if name == "J" else 1.0
            value = _finite_product(cosine, value) + sign * _finite_product(sine, other)
        elif name == "I":
            sine, _ = _sine_and_cosine(w, count)
            other = _bessel(special, "K", w, x, count) * (2 / math.pi * np.exp(-2 * x))
            value = value + _finite_product(sine, other)
    value[1::2] *= -1
    return value


def _finite_product(first: Series, second: Series) -> Series:
    """Multiply two series, of which the second may be infinite. 0 times infinity counts as 0, not NaN."""
    result = np.zeros_like(second)
    for i in range(len(result)):
        for k in range(i + 1):
            result[i] += np.where(first[k] == 0, 0.0, first[k] * second[i - k])
    return result


def _at_zero(name: str, n: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the limits of the n-th derivatives in the order v at x = 0; for v = 0, the limit of log(x / 2)^n."""
    if name in "JI":
        pole = np.where(n % 2 == 1, -math.inf, math.inf)
        return np.where(v > 0, 0.0, np.where(v == 0, pole, math.nan))
    return np.full_like(v, math.nan)


def kernel_of(name: str, scale: float = 0.0) -> Callable[[Any], Callable[..., Any]]:
    """Return the kernel of the n-th derivative in v of J, Y, I or K. I and K are multiplied by e^(scale x)."""

    def kernel(special: Any, n: np.ndarray, v: np.ndarray, x: np.ndarray) -> Any:
        shape = n.shape
        n, v, x = (each.ravel() for each in (n, v, x))
        is_order = (n >= 0) & (n == np.floor(n)) & (n < 64) & (np.abs(v) < LARGEST_ORDER)
        is_far = x > 1e7
        is_far &= v * v > 4 * x if name == "I" else False
        result = np.where(is_order & (x == 0), _at_zero(name, n, v), math.nan)
        if name != "I" or scale < 0:
            result[is_order & (x == math.inf)] = 0.0
        inside = np.flatnonzero(is_order & (x > 0) & (x < math.inf) & ~is_far)
        # Elements are computed in blocks with similar x and v. Elements with similar x need similar numbers of nodes,
        # and elements with similar v need similar numbers of recurrence steps.
        inside = inside[np.lexsort((np.abs(v[inside]), np.round(np.log(x[inside]) / 3)))]
        for start in range(0, len(inside), BLOCK):
            at = inside[start : start + BLOCK]
            for negative in (False, True):
                part = at[(v[at] < 0) == negative]
                if len(part):
                    result[part] = _derivatives(special, name, scale, n[part], v[part], x[part])
        return result.reshape(shape)

    return lambda special: partial(kernel, special)


def _derivatives(
    special: Any, name: str, scale: float, n: np.ndarray, v: np.ndarray, x: np.ndarray
) -> np.ndarray:
    count = int(n.max())
    series = (
        _reflected(special, name, -v, x, count) if v[0] < 0 else _bessel(special, name, v, x, count)
    )
    which = n.astype(np.int64)
    factor = np.array([float(math.factorial(k)) for k in range(count + 1)])[which]
    result = series[which, np.arange(len(v))] * factor
    natural = {"I": -1.0, "K": 1.0}.get(name, 0.0)
    if natural != scale:
        with np.errstate(over="ignore"):
            half = np.exp(0.5 * (scale - natural) * x)
            result = np.where(result == 0, 0.0, result * half * half)
    return result
