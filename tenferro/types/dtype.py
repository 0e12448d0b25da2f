"""`DType`, the enum of element types: dtypes of NumPy and of `ml_dtypes`."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from tenferro.errors import DTypeError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["DType"]


class DType(Enum):
    """Element type.

    The numbers in the names of members are bits: `C32` consists of two float32, and is NumPy's complex64.

    A member compares equal to every form in which NumPy writes the same dtype, and to no other object. It has the hash
    of NumPy's dtype, and can be passed to NumPy as a dtype.

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
    I2 = "int2"
    I4 = "int4"
    U2 = "uint2"
    U4 = "uint4"
    F4E2M1FN = "float4_e2m1fn"
    F6E2M3FN = "float6_e2m3fn"
    F6E3M2FN = "float6_e3m2fn"
    F8E3M4 = "float8_e3m4"
    F8E4M3 = "float8_e4m3"
    F8E4M3B11FNUZ = "float8_e4m3b11fnuz"
    F8E4M3FN = "float8_e4m3fn"
    F8E4M3FNUZ = "float8_e4m3fnuz"
    F8E5M2 = "float8_e5m2"
    F8E5M2FNUZ = "float8_e5m2fnuz"
    F8E8M0FNU = "float8_e8m0fnu"

    dtype: np.dtype[Any]
    """The NumPy dtype with the same name."""
    kind: str
    """The letter of NumPy for the kind of dtype: b, i, u, f or c. Floats of `ml_dtypes` have the kind f."""
    bits: int
    """The number of significant bits of an element; 1 for Bool, as in StableHLO's i1."""
    short: str
    """The name of the dtype in printed types, such as f64 in `f64[2,3]`, or f8e4m3fn in `f8e4m3fn[2]`."""
    is_narrow: bool
    """Whether the dtype is a float of at most 8 bits or an integer of at most 4 bits.

    An element is stored in a byte. Arithmetic is done in the dtype `wide`.
    """

    def __init__(self, name: str) -> None:
        scalar: Any = getattr(ml_dtypes, name, None)
        self.dtype = np.dtype(name if scalar is None else scalar)
        # NumPy reports the kind "V" (void) for the dtypes of ml_dtypes, so the kind follows from the name.
        self.kind = self.dtype.kind if scalar is None else {"i": "i", "u": "u"}.get(name[0], "f")
        self.bits = 1 if self.kind == "b" else 8 * self.dtype.itemsize
        self.is_narrow = scalar is not None and self.dtype.itemsize == 1
        if self.is_narrow:
            self.bits = int(re.sub(r"_.*|\D", "", name))
        if self.kind == "b":
            self.short = "bool"
        elif name == "bfloat16":
            self.short = "bf16"
        else:
            self.short = f"{self.kind}{self.bits}{name.partition('_')[2]}"

    @classmethod
    def of(cls, dtype: DTypeLike | DType | None) -> DType:
        """Return the member for a dtype in any form that NumPy accepts.

        Raises:
            DTypeError: NumPy has no such dtype, or tenferro does not support it.

        >>> DType.of(int), DType.of("f4"), DType.of(np.bool_)
        (DType.I64, DType.F32, DType.Bool)
        """
        if isinstance(dtype, DType):
            return dtype
        try:
            if dtype is None:  # NumPy would read None as float64
                raise TypeError
            named = _BY_NAME.get(dtype) if isinstance(dtype, str) else None
            return _BY_NUMPY[np.dtype(dtype)] if named is None else named
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
    def is_bool(self) -> bool:
        """Whether the dtype is bool."""
        return self.kind == "b"

    @property
    def is_integer(self) -> bool:
        """Whether the dtype is a signed or unsigned integer."""
        return self.kind in "iu"

    @property
    def is_float(self) -> bool:
        """Whether the dtype is real floating point."""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """Whether the dtype is complex floating point."""
        return self.kind == "c"

    @property
    def is_inexact(self) -> bool:
        """Whether the dtype is real or complex floating point. Only such dtypes have derivatives."""
        return self.kind in "fc"

    @property
    def real(self) -> DType:
        """The dtype of the real and imaginary parts of a complex dtype; for any other dtype, the dtype itself."""
        return {DType.C32: DType.F32, DType.C64: DType.F64}.get(self, self)

    @property
    def complex(self) -> DType:
        """The complex dtype for values of this dtype: C64 for float64 and integers of 32 bits or more, else C32."""
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
        """The dtype in which elements of this dtype are summed: float32 for float16 and bfloat16, else `wide`."""
        return DType.F32 if self in (DType.F16, DType.BF16) else self.wide

    @property
    def wide(self) -> DType:
        """The dtype in which arithmetic on a narrow dtype is done; for any other dtype, the dtype itself.

        Sums and products of two narrow floats are exact in float64, so that a result is rounded only once.
        """
        if not self.is_narrow:
            return self
        return {"i": DType.I8, "u": DType.U8, "f": DType.F64}[self.kind]

    @property
    def extremes(self) -> tuple[Any, Any]:
        """Smallest and largest value of a real dtype. They are infinite if the dtype has infinities.

        >>> DType.I4.extremes, DType.F8E4M3FN.extremes, DType.F8E5M2.extremes
        ((-8, 7), (-448.0, 448.0), (-inf, inf))
        """
        if self.is_bool:
            return False, True
        if self.is_integer:
            info = ml_dtypes.iinfo(self.dtype)
            return int(info.min), int(info.max)
        has_infinities = bool(np.isinf(np.array(np.inf).astype(self.dtype).astype(np.float64)))
        if has_infinities:
            return -np.inf, np.inf
        limits = ml_dtypes.finfo(self.dtype)
        return float(limits.min), float(limits.max)

    @property
    def stored(self) -> np.dtype[Any] | None:
        """The integer dtype in which .npy files store a dtype of `ml_dtypes`; None if they store the dtype itself."""
        is_native = not self.is_narrow and self is not DType.BF16
        return None if is_native else np.dtype(f"u{self.dtype.itemsize}")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is DType or other is None:
            return False
        try:
            if isinstance(
                other, tuple | list | dict
            ):  # NumPy would accept a pair of dtypes as a dtype
                return False
            return DType.of(other) is self  # type: ignore[arg-type]  # because anything may be compared
        except Exception:  # because NumPy reads attributes of the object, which may raise any error
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"DType.{self.name}"


BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_BY_NUMPY = {member.dtype: member for member in DType}
_BY_NAME = {member.value: member for member in DType}
