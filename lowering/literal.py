"""Conversion of constants to text in StableHLO's notation, from which every element can be restored exactly.

Floats are written with enough digits to round-trip. Infinities and NaN are written as bit patterns. A tensor of more
than `LONGEST_LIST` elements is written as one hexadecimal string.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tenferro.types import DType

__all__ = ["LONGEST_LIST", "dense", "is_splat", "quoted"]

LONGEST_LIST = 32
"""Maximum number of elements that are written as a list; larger constants are written as one hexadecimal string."""
PIECE = 1 << 16
"""Number of elements that `is_splat` compares at once."""


def dense(array: Any) -> str:
    """Write the `dense<...>` literal of a NumPy array, without its type.

    Bool arrays of more than `LONGEST_LIST` elements have no hexadecimal form that every version of MLIR reads. Instead
    of such a constant, the writer emits a constant of ui8 and a conversion to bool.

    >>> dense(np.array([1.5, -np.inf]))
    'dense<[1.5, 0xFFF0000000000000]>'
    >>> dense(np.float32(0.1)), dense(np.array([[True, False]]))
    ('dense<0.1>', 'dense<[[true, false]]>')
    """
    array = np.asarray(array)
    if array.size == 0:
        return "dense<>"
    if is_splat(array):
        first = array[
            (slice(0, 1),) * array.ndim
        ].ravel()  # not `flat`, which supports at most 32 axes
        return f"dense<{_element(first[0], DType.of(array.dtype))}>"
    if array.size > LONGEST_LIST:
        return f'dense<"0x{_little_endian(array).hex().upper()}">'
    return f"dense<{_nested(array, DType.of(array.dtype))}>"


def _little_endian(array: Any) -> bytes:
    """Encode the elements of an array as little-endian bytes.

    An integer of fewer than 8 bits is stored in the low bits of a byte.
    """
    dtype = DType.of(array.dtype)
    if dtype.is_integer and dtype.is_narrow:
        return (array.view(np.uint8) & np.uint8((1 << dtype.bits) - 1)).tobytes()
    return (array if sys.byteorder == "little" else array.byteswap()).tobytes()


def quoted(text: str) -> str:
    r"""Quote a string attribute; quotes, backslashes and bytes that are not printable ASCII are escaped.

    >>> print(quoted('say "hi"'))
    "say \22hi\22"
    """
    shown = [
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}"
        for byte in text.encode()
    ]
    return f'"{"".join(shown)}"'


def is_splat(array: Any) -> bool:
    """Return whether all elements have the same bits.

    The array is compared in pieces, because the result of a comparison needs memory too.

    >>> is_splat(np.zeros(3)), is_splat(np.array([0.0, -0.0])), is_splat(np.ones(()))
    (True, False, True)
    """
    if array.size <= 1 or not any(array.strides):
        return True
    elements = np.asarray(array, order="C").reshape(-1, 1).view(np.uint8)
    return all(
        (elements[start : start + PIECE] == elements[:1]).all()
        for start in range(0, len(elements), PIECE)
    )


def _nested(array: Any, dtype: DType) -> str:
    """Write the elements of an array in nested brackets, with the last axis innermost."""
    parts = [_element(value, dtype) for value in array.ravel()]
    for extent in reversed(array.shape):
        parts = [
            f"[{', '.join(parts[start : start + extent])}]"
            for start in range(0, len(parts), extent)
        ]
    return parts[0]


def _element(value: Any, dtype: DType) -> str:
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_integer:
        return str(int(value))
    if dtype.is_complex:
        return f"({_element(value.real, dtype.real)}, {_element(value.imag, dtype.real)})"
    return _float(value, dtype)


def _float(value: Any, dtype: DType) -> str:
    if not np.isfinite(value):
        bits = int.from_bytes(np.asarray(value).tobytes(), sys.byteorder)
        return f"0x{bits:0{dtype.itemsize * 2}X}"
    text = (
        repr(float(value))
        if dtype is DType.F64
        else np.format_float_scientific(np.float32(value), unique=True, trim="0")
    )
    if (dtype is not DType.F64 and 1e-4 <= abs(float(value)) < 1e16) or value == 0:
        text = np.format_float_positional(
            value if dtype is DType.F64 else np.float32(value), unique=True, trim="0"
        )
    mantissa, _, exponent = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return mantissa + (f"e{exponent}" if exponent else "")
