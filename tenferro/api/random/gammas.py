"""The gamma distribution, sampled by rejection, and distributions whose samples are functions of gamma samples.

As in `jax.random`, each sample has its own key and rejection loop. Samples therefore equal those of JAX up to rounding.

Source: Marsaglia and Tsang, ACM Transactions on Mathematical Software 26 (2000); `jax.random` for functions, signatures
and the order of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.api.autodiff import jvp
from tenferro.api.control import while_loop
from tenferro.api.creation import ones_like
from tenferro.api.custom import custom_jvp
from tenferro.api.elementwise import (
    abs,
    add,
    digamma,
    divide,
    equal,
    exp,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    logical_and,
    logical_or,
    maximum,
    multiply,
    negative,
    pow,
    sqrt,
    square,
    subtract,
    where,
)
from tenferro.api.incomplete_gamma import gamma_power, incomplete_gamma
from tenferro.api.logarithms import softmax
from tenferro.api.manipulation import expand_dims, reshape
from tenferro.api.promotion import broadcast_to, convert
from tenferro.api.random.continuous import parameters
from tenferro.api.random.discrete import rademacher
from tenferro.api.random.generator import (
    exponential,
    float_dtype,
    keys,
    normal,
    require_fits,
    shape_of_samples,
    split,
    uniform,
)
from tenferro.api.reductions import sum as sum_over
from tenferro.api.vmap import vmap
from tenferro.dims import product
from tenferro.dispatch import spec_of, stop_gradient
from tenferro.errors import InvalidConfigError, ShapeError
from tenferro.types import ArrayLike, DType, DTypeLike, Shape, Tensor

__all__ = [
    "ball", "beta", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "loggamma", "t",
]  # fmt: skip


def gamma(
    key: ArrayLike, a: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "float64"
) -> Any:
    """Draw numbers from the gamma distribution with shape parameter a > 0 and scale 1.

    Let d = a - 1/3, c = 1 / (3 sqrt(d)) and v = (1 + c x)^3, where x is normal and u is uniform. The proposal d v is
    accepted if log u < x^2 / 2 + d - d v + d log v. For a < 1, a sample for a + 1 is multiplied by u^(1/a), with
    another u.

    The derivative with respect to a keeps the probability of the sample constant: dx/da = -(dP/da) / (dP/dx), where
    P(a, x) is the distribution function.

    Args:
        a: a number or a tensor. The default shape of the samples is the shape of a.

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: Marsaglia and Tsang, ACM Transactions on Mathematical Software 26 (2000); Figurnov, Mohamed and Mnih,
    "Implicit reparameterization gradients" (NeurIPS 2018), for the derivative.
    """
    return _samples("gamma", key, a, shape, dtype, in_logarithm=False)


def loggamma(
    key: ArrayLike, a: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "float64"
) -> Any:
    """Draw logarithms of gamma samples, accurate even where the samples underflow; `gamma` describes the arguments.

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: jax.random.loggamma.
    """
    return _samples("loggamma", key, a, shape, dtype, in_logarithm=True)


def _samples(
    name: str, key: ArrayLike, a: ArrayLike, shape: Shape | None, dtype: DTypeLike | None, in_logarithm: bool
) -> Any:  # fmt: skip
    kind, extents, alpha = parameters(name, shape, dtype, a)
    count = product(extents)
    alpha = reshape(broadcast_to(alpha, extents), (count,))
    own_keys = split(key, count)

    def one(key: Tensor, alpha: Tensor) -> Any:
        return _one(key, alpha, kind, in_logarithm)

    samples = vmap(one)(own_keys, stop_gradient(alpha))
    reparametrised = _log_sample if in_logarithm else _sample
    return reshape(reparametrised(alpha, samples), extents)


@custom_jvp
def _log_sample(a: Tensor, logarithm: Tensor) -> Any:
    """Return the logarithm of a sample x. Its derivative with respect to a keeps the probability P(a, x) constant."""
    return multiply(logarithm, 1.0)


@_log_sample.defjvp
def _log_sample_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (a, logarithm), (a_dot, log_dot) = primals, tangents
    slope = _log_slope(a, logarithm)
    return multiply(logarithm, 1.0), add(log_dot, multiply(a_dot, slope))


@custom_jvp
def _sample(a: Tensor, x: Tensor) -> Any:
    """Return a sample x. Its derivative with respect to a keeps the probability P(a, x) constant."""
    return multiply(x, 1.0)


@_sample.defjvp
def _sample_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (a, x), (a_dot, x_dot) = primals, tangents
    is_positive = greater(x, 0.0)
    slope = multiply(x, _log_slope(a, log(where(is_positive, x, 1.0))))
    return multiply(x, 1.0), add(x_dot, multiply(a_dot, where(is_positive, slope, 0.0)))


def _log_slope(a: Tensor, logarithm: Tensor) -> Any:
    """Compute d log(x) / da at constant P(a, x): -(dP/da) / (x dP/dx).

    For small x, P is x^a / Gamma(a + 1), and the derivative is (psi(a + 1) - log x) / a, where psi is the digamma
    function.
    """
    is_small = less(logarithm, -30.0)
    small, regular = where(is_small, logarithm, -30.0), where(is_small, 0.0, logarithm)
    near_zero = divide(subtract(digamma(add(a, 1.0)), small), a)
    x = exp(regular)
    _, by_a = jvp(lambda a: incomplete_gamma(a, x, is_upper=False), (a,), (ones_like(a),))
    return where(is_small, near_zero, negative(divide(by_a, gamma_power(a, x))))


def _one(key: Tensor, alpha: Tensor, kind: DType, in_logarithm: bool) -> Any:
    """Draw one gamma sample with parameter alpha, or its logarithm, by rejection."""
    is_large = greater_equal(alpha, 1.0)
    raised = where(is_large, alpha, add(alpha, 1.0))
    d = subtract(raised, 1.0 / 3.0)
    c = divide(1.0 / 3.0, sqrt(d))

    def is_rejected(state: Any) -> Any:
        _, x2, v, u = state
        is_outside = greater_equal(u, subtract(1.0, multiply(0.0331, square(x2))))
        bound = add(multiply(x2, 0.5), multiply(d, add(subtract(1.0, v), log(v))))
        return logical_and(is_outside, greater_equal(log(u), bound))

    def propose(state: Any) -> Any:
        key, x_key, u_key = keys(state[0], 3)

        def draw(state: Any) -> Any:
            key, now = keys(state[0], 2)
            x = normal(now, (), kind)
            return key, x, add(1.0, multiply(x, c))

        zero = convert(0.0, kind)
        start = (x_key, zero, convert(-1.0, kind))
        _, x, v = while_loop(lambda state: less_equal(state[2], 0.0), draw, start)
        return key, square(x), multiply(multiply(v, v), v), uniform(u_key, (), kind)

    key, boost_key = keys(key, 2)
    start = (key, convert(0.0, kind), convert(1.0, kind), convert(2.0, kind))
    _, _, v, _ = while_loop(is_rejected, propose, start)
    if in_logarithm:
        logarithm = negative(exponential(boost_key, (), kind))
        boost = multiply(logarithm, divide(1.0, alpha))
        boost = where(logical_or(is_large, equal(logarithm, 0.0)), 0.0, boost)
        return add(add(log(d), log(v)), boost)
    u = subtract(1.0, uniform(boost_key, (), kind))
    return multiply(multiply(d, v), where(is_large, 1.0, pow(u, divide(1.0, alpha))))


def beta(
    key: ArrayLike, a: ArrayLike, b: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "float64"
) -> Any:  # fmt: skip
    """Draw numbers from the beta distribution with parameters a, b > 0: x / (x + y), where x and y are gamma samples.

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: jax.random.beta.
    """
    kind, extents, a, b = parameters("beta", shape, dtype, a, b)
    first, second = keys(key, 2)
    x, y = loggamma(first, a, extents, kind), loggamma(second, b, extents, kind)
    largest = maximum(x, y)
    x, y = exp(subtract(x, largest)), exp(subtract(y, largest))
    return divide(x, add(x, y))


def chisquare(
    key: ArrayLike, df: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "float64"
) -> Any:
    """Draw numbers from the chi-squared distribution with df degrees of freedom: twice gamma samples for df / 2.

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: jax.random.chisquare.
    """
    kind, extents, df = parameters("chisquare", shape, dtype, df)
    return multiply(exp(loggamma(key, divide(df, 2.0), extents, kind)), 2.0)


def dirichlet(
    key: ArrayLike,
    alpha: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = "float64",
) -> Any:
    """Draw vectors of positive numbers with sum 1 from the Dirichlet distribution with parameters alpha (.., n).

    Args:
        shape: the shape of the result without its last axis. The default is that of alpha's leading axes.

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: jax.random.dirichlet.
    """
    kind = float_dtype("dirichlet", dtype)
    alpha = convert(alpha, kind)
    if not alpha.shape:
        raise ShapeError(f"dirichlet: alpha must be a vector, got {spec_of(alpha)}")
    extents = tuple(alpha.shape[:-1]) if shape is None else shape_of_samples("dirichlet", shape)
    require_fits("dirichlet", alpha.shape[:-1], extents)
    return softmax(loggamma(key, alpha, (*extents, alpha.shape[-1]), kind), axis=-1)


def f(
    key: ArrayLike, dfnum: ArrayLike, dfden: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "float64"
) -> Any:  # fmt: skip
    """Draw numbers from the F distribution: quotients of chi-squared samples divided by their degrees of freedom.

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: jax.random.f.
    """
    kind, extents, dfnum, dfden = parameters("f", shape, dtype, dfnum, dfden)
    denominator_key, numerator_key = keys(key, 2)
    numerator = divide(chisquare(numerator_key, dfnum, extents, kind), dfnum)
    return divide(numerator, divide(chisquare(denominator_key, dfden, extents, kind), dfden))


def generalized_normal(
    key: ArrayLike, p: float, shape: Shape = (), dtype: DTypeLike | None = "float64"
) -> Any:
    """Draw numbers with a density proportional to exp(-|x|^p).

    A sample is g^(1/p) with a random sign, where g is a gamma sample with parameter 1 / p.

    Raises:
        DTypeError: the dtype is not a float, or the key is invalid. InvalidConfigError: p is not positive.

    Source: jax.random.generalized_normal.
    """
    if not p > 0:
        raise InvalidConfigError(f"generalized_normal: p must be positive, got {p}")
    kind = float_dtype("generalized_normal", dtype)
    first, second = keys(key, 2)
    sample = gamma(first, 1 / p, shape_of_samples("generalized_normal", shape), kind)
    return multiply(rademacher(second, shape, kind), pow(sample, 1 / p))


def ball(
    key: ArrayLike, d: int, p: float = 2, shape: Shape = (), dtype: DTypeLike | None = "float64"
) -> Any:
    """Draw points with d coordinates uniformly from the unit ball of the p-norm.

    Shapes: (*shape, d).

    Raises:
        DTypeError: the dtype is not a float, or the key is invalid. InvalidConfigError: p is not positive.

    Source: jax.random.ball. Barthe, Guedon, Mendelson and Naor, Annals of Probability 33 (2005).
    """
    kind = float_dtype("ball", dtype)
    extents = shape_of_samples("ball", shape)
    first, second = keys(key, 2)
    g = generalized_normal(first, p, (*extents, d), kind)
    e = exponential(second, extents, kind)
    return divide(g, expand_dims(pow(add(sum_over(pow(abs(g), p), axis=-1), e), 1 / p), axis=-1))


def t(
    key: ArrayLike, df: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "float64"
) -> Any:
    """Draw numbers z sqrt(h / g) from Student's distribution with df degrees of freedom.

    h is df / 2, z is normal, and g is a gamma sample with parameter h.

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: jax.random.t.
    """
    kind, extents, df = parameters("t", shape, dtype, df)
    first, second = keys(key, 2)
    half = divide(df, 2.0)
    sample = gamma(second, half, extents, kind)
    return multiply(normal(first, extents, kind), sqrt(divide(half, sample)))
