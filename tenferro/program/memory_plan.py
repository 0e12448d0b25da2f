"""`MemoryPlan`: the offsets of large intermediate values in the arena of a native run."""

from __future__ import annotations

from dataclasses import dataclass

from tenferro.program.profile import shown_bytes
from tenferro.table import aligned

__all__ = ["Block", "MemoryPlan"]


@dataclass(frozen=True)
class Block:
    """Memory of an intermediate value in the arena, and the value's live range.

    Attributes:
        slot: the slot of the value.
        size, offset: the size of the memory, and its position in the arena, in bytes.
        first, last: the first and the last step in which the value is live.
    """

    slot: int
    size: int
    first: int
    last: int
    offset: int = 0


@dataclass(frozen=True)
class MemoryPlan:
    """The offsets and live ranges of the intermediate values of a program.

    Attributes:
        blocks: the memory of each value, in the order in which the program computes the values.
        size: the size of the arena, in bytes.
        bound: the maximum number of bytes that are live at the same time. The arena cannot be smaller.
    """

    blocks: tuple[Block, ...]
    size: int
    bound: int

    def __repr__(self) -> str:
        return f"<MemoryPlan: {len(self.blocks)} values in {shown_bytes(self.size)}>"

    def __str__(self) -> str:
        rows = [["slot", "bytes", "offset", "from", "to"]]
        rows += [
            [f"%{b.slot}", f"{b.size:,}", f"{b.offset:,}", str(b.first), str(b.last)]
            for b in self.blocks
        ]
        total = (
            f"{len(self.blocks)} values in {shown_bytes(self.size)}; "
            f"{shown_bytes(self.bound)} are needed at once"
        )
        return "\n".join([total, *aligned(rows, 5)]) if self.blocks else total
