"""Builder of float64 formulas as LLVM text, on scalars or vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenferro.exec.llvm.code import Code, literal
from tenferro.types import DType

__all__ = ["BIAS", "ROUNDER", "Formula"]

ROUNDER = 1.5 * 2.0**52
"""Magic number whose addition and subtraction round to the nearest integer; the sum holds it in its last bits."""
BIAS = 1023
"""Exponent bias of float64."""


@dataclass
class Formula:
    """Instructions on float64 scalars, or on vectors of several lanes."""

    code: Code
    lanes: int = 1

    @property
    def kind(self) -> str:
        """LLVM type of the values."""
        return "double" if self.lanes == 1 else f"<{self.lanes} x double>"

    @property
    def integers(self) -> str:
        """LLVM type of the values' bits."""
        return "i64" if self.lanes == 1 else f"<{self.lanes} x i64>"

    def _splat(self, kind: str, value: str) -> str:
        """Return a constant in every lane."""
        return value if self.lanes == 1 else f"<{', '.join([f'{kind} {value}'] * self.lanes)}>"

    def number(self, value: float) -> str:
        return self._splat("double", literal(value, DType.F64))

    def binary(self, name: str, x: str, y: str) -> str:
        return self.code.value(f"{name} {self.kind} {x}, {y}")

    def add(self, x: str, y: str) -> str:
        return self.binary("fadd", x, y)

    def subtract(self, x: str, y: str) -> str:
        return self.binary("fsub", x, y)

    def multiply(self, x: str, y: str) -> str:
        return self.binary("fmul", x, y)

    def divide(self, x: str, y: str) -> str:
        return self.binary("fdiv", x, y)

    def negate(self, x: str) -> str:
        return self.code.value(f"fneg {self.kind} {x}")

    def intrinsic(self, name: str, *xs: str) -> str:
        """Call an LLVM intrinsic."""
        suffix = "f64" if self.lanes == 1 else f"v{self.lanes}f64"
        return self.code.call(f"llvm.{name}.{suffix}", self.kind, [(self.kind, x) for x in xs])

    def multiply_add(self, x: str, y: str, z: str) -> str:
        """Return x y + z, fused if the processor has that instruction."""
        if not self.code.contracts:
            return self.add(self.multiply(x, y), z)
        return self.intrinsic("fma", x, y, z)

    def compare(self, order: str, x: str, y: str) -> str:
        return self.code.value(f"fcmp {order} {self.kind} {x}, {y}")

    def either(self, condition: str, on_true: str, on_false: str) -> str:
        """Select one of two values in each lane, by conditions."""
        kind = "i1" if self.lanes == 1 else f"<{self.lanes} x i1>"
        return self.code.value(
            f"select {kind} {condition}, {self.kind} {on_true}, {self.kind} {on_false}"
        )

    def select(self, order: str, x: str, y: str, on_true: str, on_false: str) -> str:
        """Select one of two values in each lane, by a comparison."""
        return self.either(self.compare(order, x, y), on_true, on_false)

    def bits(self, x: str) -> str:
        return self.code.value(f"bitcast {self.kind} {x} to {self.integers}")

    def from_bits(self, x: str) -> str:
        return self.code.value(f"bitcast {self.integers} {x} to {self.kind}")

    def integer(self, name: str, x: str, y: int | str) -> str:
        """Write an integer instruction whose second operand may be a constant."""
        other = y if isinstance(y, str) else self._splat("i64", str(y))
        return self.code.value(f"{name} {self.integers} {x}, {other}")

    def has_bit(self, x: str, bit: int) -> str:
        """Return the condition that a bit is set."""
        masked = self.integer("and", x, 1 << bit)
        return self.code.value(f"icmp ne {self.integers} {masked}, {self._splat('i64', '0')}")

    def magnitude(self, x: str) -> str:
        return self.intrinsic("fabs", x)

    def with_sign(self, x: str, sign: str) -> str:
        return self.intrinsic("copysign", x, sign)

    def two_difference(self, x: str, y: str) -> tuple[str, str]:
        """Return x - y and its rounding error (TwoDiff)."""
        high = self.subtract(x, y)
        part = self.subtract(high, x)
        lost = self.subtract(self.subtract(x, self.subtract(high, part)), self.add(y, part))
        return high, lost

    def fast_two_sum(self, x: str, y: str) -> tuple[str, str]:
        """Return x + y and its rounding error for abs(x) >= abs(y) or x = 0 (Fast2Sum)."""
        high = self.add(x, y)
        return high, self.add(self.subtract(x, high), y)

    def two_product(self, x: str, y: str) -> tuple[str, str]:
        """Return x y and its rounding error (TwoProduct, without fused multiply-adds by Dekker and Veltkamp)."""
        high = self.multiply(x, y)
        if self.code.contracts:
            return high, self.intrinsic("fma", x, y, self.negate(high))
        (a, b), (c, d) = self._halves(x), self._halves(y)
        lost = self.subtract(self.multiply(a, c), high)
        lost = self.add(self.add(lost, self.multiply(a, d)), self.multiply(b, c))
        return high, self.add(lost, self.multiply(b, d))

    def _halves(self, x: str) -> tuple[str, str]:
        """Split x into its upper and lower 26 bits (Veltkamp)."""
        scaled = self.multiply(x, self.number(2.0**27 + 1))
        high = self.subtract(scaled, self.subtract(scaled, x))
        return high, self.subtract(x, high)

    def quotient(self, x: str, y: str, x_low: str | None, y_low: str | None) -> tuple[str, str]:
        """Return (x + x_low) / (y + y_low), rounded, and the correction to it."""
        high = self.divide(x, y)
        product, lost = self.two_product(high, y)
        rest = self.subtract(self.subtract(x, product), lost)
        if y_low is not None:
            rest = self.subtract(rest, self.multiply(high, y_low))
        if x_low is not None:
            rest = self.add(rest, x_low)
        return high, self.divide(rest, y)

    def polynomial(self, x: str, terms: Sequence[float]) -> str:
        y = self.number(terms[-1])
        for term in reversed(terms[:-1]):
            y = self.multiply_add(y, x, self.number(term))
        return y

    def power_of_two(self, n: str) -> str:
        """Return 2^n of a float64 integer between -1022 and 1023."""
        bits = self.bits(self.add(n, self.number(ROUNDER + BIAS)))
        return self.from_bits(self.integer("shl", bits, 52))

    def nearest(self, x: str, factor: float) -> str:
        """Return the integer nearest to factor x."""
        rounder = self.number(ROUNDER)
        return self.subtract(self.multiply_add(x, self.number(factor), rounder), rounder)
