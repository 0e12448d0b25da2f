"""LLVM lowerings of the source ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.exec.llvm.code import HALF_DTYPES, Index, literal, memory_type
from tenferro.exec.llvm.conversion import convert
from tenferro.exec.llvm.ir import Value
from tenferro.exec.llvm.rows import Row, Rows, not_compiled
from tenferro.exec.llvm.tensor import Body, Memory, Specs, Tensor, Tensors
from tenferro.ops import source
from tenferro.ops.elementwise import Convert
from tenferro.types import DType

__all__ = ["ROWS"]

MAX_INLINE_ELEMENTS = 4096
"""Maximum number of elements of a constant in LLVM text; a larger constant is an argument of the function."""
Indices = tuple[Index, ...]


def constant(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    """Return a constant: a global of the module if it is small, else an argument of the function."""
    (y,), array, code = types, op.array, body.code
    if array.size <= 1:
        return [body.filled(y, array.flat[0] if array.size else 0)]
    if array.size > MAX_INLINE_ELEMENTS:
        return [body.stored(body.constant_memory(array))]
    kind = memory_type(y.dtype)
    reals = array.view(array.real.dtype) if y.dtype.is_complex else array
    dtype = y.dtype.real if y.dtype.is_complex else y.dtype
    if y.dtype in HALF_DTYPES:
        reals, dtype = array.view(np.int16), DType.I16
    numbers = [literal(x, dtype) for x in reals.ravel()]
    if y.dtype is DType.Bool:
        numbers = ["1" if x == "true" else "0" for x in numbers]
    name = f"@constant{len(code.globals)}"
    values = ", ".join([f"{kind} {number}" for number in numbers])
    code.globals.append(f"{name} = private constant [{len(numbers)} x {kind}] [{values}], align 64")
    return [body.stored(Memory(name, y))]


def iota(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    """Return a tensor whose elements are their indices along an axis."""
    (y,), code = types, body.code

    def element(index: Indices) -> Any:
        i = index[op.axis]
        if isinstance(i, int):
            return literal(i, y.dtype)
        return convert(code, Convert(y.dtype), DType.I64, [Value(i, "i64")])

    return [Tensor(y, element, is_cheap=True)]


ROWS: Rows = {
    source.Constant: Row(constant),
    source.Iota: Row(iota),
    source.ShapeOf: not_compiled("extents that the data decide are not compiled"),
}
