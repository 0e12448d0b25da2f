"""Canonical texts of types.

MLIR's parser accepts several texts of the same type. The canonical text is the one that MLIR prints.

Source: MLIR's quant dialect, "Uniform quantised type"; StableHLO's `type_extensions`.
"""

from __future__ import annotations

import re

__all__ = ["canonical_text"]

_UNIFORM = re.compile(
    r"!quant\.uniform<(?P<sign>[a-z]*?)i?(?P<width>\d+)(?:<(?P<low>-?\d+):(?P<high>-?\d+)>)?:(?P<expressed>\w+)"
    r"(?P<axis>:\d+)?,(?P<parameters>[-+0-9.eE:]+|\{[-+0-9.eE:,]+\})>"
)
_PARAMETER = re.compile(r"(?P<scale>[-+0-9.eE]+)(?::(?P<zero>-?\d+))?")
_EXTENSIONS = re.compile(r"#stablehlo\.type_extensions<bounds=\[([?\d,]*)\]>")
LONGEST_WIDTH = 8
"""Maximum number of digits of the width of an integer type."""


def canonical_text(text: str) -> str:
    """Return the canonical text of a type; equal types have equal canonical texts.

    Storage bounds that equal the limits of the integer type, and zero points of 0, are omitted. Scales are written as
    the shortest numbers that round-trip.

    >>> canonical_text("tensor<2x!quant.uniform<i8<-128:127>:f32, 5.000000e-01:0>>")
    'tensor<2x!quant.uniform<i8:f32, 0.5>>'
    >>> canonical_text("tensor<?xf32, #stablehlo.type_extensions<bounds = [4]>>")
    'tensor<?xf32, #stablehlo.bounds<4>>'
    """
    if "!quant.uniform<" not in text and "#stablehlo.type_extensions<" not in text:
        return text
    dense = "".join(text.split())
    return _EXTENSIONS.sub(_bounds, _UNIFORM.sub(_uniform, dense)).replace(",", ", ")


def _uniform(match: re.Match[str]) -> str:
    sign, width = match["sign"], match["width"]
    storage = f"{sign}{'' if sign == 'u' else 'i'}{width}"
    bounds = ""
    if match["low"] is not None and len(width) <= LONGEST_WIDTH:
        bits = int(width)
        least, largest = (
            (0, (1 << bits) - 1) if sign == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
        )
        low, high = int(match["low"]), int(match["high"])
        bounds = "" if (low, high) == (least, largest) else f"<{low}:{high}>"
    parameters = _PARAMETER.sub(_parameter, match["parameters"])
    return (
        f"!quant.uniform<{storage}{bounds}:{match['expressed']}{match['axis'] or ''},{parameters}>"
    )


def _parameter(match: re.Match[str]) -> str:
    try:
        scale = repr(float(match["scale"]))
    except ValueError:
        return match[0]
    mantissa, e, exponent = scale.partition("e")
    scale = f"{mantissa}{'' if '.' in mantissa else '.0'}{e}{exponent}"
    return scale if match["zero"] in (None, "0", "-0") else f"{scale}:{match['zero']}"


def _bounds(match: re.Match[str]) -> str:
    return f"#stablehlo.bounds<{match[1]}>"
