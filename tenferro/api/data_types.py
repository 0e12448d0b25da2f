"""Data type functions of the Array API: limits, kinds and casts.

Source: Array API standard 2024.12, section "Data type functions".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.api.promotion import promote_dtypes
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError
from tenferro.types import DType, DTypeLike, Tensor

__all__ = ["can_cast", "finfo", "iinfo", "isdtype", "issubdtype", "promote_types"]


@dataclass(frozen=True)
class FInfo:
    """Limits of a float dtype, or of the real and imaginary parts of a complex dtype.

    Attributes:
        bits: the number of bits of storage.
        eps: the distance from 1 to the next larger number.
        max, min: the largest and the most negative finite number.
        smallest_normal: the smallest positive number of full precision.
        dtype: the float dtype that the limits describe.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IInfo:
    """Limits of an integer dtype: its number of bits, and its largest and smallest number."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(source: Any) -> DType:
    """Return a dtype, or the dtype of an array or tensor."""
    # NumPy's scalar types, such as np.float32, have the attributes of arrays, too.
    if isinstance(source, type) or not (hasattr(source, "shape") and hasattr(source, "dtype")):
        return DType.of(source)
    return spec_of(as_operand(source)).dtype


def finfo(type: DTypeLike | Tensor, /) -> FInfo:  # because `type` is the standard's name
    """Return the limits of a float or complex dtype, or of the dtype of an array or tensor.

    Raises:
        DTypeError: the dtype is neither float nor complex.

    >>> finfo("float32").eps, finfo("complex128").dtype
    (1.1920928955078125e-07, DType.F64)
    """
    dtype = _dtype_of(type)
    if not dtype.is_inexact:
        raise DTypeError(f"finfo: {dtype} is not a float or complex dtype; see iinfo")
    limits = ml_dtypes.finfo(dtype.real.dtype)
    return FInfo(
        bits=int(limits.bits),
        eps=float(limits.eps),
        max=float(limits.max),
        min=float(limits.min),
        smallest_normal=float(limits.smallest_normal),
        dtype=dtype.real,
    )


def iinfo(type: DTypeLike | Tensor, /) -> IInfo:  # because `type` is the standard's name
    """Return the limits of an integer dtype, or of the dtype of an array or tensor.

    Raises:
        DTypeError: the dtype is not an integer dtype.

    >>> iinfo("uint8").max
    255
    """
    dtype = _dtype_of(type)
    if not dtype.is_integer:
        raise DTypeError(f"iinfo: {dtype} is not an integer dtype; see finfo")
    limits = ml_dtypes.iinfo(dtype.dtype)
    return IInfo(limits.bits, int(limits.max), int(limits.min), dtype)


_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def isdtype(dtype: DTypeLike | None, kind: DTypeLike | tuple[Any, ...]) -> bool:
    """Return whether `dtype` equals the dtype `kind`, or is one of the dtypes that the name `kind` stands for.

    Args:
        kind: a dtype; or a name: "bool", "signed integer", "unsigned integer", "integral", "real floating",
            "complex floating" or "numeric"; or a tuple of dtypes and names, of which one must match.

    Raises:
        InvalidConfigError: `kind` is neither a dtype nor one of these names.

    >>> isdtype("float32", ("integral", "real floating")), isdtype("int8", "int16")
    (True, False)
    """
    dtype = DType.of(dtype)
    return any([_is_kind(dtype, one) for one in (kind if isinstance(kind, tuple) else (kind,))])


def _is_kind(dtype: DType, kind: DTypeLike | tuple[Any, ...]) -> bool:
    if isinstance(kind, str) and kind in _KINDS:
        return dtype.kind in _KINDS[kind]
    try:
        return dtype is DType.of(kind)
    except DTypeError:
        raise InvalidConfigError(
            f"isdtype: kind must be a dtype or one of {', '.join(_KINDS)}; got {kind!r:.60}"
        ) from None


_ABSTRACT: dict[Any, str] = {
    np.generic: "biufc", np.number: "iufc", np.integer: "iu", np.signedinteger: "i", np.unsignedinteger: "u",
    np.inexact: "fc", np.floating: "f", np.complexfloating: "c", np.flexible: "", np.character: "",
}  # fmt: skip
"""Dtypes below each abstract scalar type of NumPy, as NumPy's letters of dtype kinds."""


def issubdtype(arg1: DTypeLike, arg2: Any) -> bool:
    """Return whether `arg1` equals `arg2` or is below it in NumPy's hierarchy of scalar types.

    bfloat16 is below `np.floating`.

    >>> issubdtype("float32", np.floating), issubdtype("int8", "int16")
    (True, False)
    """
    if isinstance(arg1, type) and arg1 in _ABSTRACT:
        return np.issubdtype(arg1, arg2)
    dtype = DType.of(arg1)
    if isinstance(arg2, type) and arg2 in _ABSTRACT:
        return dtype.kind in _ABSTRACT[arg2]
    return dtype is DType.of(arg2)


def promote_types(type1: DTypeLike, type2: DTypeLike) -> DType:
    """Return the dtype of the result of an operation on operands of the two dtypes.

    >>> promote_types("int32", "float32")
    DType.F64
    """
    return promote_dtypes(DType.of(type1), DType.of(type2))


def can_cast(from_: Any, to: DTypeLike, /) -> bool:
    """Return whether a dtype, or the dtype of an array, promotes to `to`.

    This is the case if an operation on operands of both dtypes has a result of dtype `to`.

    >>> can_cast("int32", "float64"), can_cast("int64", "int32")
    (True, False)
    """
    target = DType.of(to)
    return promote_dtypes(_dtype_of(from_), target) is target
