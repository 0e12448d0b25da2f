"""Kernels of the elementwise family."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from tenferro.exec.kernels.buffered import (
    cast_into,
    clamp,
    clamp_into,
    float_power,
    float_power_into,
    maximum,
    maximum_into,
    minimum,
    minimum_into,
    select_into,
)
from tenferro.exec.kernels.kernel import (
    Array,
    ByPayload,
    KernelRows,
    OfArrays,
    OfOp,
    elementwise,
    in_float32,
)
from tenferro.ops.elementwise import (
    COMPARISONS,
    Abs,
    Add,
    And,
    BitcastConvert,
    Ceil,
    Clamp,
    Compare,
    Complex,
    Conj,
    Convert,
    CountLeadingZeros,
    Divide,
    Floor,
    Imag,
    IsFinite,
    Maximum,
    Minimum,
    Multiply,
    Negate,
    Not,
    Or,
    PopulationCount,
    Power,
    Real,
    ReducePrecision,
    Remainder,
    RoundNearestAfz,
    RoundNearestEven,
    Select,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Sign,
    Subtract,
    Xor,
)
from tenferro.types import DType
from tenferro.types.dtype import BFLOAT16

__all__ = ["CASTS", "ROWS"]

# ---- arithmetic ----------------------------------------------------------------------------------


def divide(x: Array, y: Array) -> Array:
    """Integers truncate; NumPy floors, so one is added where the signs differ and a rest is left."""
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    divisor = np.where(y == 0, y.dtype.type(1), y)
    quotient = np.floor_divide(x, divisor)
    if x.dtype.kind == "i":
        rest = x - quotient * divisor
        quotient = quotient + ((rest != 0) & ((x < 0) != (y < 0)))
    return np.where(y == 0, np.bitwise_not(np.zeros((), x.dtype)), quotient).astype(
        x.dtype, copy=False
    )


def remainder(x: Array, y: Array) -> Array:
    """C's fmod; x over integer 0 leaves x."""
    if x.dtype.kind not in "iu":
        return in_float32(np.fmod)(x, y)
    return np.where(y == 0, x, np.fmod(x, y))


def power(x: Array, y: Array) -> Array:
    """Integers by repeated squaring, which wraps."""
    if x.dtype.kind == "c":
        return np.power(x, y)
    if x.dtype.kind not in "iu":
        return in_float32(float_power)(x, y)
    one = np.ones((), x.dtype)
    result = np.broadcast_to(one, x.shape).copy()
    base, exponent = x.copy(), np.where(y < 0, np.zeros((), y.dtype), y)
    while exponent.any():
        result = np.where(exponent & 1, result * base, result)
        base, exponent = base * base, exponent >> 1
    if x.dtype.kind == "i":
        odd = np.where(y & 1, x, one)
        vanishing = np.where(x == 1, one, np.where(x == -1, odd, np.zeros((), x.dtype)))
        result = np.where(y < 0, vanishing, result)
    return result


def sign(x: Array) -> Array:
    """Zeros and NaN stay themselves; a complex number is divided by its modulus."""
    if x.dtype.kind in "iu":
        return np.sign(x)
    if x.dtype.kind == "c":
        modulus = np.abs(x)
        return np.where(modulus == 0, np.zeros((), x.dtype), x / np.where(modulus == 0, 1, modulus))
    return np.where((x == 0) | (x != x), x, np.copysign(np.ones((), x.dtype), x))


# ---- bits ----------------------------------------------------------------------------------------


def _unsigned(x: Array) -> Array:
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def shift_left(x: Array, y: Array) -> Array:
    """A negative amount is read as unsigned, and is past the width."""
    width = 8 * x.dtype.itemsize
    amount = _unsigned(y)
    shifted = np.left_shift(_unsigned(x), np.minimum(amount, width - 1))
    return np.where(amount < width, shifted, 0).astype(amount.dtype).view(x.dtype)


def shift_right_logical(x: Array, y: Array) -> Array:
    """Zeros enter: a shift of unsigned numbers."""
    width = 8 * x.dtype.itemsize
    amount = _unsigned(y)
    shifted = np.right_shift(_unsigned(x), np.minimum(amount, width - 1))
    return np.where(amount < width, shifted, 0).astype(amount.dtype).view(x.dtype)


def shift_right_arithmetic(x: Array, y: Array) -> Array:
    """The sign bit enters: a shift of signed numbers, by at most the width less one."""
    width = 8 * x.dtype.itemsize
    signed = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    amount = np.minimum(_unsigned(y), width - 1).astype(signed.dtype)
    return np.right_shift(signed, amount).view(x.dtype)


def population_count(x: Array) -> Array:
    """NumPy counts the bits of |x|; those of x are wanted."""
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def count_leading_zeros(x: Array) -> Array:
    """Smear the highest bit over all below it, and count the remaining zeros."""
    width = 8 * x.dtype.itemsize
    smeared = _unsigned(x)
    step = 1
    while step < width:
        smeared = smeared | (smeared >> smeared.dtype.type(step))
        step *= 2
    return (width - np.bitwise_count(smeared)).astype(x.dtype)


# ---- rounding ------------------------------------------------------------------------------------


def round_away(x: Array) -> Array:
    """Truncate, and step outwards where at least half was cut off."""
    whole = np.trunc(x)
    outwards = whole + np.copysign(np.ones((), x.dtype), x)
    return np.where(np.abs(x - whole) >= 0.5, outwards, whole)


def reduce_precision(op: ReducePrecision, x: Array) -> Array:
    """Round the mantissa in the bits, then send exponents out of range to infinity or zero."""
    dtype = x.dtype
    if dtype.itemsize == 2:
        x = x.astype(np.float32)
    width = 8 * x.dtype.itemsize
    mantissa, exponent = {32: (23, 8), 64: (52, 11)}[width]
    integer = np.dtype(f"u{x.dtype.itemsize}").type
    bits = np.asarray(x, order="C").view(integer)  # which keeps rank 0, unlike ascontiguousarray
    if op.mantissa_bits < mantissa:
        cut = mantissa - op.mantissa_bits
        last = (bits >> integer(cut)) & integer(1)
        bits = bits + last + integer((1 << (cut - 1)) - 1)
        bits = bits & ~integer((1 << cut) - 1)
    if op.exponent_bits < exponent:
        bias = (1 << (exponent - 1)) - 1
        reach = (1 << (op.exponent_bits - 1)) - 1
        sign_bit = bits & integer(1 << (width - 1))
        field = (bits >> integer(mantissa)) & integer((1 << exponent) - 1)
        infinity = integer(((1 << exponent) - 1) << mantissa)
        bits = np.where(field > bias + reach, sign_bit | infinity, bits)
        bits = np.where(field <= bias - reach, sign_bit, bits)
    result = np.where(np.isnan(x), x, bits.view(x.dtype))
    return result.astype(dtype)


# ---- conversion ----------------------------------------------------------------------------------


CASTS = {dtype: methodcaller("astype", dtype.dtype) for dtype in DType}
"""NumPy's own."""


def convert(op: Convert, source: np.dtype[Any]) -> Callable[[Any], Any]:
    """NumPy's cast where it has StableHLO's meaning, the saturating one from float to integer."""
    to, dtype = op.to, DType.of(source)
    if dtype.is_complex and not to.is_complex:
        if to.is_bool:
            return lambda x: x != 0
        of_real = convert(op, dtype.real.dtype)
        return lambda x: of_real(x.real)
    if dtype.is_float and to.is_integer:
        return partial(saturate, to=to)
    if to is DType.BF16 or dtype is DType.BF16:
        return partial(_through_float32, dtype=dtype, to=to)
    return CASTS[to]


def saturate(x: Array, to: DType) -> Array:
    """Truncate towards zero, clamp to the integer's range, NaN to 0.

    The limits that float64 does not hold round up to a power of two, hence >=.
    """
    info = np.iinfo(to.dtype)
    wide = x.astype(np.float64)
    above, below = wide >= float(info.max), wide <= float(info.min)
    in_range = np.where(above | below | np.isnan(wide), 0, wide).astype(to.dtype)
    high, low = to.dtype.type(info.max), to.dtype.type(info.min)
    return np.where(above, high, np.where(below, low, in_range))


def _through_float32(x: Array, dtype: DType, to: DType) -> Array:
    """bfloat16 converts by way of float32, as XLA does it."""
    if to is DType.BF16:
        return x.astype(np.float32).astype(BFLOAT16)
    return x.astype(np.float32).astype(to.dtype)


def bitcast_convert(op: BitcastConvert, x: Array) -> Array:
    """Narrower dtypes add a last axis, wider ones consume it."""
    old, new = x.dtype.itemsize, op.to.itemsize
    if old == new:
        return x.view(op.to.dtype)
    shape = (*x.shape, old // new) if old > new else x.shape[:-1]
    return np.frombuffer(x.tobytes(), op.to.dtype).reshape(shape)


def compose(x: Array, y: Array) -> Array:
    """Set the parts, because x + 1j * y loses infinities and signs of zero."""
    result = np.empty(np.broadcast_shapes(x.shape, y.shape), DType.of(x.dtype).complex.dtype)
    result.real, result.imag = x, y
    return result


ROWS: KernelRows = {
    Add: elementwise(np.add),
    Subtract: elementwise(np.subtract),
    Multiply: elementwise(np.multiply),
    Divide: elementwise(divide, np.divide),
    Remainder: elementwise(remainder, np.fmod),
    Power: elementwise(power, float_power, float_power_into),
    Maximum: elementwise(maximum, into=maximum_into),
    Minimum: elementwise(minimum, into=minimum_into),
    Negate: elementwise(np.negative),
    Abs: elementwise(np.abs),
    Sign: elementwise(sign),
    Clamp: elementwise(clamp, into=clamp_into),
    Compare: ByPayload(lambda op, _: COMPARISONS[op.direction], elementwise=True),
    Select: elementwise(np.where, into=select_into),
    And: elementwise(np.bitwise_and),
    Or: elementwise(np.bitwise_or),
    Xor: elementwise(np.bitwise_xor),
    Not: elementwise(np.invert),
    ShiftLeft: elementwise(shift_left),
    ShiftRightArithmetic: elementwise(shift_right_arithmetic),
    ShiftRightLogical: elementwise(shift_right_logical),
    PopulationCount: elementwise(population_count),
    CountLeadingZeros: elementwise(count_leading_zeros),
    Floor: OfArrays(np.floor, low=True, elementwise=True),
    Ceil: OfArrays(np.ceil, low=True, elementwise=True),
    RoundNearestEven: OfArrays(np.rint, low=True, elementwise=True),
    RoundNearestAfz: OfArrays(round_away, low=True, elementwise=True),
    IsFinite: elementwise(np.isfinite),
    Convert: ByPayload(convert, elementwise=True, into=dict.fromkeys(CASTS.values(), cast_into)),
    BitcastConvert: OfOp(bitcast_convert, view=True),
    Conj: OfOp(lambda op, x: np.conj(x) if x.dtype.kind == "c" else x, elementwise=True, view=True),
    Real: OfOp(lambda op, x: x.real if x.dtype.kind == "c" else x, elementwise=True, view=True),
    Imag: OfOp(
        lambda op, x: x.imag if x.dtype.kind == "c" else np.zeros_like(x),
        elementwise=True,
        view=True,
    ),
    Complex: elementwise(compose),
    ReducePrecision: OfOp(reduce_precision, elementwise=True),
}
