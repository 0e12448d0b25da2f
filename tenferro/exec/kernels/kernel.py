"""What a kernel is, and what kernels share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tenferro.ops import StdTensorOp
from tenferro.types import DType
from tenferro.types.dtype import BFLOAT16

__all__ = ["Array", "Kernel", "KernelRows", "in_float32", "unary"]

Array = np.ndarray[Any, Any]

Kernel = Callable[..., Any]
"""`kernel(op, *arrays)` gives one array, or a tuple of them when the op has several outputs.

Kernels read their inputs and never write to them; results may be views of inputs. They run under
`np.errstate(all="ignore")`. A NumPy scalar for a rank-0 result is fine: the executor wraps it.
"""

KernelRows = Mapping[type[StdTensorOp], Kernel]

_LOW = (DType.F16.dtype, BFLOAT16)


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with float16 and bfloat16 arrays computed in float32 and rounded once at the end.

    This is what XLA does for every op that is not exact in the low precision.
    """

    def computed(*arrays: Any) -> Any:
        dtype = arrays[0].dtype
        if dtype not in _LOW:
            return function(*arrays)
        return np.asarray(function(*(array.astype(np.float32) for array in arrays))).astype(dtype)

    return computed


def unary(function: Callable[..., Any]) -> Kernel:
    """A kernel that needs nothing of the payload: `function` of the arrays."""
    return lambda op, *arrays: function(*arrays)
