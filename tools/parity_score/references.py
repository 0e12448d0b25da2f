"""Outputs of a module in its own precision and in float64. They decide whether an edit changed the module's meaning."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from lowering import import_stablehlo
from tenferro.errors import TenferroError
from tenferro.types import flatten

__all__ = ["eps_of", "outputs", "perturbed", "wide_outputs"]

BITS = re.compile(r"0x([0-9A-Fa-f]{8})(?=.*: tensor<[\dx]*f32>)")
"""Pattern of a float32 number that is written as its bits. StableHLO writes NaN and infinities in this form."""


def outputs(text: str, leaves: Sequence[Any]) -> list[Any]:
    """Run the module in its own dtypes, and return its outputs."""
    results = import_stablehlo(text, trusted=True).run(*leaves)
    return [np.asarray(y) for y in flatten(results)[0]]


def wide_outputs(text: str, leaves: Sequence[Any]) -> list[Any]:
    """Run the module with float64 in place of every float32, and return its outputs."""
    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in leaves]
    try:
        return outputs(_widened(text), wide)
    except TenferroError:  # because some constants cannot be converted to float64
        return outputs(text, leaves)


def perturbed(leaves: Sequence[Any], seed: int) -> list[Any]:
    """Return the arguments with each float moved up or down by one unit in the last place."""
    rng = np.random.default_rng(seed)
    return [
        x
        if x.dtype.kind in "biu"
        else (x * (1 + eps_of(x.dtype) * rng.choice([-1, 1], x.shape))).astype(x.dtype)
        for x in leaves
    ]


def eps_of(dtype: Any) -> float:
    """Return the distance from 1 to the next larger float of the dtype; zero for integers."""
    return (
        0.0 if dtype.kind in "biu" else float(ml_dtypes.finfo(np.zeros((), dtype).real.dtype).eps)
    )


def _widened(text: str) -> str:
    """Return the module's text with float64 in place of float32. Numbers written as bits are converted."""

    def wide(match: re.Match[str]) -> str:
        number = np.array(int(match[1], 16), np.uint32).view(np.float32).astype(np.float64)
        return f"0x{int(number.view(np.uint64)):016X}"

    return BITS.sub(wide, text).replace("f32>", "f64>")
