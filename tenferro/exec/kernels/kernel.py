"""What a kernel is, and what kernels share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tenferro.exec.workers import Workers
from tenferro.ops import StdTensorOp
from tenferro.types import DType, TensorSpec
from tenferro.types.dtype import BFLOAT16

__all__ = ["Array", "ByPayload", "Kernel", "KernelRows", "OfArrays", "bound", "in_float32", "unary"]

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


class OfArrays:
    """A kernel that needs nothing of the payload: `function` of the arrays.

    Where the types are known, the function stands for the kernel, and a ufunc can write into a buffer.

    Args:
        low: whether float16 and bfloat16 are computed in float32.
        floats: gives the ufunc that is the function for float32 and float64, where the function itself is
            none.
    """

    __slots__ = ("_any", "_floats", "_function")

    def __init__(
        self,
        function: Callable[..., Any],
        low: bool = False,
        floats: Callable[[], Callable[..., Any]] | None = None,
    ) -> None:
        self._function = function
        self._any = in_float32(function) if low else function
        self._floats = floats

    def __call__(self, op: Any, *arrays: Any) -> Any:
        return self._any(*arrays)

    def bind(
        self,
        op: Any,
        inputs: tuple[TensorSpec, ...],
        workers: Workers | None = None,
        columns: bool = False,
    ) -> Callable[..., Any]:
        """What runs for inputs of these types."""
        dtype = inputs[0].dtype
        if dtype.dtype in _LOW:
            return self._any
        return self._floats() if self._floats and dtype.is_float else self._function


class ByPayload:
    """A kernel whose function of the arrays the payload and the first operand's dtype choose, once."""

    __slots__ = ("_choose",)

    def __init__(self, choose: Callable[[Any, np.dtype[Any]], Callable[..., Any]]) -> None:
        self._choose = choose

    def __call__(self, op: Any, *arrays: Any) -> Any:
        return self._choose(op, arrays[0].dtype)(*arrays)

    def bind(
        self,
        op: Any,
        inputs: tuple[TensorSpec, ...],
        workers: Workers | None = None,
        columns: bool = False,
    ) -> Callable[..., Any]:
        """What runs for inputs of these types."""
        return self._choose(op, inputs[0].dtype.dtype)


def unary(function: Callable[..., Any], floats: Any = None) -> Kernel:
    """A kernel that needs nothing of the payload: `function` of the arrays, for floats this ufunc."""
    return OfArrays(function, floats=None if floats is None else lambda: floats)


def bound(
    kernel: Kernel,
    op: StdTensorOp,
    inputs: tuple[TensorSpec, ...],
    workers: Workers | None = None,
    columns: bool = False,
) -> Callable[..., Any]:
    """The kernel as a function of arrays of these types: a ufunc where it is just that.

    Args:
        workers: threads for large arrays.
        columns: whether a column-major result is wanted, where it costs nothing.
    """
    bind = getattr(kernel, "bind", None)
    return partial(kernel, op) if bind is None else bind(op, inputs, workers, columns)
