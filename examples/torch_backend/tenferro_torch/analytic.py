"""Kernels of the analytic family."""

from __future__ import annotations

import torch

from tenferro.ops.analytic import (
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atan2,
    Atanh,
    Cos,
    Cosh,
    Digamma,
    Erf,
    Erfc,
    ErfInv,
    Exp,
    Expm1,
    Lgamma,
    Log,
    Log1p,
    Logistic,
    Rsqrt,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
)
from tenferro_torch.elementwise import in_float32, of_tensors

__all__ = ["ROWS"]


def erfinv(x: torch.Tensor) -> torch.Tensor:
    """The function is odd, at -0.0 too."""
    return torch.copysign(torch.erfinv(x), x)


def digamma(x: torch.Tensor) -> torch.Tensor:
    """NaN at 0 as at the other poles, from whose two sides it goes to either infinity."""
    return torch.where(x == 0, torch.nan, torch.digamma(x))


FUNCTIONS = {
    Exp: torch.exp,
    Expm1: torch.expm1,
    Log: torch.log,
    Log1p: torch.log1p,
    Sqrt: torch.sqrt,
    Rsqrt: torch.rsqrt,
    Sin: torch.sin,
    Cos: torch.cos,
    Tan: torch.tan,
    Tanh: torch.tanh,
    Logistic: torch.sigmoid,
    Atan2: torch.atan2,
    Asin: torch.asin,
    Acos: torch.acos,
    Atan: torch.atan,
    Sinh: torch.sinh,
    Cosh: torch.cosh,
    Asinh: torch.asinh,
    Acosh: torch.acosh,
    Atanh: torch.atanh,
    Erf: torch.erf,
    Erfc: torch.erfc,
    ErfInv: erfinv,
    Lgamma: torch.lgamma,
    Digamma: digamma,
}
ROWS = {op: of_tensors(in_float32(function)) for op, function in FUNCTIONS.items()}
