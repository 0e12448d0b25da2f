"""Kernels of the elementwise family."""

from __future__ import annotations

from functools import partial
from operator import methodcaller
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.exec.kernels.composed import clamp, float_power, maximum, minimum
from tenferro.exec.kernels.kernel import (
    Array,
    Function,
    Kernel,
    KernelRows,
    elementwise,
    in_float32,
    specialized,
)
from tenferro.ops import elementwise as ops
from tenferro.types import DType

__all__ = ["CASTS", "ROWS"]

# ---- arithmetic ----------------------------------------------------------------------------------


def divide(x: Array, y: Array) -> Array:
    """Return x / y; quotients of integers are rounded towards zero, and all bits are set if y is 0."""
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
    """Return the remainder with the sign of x, as C's fmod; for integers, it is x if y is 0."""
    if x.dtype.kind not in "iu":
        return in_float32(np.fmod)(x, y)
    return np.where(y == 0, x, np.fmod(x, y))


def power(x: Array, y: Array) -> Array:
    """Return x^y; powers of integers are computed by repeated squaring, modulo 2^bits."""
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
    """Return the sign of x, and x itself for zeros and NaN; a complex x is divided by its modulus."""
    if x.dtype.kind in "iu":
        return np.sign(x)
    if x.dtype.kind == "c":
        modulus = np.abs(x)
        return np.where(modulus == 0, np.zeros((), x.dtype), x / np.where(modulus == 0, 1, modulus))
    return np.where((x == 0) | (x != x), x, np.copysign(np.ones((), x.dtype), x))


# ---- bits ----------------------------------------------------------------------------------------


def _unsigned(x: Array) -> Array:
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def shift_unsigned(ufunc: np.ufunc, x: Array, y: Array) -> Array:
    """Shift the bits of x by a ufunc, and fill with zeros; the result is 0 if y is negative or at least the width."""
    width = 8 * x.dtype.itemsize
    amount = _unsigned(y)
    shifted = ufunc(_unsigned(x), np.minimum(amount, width - 1))
    return np.where(amount < width, shifted, 0).astype(amount.dtype).view(x.dtype)


def shift_right_arithmetic(x: Array, y: Array) -> Array:
    """Shift x right by y bits, and fill with copies of the sign bit; y is limited to the width minus one."""
    width = 8 * x.dtype.itemsize
    signed = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    amount = np.minimum(_unsigned(y), width - 1).astype(signed.dtype)
    return np.right_shift(signed, amount).view(x.dtype)


def population_count(x: Array) -> Array:
    """Return the number of bits of x that are 1; for a signed integer, NumPy would count the bits of |x|."""
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def count_leading_zeros(x: Array) -> Array:
    """Return the number of zero bits before the first 1: set all bits after the first 1, and count the zeros."""
    width = 8 * x.dtype.itemsize
    smeared = _unsigned(x)
    step = 1
    while step < width:
        smeared = smeared | (smeared >> smeared.dtype.type(step))
        step *= 2
    return (width - np.bitwise_count(smeared)).astype(x.dtype)


# ---- rounding ------------------------------------------------------------------------------------


def round_away(x: Array) -> Array:
    """Round to the nearest integer, with halves rounded away from zero."""
    truncated = np.trunc(x)
    outwards = truncated + np.copysign(np.ones((), x.dtype), x)
    return np.where(np.abs(x - truncated) >= 0.5, outwards, truncated)


MANTISSA_AND_EXPONENT = {
    DType.F16: (10, 5), DType.BF16: (7, 8), DType.F32: (23, 8), DType.F64: (52, 11),
}  # fmt: skip
"""Numbers of mantissa bits and exponent bits of each dtype."""


def reduce_precision(op: ops.ReducePrecision, x: Array) -> Array:
    """Round x to a format with fewer bits; numbers out of its range become infinity or zero.

    The mantissa is rounded by integer arithmetic on the bits of x. In a wider dtype, subnormal numbers would be normal
    and would be rounded to more bits.
    """
    mantissa, exponent = MANTISSA_AND_EXPONENT[DType.of(x.dtype)]
    width = 8 * x.dtype.itemsize
    integer = np.dtype(f"u{x.dtype.itemsize}").type
    bits = np.asarray(x, order="C").view(integer)  # ascontiguousarray adds an axis to rank 0
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
    return np.where(np.isnan(x), x, np.asarray(bits, integer).view(x.dtype))


# ---- conversion ----------------------------------------------------------------------------------


CASTS = {dtype: methodcaller("astype", dtype.dtype) for dtype in DType}
"""NumPy's cast to each dtype."""


def convert(op: ops.Convert, source: np.dtype[Any]) -> Function:
    """Return the function that converts arrays of the dtype `source` to `op.to` by StableHLO's semantics.

    Conversions from floats to integers saturate.
    """
    to, dtype = op.to, DType.of(source)
    if dtype.is_complex and not to.is_complex:
        if to.is_bool:
            return lambda x: x != 0
        of_real = convert(op, dtype.real.dtype)
        return lambda x: of_real(x.real)
    if dtype.is_float and to.is_integer:
        return partial(saturate, to=to)
    if to.is_narrow or dtype.is_narrow:
        return partial(_through_wide, wide=_common(dtype, to), to=to)
    if to is DType.BF16 or dtype is DType.BF16:
        return partial(_through_float32, to=to)
    return CASTS[to]


def _common(dtype: DType, to: DType) -> DType:
    """Return NumPy's dtype for the intermediate result of a conversion from or to a narrow dtype."""
    return DType.F64 if dtype.is_float or to.is_inexact else DType.I64


def _through_wide(x: Array, wide: DType, to: DType) -> Array:
    """Convert from or to a narrow dtype through the dtype `wide`, with only one rounding.

    The cast of `ml_dtypes` from a narrow dtype to bool tests the bits, so -0 would be true.
    """
    if to is DType.F8E8M0FNU:
        return _powers_of_two(_in_float64_to_odd(x))
    if to.is_narrow and to.is_float:
        return _in_float32_to_odd(_in_float64_to_odd(x)).astype(to.dtype)
    x = x.astype(wide.dtype)
    return x != 0 if to.is_bool else x.astype(to.dtype)


def _powers_of_two(x: Array) -> Array:
    """Round to the nearest power of two, with ties rounded up, as float8_e8m0fnu.

    Smaller positive numbers become the smallest power of two; zero and negative numbers become NaN. The cast of
    `ml_dtypes` would round subnormal float32 numbers up.
    """
    mantissa, exponent = np.frexp(x)
    code = np.maximum(exponent - 1 + (mantissa >= 0.75) + 127, 0)
    is_number = (x > 0) & (x < np.inf) & (code < 255)
    return np.where(is_number, code, 255).astype(np.uint8).view(DType.F8E8M0FNU.dtype)


def _in_float64_to_odd(x: Array) -> Array:
    """Convert to float64; an integer between two float64 becomes the one with an odd mantissa."""
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        dropped = x & x.dtype.type((1 << 11) - 1)
        odd = (x ^ dropped) | (dropped != 0).astype(x.dtype) << x.dtype.type(11)
        is_exact = (x >= 0) & (x < 1 << 53) if x.dtype.kind == "u" else np.abs(x) < 1 << 53
        return np.where(is_exact | (dropped == 0), x, odd).astype(np.float64)
    return x.astype(np.float64)


def _in_float32_to_odd(x: Array) -> Array:
    """Convert float64 to float32; a number between two float32 becomes the one with an odd mantissa.

    A second rounding, to at most 22 bits, then has the result of a single rounding. The cast of `ml_dtypes` would
    round to nearest twice. NaN becomes positive.

    Source: S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding
    to odd", IEEE Transactions on Computers 57 (2008).
    """
    y = np.asarray(x.astype(np.float32))
    back = y.astype(np.float64)
    bits = y.view(np.uint32)
    bits = (bits - (np.abs(back) > np.abs(x))) | (back != x)
    return np.where(np.isnan(x), np.float32(np.nan), bits.astype(np.uint32).view(np.float32))


def saturate(x: Array, to: DType) -> Array:
    """Convert floats to the integer dtype `to`: round towards zero, limit to its range, and convert NaN to 0.

    In float64, the maximum of a 64-bit dtype is rounded up to a power of two, so x is compared with it by >=.
    """
    info = ml_dtypes.iinfo(to.dtype)
    wide = x.astype(np.float64)
    above, below = wide >= float(info.max), wide <= float(info.min)
    in_range = np.where(above | below | np.isnan(wide), 0, wide).astype(to.dtype)
    high, low = np.array(info.max, to.dtype), np.array(info.min, to.dtype)
    return np.where(above, high, np.where(below, low, in_range))


def _through_float32(x: Array, to: DType) -> Array:
    """Convert from or to bfloat16 through float32, as XLA does."""
    return x.astype(np.float32).astype(to.dtype)


def bitcast_convert(op: ops.BitcastConvert, x: Array) -> Array:
    """Reinterpret the bits of x as another dtype: a narrower dtype adds a last axis, a wider dtype removes it."""
    old, new = DType.of(x.dtype).bits, op.to.bits
    shape = x.shape if old == new else (*x.shape, old // new) if old > new else x.shape[:-1]
    if old % 8 or new % 8:
        return _regrouped(x, old, op.to).reshape(shape)
    return (
        x.view(op.to.dtype)
        if old == new
        else np.frombuffer(x.tobytes(), op.to.dtype).reshape(shape)
    )


def _regrouped(x: Array, old: int, to: DType) -> Array:
    """Reinterpret the bits of x if a dtype has fewer than 8 bits, which are the low bits of a byte."""
    octets = np.frombuffer(x.tobytes(), np.uint8)
    bits = np.unpackbits(octets.reshape(-1, x.dtype.itemsize), axis=1, count=old, bitorder="little")
    octets = np.packbits(bits.reshape(-1, to.bits), axis=1, bitorder="little")
    if to.is_integer and to.is_narrow:
        return octets.astype(to.wide.dtype).astype(to.dtype)
    return np.frombuffer(octets.tobytes(), to.dtype)


def compose(x: Array, y: Array) -> Array:
    """Return x + i y; as a sum in complex arithmetic, it would lose infinities and signs of zeros."""
    result = np.empty(np.broadcast_shapes(x.shape, y.shape), DType.of(x.dtype).complex.dtype)
    result.real, result.imag = x, y
    return result


ROWS: KernelRows = {
    ops.Add: elementwise(np.add),
    ops.Subtract: elementwise(np.subtract),
    ops.Multiply: elementwise(np.multiply),
    ops.Divide: elementwise(divide, np.divide),
    ops.Remainder: elementwise(remainder, np.fmod),
    ops.Power: elementwise(power, float_power),
    ops.Maximum: elementwise(maximum),
    ops.Minimum: elementwise(minimum),
    ops.Negate: elementwise(np.negative),
    ops.Abs: elementwise(np.abs),
    ops.Sign: elementwise(sign),
    ops.Clamp: elementwise(clamp),
    ops.Compare: specialized(lambda op, _: ops.COMPARISONS[op.direction], elementwise=True),
    ops.Select: elementwise(np.where),
    ops.And: elementwise(np.bitwise_and),
    ops.Or: elementwise(np.bitwise_or),
    ops.Xor: elementwise(np.bitwise_xor),
    ops.Not: elementwise(np.invert),
    ops.ShiftLeft: elementwise(partial(shift_unsigned, np.left_shift)),
    ops.ShiftRightArithmetic: elementwise(shift_right_arithmetic),
    ops.ShiftRightLogical: elementwise(partial(shift_unsigned, np.right_shift)),
    ops.PopulationCount: elementwise(population_count),
    ops.CountLeadingZeros: elementwise(count_leading_zeros),
    ops.Floor: elementwise(np.floor, upcasts=True),
    ops.Ceil: elementwise(np.ceil, upcasts=True),
    ops.RoundNearestEven: elementwise(np.rint, upcasts=True),
    ops.RoundNearestAfz: elementwise(round_away, upcasts=True),
    ops.IsFinite: elementwise(np.isfinite),
    ops.Convert: specialized(convert, elementwise=True),
    ops.BitcastConvert: Kernel(bitcast_convert, view=True),
    ops.Conj: Kernel(lambda op, x: np.conj(x), elementwise=True),
    ops.Real: Kernel(lambda op, x: x.real, elementwise=True, view=True),
    ops.Imag: Kernel(lambda op, x: x.imag, elementwise=True, view=True),
    ops.Complex: elementwise(compose),
    ops.ReducePrecision: Kernel(reduce_precision, elementwise=True),
}
