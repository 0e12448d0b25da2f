"""Continuous distributions, one record per distribution.

Source: scipy.stats for parameters and densities; NIST's DLMF, chapters 7 and 8, for distribution functions.
"""

from __future__ import annotations

import math
from typing import Any

from tenferro.api.elementwise import (
    abs,
    add,
    atan2,
    divide,
    equal,
    exp,
    expm1,
    greater,
    greater_equal,
    hypot,
    less,
    less_equal,
    lgamma,
    log,
    log1p,
    logical_and,
    logical_or,
    multiply,
    negative,
    pow,
    sin,
    sqrt,
    square,
    subtract,
    tan,
    where,
)
from tenferro.api.logarithms import logaddexp
from tenferro.special import (
    betainc,
    betaincc,
    betainccinv,
    betaincinv,
    betaln,
    expit,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    i0e,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    stdtr,
    stdtrit,
    xlog1py,
    xlogy,
)
from tenferro.stats.distribution import Continuous, positive

__all__ = ["CONTINUOUS"]

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def _size(z: Any) -> Any:
    """Compute |z|. The derivative at 0 is 1, so that smooth functions of |z| have the right derivatives at 0."""
    return where(less(z, 0.0), negative(z), z)


def _one_side(lower: Any) -> Any:
    """Return the distribution function of a distribution that is symmetric about 0.

    `lower` is a function of |z| that computes the probability of values below -|z|.
    """

    def cdf(z: Any, *shapes: Any) -> Any:
        tail = lower(_size(z), *shapes)
        return where(less(z, 0.0), tail, subtract(1.0, tail))

    return cdf


def _two_sides(lower: Any) -> Any:
    """Return the quantile function of a distribution that is symmetric about 0; `lower` computes it for q <= 1/2."""

    def ppf(q: Any, *shapes: Any) -> Any:
        is_low = less(q, 0.5)
        z = lower(where(is_low, q, subtract(1.0, q)), *shapes)
        return where(is_low, z, negative(z))

    return ppf


def _log_difference(larger: Any, smaller: Any) -> Any:
    """Compute log(e^larger - e^smaller); the result is -inf where both are equal."""
    is_alone, is_empty = equal(smaller, -math.inf), equal(smaller, larger)
    safe = where(logical_or(is_alone, is_empty), -1.0, subtract(smaller, larger))
    is_close = greater(safe, -0.7)
    close, far = log(negative(expm1(where(is_close, safe, -1.0)))), log1p(negative(exp(safe)))
    both = where(is_empty, -math.inf, add(larger, where(is_close, close, far)))
    return where(is_alone, larger, both)


def _log_below(x: Any) -> Any:
    """Compute log_ndtr(x), with derivative 0 at x = -inf."""
    is_end = equal(x, -math.inf)
    return where(is_end, -math.inf, log_ndtr(where(is_end, -1.0, x)))


def _log_mass(a: Any, b: Any) -> Any:
    """Compute the logarithm of the probability that a standard normal number is in [a, b].

    If a and b are in the same tail, logarithms of the tail's probability are subtracted without underflow.
    """
    is_upper = greater(a, 0.0)
    low, high = where(is_upper, negative(b), a), where(is_upper, negative(a), b)
    is_one_sided = less(high, 0.0)
    below = where(is_one_sided, high, 0.0)
    one_sided = _log_difference(_log_below(below), _log_below(where(is_one_sided, low, -1.0)))
    outside = add(ndtr(low), ndtr(negative(high)))
    return where(is_one_sided, one_sided, log1p(negative(where(is_one_sided, 0.0, outside))))


def _log_truncated(this: Any, other: Any) -> Any:
    """Compute log(p) from `this`, which is log(p), if it is below -1/2, else from `other`, which is log(1 - p)."""
    is_small = less(this, -0.5)
    return where(is_small, this, log1p(negative(exp(where(is_small, -1.0, other)))))


def _from_log_ndtr(y: Any) -> Any:
    """Compute the z with log_ndtr(z) = y for y < -20, by Newton's method.

    The iteration starts from the leading terms of the asymptotic expansion.
    """
    double = multiply(-2.0, y)
    z = negative(sqrt(subtract(double, log(multiply(2 * math.pi, double)))))
    for _ in range(3):
        value = log_ndtr(z)
        slope = exp(subtract(subtract(multiply(-0.5, square(z)), HALF_LOG_TWO_PI), value))
        z = subtract(z, divide(subtract(value, y), slope))
    return z


def _truncated_ppf(q: Any, a: Any, b: Any) -> Any:
    """Compute quantiles from probabilities. Far in a tail, where probabilities underflow, use their logarithms."""
    is_upper = greater(a, 0.0)
    low, high = where(is_upper, negative(b), a), where(is_upper, negative(a), b)
    share = where(is_upper, subtract(1.0, q), q)
    is_far = less(high, -8.0)
    first, last = where(is_far, -8.0, low), where(is_far, -7.0, high)
    near = ndtri(add(ndtr(first), multiply(share, subtract(ndtr(last), ndtr(first)))))
    first, last = where(is_far, low, -9.0), where(is_far, high, -8.0)
    far = _from_log_ndtr(
        logaddexp(add(log1p(negative(share)), _log_below(first)), add(log(share), _log_below(last)))
    )
    z = where(is_far, far, near)
    return where(is_upper, negative(z), z)


def _between(a: Any, b: Any) -> Any:
    """Return a point between a and b, each of which may be infinite."""
    is_open_below, is_open_above = equal(a, -math.inf), equal(b, math.inf)
    low = where(is_open_below, where(is_open_above, -1.0, subtract(b, 2.0)), a)
    high = where(is_open_above, add(low, 2.0), b)
    return add(multiply(0.5, low), multiply(0.5, high))


def _gennorm_top(beta: Any) -> Any:
    """Compute the logarithm of the generalised normal density at 0."""
    return subtract(log(multiply(0.5, beta)), lgamma(divide(1.0, beta)))


def _gennorm_logpdf(z: Any, beta: Any) -> Any:
    is_corner = logical_and(equal(z, 0.0), less_equal(beta, 1.0))
    power = pow(where(is_corner, 1.0, _size(z)), beta)
    return subtract(_gennorm_top(beta), where(is_corner, 0.0, power))


def _gennorm_cdf(z: Any, beta: Any) -> Any:
    """Compute the distribution function. At z = 0, where z^beta has no useful derivative, it is a linear function."""
    is_middle = equal(z, 0.0)
    away = _one_side(lambda z, beta: multiply(0.5, gammaincc(divide(1.0, beta), pow(z, beta))))(
        where(is_middle, 1.0, z), beta
    )
    return where(is_middle, add(0.5, multiply(z, exp(_gennorm_top(beta)))), away)


def _gennorm_ppf(q: Any, beta: Any) -> Any:
    is_middle = equal(q, 0.5)
    away = _two_sides(
        lambda q, beta: negative(
            pow(gammainccinv(divide(1.0, beta), multiply(2.0, q)), divide(1.0, beta))
        )
    )(where(is_middle, 0.25, q), beta)
    return where(is_middle, divide(subtract(q, 0.5), exp(_gennorm_top(beta))), away)


def _student_logpdf(z: Any, df: Any) -> Any:
    """Compute the logarithm of Student's density. For infinite df, it is that of the normal density."""
    is_normal = equal(df, math.inf)
    df = where(is_normal, 1.0, df)
    half = multiply(df, 0.5)
    size = add(log(df), multiply(2.0, betaln(half, add(multiply(half, 0.0), 0.5))))
    student = add(multiply(0.5, size), multiply(add(half, 0.5), log1p(divide(square(z), df))))
    return negative(where(is_normal, add(multiply(0.5, square(z)), HALF_LOG_TWO_PI), student))


def _gamma_logpdf(z: Any, a: Any) -> Any:
    return subtract(subtract(xlogy(subtract(a, 1.0), z), z), lgamma(a))


def _beta_logpdf(z: Any, a: Any, b: Any) -> Any:
    powers = add(xlogy(subtract(a, 1.0), z), xlog1py(subtract(b, 1.0), negative(z)))
    return subtract(powers, betaln(a, b))


def _wrapped_cauchy(z: Any, c: Any) -> Any:
    bend = log(add(square(subtract(1.0, c)), multiply(2.0, multiply(c, _one_less_cos(z)))))
    top = add(log1p(negative(c)), log1p(c))
    return subtract(subtract(top, 2 * HALF_LOG_TWO_PI), bend)


def _one_less_cos(z: Any) -> Any:
    """1 - cos(z), without cancellation near 0."""
    return multiply(2.0, square(sin(multiply(0.5, z))))


def _log_of_exponential(q: Any) -> Any:
    """Compute -log(1 - q), the quantile of the exponential distribution."""
    return negative(log1p(negative(q)))


CONTINUOUS: dict[str, Continuous] = {
    "norm": Continuous(
        (), "the normal distribution, of density exp(-z^2 / 2) / sqrt(2 pi).",
        logpdf=lambda z: subtract(multiply(-0.5, square(z)), HALF_LOG_TWO_PI),
        cdf=ndtr, logcdf=log_ndtr, ppf=ndtri, is_symmetric=True,
    ),
    "truncnorm": Continuous(
        ("a", "b"), "the normal distribution, truncated to a <= z <= b.",
        logpdf=lambda z, a, b: subtract(subtract(multiply(-0.5, square(z)), HALF_LOG_TWO_PI), _log_mass(a, b)),
        cdf=lambda z, a, b: exp(subtract(_log_mass(a, z), _log_mass(a, b))),
        sf=lambda z, a, b: exp(subtract(_log_mass(z, b), _log_mass(a, b))),
        logcdf=lambda z, a, b: _log_truncated(
            subtract(_log_mass(a, z), _log_mass(a, b)), subtract(_log_mass(z, b), _log_mass(a, b))
        ),
        logsf=lambda z, a, b: _log_truncated(
            subtract(_log_mass(z, b), _log_mass(a, b)), subtract(_log_mass(a, z), _log_mass(a, b))
        ),
        ppf=_truncated_ppf,
        isf=lambda q, a, b: negative(_truncated_ppf(q, negative(b), negative(a))),
        support=(lambda a, b: a, lambda a, b: b), inner=_between,
        is_valid=lambda a, b: less(a, b),
    ),
    "cauchy": Continuous(
        (), "the Cauchy distribution, of density 1 / (pi (1 + z^2)).",
        logpdf=lambda z: subtract(multiply(-2.0, log(hypot(add(multiply(z, 0.0), 1.0), z))), math.log(math.pi)),
        cdf=lambda z: multiply(1 / math.pi, atan2(add(multiply(z, 0.0), 1.0), negative(z))),
        ppf=_two_sides(lambda q: where(
            less(q, 0.25), divide(-1.0, tan(multiply(math.pi, where(less(q, 0.25), q, 0.25)))),
            tan(multiply(math.pi, subtract(q, 0.5))),
        )),
        is_symmetric=True,
    ),
    "laplace": Continuous(
        (), "the Laplace distribution, of density exp(-|z|) / 2.",
        logpdf=lambda z: subtract(negative(abs(z)), math.log(2)),
        cdf=_one_side(lambda z: multiply(0.5, exp(negative(z)))),
        logcdf=lambda z: where(
            less(z, 0.0), subtract(z, math.log(2)), log1p(multiply(-0.5, exp(negative(_size(z)))))
        ),
        ppf=_two_sides(lambda q: log(multiply(2.0, q))), is_symmetric=True,
    ),
    "logistic": Continuous(
        (), "the logistic distribution, of density e^-z / (1 + e^-z)^2.",
        logpdf=lambda z: negative(add(logaddexp(0.0, z), logaddexp(0.0, negative(z)))),
        cdf=expit, logcdf=lambda z: negative(logaddexp(0.0, negative(z))), ppf=logit,
        is_symmetric=True,
    ),
    "gumbel_r": Continuous(
        (), "Gumbel's distribution of a maximum, of density exp(-z - e^-z).",
        logpdf=lambda z: negative(add(z, exp(negative(z)))),
        cdf=lambda z: exp(negative(exp(negative(z)))),
        sf=lambda z: negative(expm1(negative(exp(negative(z))))),
        logcdf=lambda z: negative(exp(negative(z))),
        ppf=lambda q: negative(log(negative(log(q)))),
        isf=lambda q: negative(log(_log_of_exponential(q))),
    ),
    "gumbel_l": Continuous(
        (), "Gumbel's distribution of a minimum, of density exp(z - e^z).",
        logpdf=lambda z: subtract(z, exp(z)),
        cdf=lambda z: negative(expm1(negative(exp(z)))),
        sf=lambda z: exp(negative(exp(z))),
        logsf=lambda z: negative(exp(z)),
        ppf=lambda q: log(_log_of_exponential(q)),
        isf=lambda q: log(negative(log(q))),
    ),
    "expon": Continuous(
        (), "the exponential distribution, of density e^-z for z >= 0.",
        logpdf=negative, cdf=lambda z: negative(expm1(negative(z))),
        sf=lambda z: exp(negative(z)), logsf=negative,
        ppf=_log_of_exponential, isf=lambda q: negative(log(q)), support=(0.0, math.inf),
    ),
    "uniform": Continuous(
        (), "the uniform distribution on 0 <= z <= 1.",
        logpdf=lambda z: multiply(z, 0.0), cdf=lambda z: z, sf=lambda z: subtract(1.0, z),
        ppf=lambda q: q, isf=lambda q: subtract(1.0, q), support=(0.0, 1.0),
    ),
    "pareto": Continuous(
        ("b",), "the Pareto distribution, of density b / z^(b+1) for z >= 1.",
        logpdf=lambda z, b: subtract(log(b), multiply(add(b, 1.0), log(z))),
        cdf=lambda z, b: negative(expm1(negative(multiply(b, log(z))))),
        sf=lambda z, b: pow(z, negative(b)), logsf=lambda z, b: negative(multiply(b, log(z))),
        ppf=lambda q, b: exp(divide(_log_of_exponential(q), b)),
        isf=lambda q, b: pow(q, divide(-1.0, b)),
        support=(1.0, math.inf), inner=2.0, is_valid=positive,
    ),
    "gamma": Continuous(
        ("a",), "the gamma distribution, of density z^(a-1) e^-z / Gamma(a) for z >= 0.",
        logpdf=_gamma_logpdf, cdf=lambda z, a: gammainc(a, z), sf=lambda z, a: gammaincc(a, z),
        ppf=lambda q, a: gammaincinv(a, q), isf=lambda q, a: gammainccinv(a, q),
        support=(0.0, math.inf), is_valid=positive,
    ),
    "chi2": Continuous(
        ("df",), "the chi-squared distribution with df degrees of freedom: twice a gamma variable with a = df / 2.",
        logpdf=lambda z, df: subtract(_gamma_logpdf(multiply(z, 0.5), multiply(df, 0.5)), math.log(2)),
        cdf=lambda z, df: gammainc(multiply(df, 0.5), multiply(z, 0.5)),
        sf=lambda z, df: gammaincc(multiply(df, 0.5), multiply(z, 0.5)),
        ppf=lambda q, df: multiply(2.0, gammaincinv(multiply(df, 0.5), q)),
        isf=lambda q, df: multiply(2.0, gammainccinv(multiply(df, 0.5), q)),
        support=(0.0, math.inf), is_valid=positive,
    ),
    "beta": Continuous(
        ("a", "b"), "the beta distribution, of density z^(a-1) (1-z)^(b-1) / B(a, b) for 0 <= z <= 1.",
        logpdf=_beta_logpdf, cdf=lambda z, a, b: betainc(a, b, z), sf=lambda z, a, b: betaincc(a, b, z),
        ppf=lambda q, a, b: betaincinv(a, b, q),
        isf=lambda q, a, b: betainccinv(a, b, q),
        support=(0.0, 1.0), is_valid=positive,
    ),
    "t": Continuous(
        ("df",), "Student's distribution with df degrees of freedom, of density proportional to (1 + z^2/df)^(-(df+1)/2).",
        logpdf=_student_logpdf, cdf=lambda z, df: stdtr(df, z), ppf=lambda q, df: stdtrit(df, q),
        is_valid=positive, is_symmetric=True,
    ),
    "gennorm": Continuous(
        ("beta",), "the generalized normal distribution, of density beta exp(-|z|^beta) / (2 Gamma(1/beta)).",
        logpdf=_gennorm_logpdf, cdf=_gennorm_cdf, ppf=_gennorm_ppf,
        is_valid=positive, is_symmetric=True,
    ),
    "vonmises": Continuous(
        ("kappa",), "von Mises's distribution on the circle, of density exp(kappa cos z) / (2 pi I_0(kappa)).",
        logpdf=lambda z, kappa: subtract(
            negative(multiply(kappa, _one_less_cos(z))), log(multiply(2 * math.pi, i0e(kappa)))
        ),
        is_valid=lambda kappa: greater_equal(kappa, 0.0),
    ),
    "wrapcauchy": Continuous(
        ("c",), "the wrapped Cauchy distribution, of density (1 - c^2) / (2 pi (1 + c^2 - 2 c cos z)) for 0 <= z <= 2 pi.",
        logpdf=_wrapped_cauchy, support=(0.0, 2 * math.pi),
        is_valid=lambda c: logical_and(greater(c, 0.0), less(c, 1.0)),
    ),
}  # fmt: skip
"""Formulas of each continuous distribution, by the name of the distribution."""
