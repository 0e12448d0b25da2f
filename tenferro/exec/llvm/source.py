"""Rows of the source family: numbers in the text, and counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.exec.llvm.code import LOW, Index, literal, memory_type
from tenferro.exec.llvm.conversion import number_of
from tenferro.exec.llvm.rows import Row, Rows, not_compiled
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.ops import source
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS"]

LARGEST_LITERAL = 4096
"""Elements of a constant that stands in the text."""
Indices = tuple[Index, ...]


def constant(
    body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """In the text, if it is not large."""
    (y,), array, code = types, op.array, body.code
    if array.size <= 1:
        return [body.filled(y, array.flat[0])] if array.size else [body.filled(y, 0)]
    if array.size > LARGEST_LITERAL:
        return [body.stored(body.outside(array))]
    kind = memory_type(y.dtype)
    parts = array.view(array.real.dtype) if y.dtype.is_complex else array
    plain = y.dtype.real if y.dtype.is_complex else y.dtype
    if y.dtype in LOW:
        parts, plain = array.view(np.int16), DType.I16
    numbers = [literal(x, plain) for x in parts.ravel()]
    if y.dtype is DType.Bool:
        numbers = ["1" if x == "true" else "0" for x in numbers]
    name = f"@constant{len(code.globals)}"
    values = ", ".join([f"{kind} {number}" for number in numbers])
    code.globals.append(f"{name} = private constant [{len(numbers)} x {kind}] [{values}], align 64")
    return [body.stored(Memory(name, y))]


def iota(
    body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """The index along an axis."""
    (y,), code = types, body.code

    def element(index: Indices) -> Any:
        i = index[op.axis]
        if isinstance(i, int):
            return literal(i, y.dtype)
        return number_of(code, i, y.dtype)

    return [Tensor(y, element, is_cheap=True)]


ROWS: Rows = {
    source.Constant: Row(constant),
    source.Iota: Row(iota),
    source.ShapeOf: not_compiled("extents that the data decide are not compiled"),
}
