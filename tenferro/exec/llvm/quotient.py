"""Correctly rounded quotients by a constant divisor, without division instructions in vectorised loops.

Vector division has a throughput of about one lane per scalar division. With z = 1 / c rounded to nearest, q = x z and one
correction, q + (x - c q) z by two multiply-adds, give x / c rounded to nearest. Vectors are divided if any x is zero,
infinite, NaN, or of a magnitude for which the remainder might not be exact.

Source: Brisebarre, Muller and Raina, "Accelerating correctly rounded floating-point division when the divisor is known
in advance", IEEE Transactions on Computers 53, 2004, after Markstein, 1990.
"""

from __future__ import annotations

import math
import struct

from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.formula import Formula

__all__ = ["divide_by_constant"]

MIN_DIVIDEND, MAX_DIVIDEND = 2.0**-900, 2.0**900
"""Bounds of the magnitude of dividends, within which no step overflows and the remainder is exact."""
MAX_DIVISOR_EXPONENT = 100
"""Maximum magnitude of the binary exponent of a divisor."""
PURE = "nounwind willreturn speculatable readnone"
"""LLVM's attributes of a function without side effects that may be executed speculatively."""


def divide_by_constant(code: Code, x: str, divisor: str) -> str:
    """Write x / divisor in float64, for a literal divisor."""
    value = struct.unpack("<d", struct.pack("<Q", int(divisor, 16)))[0]
    significand, exponent = math.frexp(value) if math.isfinite(value) else (0.5, 0)
    # LLVM itself replaces the division by a power of two.
    is_suitable = abs(significand) != 0.5 and significand and abs(exponent) <= MAX_DIVISOR_EXPONENT
    if not (code.contracts and code.lanes and is_suitable):
        return code.value(f"fdiv double {x}, {divisor}")
    symbol = f"tenferro_over_{divisor}"
    if symbol not in code.late_functions:
        names = {1: symbol, **{lanes: f"{symbol}_{lanes}" for lanes in code.lanes}}
        for lanes, name in names.items():
            kind = Formula(code, lanes).kind
            code.vector_functions[name] = f"declare {kind} @{name}({kind}) {PURE}"
            functions, part = (
                code.late_functions if lanes == 1 else code.late_vector_functions,
                Code(contracts=True),
            )
            functions[name] = _defined(part, name, lanes, value)
            functions |= part.declared
        code.retain([name for lanes, name in names.items() if lanes > 1])
    variants = [f"_ZGV_LLVM_N{lanes}v_{symbol}({symbol}_{lanes})" for lanes in code.lanes]
    attributes = f'"vector-function-abi-variant"="{",".join(variants)}"'
    return code.value(f"call double @{symbol}(double {x}) {attributes}")


def _defined(part: Code, name: str, lanes: int, divisor: float) -> str:
    """Return the definition of the scalar function, or of that of several lanes."""
    f = Formula(part, lanes)
    c = f.number(divisor)
    if lanes == 1:
        # A scalar division is faster than the correction.
        part.line(f"ret {f.kind} {f.divide('%x', c)}")
    else:
        size = f.magnitude("%x")
        mask = f"<{lanes} x i1>"
        is_large = f.compare("oge", size, f.number(MIN_DIVIDEND))
        is_small = f.compare("ole", size, f.number(MAX_DIVIDEND))
        is_inside = part.value(f"and {mask} {is_large}, {is_small}")
        are_all = part.call(f"llvm.vector.reduce.and.v{lanes}i1", "i1", [(mask, is_inside)])
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
