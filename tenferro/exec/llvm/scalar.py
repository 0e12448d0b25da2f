"""Functions of single elements, and their requirements on a dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.code import Code, Element, llvm_type
from tenferro.types import DType

__all__ = ["Scalar", "is_real", "kind_of", "refused", "suffix_of"]

Scalar = Callable[[Code, Any, DType, Sequence[Element]], Element]
"""`scalar(code, op, dtype, elements)`: a result, `dtype` being the first operand's."""


def kind_of(dtype: DType) -> str:
    """The kind of instructions for a dtype: of floats, or of signed or unsigned integers."""
    if dtype.is_complex:
        return "complex"
    if dtype.is_inexact:
        return "float"
    return "unsigned" if dtype.is_bool or dtype.dtype.kind == "u" else "signed"


def is_real(dtype: DType) -> bool:
    """Whether numbers of a dtype are floats, and not complex."""
    return dtype.is_float


def refused(op: Any, dtype: DType) -> NotCompiledError:
    """The error for a dtype that an op is not compiled for."""
    return NotCompiledError(f"{op.name}: {dtype.value} is not compiled")


def suffix_of(dtype: DType) -> str:
    """Of the names of LLVM's functions of floats."""
    return "f64" if llvm_type(dtype) == "double" else "f32"
