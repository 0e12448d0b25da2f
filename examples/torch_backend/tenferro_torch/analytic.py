"""Kernels of the analytic functions, such as exp and digamma."""

from __future__ import annotations

import torch

from tenferro.ops import analytic as ops
from tenferro_torch.elementwise import in_float32, of_tensors

__all__ = ["ROWS"]


def erfinv(x: torch.Tensor) -> torch.Tensor:
    """Return the inverse error function, with the sign of x even if x is -0.0."""
    return torch.copysign(torch.erfinv(x), x)


def digamma(x: torch.Tensor) -> torch.Tensor:
    """Return digamma; NaN at its pole 0, as at its other poles, because the one-sided limits differ."""
    return torch.where(x == 0, torch.nan, torch.digamma(x))


FUNCTIONS = {
    ops.Exp: torch.exp,
    ops.Expm1: torch.expm1,
    ops.Log: torch.log,
    ops.Log1p: torch.log1p,
    ops.Sqrt: torch.sqrt,
    ops.Rsqrt: torch.rsqrt,
    ops.Sin: torch.sin,
    ops.Cos: torch.cos,
    ops.Tan: torch.tan,
    ops.Tanh: torch.tanh,
    ops.Logistic: torch.sigmoid,
    ops.Atan2: torch.atan2,
    ops.Asin: torch.asin,
    ops.Acos: torch.acos,
    ops.Atan: torch.atan,
    ops.Sinh: torch.sinh,
    ops.Cosh: torch.cosh,
    ops.Asinh: torch.asinh,
    ops.Acosh: torch.acosh,
    ops.Atanh: torch.atanh,
    ops.Erf: torch.erf,
    ops.Erfc: torch.erfc,
    ops.ErfInv: erfinv,
    ops.Lgamma: torch.lgamma,
    ops.Digamma: digamma,
}
ROWS = {op: of_tensors(in_float32(function)) for op, function in FUNCTIONS.items()}
