"""Conversions between dtypes in LLVM code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.exec.llvm.code import HALF_DTYPES, Code, Element, intrinsic_suffix, literal, llvm_type
from tenferro.exec.llvm.tensor import Specs
from tenferro.ops.elementwise import Convert
from tenferro.types import DType

__all__ = ["bitcast", "bitcast_refusal", "convert", "instruction_kind"]


def instruction_kind(dtype: DType) -> str:
    """Return the kind of instructions for a dtype: "complex", "float", "signed" or "unsigned"."""
    if dtype.is_complex:
        return "complex"
    if dtype.is_inexact:
        return "float"
    return "unsigned" if dtype.is_bool or dtype.dtype.kind == "u" else "signed"


def convert(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write a conversion to `op.to`; from floats to integers, it truncates and saturates, and NaN becomes 0."""
    (x,), to = xs, op.to
    old, new = llvm_type(dtype), llvm_type(to)
    if dtype is to:
        return x
    if dtype.is_complex:
        return _convert_complex(code, op, dtype, x)
    if to.is_complex:
        return convert(code, Convert(to.real), dtype, xs), literal(0, to.real)
    if to.is_bool:
        zero = literal(0, dtype)
        return code.fcmp("une", x, zero) if dtype.is_inexact else code.icmp("ne", x, zero)
    is_signed = instruction_kind(dtype) == "signed"
    if to is DType.F16 and dtype is DType.F64:
        return code.rounded(_round_to_odd(code, x), to)
    if to in HALF_DTYPES:
        return code.rounded(convert(code, Convert(DType.F32), dtype, xs), to)
    if old == new:
        return x
    if dtype.is_inexact and to.is_inexact:
        return code.cast("fpext" if new == "double" else "fptrunc", x, new)
    if dtype.is_inexact:
        name = "fptosi" if to.dtype.kind == "i" else "fptoui"
        return code.call(f"llvm.{name}.sat.{new}.{intrinsic_suffix(old)}", new, [x])
    if to.is_inexact:
        return code.cast("sitofp" if is_signed else "uitofp", x, new)
    if to.itemsize == dtype.itemsize and not dtype.is_bool:
        return x
    if dtype.is_bool or to.itemsize > dtype.itemsize:
        return code.cast("sext" if is_signed else "zext", x, new)
    return code.cast("trunc", x, new)


def _convert_complex(code: Code, op: Any, dtype: DType, x: Element) -> Element:
    """Write the conversion of a complex number x: to a real dtype from its real part, and to bool as x != 0."""
    to = op.to
    if to.is_complex:
        return tuple([convert(code, Convert(to.real), dtype.real, [part]) for part in x])
    if not to.is_bool:
        return convert(code, op, dtype.real, x[:1])
    a, b = (convert(code, op, dtype.real, [part]) for part in x)
    return code.value("or", a, b)


def _round_to_odd(code: Code, x: str) -> str:
    """Write a float64 rounded to odd in float32; rounding it to float16 has the result of a single rounding."""
    near = code.cast("fptrunc", x, "float")
    back = code.cast("fpext", near, "double")
    bits = code.cast("bitcast", near, "i32")
    sizes = [code.intrinsic("fabs", each) for each in (back, x)]
    is_larger = code.fcmp("ogt", sizes[0], sizes[1])
    cut = code.value("sub", bits, code.cast("zext", is_larger, "i32"))
    is_other = code.fcmp("une", back, x)
    cut = code.value("or", cut, code.cast("zext", is_other, "i32"))
    return code.cast("bitcast", cut, "float")


def bitcast(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write the number of dtype `op.to` with the bits of x."""
    return code.from_bits(code.bits(xs[0], dtype), op.to)


def bitcast_refusal(op: Any, operands: Specs) -> str:
    """Return why a BitcastConvert is not compiled, or an empty string.

    Not compiled are dtypes of different widths, and dtypes whose elements have other bits in registers.
    """
    old, new = operands[0].dtype, op.to
    if old.itemsize != new.itemsize:
        return f"bits of {old.value} as {new.value} are not compiled"
    for dtype in (old, new):
        if dtype.is_complex or dtype in HALF_DTYPES:
            return f"bits of {dtype.value} are not compiled"
    return ""
