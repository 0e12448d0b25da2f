"""Lowering of Fourier transforms to `stablehlo.fft`, which transforms up to three trailing axes."""

from __future__ import annotations

from typing import Any

from lowering.extensions import register_extension_lowering
from lowering.inference import result_type
from lowering.writer import Value, Writer
from tenferro.dims import is_static
from tenferro.errors import NonStaticShapeError, UnsupportedError

__all__ = ["register"]


def fft(op: Any, w: Writer, x: Value) -> Value:
    """Emit `stablehlo.fft`.

    Raises:
        UnsupportedError: more than three axes are transformed.
        NonStaticShapeError: a length is symbolic.
    """
    lengths = op.lengths_of(x.shape)
    if len(lengths) > 3:
        raise UnsupportedError(f"Fft: stablehlo.fft transforms 3 axes at most, got {lengths}")
    if not all(map(is_static, lengths)):
        raise NonStaticShapeError(
            f"Fft: stablehlo.fft needs numbers for its lengths, got {x.spec}; give concrete specs"
        )
    result = result_type(op, x)
    return w.op("fft", x, result=result, type=op.kind.upper(), length=lengths)


def register() -> None:
    """Register the family's lowerings with `lower_to_stablehlo`."""
    register_extension_lowering("tenferro.fft.v1", fft)
