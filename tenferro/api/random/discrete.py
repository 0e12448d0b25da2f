"""Random integers, bools, choices, permutations and counts.

Source: `jax.random` for functions, signatures and bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tenferro.api.axes import normalize_axis
from tenferro.api.control import scan, while_loop
from tenferro.api.creation import full, zeros_like
from tenferro.api.data_types import finfo
from tenferro.api.elementwise import (
    abs,
    add,
    ceil,
    clip,
    divide,
    equal,
    floor,
    fmod,
    greater,
    greater_equal,
    isnan,
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
    sqrt,
    subtract,
    where,
)  # fmt: skip
from tenferro.api.indexing import getitem, take
from tenferro.api.manipulation import flip, moveaxis, reshape, unstack
from tenferro.api.promotion import (
    as_inexact,
    broadcast_to,
    convert,
    inexact_dtype,
    promote,
    result_type,
)
from tenferro.api.random.generator import (
    UNSIGNED,
    bits,
    checked_key,
    float_dtype,
    gumbel,
    keys,
    require_fits,
    require_mode,
    shape_of_samples,
    split,
    uniform,
)
from tenferro.api.reductions import any as any_of
from tenferro.api.reductions import cumulative_sum
from tenferro.api.searching import argmax, searchsorted, top_k
from tenferro.dims import product
from tenferro.dispatch import apply, as_operand, spec_of, stop_gradient
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.ops.reduction import Sort
from tenferro.types import ArrayLike, DType, DTypeLike, Shape, Tensor

__all__ = [
    "bernoulli", "binomial", "categorical", "choice", "geometric", "multinomial", "permutation", "poisson", "rademacher", "randint",
]  # fmt: skip


def randint(
    key: ArrayLike,
    shape: Shape,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike | None = "int64",
) -> Any:
    """Draw uniform integers in [minval, maxval). If the range is empty, the result is minval.

    A number is minval + (2^n high + low) mod span, where high and low are random words of n bits, and span is
    maxval - minval. The bias is below span / 2^(2 n).

    Args:
        minval, maxval: integers or integer tensors. A bound outside the dtype's range is clamped.

    Raises:
        DTypeError: the dtype or a bound is not an integer, or the key is invalid.
        ShapeError: the bounds do not broadcast to `shape`.
    """
    kind = DType.of(dtype)
    if not kind.is_integer:
        raise DTypeError(f"randint: dtype must be an integer dtype, got {kind}")
    extents = shape_of_samples("randint", shape)
    limits = np.iinfo(kind.dtype)
    bounds = (int(limits.min), int(limits.max))
    if kind.bits < 32:
        # Numbers of narrow dtypes are drawn from words of 32 bits. With fewer bits, some numbers would be more likely.
        low, _ = _end(minval, DType.I32, bounds, extents)
        high, _ = _end(maxval, DType.I32, (bounds[0], bounds[1] + 1), extents)
        return convert(_between(key, extents, DType.I32, low, high, np.array(False)), kind)
    low, _ = _end(minval, kind, bounds, extents)
    high, is_beyond = _end(maxval, kind, bounds, extents)
    return _between(key, extents, kind, low, high, is_beyond)


def _between(
    key: ArrayLike,
    shape: tuple[Any, ...],
    kind: DType,
    low: Tensor,
    high: Tensor,
    is_beyond: np.ndarray[Any, Any],
) -> Any:
    """Draw integers in [low, high). Where `is_beyond` (the bound was above the dtype's range), high is included."""
    word = UNSIGNED[kind.bits]
    is_empty = less_equal(high, low)
    span = convert(subtract(high, low), word)
    span = where(is_empty, np.ones((), word.dtype), span)
    beyond = logical_and(is_beyond, greater(high, low))
    span = where(beyond, add(span, np.ones((), word.dtype)), span)
    first, second = (bits(k, shape, word) for k in keys(key, 2))
    # For words of n bits, a span of 2^n wraps around to 0. Every word is then a valid offset.
    is_all = equal(span, np.zeros((), word.dtype))
    divisor = where(is_all, np.ones((), word.dtype), span)
    half = fmod(np.array(2 ** (kind.bits // 2), word.dtype), divisor)
    factor = fmod(multiply(half, half), divisor)
    offset = fmod(add(multiply(fmod(first, divisor), factor), fmod(second, divisor)), divisor)
    return add(low, convert(where(is_all, second, offset), kind))


def _end(
    value: ArrayLike, dtype: DType, limits: tuple[int, int], shape: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Clamp a bound to the range `limits` and convert it to `dtype`.

    Return the bound, and whether it was above the range.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        moved = min(max(value, limits[0]), limits[1])
        return np.array(moved, dtype.dtype), np.array(value > limits[1])
    x = as_operand(value)
    spec = spec_of(x)
    if not spec.dtype.is_integer:
        raise DTypeError(f"randint: bounds must be integers, got {spec}")
    require_fits("randint", x.shape, shape)
    own = np.iinfo(spec.dtype.dtype)
    least, most = np.array([max(limits[0], own.min), min(limits[1], own.max)], spec.dtype.dtype)
    return convert(minimum(maximum(x, least), most), dtype), greater(x, most)


def bernoulli(
    key: ArrayLike, p: ArrayLike = 0.5, shape: Shape | None = None, mode: str = "low"
) -> Any:
    """Draw bools that are True with probability p.

    Args:
        p: a number or a tensor, whose shape is the default shape of the samples.
        mode: "high" draws twice as many bits, so that a small p is not rounded to a multiple of eps.

    Raises:
        InvalidConfigError: `mode` is unknown.
    """
    require_mode("bernoulli", mode)
    probability = as_operand(p)
    if not spec_of(probability).dtype.is_float:
        probability = convert(probability, DType.F64)
    extents = tuple(probability.shape) if shape is None else shape_of_samples("bernoulli", shape)
    require_fits("bernoulli", probability.shape, extents)
    kind = spec_of(probability).dtype
    if mode == "high":
        upper, lower = unstack(uniform(key, (2, *extents), kind))
        return less(multiply(lower, finfo(kind).eps), subtract(probability, upper))
    return less(uniform(key, extents, kind), probability)


def categorical(
    key: ArrayLike, logits: ArrayLike, axis: int = -1, shape: Shape | None = None, replace: bool = True, mode: str | None = None
) -> Any:  # fmt: skip
    """Draw indices along `axis` with probabilities softmax(logits), as argmax(logits + g) of Gumbel numbers g.

    Args:
        shape: the shape of the result. It must end with the shape of logits without `axis`, which is the default.
        replace: whether the draws along the leading axes of `shape` may repeat an index. If not, they are the indices of
            the largest numbers logits + g.
        mode: as in `gumbel`.

    Raises:
        DTypeError: the logits are not floats, or the key is invalid.
        ShapeError: `shape` does not end with this shape.
        InvalidConfigError: there are fewer indices than draws without replacement.
    """
    x = as_operand(logits)
    kind = float_dtype("categorical", spec_of(x).dtype)
    axis = normalize_axis("categorical", axis, len(x.shape))
    batch = tuple(extent for i, extent in enumerate(x.shape) if i != axis)
    extents = batch if shape is None else shape_of_samples("categorical", shape)
    lead = extents[: len(extents) - len(batch)]
    if extents[len(lead) :] != batch:
        raise ShapeError(
            f"categorical: shape {extents} does not end in {batch}, that of the logits"
        )
    if not replace:
        draws, count = product(lead), x.shape[axis]
        if draws > count:
            raise InvalidConfigError(f"categorical: {draws} draws from {count} without replacement")
        noisy = moveaxis(add(gumbel(key, x.shape, kind, mode), x), axis, -1)
        return reshape(moveaxis(top_k(noisy, int(draws))[1], -1, 0), extents)
    noise = gumbel(key, (*lead, *x.shape), kind, mode)
    return argmax(add(noise, x), axis=axis + len(lead))


def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False) -> Any:
    """Shuffle the slices of x along `axis`. If x is an integer, shuffle the integers from 0 to x - 1.

    The slices are sorted by random words. For large x, two words may be equal, so the slices are sorted repeatedly.

    Args:
        independent: whether each vector along `axis` is shuffled separately.

    Raises:
        DTypeError: x is a scalar that is not an integer, or the key is invalid.
        InvalidConfigError: x is a negative integer.
    """
    if isinstance(x, int):
        if x < 0:
            raise InvalidConfigError(f"permutation: x must be at least 0, got {x}")
        return _shuffled(key, np.arange(x), 0)
    array = as_operand(x)
    if not array.shape:
        raise DTypeError(f"permutation: x must be an integer or have axes, got {spec_of(array)}")
    axis = normalize_axis("permutation", axis, len(array.shape))
    if independent or len(array.shape) == 1:
        return _shuffled(key, array, axis)
    return take(array, _shuffled(key, np.arange(array.shape[axis]), 0), axis=axis)


def _shuffled(key: ArrayLike, x: Tensor, axis: int) -> Any:
    rounds = math.ceil(3 * math.log(max(1, product(x.shape))) / math.log(2**32 - 1))
    k = checked_key("permutation", key)
    for _ in range(rounds):
        k, now = keys(k, 2)
        _, x = apply(Sort(axis, True, 2), bits(now, tuple(x.shape)), x)
    return x


def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: Shape = (),
    replace: Any = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Any:
    """Draw slices of `a` along `axis` with probabilities p. If `a` is an integer, draw integers from 0 to a - 1.

    Args:
        replace: whether a slice may be drawn more than once.
        p: a vector of probabilities; by default all are equal.
        mode: as in `gumbel`; it matters only for draws with `p` and without replacement.

    Raises:
        InvalidConfigError: there are no slices, or fewer slices than draws without replacement.
        ShapeError: the length of p is not the number of slices.
    """
    extents = shape_of_samples("choice", shape)
    array = None if isinstance(a, int) else as_operand(a)
    if array is not None and not array.shape:
        raise DTypeError(f"choice: a must be an integer or have axes, got {spec_of(array)}")
    axis = 0 if array is None else normalize_axis("choice", axis, len(array.shape))
    count: Any = a if array is None else array.shape[axis]
    draws = product(extents)
    if draws and (count <= 0 or (not replace and draws > count)):
        raise InvalidConfigError(
            f"choice: {draws} draws from {count}" + ("" if replace else " without replacement")
        )
    if not draws:
        places = full(extents, 0, dtype=DType.I64)
    elif p is None and replace:
        places = randint(key, extents, 0, count)
    elif p is None:
        places = reshape(getitem(permutation(key, count), slice(draws)), extents)
    else:
        places = _weighted(key, p, count, extents, replace, mode)
    if array is None:
        return places
    if 0 in array.shape and not draws:
        return full(
            (*array.shape[:axis], *extents, *array.shape[axis + 1 :]), 0, dtype=spec_of(array).dtype
        )
    return getitem(array, (*[slice(None)] * axis, places))


def _weighted(
    key: ArrayLike, p: ArrayLike, count: Any, shape: tuple[Any, ...], replace: bool, mode: str | None
) -> Any:  # fmt: skip
    weights = as_operand(p)
    kind = spec_of(weights).dtype
    if not kind.is_float:
        kind, weights = DType.F64, convert(weights, DType.F64)
    if tuple(weights.shape) != (count,):
        raise ShapeError(
            f"choice: p must have shape ({count},), one per slice, got {weights.shape}"
        )
    if replace:
        total = cumulative_sum(weights, axis=0)
        level = multiply(subtract(1.0, uniform(key, shape, kind)), getitem(total, -1))
        return searchsorted(total, level)
    noise = add(gumbel(key, (count,), kind, mode), log(weights))
    return reshape(top_k(noise, int(product(shape)))[1], shape)


def rademacher(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "int64") -> Any:
    """Draw -1 and 1 with equal probabilities.

    Raises:
        DTypeError: the dtype has no signed numbers, or the key is invalid.

    Source: jax.random.rademacher.
    """
    kind = DType.of(dtype)
    if not kind.is_integer and not kind.is_inexact:
        raise DTypeError(f"rademacher: dtype must have signed numbers, got {kind}")
    extents = shape_of_samples("rademacher", shape)
    samples = convert(bernoulli(key, 0.5, extents), kind)
    return subtract(multiply(samples, np.array(2, kind.dtype)), np.array(1, kind.dtype))


def geometric(
    key: ArrayLike, p: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "int64"
) -> Any:
    """Draw from the geometric distribution: the number of trials until the first success, which has probability p.

    A sample is 1 + floor(log u / log(1 - p)), where u is uniform.

    Raises:
        DTypeError: the dtype is not an integer, or the key is invalid. ShapeError: as for `uniform`.

    Source: jax.random.geometric.
    """
    kind = DType.of(dtype)
    if not kind.is_integer:
        raise DTypeError(f"geometric: dtype must be an integer dtype, got {kind}")
    probability = as_inexact(p)
    extents = tuple(probability.shape) if shape is None else shape_of_samples("geometric", shape)
    require_fits("geometric", probability.shape, extents)
    u = uniform(key, extents, spec_of(probability).dtype)
    trials = add(floor(divide(log(u), log1p(negative(probability)))), 1.0)
    return convert(trials, kind)


def poisson(
    key: ArrayLike, lam: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "int64"
) -> Any:
    """Draw from the Poisson distribution of rate lam.

    Rates below 10 use products of uniform numbers, and larger rates use rejection. Rates are rounded to float32, as in
    `jax.random`.

    Raises:
        DTypeError: the dtype is not an integer, or the key is invalid. ShapeError: as for `uniform`.

    Source: jax.random.poisson. Hoermann, "The transformed rejection method for generating Poisson random variables", 1993.
    """
    kind = DType.of(dtype)
    if not kind.is_integer:
        raise DTypeError(f"poisson: dtype must be an integer dtype, got {kind}")
    rate = convert(as_operand(lam), DType.F32)
    extents = tuple(rate.shape) if shape is None else shape_of_samples("poisson", shape)
    require_fits("poisson", rate.shape, extents)
    rate = stop_gradient(broadcast_to(rate, extents))
    k = checked_key("poisson", key)
    is_small = logical_or(isnan(rate), less(rate, 10.0))
    few = _poisson_by_products(k, where(is_small, rate, 0.0), extents)
    many = _poisson_by_rejection(k, where(is_small, 1e5, rate), extents)
    result = convert(where(is_small, few, many), kind)
    return where(equal(rate, 0.0), np.zeros((), kind.dtype), result)


def _poisson_by_products(key: Tensor, rate: Tensor, shape: tuple[Any, ...]) -> Any:
    """Count the uniform numbers that can be multiplied before their product is at most exp(-rate)."""

    def step(state: Any) -> Any:
        count, key, total = state
        key, now = keys(key, 2)
        count = where(greater(total, negative(rate)), add(count, 1.0), count)
        return count, key, add(total, log(uniform(now, shape, DType.F32)))

    start = (zeros_like(rate), key, zeros_like(rate))
    is_active = lambda state: any_of(greater(state[2], negative(rate)))  # noqa: E731
    return subtract(while_loop(is_active, step, start)[0], 1.0)


def _poisson_by_rejection(key: Tensor, rate: Tensor, shape: tuple[Any, ...]) -> Any:
    kind = spec_of(rate).dtype
    b = add(0.931, multiply(2.53, sqrt(rate)))
    a = add(-0.059, multiply(0.02483, b))
    inverse = add(1.1239, divide(1.1328, subtract(b, 3.4)))
    limit = subtract(0.9277, divide(3.6224, subtract(b, 2.0)))

    def step(state: Any) -> Any:
        sample, is_accepted, key = state
        key, first, second = keys(key, 3)
        u = subtract(uniform(first, shape, kind), 0.5)
        v = uniform(second, shape, kind)
        us = subtract(0.5, abs(u))
        k = floor(add(add(multiply(add(divide(multiply(2.0, a), us), b), u), rate), 0.43))
        s = log(divide(multiply(v, inverse), add(divide(a, multiply(us, us)), b)))
        bound = subtract(add(negative(rate), multiply(k, log(rate))), lgamma(add(k, 1.0)))
        is_inside = logical_and(greater_equal(us, 0.07), less_equal(v, limit))
        is_outside = logical_or(less(k, 0.0), logical_and(less(us, 0.013), greater(v, us)))
        accept = logical_or(is_inside, logical_and(logical_not(is_outside), less_equal(s, bound)))
        return where(accept, k, sample), logical_or(is_accepted, accept), key

    start = (subtract(zeros_like(rate), 1.0), greater(zeros_like(rate), 0.0), key)
    return while_loop(lambda state: any_of(logical_not(state[1])), step, start)[0]


def binomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = "float64",
) -> Any:
    """Draw from the binomial distribution: the number of successes in n trials with probability p, as floats.

    Where n min(p, 1-p) <= 10, geometric numbers are added until their sum is above n. Elsewhere transformed rejection
    is used. n is rounded down. The result is inf for n = inf, and NaN for NaN or n < 0.

    Args:
        n, p: numbers or tensors. The default shape of the samples is the shape to which n and p broadcast.

    Raises:
        DTypeError: the dtype is not a float, or the key is invalid. ShapeError: as for `uniform`.

    Source: jax.random.binomial; Hoermann, Journal of Statistical Computation and Simulation 46 (1993), 101-110.
    """
    kind = float_dtype("binomial", dtype)
    count, probability = (
        stop_gradient(x) for x in promote(n, p, dtype=inexact_dtype(result_type(p)))
    )
    extents = tuple(count.shape) if shape is None else shape_of_samples("binomial", shape)
    require_fits("binomial", count.shape, extents)
    drawn = _binomial(checked_key("binomial", key), count, probability, extents)
    return convert(drawn, kind)


def _binomial(key: Tensor, n: Tensor, p: Tensor, shape: tuple[Any, ...]) -> Any:
    n, p = broadcast_to(n, shape), broadcast_to(p, shape)
    is_low = less(p, 0.5)
    q = where(is_low, p, subtract(1.0, p))
    has_no_count = logical_or(isnan(n), less(n, 0.0))
    has_no_share = logical_or(isnan(q), less(q, 0.0))
    is_endless = equal(abs(n), math.inf)
    q = where(has_no_share, 0.01, q)
    is_few = logical_or(has_no_count, less_equal(multiply(n, q), 10.0))
    whole = where(is_endless, 0.0, floor(n))
    is_few = logical_or(is_few, is_endless)
    few = _binomial_by_sums(key, where(is_few, whole, 0.0), q)
    many = _binomial_by_rejection(key, where(is_few, 1e4, whole), where(is_few, 0.5, q))
    is_wrong = logical_or(has_no_count, has_no_share)
    drawn = where(is_wrong, math.nan, where(is_endless, math.inf, where(is_few, few, many)))
    as_drawn = logical_or(logical_or(is_low, is_wrong), is_endless)
    return where(as_drawn, drawn, subtract(whole, drawn))


def _binomial_by_sums(key: Tensor, n: Tensor, p: Tensor) -> Any:
    """Count the geometric numbers that can be added before their sum is above n."""
    kind, shape, log_failure = spec_of(p).dtype, tuple(p.shape), log1p(negative(p))

    def step(state: Any) -> Any:
        count, total, key = state
        now, key = keys(key, 2)
        count = where(less_equal(total, n), add(count, 1.0), count)
        return count, add(total, ceil(divide(log(uniform(now, shape, kind)), log_failure))), key

    start = (zeros_like(p), zeros_like(p), key)
    is_active = lambda state: any_of(less_equal(state[1], n))  # noqa: E731  # because it is an argument
    return subtract(while_loop(is_active, step, start)[0], 1.0)


STIRLING_TAILS = tuple(
    float(
        math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))
    )
    for k in range(10)
)
"""Differences of log k! and Stirling's (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2, for k = 0 to 9."""


def _stirling_tail(k: Tensor) -> Any:
    """Return the difference of log k! and Stirling's formula.

    It is read from `STIRLING_TAILS`, or for k >= 10 from a series.
    """
    is_small = less_equal(k, 9.0)
    small, large = where(is_small, k, 0.0), where(is_small, 9.0, k)
    known = np.array(STIRLING_TAILS, spec_of(k).dtype.dtype)
    step = add(large, 1.0)
    square = multiply(step, step)
    inner = divide(subtract(1 / 360, divide(1 / 1260, square)), square)
    series = divide(subtract(1 / 12, inner), step)
    index = convert(maximum(floor(small), 0.0), DType.I64)
    return where(is_small, take(known, index, axis=0), series)


def _binomial_by_rejection(key: Tensor, n: Tensor, p: Tensor) -> Any:
    kind, shape = spec_of(p).dtype, tuple(p.shape)
    deviation = sqrt(multiply(multiply(n, p), subtract(1.0, p)))
    b = add(1.15, multiply(2.53, deviation))
    a = add(add(-0.0873, multiply(0.0248, b)), multiply(0.01, p))
    centre = add(multiply(n, p), 0.5)
    limit = subtract(0.92, divide(4.2, b))
    odds = divide(p, subtract(1.0, p))
    alpha = multiply(add(2.83, divide(5.1, b)), deviation)
    mode = floor(multiply(add(n, 1.0), p))
    above = add(subtract(n, mode), 1.0)

    def bound(k: Tensor) -> Any:
        over = add(subtract(n, k), 1.0)
        terms = multiply(add(mode, 0.5), log(divide(add(mode, 1.0), multiply(odds, above))))
        terms = add(terms, multiply(add(n, 1.0), log(divide(above, over))))
        terms = add(terms, multiply(add(k, 0.5), log(divide(multiply(odds, over), add(k, 1.0)))))
        tails = add(add(terms, _stirling_tail(mode)), _stirling_tail(subtract(n, mode)))
        return subtract(subtract(tails, _stirling_tail(k)), _stirling_tail(subtract(n, k)))

    def step(state: Any) -> Any:
        sample, is_accepted, key = state
        key, first, second = keys(key, 3)
        u = subtract(uniform(first, shape, kind), 0.5)
        v = uniform(second, shape, kind)
        us = subtract(0.5, abs(u))
        is_inside = logical_and(greater_equal(us, 0.07), less_equal(v, limit))
        k = floor(add(multiply(add(divide(multiply(2.0, a), us), b), u), centre))
        is_outside = logical_or(less(k, 0.0), greater(k, n))
        inner = where(is_outside, mode, k)
        height = log(divide(multiply(v, alpha), add(divide(a, multiply(us, us)), b)))
        is_below = logical_and(logical_not(is_outside), less_equal(height, bound(inner)))
        accept = logical_or(is_inside, is_below)
        return where(accept, k, sample), logical_or(is_accepted, accept), key

    start = (subtract(zeros_like(p), 1.0), greater(zeros_like(p), 0.0), key)
    return while_loop(lambda state: any_of(logical_not(state[1])), step, start)[0]


def multinomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: Shape | None = None,
    dtype: DTypeLike | None = "float64",
    unroll: int | bool = 1,
) -> Any:
    """Draw from the multinomial distribution: how often each outcome occurs in n trials, as floats.

    The counts are drawn one outcome after another. Each is a binomial sample of the trials that remain.

    Args:
        p: the probabilities of the outcomes, along the last axis.
        n: the numbers of trials, which broadcast to the other axes of p.
        shape: the shape of the result, including the axis of outcomes. The default is that of p.
        unroll: has no effect. In JAX it is the unroll factor of the loop.

    Raises:
        DTypeError: the dtype is not a float, or the key is invalid.
        ShapeError: p has no axes, or the shapes do not match.

    Source: jax.random.multinomial.
    """
    kind = float_dtype("multinomial", dtype)
    common = inexact_dtype(result_type(n, p))
    count, probability = (stop_gradient(convert(x, common)) for x in (n, p))
    if not probability.shape:
        raise ShapeError("multinomial: p must have outcomes along its last axis, got a number")
    extents = tuple(probability.shape) if shape is None else shape_of_samples("multinomial", shape)
    require_fits("multinomial", probability.shape, extents)
    require_fits("multinomial", count.shape, extents[:-1])
    k = checked_key("multinomial", key)
    shares = moveaxis(broadcast_to(probability, extents), -1, 0)
    left = flip(cumulative_sum(flip(shares, axis=0), axis=0), axis=0)
    ratios = clip(divide(shares, where(equal(left, 0.0), 1.0, left)), 0.0, 1.0)

    def step(remainder: Any, each: Any) -> Any:
        ratio, own = each
        drawn = _binomial(own, remainder, ratio, extents[:-1])
        return subtract(remainder, drawn), drawn

    start = broadcast_to(count, extents[:-1])
    _, counts = scan(step, start, (ratios, split(k, extents[-1])))
    return convert(moveaxis(counts, 0, -1), kind)
