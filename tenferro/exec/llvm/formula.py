"""Builder of formulas of float64 scalars, or of vectors of float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenferro.exec.llvm.code import Code, literal
from tenferro.exec.llvm.ir import Value, VectorType, splat
from tenferro.types import DType

__all__ = ["BIAS", "ROUNDER", "Formula"]

ROUNDER = 1.5 * 2.0**52
"""Number that rounds x to an integer if it is added and subtracted; the last bits of the sum are the integer."""
BIAS = 1023
"""Exponent bias of float64."""


@dataclass
class Formula:
    """Writer of instructions on float64 scalars or, if there are several lanes, on vectors of float64."""

    code: Code
    lanes: int = 1

    @property
    def kind(self) -> str:
        """LLVM type of the formula's values."""
        return "double" if self.lanes == 1 else VectorType(self.lanes, "double")

    @property
    def integers(self) -> str:
        """LLVM type of the bits of the formula's values."""
        return "i64" if self.lanes == 1 else VectorType(self.lanes, "i64")

    def constant(self, x: Value) -> Value:
        """Return the scalar constant x, or the vector constant with x in every lane."""
        return x if self.lanes == 1 else splat(x, self.lanes)

    def number(self, value: float) -> Value:
        return self.constant(literal(value, DType.F64))

    def add(self, x: Value, y: Value) -> Value:
        return self.code.value("fadd", x, y)

    def subtract(self, x: Value, y: Value) -> Value:
        return self.code.value("fsub", x, y)

    def multiply(self, x: Value, y: Value) -> Value:
        return self.code.value("fmul", x, y)

    def divide(self, x: Value, y: Value) -> Value:
        return self.code.value("fdiv", x, y)

    def negate(self, x: Value) -> Value:
        return self.code.value("fneg", x)

    def intrinsic(self, name: str, *xs: Value) -> Value:
        """Write a call of an LLVM intrinsic, and return its result."""
        return self.code.intrinsic(name, *xs)

    def multiply_add(self, x: Value, y: Value, z: Value) -> Value:
        """Return x y + z, as a fused multiply-add if the processor has the instruction."""
        if not self.code.contracts:
            return self.add(self.multiply(x, y), z)
        return self.intrinsic("fma", x, y, z)

    def compare(self, order: str, x: Value, y: Value) -> Value:
        return self.code.fcmp(order, x, y)

    def either(self, condition: Value, on_true: Value, on_false: Value) -> Value:
        """Return, in each lane, `on_true` if the condition is true there, else `on_false`."""
        return self.code.select(condition, on_true, on_false)

    def select(self, order: str, x: Value, y: Value, on_true: Value, on_false: Value) -> Value:
        return self.either(self.compare(order, x, y), on_true, on_false)

    def are_all(self, conditions: Value) -> Value:
        """Return whether a condition is true in every lane."""
        if self.lanes == 1:
            return conditions
        return self.code.call(f"llvm.vector.reduce.and.v{self.lanes}i1", "i1", [conditions])

    def bits(self, x: Value) -> Value:
        return self.code.cast("bitcast", x, self.integers)

    def from_bits(self, x: Value) -> Value:
        return self.code.cast("bitcast", x, self.kind)

    def integer(self, name: str, x: Value, y: int | Value) -> Value:
        """Write an integer instruction, and return its result; y may be an integer constant."""
        other = y if isinstance(y, Value) else self.constant(Value(y, "i64"))
        return self.code.value(name, x, other)

    def has_bit(self, x: Value, bit: int) -> Value:
        """Return whether a bit of x is 1, in each lane."""
        return self.code.icmp(
            "ne", self.integer("and", x, 1 << bit), self.constant(Value(0, "i64"))
        )

    def magnitude(self, x: Value) -> Value:
        return self.intrinsic("fabs", x)

    def with_sign(self, x: Value, sign: Value) -> Value:
        return self.intrinsic("copysign", x, sign)

    def two_difference(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Return x - y and its rounding error, by the algorithm TwoDiff."""
        high = self.subtract(x, y)
        part = self.subtract(high, x)
        lost = self.subtract(self.subtract(x, self.subtract(high, part)), self.add(y, part))
        return high, lost

    def fast_two_sum(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Return x + y and its rounding error, by the algorithm Fast2Sum; |x| >= |y| or x = 0 is required."""
        high = self.add(x, y)
        return high, self.add(self.subtract(x, high), y)

    def two_product(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Return x y and its rounding error, by a fused multiply-add, or without one by Dekker's algorithm."""
        high = self.multiply(x, y)
        if self.code.contracts:
            return high, self.intrinsic("fma", x, y, self.negate(high))
        (a, b), (c, d) = self._halves(x), self._halves(y)
        lost = self.subtract(self.multiply(a, c), high)
        lost = self.add(self.add(lost, self.multiply(a, d)), self.multiply(b, c))
        return high, self.add(lost, self.multiply(b, d))

    def _halves(self, x: Value) -> tuple[Value, Value]:
        """Return the upper and the lower half of the bits of x, as two numbers with sum x, by Veltkamp's algorithm."""
        scaled = self.multiply(x, self.number(2.0**27 + 1))
        high = self.subtract(scaled, self.subtract(scaled, x))
        return high, self.subtract(x, high)

    def quotient(
        self, x: Value, y: Value, x_low: Value | None, y_low: Value | None
    ) -> tuple[Value, Value]:
        """Return x / y, rounded, and its difference from (x + x_low) / (y + y_low)."""
        high = self.divide(x, y)
        product, lost = self.two_product(high, y)
        rest = self.subtract(self.subtract(x, product), lost)
        if y_low is not None:
            rest = self.subtract(rest, self.multiply(high, y_low))
        if x_low is not None:
            rest = self.add(rest, x_low)
        return high, self.divide(rest, y)

    def polynomial(self, x: Value, terms: Sequence[float]) -> Value:
        y = self.number(terms[-1])
        for term in reversed(terms[:-1]):
            y = self.multiply_add(y, x, self.number(term))
        return y

    def power_of_two(self, n: Value) -> Value:
        """Return 2^n for an integer n between -1022 and 1023, which is a float64."""
        bits = self.bits(self.add(n, self.number(ROUNDER + BIAS)))
        return self.from_bits(self.integer("shl", bits, 52))

    def nearest(self, x: Value, factor: float) -> Value:
        """Return the integer nearest to the product of x and a factor."""
        rounder = self.number(ROUNDER)
        return self.subtract(self.multiply_add(x, self.number(factor), rounder), rounder)
