"""ONNX nodes of elementwise ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tenferro.errors import UnsupportedError
from tenferro.ops import elementwise as ops
from tenferro.types import DType, TensorSpec
from xla_peer.onnx.decomposition import written
from xla_peer.onnx.writer import Value, Writer, element_type

__all__ = ["ROWS", "Rows", "missing", "node", "where"]

Rows = Mapping[type[Any], Any]
SELECTED = (DType.U8, DType.I32, DType.I64, DType.F32, DType.F64)
"""Types for which onnxruntime implements Where."""


def node(kind: str) -> Any:
    """Return a function that writes an op as one node with the ONNX operator `kind`."""
    return lambda op, w, *xs: w.op(kind, *xs)


def missing(reason: str) -> Any:
    """Return a function that raises `UnsupportedError` for an op without a counterpart in ONNX; `reason` says why."""

    def cell(op: Any, w: Writer, *xs: Value) -> Any:
        raise UnsupportedError(f"ONNX has no counterpart: {reason}")

    return cell


def by_kind(kinds: str, here: Any, elsewhere: Any) -> Any:
    """Return a function that calls `here` if the kind of the last operand's dtype is in `kinds`, else `elsewhere`.

    `kinds` is a string of NumPy's letters, such as "iu" for integers.
    """
    return lambda op, w, *xs: (here if xs[-1].dtype.kind in kinds else elsewhere)(op, w, *xs)


def where(w: Writer, pred: Value, x: Value, y: Value, shape: Any = None) -> Value:
    """Write an elementwise selection; operands of other types than `SELECTED` are cast for the selection.

    Args:
        shape: shape of the result; by default the shape of the operand with the highest rank.
    """
    if shape is None:
        shape = max((pred, x, y), key=lambda value: value.rank).spec.shape
    if x.dtype.is_bool:
        spec = TensorSpec.of(shape, DType.Bool)
        there = w.op("And", w.op("Not", pred), y, spec=spec)
        return w.op("Or", w.op("And", pred, x, spec=spec), there, spec=spec)
    through = x.dtype
    if x.dtype not in SELECTED:
        through = DType.F32 if x.dtype.is_float else DType.I64
    spec = TensorSpec.of(shape, through)
    return w.cast(w.op("Where", pred, w.cast(x, through), w.cast(y, through), spec=spec), x.dtype)


def divide(op: Any, w: Writer, x: Value, y: Value) -> Value:
    """Emit Div; an integer divided by zero is the integer with all bits set."""
    if not x.dtype.is_integer:
        return w.op("Div", x, y)
    zero = w.op("Equal", y, w.number(0, x.dtype), spec=w.like(x, DType.Bool))
    quotient = w.op("Div", x, where(w, zero, w.number(1, x.dtype), y))
    ones = w.constant(np.bitwise_not(np.zeros((), x.dtype.dtype)))
    return where(w, zero, ones, quotient)


def remainder(op: Any, w: Writer, x: Value, y: Value) -> Value:
    """Emit Mod with the attribute `fmod`: the result has the sign of x. For integers and y = 0 the result is x."""
    if not x.dtype.is_integer:
        return w.op("Mod", x, y, fmod=1)
    zero = w.op("Equal", y, w.number(0, x.dtype), spec=w.like(x, DType.Bool))
    rest = w.op("Mod", x, where(w, zero, w.number(1, x.dtype), y), fmod=1)
    return where(w, zero, x, rest)


def negate(op: Any, w: Writer, x: Value) -> Value:
    """Emit Neg, or for unsigned integers, which Neg does not accept, Sub for 0 - x, which wraps."""
    return (
        w.op("Sub", w.number(0, x.dtype), x, spec=x.spec) if x.dtype.kind == "u" else w.op("Neg", x)
    )


def power(op: Any, w: Writer, x: Value, y: Value) -> Value:
    """Emit Pow for floats. For integers, widen the operands; a negative power is 0 unless the base is 1 or -1."""
    if not x.dtype.is_integer:
        return w.op("Pow", x, y)
    wide = DType.I64 if x.dtype.itemsize == 8 else DType.I32
    base, exponent = w.cast(x, wide), w.cast(y, wide)
    if x.dtype.kind == "u":
        return w.cast(w.op("Pow", base, exponent), x.dtype)
    spec, zero, one = w.like(x, DType.Bool), w.number(0, wide), w.number(1, wide)
    is_negative = w.op("Less", exponent, zero, spec=spec)
    result = w.op("Pow", base, where(w, is_negative, zero, exponent))
    is_odd = w.op("Equal", w.op("Mod", exponent, w.number(2, wide)), one, spec=spec)
    is_unit = w.op("Equal", w.op("Abs", base), one, spec=spec)
    signed = where(w, is_odd, base, w.op("Abs", base))
    inverse = where(w, is_unit, signed, zero)
    return w.cast(where(w, is_negative, inverse, result), x.dtype)


def clamp(op: Any, w: Writer, x: Value, low: Value, high: Value) -> Value:
    """Write min(max(x, low), high)."""
    if x.dtype.is_bool:
        return w.op("And", w.op("Or", x, low), high)
    return w.op("Min", w.op("Max", x, low), high)


def compare(op: ops.Compare, w: Writer, x: Value, y: Value) -> Value:
    """Write a comparison; bools are compared as integers."""
    spec = w.like(x, DType.Bool)
    if x.dtype.is_bool:
        x, y = w.cast(x, DType.I32), w.cast(y, DType.I32)
    if op.direction == "NE":
        return w.op("Not", w.op("Equal", x, y, spec=spec))
    kinds = {
        "EQ": "Equal",
        "LT": "Less",
        "LE": "LessOrEqual",
        "GT": "Greater",
        "GE": "GreaterOrEqual",
    }
    return w.op(kinds[op.direction], x, y, spec=spec)


def select(op: Any, w: Writer, pred: Value, x: Value, y: Value) -> Value:
    """Write an elementwise selection; see `where`."""
    return where(w, pred, x, y)


def shift(direction: str) -> Any:
    """Return a function that writes a logical shift as BitShift of unsigned integers of the same width.

    The result is 0 if the amount is at least the width, for which BitShift is undefined.
    """

    def cell(op: Any, w: Writer, x: Value, y: Value) -> Value:
        word = DType.of(f"uint{x.dtype.bits}")
        bits, amount = (bitcast(w, value, word) for value in (x, y))
        if 0 <= w.numbers.get(y.name, -1) < x.dtype.bits:
            return bitcast(w, w.op("BitShift", bits, amount, direction=direction), x.dtype)
        limit = w.number(x.dtype.bits, word)
        fits = w.op("Less", amount, limit, spec=w.like(x, DType.Bool))
        safe = where(w, fits, amount, w.number(0, word))
        shifted = w.op("BitShift", bits, safe, direction=direction)
        return bitcast(w, where(w, fits, shifted, w.number(0, word)), x.dtype)

    return cell


def shift_right_arithmetic(op: Any, w: Writer, x: Value, y: Value) -> Value:
    """Write an arithmetic right shift as a logical one; the bits of negative integers are inverted before and after."""
    word, signed = DType.of(f"uint{x.dtype.bits}"), DType.of(f"int{x.dtype.bits}")
    amount = bitcast(w, y, word)
    last = w.number(x.dtype.bits - 1, word)
    spec = w.like(x, DType.Bool)
    amount = where(w, w.op("Less", amount, last, spec=spec), amount, last)
    is_negative = w.op("Less", bitcast(w, x, signed), w.number(0, signed), spec=spec)
    ones, zeros = w.constant(~np.zeros((), word.dtype)), w.number(0, word)
    mask = where(w, is_negative, ones, zeros)
    bits = w.op("BitwiseXor", bitcast(w, x, word), mask)
    return bitcast(
        w, w.op("BitwiseXor", w.op("BitShift", bits, amount, direction="RIGHT"), mask), x.dtype
    )


def _set_bits(x: Any) -> Any:
    """Return the number of set bits of 64-bit integers.

    The bits are counted in pairs, then in groups of four and of eight; a product adds the counts of all bytes.
    """
    pairs, fours, halves = (
        np.uint64(word) for word in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F)
    )
    x = x - ((x >> np.uint64(1)) & pairs)
    x = (x & fours) + ((x >> np.uint64(2)) & fours)
    x = (x + (x >> np.uint64(4))) & halves
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


def _leading_zeros(x: Any, width: int) -> Any:
    for step in (1, 2, 4, 8, 16, 32):
        x = x | (x >> np.uint64(step))
    return np.uint64(width) - _set_bits(x)


def counted(function: Any) -> Any:
    """Return a function that writes an op as the ops of `function(integers, width)`, on integers widened to 64 bits."""

    def cell(op: Any, w: Writer, x: Value) -> Value:
        word = w.cast(bitcast(w, x, DType.of(f"uint{x.dtype.bits}")), DType.U64)
        (y,) = written(w, lambda y: function(y, x.dtype.bits), word)
        return w.cast(y, x.dtype)

    return cell


def bitcast(w: Writer, x: Value, dtype: DType) -> Value:
    """Reinterpret the bits as another element type of the same width."""
    if x.dtype is dtype:
        return x
    if x.dtype.is_integer and dtype.is_integer:
        return w.cast(x, dtype)
    return w.op("BitCast", x, spec=w.like(x, dtype), to=element_type(dtype))


def bitcast_convert(op: ops.BitcastConvert, w: Writer, x: Value) -> Value:
    """Emit BitCast, which ONNX supports only between dtypes of the same width."""
    if x.dtype.bits != op.to.bits:
        raise UnsupportedError("ONNX has no counterpart: BitCast keeps the width")
    return bitcast(w, x, op.to)


def round_away(op: Any, w: Writer, x: Value) -> Value:
    """Write a rounding to the nearest integer, with ties away from zero: ONNX's Round rounds ties to even."""
    size = w.op("Abs", x)
    whole = w.op("Floor", size)
    spec = w.like(x, DType.Bool)
    up = w.op("GreaterOrEqual", w.op("Sub", size, whole), w.number(0.5, x.dtype), spec=spec)
    rounded = where(w, up, w.op("Add", whole, w.number(1, x.dtype)), whole)
    return w.op("Mul", w.op("Sign", x), rounded)


def is_finite(op: Any, w: Writer, x: Value) -> Value:
    """Return |x| < inf, which is false for NaN."""
    return w.op("Less", w.op("Abs", x), w.number(np.inf, x.dtype), spec=w.like(x, DType.Bool))


def convert(op: ops.Convert, w: Writer, x: Value) -> Value:
    """Write a cast; a cast from float to integer saturates, and maps NaN to 0."""
    if not (x.dtype.is_float and op.to.is_integer):
        return w.cast(x, op.to)
    info = np.iinfo(op.to.dtype)
    spec = w.like(x, DType.Bool)
    wide = w.cast(x, DType.F64)
    high, low = w.number(float(info.max), DType.F64), w.number(float(info.min), DType.F64)
    above = w.op("GreaterOrEqual", wide, high, spec=spec)
    below = w.op("LessOrEqual", wide, low, spec=spec)
    inside = w.op("Not", w.op("Or", w.op("Or", above, below), w.op("IsNaN", wide, spec=spec)))
    y = w.cast(where(w, inside, wide, w.number(0, DType.F64)), op.to)
    y = where(w, above, w.number(info.max, op.to), y)
    return where(w, below, w.number(info.min, op.to), y)


def real(op: Any, w: Writer, x: Value) -> Value:
    """Emit Identity: in ONNX programs all operands are real, so the real part and the conjugate equal the operand."""
    return w.op("Identity", x)


def imag(op: Any, w: Writer, x: Value) -> Value:
    """Emit zeros, the imaginary part of a real operand."""
    return w.expand(w.number(0, x.dtype), x.spec.shape)


ROWS: Rows = {
    ops.Add: by_kind("b", node("Or"), node("Add")),
    ops.Subtract: node("Sub"),
    ops.Multiply: by_kind("b", node("And"), node("Mul")),
    ops.Divide: divide,
    ops.Remainder: remainder,
    ops.Power: power,
    ops.Maximum: by_kind("b", node("Or"), node("Max")),
    ops.Minimum: by_kind("b", node("And"), node("Min")),
    ops.Negate: negate,
    ops.Abs: node("Abs"),
    ops.Sign: node("Sign"),
    ops.Clamp: clamp,
    ops.Compare: compare,
    ops.Select: select,
    ops.And: by_kind("b", node("And"), node("BitwiseAnd")),
    ops.Or: by_kind("b", node("Or"), node("BitwiseOr")),
    ops.Xor: by_kind("b", node("Xor"), node("BitwiseXor")),
    ops.Not: by_kind("b", node("Not"), node("BitwiseNot")),
    ops.ShiftLeft: shift("LEFT"),
    ops.ShiftRightArithmetic: shift_right_arithmetic,
    ops.ShiftRightLogical: shift("RIGHT"),
    ops.PopulationCount: counted(lambda x, width: _set_bits(x)),
    ops.CountLeadingZeros: counted(_leading_zeros),
    ops.Floor: node("Floor"),
    ops.Ceil: node("Ceil"),
    ops.RoundNearestEven: node("Round"),
    ops.RoundNearestAfz: round_away,
    ops.IsFinite: is_finite,
    ops.Convert: convert,
    ops.BitcastConvert: bitcast_convert,
    ops.Conj: real,
    ops.Real: real,
    ops.Imag: imag,
    ops.Complex: missing("its operators take no complex numbers"),
    ops.ReducePrecision: missing("it rounds to no narrower format in place"),
}
