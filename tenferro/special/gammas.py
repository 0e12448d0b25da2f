"""The gamma function and functions derived from it.

Between 2 and 3, Gamma is computed by Cephes' rational function. From 0 to 20, a value of this rational function is
multiplied or divided by at most 18 factors, and results at integers are exact. Above 20, Gamma is computed by
Stirling's series. Below 0 it is computed by the reflection formula pi / (-x sin(pi x) Gamma(-x)).

Source: Cephes, gamma.c, for the rational function; NIST's DLMF, sections 5.11, 5.12 and 25.11, for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.api.custom import custom_jvp
from tenferro.api.elementwise import (
    abs,
    add,
    copysign,
    digamma,
    divide,
    equal,
    exp,
    floor,
    greater,
    greater_equal,
    isinf,
    less,
    less_equal,
    lgamma,
    log,
    log1p,
    logical_and,
    maximum,
    minimum,
    multiply,
    negative,
    pow,
    remainder,
    rint,
    sin,
    subtract,
    where,
)
from tenferro.api.elementwise import polygamma as polygamma_of
from tenferro.api.incomplete_gamma import BINET, HALF_LOG_TWO_PI
from tenferro.api.polynomials import largest, polynomial
from tenferro.errors import UnsupportedError
from tenferro.special.functions import TABLE, Row, value_of
from tenferro.special.operands import as_order, in_reals
from tenferro.types import ArrayLike, Tensor

__all__ = [
    "beta",
    "betaln",
    "comb",
    "digamma",
    "factorial",
    "gamma",
    "gammaln",
    "gammasgn",
    "loggamma",
    "multigammaln",
    "polygamma",
    "psi",
    "rgamma",
    "zeta",
]

psi = digamma

NUMERATOR = (
    1.60119522476751861407e-4, 1.19135147006586384913e-3, 1.04213797561761569935e-2, 4.76367800457137231464e-2,
    2.07448227648435975150e-1, 4.94214826801497100753e-1, 9.99999999999999996796e-1,
)  # fmt: skip
DENOMINATOR = (
    -2.31581873324120129819e-5, 5.39605580493303397842e-4, -4.45641913851797240494e-3, 1.18139785222060435552e-2,
    3.58236398605498653373e-2, -2.34591795718243348568e-1, 7.14304917030273074085e-2, 1.00000000000000000320e0,
)  # fmt: skip
"""Coefficients of the rational function for Gamma(2 + y), 0 <= y <= 1, highest power first."""

STIRLING = (
    432261921612371 / 514904800886784000, -4483131259 / 86684309913600, -534703531 / 902961561600,
    5246819 / 75246796800, 163879 / 209018880, -571 / 2488320, -139 / 51840, 1 / 288, 1 / 12, 1.0,
)  # fmt: skip
"""Coefficients of Gamma(x) e^x x^(1/2 - x) / sqrt(2 pi) in powers of 1 / x, highest power first (DLMF 5.11.3)."""

LARGE = 20


def gamma(x: ArrayLike) -> Any:
    """Compute the gamma function, within 8 ulps; exact at integers up to 19, NaN at negative integers.

    Shapes:  x S -> S
    Dtypes:  float; integers are converted to the float dtype to which NumPy converts them

    Raises:
        DTypeError: x is complex.

    >>> gamma([0.5, 5.0])
    array([ 1.77245385, 24.        ])
    """
    return in_reals("gamma", _gamma, x)


def rgamma(x: ArrayLike) -> Any:
    """Return 1 / gamma(x), within 64 ulps for |x| < 20; it is 0, with a finite slope, at 0 and at negative integers.

    Raises:
        DTypeError: x is complex.

    >>> rgamma([-1.0, 0.5, 4.0])
    array([0.        , 0.56418958, 0.16666667])
    """
    return in_reals("rgamma", _rgamma, x)


def _rgamma(x: Tensor) -> Any:
    """Compute sin(pi x) Gamma(1 - x) / pi for x below 1/2, and 1 / Gamma(x) elsewhere.

    Gamma(1 - x) has no poles at x below 1/2.
    """
    is_below = less(x, 0.5)
    sine = _sine(where(is_below, x, 0.0))
    other = _gamma(where(is_below, subtract(1.0, x), 1.0))
    product = multiply(sine, divide(other, math.pi))
    is_zero = logical_and(equal(sine, 0.0), isinf(other))
    # Adding 0 changes -0.0 to 0.0.
    reflected = add(where(is_zero, 0.0, product), 0.0)
    return where(is_below, reflected, _reciprocal(where(is_below, 1.0, x)))


@custom_jvp
def _reciprocal(x: Tensor) -> Any:
    return divide(1.0, _gamma(x))


@_reciprocal.defjvp
def _reciprocal_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (x_dot,) = primals, tangents
    y = _reciprocal(x)
    return y, multiply(x_dot, negative(multiply(y, digamma(x))))


def _sine(x: Tensor) -> Any:
    """Compute sin(pi x), accurately near integers, from the distance of x to the nearest integer."""
    whole = rint(x)
    angle = multiply(subtract(x, whole), math.pi)
    return sin(where(equal(remainder(whole, 2.0), 0.0), angle, negative(angle)))


@custom_jvp
def _gamma(x: Tensor) -> Any:
    magnitude = abs(x)
    is_tiny = less(magnitude, 1e-17)
    is_below = less(x, 0.0)
    positive = _gamma_of_positive(where(is_tiny, 1.0, magnitude))
    sine = _sine(x)
    scale = multiply(where(is_below, x, 1.0), where(is_below, sine, 1.0))
    reflected = divide(divide(-math.pi, scale), positive)
    reflected = where(equal(x, floor(x)), math.nan, reflected)
    return where(is_tiny, divide(1.0, x), where(is_below, reflected, positive))


@_gamma.defjvp
def _gamma_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (x_dot,) = primals, tangents
    y = _gamma(x)
    return y, multiply(x_dot, multiply(y, digamma(x)))


def _gamma_of_positive(x: Tensor) -> Any:
    is_large = greater_equal(x, float(LARGE))
    near = where(is_large, 2.0, x)
    whole = floor(near)
    fraction = subtract(near, whole)
    product = divide(polynomial(fraction, NUMERATOR), polynomial(fraction, DENOMINATOR))
    for k in range(LARGE - 3, 0, -1):
        product = multiply(product, where(less(float(k + 1), whole), subtract(near, float(k)), 1.0))
    low = where(less(near, 1.0), multiply(near, add(near, 1.0)), where(less(near, 2.0), near, 1.0))
    far = minimum(where(is_large, x, float(LARGE)), 180.0 if largest(x) > 1e300 else 36.0)
    half = pow(far, subtract(multiply(far, 0.5), 0.25))
    scale = multiply(math.sqrt(2 * math.pi), polynomial(divide(1.0, far), STIRLING))
    # Multiply by x^((x - 1/2) / 2) twice, because x^(x - 1/2) may overflow where the result does not.
    stirling = multiply(half, multiply(divide(half, exp(far)), scale))
    return where(is_large, stirling, divide(product, low))


def gammaln(x: ArrayLike) -> Any:
    """Compute the logarithm of |Gamma(x)|, like `tnf.lgamma`.

    Raises:
        DTypeError: x is complex.

    >>> gammaln([1.0, 5.0])
    array([0.        , 3.17805383])
    """
    return in_reals("gammaln", lgamma, x)


def loggamma(x: ArrayLike) -> Any:
    """Compute the logarithm of Gamma(x) for real x; NaN where x is negative.

    Raises:
        DTypeError: x is complex.

    >>> loggamma([5.0, -0.5])
    array([3.17805383,        nan])
    """
    return in_reals("loggamma", lambda x: where(less(x, 0.0), math.nan, lgamma(x)), x)


def gammasgn(x: ArrayLike) -> Any:
    """Compute the sign of Gamma(x). At 0 it is the sign of the zero; at negative integers and at -inf it is NaN.

    Raises:
        DTypeError: x is complex.

    >>> gammasgn([-1.5, -0.5, 2.0])
    array([ 1., -1.,  1.])
    """
    return in_reals("gammasgn", _gammasgn, x)


def _gammasgn(x: Tensor) -> Any:
    whole = floor(x)
    alternating = subtract(1.0, multiply(2.0, remainder(where(less(x, 0.0), whole, 0.0), 2.0)))
    below = where(equal(whole, x), math.nan, alternating)
    return where(less(x, 0.0), below, where(equal(x, x), copysign(1.0, x), x))


def polygamma(n: ArrayLike, x: ArrayLike) -> Any:
    """Compute the n-th derivative of `digamma`: for n > 0 it is (-1)^(n + 1) n! zeta(n + 1, x).

    If n is a Python number, the function computes the op of `tnf.polygamma`. If n is a tensor of orders, it broadcasts
    with x, and the result is NaN where an order is negative or not whole. n! is a factor of the result, so float64
    results overflow for orders above 170. There is no derivative in n.

    Raises:
        InvalidConfigError: n is a Python number other than an int of at least 0.
        ADRuleUnsupportedError: a derivative in n is requested.
        DTypeError: an operand is complex.

    >>> polygamma(1, 1.0)
    array(1.64493407)
    >>> polygamma([0, 1], 1.0)
    array([-0.57721566,  1.64493407])
    """
    if isinstance(n, (int, float, np.number)):
        order = as_order("polygamma", "n", n, 0)
        return in_reals("polygamma", lambda x: polygamma_of(order, x), x)
    return in_reals("polygamma", lambda n, x: value_of("polygamma", n, x), n, x)


def _polygamma(n: Tensor, x: Tensor) -> Any:
    """Compute polygamma functions from zeta functions of positive arguments.

    psi_n denotes the polygamma function of order n. For x below zero and f = x - floor(x), the result is
    psi_n(f) - (-1)^n (psi_n(1 - f) - psi_n(1 - x)).
    """
    is_below, is_odd = less(x, 0.0), equal(remainder(n, 2.0), 1.0)
    is_whole = logical_and(greater_equal(n, 0.0), equal(n, floor(n)))
    order = where(logical_and(is_whole, greater(n, 0.0)), n, 1.0)
    factorial, s = _gamma(add(order, 1.0)), add(order, 1.0)
    distance = subtract(x, rint(x))
    is_left = less(distance, 0.0)
    above = where(is_left, add(1.0, distance), distance)
    missing = where(is_left, negative(distance), subtract(1.0, distance))
    size = multiply(factorial, _zeta(s, where(is_below, above, x)))
    signed = where(is_odd, size, negative(size))
    rest = subtract(
        _zeta(s, where(is_below, missing, 1.0)), _zeta(s, where(is_below, subtract(1.0, x), 1.0))
    )
    signed = where(is_below, add(signed, multiply(factorial, rest)), signed)
    is_pole = logical_and(less_equal(x, 0.0), equal(x, floor(x)))
    signed = where(is_pole, where(is_odd, math.inf, math.nan), signed)
    return where(is_whole, where(equal(n, 0.0), digamma(x), signed), math.nan)


def _polygamma_kernel(functions: Any) -> Any:
    """Return the kernel: SciPy's function for x >= 0, and the formula of `_polygamma` for x below zero."""

    def kernel(n: Any, x: Any) -> Any:
        is_below = x < 0
        at = np.round(np.where(np.isfinite(x), x, 0.0))
        distance = np.where(is_below, x - at, 0.5)
        above = np.where(distance < 0, 1 + distance, distance)
        missing = np.where(distance < 0, -distance, 1 - distance)
        is_whole = (n >= 0) & (n == np.floor(n))
        order = np.where(is_whole, n, 0.0)
        with np.errstate(all="ignore"):
            y = functions.polygamma(order, np.where(is_below, above, x))
            if is_below.any():
                rest = functions.polygamma(order, np.where(is_below, missing, 1.0))
                rest = rest - functions.polygamma(order, np.where(is_below, 1 - x, 1.0))
                y = np.where(is_below, y + np.where(order % 2, rest, -rest), y)
        pole = np.where(order % 2, np.inf, np.nan)
        y = np.where((x <= 0) & (x == np.floor(x)), pole, y)
        return np.where(is_whole, y, np.nan)

    return kernel


TABLE["polygamma"] = Row(
    "polygamma",
    ("n", "x"),
    _polygamma_kernel,
    (None, lambda y, n, x: value_of("polygamma", add(n, 1.0), x)),
    _polygamma,
)


def multigammaln(a: ArrayLike, d: int) -> Any:
    """Compute the logarithm of the multivariate gamma function of order d; d is a Python int.

    The result is d (d - 1) log(pi) / 4 plus the sum of log Gamma(a - j / 2) over 0 <= j < d.

    Raises:
        InvalidConfigError: d is not an int of at least 1.
        DTypeError: a is complex.

    >>> multigammaln(2.0, 1)
    array(0.)
    """
    count = as_order("multigammaln", "d", d, 1)

    def total(a: Tensor) -> Any:
        terms = [lgamma(subtract(a, j / 2)) for j in range(count)]
        value = terms[0]
        for term in terms[1:]:
            value = add(value, term)
        return add(value, count * (count - 1) / 4 * math.log(math.pi))

    return in_reals("multigammaln", total, a)


def betaln(a: ArrayLike, b: ArrayLike) -> Any:
    """Compute the logarithm of |B(a, b)|: log |Gamma(a) Gamma(b) / Gamma(a + b)|.

    For positive a and b the error is at most 16 ulps of the larger of 1 and the result. For other arguments the result
    is the sum of three logarithms.

    Raises:
        DTypeError: an operand is complex.

    >>> betaln(1.0, [1.0, 1e20])
    array([  0.        , -46.05170186])
    """
    return in_reals("betaln", _betaln, a, b)


def _binet(x: Tensor) -> Any:
    """Compute log Gamma(x) - ((x - 1/2) log(x) - x + log(2 pi) / 2) for x >= 10."""
    inverse = divide(1.0, x)
    return multiply(inverse, polynomial(multiply(inverse, inverse), BINET))


@custom_jvp
def _betaln(a: Tensor, b: Tensor) -> Any:
    low, high = minimum(a, b), maximum(a, b)
    is_positive = greater(low, 0.0)
    p = where(is_positive, low, 1.0)
    q = where(is_positive, high, 1.0)
    by_sum = subtract(add(lgamma(low), lgamma(high)), lgamma(add(low, high)))
    inside = where(less(q, 10.0), _betaln_small(p, q), _betaln_large(p, q))
    return where(is_positive, inside, by_sum)


def _betaln_small(p: Tensor, q: Tensor) -> Any:
    """Compute log B(p, q) for p <= q < 10."""
    p, q = minimum(p, 10.0), minimum(q, 10.0)
    return log(
        multiply(
            _gamma_of_positive(p), divide(_gamma_of_positive(q), _gamma_of_positive(add(p, q)))
        )
    )


def _betaln_large(p: Tensor, q: Tensor) -> Any:
    """Compute log B(p, q) for p <= q, q >= 10.

    The leading terms of Stirling's series are combined so that they do not cancel. Corrections are added.
    """
    q = maximum(q, 10.0)
    total = add(p, q)
    rest = log1p(negative(divide(p, total)))
    corrections = subtract(_binet(q), _binet(total))
    is_small = less(p, 10.0)
    small = where(is_small, p, 1.0)
    by_small = add(lgamma(small), subtract(small, multiply(small, log(total))))
    by_small = add(by_small, multiply(subtract(q, 0.5), rest))
    large = where(is_small, 10.0, p)
    powers = multiply(subtract(large, 0.5), log(divide(large, total)))
    by_large = add(add(powers, multiply(q, rest)), subtract(HALF_LOG_TWO_PI, multiply(0.5, log(q))))
    return add(corrections, where(is_small, by_small, add(by_large, _binet(large))))


@_betaln.defjvp
def _betaln_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (a, b), (a_dot, b_dot) = primals, tangents
    total = digamma(add(a, b))
    by_a = multiply(a_dot, subtract(digamma(a), total))
    return _betaln(a, b), add(by_a, multiply(b_dot, subtract(digamma(b), total)))


def beta(a: ArrayLike, b: ArrayLike) -> Any:
    """Compute the beta function Gamma(a) Gamma(b) / Gamma(a + b).

    For positive a and b the error is at most 24 ulps if a + b < 10, and 8 (1 + |log B|) ulps otherwise.

    Raises:
        DTypeError: an operand is complex.

    >>> beta(2.0, 3.0)
    array(0.08333333)
    """
    return in_reals("beta", _beta, a, b)


@custom_jvp
def _beta(a: Tensor, b: Tensor) -> Any:
    low, high = minimum(a, b), maximum(a, b)
    total = add(a, b)
    bound = 170.0 if largest(a) > 1e300 else 33.0
    # Products of Gamma functions are used only for a small sum a + b. For a large sum, its rounding error is amplified.
    is_direct = logical_and(less(total, 10.0), logical_and(less(high, bound), greater(low, -bound)))
    p, q = where(is_direct, low, 1.0), where(is_direct, high, 1.0)
    direct = multiply(_gamma(p), divide(_gamma(q), _gamma(add(p, q))))
    signs = multiply(_gammasgn(low), multiply(_gammasgn(high), _gammasgn(total)))
    return where(is_direct, direct, multiply(signs, exp(_betaln(low, high))))


@_beta.defjvp
def _beta_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (a, b), (a_dot, b_dot) = primals, tangents
    y, total = _beta(a, b), digamma(add(a, b))
    by_a = multiply(a_dot, subtract(digamma(a), total))
    return y, multiply(y, add(by_a, multiply(b_dot, subtract(digamma(b), total))))


def factorial(n: ArrayLike, exact: bool = False) -> Any:
    """Compute the factorial n! as Gamma(n + 1), within 8 ulps, and exact up to 18. It is 0 for negative n.

    Raises:
        UnsupportedError: `exact` is True, which has no meaning for floats.
        DTypeError: n is complex.

    >>> factorial([0, 3, 5])
    array([  1.,   6., 120.])
    """
    if exact:
        raise UnsupportedError(
            "special.factorial: exact=True has no tensor to hold it; use math.factorial"
        )
    return in_reals("factorial", _factorial, n)


def _factorial(n: Tensor) -> Any:
    """Gamma(n + 1). For n >= 1 it is computed as n Gamma(n): rounding n + 1 would cause an error of n log(n) ulps."""
    is_large = less_equal(1.0, n)
    value = _gamma(where(is_large, n, add(n, 1.0)))
    return where(less(n, 0.0), 0.0, where(is_large, multiply(n, value), value))


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Any:  # noqa: N803  # because SciPy and JAX call it so
    """Count the ways to choose k of N things, N! / (k! (N - k)!), within 16 ulps for N < 169 (32 in float32).

    The result is 0 where k > N, or where N or k is negative. For larger N the error is at most 8 (1 + log C) ulps,
    where C is the result. If N and k are not whole, the rounding of N - k adds an error of up to N log N ulps.

    Args:
        repetition: whether a thing may be chosen repeatedly. The result is then the number of ways to choose k of
            N + k - 1 things without repetition.

    Raises:
        DTypeError: an operand is complex.

    >>> comb(5, [0, 2, 6])
    array([ 1., 10.,  0.])
    """
    return in_reals("comb", _with_repetition if repetition else _comb, N, k)


def _with_repetition(n: Tensor, k: Tensor) -> Any:
    return where(equal(k, 0.0), 1.0, _comb(subtract(add(n, k), 1.0), k))


def _comb(n: Tensor, k: Tensor) -> Any:
    is_inside = logical_and(less_equal(0.0, k), less_equal(k, n))
    n, k = where(is_inside, n, 1.0), where(is_inside, k, 0.0)
    left = subtract(n, k)
    is_direct = less(n, 169.0 if largest(n) > 1e300 else 32.0)
    few, some, rest = (_factorial(where(is_direct, x, 0.0)) for x in (n, k, left))
    direct = divide(divide(few, some), rest)
    scale = add(n, 1.0)
    logarithm = negative(add(_betaln(add(left, 1.0), add(k, 1.0)), log(scale)))
    return where(is_inside, where(is_direct, direct, exp(logarithm)), 0.0)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Any:
    """Compute the Hurwitz zeta function, the sum of (k + q)^-x over k >= 0. Without q, q is 1: Riemann's zeta function.

    For x > 1 and q > 0 the error is at most 8 + x ulps: ten terms are added to Euler-Maclaurin's formula. The result is
    inf at x = 1 and at q = 0, and NaN for other arguments.

    Raises:
        DTypeError: an operand is complex.

    >>> zeta([2.0, 4.0])
    array([1.64493407, 1.08232323])
    """
    return in_reals("zeta", _zeta, x, 1.0 if q is None else q)


TERMS = 10
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
    854513 / 138, -236364091 / 2730,
)  # fmt: skip
"""The Bernoulli numbers B_2, B_4, .. B_24."""


def _zeta(x: Tensor, q: Tensor) -> Any:
    is_inside = logical_and(greater(x, 1.0), greater(q, 0.0))
    s = where(is_inside, x, 2.0)
    start = where(logical_and(is_inside, less(q, math.inf)), q, 1.0)
    total = pow(start, negative(s))
    for k in range(1, TERMS):
        total = add(total, pow(add(start, float(k)), negative(s)))
    # For s >= 300 the remainder is negligible relative to the first term, so it is omitted.
    has_rest = less(s, 300.0)
    s, start = where(has_rest, s, 300.0), where(has_rest, start, 1.0)
    total = add(total, where(has_rest, _zeta_rest(s, add(start, float(TERMS))), 0.0))
    pole = logical_and(greater_equal(x, 1.0), greater_equal(q, 0.0))
    values = where(equal(q, math.inf), 0.0, total)
    return where(pole, where(is_inside, values, math.inf), math.nan)


def _zeta_rest(s: Tensor, start: Tensor) -> Any:
    """Sum (k + start)^-s over k >= 0 by Euler-Maclaurin's formula (DLMF 25.11.28)."""
    first = pow(start, negative(s))
    total = add(divide(multiply(first, start), subtract(s, 1.0)), multiply(first, 0.5))
    factor = multiply(first, divide(s, start))
    for j, bernoulli in enumerate(BERNOULLI, 1):
        total = add(total, multiply(factor, bernoulli / math.factorial(2 * j)))
        step = multiply(add(s, float(2 * j - 1)), add(s, float(2 * j)))
        factor = multiply(factor, divide(divide(step, start), start))
    return total
