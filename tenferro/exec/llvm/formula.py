"""Arithmetic on float64 in LLVM's text, on one number or on lanes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenferro.exec.llvm.code import Code, literal
from tenferro.types import DType

__all__ = ["BIAS", "ROUNDER", "Formula"]

ROUNDER = 1.5 * 2.0**52
"""Added to a number and taken away again, it leaves the nearest integer; its last bits are that integer."""
BIAS = 1023


@dataclass
class Formula:
    """Instructions on float64, one number or several lanes of them."""

    code: Code
    lanes: int = 1

    @property
    def kind(self) -> str:
        """LLVM's type of the values."""
        return "double" if self.lanes == 1 else f"<{self.lanes} x double>"

    @property
    def integers(self) -> str:
        """LLVM's type of their bits."""
        return "i64" if self.lanes == 1 else f"<{self.lanes} x i64>"

    def _each(self, kind: str, value: str) -> str:
        """The same number in every lane."""
        return value if self.lanes == 1 else f"<{', '.join([f'{kind} {value}'] * self.lanes)}>"

    def number(self, value: float) -> str:
        return self._each("double", literal(value, DType.F64))

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
        """A function of LLVM's own, lane by lane."""
        suffix = "f64" if self.lanes == 1 else f"v{self.lanes}f64"
        return self.code.call(f"llvm.{name}.{suffix}", self.kind, [(self.kind, x) for x in xs])

    def multiply_add(self, x: str, y: str, z: str) -> str:
        """x y + z, rounded once where the processor can."""
        if not self.code.contracts:
            return self.add(self.multiply(x, y), z)
        return self.intrinsic("fma", x, y, z)

    def compare(self, order: str, x: str, y: str) -> str:
        return self.code.value(f"fcmp {order} {self.kind} {x}, {y}")

    def either(self, chosen: str, on_true: str, on_false: str) -> str:
        """One of two, by a truth for each lane."""
        truths = "i1" if self.lanes == 1 else f"<{self.lanes} x i1>"
        return self.code.value(
            f"select {truths} {chosen}, {self.kind} {on_true}, {self.kind} {on_false}"
        )

    def select(self, order: str, x: str, y: str, on_true: str, on_false: str) -> str:
        """One of two, by a comparison."""
        return self.either(self.compare(order, x, y), on_true, on_false)

    def bits(self, x: str) -> str:
        return self.code.value(f"bitcast {self.kind} {x} to {self.integers}")

    def of_bits(self, x: str) -> str:
        return self.code.value(f"bitcast {self.integers} {x} to {self.kind}")

    def integer(self, name: str, x: str, y: int | str) -> str:
        """An instruction on integers, of which the second may be a number."""
        other = y if isinstance(y, str) else self._each("i64", str(y))
        return self.code.value(f"{name} {self.integers} {x}, {other}")

    def has_bit(self, x: str, bit: int) -> str:
        """Whether a bit is set, as a truth."""
        masked = self.integer("and", x, 1 << bit)
        return self.code.value(f"icmp ne {self.integers} {masked}, {self._each('i64', '0')}")

    def magnitude(self, x: str) -> str:
        return self.intrinsic("fabs", x)

    def with_sign(self, x: str, sign: str) -> str:
        return self.intrinsic("copysign", x, sign)

    def difference(self, x: str, y: str) -> tuple[str, str]:
        """x - y, and the rounding error of it."""
        high = self.subtract(x, y)
        part = self.subtract(high, x)
        lost = self.subtract(self.subtract(x, self.subtract(high, part)), self.add(y, part))
        return high, lost

    def short_sum(self, x: str, y: str) -> tuple[str, str]:
        """x + y, and the rounding error of it, where x is not the smaller one, or is 0."""
        high = self.add(x, y)
        return high, self.add(self.subtract(x, high), y)

    def product(self, x: str, y: str) -> tuple[str, str]:
        """x y, and the rounding error of it; without multiply-adds by halves of both (Dekker and Veltkamp)."""
        high = self.multiply(x, y)
        if self.code.contracts:
            return high, self.intrinsic("fma", x, y, self.negate(high))
        (a, b), (c, d) = self._halves(x), self._halves(y)
        lost = self.subtract(self.multiply(a, c), high)
        lost = self.add(self.add(lost, self.multiply(a, d)), self.multiply(b, c))
        return high, self.add(lost, self.multiply(b, d))

    def _halves(self, x: str) -> tuple[str, str]:
        """The upper and lower 26 bits of x, as two numbers."""
        scaled = self.multiply(x, self.number(2.0**27 + 1))
        high = self.subtract(scaled, self.subtract(scaled, x))
        return high, self.subtract(x, high)

    def quotient(self, x: str, y: str, x_low: str | None, y_low: str | None) -> tuple[str, str]:
        """(x + x_low) / (y + y_low), rounded, and the remainder."""
        high = self.divide(x, y)
        product, lost = self.product(high, y)
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
        """2^n of an integer between -1022 and 1023, which is a float64."""
        bits = self.bits(self.add(n, self.number(ROUNDER + BIAS)))
        return self.of_bits(self.integer("shl", bits, 52))

    def nearest(self, x: str, factor: float) -> str:
        """The integer nearest to a multiple of x."""
        rounder = self.number(ROUNDER)
        return self.subtract(self.multiply_add(x, self.number(factor), rounder), rounder)
