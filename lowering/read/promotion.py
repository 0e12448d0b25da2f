"""`promoted`: reductions whose region computes in a wider dtype than their operands have.

Source: StableHLO specification, reduce, reduce_window and scatter, `is_promotable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lowering.module_tree import Operation
from lowering.read.reader import Read, Reader
from tenferro.types import DType, TensorSpec

__all__ = ["is_promotable", "promoted"]


def is_promotable(dtype: DType, wider: DType) -> bool:
    """Return whether a dtype's numbers are of the same kind, and no wider.

    >>> is_promotable(DType.I8, DType.I32), is_promotable(DType.F32, DType.BF16), is_promotable(DType.U8, DType.I32)
    (True, False, False)
    """
    kinds = [
        (item.is_complex, item.is_inexact, item is DType.Bool, item.dtype.kind == "u")
        for item in (dtype, wider)
    ]
    return kinds[0] == kinds[1] and dtype.itemsize <= wider.itemsize


def promoted(read: Read, reduced: Callable[[int], Sequence[int]]) -> Read:
    """Return a reader of operands in the dtypes of the region's arguments.

    Args:
        reduced: the position of the operand of each region argument, as a function of the number of operands.
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
