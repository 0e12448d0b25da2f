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
from collections.abc import Mapping

from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.formula import Formula
from tenferro.exec.llvm.functions import vector_variants
from tenferro.exec.llvm.ir import Declaration, Function, Value

__all__ = ["divide_by_constant"]

MIN_DIVIDEND, MAX_DIVIDEND = 2.0**-900, 2.0**900
"""Bounds of the magnitude of dividends, within which no step overflows and the remainder is exact."""
MAX_DIVISOR_EXPONENT = 100
"""Maximum magnitude of the binary exponent of a divisor."""
PURE = "nounwind willreturn speculatable readnone"
"""LLVM's attributes of a function without side effects that may be executed speculatively."""


def divide_by_constant(code: Code, x: Value, divisor: Value) -> Value:
    """Write x / divisor in float64, for a literal divisor."""
    value = struct.unpack("<d", struct.pack("<Q", int(divisor, 16)))[0]
    significand, exponent = math.frexp(value) if math.isfinite(value) else (0.5, 0)
    # LLVM itself replaces the division by a power of two.
    is_suitable = abs(significand) != 0.5 and significand and abs(exponent) <= MAX_DIVISOR_EXPONENT
    if not (code.contracts and code.lanes and is_suitable):
        return code.value("fdiv", x, divisor)
    symbol = f"tenferro_over_{divisor}"
    if symbol not in code.late_functions:
        for lanes in (1, *code.lanes):
            name = symbol if lanes == 1 else f"{symbol}_{lanes}"
            function, declared = _defined(name, lanes, value)
            kind = function.type
            code.vector_functions[name] = Declaration(name, kind, (kind,), f" {PURE}")
            functions = code.late_functions if lanes == 1 else code.late_vector_functions
            functions[name] = function
            functions |= declared
        code.retain([f"{symbol}_{lanes}" for lanes in code.lanes])
    return code.call_defined(symbol, "double", [x], f" {vector_variants(code, symbol)}")


def _defined(name: str, lanes: int, divisor: float) -> tuple[Function, Mapping[str, Declaration]]:
    """Return the definition of the scalar function, or of that of several lanes, and declarations of its callees."""
    part = Code(contracts=True)
    f = Formula(part, lanes)
    x, c = Value("%x", f.kind), f.number(divisor)
    if lanes == 1:
        # A scalar division is faster than the correction.
        part.ret(f.divide(x, c))
    else:
        size = f.magnitude(x)
        is_large = f.compare("oge", size, f.number(MIN_DIVIDEND))
        is_small = f.compare("ole", size, f.number(MAX_DIVIDEND))
        are_all = f.are_all(part.value("and", is_large, is_small))
        part.br("%corrected", "%plain", condition=are_all)
        part.label("%corrected")
        z, minus_c = f.number(1.0 / divisor), f.number(-divisor)
        q = f.multiply(x, z)
        q = f.multiply_add(f.multiply_add(q, minus_c, x), z, q)
        part.br("%end")
        part.label("%plain")
        quotient = f.divide(x, c)
        part.br("%end")
        part.label("%end")
        y = part.phi(f.kind)
        y.operands, y.labels = (q, quotient), ("%corrected", "%plain")
        assert y.result is not None
        part.ret(y.result)
    function = Function(name, f.kind, (x,), part.region, attributes=" alwaysinline nounwind")
    return function, part.declared
