"""Samples of the elementwise ops.

The results are computed with Python's numbers: integers exactly, and floats with one rounding.
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.ops import elementwise as ops
from tenferro.types import DType
from tests.samples.sample import (
    COMMON,
    Array,
    OpSample,
    SampleRows,
    dtypes_of,
    each,
    ordinary_values,
    pairs,
    special_values,
    wrap,
)

Definition = Callable[..., Any]


ROUNDED_WHEN_COMPLEX = (ops.Multiply, ops.Divide, ops.Abs, ops.Sign)


def binary(op: Any, define: Callable[[DType], Definition], **options: Any) -> list[OpSample]:
    """Return samples of an op of two operands, in every dtype.

    They have ordinary values, and every pair of special values.
    """
    samples: list[OpSample] = []
    for dtype in dtypes_of(type(op)):
        result = options.get("result", lambda d: d)(dtype)
        kept = {k: v for k, v in options.items() if k != "result"}
        if dtype.is_complex and type(op) in ROUNDED_WHEN_COMPLEX:
            kept |= {"ulps": 4, "xla_ulps": 8, "because": "complex arithmetic rounds each step"}
        x, y = ordinary_values((2, 3), dtype, 1), ordinary_values((2, 3), dtype, 2)
        samples.append(OpSample(op, (x, y), (each(result, define(dtype), x, y),), **kept))
        if not dtype.is_complex:
            a, b = pairs(special_values(dtype))
            expected = each(result, define(dtype), a, b)
            samples.append(
                OpSample(op, (a, b), (expected,), label=f"special-{dtype.short}", **kept)
            )
    return samples


def unary(op: Any, define: Callable[[DType], Definition], **options: Any) -> list[OpSample]:
    """Return samples of an op of one operand, with ordinary and special values in every dtype.

    In one dtype, there are also samples of rank 0 and of extent 0.
    """
    samples: list[OpSample] = []
    result = options.pop("result", lambda d: d)
    for dtype in dtypes_of(type(op)):
        kept = dict(options)
        if dtype.is_complex and type(op) in ROUNDED_WHEN_COMPLEX:
            kept |= {"ulps": 4, "xla_ulps": 8, "because": "complex arithmetic rounds each step"}
        arrays = [
            ("", ordinary_values((2, 3), dtype, 1)),
            ("scalar-", ordinary_values((), dtype, 3)),
        ]
        if not dtype.is_complex:
            arrays.append(("special-", special_values(dtype)))
        for label, x in arrays:
            expected = each(result(dtype), define(dtype), x)
            samples.append(OpSample(op, (x,), (expected,), label=label + dtype.short, **kept))
    empty = np.zeros((0, 3), dtypes_of(type(op))[-1].dtype)
    expected = np.zeros((0, 3), result(dtypes_of(type(op))[-1]).dtype)
    samples.append(OpSample(op, (empty,), (expected,), label="empty"))
    return samples


def integer(function: Callable[[int, int], int]) -> Callable[[DType], Definition]:
    """Return a definition that applies `function` to Python integers. The result wraps to the range of the dtype."""
    return lambda dtype: lambda *args: wrap(function(*args), dtype)


def by_kind(
    boolean: Definition | None, whole: Definition, real: Definition
) -> Callable[[DType], Definition]:
    """Return a definition that depends on the kind of the dtype.

    `boolean` is for bools, `whole` for integers, which wrap, and `real` for floats and complex numbers.
    """

    def define(dtype: DType) -> Definition:
        if dtype.is_bool:
            assert boolean is not None
            return boolean
        return integer(whole)(dtype) if dtype.is_integer else real

    return define


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def ieee_divide(a: Any, b: Any) -> Any:
    if isinstance(a, complex):
        return a / b
    if b == 0:
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def ieee_remainder(a: float, b: float) -> float:
    if a != a or b != b or math.isinf(a) or b == 0:
        return math.nan
    return math.fmod(a, b)


def ieee_product(a: Any, b: Any) -> Any:
    return a * b


def ieee_maximum(a: float, b: float) -> float:
    if a != a or b != b:
        return math.nan
    if a == b == 0:
        return 0.0 if math.copysign(1, a) > 0 or math.copysign(1, b) > 0 else -0.0
    return a if a > b else b


def ieee_minimum(a: float, b: float) -> float:
    if a != a or b != b:
        return math.nan
    return -ieee_maximum(-a, -b)


def integer_power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64) if abs(b) > 64 else a**b
    return 1 if a == 1 else (-1 if b % 2 else 1) if a == -1 else 0


def float_power(a: float, b: float) -> float:
    if a == 1 or b == 0:
        return 1.0
    if a != a or b != b:
        return math.nan
    odd = float(b).is_integer() and abs(b) < 2**53 and int(b) % 2 == 1
    try:
        return math.pow(a, b)
    except ValueError:
        if a == 0:
            return math.copysign(math.inf, a) if odd else math.inf
        return math.nan
    except ZeroDivisionError:
        return math.copysign(math.inf, a) if odd else math.inf
    except OverflowError:
        return -math.inf if a < 0 and odd else math.inf


def sign(a: Any) -> Any:
    if isinstance(a, complex):
        return a / abs(a) if a else 0
    return (
        a
        if a != a or a == 0
        else math.copysign(1, a)
        if isinstance(a, float)
        else (a > 0) - (a < 0)
    )


def shift(dtype: DType, kind: str) -> Definition:
    def define(a: int, b: int) -> int:
        bits = dtype.bits
        amount = b & ((1 << bits) - 1)
        if kind == "left":
            return wrap(a << amount, dtype) if amount < bits else 0
        if kind == "logical":
            return wrap((a & ((1 << bits) - 1)) >> amount, dtype) if amount < bits else 0
        signed = wrap(a, DType.of(f"int{bits}"))
        return wrap(signed >> min(amount, bits - 1), dtype)

    return define


def round_even(a: float) -> float:
    return math.copysign(round(a), a) if math.isfinite(a) else a


def round_away(a: float) -> float:
    if not math.isfinite(a):
        return a
    whole = math.trunc(a)
    step = 1 if abs(a - whole) >= 0.5 else 0
    return math.copysign(abs(whole) + step, a)


def towards(function: Callable[[float], int]) -> Definition:
    return lambda a: math.copysign(function(a), a) if math.isfinite(a) else a


ROUNDING_INPUT = [0.49999999999999994, 0.5, 1.5, 2.5, -0.5, -1.5, -0.2, 4503599627370497.5]

AND = by_kind(operator.and_, operator.and_, operator.and_)
ARITHMETIC: dict[Any, list[OpSample]] = {
    ops.Add: binary(ops.Add(), by_kind(operator.or_, operator.add, operator.add)),
    ops.Subtract: binary(ops.Subtract(), by_kind(None, operator.sub, operator.sub)),
    ops.Multiply: binary(ops.Multiply(), by_kind(operator.and_, operator.mul, ieee_product)),
    ops.Divide: binary(
        ops.Divide(), by_kind(None, lambda a, b: truncated(a, b) if b else -1, ieee_divide)
    ),
    ops.Remainder: binary(
        ops.Remainder(),
        by_kind(None, lambda a, b: a - b * truncated(a, b) if b else a, ieee_remainder),
    ),
    ops.Maximum: binary(ops.Maximum(), by_kind(operator.or_, max, ieee_maximum)),
    ops.Minimum: binary(ops.Minimum(), by_kind(operator.and_, min, ieee_minimum)),
    ops.Negate: unary(ops.Negate(), by_kind(None, operator.neg, operator.neg)),
    ops.Sign: unary(ops.Sign(), by_kind(None, sign, sign)),
    ops.Abs: unary(ops.Abs(), by_kind(None, abs, abs), result=lambda d: d.real),
}


def power_samples() -> list[OpSample]:
    samples: list[OpSample] = []
    for dtype in dtypes_of(ops.Power):
        if dtype.is_complex:
            x = np.array([[1 + 2j, -1.5 + 0.5j, 2.0], [0.5j, -2 - 1j, 1 - 1j]], dtype.dtype)
            y = np.array([[0.5, 1 + 1j, 3.0], [2 - 1j, -0.5, 0.25j]], dtype.dtype)
            expected = each(dtype, lambda a, b: cmath.exp(b * cmath.log(a)), x, y)
            options = {"ulps": 16, "xla_ulps": 64, "because": "exp of a product of a log"}
        elif dtype.is_integer:
            base = [0, 1, 2, 3, 7, 10] + ([-1, -2, -3] if dtype.kind == "i" else [])
            exponent = [0, 1, 2, 3, 5, 7] + ([-1, -2] if dtype.kind == "i" else [])
            x = np.repeat(np.array(base, dtype.dtype), len(exponent))
            y = np.tile(np.array(exponent, dtype.dtype), len(base))
            expected = each(dtype, integer(integer_power)(dtype), x, y)
            options = {}
        else:
            a, b = pairs(special_values(dtype))
            x, y = (
                np.concatenate([np.array([1.5, 0.3, 2.0, -2.0], dtype.dtype), a]),
                np.concatenate([np.array([2.5, -1.25, 10.0, 3.0], dtype.dtype), b]),
            )
            expected = each(dtype, float_power, x, y)
            options = {"ulps": 2, "xla_ulps": 4, "because": "pow is not correctly rounded"}
        samples.append(OpSample(ops.Power(), (x, y), (expected,), label=dtype.short, **options))
        if dtype.is_float:
            x = np.array([1.5, 0.3, 2.0, 0.75], dtype.dtype)
            y = np.array([2.5, -1.25, 3.0, 0.5], dtype.dtype)
            expected, label = each(dtype, float_power, x, y), f"{dtype.short}-of-positive"
            samples.append(OpSample(ops.Power(), (x, y), (expected,), label=label, **options))
    return samples


def clamp_samples() -> list[OpSample]:
    samples: list[OpSample] = []
    for dtype in dtypes_of(ops.Clamp):
        x = ordinary_values((2, 3), dtype, 1)
        if dtype.is_float:
            x = x.copy()
            x[0, 0] = np.nan
        lower, upper = np.full_like(x, 0), np.full_like(x, 1)
        highest = by_kind(operator.or_, max, ieee_maximum)(dtype)
        lowest = by_kind(operator.and_, min, ieee_minimum)(dtype)
        expected = each(
            dtype,
            lambda a, lo, hi, highest=highest, lowest=lowest: lowest(highest(a, lo), hi),
            x,
            lower,
            upper,
        )
        samples.append(OpSample(ops.Clamp(), (x, lower, upper), (expected,), label=dtype.short))
    return samples


COMPARE = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def compare_samples() -> list[OpSample]:
    samples: list[OpSample] = []
    for dtype in dtypes_of(ops.Compare):
        for direction, compare in COMPARE.items():
            if dtype.is_complex and direction not in ("EQ", "NE"):
                continue
            values = special_values(dtype)
            x, y = pairs(values[:8])
            expected = each(DType.Bool, compare, x, y)
            samples.append(
                OpSample(
                    ops.Compare(direction), (x, y), (expected,), label=f"{direction}-{dtype.short}"
                )
            )
    return samples


def select_samples() -> list[OpSample]:
    samples: list[OpSample] = []
    for dtype in dtypes_of(ops.Select):
        pred = ordinary_values((2, 3), DType.Bool, 5)
        x, y = ordinary_values((2, 3), dtype, 1), ordinary_values((2, 3), dtype, 2)
        expected = each(dtype, lambda p, a, b: a if p else b, pred, x, y)
        samples.append(OpSample(ops.Select(), (pred, x, y), (expected,), label=dtype.short))
    return samples


BITS: dict[Any, list[OpSample]] = {
    ops.And: binary(ops.And(), AND),
    ops.Or: binary(ops.Or(), by_kind(operator.or_, operator.or_, operator.or_)),
    ops.Xor: binary(ops.Xor(), by_kind(operator.xor, operator.xor, operator.xor)),
    ops.Not: unary(ops.Not(), by_kind(operator.not_, operator.invert, operator.invert)),
    ops.ShiftLeft: binary(ops.ShiftLeft(), lambda d: shift(d, "left")),
    ops.ShiftRightArithmetic: binary(ops.ShiftRightArithmetic(), lambda d: shift(d, "arithmetic")),
    ops.ShiftRightLogical: binary(ops.ShiftRightLogical(), lambda d: shift(d, "logical")),
    ops.PopulationCount: unary(
        ops.PopulationCount(), lambda d: lambda a: (a & ((1 << d.bits) - 1)).bit_count()
    ),
    ops.CountLeadingZeros: unary(
        ops.CountLeadingZeros(), lambda d: lambda a: d.bits - (a & ((1 << d.bits) - 1)).bit_length()
    ),
}


def rounding_samples(op: Any, define: Definition) -> list[OpSample]:
    samples = unary(op, lambda d: define)
    for dtype in dtypes_of(type(op)):
        x = np.array(ROUNDING_INPUT).astype(dtype.dtype)
        samples.append(OpSample(op, (x,), (each(dtype, define, x),), label=f"halves-{dtype.short}"))
    return samples


ROUNDING: dict[Any, list[OpSample]] = {
    ops.Floor: rounding_samples(ops.Floor(), towards(math.floor)),
    ops.Ceil: rounding_samples(ops.Ceil(), towards(math.ceil)),
    ops.RoundNearestEven: rounding_samples(ops.RoundNearestEven(), round_even),
    ops.RoundNearestAfz: rounding_samples(ops.RoundNearestAfz(), round_away),
    ops.IsFinite: unary(ops.IsFinite(), lambda d: math.isfinite, result=lambda d: DType.Bool),
}


def converted(value: Any, source: DType, to: DType) -> Any:
    """Convert one Python number as the op specifies. Each step rounds to nearest even."""
    if to.is_bool:
        return value != 0
    if source.is_complex and not to.is_complex:
        value = value.real
    if to.is_integer:
        if isinstance(value, float):
            if value != value:
                return 0
            info = np.iinfo(to.dtype)
            low, high = int(info.min), int(info.max)
            return high if value >= high else low if value <= low else math.trunc(value)
        return wrap(int(value), to)
    return value


def convert_samples() -> list[OpSample]:
    samples: list[OpSample] = []
    for source in COMMON:
        for to in COMMON:
            x = np.concatenate([special_values(source)[:12], ordinary_values((5,), source, 1)])
            expected = each(to, lambda a, s=source, t=to: converted(a, s, t), x)
            label = f"{source.short}-to-{to.short}"
            samples.append(OpSample(ops.Convert(to), (x,), (expected,), label=label))
    return samples


def raw(array: Array) -> bytes:
    return b"".join(element.tobytes() for element in array.reshape(-1))


def bitcast_samples() -> list[OpSample]:
    samples: list[OpSample] = []
    for source in dtypes_of(ops.BitcastConvert):
        for to in dtypes_of(ops.BitcastConvert):
            if source.is_complex != to.is_complex:
                continue
            ratio = to.itemsize // source.itemsize
            shape = (3, ratio) if ratio > 1 else (3,)
            x = ordinary_values(shape, source, 7)
            data = raw(x)
            out = (3,) if ratio >= 1 else (3, source.itemsize // to.itemsize)
            expected = np.frombuffer(data, to.dtype).reshape(out)
            if expected.dtype.kind not in "iu" and np.isnan(expected.astype(np.complex128)).any():
                continue
            label = f"{source.short}-to-{to.short}"
            xla = not source.is_complex or source is to
            samples.append(
                OpSample(
                    ops.BitcastConvert(to),
                    (x,),
                    (expected,),
                    label=label,
                    xla=xla,
                    because="" if xla else "XLA has no bitcast between complex64 and complex128",
                )
            )
    return samples


def complex_samples() -> list[OpSample]:
    samples: list[OpSample] = []
    for dtype in dtypes_of(ops.Complex):
        x, y = pairs(special_values(dtype)[:10])
        samples.append(
            OpSample(
                ops.Complex(), (x, y), (each(dtype.complex, complex, x, y),), label=dtype.short
            )
        )
    return samples


def reduced(value: float, exponent_bits: int, mantissa_bits: int) -> float:
    """Round a float to a format with fewer bits, by definition: scale, round to even, and check the range."""
    if value != value or math.isinf(value) or value == 0:
        return value
    mantissa, exponent = math.frexp(abs(value))
    scaled = math.ldexp(
        round(math.ldexp(mantissa, mantissa_bits + 1)), exponent - mantissa_bits - 1
    )
    reach = (1 << (exponent_bits - 1)) - 1
    _, exponent = math.frexp(scaled)
    if exponent - 1 > reach:
        return math.copysign(math.inf, value)
    return math.copysign(0.0 if exponent - 1 <= -reach else scaled, value)


def reduce_precision_samples() -> list[OpSample]:
    samples: list[OpSample] = []
    for dtype in dtypes_of(ops.ReducePrecision):
        info = ml_dtypes.finfo(dtype.dtype)
        values = [1.0, 1.0625, 1.1875, -3.3, 0.0, -0.0, np.inf, np.nan, 100.0, 300.0, 1e-3, 60000.0]
        x = np.array(values).astype(dtype.dtype)
        for exponent_bits, mantissa_bits in ((5, 2), (4, 3), (3, 4), (4, 0)):
            assert mantissa_bits <= info.nmant
            expected = each(dtype, lambda a, e=exponent_bits, m=mantissa_bits: reduced(a, e, m), x)
            samples.append(
                OpSample(
                    ops.ReducePrecision(exponent_bits, mantissa_bits),
                    (x,),
                    (expected,),
                    label=f"e{exponent_bits}m{mantissa_bits}-{dtype.short}",
                )
            )
        scalar = np.array(1.1875).astype(dtype.dtype)
        rounded = np.array(1.25).astype(dtype.dtype)
        samples.append(OpSample(ops.ReducePrecision(4, 3), (scalar,), (rounded,)))
    return samples


ROWS: SampleRows = {
    **ARITHMETIC,
    **BITS,
    **ROUNDING,
    ops.Power: power_samples(),
    ops.Clamp: clamp_samples(),
    ops.Compare: compare_samples(),
    ops.Select: select_samples(),
    ops.Convert: convert_samples(),
    ops.BitcastConvert: bitcast_samples(),
    ops.Conj: unary(ops.Conj(), lambda d: lambda a: a.conjugate() if isinstance(a, complex) else a),
    ops.Real: unary(ops.Real(), lambda d: lambda a: a.real, result=lambda d: d.real),
    ops.Imag: unary(
        ops.Imag(),
        lambda d: lambda a: a.imag if isinstance(a, complex) else 0.0,
        result=lambda d: d.real,
    ),
    ops.Complex: complex_samples(),
    ops.ReducePrecision: reduce_precision_samples(),
}
