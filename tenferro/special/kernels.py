"""Kernels in float64 for arguments at which SciPy's functions have errors of a hundred ulps.

The formulas here have errors of a few ulps at these arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "cosine_over", "dawsn", "erfi", "exp_over", "expi", "exponential_series", "hyp1f1", "hyp2f1", "iv", "ive", "jv", "kv", "kve",
    "log_over", "of_half_square", "of_order", "owens_t", "spence", "yv",
]  # fmt: skip

ROOT = 2 / math.sqrt(math.pi)
ERFI_TERMS = 20
EI_TERMS = 38
"""Number of terms of the asymptotic series of Ei for x >= 40.

At x = 40, the next term is 2^-53 times the first term.
"""
CONFLUENT_FAR, CONFLUENT_TERMS = 1e4, 6
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
STEP = 1 / 16
"""Step h of the trapezoidal rule for K_v(x) with x >= 0.25. The error of the rule is e^(-2 pi 1.5 / h)."""


def exponential_series(value: np.ndarray, logarithm: Sequence[np.ndarray]) -> np.ndarray:
    """Return the coefficients of the power series e^L, from the coefficients of L.

    Args:
        value: the value of e^L at 0.
        logarithm: the coefficients of L, from the first power on.
    """
    terms: list[Any] = [value]
    for i in range(1, len(logarithm) + 1):
        terms.append(sum(k * logarithm[k - 1] * terms[i - k] for k in range(1, i + 1)) / i)
    return np.stack(terms)


def _wide(*xs: Any) -> list[np.ndarray]:
    return [np.asarray(x, np.float64) for x in xs]


def _exp_of_square(x: np.ndarray, factor: float) -> np.ndarray:
    """Compute e^(factor x^2), accurately for large x.

    x^2 is split into an exact part of few bits and a small rest. Rounding x^2 itself would cause an error of x^2 ulps.
    """
    short = np.round(np.clip(x, -1e3, 1e3) * 128) / 128
    with np.errstate(over="ignore", invalid="ignore"):
        rest = np.where(np.isfinite(x), (x - short) * (x + short), 0.0)
        return np.exp(factor * short * short) * np.exp(factor * rest)


def _series(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return x, with 0 where |x| >= 1, and sqrt(pi) / 2 erfi(x) / x for these numbers, computed by a power series."""
    near = np.where(np.abs(x) < 1, x, 0.0)
    series = np.zeros_like(near)
    for n in range(ERFI_TERMS, -1, -1):
        series = series * near * near + 1 / (math.factorial(n) * (2 * n + 1))
    return near, series


def dawsn(special: Any) -> Any:
    """Return the kernel of Dawson's integral: e^(-x^2) times the series of erfi for |x| < 1, else SciPy's function.

    Near 0, SciPy's function has errors of a hundred ulps.
    """

    def kernel(x: Any) -> Any:
        (x,) = _wide(x)
        near, series = _series(x)
        return np.where(np.abs(x) < 1, np.exp(-near * near) * near * series, special.dawsn(x))

    return kernel


def hyp1f1(special: Any) -> Any:
    """Return the kernel: SciPy's function or, for large |x|, the asymptotic series (DLMF 13.7.2).

    SciPy's function takes long for large |x|.
    """

    def kernel(a: Any, b: Any, x: Any) -> Any:
        a, b, x = np.broadcast_arrays(*_wide(a, b, x))
        far = np.abs(x) > CONFLUENT_FAR * (1 + np.square(a) + np.square(b))
        far &= ~((b <= 0) & (b == np.round(b)))
        inside = special.hyp1f1(a, b, np.where(far, 0.0, x))
        distance = np.where(far, np.abs(x), 1.0)
        # For x > 0, the function grows like e^x times a factor of either sign, unless the function is a polynomial.
        is_polynomial = (a <= 0) & (a == np.round(a))
        grows = (x > 0) & ~is_polynomial
        sides = np.where(x > 0, -1.0, 1.0)
        series, term = np.ones_like(distance), np.ones_like(distance)
        for k in range(CONFLUENT_TERMS):
            term = term * (a + k) * (a - b + 1 + k) / (k + 1) / distance * sides
            series = series + term
        with np.errstate(all="ignore"):
            flips = np.where(is_polynomial & (x > 0) & (np.round(a) % 2 != 0), -1.0, 1.0)
            decay = (
                flips * special.gamma(b) * special.rgamma(b - a) * np.power(distance, -a) * series
            )
            growth = np.sign(special.gamma(b) * special.rgamma(a)) * np.inf
        return np.where(far, np.where(grows, growth, decay), inside)

    return kernel


def hyp2f1(special: Any) -> Any:
    """Return the kernel: SciPy's function, which is called after Pfaff's transformation if -9 < x < -1 (DLMF 15.8.1).

    The transformed function is also accurate for a = b + 1.
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
    """Return the kernel: the series (DLMF 7.6.2) for |x| < 1, else Dawson's integral times 2 / sqrt(pi) e^(x^2)."""

    def kernel(x: Any) -> Any:
        (x,) = _wide(x)
        near, series = _series(x)
        far = ROOT * _exp_of_square(x, 1.0) * special.dawsn(x)
        far = np.where(np.abs(x) < 27, far, np.copysign(np.inf, x))
        return np.where(np.isnan(x), x, np.where(np.abs(x) < 1, ROOT * near * series, far))

    return kernel


def expi(special: Any) -> Any:
    """Return the kernel: for x >= 40 the asymptotic series e^x / x sum k! / x^k (DLMF 6.12.2), else SciPy's function.

    SciPy's function sums only 20 terms of that series.
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


SMALL, FAR = 1e-8, 1e9
"""Bounds on x.

Below `SMALL`, J and I are (x / 2)^v / Gamma(v + 1). Above `FAR`, two terms of asymptotic series suffice.
"""


def _ends(
    result: np.ndarray, special: Any, v: np.ndarray, x: np.ndarray, is_alternating: bool
) -> np.ndarray:
    """Replace values of J or I for small x, where SciPy's functions lose digits or underflow (DLMF 10.2.2)."""
    whole = np.round(v)
    is_whole = v == whole
    order = np.where(is_whole, np.abs(v), v)
    # For other orders, the first term of the power series does not dominate the sum, and is not used alone.
    is_usual = (order >= 0) | (np.abs(v - whole) > 1e-2) & (x < 1e-12)
    at = (np.abs(x) < SMALL) & is_usual & (is_whole | (x >= 0)) & (np.abs(v) < 1e15)
    odd = (whole[at] % 2 != 0) & is_whole[at]
    with np.errstate(all="ignore"):
        # Multiply powers of |x| and of 1/2, because halving a subnormal x would lose a bit.
        powers = np.power(np.abs(x[at]), order[at]) * np.power(0.5, order[at])
        sizes = powers * special.rgamma(order[at] + 1)
    flips = odd & ((x[at] < 0) ^ (is_alternating & (v[at] < 0)))
    zero_side = odd & (x[at] == 0) & np.signbit(x[at])
    result[at] = np.where(flips | zero_side, -sizes, sizes)
    return result


def _bessel_of_large_argument(v: np.ndarray, x: np.ndarray, shift: float) -> np.ndarray:
    """Compute sqrt(2 / (pi x)) cos(x - (v / 2 + shift) pi), the leading term for large x (DLMF 10.17.3).

    With `shift` 1/4 it approximates J_v(x), and with 3/4 Y_v(x).
    """
    angle = np.pi * np.remainder(0.5 * v + shift, 2.0)
    wave = np.cos(x) * np.cos(angle) + np.sin(x) * np.sin(angle)
    return np.sqrt(2 / np.pi / x) * wave


def _oscillating(special: Any, name: str, shift: float) -> Any:
    def kernel(v: Any, x: Any) -> Any:
        v, x = np.broadcast_arrays(*_wide(v, x))
        result = np.array(getattr(special, name)(v, x))
        if name == "jv":
            _ends(result, special, v, x, is_alternating=True)
        else:
            # For negative half-integer v, Y_v(x) is J_(-v)(x) up to sign. SciPy's function would multiply 0 by
            # infinity.
            is_half = (v < 0) & (v + 0.5 == np.round(v + 0.5)) & (x >= 0) & (x < 1)
            sign = np.where((v + 0.5) % 2 == 0, 1.0, -1.0)[is_half]
            result[is_half] = (
                sign
                * _ends(np.array(special.jv(-v, x)), special, -v, x, is_alternating=True)[is_half]
            )
        far = (np.abs(x) > FAR) & (v * v < np.abs(x) / FAR) & (np.abs(x) < np.inf)
        far &= (x > 0) | ((v == np.round(v)) & (name == "jv"))
        sign = np.where((x < 0) & (v % 2 != 0), -1.0, 1.0)[far]
        result[far] = sign * _bessel_of_large_argument(v[far], np.abs(x[far]), shift)
        is_end = np.isfinite(v) & (
            (x == np.inf) | (x == -np.inf) & (v == np.round(v)) & (name == "jv")
        )
        result[is_end] = 0.0
        return result

    return kernel


def jv(special: Any) -> Any:
    """Return the kernel of J_v(x): SciPy's function, except for small and large arguments."""
    return _oscillating(special, "jv", 0.25)


def yv(special: Any) -> Any:
    """Return the kernel of Y_v(x): SciPy's function, except for large arguments."""
    return _oscillating(special, "yv", 0.75)


def of_order(kernel: Any, order: float, name: str) -> Any:
    """Return the kernel of a function of fixed order.

    It calls SciPy's function `name`, except where x is small or large: there it calls `kernel` with this order.
    """

    def create(special: Any) -> Any:
        general, own = kernel(special), getattr(special, name)

        def compute(x: Any) -> Any:
            (x,) = _wide(x)
            is_end = (np.abs(x) < SMALL) | (np.abs(x) > FAR / 4) | (x > 600)
            return np.where(is_end, general(order, x), own(x))

        return compute

    return create


def iv(special: Any) -> Any:
    """Return the kernel of I_v(x): SciPy's function, except for small, large and infinite arguments."""

    def kernel(v: Any, x: Any) -> Any:
        v, x = np.broadcast_arrays(*_wide(v, x))
        result = _ends(np.array(special.iv(v, x)), special, v, x, is_alternating=False)
        overflows = (x > FAR) & (np.abs(v) < 1e4)
        result[overflows | (x == np.inf) & np.isfinite(v)] = np.inf
        low = (x == -np.inf) & (v == np.round(v)) & np.isfinite(v)
        result[low] = np.where(v[low] % 2 == 0, np.inf, -np.inf)
        return result

    return kernel


def ive(special: Any) -> Any:
    """Return the kernel: e^-|x| times `iv`. Where `iv` overflows or underflows, it is SciPy's less accurate `ive`."""
    unscaled = iv(special)

    def kernel(v: Any, x: Any) -> Any:
        v, x = np.broadcast_arrays(*_wide(v, x))
        with np.errstate(all="ignore"):
            plain = unscaled(v, x)
            is_usual = (np.abs(x) < 600) & (np.abs(plain) > 1e-280) & np.isfinite(plain)
            is_usual |= np.abs(x) < SMALL
            result = np.where(is_usual, plain * np.exp(-np.abs(x)), special.ive(v, x))
            far = (x > FAR) & (v * v < x / FAR)
            # Divide by the factors one by one, because the product 2 pi x would overflow.
            result[far] = np.sqrt(0.5 / np.pi / x[far])
        result[((x == np.inf) | (x == -np.inf) & (v == np.round(v))) & np.isfinite(v)] = 0.0
        return result

    return kernel


def kve(special: Any) -> Any:
    """Return the kernel of e^x K_v(x): SciPy's function, except where it loses digits.

    For 0.25 < x <= 2, SciPy's series cancels, so an integral and the recurrence in the order are used.
    """

    def kernel(v: Any, x: Any) -> Any:
        v, x = np.broadcast_arrays(*_wide(v, x))
        result = np.array(special.kve(v, x))
        result[(x == np.inf) & np.isfinite(v)] = 0.0  # SciPy's function returns NaN there
        far = (x > FAR) & (v * v < x / FAR) & (x < np.inf)
        result[far] = np.sqrt(0.5 * np.pi / x[far])
        is_cancelling = (x > 0.25) & (x <= 2) & (np.abs(v) < 100)
        if is_cancelling.any():
            result[is_cancelling] = _scaled_integral(np.abs(v[is_cancelling]), x[is_cancelling])
        tiny = (x > 0) & (x < SMALL) & (v == 0)
        # SciPy's function overflows for tiny x and v = 0.
        result[tiny] = np.exp(x[tiny]) * (-np.log(0.5 * x[tiny]) - np.euler_gamma)
        return result

    return kernel


def kv(special: Any) -> Any:
    """Return the kernel of K_v(x): SciPy's function, or e^-x times `kve` where this loses digits or underflows."""
    scaled = kve(special)

    def kernel(v: Any, x: Any) -> Any:
        v, x = np.broadcast_arrays(*_wide(v, x))
        is_other = (x > 0.25) & (x <= 2) & (np.abs(v) < 100) | (x > 600)
        is_other |= (x > 0) & (x < SMALL) & (v == 0)
        half = np.exp(-0.5 * np.where(is_other, x, 1.0))
        inside = scaled(v, np.where(is_other, x, 1.0))
        return np.where(is_other, half * inside * half, special.kv(v, x))

    return kernel


def _scaled_integral(v: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Compute e^x K_v(x), by the trapezoidal rule for orders below 1.5 (DLMF 10.32.9).

    The functions of larger orders are computed by the recurrence K_(u+1) = K_(u-1) + 2 u / x K_u.
    """
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


def exp_over(special: Any) -> Any:
    """Return the kernel of e^x / x.

    It multiplies by e^(x/2) twice, because e^x overflows for smaller x than e^x / x.
    """

    def kernel(x: Any) -> Any:
        (x,) = _wide(x)
        with np.errstate(all="ignore"):
            half = np.exp(0.5 * x)
            return np.where(x == np.inf, np.inf, half / x * half)

    return kernel


def cosine_over(special: Any) -> Any:
    """Return the kernel of cos(x) / x, which is 0 at infinity."""

    def kernel(x: Any) -> Any:
        (x,) = _wide(x)
        is_end = np.isinf(x)
        with np.errstate(all="ignore"):
            return np.where(is_end, 0.0, np.cos(np.where(is_end, 0.0, x)) / x)

    return kernel


def log_over(special: Any) -> Any:
    """Return the kernel of log(x) / (1 - x), which uses log1p near 1, and is 0 at infinity."""

    def kernel(x: Any) -> Any:
        (x,) = _wide(x)
        with np.errstate(all="ignore"):
            values = np.where(np.abs(x - 1) < 0.5, np.log1p(x - 1), np.log(x)) / (1 - x)
        return np.where(x == 1, -1.0, np.where(x == np.inf, 0.0, values))

    return kernel


def of_half_square(turn: Any) -> Any:
    """Return the kernel of the sine or cosine of pi x^2 / 2. It reduces x^2 modulo 4, because x^2 may overflow."""

    def create(special: Any) -> Any:
        def kernel(x: Any) -> Any:
            (x,) = _wide(x)
            with np.errstate(invalid="ignore"):
                whole = np.round(x)
                rest = x - whole
                # x^2 - whole^2 = rest (whole + x). The two products are added, because whole + x would overflow.
                return turn(0.5 * np.pi * (np.remainder(whole, 2.0) + rest * whole + rest * x))

        return kernel

    return create


def spence(special: Any) -> Any:
    """Return the kernel: SciPy's function, and -inf at infinity, where SciPy's function is NaN."""
    return lambda x: np.where(x == np.inf, -np.inf, special.spence(x))


def owens_t(special: Any) -> Any:
    """Return the kernel: Gauss-Legendre quadrature where |a| <= 1 and |h a| <= 1, else SciPy's function.

    Where both conditions hold, the integrand varies little, so the quadrature is accurate.
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
