"""Accepted dtypes of ops, and the refusals."""

from __future__ import annotations

from collections.abc import Iterable

from tenferro.errors import DTypeError
from tenferro.types import DType

__all__ = [
    "ANY",
    "BOOL",
    "COMPLEX",
    "FLOATS",
    "INEXACT",
    "INTEGERS",
    "NUMERIC",
    "ORDERED",
    "REAL",
    "SIGNED",
    "UNSIGNED",
    "require_dtype",
]

BOOL = frozenset({DType.Bool})
SIGNED = frozenset({DType.I8, DType.I16, DType.I32, DType.I64})
UNSIGNED = frozenset({DType.U8, DType.U16, DType.U32, DType.U64})
INTEGERS = SIGNED | UNSIGNED
FLOATS = frozenset({DType.F16, DType.BF16, DType.F32, DType.F64})
COMPLEX = frozenset({DType.C32, DType.C64})
INEXACT = FLOATS | COMPLEX
REAL = INTEGERS | FLOATS
NUMERIC = REAL | COMPLEX
ORDERED = REAL | BOOL
ANY = NUMERIC | BOOL


def require_dtype(op: str, role: str, dtype: DType, accepted: Iterable[DType]) -> None:
    """Refuse a dtype for which the op has no meaning.

    >>> require_dtype("Floor", "x", DType.I32, FLOATS)
    Traceback (most recent call last):
        ...
    tenferro.errors.DTypeError: Floor: x is int32; accepted: float16, bfloat16, float32, float64
    """
    accepted = frozenset(accepted)
    if dtype not in accepted:
        names = ", ".join(member.value for member in DType if member in accepted)
        raise DTypeError(f"{op}: {role} is {dtype}; accepted: {names}")
