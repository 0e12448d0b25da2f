"""Distributions of vectors: Dirichlet, multinomial and multivariate normal.

Source: scipy.stats for shapes and values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tenferro.api.creation import eye
from tenferro.api.custom import stop_gradient
from tenferro.api.elementwise import (
    abs,
    add,
    divide,
    equal,
    exp,
    floor,
    greater,
    greater_equal,
    less,
    less_equal,
    lgamma,
    log,
    logical_and,
    multiply,
    round,
    square,
    subtract,
    where,
)
from tenferro.api.linalg import (
    cholesky,
    diagonal,
    matmul,
    matrix_norm,
    matrix_transpose,
    solve_triangular,
)
from tenferro.api.linalg.matrices import pinv_and_bases
from tenferro.api.manipulation import concat, expand_dims, moveaxis
from tenferro.api.promotion import (
    broadcast_shapes,
    broadcast_to,
    convert,
    inexact_dtype,
    result_type,
)
from tenferro.api.reductions import all as all_of
from tenferro.api.reductions import sum as sum_over
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import DTypeError, ShapeError
from tenferro.special import xlogy
from tenferro.types import ArrayLike, Tensor

__all__ = ["Dirichlet", "Multinomial", "MultivariateNormal"]


def _floats(name: str, *operands: ArrayLike) -> list[Any]:
    tensors = [as_operand(x) for x in operands]
    dtype = inexact_dtype(result_type(*tensors))
    if dtype.is_complex:
        shown = ", ".join(str(spec_of(x)) for x in tensors)
        raise DTypeError(f"stats.{name}: takes real numbers, got {shown}")
    return [convert(x, dtype) for x in tensors]


class Dirichlet:
    """Functions of Dirichlet's distribution, on vectors of positive numbers with sum 1: logpdf, pdf."""

    __all__ = ("logpdf", "pdf")

    def logpdf(self, x: ArrayLike, alpha: ArrayLike) -> Any:
        """Return the logarithm of the density, which is the product of x_i^(alpha_i - 1) divided by B(alpha).

        B is the multivariate beta function.

        Args:
            x: vectors along the first axis. The last component, which is 1 minus the sum of the others, may be omitted.
            alpha: a vector of positive numbers.

        Raises:
            ShapeError: alpha is not a vector, or the first extent of x does not fit alpha.

        >>> from tenferro import stats
        >>> stats.dirichlet.logpdf([0.25, 0.75], [1.0, 1.0])
        array(0.)
        """
        points, powers = _floats("dirichlet.logpdf", x, alpha)
        if (
            len(powers.shape) != 1
            or not points.shape
            or points.shape[0] not in (powers.shape[0], powers.shape[0] - 1)
        ):
            raise ShapeError(
                f"stats.dirichlet: takes x [n, ..] or [n - 1, ..] and alpha [n], got {spec_of(points)} and {spec_of(powers)}"
            )  # fmt: skip
        points = moveaxis(points, 0, -1)
        total = sum_over(points, axis=-1)
        if points.shape[-1] == powers.shape[0] - 1:
            points = concat([points, expand_dims(subtract(1.0, total), axis=-1)], axis=-1)
            total = add(multiply(total, 0.0), 1.0)
        is_inside = logical_and(
            all_of(logical_and(greater_equal(points, 0.0), less_equal(points, 1.0)), axis=-1),
            less(abs(subtract(total, 1.0)), 1e-6 if spec_of(points).dtype.itemsize == 8 else 1e-4),
        )
        logarithms = sum_over(xlogy(subtract(powers, 1.0), points), axis=-1)
        normal = subtract(sum_over(lgamma(powers), axis=-1), lgamma(sum_over(powers, axis=-1)))
        values = where(is_inside, subtract(logarithms, normal), -math.inf)
        return where(all_of(greater(powers, 0.0)), values, math.nan)

    def pdf(self, x: ArrayLike, alpha: ArrayLike) -> Any:
        """Return the density; `logpdf` describes the arguments."""
        return exp(self.logpdf(x, alpha))


class Multinomial:
    """Functions of the multinomial distribution, on the counts of the outcomes of n draws: logpmf, pmf."""

    __all__ = ("logpmf", "pmf")

    def logpmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Any:
        """Return the logarithm of the probability n! / prod x_i! prod p_i^x_i.

        Args:
            x: vectors of counts along the last axis.
            n: the number of draws; the probability is 0 where the sum of the counts is not n.
            p: vectors of the outcomes' probabilities along the last axis.

        >>> from tenferro import stats
        >>> stats.multinomial.pmf([1, 1], 2, [0.5, 0.5])
        array(0.5)
        """
        x, n, p = _floats("multinomial.logpmf", x, n, p)
        is_count = logical_and(greater_equal(x, 0.0), equal(x, floor(x)))
        is_inside = logical_and(all_of(is_count, axis=-1), equal(sum_over(x, axis=-1), n))
        counts = where(is_count, x, 0.0)
        terms = subtract(xlogy(counts, p), lgamma(add(counts, 1.0)))
        values = add(lgamma(add(n, 1.0)), sum_over(terms, axis=-1))
        return where(is_inside, values, -math.inf)

    def pmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Any:
        """Return the probability; `logpmf` describes the arguments."""
        return exp(self.logpmf(x, n, p))


def _form_and_determinant(away: Tensor, covariance: Tensor) -> tuple[Any, Any]:
    """Return away^T cov^-1 away and log det(cov), where cov is `covariance`, from the Cholesky factor of cov."""
    count = away.shape[-1]
    factor = cholesky(covariance)
    lead = broadcast_shapes(away.shape[:-1], factor.shape[:-2])
    factor = broadcast_to(factor, (*lead, count, count))
    away = broadcast_to(away, (*lead, count))
    solved = solve_triangular(factor, expand_dims(away, axis=-1), lower=True)
    form = sum_over(square(solved), axis=(-2, -1))
    return form, multiply(2.0, sum_over(log(diagonal(factor)), axis=-1))


def _on_range(away: Tensor, covariance: Tensor) -> Any:
    """Return the logarithm of the density for a positive semidefinite covariance. It is -inf outside the range of cov.

    Let U U^T be the projection on the range, and N = 1 - U U^T. For any c > 0, cov + c N is positive definite. Its
    inverse is cov^+ + N / c, and its determinant is c^(n - rank) times the pseudo-determinant of cov.
    """
    dtype = spec_of(covariance).dtype
    cutoff = (1e6 if dtype.itemsize == 8 else 1e3) * float(np.finfo(dtype.dtype).eps)
    symmetric = multiply(0.5, add(covariance, matrix_transpose(covariance)))
    _, u, _ = pinv_and_bases(symmetric, cutoff, None)
    nullity = subtract(away.shape[-1], sum_over(stop_gradient(square(u)), axis=(-2, -1)))
    largest = stop_gradient(matrix_norm(symmetric, ord=2))
    scale = where(equal(largest, 0.0), 1.0, largest)
    null = subtract(eye(away.shape[-1], dtype=dtype), matmul(u, matrix_transpose(u)))
    null_part = matmul(null, expand_dims(away, axis=-1))[..., 0]
    padded = add(symmetric, multiply(scale[..., None, None], null))
    form, determinant = _form_and_determinant(subtract(away, null_part), padded)
    nullity = round(nullity)
    determinant = subtract(determinant, multiply(nullity, log(scale)))
    rank = subtract(away.shape[-1], nullity)
    values = multiply(-0.5, add(add(form, determinant), multiply(rank, math.log(2 * math.pi))))
    bound = multiply(1e3 * cutoff, largest)
    is_inside = less_equal(sum_over(square(null_part), axis=-1), square(bound))
    return where(is_inside, values, -math.inf)


class MultivariateNormal:
    """Functions of the multivariate normal distribution: entropy, logpdf, pdf."""

    __all__ = ("entropy", "logpdf", "pdf")

    def logpdf(
        self, x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: bool | None = None
    ) -> Any:
        """Return the logarithm of the density, -((x - mean)^T cov^-1 (x - mean) + log det(2 pi cov)) / 2.

        Args:
            x: vectors along the last axis [.., n].
            mean: a number, or vectors [.., n].
            cov: a number, the variance of each coordinate, or positive definite matrices [.., n, n].
            allow_singular: whether cov may be positive semidefinite. Eigenvalues then count as zero if they are below
                10^6 eps (in float32 10^3 eps) times the largest eigenvalue. The density is defined on the range of cov,
                by the pseudo-inverse and the pseudo-determinant, and is 0 outside the range. Derivatives hold for
                changes of cov that preserve its rank.

        The result is NaN where cov is not positive definite or, with `allow_singular`, has a negative eigenvalue.

        Raises:
            ShapeError: the extents of the operands differ.

        >>> from tenferro import stats
        >>> stats.multivariate_normal.logpdf([0.0, 0.0], [0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
        array(-1.83787707)
        >>> stats.multivariate_normal.pdf([0.0, 0.0], 0.0, [[1.0, 0.0], [0.0, 0.0]], allow_singular=True)
        array(0.39894228)
        """
        points, center, covariance = _floats("multivariate_normal.logpdf", x, mean, cov)
        away = subtract(points, center)
        if allow_singular and not covariance.shape:
            away = away if center.shape else expand_dims(away, axis=-1)
            covariance = multiply(covariance, eye(away.shape[-1], dtype=spec_of(covariance).dtype))
        elif not center.shape and not covariance.shape:
            size = add(divide(square(away), covariance), log(multiply(2 * math.pi, covariance)))
            return multiply(-0.5, size)
        if not away.shape or (
            covariance.shape and covariance.shape[-2:] != (away.shape[-1], away.shape[-1])
        ):
            raise ShapeError(
                f"stats.multivariate_normal: takes x [.., n], mean [.., n] and cov [.., n, n], "
                f"got {spec_of(points)}, {spec_of(center)} and {spec_of(covariance)}"
            )
        if allow_singular:
            return _on_range(away, covariance)
        count = away.shape[-1]
        if not covariance.shape:
            form = divide(sum_over(square(away), axis=-1), covariance)
            determinant = multiply(log(covariance), float(count))
        else:
            form, determinant = _form_and_determinant(away, covariance)
        return multiply(-0.5, add(add(form, determinant), count * math.log(2 * math.pi)))

    def pdf(
        self, x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: bool | None = None
    ) -> Any:
        """Return the density; `logpdf` describes the arguments."""
        return exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: ArrayLike, cov: ArrayLike) -> Any:
        """Return the differential entropy, log det(2 pi e cov) / 2.

        Args:
            mean: a number, or vectors [.., n]. Only the extent n is used.
            cov: a number or matrices, as in `logpdf`.

        Raises:
            ShapeError: the extents of the operands differ.

        >>> from tenferro import stats
        >>> stats.multivariate_normal.entropy([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
        array(2.83787707)
        """
        center, covariance = _floats("multivariate_normal.entropy", mean, cov)
        extents = center.shape[-1:] or covariance.shape[-1:]
        half = 0.5 * (extents[0] if extents else 1)
        return subtract(half, self.logpdf(center, center, covariance))
