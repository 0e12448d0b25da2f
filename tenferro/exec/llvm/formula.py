"""Numbers with operators that write LLVM instructions, for the formulas of elementary functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tenferro.exec.llvm.code import Code, literal
from tenferro.exec.llvm.ir import Value, VectorType, splat
from tenferro.types import DType

__all__ = [
    "BIAS", "ROUNDER", "Number", "Operand", "are_all", "copysign", "fast_two_sum", "from_bits", "has_bit", "is_unordered",
    "multiply_add", "nearest", "polynomial", "power_of_two", "quotient", "rint", "sqrt", "two_difference",
    "two_product", "where",
]  # fmt: skip

ROUNDER = 1.5 * 2.0**52
"""Number R such that x + R - R is x rounded to an integer, which the last bits of x + R contain."""
BIAS = 1023
"""Exponent bias of float64."""
Operand: TypeAlias = "Number | float"
"""Operand of an operator; a Python number is a constant of the other operand's type."""
Operator: TypeAlias = "Callable[[Number, Operand], Number]"


def _arithmetic(name: str) -> tuple[Operator, Operator]:
    """Return the operator that writes the instruction `name`, or f + `name` for floats, and the reflected operator."""

    def written(x: Number, *operands: Operand) -> Number:
        opcode = name if x.value.type == x.type_of("i64") else f"f{name}"
        return Number(x.code, x.code.value(opcode, *map(x.operand, operands)))

    return lambda x, y: written(x, x, y), lambda y, x: written(y, x, y)


def _bitwise(opcode: str) -> Operator:
    """Return an operator that writes an instruction for integers or bools."""
    return lambda x, y: Number(x.code, x.code.value(opcode, x.value, x.operand(y)))


def _comparison(predicate: str) -> Operator:
    """Return an operator that writes a comparison of floats."""
    return lambda x, y: Number(x.code, x.code.fcmp(predicate, x.value, x.operand(y)))


@dataclass(frozen=True, eq=False)
class Number:
    """Float64, 64-bit integer or bool in a register, or a vector of them; operators write instructions of `code`.

    Integers are unsigned.
    """

    code: Code
    value: Value

    def type_of(self, element: str) -> str:
        """Return the LLVM type `element`, as a vector with as many lanes as this number."""
        kind = self.value.type
        return VectorType(kind.lanes, element) if isinstance(kind, VectorType) else element

    def operand(self, x: Operand, element: str = "") -> Value:
        """Return x as a value; a Python number becomes a constant of the type `element`, by default this number's."""
        if isinstance(x, Number):
            return x.value
        kind = self.value.type
        element = element or (kind.element if isinstance(kind, VectorType) else kind)
        constant = literal(x, DType.F64) if element == "double" else Value(x, element)
        return splat(constant, kind.lanes) if isinstance(kind, VectorType) else constant

    def constant(self, x: float) -> Number:
        """Return a constant of this number's type."""
        return Number(self.code, self.operand(x))

    def intrinsic(self, name: str, *xs: Operand) -> Number:
        """Write a call of an LLVM intrinsic with operands of this number's type, and return its result."""
        return Number(self.code, self.code.intrinsic(name, *map(self.operand, xs)))

    __add__, __radd__ = _arithmetic("add")
    __sub__, __rsub__ = _arithmetic("sub")
    __mul__, __rmul__ = _arithmetic("mul")
    __truediv__, __rtruediv__ = _arithmetic("div")
    __and__, __or__ = _bitwise("and"), _bitwise("or")
    __rshift__, __lshift__ = _bitwise("lshr"), _bitwise("shl")
    __lt__, __le__ = _comparison("olt"), _comparison("ole")
    __gt__, equals = _comparison("ogt"), _comparison("oeq")

    def __neg__(self) -> Number:
        return Number(self.code, self.code.value("fneg", self.value))

    def __abs__(self) -> Number:
        return self.intrinsic("fabs", self)

    def bits(self) -> Number:
        """Return the bits of floats as integers."""
        return Number(self.code, self.code.cast("bitcast", self.value, self.type_of("i64")))


def _first(*xs: Operand) -> Number:
    """Return the first operand that is not a constant."""
    return next(x for x in xs if isinstance(x, Number))


def from_bits(x: Number) -> Number:
    """Return the floats with these bits."""
    return Number(x.code, x.code.cast("bitcast", x.value, x.type_of("double")))


def has_bit(x: Number, bit: int) -> Number:
    """Return whether a bit of x is 1, in each lane."""
    masked = x & (1 << bit)
    return Number(x.code, x.code.icmp("ne", masked.value, x.operand(0)))


def where(condition: Number, x: Operand, y: Operand) -> Number:
    """Return x in the lanes where the condition is true, else y."""
    xs = [condition.operand(each, "double") for each in (x, y)]
    return Number(condition.code, condition.code.select(condition.value, *xs))


def are_all(conditions: Number) -> Value:
    """Return whether a condition is true in every lane."""
    kind, value = conditions.value.type, conditions.value
    if not isinstance(kind, VectorType):
        return value
    return conditions.code.call(f"llvm.vector.reduce.and.v{kind.lanes}i1", "i1", [value])


def is_unordered(x: Number, y: Operand) -> Number:
    """Return whether x or y is NaN, in each lane."""
    return Number(x.code, x.code.fcmp("uno", x.value, x.operand(y)))


def sqrt(x: Number) -> Number:
    """Return the square root of x."""
    return x.intrinsic("sqrt", x)


def rint(x: Number) -> Number:
    """Return x rounded to an integer, with ties rounded to even."""
    return x.intrinsic("rint", x)


def copysign(x: Operand, sign: Operand) -> Number:
    """Return |x| with the sign of the second operand."""
    return _first(x, sign).intrinsic("copysign", x, sign)


def multiply_add(x: Operand, y: Operand, z: Operand) -> Number:
    """Return x y + z, fused if the processor has the instruction."""
    first = _first(x, y, z)
    if first.code.contracts:
        return first.intrinsic("fma", x, y, z)
    product: Any = x
    return product * y + z


def two_difference(x: Number, y: Operand) -> tuple[Number, Number]:
    """Return x - y and its rounding error, by the algorithm TwoDiff."""
    high = x - y
    part = high - x
    return high, (x - (high - part)) - (y + part)


def fast_two_sum(x: Operand, y: Number) -> tuple[Number, Number]:
    """Return x + y and its rounding error, by the algorithm Fast2Sum; |x| >= |y| or x = 0 is required."""
    high = x + y
    return high, (x - high) + y


def two_product(x: Operand, y: Number) -> tuple[Number, Number]:
    """Return x y and its rounding error, by a fused multiply-add or, if there is none, by Dekker's algorithm."""
    high = x * y
    if high.code.contracts:
        return high, high.intrinsic("fma", x, y, -high)
    (a, b), (c, d) = _halves(x), _halves(y)
    return high, (((a * c - high) + a * d) + b * c) + b * d


def _halves(x: Any) -> tuple[Any, Any]:
    """Return two numbers of half as many bits with the sum x, by Veltkamp's algorithm."""
    scaled = x * (2.0**27 + 1)
    high = scaled - (scaled - x)
    return high, x - high


def quotient(
    x: Number, y: Number, x_low: Number | None = None, y_low: Number | None = None
) -> tuple[Number, Number]:
    """Return x / y, rounded, and its difference from (x + x_low) / (y + y_low)."""
    high = x / y
    product, lost = two_product(high, y)
    rest = (x - product) - lost
    if y_low is not None:
        rest = rest - high * y_low
    if x_low is not None:
        rest = rest + x_low
    return high, rest / y


def polynomial(x: Number, terms: Sequence[float]) -> Any:
    """Return the sum of `terms[k]` x^k by Horner's scheme."""
    y: Operand = terms[-1]
    for term in reversed(terms[:-1]):
        y = multiply_add(y, x, term)
    return y


def power_of_two(n: Number) -> Number:
    """Return 2^n for -1022 <= n <= 1023, an integer as float64."""
    return from_bits((n + (ROUNDER + BIAS)).bits() << 52)


def nearest(x: Number, factor: float) -> Number:
    """Return the integer nearest to x times `factor`."""
    return multiply_add(x, factor, ROUNDER) - ROUNDER
