"""Functions of complex numbers, by functions of their real and imaginary parts."""

from __future__ import annotations

import math

from tenferro.exec.llvm import functions
from tenferro.exec.llvm.code import Code, Element, literal, llvm_type
from tenferro.exec.llvm.scalar import intrinsic_suffix
from tenferro.types import DType

__all__ = ["complex_exponential"]

SCALING = {
    DType.F32: (64.0, 32.0, float.fromhex("0x1.1f43fcp+46")),
    DType.F64: (640.0, 64.0, float.fromhex("0x1.425982cf597cdp+92")),
}
"""Threshold of a above which e^a may overflow although its products with sine and cosine do not; what is then subtracted
from a, and the exponential of that, by which the products are multiplied."""


def complex_exponential(code: Code, dtype: DType, x: Element) -> Element:
    """Write e^a cos b and e^a sin b; special cases are those of ISO C, annex G.6.3.1."""
    (a, b), part, kind = x, dtype.real, llvm_type(dtype)
    zero, infinity = literal(0.0, part), literal(math.inf, part)

    def select(condition: str, on_true: str, on_false: str) -> str:
        return code.value(f"select i1 {condition}, {kind} {on_true}, {kind} {on_false}")

    threshold, shift, scale = SCALING[part]
    is_large = code.value(f"fcmp ogt {kind} {a}, {literal(threshold, part)}")
    shift = select(is_large, literal(shift, part), zero)
    size = functions.call(code, "exp", part, code.value(f"fsub {kind} {a}, {shift}"))
    factor = select(is_large, literal(scale, part), literal(1.0, part))

    def product(name: str) -> str:
        value = functions.call(code, name, part, b)
        value = code.value(f"fmul {kind} {size}, {value}")
        return code.value(f"fmul {kind} {value}, {factor}")

    cosine, sine = product("cos"), product("sin")
    angle = code.call(f"llvm.fabs.{intrinsic_suffix(part)}", kind, [(kind, b)])
    is_defined = code.value(f"fcmp olt {kind} {angle}, {infinity}")
    # Without a finite angle, an infinite modulus stays infinite and a zero modulus stays zero.
    magnitude = code.call(f"llvm.fabs.{intrinsic_suffix(part)}", kind, [(kind, a)])
    is_infinite = code.value(f"fcmp oeq {kind} {magnitude}, {infinity}")
    is_undefined = code.value(f"xor i1 {is_defined}, true")
    no_angle = code.value(f"and i1 {is_infinite}, {is_undefined}")
    vanishes = code.value(f"fcmp oeq {kind} {size}, {zero}")
    real = select(no_angle, size, cosine)
    no_sine = code.value(f"and i1 {no_angle}, {vanishes}")
    imag = select(no_sine, zero, sine)
    # The exponential of a real number is real, even if it is infinite or NaN.
    is_real = code.value(f"fcmp oeq {kind} {b}, {zero}")
    scaled = code.value(f"fmul {kind} {size}, {factor}")
    return select(is_real, scaled, real), select(is_real, b, imag)
