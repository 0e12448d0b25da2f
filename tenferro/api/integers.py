"""Functions of integers: common divisors and multiples, and bits packed into bytes.

Source: NumPy 2.4, reference, sections "Rational routines" and "Binary operations".
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from tenferro.api.arguments import refuse_options
from tenferro.api.axes import normalize_axis
from tenferro.api.control import while_loop
from tenferro.api.elementwise import abs as magnitude
from tenferro.api.elementwise import (
    bitwise_and,
    equal,
    floor_divide,
    multiply,
    not_equal,
    remainder,
    right_shift,
    where,
)
from tenferro.api.manipulation import concat, expand_dims, flattened, moveaxis, reshape
from tenferro.api.promotion import broadcast_arrays, convert, promote
from tenferro.api.reductions import any as any_of
from tenferro.api.reductions import sum as sum_over
from tenferro.dims import is_static
from tenferro.dispatch import spec_of
from tenferro.errors import DTypeError, InvalidConfigError, NonStaticShapeError
from tenferro.types import ArrayLike, DType, UfuncOptions

__all__ = ["gcd", "lcm", "packbits", "unpackbits"]


def _integers(name: str, x1: ArrayLike, x2: ArrayLike) -> tuple[Any, Any]:
    lhs, rhs = promote(x1, x2)
    if not spec_of(lhs).dtype.is_integer:
        raise DTypeError(f"{name}: takes integers, got {spec_of(lhs)}")
    lhs, rhs = broadcast_arrays(lhs, rhs)
    return magnitude(lhs), magnitude(rhs)


def gcd(x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
    """Return the greatest common divisor of |x1| and |x2|, by Euclid's algorithm; |x1| where x2 is 0.

    Raises:
        DTypeError: an operand is not an integer.

    >>> gcd([12, 0, -4], [20, 5, 6])
    array([4, 5, 2])
    """
    refuse_options("gcd", options, out)
    pair = _integers("gcd", x1, x2)

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, b = state
        is_done = equal(b, 0)
        return where(is_done, a, b), where(is_done, 0, remainder(a, where(is_done, 1, b)))

    # The smallest signed integer is its own magnitude, so the divisor may be negative.
    return magnitude(while_loop(lambda state: any_of(not_equal(state[1], 0)), step, pair)[0])


def lcm(x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
    """Return the least common multiple of |x1| and |x2|; 0 where x1 or x2 is 0.

    Raises:
        DTypeError: an operand is not an integer.

    >>> lcm([12, 0], [20, 5])
    array([60,  0])
    """
    refuse_options("lcm", options, out)
    lhs, rhs = _integers("lcm", x1, x2)
    divisor = gcd(lhs, rhs)
    return magnitude(multiply(floor_divide(lhs, where(equal(divisor, 0), 1, divisor)), rhs))


def _weights(name: str, bitorder: str) -> Any:
    if bitorder not in ("big", "little"):
        raise InvalidConfigError(f'{name}: bitorder must be "big" or "little", got {bitorder!r}')
    places = np.arange(8, dtype=np.uint8)
    return places[::-1].copy() if bitorder == "big" else places


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Any:
    """Pack groups of eight elements along `axis` into the bits of a uint8. A nonzero element becomes the bit 1.

    If the extent is not a multiple of 8, the last byte is filled with zero bits.

    Args:
        axis: the axis; if it is None, `a` is flattened first.
        bitorder: "big" stores the first element in the highest bit, "little" in the lowest bit.

    Raises:
        DTypeError: the elements are neither bools nor integers. InvalidConfigError: `bitorder` is unknown.

    >>> packbits([1, 0, 0, 0, 0, 0, 0, 1, 1])
    array([129, 128], dtype=uint8)
    """
    places = _weights("packbits", bitorder)
    x, axis = flattened(a, axis)
    if not spec_of(x).dtype.is_bool and not spec_of(x).dtype.is_integer:
        raise DTypeError(f"packbits: takes bools or integers, got {spec_of(x)}")
    axis = normalize_axis("packbits", axis, len(x.shape))
    bits = moveaxis(convert(not_equal(x, 0), DType.U8), axis, -1)
    extent = bits.shape[-1]
    if not is_static(extent):
        raise NonStaticShapeError(f"packbits: needs a known extent, got {spec_of(x)}")
    missing = -extent % 8
    if missing:
        zeros = multiply(bits[..., :1], np.zeros(missing, np.uint8))
        bits = concat([bits, zeros], axis=-1)
    bits = reshape(bits, (*bits.shape[:-1], (extent + missing) // 8, 8))
    values = sum_over(multiply(bits, np.left_shift(np.uint8(1), places)), axis=-1, dtype=DType.U8)
    return moveaxis(values, -1, axis)


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    """Unpack the bits of uint8 elements along `axis`; each bit becomes an element 0 or 1 of dtype uint8.

    Args:
        axis: the axis; if it is None, `a` is flattened first.
        count: the number of bits in the result, which is truncated or padded with zeros. -n removes the last n bits.
        bitorder: the order of the bits in a byte, as in `packbits`.

    Raises:
        DTypeError: the elements are not uint8. InvalidConfigError: `bitorder` is unknown.

    >>> unpackbits(np.array([129], np.uint8))
    array([1, 0, 0, 0, 0, 0, 0, 1], dtype=uint8)
    """
    places = _weights("unpackbits", bitorder)
    x, axis = flattened(a, axis)
    if spec_of(x).dtype is not DType.U8:
        raise DTypeError(f"unpackbits: takes uint8, got {spec_of(x)}")
    axis = normalize_axis("unpackbits", axis, len(x.shape))
    x = moveaxis(x, axis, -1)
    bits = bitwise_and(right_shift(expand_dims(x, axis=-1), places), np.uint8(1))
    bits = reshape(bits, (*x.shape[:-1], x.shape[-1] * 8))
    if count is not None:
        extent = bits.shape[-1]
        wanted = extent + count if count < 0 else count
        if wanted > extent:
            zeros = np.zeros((*x.shape[:-1], wanted - extent), np.uint8)
            bits = concat([bits, zeros], axis=-1)
        bits = bits[..., : max(wanted, 0)]
    return moveaxis(bits, -1, axis)
