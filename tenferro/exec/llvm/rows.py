"""LLVM lowering of an op: the writer of its code, and its requirements on operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.tensor import Body, Specs, Tensor, Tensors, Writer
from tenferro.ops import StdTensorOp
from tenferro.types import TensorSpec

__all__ = ["Row", "Rows", "not_compiled"]


@dataclass(frozen=True)
class Row:
    """LLVM lowering of an op.

    Attributes:
        write: the function `write(body, op, operands, types)` that returns the results, lazy or in memory.
        moves: whether an element of the result depends on elements of operands at other indices.
        materialises: the positions of operands that have to be in memory, because their elements are read more than
            once; True for all operands, False for none.
        reason: why the op is not compiled, or "".
        refusal: the function of an op and its operand types that returns why it is not compiled for these types, or "".
    """

    write: Writer
    moves: bool = False
    materialises: bool | tuple[int, ...] = False
    reason: str = ""
    refusal: Callable[[Any, Sequence[TensorSpec]], str] = lambda op, operands: ""

    def reason_for(self, op: Any, operands: Specs) -> str:
        """Return why an op is not compiled for operands of these types, or an empty string."""
        return self.reason or self.refusal(op, operands)

    def must_materialise(self, position: int) -> bool:
        return (
            self.materialises
            if isinstance(self.materialises, bool)
            else position in self.materialises
        )

    def materialised(self, body: Body, operands: Tensors) -> list[Tensor]:
        """Return the operands; write those to memory that have to be in memory, unless they are cheap."""
        return [
            body.materialised(x) if self.must_materialise(position) and not x.is_cheap else x
            for position, x in enumerate(operands)
        ]


Rows = Mapping[type[StdTensorOp], Row]


def not_compiled(reason: str) -> Row:
    """Return the entry for an op that is not compiled, for a reason."""

    def write(_: Body, op: Any, *__: Any) -> Any:
        raise NotCompiledError(f"{op.name}: {reason}")

    return Row(write, reason=reason)
