"""Ops that act on each element by itself: arithmetic, order, logic, bits, rounding, conversion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tenferro.dims import GuardLog
from tenferro.ops.op import StdTensorOp, normalize
from tenferro.rules.dtypes import ANY, NUMERIC, require_dtype
from tenferro.rules.shapes import same_type
from tenferro.types import DType, TensorSpec

__all__ = ["CARDS", "Add", "Convert", "Multiply", "Negate", "SameType"]


class SameType(StdTensorOp):
    """Operands of one type, and a result of that type."""

    __slots__ = ()

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        require_dtype(self.name, "x" if len(inputs) == 1 else "x0", inputs[0].dtype, self.accepts)
        return (same_type(self.name, inputs, guards) if len(inputs) > 1 else inputs[0],)


@dataclass(frozen=True, slots=True)
class Add(SameType):
    """Sum: y = x0 + x1; logical or on bool; integers wrap.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every dtype
    AD:      linear in each operand
    Lowers:  stablehlo.add; stablehlo.or on bool, because XLA folds an i1 add as exclusive or
    Errors:  ShapeError, DTypeError unless both operands have one type
    Source:  seed 004 section IV, StableHLO spec #add
    """

    accepts: ClassVar[frozenset[DType]] = ANY
    input_count: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class Multiply(SameType):
    """Product: y = x0 x1; logical and on bool; integers wrap.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every dtype
    AD:      bilinear
    Lowers:  stablehlo.multiply; stablehlo.and on bool
    Errors:  ShapeError, DTypeError unless both operands have one type
    Source:  seed 004 section IV, StableHLO spec #multiply
    """

    accepts: ClassVar[frozenset[DType]] = ANY
    input_count: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class Negate(SameType):
    """Negative: y = -x; integers wrap, so that the least negative stays itself.

    Shapes:  x S -> S
    Dtypes:  every integer, float and complex dtype
    AD:      linear
    Lowers:  stablehlo.negate, one to one
    Errors:  DTypeError on bool
    Source:  seed 004 section IV, StableHLO spec #negate
    """

    accepts: ClassVar[frozenset[DType]] = NUMERIC


@dataclass(frozen=True, slots=True)
class Convert(StdTensorOp):
    """Change the element type: y = x in dtype `to`.

    Float to integer truncates, saturates, and sends NaN to 0, as XLA does. To bool is x != 0.
    Complex to real keeps the real part. Integer to narrower integer wraps.

    Shapes:  x S -> S
    Dtypes:  every dtype to every dtype
    AD:      linear between float and complex dtypes; inactive where either end is integer or bool
    Lowers:  stablehlo.convert
    Errors:  DTypeError on an unknown dtype
    Source:  seed 002 section II, StableHLO spec #convert

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


CARDS = (Add, Multiply, Negate, Convert)
