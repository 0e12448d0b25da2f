"""Conversions between dtypes, as NumPy casts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.exec.llvm.code import Code, Element, literal, llvm_type, memory_type
from tenferro.exec.llvm.scalar import kind_of, refused, suffix_of
from tenferro.types import DType

__all__ = ["convert", "number_of"]


def convert(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Into another dtype: floats to integers truncate and saturate, NaN becomes 0."""
    (x,), to = xs, op.to
    old, new = llvm_type(dtype), llvm_type(to)
    if dtype.is_complex or to.is_complex:
        raise refused(op, dtype if dtype.is_complex else to)
    if dtype is to:
        return x
    if to.is_bool:
        zero = literal(0, dtype)
        return code.value(f"{'fcmp une' if dtype.is_inexact else 'icmp ne'} {old} {x}, {zero}")
    is_signed = kind_of(dtype) == "signed"
    if dtype.is_inexact and to.is_inexact:
        return code.value(f"{'fpext' if new == 'double' else 'fptrunc'} {old} {x} to {new}")
    if dtype.is_inexact:
        name = "fptosi" if to.dtype.kind == "i" else "fptoui"
        return code.call(f"llvm.{name}.sat.{new}.{suffix_of(dtype)}", new, [(old, x)])
    if to.is_inexact:
        return code.value(f"{'sitofp' if is_signed else 'uitofp'} {old} {x} to {new}")
    if to.itemsize == dtype.itemsize and not dtype.is_bool:
        return x
    if dtype.is_bool or to.itemsize > dtype.itemsize:
        return code.value(f"{'sext' if is_signed else 'zext'} {old} {x} to {new}")
    return code.value(f"trunc {old} {x} to {new}")


def number_of(code: Code, i: str, dtype: DType) -> Any:
    """An index as a number of a dtype, as NumPy casts int64."""
    if dtype.is_complex:
        return number_of(code, i, dtype.real), literal(0, dtype.real)
    kind = memory_type(dtype)
    if dtype.is_inexact:
        return code.value(f"sitofp i64 {i} to {kind}")
    if dtype is DType.Bool:
        return code.value(f"icmp ne i64 {i}, 0")
    return i if kind == "i64" else code.value(f"trunc i64 {i} to {kind}")
