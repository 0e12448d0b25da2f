"""Continuous distributions whose samples are formulas of uniform and normal numbers.

For fixed random bits, a sample is a differentiable function of the parameters. The bits are those of `jax.random`, so
samples equal those of JAX up to rounding.

Source: `jax.random` for functions, signatures and formulas.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tenferro.api import linalg
from tenferro.api.data_types import finfo
from tenferro.api.elementwise import (
    abs,
    add,
    clip,
    divide,
    erf,
    erfinv,
    exp,
    less,
    less_equal,
    log,
    log1p,
    multiply,
    negative,
    nextafter,
    pow,
    sign,
    sqrt,
    square,
    subtract,
    tan,
    where,
)
from tenferro.api.linear import matmul
from tenferro.api.manipulation import expand_dims, matrix_transpose, squeeze
from tenferro.api.promotion import broadcast_shapes, convert
from tenferro.api.random.discrete import rademacher
from tenferro.api.random.generator import (
    exponential,
    float_dtype,
    keys,
    normal,
    require_fits,
    shape_of_samples,
    uniform,
)
from tenferro.api.reductions import sum as sum_over
from tenferro.dispatch import spec_of, stop_gradient
from tenferro.errors import InvalidConfigError, ShapeError
from tenferro.types import ArrayLike, DType, DTypeLike, Shape

__all__ = [
    "cauchy", "double_sided_maxwell", "laplace", "logistic", "lognormal", "maxwell", "multivariate_normal", "orthogonal", "pareto",
    "rayleigh", "triangular", "truncated_normal", "wald", "weibull_min",
]  # fmt: skip


def parameters(
    name: str, shape: Shape | None, dtype: DTypeLike | None, *values: ArrayLike
) -> tuple[Any, ...]:
    """Return the dtype and the shape of samples, and the parameters of the distribution in this dtype.

    The default shape is the shape to which the parameters broadcast.

    Raises:
        DTypeError: the dtype is not a float. ShapeError: a parameter does not broadcast to the shape.
    """
    kind = float_dtype(name, dtype)
    converted = [convert(value, kind) for value in values]
    if shape is None:
        return kind, tuple(broadcast_shapes(*[x.shape for x in converted])), *converted
    extents = shape_of_samples(name, shape)
    for x in converted:
        require_fits(name, x.shape, extents)
    return kind, extents, *converted


def cauchy(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "float64") -> Any:
    """Draw numbers from the Cauchy distribution: tan(pi (u - 1/2)), with u uniform in [eps, 1).

    Raises:
        DTypeError: the dtype is not a float, or the key is invalid.

    Source: jax.random.cauchy.
    """
    kind = float_dtype("cauchy", dtype)
    u = uniform(key, shape, kind, finfo(kind).eps, 1.0)
    return tan(multiply(np.array(math.pi, kind.dtype), subtract(u, 0.5)))


def laplace(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "float64") -> Any:
    """Draw numbers from the Laplace distribution of scale 1: sign(u) log(1 - |u|), with u uniform in (-1, 1).

    Raises:
        DTypeError: the dtype is not a float, or the key is invalid.

    Source: jax.random.laplace.
    """
    kind = float_dtype("laplace", dtype)
    u = uniform(key, shape, kind, -1.0 + finfo(kind).eps / 2, 1.0)
    return multiply(sign(u), log1p(negative(abs(u))))


def logistic(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "float64") -> Any:
    """Draw numbers from the logistic distribution of scale 1: log(u / (1 - u)), with u uniform in (0, 1).

    Raises:
        DTypeError: the dtype is not a float, or the key is invalid.

    Source: jax.random.logistic.
    """
    kind = float_dtype("logistic", dtype)
    u = uniform(key, shape, kind, finfo(kind).smallest_normal, 1.0)
    return subtract(log(u), log1p(negative(u)))


def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: Shape | None = None, dtype: DTypeLike | None = "float64"
) -> Any:  # fmt: skip
    """Draw numbers whose logarithms are normal with mean 0 and standard deviation sigma.

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: jax.random.lognormal.
    """
    kind, extents, scale = parameters("lognormal", shape, dtype, sigma)
    return exp(multiply(normal(key, extents, kind), scale))


def maxwell(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "float64") -> Any:
    """Draw numbers from the Maxwell distribution of scale 1: lengths of vectors of three normal numbers.

    Raises:
        DTypeError: the dtype is not a float, or the key is invalid.

    Source: jax.random.maxwell.
    """
    kind = float_dtype("maxwell", dtype)
    extents = shape_of_samples("maxwell", shape)
    return sqrt(sum_over(square(normal(key, (*extents, 3), kind)), axis=-1))


def double_sided_maxwell(
    key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "float64"
) -> Any:  # fmt: skip
    """Draw numbers loc + scale r m, where r is -1 or 1, and m is from the Maxwell distribution.

    As in `jax.random`, the result has the shape `shape` followed by the shape of the parameters, which is also the
    default of `shape`.

    Raises:
        DTypeError: the dtype is not a float, or the key is invalid.

    Source: jax.random.double_sided_maxwell.
    """
    kind, own, loc, scale = parameters("double_sided_maxwell", None, dtype, loc, scale)
    extents = (*(shape_of_samples("double_sided_maxwell", shape) or own), *own)
    first, second = keys(key, 2)
    sides = rademacher(second, extents, kind)
    return add(multiply(multiply(sides, maxwell(first, extents, kind)), scale), loc)


def multivariate_normal(
    key: ArrayLike, mean: ArrayLike, cov: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "float64",
    method: str = "cholesky",
) -> Any:  # fmt: skip
    """Draw vectors mean + F z, where z is a vector of normal numbers and F F^T = cov.

    Args:
        mean: vectors (.., n).
        cov: positive definite matrices (.., n, n).
        shape: the shape of the result without its last axis. The default is that of the leading axes of mean and cov.
        method: how to compute F: "cholesky", "eigh" or "svd". The last two also accept semidefinite matrices.

    Raises:
        ShapeError: the shapes do not match. InvalidConfigError: `method` is unknown.

    Source: jax.random.multivariate_normal.
    """
    name = "multivariate_normal"
    kind = float_dtype(name, dtype)
    mean, cov = convert(mean, kind), convert(cov, kind)
    if not mean.shape or tuple(cov.shape[-2:]) != (mean.shape[-1],) * 2:
        raise ShapeError(f"{name}: mean {spec_of(mean)} and cov {spec_of(cov)} do not fit")
    leads = tuple(broadcast_shapes(mean.shape[:-1], cov.shape[:-2]))
    extents = leads if shape is None else shape_of_samples(name, shape)
    require_fits(name, leads, extents)
    if method == "cholesky":
        factor = linalg.cholesky(cov)
    elif method == "eigh":
        values, vectors = linalg.eigh(cov)
        factor = multiply(vectors, expand_dims(sqrt(values), axis=-2))
    elif method == "svd":
        vectors, values, _ = linalg.svd(cov)
        factor = multiply(vectors, expand_dims(sqrt(values), axis=-2))
    else:
        raise InvalidConfigError(
            f'{name}: method must be "cholesky", "eigh" or "svd", got {method!r}'
        )
    z = normal(key, (*extents, mean.shape[-1]), kind)
    return add(mean, squeeze(matmul(factor, expand_dims(z, axis=-1)), axis=-1))


def orthogonal(
    key: ArrayLike, n: int, shape: Shape = (), dtype: DTypeLike | None = "float64", m: int | None = None
) -> Any:  # fmt: skip
    """Draw real or complex n by m matrices with orthonormal rows or columns, uniformly. The default of m is n.

    Args:
        shape: the extents of the leading axes of the result.

    Raises:
        DTypeError: the dtype is neither float nor complex, or the key is invalid.
        InvalidConfigError: n, m or an extent is negative.

    Source: jax.random.orthogonal. Mezzadri, "How to generate random matrices from the classical compact groups", 2007.
    """
    kind = DType.of(dtype)
    columns = n if m is None else m
    if n < 0 or columns < 0:
        raise InvalidConfigError(f"orthogonal: extents must be at least 0, got {n} and {columns}")
    extents = shape_of_samples("orthogonal", shape)
    z = normal(key, (*extents, max(n, columns), min(n, columns)), kind)
    q, r = linalg.qr(z)
    q = multiply(q, expand_dims(sign(linalg.diagonal(r)), axis=-2))
    return matrix_transpose(q) if n < columns else q


def pareto(
    key: ArrayLike, b: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "float64"
) -> Any:
    """Draw numbers exp(e / b) from the Pareto distribution with exponent b > 0 and least value 1.

    e is an exponentially distributed number.

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: jax.random.pareto.
    """
    kind, extents, b = parameters("pareto", shape, dtype, b)
    return exp(divide(exponential(key, extents, kind), b))


def rayleigh(
    key: ArrayLike, scale: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "float64"
) -> Any:  # fmt: skip
    """Draw numbers from the Rayleigh distribution: scale sqrt(-2 log u), with u uniform in [0, 1).

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: jax.random.rayleigh.
    """
    kind, extents, scale = parameters("rayleigh", shape, dtype, scale)
    return multiply(scale, sqrt(multiply(log(uniform(key, extents, kind)), -2.0)))


def triangular(
    key: ArrayLike, left: ArrayLike, mode: ArrayLike, right: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = "float64",
) -> Any:  # fmt: skip
    """Draw numbers from the triangular distribution between `left` and `right`, with its maximum at `mode`.

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: jax.random.triangular.
    """
    kind, extents, left, mode, right = parameters("triangular", shape, dtype, left, mode, right)
    u = uniform(key, extents, kind)
    width, rise, fall = subtract(right, left), subtract(mode, left), subtract(right, mode)
    low = add(left, sqrt(multiply(multiply(u, width), rise)))
    high = subtract(right, sqrt(multiply(multiply(subtract(1.0, u), width), fall)))
    return where(less(u, divide(rise, width)), low, high)


def truncated_normal(
    key: ArrayLike, lower: ArrayLike, upper: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "float64"
) -> Any:  # fmt: skip
    """Draw normal numbers between `lower` and `upper`.

    A sample is sqrt(2) erfinv(u), with u uniform between erf(lower / sqrt(2)) and erf(upper / sqrt(2)).

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: jax.random.truncated_normal.
    """
    kind, extents, lower, upper = parameters("truncated_normal", shape, dtype, lower, upper)
    root = np.array(math.sqrt(2), kind.dtype)
    u = uniform(key, extents, kind, erf(divide(lower, root)), erf(divide(upper, root)))
    least = nextafter(stop_gradient(lower), np.array(np.inf, kind.dtype))
    most = nextafter(stop_gradient(upper), np.array(-np.inf, kind.dtype))
    return clip(multiply(root, erfinv(u)), least, most)


def wald(
    key: ArrayLike, mean: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "float64"
) -> Any:
    """Draw numbers from the Wald distribution (inverse Gaussian) with the given mean and scale 1.

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: jax.random.wald. Michael, Schucany and Haas, The American Statistician 30 (1976).
    """
    kind, extents, mean = parameters("wald", shape, dtype, mean)
    first, second = keys(key, 2)
    y = square(normal(first, extents, kind))
    z = uniform(second, extents, kind)
    squared = square(mean)
    root = sqrt(add(multiply(multiply(4.0, mean), y), multiply(squared, square(y))))
    x = subtract(add(mean, divide(multiply(squared, y), 2.0)), multiply(divide(mean, 2.0), root))
    return where(less_equal(z, divide(mean, add(mean, x))), x, divide(squared, x))


def weibull_min(
    key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "float64"
) -> Any:  # fmt: skip
    """Draw numbers from the Weibull distribution: scale (-log(1 - u))^(1 / concentration), with u uniform in [0, 1).

    Raises:
        DTypeError, ShapeError: as for `uniform`.

    Source: jax.random.weibull_min.
    """
    kind, extents, scale, concentration = parameters(
        "weibull_min", shape, dtype, scale, concentration
    )
    u = uniform(key, extents, kind)
    return multiply(pow(negative(log1p(negative(u))), divide(1.0, concentration)), scale)
