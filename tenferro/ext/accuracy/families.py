"""`ResultAccuracy`: an elementwise function with a bound on its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenferro.errors import InvalidConfigError
from tenferro.extension import ExtensionOp, extension_family

__all__ = ["MODES", "ResultAccuracy", "batched"]

MODES = ("HIGHEST", "TOLERANCE")


@extension_family("tenferro", "result_accuracy", version=1)
@dataclass(frozen=True)
class ResultAccuracy(ExtensionOp):
    """Elementwise function y = f(x), with the largest permitted error of a result.

    If the program is lowered, its compiler gets the error bound. Native execution, derivatives and compiled loops
    ignore the bound, because the import of the module compared it with the error of the native function.

    Attributes:
        function: a standard op of one operand.
        mode: "HIGHEST" for the most accurate implementation, or "TOLERANCE".
        atol, rtol, ulps: the error bound is atol + rtol |y| + ulps u, where u is one unit in the last place of y.
    """

    function: Any
    mode: str
    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0
    from_expansion = True

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InvalidConfigError(
                f"ResultAccuracy: mode must be one of {', '.join(MODES)}, got {self.mode!r}"
            )
        if not (self.atol >= 0 and self.rtol >= 0 and self.ulps >= 0):
            raise InvalidConfigError(
                f"ResultAccuracy: tolerances must not be negative, got {self.atol}, {self.rtol}, {self.ulps}"
            )

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def lower_to_standard_ops(
        self, builder: Any, inputs: Any, input_dtypes: Any, input_shapes: Any
    ) -> Any:
        return builder.emit(self.function, *inputs)


def batched(op: ResultAccuracy, builder: Any, inputs: Sequence[Any], of_batch: Any) -> Any:
    """Apply the op to a batch, with the same error bound."""
    return builder.apply(op, *inputs)
