"""Special functions: their definitions in mpmath, the points at which they are tested, and bounds of errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np
import scipy.special as sc

__all__ = [
    "AT_ENDS",
    "CALLS",
    "FRACTION",
    "OF_SCIPY",
    "OTHER",
    "SHAPE",
    "SLOPES_AT_ENDS",
    "Definition",
    "digits",
]

digits = mpmath.mp.clone()
digits.dps = 50
mp = digits
RNG = np.random.default_rng(5)


def spread(low: float, high: float, count: int) -> np.ndarray:
    """Return random positive numbers. Their logarithms are uniform between `low` and `high`, the exponents of ten."""
    return 10.0 ** RNG.uniform(low, high, count)


class Definition(NamedTuple):
    """A function of mpmath numbers, the points at which it is tested, and the allowed error in ulps.

    Args:
        smooth: the number of points, counted from the first, at which mpmath can compute two derivatives of the
            definition.
    """

    definition: Callable[..., Any]
    points: tuple[np.ndarray, ...]
    ulps: Any
    smooth: int = 12


WHOLE = np.arange(1.0, 20.0)
POSITIVE = np.concatenate(
    [spread(-3, 1.5, 30), [0.5, 1, 1.5, 2, 3, 19, 20, 33.3], spread(-30, -3, 10)]
)
REAL = np.concatenate(
    [[0.5, -0.5, 3, -3, 7.9, 8.1, -20, 50, 1e-3, 1e-8, 12, -12.5], np.linspace(-80, 80, 31)]
)
NORMAL = np.concatenate(
    [
        [1e-5, 0.5, -0.5, 1, -1, 3, -3, -9.9, -10.1, -11, 6, -6],
        np.linspace(-11, 11, 23),
        [-12.7, -19.3, -32.2, -35.45165863246384, -36.99999999999999, 12.462794, 27.7, 36.43375],
    ]
)
SHARE = np.concatenate(
    [[0.5, 0.1, 0.13, 0.14, 0.25, 0.75, 0.9, 0.99, 1e-3, 1e-5, 0.3, 0.6], spread(-30, -5, 10)]
)
PAIR = (spread(-4, 1.5, 40), spread(-4, 1.5, 40))
SIZES = (spread(-9, 9, 40), spread(-9, 9, 40))
CLOSE = (SIZES[0], np.where(np.arange(40) % 2, SIZES[0] * RNG.uniform(0.8, 1.3, 40), SIZES[1]))


def log_beta(a: Any, b: Any) -> Any:
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def log_ndtr(x: Any) -> Any:
    return mp.log(mp.ncdf(x)) if x < 0 else mp.log1p(-mp.ncdf(-x))


def logarithmic(a: Any, b: Any, y: Any) -> float:
    return 8 * (1 + abs(float(mp.log(y)))) if a + b >= 10 else 16


SHAPE = np.array([0.3, 2.5, 0.9, 7.0, 30.0, 1.0, 0.01, 95.0])
ARGUMENT = np.array([0.2, 4.0, 1.7, 3.0, 33.0, 1.0, 0.3, 80.0])
OTHER = np.array([1.5, 0.4, 3.0, 7.0, 12.0, 1.0, 0.05, 60.0])
FRACTION = np.array([0.3, 0.8, 0.1, 0.5, 0.75, 0.25, 0.6, 0.5])
CURVED = np.array([0.05, 0.4, 1.3, 2.6, 5.5, 9.0, 17.0])
BOTH = np.concatenate([CURVED, -CURVED])


def sized(y: Any) -> float:
    return 64 * max(1.0, 1 / abs(float(y)))


def owens_t(h: Any, a: Any) -> Any:
    def density(t: Any) -> Any:
        return mp.exp(-h * h * (1 + t * t) / 2) / (2 * mp.pi * (1 + t * t))

    return mp.quad(density, [0, a])


def spherical(of: Any) -> Definition:
    """Return the definition of a spherical Bessel function, for the Bessel function f (`of`).

    The definition is sqrt(pi / (2 z)) f_(n + 1/2)(z).
    """
    orders = np.array([0.0, 1, 2, 3, 5, 0, 1, 2, 7])
    points = (orders, np.append(CURVED, [1e-9, 40.0]))
    return Definition(
        lambda n, z: mp.sqrt(mp.pi / 2 / z) * of(n + 0.5, z), points, lambda n, z, y: sized(y), 0
    )


OF_SCIPY = {
    "gammainc": Definition(lambda a, x: mp.gammainc(a, 0, x, regularized=True), (SHAPE, ARGUMENT), 12, 5),
    "gammaincc": Definition(lambda a, x: mp.gammainc(a, x, regularized=True), (SHAPE, ARGUMENT), 12, 5),
    "gammaincinv": Definition(lambda a, p: mp.findroot(lambda x: mp.gammainc(a, 0, x, regularized=True) - p, float(sc.gammaincinv(float(a), float(p))), tol=1e-60, verify=False), (SHAPE[:5], FRACTION[:5]), 256, 0),
    "gammainccinv": Definition(lambda a, p: mp.findroot(lambda x: mp.gammainc(a, x, regularized=True) - p, float(sc.gammainccinv(float(a), float(p))), tol=1e-60, verify=False), (SHAPE[:5], FRACTION[:5]), 256, 0),
    "betainc": Definition(lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True), (SHAPE, OTHER, FRACTION), 64, 1),
    "betaincc": Definition(lambda a, b, x: mp.betainc(a, b, x, 1, regularized=True), (SHAPE, OTHER, FRACTION), 64, 1),
    "betaincinv": Definition(lambda a, b, p: mp.re(mp.findroot(lambda x: mp.betainc(a, b, 0, x, regularized=True) - p, float(sc.betaincinv(float(a), float(b), float(p))), tol=1e-60, verify=False)), (SHAPE[:5], OTHER[:5], FRACTION[:5]), 256, 0),
    "betainccinv": Definition(lambda a, b, p: mp.re(mp.findroot(lambda x: mp.betainc(a, b, x, 1, regularized=True) - p, float(sc.betainccinv(float(a), float(b), float(p))), tol=1e-60, verify=False)), (SHAPE[:5], OTHER[:5], FRACTION[:5]), 256, 0),
    "exp1": Definition(mp.e1, (np.append(CURVED, [1e-9, 60.0]),), 64, 7),
    "expi": Definition(mp.ei, (np.append(BOTH, [44.0, 46.0, 1e-9, -30.0]),), lambda x, y: sized(y), 14),
    "erfcx": Definition(lambda x: mp.exp(x * x) * mp.erfc(x), (np.append(BOTH[:11], [30.0, 1e3]),), 16, 11),
    "erfi": Definition(mp.erfi, (BOTH[:11],), 16, 11),
    "dawsn": Definition(lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), (BOTH,), 16, 3),
    "spence": Definition(lambda x: mp.polylog(2, 1 - x).real, (np.append(CURVED, [0.97, 1.03]),), lambda x, y: sized(y), 9),
    "lambertw": Definition(lambda x: mp.lambertw(x).real, (np.append(CURVED, [-0.2, -0.35]),), 16, 9),
    "owens_t": Definition(owens_t, (np.append(CURVED[:4], [-0.7]), np.array([0.5, 2, 0.9, -1.5, 0.7])), 64, 1),
    "poch": Definition(mp.rf, (CURVED[:5], OTHER[:5]), 16, 5),
    "hyp1f1": Definition(mp.hyp1f1, (CURVED[:5], OTHER[:5], BOTH[5:10]), 4096, 3),
    "hyp2f1": Definition(mp.hyp2f1, (CURVED[:4], OTHER[:4], CURVED[:4] + 0.5, np.array([0.7, -4.0, 0.2, -0.6])), 4096, 1),
    "jv": Definition(mp.besselj, (SHAPE[:6], ARGUMENT[:6]), lambda v, x, y: sized(y), 0),
    "yv": Definition(mp.bessely, (SHAPE[:6], ARGUMENT[:6]), lambda v, x, y: sized(y), 0),
    "iv": Definition(mp.besseli, (SHAPE[:6], ARGUMENT[:6]), 256, 0),
    "ive": Definition(lambda v, x: mp.exp(-x) * mp.besseli(v, x), (SHAPE[:6], ARGUMENT[:6]), 256, 0),
    "kv": Definition(mp.besselk, (SHAPE[:6], ARGUMENT[:6]), 256, 1),
    "kve": Definition(lambda v, x: mp.exp(x) * mp.besselk(v, x), (SHAPE[:6], ARGUMENT[:6]), 256, 1),
    **{f"spherical_{letter}n": spherical(of) for letter, of in {"j": mp.besselj, "y": mp.bessely, "i": mp.besseli, "k": mp.besselk}.items()},
    "j0": Definition(lambda x: mp.besselj(0, x), (BOTH,), lambda x, y: sized(y), 7),
    "j1": Definition(lambda x: mp.besselj(1, x), (BOTH,), lambda x, y: sized(y), 7),
    "y0": Definition(lambda x: mp.bessely(0, x), (CURVED,), lambda x, y: sized(y), 7),
    "y1": Definition(lambda x: mp.bessely(1, x), (CURVED,), lambda x, y: sized(y), 7),
    "k0": Definition(lambda x: mp.besselk(0, x), (CURVED,), 64, 1),
    "k1": Definition(lambda x: mp.besselk(1, x), (CURVED,), 64, 1),
    "k0e": Definition(lambda x: mp.exp(x) * mp.besselk(0, x), (CURVED,), 64, 1),
    "k1e": Definition(lambda x: mp.exp(x) * mp.besselk(1, x), (CURVED,), 64, 1),
}  # fmt: skip
"""Definitions of the functions in the table of `tenferro.special.functions`."""

CALLS = {
    "gamma": Definition(mp.gamma, (np.concatenate([POSITIVE, -POSITIVE[:20] + 0.01, WHOLE]),), 8),
    "gammaln": Definition(mp.loggamma, (POSITIVE[:38],), 16),
    "loggamma": Definition(mp.loggamma, (POSITIVE[:38],), 16),
    "digamma": Definition(mp.digamma, (POSITIVE,), 16),
    "beta": Definition(mp.beta, PAIR, logarithmic, 4),
    "betaln": Definition(log_beta, PAIR, lambda a, b, y: 16 * max(1, 1 / abs(float(y))), 6),
    "factorial": Definition(mp.factorial, (np.concatenate([WHOLE - 1, [0.5, 22, 30, 33]]),), 8),
    "comb": Definition(mp.binomial, (np.array([5.0, 30, 20, 31, 7.5]), np.array([2.0, 11, 20, 1, 2.25])), 16, 0),
    "zeta": Definition(
        mp.zeta, (np.concatenate([1 + spread(-5, 1.3, 40)]), spread(-1, 1, 40)), lambda x, q, y: 8 + float(x),
        4
    ),
    "i0": Definition(lambda x: mp.besseli(0, x), (REAL,), 8),
    "i1": Definition(lambda x: mp.besseli(1, x), (REAL,), 8),
    "i0e": Definition(lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), (REAL,), 8),
    "i1e": Definition(lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), (REAL,), 8),
    "erf": Definition(mp.erf, (NORMAL,), 4),
    "erfc": Definition(mp.erfc, (NORMAL[NORMAL < 8],), lambda x, y: 4 + 2 * float(x * x)),
    "erfinv": Definition(mp.erfinv, (SHARE,), 8),
    "ndtr": Definition(mp.ncdf, (NORMAL,), 8),
    "log_ndtr": Definition(log_ndtr, (NORMAL,), 8),
    "erfcinv": Definition(lambda x: mp.erfinv(1 - mp.mpf(x)) if x > 1e-20 else mp.findroot(lambda y: mp.log(mp.erfc(y)) - mp.log(x), mp.sqrt(-mp.log(x))), (2 * SHARE[:12],), 16),
    "rgamma": Definition(mp.rgamma, (np.array([0.5, 3.0, 1.2, -0.7, 2.4, 7.3, -3.4, 0.01, 9.0, 12.5, -0.2, 5.5]),), 10),
    "ndtri": Definition(lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), (SHARE,), 16),
    "expit": Definition(lambda x: 1 / (1 + mp.exp(-x)), (REAL,), 4),
    "logit": Definition(lambda p: mp.log(p / (1 - p)), (SHARE,), 4),
    "xlogy": Definition(lambda x, y: x * mp.log(y), SIZES, 2),
    "xlog1py": Definition(lambda x, y: x * mp.log1p(y), SIZES, 2),
    "entr": Definition(lambda x: -x * mp.log(x), SIZES[:1], 2),
    "rel_entr": Definition(lambda p, q: p * mp.log(p / q), CLOSE, 4),
    "kl_div": Definition(
        lambda p, q: p * mp.log(p / q) - p + q,
        CLOSE,
        lambda p, q, y: float(4 * max(p * abs(mp.log(p / q)), p, q) / abs(y)),
    ),
    **OF_SCIPY,
}  # fmt: skip

INF, NAN = np.inf, np.nan
AT_ENDS = {
    "gamma": (
        [0.0, -0.0, INF, -INF, NAN, -1, 200, 1e-310],
        [INF, -INF, INF, NAN, NAN, NAN, INF, INF],
    ),
    "loggamma": ([0.0, INF, -0.5], [INF, INF, NAN]),
    "gammasgn": (
        [0.0, -0.0, INF, -INF, NAN, -1, -0.5, -1.5, 3],
        [1, -1, 1, NAN, NAN, NAN, -1, 1, 1],
    ),
    "factorial": ([-1.0, INF, 171], [0, INF, INF]),
    "i0": ([0.0, INF, -INF, NAN, 1000], [1, INF, INF, NAN, INF]),
    "i1": ([0.0, -0.0, INF, -INF, NAN, -1000], [0, -0.0, INF, -INF, NAN, -INF]),
    "i0e": ([0.0, INF, -INF, NAN], [1, 0, 0, NAN]),
    "i1e": ([0.0, INF, -INF, NAN], [0, 0, -0.0, NAN]),
    "ndtr": ([-INF, INF, NAN], [0, 1, NAN]),
    "log_ndtr": ([-INF, INF, NAN, -1e200], [-INF, -0.0, NAN, -INF]),
    "erfcinv": ([0.0, 2.0, -0.1, 2.1, NAN, 1.0], [INF, -INF, NAN, NAN, NAN, 0]),
    "rgamma": ([0.0, -1.0, -6.0, -300.0, 300.0, NAN], [0, 0, 0, 0, 0, NAN]),
    "ndtri": ([0.0, 1.0, -0.1, 1.1, NAN, 0.5], [-INF, INF, NAN, NAN, NAN, 0]),
    "logit": ([0.0, 1.0, -0.1, 1.1, NAN, 0.5], [-INF, INF, NAN, NAN, NAN, 0]),
    "expit": ([-INF, INF, NAN], [0, 1, NAN]),
    "entr": ([0.0, -1.0, INF, NAN, 1.0], [0, -INF, -INF, NAN, -0.0]),
    "zeta": ([1.0, 0.5, INF, NAN], [INF, NAN, 1, NAN]),
    "j0": ([0.0, INF, -INF, NAN, 1e-310], [1, 0, 0, NAN, 1]),
    "j1": ([0.0, -0.0, INF, NAN, 1e-310], [0, -0.0, 0, NAN, 5e-311]),
    "y0": ([0.0, INF, -1.0, NAN], [-INF, 0, NAN, NAN]),
    "y1": ([0.0, INF, -1.0, NAN], [-INF, 0, NAN, NAN]),
    "k0": ([0.0, INF, -1.0, NAN], [INF, 0, NAN, NAN]),
    "k1e": ([0.0, INF, -1.0, NAN], [INF, 0, NAN, NAN]),
    "erfcx": ([0.0, INF, -INF, NAN], [1, 0, INF, NAN]),
    "dawsn": ([0.0, -0.0, INF, -INF, NAN], [0, -0.0, 0, -0.0, NAN]),
    "exp1": ([0.0, INF, -1.0, NAN], [INF, 0, NAN, NAN]),
    "expi": ([0.0, INF, NAN], [-INF, INF, NAN]),
    "spence": ([0.0, 1.0, INF, -1.0, NAN], [np.pi**2 / 6, 0, -INF, NAN, NAN]),
    "lambertw": ([0.0, -0.0, INF, -1.0, NAN], [0, -0.0, INF, NAN, NAN]),
}
"""SciPy's values at the ends of domains, entered by hand. Each entry has the arguments and then the values."""

SLOPES_AT_ENDS = {
    "i0": ([0.0, INF], [0, INF]),
    "i1": ([0.0, INF, -INF], [0.5, INF, INF]),
    "i0e": ([0.0, INF, -INF], [0, 0, 0]),
    "i1e": ([0.0, INF, -INF], [0.5, 0, 0]),
    "ndtr": ([-INF, INF], [0, 0]),
    "log_ndtr": ([-INF, INF, -1e10], [INF, 0, 1e10]),
    "rgamma": ([0.0, -1.0, -2.0, 300.0], [1, -1, 2, 0]),
    "ndtri": ([0.0, 1.0, 0.5], [INF, INF, np.sqrt(2 * np.pi)]),
    "logit": ([0.0, 1.0, 0.5], [INF, INF, 4]),
    "expit": ([-INF, INF, 0], [0, 0, 0.25]),
    "entr": ([0.0, 1.0], [INF, -1]),
    "gamma": ([1.0, INF], [-np.euler_gamma, INF]),
}
