"""ONNX nodes of the elementwise family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tenferro.errors import UnsupportedError
from tenferro.ops import elementwise as ops
from tenferro.types import DType
from xla_peer.onnx.writer import Value, Writer, element_type

__all__ = ["ROWS", "Rows", "missing", "node"]

Rows = Mapping[type[Any], Any]


def node(kind: str) -> Any:
    """Return the cell of an op that is one node."""
    return lambda op, w, *xs: w.op(kind, *xs)


def missing(reason: str) -> Any:
    """Return the cell of an op that ONNX has no counterpart for."""

    def cell(op: Any, w: Writer, *xs: Value) -> Any:
        raise UnsupportedError(f"ONNX has no counterpart: {reason}")

    return cell


def by_kind(kinds: str, here: Any, elsewhere: Any) -> Any:
    """Return the cell with a different cell for some kinds of dtypes."""
    return lambda op, w, *xs: (here if xs[-1].dtype.kind in kinds else elsewhere)(op, w, *xs)


def divide(op: Any, w: Writer, x: Value, y: Value) -> Value:
    """Emit Div; integers divided by zero give -1."""
    if not x.dtype.is_integer:
        return w.op("Div", x, y)
    zero = w.op("Equal", y, w.number(0, x.dtype), spec=w.like(x, DType.Bool))
    quotient = w.op("Div", x, w.op("Where", zero, w.number(1, x.dtype), y, spec=x.spec))
    ones = w.constant(np.bitwise_not(np.zeros((), x.dtype.dtype)))
    return w.op("Where", zero, ones, quotient, spec=x.spec)


def remainder(op: Any, w: Writer, x: Value, y: Value) -> Value:
    """Emit Mod with C's fmod; integers modulo zero give x."""
    if not x.dtype.is_integer:
        return w.op("Mod", x, y, fmod=1)
    zero = w.op("Equal", y, w.number(0, x.dtype), spec=w.like(x, DType.Bool))
    rest = w.op("Mod", x, w.op("Where", zero, w.number(1, x.dtype), y, spec=x.spec), fmod=1)
    return w.op("Where", zero, x, rest, spec=x.spec)


def negate(op: Any, w: Writer, x: Value) -> Value:
    """Write the negative; for unsigned integers 0 - x, which wraps."""
    return (
        w.op("Sub", w.number(0, x.dtype), x, spec=x.spec) if x.dtype.kind == "u" else w.op("Neg", x)
    )


def power(op: Any, w: Writer, x: Value, y: Value) -> Value:
    """Emit Pow; integers are widened, and a negative power is 0 unless the base is 1 or -1."""
    if not x.dtype.is_integer:
        return w.op("Pow", x, y)
    wide = DType.I64 if x.dtype.itemsize == 8 else DType.I32
    base, exponent = w.cast(x, wide), w.cast(y, wide)
    if x.dtype.kind == "u":
        return w.cast(w.op("Pow", base, exponent), x.dtype)
    spec, zero, one = w.like(x, DType.Bool), w.number(0, wide), w.number(1, wide)
    is_negative = w.op("Less", exponent, zero, spec=spec)
    result = w.op("Pow", base, w.op("Where", is_negative, zero, exponent, spec=base.spec))
    is_odd = w.op("Equal", w.op("Mod", exponent, w.number(2, wide)), one, spec=spec)
    is_unit = w.op("Equal", w.op("Abs", base), one, spec=spec)
    signed = w.op("Where", is_odd, base, w.op("Abs", base), spec=base.spec)
    inverse = w.op("Where", is_unit, signed, zero, spec=base.spec)
    return w.cast(w.op("Where", is_negative, inverse, result, spec=base.spec), x.dtype)


def clamp(op: Any, w: Writer, x: Value, low: Value, high: Value) -> Value:
    """Write the minimum of a maximum."""
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
    """Write a selection by element."""
    return w.op("Where", pred, x, y, spec=x.spec)


def shift(direction: str) -> Any:
    """Return the cell of a logical shift, on unsigned words; 0 where the amount is not below the width."""

    def cell(op: Any, w: Writer, x: Value, y: Value) -> Value:
        word = DType.of(f"uint{x.dtype.bits}")
        bits, amount = (bitcast(w, value, word) for value in (x, y))
        if 0 <= w.numbers.get(y.name, -1) < x.dtype.bits:
            return bitcast(w, w.op("BitShift", bits, amount, direction=direction), x.dtype)
        limit = w.number(x.dtype.bits, word)
        fits = w.op("Less", amount, limit, spec=w.like(x, DType.Bool))
        safe = w.op("Where", fits, amount, w.number(0, word), spec=bits.spec)
        shifted = w.op("BitShift", bits, safe, direction=direction)
        return bitcast(w, w.op("Where", fits, shifted, w.number(0, word), spec=bits.spec), x.dtype)

    return cell


def bitcast(w: Writer, x: Value, dtype: DType) -> Value:
    """Reinterpret the bits as another element type of the same width."""
    if x.dtype is dtype:
        return x
    if x.dtype.is_integer and dtype.is_integer:
        return w.cast(x, dtype)
    return w.op("BitCast", x, spec=w.like(x, dtype), to=element_type(dtype))


def bitcast_convert(op: ops.BitcastConvert, w: Writer, x: Value) -> Value:
    """Write a bit cast to the same width."""
    if x.dtype.bits != op.to.bits:
        raise UnsupportedError("ONNX has no counterpart: BitCast keeps the width")
    return bitcast(w, x, op.to)


def round_away(op: Any, w: Writer, x: Value) -> Value:
    """sign(x) floor(|x| + 1/2), where the fraction of |x| is at least 1/2, else the truncated one."""
    size = w.op("Abs", x)
    whole = w.op("Floor", size)
    spec = w.like(x, DType.Bool)
    up = w.op("GreaterOrEqual", w.op("Sub", size, whole), w.number(0.5, x.dtype), spec=spec)
    rounded = w.op("Where", up, w.op("Add", whole, w.number(1, x.dtype)), whole, spec=x.spec)
    return w.op("Mul", w.op("Sign", x), rounded)


def is_finite(op: Any, w: Writer, x: Value) -> Value:
    """Return |x| < inf, which is false for NaN."""
    return w.op("Less", w.op("Abs", x), w.number(np.inf, x.dtype), spec=w.like(x, DType.Bool))


def convert(op: ops.Convert, w: Writer, x: Value) -> Value:
    """Write a cast; from float to integer it is limited to the range, NaN being 0."""
    if not (x.dtype.is_float and op.to.is_integer):
        return w.cast(x, op.to)
    info = np.iinfo(op.to.dtype)
    spec = w.like(x, DType.Bool)
    wide = w.cast(x, DType.F64)
    high, low = w.number(float(info.max), DType.F64), w.number(float(info.min), DType.F64)
    above = w.op("GreaterOrEqual", wide, high, spec=spec)
    below = w.op("LessOrEqual", wide, low, spec=spec)
    inside = w.op("Not", w.op("Or", w.op("Or", above, below), w.op("IsNaN", wide, spec=spec)))
    y = w.cast(w.op("Where", inside, wide, w.number(0, DType.F64), spec=wide.spec), op.to)
    y = w.op("Where", above, w.number(info.max, op.to), y, spec=y.spec)
    return w.op("Where", below, w.number(info.min, op.to), y, spec=y.spec)


def real(op: Any, w: Writer, x: Value) -> Value:
    """Write a real number itself."""
    return w.op("Identity", x)


def imag(op: Any, w: Writer, x: Value) -> Value:
    """Emit zeros."""
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
    ops.ShiftRightArithmetic: missing("BitShift takes unsigned words"),
    ops.ShiftRightLogical: shift("RIGHT"),
    ops.PopulationCount: missing("it counts no bits"),
    ops.CountLeadingZeros: missing("it counts no bits"),
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
