"""ONNX nodes of the analytic family, and formulas for the functions that ONNX lacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowering.numpy_source import functions
from tenferro.ops import analytic as ops
from tenferro.types import DType
from xla_peer.onnx.decomposition import decomposed, written
from xla_peer.onnx.emit.elementwise import Rows, missing, node
from xla_peer.onnx.writer import Value, Writer

__all__ = ["ROWS"]


def expm1(x: Any) -> Any:
    """Return e^x - 1 as tanh(x / 2) (e^x + 1), which does not cancel near 0."""
    return np.where(
        np.isfinite(x), np.tanh(x / 2) * (np.exp(np.minimum(x, 700.0)) + 1), np.exp(x) - 1
    )


def log1p(x: Any) -> Any:
    """Return log(1 + x), as log(u) x / (u - 1) with u = 1 + x, so that the rounding errors of log(u) and u - 1 cancel.

    Source: Kahan, as in Goldberg, What every computer scientist should know about floating-point arithmetic (1991).
    """
    u = 1 + x
    is_plain = (u != 1) & (u < np.inf)
    slope = np.where(is_plain, x / np.where(is_plain, u - 1, 1.0), 1.0)
    return np.where(u == 1, x, np.log(u) * slope)


def cbrt(x: Any) -> Any:
    """Return the real cube root: |x|^(1/3), improved by a step of Newton's iteration, with the sign of x."""
    size = np.abs(x)
    y = size ** (1 / 3)
    is_plain = (size > 0) & (size < np.inf)
    y = np.where(is_plain, y - (y - size / np.where(is_plain, y * y, 1.0)) / 3, y)
    return np.where(x < 0, -y, y)


def atan2(y: Any, x: Any) -> Any:
    """Return the angle of the point (x, y), from the arctangent of the smaller coordinate over the larger one."""
    a, b = np.abs(x), np.abs(y)
    large, small = np.maximum(a, b), np.minimum(a, b)
    ratio = np.where(
        large == small, np.where(large == 0, 0.0, 1.0), small / np.where(large == 0, 1.0, large)
    )
    angle = np.arctan(ratio)
    angle = np.where(b > a, np.pi / 2 - angle, angle)
    is_left = np.where(x == 0, 1 / x, x) < 0
    is_below = np.where(y == 0, 1 / y, y) < 0
    angle = np.where(is_left, np.pi - angle, angle)
    return np.where(np.isnan(x) | np.isnan(y), x + y, np.where(is_below, -angle, angle))


def rsqrt(op: Any, w: Writer, x: Value) -> Value:
    """Write 1 / sqrt(x), as the nodes Sqrt and Reciprocal."""
    return w.op("Reciprocal", w.op("Sqrt", x))


def polygamma(op: ops.Polygamma, w: Writer, x: Value) -> Value:
    """Write polygamma, which ONNX lacks, as the ops of `functions.polygamma`."""
    (y,) = written(w, lambda x: functions.polygamma(op.order, x), x)
    return y


def erf(op: Any, w: Writer, x: Value) -> Value:
    """Emit Erf, or for float64 the ops of `functions.erf`: engines compute Erf of float64 in float32, or reject it."""
    return (decomposed(functions.erf) if x.dtype is DType.F64 else node("Erf"))(op, w, x)


ROWS: Rows = {
    **dict.fromkeys(ops.CARDS, missing("no node computes it")),
    ops.Exp: node("Exp"),
    ops.Expm1: decomposed(expm1),
    ops.Log: node("Log"),
    ops.Log1p: decomposed(log1p),
    ops.Sqrt: node("Sqrt"),
    ops.Rsqrt: rsqrt,
    ops.Cbrt: decomposed(cbrt),
    ops.Sin: node("Sin"),
    ops.Cos: node("Cos"),
    ops.Tan: node("Tan"),
    ops.Tanh: node("Tanh"),
    ops.Logistic: node("Sigmoid"),
    ops.Atan2: decomposed(atan2),
    ops.Asin: node("Asin"),
    ops.Acos: node("Acos"),
    ops.Atan: node("Atan"),
    ops.Sinh: node("Sinh"),
    ops.Cosh: node("Cosh"),
    ops.Asinh: node("Asinh"),
    ops.Acosh: node("Acosh"),
    ops.Atanh: node("Atanh"),
    ops.Erf: erf,
    ops.Erfc: decomposed(functions.erfc),
    ops.ErfInv: decomposed(functions.erfinv),
    ops.Lgamma: decomposed(functions.lgamma),
    ops.Digamma: decomposed(functions.digamma),
    ops.Polygamma: polygamma,
}
"""Functions that write the analytic ops. The first entry raises an error for each op without its own entry."""
