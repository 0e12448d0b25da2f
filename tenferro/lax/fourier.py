"""Discrete Fourier transforms with jax.lax's name and signature.

Source: jax.lax.fft.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from tenferro.api import fft as transforms
from tenferro.api.promotion import convert
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.types import ArrayLike, DType

__all__ = ["FftType", "fft"]


class FftType(enum.IntEnum):
    """Kind of a Fourier transform: forward, or inverse (I..). RFFT has a real operand, and IRFFT a real result."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Any:
    """Return the discrete Fourier transform over the last axes, one axis for each entry of `fft_lengths`.

    Args:
        fft_type: an `FftType` or its name.
        fft_lengths: the extents of the operand along these axes; for IRFFT, the extents of the result.

    Raises:
        InvalidConfigError, ShapeError: the kind is unknown, or `fft_lengths` does not fit the operand's extents.
        DTypeError: the operand of an RFFT is complex.

    >>> import numpy as np
    >>> fft(np.array([1.0, 2.0]), "RFFT", (2,))
    array([ 3.+0.j, -1.+0.j])
    """
    name = fft_type.upper() if isinstance(fft_type, str) else fft_type
    if name not in [*FftType.__members__, *FftType]:
        raise InvalidConfigError(
            f'lax.fft: fft_type must be an FftType, "fft", "ifft", "rfft" or "irfft", got {fft_type!r}'
        )
    kind = FftType[name] if isinstance(name, str) else FftType(name)
    operand = as_operand(x)
    dtype = spec_of(operand).dtype
    if kind is FftType.RFFT and dtype.is_complex:
        raise DTypeError(f"lax.fft: RFFT takes real numbers, got {spec_of(operand)}; use FFT")
    if kind is not FftType.RFFT and not dtype.is_complex:
        operand = convert(operand, DType.C32 if dtype is DType.F32 else DType.C64)
    lengths = tuple(fft_lengths)
    if not lengths:
        return operand
    wanted = list(lengths)
    if kind is FftType.IRFFT:
        wanted[-1] = lengths[-1] // 2 + 1
    if list(operand.shape[-len(lengths) :]) != wanted:
        raise ShapeError(
            f"lax.fft: {kind.name} of lengths {lengths} takes last extents {tuple(wanted)}, got {spec_of(operand)}"
        )
    function = getattr(transforms, f"{kind.name.lower()}n")
    return function(operand, s=lengths, axes=tuple(range(-len(lengths), 0)))
