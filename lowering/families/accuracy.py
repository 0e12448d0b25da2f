"""Lowering of functions with a required accuracy to StableHLO operations with the attribute `result_accuracy`."""

from __future__ import annotations

from lowering.emit.analytic import ACCURATE
from lowering.extensions import register_extension_lowering
from lowering.operations import Literal
from lowering.writer import Value, Writer
from tenferro.ext.accuracy.families import ResultAccuracy

__all__ = ["register"]


def accurate(op: ResultAccuracy, w: Writer, x: Value) -> Value:
    """Emit the StableHLO operation of a function, with the required tolerances as its attribute `result_accuracy`.

    float16 and bfloat16 operands are not converted to float32, because the tolerances refer to the operand's dtype.
    """
    fields = [
        f"{name} = {getattr(op, name):.16e}" for name in ("atol", "rtol") if getattr(op, name)
    ]
    fields += [f"ulps = {op.ulps}"] if op.ulps else []
    fields += [f"mode = #stablehlo.result_accuracy_mode<{op.mode}>"]
    attribute = Literal(f"#stablehlo.result_accuracy<{', '.join(fields)}>")
    name = ACCURATE[type(op.function)].name
    return w.operation(f"stablehlo.{name}", (x,), (x.spec,), {"result_accuracy": attribute})[0]


def register() -> None:
    """Register the family's lowering with `lower_to_stablehlo`."""
    register_extension_lowering("tenferro.result_accuracy.v1", accurate)
