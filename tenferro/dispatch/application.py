"""`apply`: applies an op. If an operand belongs to a trace, the op is added to a graph, otherwise it runs.

A tensor class handles ops by a static method `__tenferro_apply__(op, operands, like)`, which returns the outputs.
`like` is the first operand of that class or, if the op has no operands, a tensor of the same trace or runtime. If no
operand has such a method, the native executor runs the op on the operands as arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.errors import ArityError
from tenferro.ops import StdTensorOp
from tenferro.program import native_executor
from tenferro.types import host_array

__all__ = ["apply", "apply_one"]


def apply(op: StdTensorOp, *operands: Any, like: Any = None) -> tuple[Any, ...]:
    """Apply `op` to arrays or tensors, and return every output.

    Args:
        like: for an op without operands, a tensor of the trace or runtime to which the op belongs; None to run it on
            arrays.

    Raises:
        ArityError, ShapeError, DTypeError: the op does not accept these operands.
        BackendFailureError: a kernel failed, for example because there is not enough memory for the result.

    >>> from tenferro.ops.reduction import TopK
    >>> apply(TopK(1), np.array([1.0, 3.0, 2.0]))
    (array([3.]), array([1]))
    """
    for operand in operands:
        handler = getattr(type(operand), "__tenferro_apply__", None)
        if handler is not None:
            return handler(op, operands, operand)
    if like is not None and hasattr(type(like), "__tenferro_apply__"):
        return type(like).__tenferro_apply__(op, operands, like)
    arrays = [x if type(x) is np.ndarray else host_array(x, op.name) for x in operands]
    return native_executor().apply(op, arrays)


def apply_one(op: StdTensorOp, *operands: Any, like: Any = None) -> Any:
    """Apply `op` to arrays or tensors, and return its only output; see `apply`.

    Raises:
        ArityError: the op has several outputs.

    >>> from tenferro.ops.elementwise import Add
    >>> apply_one(Add(), np.array([1.0]), np.array([2.0]))
    array([3.])
    """
    outputs = apply(op, *operands) if like is None else apply(op, *operands, like=like)
    if len(outputs) != 1:
        raise ArityError(f"{op.name}: has {len(outputs)} outputs; apply gives them all")
    return outputs[0]
