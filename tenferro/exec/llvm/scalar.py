"""Scalar functions, which write one element of an elementwise op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.code import Code, Element
from tenferro.types import DType

__all__ = [
    "Scalar",
    "instruction_kind",
    "is_number",
    "is_ordered",
    "is_real",
    "is_real_number",
    "unsupported_dtype",
]

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


def is_number(dtype: DType) -> bool:
    """Return whether a dtype is a number."""
    return not dtype.is_bool


def is_ordered(dtype: DType) -> bool:
    """Return whether a dtype is real or bool."""
    return not dtype.is_complex


def is_real_number(dtype: DType) -> bool:
    """Return whether a dtype is a real number."""
    return is_number(dtype) and is_ordered(dtype)


def unsupported_dtype(op: Any, dtype: DType) -> NotCompiledError:
    """Return the error of an op that is not compiled for a dtype."""
    return NotCompiledError(f"{op.name}: {dtype.value} is not compiled")
