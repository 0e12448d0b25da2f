"""Ops that act on each element separately: arithmetic, comparisons, logic, bits, rounding and conversion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tenferro.dims import GuardLog, is_static
from tenferro.errors import DTypeError, ShapeError
from tenferro.ops.op import StdTensorOp, card, normalize
from tenferro.rules.dtypes import (
    ANY,
    BOOL,
    FLOATS,
    INEXACT,
    INTEGERS,
    NUMERIC,
    ORDERED,
    REAL,
    require_dtype,
)
from tenferro.rules.payload import as_choice, as_int
from tenferro.rules.shapes import same_shape, same_type
from tenferro.types import DType, TensorSpec

__all__ = [
    "CARDS",
    "Abs",
    "Add",
    "And",
    "BitcastConvert",
    "Ceil",
    "Clamp",
    "Compare",
    "Complex",
    "Conj",
    "Convert",
    "CountLeadingZeros",
    "Divide",
    "Floor",
    "Imag",
    "IsFinite",
    "Maximum",
    "Minimum",
    "Multiply",
    "Negate",
    "Not",
    "Or",
    "PopulationCount",
    "Power",
    "Real",
    "ReducePrecision",
    "Remainder",
    "RoundNearestAfz",
    "RoundNearestEven",
    "SameType",
    "Select",
    "ShiftLeft",
    "ShiftRightArithmetic",
    "ShiftRightLogical",
    "Sign",
    "Subtract",
    "Xor",
]


class SameType(StdTensorOp):
    """Base class of ops whose operands and result all have the same type.

    Errors:  DTypeError on another dtype; ShapeError, DTypeError unless all operands have one type
    """

    __slots__ = ()

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        x = inputs[0]
        if x.dtype not in self.accepts:
            require_dtype(self.name, "x" if len(inputs) == 1 else "x0", x.dtype, self.accepts)
        # Type objects are shared, so `count` usually finds equal types by identity, without comparing shapes.
        return (x,) if inputs.count(x) == len(inputs) else (same_type(self.name, inputs, guards),)


class Add(SameType):
    """Sum: y = x0 + x1; logical or on bool; integers wrap.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every dtype
    AD:      linear in each operand
    Lowers:  stablehlo.add; stablehlo.or on bool, because XLA folds an i1 add as exclusive or
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ANY
    input_count: ClassVar[Any] = 2


class Subtract(SameType):
    """Difference: y = x0 - x1; integers wrap.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every integer, float and complex dtype
    AD:      linear in each operand
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = NUMERIC
    input_count: ClassVar[Any] = 2


class Multiply(SameType):
    """Product: y = x0 x1; logical and on bool; integers wrap.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every dtype
    AD:      bilinear
    Lowers:  stablehlo.multiply; stablehlo.and on bool
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ANY
    input_count: ClassVar[Any] = 2


class Divide(SameType):
    """Quotient: y = x0 / x1.

    Integer quotients are truncated towards zero. For integers, x / 0 is -1, whose bits are all set, and the least
    integer divided by -1 is itself.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every integer, float and complex dtype
    AD:      linear in x0; rule for x1
    Lowers:  stablehlo.divide, with selects for a divisor of 0, and for the least integer divided by -1
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = NUMERIC
    input_count: ClassVar[Any] = 2


class Remainder(SameType):
    """Remainder of truncating division: y = x0 - x1 trunc(x0 / x1), which has the sign of x0.

    For integers, the remainder of x by 0 is x, and the remainder of the least integer by -1 is 0. For floats, y is the
    result of C's fmod.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every integer and float dtype
    AD:      rule
    Lowers:  stablehlo.remainder, with selects for a divisor of 0, and for the least integer divided by -1
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = REAL
    input_count: ClassVar[Any] = 2


class Power(SameType):
    """Power: y = x0 ^ x1.

    Integer powers wrap. With a negative exponent, the power of 1 is 1, of -1 is 1 or -1, and of every other base is 0.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every integer, float and complex dtype
    AD:      rule
    Lowers:  stablehlo.power; integers as repeated squaring
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = NUMERIC
    input_count: ClassVar[Any] = 2


class Maximum(SameType):
    """Maximum: y = max(x0, x1); NaN where x0 or x1 is NaN; 0.0 is larger than -0.0; logical or on bool.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every real dtype, and bool
    AD:      the tangent of the larger operand; the mean of both tangents where the operands are equal
    Lowers:  stablehlo.maximum; stablehlo.or on bool
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ORDERED
    input_count: ClassVar[Any] = 2


class Minimum(SameType):
    """Minimum: y = min(x0, x1); NaN where x0 or x1 is NaN; -0.0 is smaller than 0.0; logical and on bool.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every real dtype, and bool
    AD:      the tangent of the smaller operand; the mean of both tangents where the operands are equal
    Lowers:  stablehlo.minimum; stablehlo.and on bool
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ORDERED
    input_count: ClassVar[Any] = 2


class Negate(SameType):
    """Negative: y = -x; integers wrap, so the least integer stays itself.

    Shapes:  x S -> S
    Dtypes:  every integer, float and complex dtype
    AD:      linear
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = NUMERIC


class Sign(SameType):
    """Sign: y = -1, 0 or 1 for real x; a zero or NaN is returned unchanged. For complex x, y = x / |x|, and 0 at 0.

    Shapes:  x S -> S
    Dtypes:  every integer, float and complex dtype
    AD:      inactive for real x; rule for complex
    Lowers:  stablehlo.sign; min(x, 1) for unsigned
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = NUMERIC


class And(SameType):
    """Bitwise and; logical on bool.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  bool and every integer dtype
    AD:      inactive
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = BOOL | INTEGERS
    input_count: ClassVar[Any] = 2


class Or(SameType):
    """Bitwise or; logical on bool.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  bool and every integer dtype
    AD:      inactive
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = BOOL | INTEGERS
    input_count: ClassVar[Any] = 2


class Xor(SameType):
    """Bitwise exclusive or; logical on bool.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  bool and every integer dtype
    AD:      inactive
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = BOOL | INTEGERS
    input_count: ClassVar[Any] = 2


class Not(SameType):
    """Bitwise not: every bit of x inverted; logical on bool.

    Shapes:  x S -> S
    Dtypes:  bool and every integer dtype
    AD:      inactive
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = BOOL | INTEGERS


class ShiftLeft(SameType):
    """y = x0 << x1; 0 where x1 is negative, or at least the width of the dtype in bits.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every integer dtype
    AD:      inactive
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INTEGERS
    input_count: ClassVar[Any] = 2


class ShiftRightArithmetic(SameType):
    """y = x0 >> x1, filled with the sign bit.

    Where x1 is negative, or at least the width of the dtype in bits, all bits of y are the sign bit of x0.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every integer dtype
    AD:      inactive
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INTEGERS
    input_count: ClassVar[Any] = 2


class ShiftRightLogical(SameType):
    """y = x0 >> x1, filled with zeros; 0 where x1 is negative, or at least the width of the dtype in bits.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every integer dtype
    AD:      inactive
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INTEGERS
    input_count: ClassVar[Any] = 2


class PopulationCount(SameType):
    """The number of bits that are set in the two's complement of x.

    Shapes:  x S -> S
    Dtypes:  every integer dtype
    AD:      inactive
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INTEGERS


class CountLeadingZeros(SameType):
    """The number of zero bits above the highest bit that is set; for 0, the width of the dtype in bits.

    Shapes:  x S -> S
    Dtypes:  every integer dtype
    AD:      inactive
    Lowers:  stablehlo.count_leading_zeros, one to one
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INTEGERS


class Floor(SameType):
    """The largest integer not above x.

    Shapes:  x S -> S
    Dtypes:  every float dtype
    AD:      inactive: zero almost everywhere
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = FLOATS


class Ceil(SameType):
    """The smallest integer not below x.

    Shapes:  x S -> S
    Dtypes:  every float dtype
    AD:      inactive: zero almost everywhere
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = FLOATS


class RoundNearestEven(SameType):
    """The nearest integer; halves are rounded to the even integer.

    Shapes:  x S -> S
    Dtypes:  every float dtype
    AD:      inactive: zero almost everywhere
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = FLOATS


class RoundNearestAfz(SameType):
    """The nearest integer; halves are rounded away from zero.

    Shapes:  x S -> S
    Dtypes:  every float dtype
    AD:      inactive: zero almost everywhere
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = FLOATS


class Conj(SameType):
    """Complex conjugate: y = conj(x); y = x for real x.

    Shapes:  x S -> S
    Dtypes:  every integer, float and complex dtype
    AD:      linear over the reals
    Lowers:  real, imag, negate, complex; nothing for real x
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = NUMERIC


class Abs(StdTensorOp):
    """Magnitude: y = |x|, the modulus of complex x; the least integer stays itself.

    Shapes:  x S -> S
    Dtypes:  every integer, float and complex dtype; complex64 -> float32, complex128 -> float64
    AD:      sign(x) x_dot; Re(conj(sign(x)) x_dot) for complex x
    Lowers:  stablehlo.abs; nothing for unsigned x
    Errors:  DTypeError on bool

    >>> Abs().infer(TensorSpec.parse("c64[3]"))
    (f32[3],)
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = NUMERIC

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        require_dtype("Abs", "x", x.dtype, self.accepts)
        return (TensorSpec.of(x.shape, x.dtype.real),)


class Clamp(SameType):
    """Clip to bounds: y = min(max(x, lower), upper); NaN where an operand is NaN.

    Shapes:  x S, lower S, upper S -> S
    Dtypes:  every real dtype, and bool
    AD:      x_dot strictly between the bounds, 0 at a bound, and outside the tangent of the bound
    Lowers:  stablehlo.clamp with the operands in the order lower, x, upper
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ORDERED
    input_count: ClassVar[Any] = 3


COMPARISONS: Mapping[str, np.ufunc] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
"""NumPy's function for each direction of `Compare`."""
DIRECTIONS = tuple(COMPARISONS)


@card
class Compare(StdTensorOp):
    """Predicate: y = x0 `direction` x1, by IEEE rules: NaN differs from every number, and 0.0 == -0.0.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every dtype in, bool out; complex only by EQ and NE
    AD:      inactive
    Errors:  InvalidConfigError on another direction; DTypeError on ordered complex

    >>> Compare("LT").infer(TensorSpec.parse("c64[3]"), TensorSpec.parse("c64[3]"))
    Traceback (most recent call last):
        ...
    tenferro.errors.DTypeError: Compare: LT does not order complex64; EQ and NE take complex
    """

    direction: str

    accepts: ClassVar[frozenset[DType]] = ANY
    input_count: ClassVar[Any] = 2

    def __post_init__(self) -> None:
        as_choice("Compare", "direction", self.direction, DIRECTIONS)

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        x = same_type("Compare", inputs, guards)
        if x.dtype.is_complex and self.direction not in ("EQ", "NE"):
            raise DTypeError(
                f"Compare: {self.direction} does not order {x.dtype}; EQ and NE take complex"
            )
        return (TensorSpec.of(x.shape, DType.Bool),)


class Select(StdTensorOp):
    """Selection: y = on_true where pred is true, else on_false.

    Shapes:  pred S, on_true S, on_false S -> S
    Dtypes:  pred bool; the others every dtype
    AD:      linear in on_true and on_false
    Errors:  ShapeError, DTypeError unless pred is bool and the others have one type
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ANY
    input_count: ClassVar[Any] = 3

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        pred, on_true, on_false = inputs
        require_dtype("Select", "pred", pred.dtype, BOOL)
        if on_true.dtype is not on_false.dtype:
            raise DTypeError(
                f"Select: on_true and on_false must have the same dtype, "
                f"got {on_true} and {on_false}"
            )
        shape = same_shape("Select", ("on_true", on_true), ("on_false", on_false), guards)
        chosen = TensorSpec.of(shape, on_true.dtype)
        shape = same_shape("Select", ("pred", pred), ("on_true", chosen), guards)
        return (TensorSpec.of(shape, on_true.dtype),)


class IsFinite(StdTensorOp):
    """Predicate: y = x is neither infinite nor NaN.

    Shapes:  x S -> S
    Dtypes:  every float dtype in, bool out
    AD:      inactive
    Errors:  DTypeError on another dtype
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = FLOATS

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        require_dtype("IsFinite", "x", x.dtype, self.accepts)
        return (TensorSpec.of(x.shape, DType.Bool),)


@card
class Convert(StdTensorOp):
    """Change the element type: y = x in dtype `to`.

    Conversion from float to integer truncates and saturates, and converts NaN to 0, as in XLA. Conversion to bool
    returns x != 0. Conversion from complex to real drops the imaginary part. Conversion to a narrower integer wraps.

    Shapes:  x S -> S
    Dtypes:  every dtype to every dtype
    AD:      linear between float and complex dtypes; inactive if either dtype is an integer or bool
    Lowers:  stablehlo.convert
    Errors:  DTypeError on an unknown dtype

    >>> Convert("int32").infer(TensorSpec.parse("f64[n]"))
    (i32[n],)
    """

    to: DType

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        normalize(self, to=DType.of(self.to))

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        return (TensorSpec.of(inputs[0].shape, self.to),)


@card
class BitcastConvert(StdTensorOp):
    """Reinterpret the bits of x as another dtype.

    If an element becomes several, the element with the low bits comes first.

    Shapes:  x S -> S where widths agree; to a dtype r times narrower S -> [S.., r]; to one r times
             wider, [S.., r] -> S
    Dtypes:  integers and floats among themselves; complex among themselves
    AD:      inactive
    Errors:  DTypeError on bool, complex beside real, or widths of which none divides the other; ShapeError unless
             the last extent is r

    >>> BitcastConvert("uint16").infer(TensorSpec.parse("f32[3]"))
    (u16[3,2],)
    """

    to: DType

    accepts: ClassVar[frozenset[DType]] = NUMERIC

    def __post_init__(self) -> None:
        normalize(self, to=DType.of(self.to))

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        require_dtype("BitcastConvert", "x", x.dtype, self.accepts)
        require_dtype("BitcastConvert", "to", self.to, self.accepts)
        if x.dtype.is_complex != self.to.is_complex:
            raise DTypeError(f"BitcastConvert: {x.dtype} and {self.to} are not both complex")
        old, new = x.dtype.bits, self.to.bits
        if old == new:
            return (TensorSpec.of(x.shape, self.to),)
        if old % new and new % old:
            raise DTypeError(
                f"BitcastConvert: {x.dtype} has {old} bits and {self.to} {new}; one number must divide the other"
            )
        if old > new:
            return (TensorSpec.of((*x.shape, old // new), self.to),)
        ratio = new // old
        if not x.shape or (is_static(x.shape[-1]) and x.shape[-1] != ratio):
            raise ShapeError(
                f"BitcastConvert: the last extent of {x} must be {ratio} to make {self.to}"
            )
        guards.require(x.shape[-1], "==", ratio, "BitcastConvert: the last axis")
        return (TensorSpec.of(x.shape[:-1], self.to),)


class Real(StdTensorOp):
    """Real part: y = Re(x); y = x for real x.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype; complex64 -> float32, complex128 -> float64
    AD:      linear over the reals
    Lowers:  stablehlo.real; nothing for real x
    Errors:  DTypeError on another dtype
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        require_dtype("Real", "x", x.dtype, self.accepts)
        return (TensorSpec.of(x.shape, x.dtype.real),)


class Imag(StdTensorOp):
    """Imaginary part: y = Im(x); zeros for real x.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype; complex64 -> float32, complex128 -> float64
    AD:      linear over the reals
    Lowers:  stablehlo.imag; a constant zero for real x
    Errors:  DTypeError on another dtype
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        require_dtype("Imag", "x", x.dtype, self.accepts)
        return (TensorSpec.of(x.shape, x.dtype.real),)


class Complex(StdTensorOp):
    """Complex number from its parts: y = x0 + i x1.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  float32 -> complex64, float64 -> complex128
    AD:      linear over the reals
    Errors:  ShapeError, DTypeError unless both operands have one accepted type
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = frozenset({DType.F32, DType.F64})
    input_count: ClassVar[Any] = 2

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        require_dtype("Complex", "x0", inputs[0].dtype, self.accepts)
        x = same_type("Complex", inputs, guards)
        return (TensorSpec.of(x.shape, x.dtype.complex),)


@card
class ReducePrecision(SameType):
    """Round x to a float format with fewer bits; y keeps the dtype of x.

    Numbers are rounded to nearest, halves to even. Values that are too large for the format become infinite. Values
    that are too small become a zero of the same sign. If the format has no mantissa bits, halves are rounded by the
    last bit of the exponent. Subnormal numbers of the format are rounded to the last bit of its subnormal numbers.

    Shapes:  x S -> S
    Dtypes:  every float dtype; narrow dtypes are rounded in float64, in which their subnormal numbers are normal
    AD:      linear: the tangent is rounded in the same way
    Errors:  InvalidConfigError unless exponent_bits >= 1 and mantissa_bits >= 0
    """

    exponent_bits: int
    mantissa_bits: int

    accepts: ClassVar[frozenset[DType]] = FLOATS

    def __post_init__(self) -> None:
        normalize(
            self,
            exponent_bits=as_int("ReducePrecision", "exponent_bits", self.exponent_bits, 1),
            mantissa_bits=as_int("ReducePrecision", "mantissa_bits", self.mantissa_bits, 0),
        )


CARDS = (
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Maximum,
    Minimum,
    Negate,
    Abs,
    Sign,
    Clamp,
    Compare,
    Select,
    And,
    Or,
    Xor,
    Not,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    PopulationCount,
    CountLeadingZeros,
    Floor,
    Ceil,
    RoundNearestEven,
    RoundNearestAfz,
    IsFinite,
    Convert,
    BitcastConvert,
    Conj,
    Real,
    Imag,
    Complex,
    ReducePrecision,
)
