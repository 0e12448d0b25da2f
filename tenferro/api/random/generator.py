"""Keys, random bits, and distributions that are computed directly from bits: uniform, normal, exponential and Gumbel.

Source: Salmon, Moraes, Dror and Shaw (SC 2011) for the generator; `jax.random` for functions and signatures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.api.creation import asarray
from tenferro.api.data_types import finfo
from tenferro.api.elementwise import (
    add,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    erfinv,
    fmod,
    greater_equal,
    log,
    log1p,
    maximum,
    minimum,
    multiply,
    negative,
    subtract,
    where,
)
from tenferro.api.manipulation import reshape, stack, unstack
from tenferro.api.promotion import broadcast_shapes, broadcast_to, convert
from tenferro.dims import is_static, product
from tenferro.dispatch import apply_one, as_operand, is_traced, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.ext.random.families import Threefry2x32
from tenferro.extension import apply as apply_extension
from tenferro.ops.elementwise import BitcastConvert
from tenferro.ops.source import Iota
from tenferro.types import ArrayLike, DType, DTypeLike, Shape, Tensor

__all__ = [
    "bits", "exponential", "fold_in", "gumbel", "key", "normal", "split", "uniform",
]  # fmt: skip

UNSIGNED = {8: DType.U8, 16: DType.U16, 32: DType.U32, 64: DType.U64}
_MANTISSA = {DType.F16: 10, DType.BF16: 7, DType.F32: 23, DType.F64: 52}


# ---- keys ----------------------------------------------------------------------------------------


def key(seed: ArrayLike) -> Any:
    """Return the key of a seed: the high and the low 32 bits of the seed, as uint32[2].

    Args:
        seed: an integer of at most 64 bits, or an integer scalar tensor.

    Raises:
        DTypeError: the seed is not an integer.
        InvalidConfigError: the seed has more than 64 bits.

    >>> key(42)
    array([ 0, 42], dtype=uint32)
    """
    if isinstance(seed, int):
        if not -(2**63) <= seed < 2**64:
            raise InvalidConfigError(f"key: a seed must fit 64 bits, got {seed}")
        words = (seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF)
        return np.array(words, np.uint32)
    x = as_operand(seed)
    spec = spec_of(x)
    if not spec.dtype.is_integer or spec.rank:
        raise DTypeError(f"key: a seed must be an integer scalar, got {spec}")
    x = convert(convert(x, DType.I64), DType.U64)
    high = bitwise_right_shift(x, np.uint64(32))
    return stack([convert(high, DType.U32), convert(fmod(x, np.uint64(2**32)), DType.U32)])


def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Any:
    """Derive independent keys from a key, as uint32[num, 2]. If `num` is a shape, the result is uint32[*num, 2].

    Raises:
        InvalidConfigError, DTypeError: `num` is negative, or the key is invalid.

    >>> split(np.array([0, 0], np.uint32))
    array([[1797259609, 2579123966],
           [ 928981903, 3453687069]], dtype=uint32)
    """
    shape = shape_of_samples("split", num)
    return stack(list(_words("split", key, shape)), axis=len(shape))


def fold_in(key: ArrayLike, data: ArrayLike) -> Any:
    """Derive a key from a key and a 32-bit integer `data`, such as the number of a step or a process.

    Raises:
        InvalidConfigError, DTypeError: the key is invalid, or `data` is not an integer of at most 32 bits.
    """
    k = checked_key("fold_in", key)
    if isinstance(data, int):
        if not -(2**31) <= data < 2**32:
            raise InvalidConfigError(f"fold_in: data must fit 32 bits, got {data}")
        data = np.uint32(data % 2**32)
    number = as_operand(data)
    spec = spec_of(number)
    if not spec.dtype.is_integer or spec.rank:
        raise DTypeError(f"fold_in: data must be an integer scalar, got {spec}")
    word = convert(number, DType.U32)
    return stack(list(_threefry(k, np.zeros((), np.uint32), word)))


def checked_key(name: str, key: ArrayLike) -> Any:
    k = as_operand(key)
    spec = spec_of(k)
    if spec.dtype is not DType.U32 or spec.shape != (2,):
        raise DTypeError(f"{name}: a key must be u32[2], as random.key(seed) gives, got {spec}")
    return k


def shape_of_samples(name: str, shape: Shape) -> tuple[Any, ...]:
    extents = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    for extent in extents:
        if is_static(extent) and (not isinstance(extent, int | np.integer) or extent < 0):
            raise InvalidConfigError(
                f"{name}: the extents of a shape must be at least 0, got {shape!r}"
            )
    return extents


# ---- bits ----------------------------------------------------------------------------------------


def _threefry(key: Tensor, x0: Tensor, x1: Tensor) -> tuple[Any, Any]:
    return apply_extension(Threefry2x32(), key, x0, x1)


def _words(name: str, key: ArrayLike, shape: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return two tensors of `shape`: the two random words that the generator computes for each counter 0, 1, 2, ..

    The elements in row-major order correspond to the counters.
    """
    k = checked_key(name, key)
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
    """Draw random bits, as integers of an unsigned dtype. All integers of the dtype are equally likely.

    Raises:
        DTypeError: the dtype is not an unsigned integer, or the key is invalid.
        InvalidConfigError: an extent is negative.

    >>> bits(np.array([0, 0], np.uint32), (2,))
    array([4070199207, 4202968722], dtype=uint32)
    """
    kind = DType.of(dtype)
    if kind not in UNSIGNED.values():
        raise DTypeError(f"bits: dtype must be an unsigned integer dtype, got {kind}")
    first, second = _words("bits", key, shape_of_samples("bits", shape))
    if kind is not DType.U64:
        return convert(bitwise_xor(first, second), kind)
    high = multiply(convert(first, DType.U64), np.uint64(2**32))
    return bitwise_or(high, convert(second, DType.U64))


# ---- continuous distributions --------------------------------------------------------------------


def float_dtype(name: str, dtype: DTypeLike | None) -> DType:
    kind = DType.of(dtype)
    if not kind.is_float:
        raise DTypeError(f"{name}: dtype must be a float dtype, got {kind}")
    return kind


def uniform(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = "float64",
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Any:
    """Draw uniform numbers in [minval, maxval).

    Random bits are used as the mantissa of a number in [1, 2), from which 1 is subtracted.

    Args:
        minval, maxval: numbers or tensors that broadcast to `shape`.

    Raises:
        DTypeError: the dtype is not a float, or the key is invalid.
        ShapeError: the bounds do not broadcast to `shape`.
    """
    kind = float_dtype("uniform", dtype)
    extents = shape_of_samples("uniform", shape)
    width, mantissa = kind.bits, _MANTISSA[kind]
    drawn = 8 if mantissa < 8 else width
    word = UNSIGNED[width]
    fraction = convert(bits(key, extents, UNSIGNED[drawn]), word)
    fraction = bitwise_right_shift(fraction, np.array(drawn - mantissa, word.dtype))
    one = np.ones((), kind.dtype)
    number = apply_one(BitcastConvert(kind), bitwise_or(fraction, one.view(word.dtype)))
    unit = subtract(number, one)
    is_unit = type(minval) in (int, float) and type(maxval) in (int, float)
    if is_unit and (minval, maxval) == (0, 1):
        return unit
    low = parameter("uniform", minval, kind, extents)
    high = parameter("uniform", maxval, kind, extents)
    span = _difference(high, low)
    # The minimum does not change the product, which never exceeds the span. It prevents compilers from fusing the
    # product with the following sum: the fused operation would round once instead of twice.
    return maximum(low, add(minimum(multiply(unit, span), span), low))


def _difference(x: Any, y: Any) -> Any:
    """Compute x - y for bounds, which are usually numbers or arrays.

    NumPy subtracts arrays: an op on arrays would load the native executor, which tracing must not do.
    """
    if is_traced(x) or is_traced(y):
        return subtract(x, y)
    with np.errstate(all="ignore"):
        return np.subtract(x, y)


def parameter(name: str, value: ArrayLike, dtype: DType, shape: tuple[Any, ...]) -> Any:
    """Convert a parameter of a distribution to the samples' dtype. Check that it broadcasts to the samples' shape."""
    x = convert(value, dtype)
    require_fits(name, x.shape, shape)
    return x


def require_fits(name: str, parameter: tuple[Any, ...], shape: tuple[Any, ...]) -> None:
    if broadcast_shapes(tuple(parameter), shape) != shape:
        raise ShapeError(
            f"{name}: a parameter of shape {tuple(parameter)} does not broadcast to the shape {shape}"
        )


def normal(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "float64") -> Any:
    """Draw numbers from the normal distribution of mean 0 and variance 1: sqrt(2) erfinv(u), with u uniform in (-1, 1).

    The real and the imaginary part of complex numbers have a variance of 1/2 each.

    Raises:
        DTypeError: the dtype is neither float nor complex, or the key is invalid.
    """
    kind = DType.of(dtype)
    extents = shape_of_samples("normal", shape)
    if kind.is_complex:
        parts = [normal(k, extents, kind.real) for k in keys(key, 2)]
        scale = np.array(math.sqrt(0.5), kind.real.dtype)
        real, imag = (multiply(part, scale) for part in parts)
        return add(real, multiply(imag, np.array(1j, kind.dtype)))
    kind = float_dtype("normal", kind)
    above = np.nextafter(np.array(-1, kind.dtype), np.array(0, kind.dtype))
    return multiply(
        erfinv(uniform(key, extents, kind, above, 1.0)), np.array(math.sqrt(2), kind.dtype)
    )


def exponential(key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "float64") -> Any:
    """Draw numbers from the exponential distribution of mean 1: -log(1 - u), with u uniform in [0, 1)."""
    kind = float_dtype("exponential", dtype)
    return negative(log1p(negative(uniform(key, shape, kind))))


def gumbel(
    key: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = "float64", mode: str | None = None
) -> Any:
    """Draw numbers from the Gumbel distribution: -log(-log(u)), with u uniform in (0, 1).

    Args:
        mode: "high" draws small u with twice as many bits, so that large negative numbers are not cut off; the default
            is "low".

    Raises:
        InvalidConfigError: `mode` is unknown. JAX's mode "highest" is not supported.
    """
    kind = float_dtype("gumbel", dtype)
    require_mode("gumbel", "low" if mode is None else mode)
    limits = finfo(kind)
    tiny = limits.smallest_normal
    if mode == "high":
        upper, lower = unstack(uniform(key, (2, *shape_of_samples("gumbel", shape)), kind))
        small = add(add(upper, multiply(lower, limits.eps)), tiny)
        u = where(greater_equal(upper, 0.5), upper, small)
        return negative(log(negative(log1p(negative(u)))))
    return negative(log(negative(log(uniform(key, shape, kind, tiny, 1.0)))))


def require_mode(name: str, mode: str) -> None:
    """Raise an error unless `mode` is one of JAX's names for the number of random bits per sample.

    Raises:
        InvalidConfigError: `mode` is neither "low" nor "high".
    """
    if mode not in ("low", "high"):
        raise InvalidConfigError(f'{name}: mode must be "low" or "high", got {mode!r}')


def keys(key: ArrayLike, count: int) -> tuple[Any, ...]:
    return unstack(split(key, count))
