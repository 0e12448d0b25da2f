"""`Instruction`: an op on values; graphs and programs consist of instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tenferro.graph.source_line import SourceLine
    from tenferro.ops import StdTensorOp

__all__ = ["Instruction"]


class Instruction(NamedTuple):
    """An op with numbered input and output values. In a graph, the op may be a mark.

    Each value is written once. In a graph, values are numbered in order of creation. In a program, the numbers are
    slots, and the first slots are the inputs.

    Attributes:
        last_use: in a program, a mask of the inputs whose last use this is: the input is not an output of the program,
            and no later instruction reads it. In a graph the tuple is empty.
        source: the line of the user's code that created the instruction; None if it is unknown.
    """

    op: StdTensorOp
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    last_use: tuple[bool, ...] = ()
    source: SourceLine | None = None
