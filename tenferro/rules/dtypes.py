"""Sets of dtypes that ops accept, and the error for other dtypes."""

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
SIGNED = frozenset([dtype for dtype in DType if dtype.kind == "i"])
UNSIGNED = frozenset([dtype for dtype in DType if dtype.kind == "u"])
INTEGERS = SIGNED | UNSIGNED
FLOATS = frozenset([dtype for dtype in DType if dtype.kind == "f"])
COMPLEX = frozenset({DType.C32, DType.C64})
INEXACT = FLOATS | COMPLEX
REAL = INTEGERS | FLOATS
NUMERIC = REAL | COMPLEX
ORDERED = REAL | BOOL
ANY = NUMERIC | BOOL


def require_dtype(op: str, role: str, dtype: DType, accepted: Iterable[DType]) -> None:
    """Check that `accepted` contains the dtype of an operand. The error message omits narrow dtypes.

    >>> require_dtype("Floor", "x", DType.I32, FLOATS)
    Traceback (most recent call last):
        ...
    tenferro.errors.DTypeError: Floor: x is int32; accepted: float16, bfloat16, float32, float64
    """
    accepted = frozenset(accepted)
    if dtype not in accepted:
        names = ", ".join(
            member.value for member in DType if member in accepted and not member.is_narrow
        )
        raise DTypeError(f"{op}: {role} is {dtype}; accepted: {names}")
