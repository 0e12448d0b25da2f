"""Functions of complex numbers, written with functions of real numbers."""

from __future__ import annotations

import math

from tenferro.exec.llvm import functions
from tenferro.exec.llvm.code import Code, Element, literal
from tenferro.types import DType

__all__ = ["complex_exponential"]

SCALING = {
    DType.F32: (64.0, 32.0, float.fromhex("0x1.1f43fcp+46")),
    DType.F64: (640.0, 64.0, float.fromhex("0x1.425982cf597cdp+92")),
}
"""Threshold t, shift s and factor e^s, by dtype: if a > t, e^a cos b is computed as e^(a - s) cos b e^s.

For large a, e^a may overflow although e^a cos b or e^a sin b does not.
"""


def complex_exponential(code: Code, dtype: DType, x: Element) -> Element:
    """Write e^a cos b and e^a sin b for x = a + bi, with the special cases of ISO C, annex G.6.3.1."""
    (a, b), part = x, dtype.real
    zero, infinity = literal(0.0, part), literal(math.inf, part)
    threshold, shift, scale = SCALING[part]
    is_large = code.fcmp("ogt", a, literal(threshold, part))
    shift = code.select(is_large, literal(shift, part), zero)
    size = functions.call(code, "exp", part, code.value("fsub", a, shift))
    factor = code.select(is_large, literal(scale, part), literal(1.0, part))

    def product(name: str) -> str:
        value = functions.call(code, name, part, b)
        return code.value("fmul", code.value("fmul", size, value), factor)

    cosine, sine = product("cos"), product("sin")
    angle = code.intrinsic("fabs", b)
    is_defined = code.fcmp("olt", angle, infinity)
    # If b is not finite, the result is infinite for infinite e^a, and zero for e^a = 0.
    magnitude = code.intrinsic("fabs", a)
    is_infinite = code.fcmp("oeq", magnitude, infinity)
    is_undefined = code.value("xor", is_defined, "true")
    no_angle = code.value("and", is_infinite, is_undefined)
    vanishes = code.fcmp("oeq", size, zero)
    real = code.select(no_angle, size, cosine)
    no_sine = code.value("and", no_angle, vanishes)
    imag = code.select(no_sine, zero, sine)
    # If b is 0, the imaginary part of the result is b, even if the real part is infinite or NaN.
    is_real = code.fcmp("oeq", b, zero)
    scaled = code.value("fmul", size, factor)
    return code.select(is_real, scaled, real), code.select(is_real, b, imag)
