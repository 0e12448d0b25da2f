"""`MemoryPlan`: where the large values in the middle of a program live when it is run natively."""

from __future__ import annotations

from dataclasses import dataclass

from tenferro.program.profile import shown_bytes
from tenferro.table import aligned

__all__ = ["Block", "MemoryPlan"]


@dataclass(frozen=True)
class Block:
    """Where a slot lives: bytes from `offset`, from one unit of the program to another."""

    slot: int
    size: int
    first: int
    last: int
    offset: int = 0


@dataclass(frozen=True)
class MemoryPlan:
    """Places of values in the middle.

    Attributes:
        blocks: in the order of the program.
        size: bytes of the whole piece.
        bound: the most bytes that are needed at any one time; no plan is smaller.
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
