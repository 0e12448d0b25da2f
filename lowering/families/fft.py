"""The Fourier family in StableHLO: `stablehlo.fft`, which transforms up to three trailing axes."""

from __future__ import annotations

from typing import Any

from lowering.extensions import register_extension_lowering
from lowering.inference import result_type
from lowering.writer import Value, Writer, signature
from tenferro.dims import is_static
from tenferro.errors import NonStaticShapeError, UnsupportedError

__all__ = ["register"]


def fft(op: Any, w: Writer, x: Value) -> Value:
    """One statement; none where there are no elements."""
    lengths = op.lengths_of(x.shape)
    if len(lengths) > 3:
        raise UnsupportedError(f"Fft: stablehlo.fft transforms 3 axes at most, got {lengths}")
    if not all(map(is_static, lengths)):
        raise NonStaticShapeError(
            f"Fft: stablehlo.fft needs numbers for its lengths, got {x.spec}; give concrete specs"
        )
    result = result_type(op, x)
    (value,) = w.statement(
        "stablehlo.fft ",
        (x,),
        f", type = {op.kind.upper()}, length = [{', '.join(map(str, lengths))}] : "
        f"{signature((x,), (result,))}",
        (result,),
    )
    return value


def register() -> None:
    """Register the family's lowerings with `lower_to_stablehlo`."""
    register_extension_lowering("tenferro.fft.v1", fft)
