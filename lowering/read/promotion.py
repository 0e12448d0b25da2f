"""Readers of reductions and scatters whose region computes in a wider dtype than the operands have.

Source: StableHLO specification, reduce, reduce_window and scatter, `is_promotable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lowering.module_tree import Operation
from lowering.read.reader import Read, Reader
from lowering.types import is_promotable
from tenferro.types import TensorSpec

__all__ = ["promoted"]


def promoted(read: Read, reduced: Callable[[int], Sequence[int]]) -> Read:
    """Return a reader that converts operands to the dtypes of the region's arguments, and then calls `read`.

    Args:
        reduced: a function of the number of operands, which returns the operand's position for each argument of the
            region.
    """

    def read_promoted(
        r: Reader, operation: Operation, operands: Sequence[int]
    ) -> int | Sequence[int]:
        values = list(operands)
        for place, kind in zip(reduced(len(values)), operation.regions[-1].types, strict=False):
            dtype = r.spec(values[place]).dtype
            if isinstance(kind, TensorSpec) and is_promotable(dtype, kind.dtype):
                values[place] = r.convert(values[place], kind.dtype)
        return read(r, operation, values)

    return read_promoted
