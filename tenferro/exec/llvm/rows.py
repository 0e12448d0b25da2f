"""Rows of the column: the function that writes an op, and the form that it requires of operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.tensor import Body, Tensor, Writer
from tenferro.ops import StdTensorOp
from tenferro.types import TensorSpec

__all__ = ["Row", "Rows", "not_compiled"]


@dataclass(frozen=True)
class Row:
    """The cell of an op.

    Attributes:
        write: `write(body, op, operands, types)` gives the results, whose elements are written when somebody
            asks for them, or which lie in memory.
        moves: whether an element of the result is made of elements at other indices.
        settles: which operands have to lie in memory, because elements are read more than once; all of them,
            none, or their places.
        reason: why the op is not compiled, if it is not; a loop calls the interpreter's kernel then.
        refusal: of an op and its operands' types, why it is not compiled for these, or nothing; the same then.
        is_exact: whether results are NumPy's bits; of complex numbers, where NumPy contracts products on some
            processors, `complex_is_exact`.
    """

    write: Writer
    moves: bool = False
    settles: bool | tuple[int, ...] = False
    is_exact: bool = True
    complex_is_exact: bool = True
    reason: str = ""
    refusal: Callable[[Any, Sequence[TensorSpec]], str] = lambda op, operands: ""

    def reason_for(self, op: Any, operands: Sequence[TensorSpec]) -> str:
        """Why an op is not compiled for operands of these types, if it is not."""
        return self.reason or self.refusal(op, operands)

    def must_settle(self, position: int) -> bool:
        """Whether the operand at a place has to lie in memory."""
        return self.settles if isinstance(self.settles, bool) else position in self.settles

    def settled(self, body: Body, operands: Sequence[Tensor]) -> list[Tensor]:
        """The operands, in memory where they have to be and are not cheap to compute again."""
        return [
            body.settled(x) if self.must_settle(position) and not x.is_cheap else x
            for position, x in enumerate(operands)
        ]


Rows = Mapping[type[StdTensorOp], Row]


def not_compiled(reason: str) -> Row:
    """A row that says why an op is not compiled."""

    def write(_: Body, op: Any, *__: Any) -> Any:
        raise NotCompiledError(f"{op.name}: {reason}")

    return Row(write, reason=reason)
