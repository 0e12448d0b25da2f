"""Scalar functions, which write one element of an elementwise op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.code import Code, Element, llvm_type
from tenferro.types import DType

__all__ = ["Scalar", "instruction_kind", "intrinsic_suffix", "is_real", "unsupported_dtype"]

Scalar = Callable[[Code, Any, DType, Sequence[Element]], Element]
"""Function `scalar(code, op, dtype, elements)` that returns a result; `dtype` is that of the first operand."""


def instruction_kind(dtype: DType) -> str:
    """Return the kind of a dtype's instructions: complex, float, signed or unsigned."""
    if dtype.is_complex:
        return "complex"
    if dtype.is_inexact:
        return "float"
    return "unsigned" if dtype.is_bool or dtype.dtype.kind == "u" else "signed"


def is_real(dtype: DType) -> bool:
    """Return whether a dtype is a real float."""
    return dtype.is_float


def unsupported_dtype(op: Any, dtype: DType) -> NotCompiledError:
    """Return the error of an op that is not compiled for a dtype."""
    return NotCompiledError(f"{op.name}: {dtype.value} is not compiled")


def intrinsic_suffix(dtype: DType) -> str:
    """Return the suffix of LLVM's intrinsics for floats."""
    return "f64" if llvm_type(dtype) == "double" else "f32"
