"""Emitters of the analytic family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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

__all__ = ["ACCURATE", "ROWS", "AccurateFunction"]


def widened(emit: Emitter) -> Emitter:
    """Return an emitter that calls `emit` in float32 for float16 and bfloat16 operands, and rounds the result once."""

    def computed(op: Any, w: Writer, *operands: Value) -> Value:
        dtype = operands[0].dtype
        if dtype.accumulator is dtype:
            return emit(op, w, *operands)
        wide = [w.convert(operand, DType.F32) for operand in operands]
        return w.convert(emit(op, w, *wide), dtype)

    return computed


def direct(name: str) -> Emitter:
    """Return the emitter of the StableHLO operation of this name."""
    return widened(lambda op, w, *operands: w.op(name, *operands))


@dataclass(frozen=True)
class AccurateFunction:
    """Emitter of a function whose StableHLO operation accepts the attribute `result_accuracy`.

    Attributes:
        name: the StableHLO operation.
        error_f32, error_f64: largest errors of native execution, interpreted or compiled, in units in the last
            place, from docs/accuracy.md.
        is_bounded: whether |y| <= 1 for all results y. If so, the absolute error is at most the relative error, so an
            absolute tolerance can be compared with the relative error.

    Source: StableHLO spec, `result_accuracy`.
    """

    name: str
    error_f32: float
    error_f64: float
    is_bounded: bool = False

    def __call__(self, op: Any, w: Writer, x: Value) -> Value:
        return direct(self.name)(op, w, x)

    def error(self, dtype: DType) -> float:
        """Return the largest error of native execution, in units in the last place.

        Floats narrower than 32 bits are computed in float32 and rounded once, so their error is about half a unit.
        """
        if dtype is DType.F64:
            return self.error_f64
        return self.error_f32 if dtype is DType.F32 else 0.51


def expanded(name: str) -> Emitter:
    """Return the emitter of a call to a private function that computes the CHLO operation `name`."""
    return widened(lambda op, w, x: call(name, w, x))


def call(name: str, w: Writer, x: Value) -> Value:
    """Emit a call to a private function that computes the CHLO operation `name`.

    The module gets one such function for each static shape and dtype; the first call defines the function.
    """
    spec = x.spec
    element, shape = element_type(spec.dtype), spec.shape
    if spec.is_static:
        extents = "x".join(map(str, shape))
        symbol = f"{name}_{spec.dtype.short}_{extents}".rstrip("_")
        operands = (x,)
    else:
        # Each call gets a function of its own, because StableHLO's shape refinement specialises a function to the
        # shapes of one caller.
        symbol = f"{name}_{spec.dtype.short}_of_{len(w.functions)}"
        operands = (*map(w.extent, shape), x)
    if symbol not in w.functions:
        w.functions[symbol] = PrintedFunction(chlo_function(name, element, shape, symbol))
    return w.call(symbol, operands, (spec,))[0]


def polygamma_of(op: ops.Polygamma, w: Writer, x: Value) -> Value:
    """Emit CHLO's expansion of digamma for order 0, and the formulas of `lowering.emit.polygamma` for other orders.

    CHLO's formulas for orders above 0 are inaccurate at negative arguments.
    """
    return polygamma(w, op.order, x) if op.order else call("digamma", w, x)


ROWS: EmitterRows = {
    ops.Exp: AccurateFunction("exponential", 2.49, 0.741),
    ops.Expm1: AccurateFunction("exponential_minus_one", 2.61, 1.01),
    ops.Log: AccurateFunction("log", 3.62, 0.783),
    ops.Log1p: AccurateFunction("log_plus_one", 1.92, 0.757),
    ops.Sqrt: AccurateFunction("sqrt", 0.5, 0.5),
    ops.Rsqrt: AccurateFunction("rsqrt", 1.49, 1.35),
    ops.Cbrt: AccurateFunction("cbrt", 1.94, 0.639),
    ops.Sin: AccurateFunction("sine", 1.49, 0.794, is_bounded=True),
    ops.Cos: AccurateFunction("cosine", 1.49, 0.812, is_bounded=True),
    ops.Tan: AccurateFunction("tan", 3.78, 2.12),
    ops.Tanh: AccurateFunction("tanh", 1.37, 2.28, is_bounded=True),
    ops.Logistic: AccurateFunction("logistic", 3.57, 2.04, is_bounded=True),
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
ACCURATE: Mapping[type[StdTensorOp], AccurateFunction] = {
    op: row for op, row in ROWS.items() if isinstance(row, AccurateFunction)
}
