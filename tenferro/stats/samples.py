"""Statistics of samples: the mode, ranks, the standard error of the mean, and kernel density estimates.

Source: scipy.stats for the definitions; `jax.scipy.stats` for names and signatures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tenferro.api.creation import zeros_like
from tenferro.api.elementwise import (
    add,
    divide,
    exp,
    isnan,
    log,
    logical_not,
    multiply,
    not_equal,
    pow,
    sqrt,
    square,
    subtract,
    where,
)
from tenferro.api.indexing import take
from tenferro.api.linalg import cholesky, diagonal, inv, solve_triangular
from tenferro.api.linear import matmul
from tenferro.api.manipulation import concat, expand_dims, moveaxis, ravel, reshape
from tenferro.api.promotion import broadcast_to, convert, inexact_dtype, result_type
from tenferro.api.random import choice, normal, split
from tenferro.api.random.generator import shape_of_samples
from tenferro.api.reductions import any as any_of
from tenferro.api.reductions import cumulative_sum, var
from tenferro.api.reductions import max as max_of
from tenferro.api.reductions import sum as sum_over
from tenferro.api.searching import argmax, argsort, searchsorted, sort
from tenferro.api.statistics import cov
from tenferro.api.vmap import vmap
from tenferro.dims import product
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError, UnsupportedError
from tenferro.nn.probabilities import logsumexp
from tenferro.special import ndtr
from tenferro.types import ArrayLike, DType, Shape

__all__ = ["ModeResult", "gaussian_kde", "mode", "rankdata", "sem"]

METHODS = ("average", "min", "max", "dense", "ordinal")


class ModeResult(NamedTuple):
    """Most frequent values, and the number of times that they occur."""

    mode: Any
    count: Any


def _rows(name: str, a: ArrayLike, axis: int | None) -> tuple[Any, tuple[Any, ...], int]:
    """Return the tensor with `axis` moved to the end, the extents of its other axes, and the number of `axis`."""
    x = as_operand(a)
    if spec_of(x).dtype.is_complex:
        raise DTypeError(f"stats.{name}: takes real numbers, got {spec_of(x)}")
    if axis is None or not x.shape:
        x, axis = ravel(x), 0
    x = moveaxis(x, axis, -1)
    rest = tuple(x.shape[:-1])
    return reshape(x, (product(rest), x.shape[-1])), rest, axis


def _require_propagate(
    name: str, nan_policy: str, allowed: tuple[str, ...] = ("propagate",)
) -> None:
    if nan_policy not in allowed:
        raise UnsupportedError(
            f"stats.{name}: nan_policy must be {' or '.join(map(repr, allowed))}, got {nan_policy!r}: values decide the others"
        )


def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """Return the most frequent value along an axis, and its count. If several are most frequent, it is the smallest.

    Args:
        axis: the axis, or None for all elements.
        nan_policy: must be "propagate": NaN counts as the largest value.
        keepdims: whether the result keeps the axis, with extent 1.

    Raises:
        UnsupportedError: `nan_policy` is not "propagate".
        DTypeError: a is complex.
        ShapeError: the axis has no elements.

    >>> from tenferro import stats
    >>> stats.mode([3, 1, 3, 1, 2])
    ModeResult(mode=array(1), count=array(2))

    Source: scipy.stats.mode.
    """
    _require_propagate("mode", nan_policy)
    rows, rest, place = _rows("mode", a, axis)
    if rows.shape[-1] == 0:
        raise ShapeError(f"stats.mode: takes an axis with elements, got {spec_of(as_operand(a))}")

    def one(row: Any) -> tuple[Any, Any]:
        ordered = sort(row)
        counts = subtract(
            searchsorted(ordered, ordered, side="right"),
            searchsorted(ordered, ordered, side="left"),
        )
        if spec_of(row).dtype.is_float:
            is_missing = isnan(ordered)
            missing = sum_over(convert(is_missing, spec_of(counts).dtype))
            counts = where(is_missing, missing, counts)
        return take(ordered, argmax(counts), axis=0), max_of(counts)

    values, counts = vmap(one)(rows)
    shape = list(rest)
    if keepdims:
        rank = len(as_operand(a).shape)
        shape = [1] * rank if axis is None else [*rest]
        if axis is not None:
            shape.insert(place % max(rank, 1), 1)
    return ModeResult(reshape(values, tuple(shape)), reshape(counts, tuple(shape)))


def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Any:
    """Return the ranks of elements in ascending order, as float64. The smallest element has rank 1.

    Args:
        method: the rank of equal elements. It is the "average", "min" or "max" of their positions in sorted order.
            "dense" is like "min", but without gaps between ranks. "ordinal" assigns distinct ranks in the order of the
            elements.
        axis: the axis along which to rank; None ranks all elements and returns a vector.
        nan_policy: must be "propagate": if there is a NaN, all ranks are NaN.

    Raises:
        InvalidConfigError: `method` is unknown.
        UnsupportedError: `nan_policy` is not "propagate".
        DTypeError: a is complex.

    >>> from tenferro import stats
    >>> stats.rankdata([10, 30, 10, 20])
    array([1.5, 4. , 1.5, 3. ])

    Source: scipy.stats.rankdata.
    """
    _require_propagate("rankdata", nan_policy)
    if method not in METHODS:
        raise InvalidConfigError(
            f"stats.rankdata: method must be one of {', '.join(METHODS)}, got {method!r}"
        )
    rows, rest, place = _rows("rankdata", a, axis)

    def one(row: Any) -> Any:
        order = argsort(row, stable=True)
        if method == "ordinal":
            ranks = convert(add(argsort(order), 1), DType.F64)
        else:
            ordered = take(row, order, axis=0)
            first = convert(searchsorted(ordered, row, side="left"), DType.F64)
            last = convert(searchsorted(ordered, row, side="right"), DType.F64)
            ranks = {"min": add(first, 1.0), "max": last}.get(
                method, multiply(0.5, add(add(first, 1.0), last))
            )
            if method == "dense":
                rises = convert(not_equal(ordered[1:], ordered[:-1]), DType.F64)
                steps = cumulative_sum(concat([zeros_like(first[:1]), rises]))
                ranks = add(take(steps, convert(first, DType.I64), axis=0), 1.0)
        if spec_of(row).dtype.is_float:
            ranks = where(any_of(isnan(row)), math.nan, ranks)
        return ranks

    ranks = vmap(one)(rows)
    return moveaxis(reshape(ranks, (*rest, rows.shape[-1])), -1, place)


def sem(
    a: ArrayLike, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Any:  # fmt: skip
    """Return the standard error of the mean: the square root of the variance divided by the number of elements.

    Args:
        axis: the axis, or None for all elements.
        ddof: the divisor of the variance is the number of elements minus `ddof`.
        nan_policy: "propagate", or "omit" to exclude NaN.

    Raises:
        UnsupportedError: `nan_policy` is neither "propagate" nor "omit".

    >>> from tenferro import stats
    >>> stats.sem([1.0, 2.0, 3.0, 4.0])
    array(0.64549722)

    Source: scipy.stats.sem.
    """
    _require_propagate("sem", nan_policy, ("propagate", "omit"))
    x = as_operand(a)
    x = convert(x, inexact_dtype(result_type(x)))
    if nan_policy == "omit":
        is_present = logical_not(isnan(x))
        count = sum_over(convert(is_present, spec_of(x).dtype), axis=axis, keepdims=True)
        mean = divide(sum_over(where(is_present, x, 0.0), axis=axis, keepdims=True), count)
        away = where(is_present, subtract(x, mean), 0.0)
        total = sum_over(square(away), axis=axis, keepdims=keepdims)
        count = sum_over(convert(is_present, spec_of(x).dtype), axis=axis, keepdims=keepdims)
        return sqrt(divide(divide(total, subtract(count, float(ddof))), count))
    count = product(x.shape) if axis is None else x.shape[axis]
    return sqrt(divide(var(x, axis=axis, correction=ddof, keepdims=keepdims), float(count)))


class gaussian_kde:  # noqa: N801  # because SciPy and JAX call it so
    """Density that is estimated from points: a sum of normal densities, one around each point.

    The covariance of each normal density is the covariance of the data times the square of a bandwidth.

    Args:
        dataset: numbers of shape [n], or n points in d dimensions, of shape [d, n].
        bw_method: the bandwidth: "scott" for n^(-1/(d+4)), the default; "silverman" for (n (d+2) / 4)^(-1/(d+4)); a
            number; or a function of this object that returns a number. With weights, 1 / (sum of squares of the
            normalised weights) replaces n.
        weights: the weights of the points, of shape [n]. By default all are equal.

    Raises:
        ShapeError: there are fewer than two numbers, or the number of weights differs from that of points.
        DTypeError: the points are complex.
        InvalidConfigError: `bw_method` is invalid.

    >>> from tenferro import stats
    >>> stats.gaussian_kde([-1.0, 0.0, 1.0])(0.0)
    array([0.31815622])

    Source: scipy.stats.gaussian_kde.
    """

    def __init__(
        self, dataset: ArrayLike, bw_method: str | float | Callable[..., Any] | None = None, weights: Any = None
    ) -> None:  # fmt: skip
        self.dataset = self._points(dataset)
        self.d, self.n = self.dataset.shape
        if self.dataset.shape[0] * self.dataset.shape[1] < 2:
            raise ShapeError(
                f"stats.gaussian_kde: takes two numbers at least, got {spec_of(self.dataset)}"
            )
        dtype = spec_of(self.dataset).dtype
        given = (
            broadcast_to(convert(1.0, dtype), (self.n,))
            if weights is None
            else convert(weights, dtype)
        )
        if tuple(given.shape) != (self.n,):
            raise ShapeError(
                f"stats.gaussian_kde: weights must be [{self.n}], one per point, got {spec_of(as_operand(given))}"
            )
        self.weights = divide(given, sum_over(given))
        self.neff = divide(1.0, sum_over(square(self.weights)))
        data = cov(self.dataset, rowvar=True, bias=False, aweights=self.weights)
        scale = square(self._factor("scott" if bw_method is None else bw_method))
        self.covariance = multiply(reshape(data, (self.d, self.d)), scale)
        self.inv_cov = inv(self.covariance)

    def _factor(self, method: Any) -> Any:
        power = -1.0 / (self.d + 4)
        if isinstance(method, str) and method in ("scott", "silverman"):
            factor = 1.0 if method == "scott" else (self.d + 2) / 4.0
            return pow(multiply(self.neff, factor), power)
        if callable(method):
            return method(self)
        if isinstance(method, str) or getattr(method, "shape", ()) != ():
            raise InvalidConfigError(
                f'stats.gaussian_kde: bw_method must be "scott", "silverman", a number or a function, got {method!r}'
            )
        return method

    def _points(self, points: ArrayLike) -> Any:
        x = as_operand(points)
        dtype = inexact_dtype(result_type(x))
        if dtype.is_complex or len(x.shape) > 2:
            raise DTypeError(
                f"stats.gaussian_kde: takes real points [n] or [d, n], got {spec_of(x)}"
            )
        x = convert(x, dtype)
        if len(x.shape) == 2:
            return x
        d = getattr(self, "d", 1)
        is_point = len(x.shape) == 1 and d > 1 and x.shape[0] == d
        return reshape(x, (d, 1) if is_point else (1, product(x.shape)))

    def _at(self, points: ArrayLike) -> Any:
        x = self._points(points)
        if x.shape[0] != self.d:
            raise ShapeError(f"stats.gaussian_kde: points must be [{self.d}, m], got {spec_of(x)}")
        return x

    def evaluate(self, points: ArrayLike) -> Any:
        """Return the density at m points of shape [d, m], or at m numbers of shape [m]."""
        return exp(self.logpdf(points))

    __call__ = pdf = evaluate

    def logpdf(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density at m points of shape [d, m], or at m numbers of shape [m]."""
        x = self._at(x)
        factor = cholesky(self.covariance)
        first, second = [solve_triangular(factor, y, lower=True) for y in (x, self.dataset)]
        away = subtract(expand_dims(first, axis=2), expand_dims(second, axis=1))
        size = add(sum_over(square(away), axis=0), self._log_volume(factor))
        return logsumexp(multiply(-0.5, size), axis=-1, b=self.weights)

    def _log_volume(self, factor: Any) -> Any:
        """Return log det(2 pi C), where `factor` is the Cholesky factor of C."""
        return add(multiply(2.0, sum_over(log(diagonal(factor)))), self.d * math.log(2 * math.pi))

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Any:
        """Return the integral of the product of this density and a normal density.

        The normal density has the mean `mean` [d] and the covariance `cov` [d, d].
        """
        mean = reshape(mean, (self.d, 1))
        cov = reshape(cov, (self.d, self.d))
        return sum_over(
            multiply(self.weights, self._overlaps(mean, add(self.covariance, cov))[:, 0])
        )

    def _overlaps(self, points: Any, covariance: Any) -> Any:
        """Compute the normal density with mean 0 of the difference of each data point and each of `points`: [n, m]."""
        factor = cholesky(covariance)
        first, second = [solve_triangular(factor, y, lower=True) for y in (self.dataset, points)]
        away = subtract(expand_dims(first, axis=2), expand_dims(second, axis=1))
        return exp(multiply(-0.5, add(sum_over(square(away), axis=0), self._log_volume(factor))))

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Any:
        """Return the probability of the interval from `low` to `high`, for a density of one dimension.

        Raises:
            ShapeError: the points have more than one dimension.
        """
        if self.d != 1:
            raise ShapeError(
                f"stats.gaussian_kde: integrate_box_1d needs a density of one dimension, got d = {self.d}"
            )
        sigma = sqrt(self.covariance[0, 0])
        ends = [ndtr(divide(subtract(x, self.dataset[0]), sigma)) for x in (low, high)]
        return sum_over(multiply(self.weights, subtract(ends[1], ends[0])))

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """Return the integral of the product of this density and another estimated density.

        Raises:
            ShapeError: the points of the other density have another dimension.
        """
        if other.d != self.d:
            raise ShapeError(
                f"stats.gaussian_kde: integrate_kde needs two densities of one dimension, got {self.d} and {other.d}"
            )
        overlaps = self._overlaps(other.dataset, add(self.covariance, other.covariance))
        return sum_over(multiply(self.weights, matmul(overlaps, other.weights)))

    def resample(self, key: ArrayLike, shape: Shape = ()) -> Any:
        """Draw points [d, *shape] from the estimated density."""
        first, second = split(key)
        dtype = spec_of(self.dataset).dtype
        extents = shape_of_samples("gaussian_kde.resample", shape)
        index = choice(first, self.n, extents, p=self.weights)
        kernel = matmul(
            cholesky(self.covariance), normal(second, (self.d, product(extents)), dtype)
        )
        return add(take(self.dataset, index, axis=1), reshape(kernel, (self.d, *extents)))
