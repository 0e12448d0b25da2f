"""`Instruction`: an op on values, the one record of which graphs and programs are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tenferro.graph.source_line import SourceLine
    from tenferro.ops import StdTensorOp

__all__ = ["Instruction"]


class Instruction(NamedTuple):
    """One application of an op: numbered values in, numbered values out. In a graph it may be of a mark.

    Each value is written once. Values of a graph are numbered in order of creation; in a program they are its
    slots, and the inputs come first.

    Attributes:
        last_use: in a program, for each input whether no later instruction reads it and it is no output.
        source: the user's line.
    """

    op: StdTensorOp
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    last_use: tuple[bool, ...] = ()
    source: SourceLine | None = None
