"""Discrete distributions, one record per distribution.

Source: scipy.stats for parameters and probabilities; NIST's DLMF, section 8.17(i), for distribution functions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tenferro.api.elementwise import (
    add,
    divide,
    exp,
    expm1,
    greater,
    greater_equal,
    less,
    less_equal,
    lgamma,
    log,
    log1p,
    logical_and,
    multiply,
    negative,
    subtract,
    where,
)
from tenferro.api.polynomials import polynomial
from tenferro.api.quadrature import along_nodes
from tenferro.api.reductions import sum as sum_over
from tenferro.dispatch import spec_of
from tenferro.special import betainc, betaincc, betaln, gammainc, gammaincc, xlog1py, xlogy
from tenferro.stats.distribution import Discrete, full, positive

__all__ = ["DISCRETE"]

SUMMED, LARGE = 400, 200.0
ASYMPTOTIC = (-9 / 80, -19 / 360, -1 / 24, -1 / 12, 0.0)


def _share(p: Any) -> Any:
    return logical_and(greater_equal(p, 0.0), less_equal(p, 1.0))


def _count(n: Any) -> Any:
    return greater_equal(n, 0.0)


def _log_choices(n: Any, k: Any) -> Any:
    """Compute the logarithm of the number of ways to choose k of n things."""
    return negative(add(log1p(n), betaln(add(subtract(n, k), 1.0), add(k, 1.0))))


def _binomial(k: Any, n: Any, p: Any) -> Any:
    return add(_log_choices(n, k), add(xlogy(k, p), xlog1py(subtract(n, k), negative(p))))


def _negative_binomial(k: Any, n: Any, p: Any) -> Any:
    count = negative(add(log(add(n, k)), betaln(n, add(k, 1.0))))
    return add(count, add(xlogy(n, p), xlog1py(k, negative(p))))


def _beta_binomial(k: Any, n: Any, a: Any, b: Any) -> Any:
    mixed = subtract(betaln(add(k, a), add(subtract(n, k), b)), betaln(a, b))
    return add(_log_choices(n, k), mixed)


def _poisson(k: Any, mu: Any) -> Any:
    return subtract(subtract(xlogy(k, mu), mu), lgamma(add(k, 1.0)))


def _poisson_entropy(mu: Any) -> Any:
    """Compute the entropy of the Poisson distribution.

    For small mu it is the sum of -p log p. For large mu it is log(2 pi e mu) / 2 plus a series in 1 / mu.
    """
    is_small = less(mu, LARGE)
    (small,) = along_nodes(where(is_small, mu, 1.0))
    logarithms = _poisson(np.arange(SUMMED, dtype=spec_of(mu).dtype.dtype), small)
    is_possible = greater(logarithms, -math.inf)
    terms = multiply(exp(logarithms), where(is_possible, logarithms, 0.0))
    summed = negative(sum_over(terms, axis=-1))
    large = where(is_small, LARGE, mu)
    leading = multiply(0.5, add(log(large), math.log(2 * math.pi * math.e)))
    return where(is_small, summed, add(leading, polynomial(divide(1.0, large), ASYMPTOTIC)))


DISCRETE: dict[str, Discrete] = {
    "bernoulli": Discrete(
        ("p",), "Bernoulli's distribution: 1 with probability p, else 0.",
        logpmf=lambda k, p: add(xlogy(k, p), xlog1py(subtract(1.0, k), negative(p))),
        support=(0.0, 1.0), is_valid=_share,
        cdf=lambda k, p: subtract(1.0, p), sf=lambda k, p: p,
        ppf=lambda q, p: where(less_equal(q, subtract(1.0, p)), full(q, 0.0), 1.0),
    ),
    "binom": Discrete(
        ("n", "p"), "the binomial distribution, of probability C(n, k) p^k (1-p)^(n-k).",
        logpmf=_binomial, support=(0.0, lambda n, p: n),
        is_valid=lambda n, p: logical_and(_count(n), _share(p)),
        cdf=lambda k, n, p: betaincc(add(k, 1.0), subtract(n, k), p),
        sf=lambda k, n, p: betainc(add(k, 1.0), subtract(n, k), p),
    ),
    "nbinom": Discrete(
        ("n", "p"), "the negative binomial distribution, of probability C(k+n-1, k) p^n (1-p)^k.",
        logpmf=_negative_binomial, support=(0.0, math.inf),
        is_valid=lambda n, p: logical_and(positive(n, p), less_equal(p, 1.0)),
        cdf=lambda k, n, p: betainc(n, add(k, 1.0), p),
        sf=lambda k, n, p: betaincc(n, add(k, 1.0), p),
    ),
    "geom": Discrete(
        ("p",), "the geometric distribution, of probability (1-p)^(k-1) p for k >= 1.",
        logpmf=lambda k, p: add(xlog1py(subtract(k, 1.0), negative(p)), log(p)),
        support=(1.0, math.inf), is_valid=lambda p: logical_and(positive(p), less_equal(p, 1.0)),
        cdf=lambda k, p: negative(expm1(xlog1py(k, negative(p)))),
        sf=lambda k, p: exp(xlog1py(k, negative(p))), logsf=lambda k, p: xlog1py(k, negative(p)),
    ),
    "betabinom": Discrete(
        ("n", "a", "b"), "the beta-binomial distribution, of probability C(n, k) B(k+a, n-k+b) / B(a, b).",
        logpmf=_beta_binomial, support=(0.0, lambda n, a, b: n),
        is_valid=lambda n, a, b: logical_and(_count(n), positive(a, b)),
    ),
    "poisson": Discrete(
        ("mu",), "the Poisson distribution, of probability mu^k e^-mu / k!.",
        logpmf=_poisson, support=(0.0, math.inf), is_valid=lambda mu: greater_equal(mu, 0.0),
        cdf=lambda k, mu: gammaincc(add(k, 1.0), mu), sf=lambda k, mu: gammainc(add(k, 1.0), mu),
        entropy=_poisson_entropy,
    ),
}  # fmt: skip
"""Formulas of each discrete distribution, by the name of the distribution."""
