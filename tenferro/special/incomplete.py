"""Incomplete gamma and beta functions, their inverses, and exponential integrals.

The incomplete beta function is expanded as a prefactor times an integral, whose integrand is positive:

    I_x(a, b) = x^a (1-x)^(b-1) / (a B(a, b))  int e^-w (1 + x/(1-x) (1 - e^(-w/a)))^(b-1) dw    for x <= a / (a + b)

Source: NIST's DLMF, section 8.17, with t = x e^(-w/a) in the integral there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tenferro.api.creation import zeros_like
from tenferro.api.elementwise import (
    abs,
    add,
    divide,
    equal,
    exp,
    expm1,
    floor,
    greater,
    greater_equal,
    less,
    less_equal,
    lgamma,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    pow,
    square,
    subtract,
    where,
)
from tenferro.api.incomplete_gamma import (
    DIRECT,
    HALF_LOG_TWO_PI,
    defined,
    falling_rate,
    gamma_density,
    incomplete_gamma,
    log_ratio,
    stirling_rest,
    undefined,
)
from tenferro.api.polynomials import largest, polynomial
from tenferro.api.quadrature import integral
from tenferro.dispatch import stop_gradient
from tenferro.special import gamma_kernels, kernels
from tenferro.special.functions import EXPANDED, Row, expansion_slope, function, value_of
from tenferro.types import Tensor

__all__ = [
    "betainc",
    "betaincc",
    "betainccinv",
    "betaincinv",
    "exp1",
    "expi",
    "expn",
    "gammainc",
    "gammaincc",
    "gammainccinv",
    "gammaincinv",
    "stdtr",
    "stdtrit",
]


def beta_power(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Any:
    """Compute x^a y^b / B(a, b) for positive a and b, where y = 1 - x."""
    total = add(a, b)
    mean, other = divide(a, total), divide(b, total)
    away = multiply(0.5, subtract(log(multiply(a, other)), 2 * HALF_LOG_TWO_PI))
    rest = subtract(stirling_rest(total), add(stirling_rest(a), stirling_rest(b)))
    powers = add(multiply(a, log_ratio(x, mean)), multiply(b, log_ratio(y, other)))
    return exp(add(powers, add(away, rest)))


gammainc = function(
    Row(
        "gammainc",
        ("a", "x"),
        gamma_kernels.gammainc,
        (EXPANDED, lambda y, a, x: gamma_density(a, x)),
        lambda a, x: incomplete_gamma(a, x, is_upper=False),
    ),
    """The regularized lower incomplete gamma function P(a, x), the integral of t^(a-1) e^-t / Gamma(a) from 0 to x.

    Derivatives in a and x are supported. For 0.01 < a < 100, the native error is at most 12 ulps.

    >>> gammainc(2.0, [0.0, 1.0, 10.0])
    array([0.        , 0.26424112, 0.9995006 ])

    Source: NIST's DLMF, section 8.2; scipy.special for the values.
    """,
)
gammaincc = function(
    Row(
        "gammaincc",
        ("a", "x"),
        gamma_kernels.gammaincc,
        (EXPANDED, lambda y, a, x: negative(gamma_density(a, x))),
        lambda a, x: incomplete_gamma(a, x, is_upper=True),
    ),
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), accurate also where P is close to 1.

    Derivatives in a and x are supported. For 0.01 < a < 100, the native error is at most 12 ulps.

    >>> gammaincc(2.0, [0.0, 1.0, 100.0])
    array([1.00000000e+00, 7.35758882e-01, 3.75727674e-42])

    Source: NIST's DLMF, section 8.2; scipy.special for the values.
    """,
)


def _beta_tail(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Any:
    """Compute I_x(a, b) for x <= a / (a + b), where y = 1 - x.

    For a < 1 the result is x^a y^b / (a B(a, b)) + I_x(a + 1, b).
    """
    odds = divide(x, y)
    is_small = less(a, 1.0)
    p = where(is_small, add(a, 1.0), a)
    excess = maximum(subtract(b, 1.0), 0.0)
    falling = subtract(1.0, divide(multiply(excess, odds), p))
    rate = falling_rate(falling, divide(divide(multiply(excess, odds), multiply(p, p)), y))

    def integrand(w: Any, p: Any, b: Any, odds: Any) -> Any:
        rise = multiply(odds, negative(expm1(negative(divide(w, p)))))
        return exp(subtract(multiply(subtract(b, 1.0), log1p(rise)), w))

    total = integral(integrand, rate, p, b, odds)
    stepped = add(1.0, multiply(multiply(odds, divide(add(a, b), p)), total))
    total = where(is_small, stepped, divide(total, y))
    return divide(multiply(beta_power(a, b, x, y), total), a)


def _incomplete_beta(a: Tensor, b: Tensor, x: Tensor, is_upper: bool) -> Any:
    parameters = add(a, b)
    is_valid = logical_and(greater(minimum(a, b), 0.0), less(maximum(a, b), math.inf))
    is_inside = logical_and(is_valid, logical_and(greater(x, 0.0), less(x, 1.0)))
    a, b = where(is_inside, a, 1.0), where(is_inside, b, 1.0)
    inner = where(is_inside, x, 0.5)
    is_low = less_equal(inner, divide(a, add(a, b)))
    p, q = where(is_low, a, b), where(is_low, b, a)
    rest = subtract(1.0, inner)
    tail = _beta_tail(p, q, where(is_low, inner, rest), where(is_low, rest, inner))
    is_direct = logical_not(is_low) if is_upper else is_low
    inside = where(is_direct, tail, subtract(1.0, tail))
    is_end = logical_and(is_valid, logical_or(equal(x, 0.0), equal(x, 1.0)))
    ends = subtract(1.0, x) if is_upper else x
    nowhere = undefined(logical_or(is_inside, is_end), parameters, x)
    return where(is_inside, inside, where(is_end, ends, nowhere))


def beta_density(a: Tensor, b: Tensor, x: Tensor) -> Any:
    """Return x^(a-1) (1-x)^(b-1) / B(a, b), with its limits at x = 0 and x = 1; NaN outside 0 <= x <= 1."""
    # At the ends, powers are used directly, because they have the derivatives of the limit. In `beta_power`, x^a would
    # underflow.
    is_low, is_high = less_equal(abs(x), DIRECT), equal(x, 1.0)
    is_end = logical_or(is_low, is_high)
    inside = where(is_end, 0.5, x)
    rest = subtract(1.0, inside)
    between = divide(beta_power(a, b, inside, rest), multiply(inside, rest))
    p, q, end = where(is_end, a, 1.0), where(is_end, b, 1.0), where(is_end, x, 0.5)
    # Where one of the two powers is infinite, the other is omitted: the derivative of the infinite power dominates.
    is_low_pole = logical_and(is_low, less(a, 1.0))
    is_high_pole = logical_and(is_high, less(b, 1.0))
    first = pow(where(is_low_pole, end, 0.5), subtract(p, 1.0))
    last = pow(subtract(1.0, where(is_high_pole, end, 0.5)), subtract(q, 1.0))
    between_poles = where(logical_or(is_low_pole, is_high_pole), 0.5, end)
    powers = multiply(
        pow(between_poles, subtract(p, 1.0)), pow(subtract(1.0, between_poles), subtract(q, 1.0))
    )
    powers = where(is_low_pole, first, where(is_high_pole, last, powers))
    scale = exp(subtract(lgamma(add(p, q)), add(lgamma(p), lgamma(q))))
    values = where(is_end, multiply(scale, powers), between)
    return defined(values, logical_and(greater_equal(x, 0.0), less_equal(x, 1.0)))


betainc = function(
    Row(
        "betainc",
        ("a", "b", "x"),
        "betainc",
        (EXPANDED, EXPANDED, lambda y, a, b, x: beta_density(a, b, x)),
        lambda a, b, x: _incomplete_beta(a, b, x, is_upper=False),
    ),
    """The regularized incomplete beta function I_x(a, b), the integral of t^(a-1) (1-t)^(b-1) / B(a, b) from 0 to x.

    Derivatives in a, b and x are supported. For a, b in (0.01, 100), the native error is at most 128 ulps.

    >>> betainc(2.0, 3.0, [0.0, 0.5, 1.0])
    array([0.    , 0.6875, 1.    ])

    Source: NIST's DLMF, section 8.17; scipy.special for the values.
    """,
)
betaincc = function(
    Row(
        "betaincc",
        ("a", "b", "x"),
        "betaincc",
        (EXPANDED, EXPANDED, lambda y, a, b, x: negative(beta_density(a, b, x))),
        lambda a, b, x: _incomplete_beta(a, b, x, is_upper=True),
    ),
    """The complement 1 - I_x(a, b) of `betainc`, accurate also where I_x(a, b) is close to 1.

    Derivatives and error bounds are those of `betainc`.

    >>> betaincc(2.0, 30.0, 0.9)
    array(2.8e-29)

    Source: scipy.special.betaincc.
    """,
)


def _inverse_of_gamma(name: str, of: str, sign: float, text: str) -> Callable[..., Any]:
    def by_a(x: Any, a: Any, p: Any) -> Any:
        return multiply(-sign, divide(expansion_slope(of, 0, a, x), gamma_density(a, x)))

    def by_p(x: Any, a: Any, p: Any) -> Any:
        return divide(sign, gamma_density(a, x))

    return function(Row(name, ("a", "p"), name, (by_a, by_p)), text)


gammaincinv = _inverse_of_gamma(
    "gammaincinv", "gammainc", 1.0,
    """The x with P(a, x) = p, the inverse of `gammainc` in its second argument; NaN unless 0 <= p <= 1.

    Derivatives in a and p are supported. The native error is at most 256 ulps.

    >>> gammaincinv(2.0, [0.0, 0.5, 1.0])
    array([0.        , 1.67834699,        inf])

    Source: scipy.special.gammaincinv.
    """,
)  # fmt: skip
gammainccinv = _inverse_of_gamma(
    "gammainccinv", "gammaincc", -1.0,
    """The x with Q(a, x) = p, the inverse of `gammaincc` in its second argument; NaN unless 0 <= p <= 1.

    Derivatives in a and p are supported. The native error is at most 256 ulps.

    >>> gammainccinv(2.0, [0.0, 0.5, 1.0])
    array([       inf, 1.67834699, 0.        ])

    Source: scipy.special.gammainccinv.
    """,
)  # fmt: skip


def _inverse_of_beta(name: str, complement: str, sign: float, text: str) -> Callable[..., Any]:
    """Create an inverse of the incomplete beta function, with derivatives that are also accurate near x = 1.

    Above the mean a / (a + b), x may round to 1, so the derivatives are computed from 1 - x. The inverse of the
    complementary function, with a and b exchanged, computes 1 - x.
    """

    def smaller_of(x: Any, a: Any, b: Any, p: Any) -> tuple[Any, ...]:
        is_low = less_equal(stop_gradient(x), divide(a, add(a, b)))
        first, last = where(is_low, a, b), where(is_low, b, a)
        return is_low, first, last, where(is_low, x, value_of(complement, b, a, p))

    def by_parameter(position: int) -> Callable[..., Any]:
        def partial(x: Any, a: Any, b: Any, p: Any) -> Any:
            is_low, *operands = smaller_of(x, a, b, p)
            below, above = (
                expansion_slope("betainc", at, *operands) for at in (position, 1 - position)
            )
            return divide(where(is_low, negative(below), above), beta_density(*operands))

        return partial

    def by_p(x: Any, a: Any, b: Any, p: Any) -> Any:
        return divide(sign, beta_density(*smaller_of(x, a, b, p)[1:]))

    partials = (by_parameter(0), by_parameter(1), by_p)
    return function(Row(name, ("a", "b", "p"), name, partials), text)


betaincinv = _inverse_of_beta(
    "betaincinv", "betainccinv", 1.0,
    """The x with I_x(a, b) = p, the inverse of `betainc` in its last argument; NaN unless 0 <= p <= 1.

    Derivatives in a, b and p are supported. The native error is at most 256 ulps.

    >>> betaincinv(2.0, 3.0, [0.0, 0.6875, 1.0])
    array([0. , 0.5, 1. ])

    Source: scipy.special.betaincinv.
    """,
)  # fmt: skip
betainccinv = _inverse_of_beta(
    "betainccinv", "betaincinv", -1.0,
    """The x with 1 - I_x(a, b) = p, the inverse of `betaincc` in its last argument; NaN unless 0 <= p <= 1.

    Derivatives in a, b and p are supported. Error bounds are those of `betaincinv`.

    >>> betainccinv(2.0, 3.0, [0.0, 0.3125, 1.0])
    array([1. , 0.5, 0. ])

    Source: scipy.special.betainccinv.
    """,
)  # fmt: skip


def _student(df: Tensor, t: Tensor) -> Any:
    """Compute the distribution function of Student's t distribution.

    It is I_x(df / 2, 1/2) / 2 for t < 0, where x = df / (df + t^2), and 1 minus that for t >= 0.
    """
    half = multiply(df, 0.5)
    fraction = divide(df, add(df, square(t)))
    tail = multiply(0.5, _incomplete_beta(half, add(zeros_like(t), 0.5), fraction, is_upper=False))
    return where(less(t, 0.0), tail, subtract(1.0, tail))


STUDENT_FAR = 1e18
"""Bound on an argument below which its square does not overflow."""


def student_density(df: Tensor, t: Tensor) -> Any:
    """Compute the density of Student's distribution with df degrees of freedom."""
    half = multiply(df, 0.5)
    # The logarithm of Gamma(df/2 + 1/2) / (sqrt(df / 2) Gamma(df/2)) is the small difference of the leading terms of
    # Stirling's series, plus the difference of the remaining terms.
    growth = subtract(multiply(half, log1p(divide(0.5, half))), 0.5)
    rest = subtract(stirling_rest(add(half, 0.5)), stirling_rest(half))
    logarithm = subtract(add(growth, rest), HALF_LOG_TWO_PI)
    size = abs(t)
    is_far = greater(size, STUDENT_FAR)
    near = log1p(divide(square(where(is_far, 1.0, t)), df))
    far = subtract(multiply(2.0, log(where(is_far, size, STUDENT_FAR))), log(df))
    return exp(subtract(logarithm, multiply(add(half, 0.5), where(is_far, far, near))))


stdtr = function(
    Row(
        "stdtr", ("df", "t"), "stdtr", (EXPANDED, lambda y, df, t: student_density(df, t)), _student
    ),
    """The distribution function of Student's distribution with df degrees of freedom.

    Derivatives in df and t are supported. For df < 100, the native error is at most 64 ulps.

    >>> stdtr(1.0, [0.0, 1.0])
    array([0.5 , 0.75])

    Source: scipy.special.stdtr; NIST's DLMF, section 8.17, for the expansion.
    """,
)
stdtrit = function(
    Row(
        "stdtrit",
        ("df", "p"),
        "stdtrit",
        (
            lambda t, df, p: negative(
                divide(expansion_slope("stdtr", 0, df, t), student_density(df, t))
            ),
            lambda t, df, p: divide(1.0, student_density(df, t)),
        ),
    ),
    """The t with stdtr(df, t) = p, the inverse of `stdtr` in its second argument.

    Derivatives in df and p are supported. The native error is at most 4096 ulps of the larger of 1 and |t|.

    >>> stdtrit(1.0, [0.5, 0.75])
    array([0., 1.])

    Source: scipy.special.stdtrit.
    """,
)

E1_SERIES = tuple(
    [(-1.0) ** (k + 1) / (k * math.factorial(k)) for k in range(22, 0, -1)] + [-np.euler_gamma]
)
"""Coefficients of E_1(x) + log(x) in powers of x, highest power first (DLMF 6.6.2)."""
EI_SERIES = tuple([1 / (k * math.factorial(k)) for k in range(130, 0, -1)] + [np.euler_gamma])
EI_ASYMPTOTIC = tuple([float(math.factorial(k)) for k in range(40, -1, -1)])
EI_LARGE = 45.0

SERIES_END = 1.25
STEPS_OF_ORDER = 12
"""Largest order that is computed by recurrence for small x. The integrand of larger orders is negligible at its step.
"""


def _exponential_integral(n: Tensor, x: Tensor) -> Any:
    """Compute E_n(x) for whole n >= 0 and x > 0: the integral of exp(-x e^r - (n-1) r) over r > 0.

    For small x the integrand has a step at r = log(1/x), so small n do not use the integral. Instead E_1 is computed by
    a series, and then E_(n+1) = (e^-x - x E_n) / n.
    """
    is_near = less(x, SERIES_END)
    near, falling = where(is_near, x, 0.5), exp(negative(x))
    by_series = subtract(polynomial(near, E1_SERIES), log(near))
    less_one = subtract(maximum(n, 1.0), 1.0)
    tiny = 1e-290 if largest(x) > 1e300 else 1e-30

    def integrand(r: Any, less_one: Any, x: Any) -> Any:
        return exp(negative(add(multiply(x, expm1(r)), multiply(less_one, r))))

    values = multiply(falling, integral(integrand, add(less_one, x), less_one, x))
    for order in range(1, STEPS_OF_ORDER + 1):
        values = where(logical_and(is_near, equal(n, float(order))), by_series, values)
        # Processors may treat a subnormal number as zero, whose logarithm is infinite, so the product is set to 0.
        product = where(less(near, tiny), 0.0, multiply(near, by_series))
        by_series = divide(subtract(exp(negative(near)), product), float(order))
    return where(less(n, 1.0), divide(falling, x), values)


def _expn(n: Tensor, x: Tensor) -> Any:
    is_inside = logical_and(greater(x, 0.0), less(x, math.inf))
    is_order = logical_and(equal(n, floor(n)), greater_equal(n, 0.0))
    order = where(is_order, n, 1.0)
    inside = _exponential_integral(order, where(is_inside, x, 1.0))
    at_zero = where(
        greater(order, 1.0),
        divide(1.0, where(greater(order, 1.0), subtract(order, 1.0), 1.0)),
        math.inf,
    )
    ends = where(equal(x, 0.0), at_zero, where(equal(x, math.inf), zeros_like(x), math.nan))
    return where(is_order, where(is_inside, inside, ends), math.nan)


def _expn_slope(y: Any, n: Any, x: Any) -> Any:
    """Return the derivative of E_n in x: -E_(n-1)(x), where E_(-1)(x) = (1 + 1/x) e^-x / x."""
    is_zeroth = less(n, 1.0)
    below = value_of("expn", where(is_zeroth, 0.0, subtract(n, 1.0)), x)
    raised = multiply(below, add(1.0, divide(1.0, where(is_zeroth, x, 1.0))))
    return negative(where(is_zeroth, raised, below))


def _expanded_exp_over(x: Tensor) -> Any:
    is_end = equal(x, math.inf)
    inner = where(is_end, 1.0, x)
    half = exp(multiply(0.5, inner))
    return where(is_end, math.inf, multiply(divide(half, inner), half))


function(
    Row(
        "exp_over",
        ("x",),
        kernels.exp_over,
        (lambda y, x: multiply(y, subtract(1.0, divide(1.0, x))),),
        _expanded_exp_over,
    ),
    "Return e^x / x, the derivative of `expi`.",
)


EXPN_FAR = 709.0
"""Argument from which SciPy returns 0 for E_n(x), although E_n(x) is not yet 0."""


def _expn_kernel(special: Any) -> Callable[..., Any]:
    def kernel(n: Any, x: Any) -> Any:
        is_order = (n == np.floor(n)) & (n >= 0) & (n < 2**31)
        values = special.expn(np.where(is_order, n, 0).astype(np.intc), x)
        # For larger x, use four terms of the series for large x and n (DLMF 8.20.2).
        is_far = is_order & (x > EXPN_FAR) & (x < 760)
        far, order = np.where(is_far, x, EXPN_FAR), np.where(is_far, n, 0.0)
        half, total = np.exp(-0.5 * far), far + order
        third = order * (6 * far * far - 8 * order * far + order * order) / total**6
        series = 1 + order / total**2 + order * (order - 2 * far) / total**4 + third
        far_values = half * (series / total) * half
        return np.where(is_order, np.where(is_far, far_values, values), np.nan)

    return kernel


def _positive_expi(x: Tensor) -> Any:
    """Compute Ei(x) for x > 0 by the power series or, for large x, by the asymptotic series (DLMF 6.6.2 and 6.12.2)."""
    is_large = greater(x, EI_LARGE)
    near, far = where(is_large, 1.0, x), where(is_large, x, EI_LARGE)
    series = add(log(near), polynomial(near, EI_SERIES))
    half = exp(multiply(0.5, far))
    tail = divide(multiply(half, multiply(half, polynomial(divide(1.0, far), EI_ASYMPTOTIC))), far)
    return where(is_large, tail, series)


def _expi(x: Tensor) -> Any:
    is_below = less(x, 0.0)
    below = negative(_expn(add(zeros_like(x), 1.0), where(is_below, negative(x), 1.0)))
    is_inside = logical_and(greater(x, 0.0), less(x, math.inf))
    above = where(
        is_inside, _positive_expi(where(is_inside, x, 1.0)), where(equal(x, 0.0), -math.inf, x)
    )
    return where(is_below, below, above)


expn = function(
    Row("expn", ("n", "x"), _expn_kernel, (None, _expn_slope), _expn),
    """The exponential integral E_n(x): the integral of e^(-x t) / t^n over t > 1.

    n must be a whole number of at least 0, and x >= 0; otherwise the result is NaN. Derivatives in x are supported. The
    native error is at most 64 ulps.

    >>> expn(1, [0.0, 1.0])
    array([       inf, 0.21938393])

    Source: NIST's DLMF, section 8.19; scipy.special for the values.
    """,
)
exp1 = function(
    Row(
        "exp1",
        ("x",),
        "exp1",
        (lambda y, x: value_of("exp_over", negative(x)),),
        lambda x: where(less(x, 0.0), math.nan, _expn(add(zeros_like(x), 1.0), x)),
    ),
    """The exponential integral E_1(x): the integral of e^-t / t over t > x, for x >= 0; NaN for x < 0.

    The native error is at most 64 ulps.

    >>> exp1([0.0, 1.0])
    array([       inf, 0.21938393])

    Source: NIST's DLMF, section 6.2; scipy.special for the values.
    """,
)
expi = function(
    Row("expi", ("x",), kernels.expi, (lambda y, x: value_of("exp_over", x),), _expi),
    """The exponential integral Ei(x), the principal value of the integral of e^t / t up to x; -inf at 0.

    The native error is at most 16 ulps of the larger of 1 and |Ei(x)|.

    >>> expi([-1.0, 0.0, 1.0])
    array([-0.21938393,        -inf,  1.89511782])

    Source: NIST's DLMF, section 6.2; scipy.special for the values.
    """,
)
