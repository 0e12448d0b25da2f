"""Emitters of the analytic family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowering.chlo import chlo_function
from lowering.emit.emitter import Emitter, EmitterRows
from lowering.emit.polygamma import polygamma
from lowering.operations import PrintedFunction
from lowering.types import element_type
from lowering.writer import Value, Writer
from tenferro.ops import StdTensorOp
from tenferro.ops import analytic as ops
from tenferro.types import DType

__all__ = ["ROWS", "STABLEHLO"]


def widened(emit: Emitter) -> Emitter:
    """Wrap `emit` so that float16 and bfloat16 are computed in float32 and rounded once."""

    def computed(op: Any, w: Writer, *operands: Value) -> Value:
        dtype = operands[0].dtype
        if dtype.accumulator is dtype:
            return emit(op, w, *operands)
        wide = [w.convert(operand, DType.F32) for operand in operands]
        return w.convert(emit(op, w, *wide), dtype)

    return computed


def direct(name: str) -> Emitter:
    """Return the emitter of the StableHLO op of that name."""
    return widened(lambda op, w, *operands: w.op(name, *operands))


def expanded(name: str) -> Emitter:
    """Return the emitter that calls a private function with the expansion of the CHLO op."""
    return widened(lambda op, w, x: call(name, w, x))


def call(name: str, w: Writer, x: Value) -> Value:
    """Call the expansion of chlo.`name`."""
    spec = x.spec
    element, shape = element_type(spec.dtype), spec.shape
    if spec.is_static:
        extents = "x".join(map(str, shape))
        symbol = f"{name}_{spec.dtype.short}_{extents}".rstrip("_")
        operands = (x,)
    else:
        # One function per call, because refinement gives a function the shapes of its caller.
        symbol = f"{name}_{spec.dtype.short}_of_{len(w.functions)}"
        operands = (*map(w.extent, shape), x)
    if symbol not in w.functions:
        w.functions[symbol] = PrintedFunction(chlo_function(name, element, shape, symbol))
    return w.call(symbol, operands, (spec,))[0]


def polygamma_of(op: ops.Polygamma, w: Writer, x: Value) -> Value:
    """Order 0 is digamma, in CHLO's expansion; the other formulas are inaccurate in it below zero."""
    return polygamma(w, op.order, x) if op.order else call("digamma", w, x)


STABLEHLO: Mapping[type[StdTensorOp], str] = {
    ops.Exp: "exponential",
    ops.Expm1: "exponential_minus_one",
    ops.Log: "log",
    ops.Log1p: "log_plus_one",
    ops.Sqrt: "sqrt",
    ops.Rsqrt: "rsqrt",
    ops.Cbrt: "cbrt",
    ops.Sin: "sine",
    ops.Cos: "cosine",
    ops.Tan: "tan",
    ops.Tanh: "tanh",
    ops.Logistic: "logistic",
}
"""Functions of one number that are operations of StableHLO."""
ROWS: EmitterRows = {
    **{op: direct(name) for op, name in STABLEHLO.items()},
    ops.Atan2: direct("atan2"),
    ops.Asin: expanded("asin"),
    ops.Acos: expanded("acos"),
    ops.Atan: expanded("atan"),
    ops.Sinh: expanded("sinh"),
    ops.Cosh: expanded("cosh"),
    ops.Asinh: expanded("asinh"),
    ops.Acosh: expanded("acosh"),
    ops.Atanh: expanded("atanh"),
    ops.Erf: expanded("erf"),
    ops.Erfc: expanded("erfc"),
    ops.ErfInv: expanded("erf_inv"),
    ops.Lgamma: expanded("lgamma"),
    ops.Digamma: expanded("digamma"),
    ops.Polygamma: widened(polygamma_of),
}
