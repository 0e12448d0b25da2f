"""Functions of complex numbers, made of functions of their parts."""

from __future__ import annotations

import math

from tenferro.exec.llvm import functions
from tenferro.exec.llvm.code import Code, Element, literal, llvm_type
from tenferro.exec.llvm.scalar import suffix_of
from tenferro.types import DType

__all__ = ["complex_exponential"]

LARGE = {
    DType.F32: (64.0, 32.0, float.fromhex("0x1.1f43fcp+46")),
    DType.F64: (640.0, 64.0, float.fromhex("0x1.425982cf597cdp+92")),
}
"""From where on e^a may overflow where its products with sine and cosine do not, what is left of a for later, and
the exponential of that."""


def complex_exponential(code: Code, dtype: DType, x: Element) -> Element:
    """e^a cos b and e^a sin b; of infinite a as ISO C has it in annex G.6.3.1."""
    (a, b), part, kind = x, dtype.real, llvm_type(dtype)
    zero, infinity = literal(0.0, part), literal(math.inf, part)

    def either(chosen: str, on_true: str, on_false: str) -> str:
        return code.value(f"select i1 {chosen}, {kind} {on_true}, {kind} {on_false}")

    largest, step, last = LARGE[part]
    is_large = code.value(f"fcmp ogt {kind} {a}, {literal(largest, part)}")
    rest = either(is_large, literal(step, part), zero)
    size = functions.call(code, "exp", part, code.value(f"fsub {kind} {a}, {rest}"))
    factor = either(is_large, literal(last, part), literal(1.0, part))

    def product(name: str) -> str:
        value = functions.call(code, name, part, b)
        value = code.value(f"fmul {kind} {size}, {value}")
        return code.value(f"fmul {kind} {value}, {factor}")

    cosine, sine = product("cos"), product("sin")
    turn = code.call(f"llvm.fabs.{suffix_of(part)}", kind, [(kind, b)])
    has_angle = code.value(f"fcmp olt {kind} {turn}, {infinity}")
    # Where there is no angle, infinity stays infinite, and nothing stays nothing.
    distance = code.call(f"llvm.fabs.{suffix_of(part)}", kind, [(kind, a)])
    is_end = code.value(f"fcmp oeq {kind} {distance}, {infinity}")
    no_angle = code.value(f"and i1 {is_end}, {code.value(f'xor i1 {has_angle}, true')}")
    vanishes = code.value(f"fcmp oeq {kind} {size}, {zero}")
    real = either(no_angle, size, cosine)
    no_sine = code.value(f"and i1 {no_angle}, {vanishes}")
    imag = either(no_sine, zero, sine)
    # The exponential of a real number is real, also where that is infinite or NaN.
    is_real = code.value(f"fcmp oeq {kind} {b}, {zero}")
    whole = code.value(f"fmul {kind} {size}, {factor}")
    return either(is_real, whole, real), either(is_real, b, imag)
