"""Hypergeometric functions, Pochhammer's symbol, Bernoulli numbers and spherical harmonics.

The expansions are power series with a fixed number of terms, and are NaN where this number is too small. Negative x are
first transformed by the formulas of Kummer and Pfaff (NIST's DLMF, 13.2.39 and 15.8.1). The expansions have derivatives
in the parameters. For large |x|, hyp1f1 is computed by asymptotic series.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tenferro.api.elementwise import (
    add,
    cos,
    digamma,
    divide,
    equal,
    exp,
    greater,
    less,
    lgamma,
    log,
    logical_not,
    logical_or,
    maximum,
    multiply,
    negative,
    pow,
    sin,
    sqrt,
    subtract,
    where,
)
from tenferro.api.incomplete_gamma import defined
from tenferro.api.promotion import inexact_dtype, promote, result_type
from tenferro.api.quadrature import along_nodes
from tenferro.api.reductions import cumulative_prod, prod
from tenferro.api.reductions import sum as sum_over
from tenferro.dispatch import apply_one, spec_of
from tenferro.errors import UnsupportedError
from tenferro.ops.elementwise import Complex
from tenferro.special import gamma_kernels, gauss, kernels
from tenferro.special.functions import EXPANDED, Row, function, partial_of, value_of, written
from tenferro.special.operands import as_order, in_reals
from tenferro.types import ArrayLike, Tensor

__all__ = ["bernoulli", "hyp1f1", "hyp2f1", "poch", "sph_harm_y"]

CONFLUENT_TERMS, CONFLUENT_END = 240, 100.0
GAUSS_TERMS, GAUSS_END = 400, 0.9
FAR_TERMS, FAR_END, SHIFT = 60, 1e-12, 32


def _series(count: int, x: Tensor, upper: tuple[Tensor, ...], lower: Tensor) -> Any:
    """Sum count + 1 terms of a power series. The quotient of consecutive terms is x (a + k) .. / ((c + k) (k + 1))."""
    k = np.arange(count, dtype=spec_of(x).dtype.dtype)
    x, lower, *raised = along_nodes(x, lower, *upper)
    ratios = divide(x, multiply(add(lower, k), k + 1))
    for a in raised:
        ratios = multiply(ratios, add(a, k))
    return add(1.0, sum_over(cumulative_prod(ratios, axis=-1), axis=-1))


def _reciprocal_gamma(a: Tensor) -> tuple[Any, Any]:
    """Return `factor` and `logarithm` with 1 / Gamma(a) = factor exp(-logarithm), also where 1 / Gamma(a) is 0.

    The results are NaN for a <= -SHIFT.
    """
    is_low = less(a, 0.5)
    (column,) = along_nodes(where(is_low, a, 1.0))
    factors = add(column, np.arange(SHIFT, dtype=spec_of(a).dtype.dtype))
    factor = where(is_low, prod(factors, axis=-1), 1.0)
    raised = where(is_low, add(a, float(SHIFT)), a)
    is_inside = greater(raised, 0.0)
    return defined(factor, is_inside), lgamma(where(is_inside, raised, 1.0))


def _tail(first: Tensor, second: Tensor, x: Tensor) -> tuple[Any, Any]:
    """Return the asymptotic series with quotients (first + k) (second + k) x / (k + 1), and its last term."""
    k = np.arange(FAR_TERMS, dtype=spec_of(x).dtype.dtype)
    x, first, second = along_nodes(x, first, second)
    ratios = divide(multiply(multiply(add(first, k), add(second, k)), x), k + 1)
    terms = cumulative_prod(ratios, axis=-1)
    last = multiply(terms, np.eye(FAR_TERMS, dtype=k.dtype)[-1])
    return add(1.0, sum_over(terms, axis=-1)), sum_over(last, axis=-1)


def _hyp1f1_far(a: Tensor, b: Tensor, size: Tensor, is_below: Tensor) -> Any:
    """Compute hyp1f1 for large |x| as a sum of two asymptotic series; NaN where the number of terms is too small.

    Source: NIST's DLMF, 13.7.2, with the real part of the complex coefficient of the series that decreases.
    """
    upper = where(is_below, subtract(b, a), a)
    lower = subtract(b, upper)
    inverse, height = divide(1.0, size), log(size)
    growing, growing_rest = _tail(subtract(1.0, upper), lower, inverse)
    other, other_rest = _tail(upper, subtract(1.0, lower), negative(inverse))
    upper_factor, upper_log = _reciprocal_gamma(upper)
    lower_factor, lower_log = _reciprocal_gamma(lower)
    factor, logarithm = _reciprocal_gamma(b)
    growth = subtract(subtract(logarithm, upper_log), multiply(lower, height))
    first = multiply(divide(upper_factor, factor), exp(add(growth, where(is_below, 0.0, size))))
    decay = subtract(subtract(logarithm, lower_log), multiply(upper, height))
    second = multiply(
        multiply(divide(lower_factor, factor), cos(multiply(math.pi, upper))),
        exp(subtract(decay, where(is_below, size, 0.0))),
    )
    values = add(multiply(first, growing), multiply(second, other))
    rest = add(_size(multiply(first, growing_rest)), _size(multiply(second, other_rest)))
    return defined(values, logical_not(greater(rest, multiply(FAR_END, _size(values)))))


def _size(x: Tensor) -> Any:
    return maximum(x, negative(x))


def _hyp1f1(a: Tensor, b: Tensor, x: Tensor) -> Any:
    is_below = less(x, 0.0)
    distance = where(is_below, negative(x), x)
    is_inside = less(distance, CONFLUENT_END)
    size = where(is_inside, distance, 0.0)
    series = _series(CONFLUENT_TERMS, size, (where(is_below, subtract(b, a), a),), b)
    values = where(is_below, multiply(exp(negative(size)), series), series)
    # For elements near zero, this function is computed at (1, 1, -CONFLUENT_END), so that derivatives are not NaN.
    far = _hyp1f1_far(
        where(is_inside, 1.0, a),
        where(is_inside, 1.0, b),
        where(is_inside, CONFLUENT_END, distance),
        logical_or(is_below, is_inside),
    )
    return where(is_inside, values, far)


def _hyp2f1(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> Any:
    is_below = less(x, 0.0)
    rest = subtract(1.0, where(is_below, x, 0.0))
    folded = where(is_below, divide(x, negative(rest)), x)
    is_inside = less(folded, GAUSS_END)
    folded = where(is_inside, folded, 0.0)
    series = _series(GAUSS_TERMS, folded, (a, where(is_below, subtract(c, b), b)), c)
    return defined(multiply(pow(rest, negative(a)), series), is_inside)


def _hyp1f1_slope(y: Any, a: Any, b: Any, x: Any) -> Any:
    return multiply(divide(a, b), value_of("hyp1f1", add(a, 1.0), add(b, 1.0), x))


def _raised(names: tuple[str, ...]) -> Any:
    """Return a function that differentiates, in x, the derivative of hyp2f1 in the parameters `names`.

    The derivative of hyp2f1 in x is a b / c F(a + 1, b + 1; c + 1; x). Its derivative in the parameters follows by
    Leibniz's rule.
    """

    def slope(y: Any, a: Any, b: Any, c: Any, x: Any) -> Any:
        inverse = divide(1.0, c)
        derivatives = {
            "a": lambda n: (a, 1.0, 0.0)[n],
            "b": lambda n: (b, 1.0, 0.0)[n],
            "c": lambda n: multiply((1.0, -1.0, 2.0)[n], pow(inverse, n + 1.0)),
        }
        total: Any = None
        for chosen in itertools.product((False, True), repeat=len(names)):
            factors = [name for name, is_factor in zip(names, chosen, strict=True) if is_factor]
            if factors.count("a") > 1 or factors.count("b") > 1:
                continue
            rest = tuple(
                name for name, is_factor in zip(names, chosen, strict=True) if not is_factor
            )
            term = value_of(_label(rest), *(add(p, 1.0) for p in (a, b, c)), x)
            for name, derivative in derivatives.items():
                term = multiply(derivative(factors.count(name)), term)
            total = term if total is None else add(total, term)
        return total

    return slope


def _label(names: tuple[str, ...]) -> str:
    """Return the name, in the table, of the derivative of hyp2f1 in the parameters `names`."""
    return "_by_".join(("hyp2f1", *sorted(names)))


def _partials(names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return functions for the derivatives, in a, b, c and x, of the derivative of hyp2f1 in the parameters `names`.

    Derivatives of more than `MOST_DERIVATIVES` parameters are computed from the expansion of hyp2f1 in standard ops.
    """
    if len(names) == MOST_DERIVATIVES:
        return (EXPANDED, EXPANDED, EXPANDED, _raised(names))
    further = [_label((*names, name)) for name in "abc"]
    steps = [lambda y, *xs, label=label: value_of(label, *xs) for label in further]
    return (*steps, _raised(names))


def _of_expansion(names: tuple[str, ...]) -> Callable[..., Any]:
    """Return the derivative of hyp2f1's expansion in the parameters `names`."""
    formula: Callable[..., Any] = _hyp2f1
    for name in names:
        formula = partial_of(formula, "abc".index(name))

    return lambda *operands: written(formula, *operands)


MOST_DERIVATIVES = 2
for _names in itertools.chain(
    itertools.combinations_with_replacement("abc", 1),
    itertools.combinations_with_replacement("abc", MOST_DERIVATIVES),
):
    _orders = (_names.count("a"), _names.count("b"), _names.count("c"))
    function(
        Row(
            _label(_names),
            ("a", "b", "c", "x"),
            gauss.kernel_of(_orders),
            _partials(_names),
            _of_expansion(_names),
        ),
        f"Return the derivative of `hyp2f1` in {', '.join(_names)}.",
    )


hyp1f1 = function(
    Row("hyp1f1", ("a", "b", "x"), kernels.hyp1f1, (EXPANDED, EXPANDED, _hyp1f1_slope), _hyp1f1),
    """Kummer's confluent hypergeometric function M(a, b, x), the sum of (a)_k x^k / ((b)_k k!).

    Derivatives in a, b and x are supported. For |a|, |b| < 10 and any x, the relative error of the derivatives in a
    and b is at most 1e-10. Where the asymptotic series for |x| >= 100 have too few terms, these derivatives are NaN;
    on other peers the values are NaN, too.
    For a, b in (0, 10) and |x| < 20, the native error is at most 1e-12 of the larger of 1 and the value.

    >>> hyp1f1(1.0, 2.0, [0.0, 1.0])
    array([1.        , 1.71828183])

    Source: NIST's DLMF, section 13.2; scipy.special.hyp1f1.
    """,
)
hyp2f1 = function(
    Row("hyp2f1", ("a", "b", "c", "x"), kernels.hyp2f1, _partials(()), _hyp2f1),
    """Gauss's hypergeometric function F(a, b; c; x), the sum of (a)_k (b)_k x^k / ((c)_k k!), for x < 1.

    Derivatives in a, b, c and x are supported. For a, b in (0, 4), c in (0.5, 5) and x in (-1e6, 1), the native
    relative error of the value and of the first derivatives in the parameters is at most 1e-12. Third derivatives in
    the parameters, and values on other peers, are NaN outside -9 < x < 0.9. Derivatives in the parameters are NaN where
    F or one of its derivatives is not real.

    >>> hyp2f1(1.0, 1.0, 2.0, [0.0, 0.5])
    array([1.        , 1.38629436])

    Source: NIST's DLMF, section 15.2; scipy.special.hyp2f1.
    """,
)


def _poch_by_z(y: Any, z: Any, m: Any) -> Any:
    return where(equal(m, 0.0), 0.0, multiply(y, subtract(digamma(add(z, m)), digamma(z))))


poch = function(
    Row(
        "poch",
        ("z", "m"),
        gamma_kernels.poch,
        (_poch_by_z, lambda y, z, m: multiply(y, digamma(add(z, m)))),
    ),
    """Pochhammer's symbol (z)_m = Gamma(z + m) / Gamma(z), the rising factorial.

    Derivatives in z and m are supported. For z, m in (0, 20), the native error is at most 16 ulps. The function runs
    natively only: it has no expansion into standard ops for XLA.

    >>> poch(3.0, [0.0, 2.0])
    array([ 1., 12.])

    Source: scipy.special.poch.
    """,
)


def bernoulli(n: int) -> Any:
    """Return the Bernoulli numbers B_0, .. B_n, with B_1 = -1/2, as float64.

    Raises:
        InvalidConfigError: n is not an int of at least 0.

    >>> bernoulli(2)
    array([ 1.        , -0.5       ,  0.16666667])

    Source: scipy.special.bernoulli.
    """
    from scipy import special  # because importing scipy takes long

    count = as_order("bernoulli", "n", n, 0)
    return np.asarray(special.bernoulli(count)[: count + 1])


def _legendre_kernel(special: Any) -> Callable[..., Any]:
    def kernel(n: Any, m: Any, theta: Any) -> Any:
        is_inside = (n >= np.abs(m)) & (n == np.floor(n)) & (m == np.floor(m)) & (n < 2**31)
        degree, order = (np.where(is_inside, x, 0).astype(np.intc) for x in (n, m))
        return np.where(is_inside, special.sph_harm_y(degree, order, theta, 0.0).real, np.nan)

    return kernel


def _legendre_slope(y: Any, n: Any, m: Any, theta: Any) -> Any:
    """Compute the derivative in theta from the functions of orders m - 1 and m + 1.

    The derivative is half the difference of these functions, each multiplied by its factor.
    """

    def step(order: Any, factor: Any) -> Any:
        exists = greater(factor, 0.0)
        value = value_of("sph_harm_y_at_0", n, where(exists, order, m), theta)
        return multiply(where(exists, sqrt(where(exists, factor, 1.0)), 0.0), value)

    up = step(add(m, 1.0), multiply(subtract(n, m), add(add(n, m), 1.0)))
    down = step(subtract(m, 1.0), multiply(add(n, m), add(subtract(n, m), 1.0)))
    return multiply(0.5, subtract(up, down))


function(
    Row("sph_harm_y_at_0", ("n", "m", "theta"), _legendre_kernel, (None, None, _legendre_slope)),
    "Return a spherical harmonic at longitude 0, which is real.",
)


def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Any:
    """Compute the spherical harmonic Y_n^m of colatitude theta and longitude phi, which is complex.

    The functions are orthonormal on the sphere. They have derivatives in theta and phi. Operands broadcast; n and m
    must be whole, and the value is NaN where |m| > n. The function runs natively only: it has no expansion into
    standard ops for XLA.

    Args:
        diff_n: must be None.
        n_max: no effect. In JAX it is the largest n.

    Raises:
        UnsupportedError: `diff_n` is not None; differentiate the function instead.
        DTypeError: an operand is complex.

    >>> sph_harm_y(1, 0, 0.0, 0.0)
    array(0.48860251+0.j)

    Source: NIST's DLMF, section 14.30; scipy.special.sph_harm_y.
    """
    if diff_n is not None:
        raise UnsupportedError(
            f"special.sph_harm_y: diff_n is not supported, got {diff_n!r}; use tnf.jacfwd of the function"
        )
    real = in_reals(
        "sph_harm_y",
        lambda n, m, theta, phi: value_of("sph_harm_y_at_0", n, m, theta),
        *(n, m, theta, phi),
    )
    order, angle = promote(m, phi, dtype=inexact_dtype(result_type(n, m, theta, phi)))
    turn = multiply(order, angle)
    return apply_one(Complex(), multiply(real, cos(turn)), multiply(real, sin(turn)))
