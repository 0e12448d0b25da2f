"""`tenferro.random`: random numbers from keys, the same on every peer.

A key is two uint32; there is no other state. The bits of a key are the images of 0, 1, 2, ..
under Threefry-2x32, so they do not depend on the order in which they are computed, on the machine, or on
whether they are computed at once or in a program; `split` and `fold_in` derive independent keys from one. Use a
key once. Bits, integers, orders and uniform numbers in [0, 1) are those of `jax.random` with its default
generator; after a logarithm or erfinv the last bits are the peer's.

Floats are float64 by default, integers int64. Gradients flow to the parameters of `uniform`
(bounds); samples of discrete distributions have none.

>>> from tenferro import random
>>> key = random.key(0)
>>> first, second = random.split(key)
>>> random.uniform(first, (3,), dtype="float32")
array([0.8423141 , 0.18237865, 0.2271781 ], dtype=float32)

Source: Salmon, Moraes, Dror and Shaw (SC 2011) for the generator; the module of that name in JAX for
functions and signatures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.api.axes import normalize_axis
from tenferro.api.creation import asarray, full
from tenferro.api.custom import custom_jvp
from tenferro.api.data_types import finfo
from tenferro.api.elementwise import (
    add,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    equal,
    erfinv,
    fmod,
    greater,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    maximum,
    minimum,
    multiply,
    negative,
    pow,
    sqrt,
    square,
    subtract,
    where,
)
from tenferro.api.indexing import getitem, take
from tenferro.api.manipulation import reshape, stack, unstack
from tenferro.api.promotion import broadcast_shapes, broadcast_to, convert
from tenferro.api.reductions import cumulative_sum
from tenferro.api.searching import argmax, searchsorted, top_k
from tenferro.dims import is_static, product
from tenferro.door import apply, apply_one, as_operand, is_traced, spec_of
from tenferro.errors import ADRuleUnsupportedError, DTypeError, InvalidConfigError, ShapeError
from tenferro.ext.random.families import Threefry2x32
from tenferro.extension import apply as apply_extension
from tenferro.ops.elementwise import BitcastConvert
from tenferro.ops.reduction import Sort
from tenferro.ops.source import Iota
from tenferro.types import ArrayLike, DType, DTypeLike, PyTree, Shape, Tensor

__all__ = [
    "bernoulli",
    "bits",
    "categorical",
    "choice",
    "exponential",
    "fold_in",
    "gamma",
    "gumbel",
    "key",
    "normal",
    "permutation",
    "randint",
    "split",
    "uniform",
]

_UNSIGNED = {8: DType.U8, 16: DType.U16, 32: DType.U32, 64: DType.U64}
_MANTISSA = {DType.F16: 10, DType.BF16: 7, DType.F32: 23, DType.F64: 52}


# ---- keys ----------------------------------------------------------------------------------------


def key(seed: ArrayLike) -> Any:
    """The key of a seed: its high and its low 32 bits, as uint32[2].

    Args:
        seed: an integer of 64 bits, or an integer scalar tensor.

    Raises:
        DTypeError: a seed that is not an integer.
        InvalidConfigError: one of more than 64 bits.

    >>> key(42)
    array([ 0, 42], dtype=uint32)
    """
    if isinstance(seed, int):
        if not -(2**63) <= seed < 2**64:
            raise InvalidConfigError(f"key: a seed has 64 bits, got {seed}")
        words = (seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF)
        return np.array(words, np.uint32)
    x = as_operand(seed)
    spec = spec_of(x)
    if not spec.dtype.is_integer or spec.rank:
        raise DTypeError(f"key: a seed is an integer scalar, got {spec}")
    x = convert(convert(x, DType.I64), DType.U64)
    high = bitwise_right_shift(x, np.uint64(32))
    return stack([convert(high, DType.U32), convert(fmod(x, np.uint64(2**32)), DType.U32)])


def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Any:
    """Independent keys: uint32[num, 2], or [*num, 2].

    Raises:
        InvalidConfigError, DTypeError: an invalid key.

    >>> split(np.array([0, 0], np.uint32))
    array([[1797259609, 2579123966],
           [ 928981903, 3453687069]], dtype=uint32)
    """
    shape = _shape_of("split", num)
    return stack(list(_words("split", key, shape)), axis=len(shape))


def fold_in(key: ArrayLike, data: ArrayLike) -> Any:
    """The key derived from a key and `data`, a 32-bit number such as a step or a process.

    Raises:
        InvalidConfigError, DTypeError: an invalid key, or a number of more than 32 bits.
    """
    k = _checked("fold_in", key)
    if isinstance(data, int):
        if not -(2**31) <= data < 2**32:
            raise InvalidConfigError(f"fold_in: data has 32 bits, got {data}")
        data = np.uint32(data % 2**32)
    number = as_operand(data)
    spec = spec_of(number)
    if not spec.dtype.is_integer or spec.rank:
        raise DTypeError(f"fold_in: data is an integer scalar, got {spec}")
    word = convert(number, DType.U32)
    return stack(list(_threefry(k, np.zeros((), np.uint32), word)))


def _checked(name: str, key: ArrayLike) -> Any:
    k = as_operand(key)
    spec = spec_of(k)
    if spec.dtype is not DType.U32 or spec.shape != (2,):
        raise DTypeError(f"{name}: a key is u32[2], as random.key(seed) gives, got {spec}")
    return k


def _shape_of(name: str, shape: Shape) -> tuple[Any, ...]:
    extents = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    for extent in extents:
        if is_static(extent) and (not isinstance(extent, int | np.integer) or extent < 0):
            raise InvalidConfigError(f"{name}: a shape has extents of at least 0, got {shape!r}")
    return extents


# ---- bits ----------------------------------------------------------------------------------------


def _threefry(key: Tensor, x0: Tensor, x1: Tensor) -> tuple[Any, Any]:
    return apply_extension(Threefry2x32(), key, x0, x1)


def _words(name: str, key: ArrayLike, shape: tuple[Any, ...]) -> tuple[Any, Any]:
    """Both words of the images of 0, 1, 2, .. in an array's row-major order."""
    k = _checked(name, key)
    size = product(shape)
    if is_static(size) and size < 2**32:
        low = apply_one(Iota((int(size),), 0, DType.U32), like=k)
        high = broadcast_to(asarray(np.uint32(0), like=k if is_traced(k) else None), (int(size),))
    else:
        counts = apply_one(Iota((size,), 0, DType.U64), like=k)
        low = convert(fmod(counts, np.uint64(2**32)), DType.U32)
        high = convert(bitwise_right_shift(counts, np.uint64(32)), DType.U32)
    y0, y1 = _threefry(k, high, low)
    return reshape(y0, shape), reshape(y1, shape)


def bits(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "uint32") -> Any:
    """Uniform random bits: all numbers of an unsigned dtype are equally likely.

    Raises:
        DTypeError: a dtype that is not an unsigned integer; an invalid key.
        InvalidConfigError: a negative extent.

    >>> bits(np.array([0, 0], np.uint32), (2,))
    array([4070199207, 4202968722], dtype=uint32)
    """
    kind = DType.of(dtype)
    if kind not in _UNSIGNED.values():
        raise DTypeError(f"bits: an unsigned integer dtype, got {kind}")
    first, second = _words("bits", key, _shape_of("bits", shape))
    if kind is not DType.U64:
        return convert(bitwise_xor(first, second), kind)
    high = multiply(convert(first, DType.U64), np.uint64(2**32))
    return bitwise_or(high, convert(second, DType.U64))


# ---- continuous distributions --------------------------------------------------------------------


def _float_dtype(name: str, dtype: DTypeLike | None) -> DType:
    kind = DType.of(dtype)
    if not kind.is_float:
        raise DTypeError(f"{name}: a float dtype, got {kind}")
    return kind


def uniform(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = "float64",
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Any:
    """Uniform numbers in [minval, maxval).

    Random bits are the fraction of a number in [1, 2), from which 1 is subtracted.

    Args:
        minval, maxval: numbers or tensors that broadcast to `shape`.

    Raises:
        DTypeError: a dtype that is not a float; an invalid key.
        ShapeError: bounds that do not broadcast to `shape`.
    """
    kind = _float_dtype("uniform", dtype)
    extents = _shape_of("uniform", shape)
    width, mantissa = kind.bits, _MANTISSA[kind]
    drawn = 8 if mantissa < 8 else width
    word = _UNSIGNED[width]
    fraction = convert(bits(key, extents, _UNSIGNED[drawn]), word)
    fraction = bitwise_right_shift(fraction, np.array(drawn - mantissa, word.dtype))
    one = np.ones((), kind.dtype)
    number = apply_one(BitcastConvert(kind), bitwise_or(fraction, one.view(word.dtype)))
    unit = subtract(number, one)
    is_unit = type(minval) in (int, float) and type(maxval) in (int, float)
    if is_unit and (minval, maxval) == (0, 1):
        return unit
    low = _parameter("uniform", minval, kind, extents)
    high = _parameter("uniform", maxval, kind, extents)
    span = _difference(high, low)
    # The product is never above the span. This bound keeps compilers from fusing it with the sum
    # that follows, which would round once instead of twice, and change the bits.
    return maximum(low, add(minimum(multiply(unit, span), span), low))


def _difference(x: Any, y: Any) -> Any:
    """x - y, of arrays by NumPy: bounds are usually numbers, and tracing loads no executor."""
    if is_traced(x) or is_traced(y):
        return subtract(x, y)
    with np.errstate(all="ignore"):
        return np.subtract(x, y)


def _parameter(name: str, value: ArrayLike, dtype: DType, shape: tuple[Any, ...]) -> Any:
    """A parameter in the dtype of the samples; its shape must broadcast to theirs."""
    x = convert(value, dtype)
    _require_fits(name, x.shape, shape)
    return x


def _require_fits(name: str, parameter: tuple[Any, ...], shape: tuple[Any, ...]) -> None:
    if broadcast_shapes(tuple(parameter), shape) != shape:
        raise ShapeError(
            f"{name}: a parameter of shape {tuple(parameter)} does not broadcast to the shape {shape}"
        )


def normal(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "float64") -> Any:
    """Numbers from the normal distribution of mean 0 and variance 1: sqrt(2) erfinv(u), u in (-1, 1).

    Complex numbers have a total variance of 1, half in each part.

    Raises:
        DTypeError: a dtype that is neither float nor complex; an invalid key.
    """
    kind = DType.of(dtype)
    extents = _shape_of("normal", shape)
    if kind.is_complex:
        parts = [normal(k, extents, kind.real) for k in _keys(key, 2)]
        scale = np.array(math.sqrt(0.5), kind.real.dtype)
        real, imag = (multiply(part, scale) for part in parts)
        return add(real, multiply(imag, np.array(1j, kind.dtype)))
    kind = _float_dtype("normal", kind)
    above = np.nextafter(np.array(-1, kind.dtype), np.array(0, kind.dtype))
    return multiply(
        erfinv(uniform(key, extents, kind, above, 1.0)), np.array(math.sqrt(2), kind.dtype)
    )


def exponential(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "float64") -> Any:
    """Numbers from the exponential distribution of mean 1: -log(1 - u)."""
    kind = _float_dtype("exponential", dtype)
    return negative(log1p(negative(uniform(key, shape, kind))))


def gumbel(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "float64") -> Any:
    """Numbers from the Gumbel distribution: -log(-log(u)), u in (0, 1)."""
    kind = _float_dtype("gumbel", dtype)
    tiny = finfo(kind).smallest_normal
    return negative(log(negative(log(uniform(key, shape, kind, tiny, 1.0)))))


ROUNDS = 12
"""Proposals per gamma sample; each is accepted with probability above 0.95, so that all are rejected with
probability below 1e-15, and then the last one is returned.
"""


def gamma(
    key: ArrayLike, a: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = "float64"
) -> Any:
    """Numbers from the gamma distribution with shape parameter a > 0 and scale 1.

    Proposals d (1 + c x)^3 with x normal, d = a - 1/3 and c = 1 / (3 sqrt(d)), are accepted where
    log u < x^2 / 2 + d - d v + d log v. For a < 1 the sample is one for a + 1 times u^(1/a).

    Args:
        a: numbers or a tensor; the samples have its shape by default.

    Raises:
        ADRuleUnsupportedError: differentiated with respect to a.
        DTypeError, ShapeError: as for `uniform`.

    Source: Marsaglia and Tsang, ACM Transactions on Mathematical Software 26 (2000).
    """
    kind = _float_dtype("gamma", dtype)
    parameter = convert(a, kind)
    extents = tuple(parameter.shape) if shape is None else _shape_of("gamma", shape)
    _require_fits("gamma", parameter.shape, extents)
    if is_traced(parameter):
        parameter = _without_derivative(parameter)
    is_small = less(parameter, 1.0)
    d = subtract(where(is_small, add(parameter, 1.0), parameter), 1.0 / 3.0)
    c = 1.0 / multiply(sqrt(d), 3.0)
    boost, *proposals = _keys(key, 1 + 2 * ROUNDS)
    sample: Any = None
    for k in range(ROUNDS - 1, -1, -1):
        x = normal(proposals[2 * k], extents, kind)
        u = uniform(proposals[2 * k + 1], extents, kind)
        v = pow(add(multiply(x, c), 1.0), 3)
        positive = maximum(v, float(np.finfo(np.float32).tiny))
        bound = add(square(x) * 0.5, multiply(d, subtract(add(log(positive), 1.0), v)))
        is_accepted = logical_and(greater(v, 0.0), less(log(u), bound))
        proposal = multiply(d, positive)
        sample = proposal if sample is None else where(is_accepted, proposal, sample)
    u = subtract(1.0, uniform(boost, extents, kind))
    power = pow(u, 1.0 / where(is_small, parameter, 1.0))
    return where(is_small, multiply(sample, power), sample)


@custom_jvp
def _without_derivative(a: Tensor) -> Any:
    """a, as a marker of the gamma sample's dependence on it, which has no derivative through rejections."""
    return multiply(a, 1.0)


@_without_derivative.defjvp
def _refused(primals: PyTree, tangents: PyTree) -> Any:
    raise ADRuleUnsupportedError(
        "random.gamma: samples are chosen by rejection, and have no derivative with respect to a; "
        "use stop_gradient(a)"
    )


def _keys(key: ArrayLike, count: int) -> tuple[Any, ...]:
    return unstack(split(key, count))


# ---- discrete distributions ----------------------------------------------------------------------


def randint(
    key: ArrayLike,
    shape: Shape,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike | None = "int64",
) -> Any:
    """Uniform integers in [minval, maxval); minval for an empty range.

    It uses two words of bits per number, (2^bits high + low) mod span: the bias is below span / 2^(2 bits).

    Args:
        minval, maxval: integers or integer tensors; a bound beyond the dtype's range is clamped to it.

    Raises:
        DTypeError: a dtype, or bounds, that are not integers; an invalid key.
        ShapeError: bounds that do not broadcast to `shape`.
    """
    kind = DType.of(dtype)
    if not kind.is_integer:
        raise DTypeError(f"randint: an integer dtype, got {kind}")
    extents = _shape_of("randint", shape)
    limits = np.iinfo(kind.dtype)
    bounds = (int(limits.min), int(limits.max))
    if kind.bits < 32:
        # Words of 32 bits, because fewer bits would favour some numbers.
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
    """Integers from low to below high; including high if the bound was beyond the dtype's range."""
    word = _UNSIGNED[kind.bits]
    is_empty = less_equal(high, low)
    span = convert(subtract(high, low), word)
    span = where(is_empty, np.ones((), word.dtype), span)
    beyond = logical_and(is_beyond, greater(high, low))
    span = where(beyond, add(span, np.ones((), word.dtype)), span)
    first, second = (bits(k, shape, word) for k in _keys(key, 2))
    # A span of 2^bits wraps to 0, and contains every word.
    is_all = equal(span, np.zeros((), word.dtype))
    divisor = where(is_all, np.ones((), word.dtype), span)
    half = fmod(np.array(2 ** (kind.bits // 2), word.dtype), divisor)
    factor = fmod(multiply(half, half), divisor)
    offset = fmod(add(multiply(fmod(first, divisor), factor), fmod(second, divisor)), divisor)
    return add(low, convert(where(is_all, second, offset), kind))


def _end(
    value: ArrayLike, dtype: DType, limits: tuple[int, int], shape: tuple[Any, ...]
) -> tuple[Any, Any]:
    """A bound in a dtype, clamped to limits, and whether it was above them."""
    if isinstance(value, int) and not isinstance(value, bool):
        moved = min(max(value, limits[0]), limits[1])
        return np.array(moved, dtype.dtype), np.array(value > limits[1])
    x = as_operand(value)
    spec = spec_of(x)
    if not spec.dtype.is_integer:
        raise DTypeError(f"randint: bounds are integers, got {spec}")
    _require_fits("randint", x.shape, shape)
    own = np.iinfo(spec.dtype.dtype)
    least, most = np.array([max(limits[0], own.min), min(limits[1], own.max)], spec.dtype.dtype)
    return convert(minimum(maximum(x, least), most), dtype), greater(x, most)


def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Shape | None = None) -> Any:
    """Bools that are True with probability p.

    Args:
        p: numbers or a tensor; the samples have its shape by default.
    """
    probability = as_operand(p)
    if not spec_of(probability).dtype.is_float:
        probability = convert(probability, DType.F64)
    extents = tuple(probability.shape) if shape is None else _shape_of("bernoulli", shape)
    _require_fits("bernoulli", probability.shape, extents)
    return less(uniform(key, extents, spec_of(probability).dtype), probability)


def categorical(
    key: ArrayLike, logits: ArrayLike, axis: int = -1, shape: Shape | None = None
) -> Any:
    """Indices along `axis`, with probabilities softmax(logits): the argmax of logits + Gumbel numbers.

    Args:
        shape: of the result; it ends in the shape of logits without `axis`, which is the default.

    Raises:
        DTypeError: logits that are not floats; an invalid key.
        ShapeError: a `shape` with another end.
    """
    x = as_operand(logits)
    kind = _float_dtype("categorical", spec_of(x).dtype)
    axis = normalize_axis("categorical", axis, len(x.shape))
    batch = tuple(extent for i, extent in enumerate(x.shape) if i != axis)
    extents = batch if shape is None else _shape_of("categorical", shape)
    lead = extents[: len(extents) - len(batch)]
    if extents[len(lead) :] != batch:
        raise ShapeError(
            f"categorical: shape {extents} does not end in {batch}, that of the logits"
        )
    noise = gumbel(key, (*lead, *x.shape), kind)
    return argmax(add(noise, x), axis=axis + len(lead))


def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False) -> Any:
    """The slices of x along `axis` in random order, or the integers below x.

    They are sorted by random words, more than once if two words may be equal.

    Args:
        independent: whether every line along `axis` has a separate order.

    Raises:
        DTypeError: a scalar that is not an integer; an invalid key.
        InvalidConfigError: a negative integer.
    """
    if isinstance(x, int):
        if x < 0:
            raise InvalidConfigError(f"permutation: x is at least 0, got {x}")
        return _shuffled(key, np.arange(x), 0)
    array = as_operand(x)
    if not array.shape:
        raise DTypeError(f"permutation: x is an integer or has axes, got {spec_of(array)}")
    axis = normalize_axis("permutation", axis, len(array.shape))
    if independent or len(array.shape) == 1:
        return _shuffled(key, array, axis)
    return take(array, _shuffled(key, np.arange(array.shape[axis]), 0), axis=axis)


def _shuffled(key: ArrayLike, x: Tensor, axis: int) -> Any:
    rounds = math.ceil(3 * math.log(max(1, product(x.shape))) / math.log(2**32 - 1))
    k = _checked("permutation", key)
    for _ in range(rounds):
        k, now = _keys(k, 2)
        _, x = apply(Sort(axis, True, 2), bits(now, tuple(x.shape)), x)
    return x


def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: Shape = (),
    replace: Any = True,
    p: ArrayLike | None = None,
    axis: int = 0,
) -> Any:
    """Slices of a along `axis`, or integers below a, drawn with probabilities p.

    Args:
        replace: whether a slice may be drawn more than once.
        p: a vector of probabilities; equal ones by default.

    Raises:
        InvalidConfigError: more draws than slices without replacement, or draws from no slices.
        ShapeError: p of another length.
    """
    extents = _shape_of("choice", shape)
    array = None if isinstance(a, int) else as_operand(a)
    if array is not None and not array.shape:
        raise DTypeError(f"choice: a is an integer or has axes, got {spec_of(array)}")
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
        places = _weighted(key, p, count, extents, replace)
    if array is None:
        return places
    if 0 in array.shape and not draws:
        return full(
            (*array.shape[:axis], *extents, *array.shape[axis + 1 :]), 0, dtype=spec_of(array).dtype
        )
    return getitem(array, (*[slice(None)] * axis, places))


def _weighted(
    key: ArrayLike, p: ArrayLike, count: Any, shape: tuple[Any, ...], replace: bool
) -> Any:
    weights = as_operand(p)
    kind = spec_of(weights).dtype
    if not kind.is_float:
        kind, weights = DType.F64, convert(weights, DType.F64)
    if tuple(weights.shape) != (count,):
        raise ShapeError(f"choice: p has shape ({count},), one per slice, got {weights.shape}")
    if replace:
        total = cumulative_sum(weights, axis=0)
        level = multiply(subtract(1.0, uniform(key, shape, kind)), getitem(total, -1))
        return searchsorted(total, level)
    noise = add(gumbel(key, (count,), kind), log(weights))
    return reshape(top_k(noise, int(product(shape)))[1], shape)
