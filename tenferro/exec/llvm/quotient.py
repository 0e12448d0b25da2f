"""Quotients by a number that is known, with the bits of a division, in loops along lanes.

A processor divides the lanes of a vector one after the other, or nearly so. With z the nearest number to 1 / c, the
product q = x z and one correction, q + (x - c q) z by two multiply-adds, give x / c rounded to nearest. Where an x is
so small or large that the remainder might not be exact, is zero, infinite or NaN, the lanes are divided.

Source: Brisebarre, Muller and Raina, "Accelerating correctly rounded floating-point division when the divisor is known
in advance", IEEE Transactions on Computers 53, 2004, after Markstein, 1990.
"""

from __future__ import annotations

import math
import struct

from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.formula import Formula

__all__ = ["divided_by"]

SMALLEST, LARGEST = 2.0**-900, 2.0**900
"""Sizes of dividends between which no step overflows, and the remainder is exact."""
MOST_SCALED = 100
"""Powers of two up to which divisors are larger or smaller than 1."""
PURE = "nounwind willreturn speculatable readnone"


def divided_by(code: Code, x: str, divisor: str) -> str:
    """x / divisor in float64, for a divisor that stands in the text."""
    number = struct.unpack("<d", struct.pack("<Q", int(divisor, 16)))[0]
    significand, exponent = math.frexp(number) if math.isfinite(number) else (0.5, 0)
    # LLVM multiplies by the inverse of a power of two.
    is_suitable = abs(significand) != 0.5 and significand and abs(exponent) <= MOST_SCALED
    if not (code.contracts and code.lanes and is_suitable):
        return code.value(f"fdiv double {x}, {divisor}")
    symbol = f"tenferro_over_{divisor}"
    if symbol not in code.late:
        names = {1: symbol, **{lanes: f"{symbol}_{lanes}" for lanes in code.lanes}}
        for lanes, name in names.items():
            kind = Formula(code, lanes).kind
            code.along_lanes[name] = f"declare {kind} @{name}({kind}) {PURE}"
            functions, part = code.late if lanes == 1 else code.late_lanes, Code(contracts=True)
            functions[name] = _defined(part, name, lanes, number)
            functions |= part.declared
        code.keep([name for lanes, name in names.items() if lanes > 1])
    variants = [f"_ZGV_LLVM_N{lanes}v_{symbol}({symbol}_{lanes})" for lanes in code.lanes]
    attributes = f'"vector-function-abi-variant"="{",".join(variants)}"'
    return code.value(f"call double @{symbol}(double {x}) {attributes}")


def _defined(part: Code, name: str, lanes: int, divisor: float) -> str:
    """The text of the function, of one number or of several lanes."""
    f = Formula(part, lanes)
    c = f.number(divisor)
    if lanes == 1:
        # One number is divided in less time than the correction takes.
        part.line(f"ret {f.kind} {f.divide('%x', c)}")
    else:
        size = f.magnitude("%x")
        truths = f"<{lanes} x i1>"
        is_large = f.compare("oge", size, f.number(SMALLEST))
        is_small = f.compare("ole", size, f.number(LARGEST))
        both = part.value(f"and {truths} {is_large}, {is_small}")
        are_all = part.call(f"llvm.vector.reduce.and.v{lanes}i1", "i1", [(truths, both)])
        part.line(f"br i1 {are_all}, label %corrected, label %plain")
        part.label("%corrected")
        z, minus_c = f.number(1.0 / divisor), f.number(-divisor)
        q = f.multiply("%x", z)
        q = f.multiply_add(f.multiply_add(q, minus_c, "%x"), z, q)
        part.line("br label %end")
        part.label("%plain")
        quotient = f.divide("%x", c)
        part.line("br label %end")
        part.label("%end")
        y = part.value(f"phi {f.kind} [{q}, %corrected], [{quotient}, %plain]")
        part.line(f"ret {f.kind} {y}")
    head = f"define {f.kind} @{name}({f.kind} %x) alwaysinline nounwind {{"
    return "\n".join([head, *part.lines, "}"])
