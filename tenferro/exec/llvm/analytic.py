"""Rows of the analytic family: the C library's functions, within a unit or two in the last place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.exec.llvm import functions
from tenferro.exec.llvm.code import Code, Element, NotCompiledError, literal, llvm_type
from tenferro.exec.llvm.elementwise import elementwise
from tenferro.exec.llvm.rows import Row, Rows, not_compiled
from tenferro.ops import analytic as an
from tenferro.types import DType

__all__ = ["ROWS"]


def _of_floats(op: Any, dtype: DType) -> str:
    if not dtype.is_float:
        raise NotCompiledError(f"{op.name}: {dtype.value} is not compiled")
    return llvm_type(dtype)


def library(name: str) -> Row:
    """A function of the C library."""

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        kind = _of_floats(op, dtype)
        return code.call(name if kind == "double" else f"{name}f", kind, [(kind, x) for x in xs])

    return elementwise(scalar, is_exact=False)


def sqrt(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Rounded once."""
    kind = _of_floats(op, dtype)
    return code.call(f"llvm.sqrt.{'f64' if kind == 'double' else 'f32'}", kind, [(kind, xs[0])])


def rsqrt(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """One over the square root, as the kernel has it."""
    kind = _of_floats(op, dtype)
    return code.value(f"fdiv {kind} {literal(1.0, dtype)}, {sqrt(code, op, dtype, xs)}")


def vectorised(name: str) -> Row:
    """A function that is arithmetic."""

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        _of_floats(op, dtype)
        return functions.call(code, name, dtype, xs[0])

    return elementwise(scalar, is_exact=False)


_INTERPRETED = not_compiled("no scalar form is written: a compiled loop calls the kernel")
ROWS: Rows = {
    **dict.fromkeys(an.CARDS, _INTERPRETED),
    an.Exp: vectorised("exp"),
    an.Expm1: vectorised("expm1"),
    an.Log: vectorised("log"),
    an.Log1p: vectorised("log1p"),
    an.Sqrt: elementwise(sqrt),
    an.Rsqrt: elementwise(rsqrt),
    an.Cbrt: library("cbrt"),
    an.Sin: vectorised("sin"),
    an.Cos: vectorised("cos"),
    an.Tan: vectorised("tan"),
    an.Tanh: vectorised("tanh"),
    an.Logistic: vectorised("logistic"),
    an.Asin: library("asin"),
    an.Acos: library("acos"),
    an.Atan: library("atan"),
    an.Sinh: library("sinh"),
    an.Cosh: library("cosh"),
    an.Asinh: library("asinh"),
    an.Acosh: library("acosh"),
    an.Atanh: library("atanh"),
    an.Erf: library("erf"),
    an.Erfc: library("erfc"),
    an.Atan2: library("atan2"),
}
