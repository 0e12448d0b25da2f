"""`Kernel`, the cell of an op in the column of kernels, and its common forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tenferro.exec.runtime.resources import CALLER, Resources
from tenferro.ops import StdTensorOp
from tenferro.types import DType, TensorSpec
from tenferro.types.dtype import BFLOAT16

__all__ = ["Array", "ByPayload", "Kernel", "KernelRows", "OfArrays", "OfOp", "Planned", "bound", "elementwise",
           "in_float32"]  # fmt: skip

Array = np.ndarray[Any, Any]


class Kernel:
    """The NumPy implementation of an op and its properties: the cell of an op in the column of kernels.

    `kernel(op, *arrays)` gives one array, or a tuple of them when the op has several outputs. Kernels read
    their inputs and never write to them. They run under `np.errstate(all="ignore")`. A NumPy scalar for a
    rank-0 result is fine: the executor wraps it.

    Attributes:
        elementwise: each element of the result is made of the operands' elements in its place, and a number
            may stand for an array of it.
        view: whether a result may be a view of an operand, or memory that is not to be written; a function
            of the op where its payload decides. All others give memory that is theirs alone.
        into: for a function that `bind` gives and that is no ufunc, the one that writes the same into `out`,
            which is no operand.
    """

    __slots__ = ("elementwise", "into", "view")

    def __init__(
        self,
        *,
        elementwise: bool = False,
        view: bool | Callable[[Any], bool] = False,
        into: Mapping[Any, Callable[..., Any]] | None = None,
    ) -> None:
        self.elementwise = elementwise
        self.view = view
        self.into: Mapping[Any, Callable[..., Any]] = into or {}

    def __call__(self, op: Any, *arrays: Any) -> Any:
        raise NotImplementedError

    def bind(
        self,
        op: Any,
        inputs: tuple[TensorSpec, ...],
        resources: Resources = CALLER,
    ) -> Callable[..., Any]:
        """The function for inputs of these types; the ufunc itself where the kernel is one.

        Args:
            resources: threads and memory for large arrays.
        """
        return partial(self, op)

    def may_view(self, op: StdTensorOp) -> bool:
        """`view`, of an op."""
        return self.view if isinstance(self.view, bool) else self.view(op)


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


class OfOp(Kernel):
    """A kernel that is a function of the op and the arrays."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any], **facts: Any) -> None:
        super().__init__(**facts)
        self._function = function

    def __call__(self, op: Any, *arrays: Any) -> Any:
        return self._function(op, *arrays)

    def bind(
        self,
        op: Any,
        inputs: tuple[TensorSpec, ...],
        resources: Resources = CALLER,
    ) -> Callable[..., Any]:
        """The function of the op."""
        return partial(self._function, op)


class Planned(OfOp):
    """A kernel of an op and arrays, of which types may decide more.

    Args:
        plan: the function of arrays, of an op and the types of its inputs; None where they do not tell enough.
    """

    __slots__ = ("_plan",)

    def __init__(
        self,
        function: Callable[..., Any],
        plan: Callable[..., Callable[..., Any] | None],
        **facts: Any,
    ) -> None:
        super().__init__(function, **facts)
        self._plan = plan

    def bind(
        self,
        op: Any,
        inputs: tuple[TensorSpec, ...],
        resources: Resources = CALLER,
    ) -> Callable[..., Any]:
        """The planned function, or that of the op."""
        function = self._plan(op, *inputs)
        return super().bind(op, inputs, resources) if function is None else function


class OfArrays(Kernel):
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
        **facts: Any,
    ) -> None:
        super().__init__(**facts)
        self._function = function
        self._any = in_float32(function) if low else function
        self._floats = floats

    def __call__(self, op: Any, *arrays: Any) -> Any:
        return self._any(*arrays)

    def bind(
        self,
        op: Any,
        inputs: tuple[TensorSpec, ...],
        resources: Resources = CALLER,
    ) -> Callable[..., Any]:
        """The function for these dtypes."""
        dtype = inputs[0].dtype
        if dtype.dtype in _LOW:
            return self._any
        return self._floats() if self._floats and dtype.is_float else self._function


class ByPayload(Kernel):
    """A kernel that chooses its function of arrays once, by the payload and the first operand's dtype."""

    __slots__ = ("_choose",)

    def __init__(
        self, choose: Callable[[Any, np.dtype[Any]], Callable[..., Any]], **facts: Any
    ) -> None:
        super().__init__(**facts)
        self._choose = choose

    def __call__(self, op: Any, *arrays: Any) -> Any:
        return self._choose(op, arrays[0].dtype)(*arrays)

    def bind(
        self,
        op: Any,
        inputs: tuple[TensorSpec, ...],
        resources: Resources = CALLER,
    ) -> Callable[..., Any]:
        """The function of this payload and dtype."""
        return self._choose(op, inputs[0].dtype.dtype)


def elementwise(
    function: Callable[..., Any],
    floats: Callable[..., Any] | None = None,
    into: Callable[..., Any] | None = None,
) -> Kernel:
    """The kernel of an elementwise function of arrays.

    Args:
        floats: what it is for floats, such as a ufunc where the function itself is none.
        into: the same, written into a buffer.
    """
    return OfArrays(
        function,
        floats=None if floats is None else lambda: floats,
        elementwise=True,
        into=None if into is None else {floats or function: into},
    )


def bound(
    kernel: Callable[..., Any],
    op: StdTensorOp,
    inputs: tuple[TensorSpec, ...],
    resources: Resources = CALLER,
) -> Callable[..., Any]:
    """A kernel, or a function of an op and arrays, as a function of arrays of these types."""
    bind = getattr(kernel, "bind", None)
    return partial(kernel, op) if bind is None else bind(op, inputs, resources)
