"""`DebugPrint`: the op that prints a line when a running program reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenferro.extension import ExtensionOp, extension_family
from tenferro.types import DType

__all__ = ["DebugPrint"]


@extension_family("tenferro", "debug_print", version=1)
@dataclass(frozen=True)
class DebugPrint(ExtensionOp):
    """Print `template.format(*values)`, one line for each index of the leading `batch_rank` axes of the values.

    The first operand is the result of the previous effect. The output is always False. It is the first operand of the
    next effect, and this dependence keeps the effects in order.

    Attributes:
        template: a format string with numbered fields, as in "x={0}, y={1:.3f}".
        count: the number of values.
        batch_rank: the number of leading batch axes of all values.
    """

    template: str
    count: int
    batch_rank: int = 0
    effects = True

    @property
    def input_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it depends on the payload
        """The number of operands: the result of the previous effect, and the values."""
        return 1 + self.count

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(DType.Bool, ())]
