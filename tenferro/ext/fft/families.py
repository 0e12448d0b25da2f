"""Discrete Fourier transforms along trailing axes, in the four kinds that StableHLO has.

Inverse transforms divide by the number of elements.

Source: StableHLO spec #fft.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.extension import ExtensionOp, extension_family
from tenferro.extension.fields import as_choice, as_dims, as_tuple
from tenferro.types import DType

__all__ = ["Fft"]

KINDS = ("fft", "ifft", "rfft", "irfft")

REAL = {DType.C32: DType.F32, DType.C64: DType.F64}
COMPLEX = {DType.F32: DType.C32, DType.F64: DType.C64}


@extension_family("tenferro", "fft", version=1)
@dataclass(frozen=True)
class Fft(ExtensionOp):
    """Discrete Fourier transform over the last `len(lengths)` axes.

    The kind "fft" computes y[k] = sum_j x[j] exp(-2 pi i jk / n) from complex x to complex y, and "ifft" is its
    inverse. For real x, "rfft" computes the first n / 2 + 1 elements along the last axis, and "irfft" is the inverse of
    "rfft". `lengths` are the extents of the operand or, for "irfft", of the result. For "fft" and "ifft", an entry None
    stands for the extent of the operand.
    """

    kind: str
    lengths: tuple[int | None, ...]

    def __post_init__(self) -> None:
        as_choice("Fft", "kind", self.kind, KINDS)
        numbers = [
            length for length in as_tuple("Fft", "lengths", self.lengths) if length is not None
        ]
        as_dims("Fft", "lengths", numbers)
        if not 1 <= len(self.lengths) <= 3:
            raise InvalidConfigError(
                f"Fft: lengths must have one to three axes, got {len(self.lengths)}"
            )
        if self.kind in ("rfft", "irfft") and len(numbers) < len(self.lengths):
            raise InvalidConfigError(f"Fft: {self.kind} needs its lengths, got {self.lengths}")

    def lengths_of(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """Return `lengths`, with the extents of an operand of this shape in place of None."""
        own = shape[len(shape) - len(self.lengths) :]
        return tuple(
            [n if length is None else length for length, n in zip(self.lengths, own, strict=True)]
        )

    def independent_axes(self, input_shapes: Sequence[Any]) -> int:
        return len(input_shapes[0]) - len(self.lengths)

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, shape = input_dtypes[0], input_shapes[0]
        wanted = COMPLEX if self.kind == "rfft" else REAL
        if dtype not in wanted:
            raise DTypeError(f"Fft: {self.kind} takes {' or '.join(map(str, wanted))}, got {dtype}")
        rank = len(self.lengths)
        if len(shape) < rank:
            raise ShapeError(f"Fft: {self.kind} of {self.lengths} takes {rank} axes, got {shape}")
        lengths = self.lengths_of(shape)
        extents = list(lengths)
        if self.kind == "irfft":
            extents[-1] = extents[-1] // 2 + 1
        if shape[len(shape) - rank :] != tuple(extents):
            raise ShapeError(
                f"Fft: {self.kind} of {self.lengths} takes [.., {extents}], got {shape}"
            )
        result = list(lengths)
        if self.kind == "rfft":
            result[-1] = result[-1] // 2 + 1
        dtype = wanted[dtype] if self.kind in ("rfft", "irfft") else dtype
        return [(dtype, (*shape[: len(shape) - rank], *result))]
