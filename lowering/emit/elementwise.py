"""Emitters of the elementwise family."""

from __future__ import annotations

from typing import Any

from lowering.emit.emitter import Emitter, EmitterRows
from lowering.writer import Value, Writer
from tenferro.ops import elementwise as ops
from tenferro.types import DType

__all__ = ["ROWS"]


def direct(name: str) -> Emitter:
    """Return the emitter of the StableHLO operation of this name."""
    return lambda op, w, *operands: w.op(name, *operands)


def on_bool(name: str, otherwise: Emitter) -> Emitter:
    """Return an emitter that writes `stablehlo.<name>` if the operands are bools, and calls `otherwise` if not."""

    def emit(op: Any, w: Writer, *operands: Value) -> Value:
        return (direct(name) if operands[0].dtype.is_bool else otherwise)(op, w, *operands)

    return emit


def on_unsigned(unsigned: Emitter, otherwise: Emitter) -> Emitter:
    """Return an emitter that calls `unsigned` if the operands are unsigned integers, else `otherwise`.

    Some StableHLO operations, such as `stablehlo.sign`, reject unsigned integers.
    """

    def emit(op: Any, w: Writer, *operands: Value) -> Value:
        return (unsigned if operands[0].dtype.kind == "u" else otherwise)(op, w, *operands)

    return emit


def guarded_division(name: str, emit_zero: Emitter) -> Emitter:
    """Return the emitter of a division or remainder, with defined integer results for a zero divisor and for overflow.

    StableHLO leaves both cases to the implementation. So the emitted division has the divisor 1 where the divisor is
    zero or the quotient overflows. Where the divisor is zero, a select then returns the value that `emit_zero` emits.
    XLA's constant folding and all of its backends therefore agree.
    """

    def emit(op: Any, w: Writer, x: Value, y: Value) -> Value:
        if not x.dtype.is_integer:
            return w.op(name, x, y)
        one = w.full(1, y.spec)
        zero_divisor = w.compare("EQ", y, w.full(0, y.spec))
        divisor = w.select(zero_divisor, one, y)
        overflow = None
        if x.dtype.kind == "i":
            least = w.full(x.dtype.extremes[0], x.spec)
            minus_one = w.compare("EQ", y, w.full(-1, y.spec))
            overflow = w.op("and", w.compare("EQ", x, least), minus_one)
            divisor = w.select(overflow, one, divisor)
        # On overflow, x is the least integer and y is -1. Division by 1 then returns the wrapped quotient, which is the
        # least integer, and the remainder 0.
        return w.select(zero_divisor, emit_zero(op, w, x, y), w.op(name, x, divisor))

    return emit


def all_ones(op: Any, w: Writer, x: Value, y: Value) -> Value:
    """Emit integers with every bit set, in the shape and dtype of x: -1 if signed, else the largest integer."""
    return w.full(-1 if x.dtype.kind == "i" else x.dtype.extremes[1], x.spec)


def count_leading_zeros(op: ops.CountLeadingZeros, w: Writer, x: Value) -> Value:
    """Count leading zeros; a signed integer is first reinterpreted as unsigned.

    XLA's constant folding counts wrongly for negative integers of fewer than 32 bits.
    """
    if x.dtype.kind == "u":
        return w.op("count_leading_zeros", x)
    unsigned = w.bitcast(x, DType.of(f"uint{x.dtype.bits}"))
    return w.bitcast(w.op("count_leading_zeros", unsigned), x.dtype)


def population_count(op: ops.PopulationCount, w: Writer, x: Value) -> Value:
    """Count the bits that are set.

    Integers of fewer than 8 bits are first zero-extended to a byte. XLA counts the bits of the whole byte, and the
    upper bits of a negative integer are copies of its sign.
    """
    if not x.dtype.is_narrow:
        return w.op("popcnt", x)
    unsigned = w.bitcast(x, DType.of(f"uint{x.dtype.bits}"))
    return w.convert(w.op("popcnt", w.convert(unsigned, DType.U8)), x.dtype)


def power(op: ops.Power, w: Writer, x: Value, y: Value) -> Value:
    """Emit a power; an integer power is computed by repeated squaring, unrolled over the exponent's bits.

    For a negative exponent the result is 1 if x is 1, 1 or -1 if x is -1, else 0.
    """
    if not x.dtype.is_integer:
        return w.op("power", x, y)
    one, zero = w.full(1, x.spec), w.full(0, x.spec)
    result, base, exponent = one, x, y
    last = x.dtype.bits - 1 - (x.dtype.kind == "i")
    for bit in range(last + 1):
        odd = w.compare("NE", w.op("and", exponent, one), zero)
        result = w.select(odd, w.op("multiply", result, base), result)
        if bit < last:
            exponent = w.op("shift_right_logical", exponent, one)
            base = w.op("multiply", base, base)
    if x.dtype.kind == "u":
        return result
    odd = w.compare("NE", w.op("and", y, one), zero)
    signed = w.select(odd, x, one)
    minus_one = w.compare("EQ", x, w.full(-1, x.spec))
    vanishing = w.select(w.compare("EQ", x, one), one, w.select(minus_one, signed, zero))
    return w.select(w.compare("LT", y, zero), vanishing, result)


def clamp(op: ops.Clamp, w: Writer, x: Value, lower: Value, upper: Value) -> Value:
    """Emit `min(max(x, lower), upper)`; unlike `stablehlo.clamp`, this treats NaN and bools as the op `Clamp` does."""
    return minimum(op, w, maximum(op, w, x, lower), upper)


def convert(op: ops.Convert, w: Writer, x: Value) -> Value:
    """Emit a conversion of x to the dtype `op.to`.

    Complex numbers are converted to real dtypes by their real part. Conversions from and to bfloat16 are made in two
    steps, by way of float32.

    A conversion to complex is written as `stablehlo.complex` of x and zeros, because the TPU compiler aborts on
    `stablehlo.convert` to complex.
    """
    to = op.to
    if x.dtype.is_complex and not to.is_complex:
        if to.is_bool:
            return w.compare("NE", x, w.full(0, x.spec))
        x = w.op("real", x)
    if DType.BF16 in (x.dtype, to):
        x = w.convert(x, DType.F32) if not x.dtype.is_bool and not x.dtype.is_complex else x
    if x.dtype.is_narrow and x.dtype.is_float and to.is_integer:
        x = w.convert(x, DType.F32)  # because XLA converts 4-bit floats to integers wrongly
    if to.is_complex and not x.dtype.is_complex:
        part = w.convert(x, to.real)
        return w.op("complex", part, w.full(0, part.spec))
    return w.convert(x, to)


def conj(op: ops.Conj, w: Writer, x: Value) -> Value:
    """Emit the complex conjugate; return a real x unchanged."""
    if not x.dtype.is_complex:
        return x
    imag = w.op("negate", w.op("imag", x))
    return w.op("complex", w.op("real", x), imag)


def reduce_precision(op: ops.ReducePrecision, w: Writer, x: Value) -> Value:
    """Emit `stablehlo.reduce_precision`.

    If the format has no mantissa bits, XLA converts NaN to infinity; a select restores NaN.
    """
    format_ = f"e{op.exponent_bits}m{op.mantissa_bits}"
    value = w.op("reduce_precision", x, result=x.spec, format=format_)
    return value if op.mantissa_bits else w.select(w.compare("NE", x, x), x, value)


maximum = on_bool("or", direct("maximum"))
minimum = on_bool("and", direct("minimum"))

ROWS: EmitterRows = {
    ops.Add: on_bool("or", direct("add")),
    ops.Subtract: direct("subtract"),
    ops.Multiply: on_bool("and", direct("multiply")),
    ops.Divide: guarded_division("divide", all_ones),
    ops.Remainder: guarded_division("remainder", lambda op, w, x, y: x),
    ops.Power: power,
    ops.Maximum: maximum,
    ops.Minimum: minimum,
    ops.Negate: direct("negate"),
    ops.Abs: on_unsigned(lambda op, w, x: x, direct("abs")),
    ops.Sign: on_unsigned(lambda op, w, x: w.op("minimum", x, w.full(1, x.spec)), direct("sign")),
    ops.Clamp: clamp,
    ops.Compare: lambda op, w, x, y: w.compare(op.direction, x, y),
    ops.Select: lambda op, w, pred, on_true, on_false: w.select(pred, on_true, on_false),
    ops.And: direct("and"),
    ops.Or: direct("or"),
    ops.Xor: direct("xor"),
    ops.Not: direct("not"),
    ops.ShiftLeft: direct("shift_left"),
    ops.ShiftRightArithmetic: direct("shift_right_arithmetic"),
    ops.ShiftRightLogical: direct("shift_right_logical"),
    ops.PopulationCount: population_count,
    ops.CountLeadingZeros: count_leading_zeros,
    ops.Floor: direct("floor"),
    ops.Ceil: direct("ceil"),
    ops.RoundNearestEven: direct("round_nearest_even"),
    ops.RoundNearestAfz: direct("round_nearest_afz"),
    ops.IsFinite: direct("is_finite"),
    ops.Convert: convert,
    ops.BitcastConvert: lambda op, w, x: w.bitcast(x, op.to),
    ops.Conj: conj,
    ops.Real: lambda op, w, x: w.op("real", x) if x.dtype.is_complex else x,
    ops.Imag: lambda op, w, x: w.op("imag", x) if x.dtype.is_complex else w.full(0, x.spec),
    ops.Complex: direct("complex"),
    ops.ReducePrecision: reduce_precision,
}
