"""The element types: one enum, NumPy's dtypes plus bfloat16."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from tenferro.errors import DTypeError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["DType"]


class DType(Enum):
    """An element type; members have short tags (`C32` is two float32, NumPy's complex64).

    A member compares equal to every NumPy form of the same dtype, and to nothing else, of whatever
    class; it hashes like NumPy's dtype, and can be passed to NumPy as a dtype.

    >>> DType.of("float64"), DType.F64 == np.float64, str(DType.C64)
    (DType.F64, True, 'complex128')
    >>> np.zeros(2, DType.BF16).dtype
    dtype(bfloat16)
    """

    Bool = "bool"
    I8 = "int8"
    I16 = "int16"
    I32 = "int32"
    I64 = "int64"
    U8 = "uint8"
    U16 = "uint16"
    U32 = "uint32"
    U64 = "uint64"
    F16 = "float16"
    BF16 = "bfloat16"
    F32 = "float32"
    F64 = "float64"
    C32 = "complex64"
    C64 = "complex128"

    dtype: np.dtype[Any]
    """The NumPy dtype of this name."""
    kind: str
    """NumPy's kind letter: b, i, u, f (bfloat16 too) or c."""
    short: str
    """The printed form in types: `f64[2,3]`, `c128[4]`, `bool[]`."""

    def __init__(self, name: str) -> None:
        self.dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
        self.kind = "f" if name == "bfloat16" else self.dtype.kind
        bits = str(8 * self.dtype.itemsize)
        self.short = {"b": "bool", "i": "i" + bits, "u": "u" + bits, "c": "c" + bits}.get(
            self.kind, "bf16" if name == "bfloat16" else "f" + bits
        )

    @classmethod
    def of(cls, dtype: DTypeLike | DType | None) -> DType:
        """The member for any form that NumPy takes for a dtype.

        Raises:
            DTypeError: NumPy has no such dtype, or tenferro lacks it.

        >>> DType.of(int), DType.of("f4"), DType.of(np.bool_)
        (DType.I64, DType.F32, DType.Bool)
        """
        if isinstance(dtype, DType):
            return dtype
        try:
            if dtype is None:  # because NumPy reads None as float64
                raise TypeError
            is_bfloat16 = isinstance(dtype, str) and dtype == "bfloat16"
            return _BY_NUMPY[BFLOAT16 if is_bfloat16 else np.dtype(dtype)]
        except (TypeError, KeyError, ValueError, SyntaxError):
            names = ", ".join(member.value for member in cls)
            foreign = type(dtype).__module__ == "torch"
            advice = "of a PyTorch tensor give x.numpy()" if foreign else f"supported: {names}"
            raise DTypeError(f"dtype {dtype!r} is not supported; {advice}") from None

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def bits(self) -> int:
        """Bits of storage per element; 1 for Bool, as in StableHLO's i1."""
        return 1 if self.kind == "b" else 8 * self.dtype.itemsize

    @property
    def is_bool(self) -> bool:
        """Bool."""
        return self.kind == "b"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer."""
        return self.kind in "iu"

    @property
    def is_float(self) -> bool:
        """Real floating point."""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """Complex floating point."""
        return self.kind == "c"

    @property
    def is_inexact(self) -> bool:
        """Real or complex floating point: the differentiable dtypes."""
        return self.kind in "fc"

    @property
    def real(self) -> DType:
        """The dtype of a real or imaginary part; the dtype itself if it is not complex."""
        return {DType.C32: DType.F32, DType.C64: DType.F64}.get(self, self)

    @property
    def complex(self) -> DType:
        """The complex dtype that holds this one: C64 for float64 and wider integers, else C32."""
        return (
            self
            if self.is_complex
            else (
                DType.C64
                if self.itemsize >= 8 or (self.is_integer and self.itemsize >= 4)
                else DType.C32
            )
        )

    @property
    def accumulator(self) -> DType:
        """The dtype of sums of this one: float32 for float16 and bfloat16."""
        return DType.F32 if self in (DType.F16, DType.BF16) else self

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is DType or other is None:
            return False
        try:
            if isinstance(
                other, tuple | list | dict
            ):  # because NumPy takes a pair of dtypes for a dtype
                return False
            return DType.of(other) is self  # type: ignore[arg-type]  # because anything may be compared
        except Exception:  # because NumPy reads attributes of the object, which may raise anything
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"DType.{self.name}"


BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_BY_NUMPY = {member.dtype: member for member in DType}
