"""`Instruction`: an op on values; graphs and programs consist of instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tenferro.graph.source_line import SourceLine
    from tenferro.ops import StdTensorOp

__all__ = ["Instruction"]


class Instruction(NamedTuple):
    """An op applied to numbered values, with numbered outputs. In a graph, the op may be a mark.

    Each value is written once. Values of a graph are numbered in order of creation; in a program they are its
    slots, and the inputs come first.

    Attributes:
        last_use: in a program, for each input, whether this is its last use: the input is not an output of the program,
            and no later instruction reads it. In a graph it is empty.
        source: the line of the user's code.
    """

    op: StdTensorOp
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    last_use: tuple[bool, ...] = ()
    source: SourceLine | None = None
