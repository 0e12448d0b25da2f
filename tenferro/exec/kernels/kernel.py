"""`Kernel`: the NumPy implementation of an op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from tenferro.exec.layout import Layout, by_stride, dense, row_major
from tenferro.exec.runtime.resources import SERIAL_RESOURCES, Resources
from tenferro.ops import StdTensorOp
from tenferro.types import DType, TensorSpec
from tenferro.types.dtype import BFLOAT16

__all__ = ["HALF_DTYPES", "Array", "Function", "Kernel", "KernelRows", "Specs", "bind_kernel", "elementwise",
           "in_float32", "specialized", "unpacked"]  # fmt: skip

Array = np.ndarray[Any, Any]
Function: TypeAlias = Callable[..., Any]
Specs: TypeAlias = tuple[TensorSpec, ...]


class Kernel:
    """Implementation of an op in NumPy, with the properties that schedules rely on.

    `kernel(op, *arrays)` returns one array, or a tuple of arrays if the op has several outputs. Kernels never
    write to their inputs. They run under `np.errstate(all="ignore")`. A rank-0 result may be a NumPy scalar, which
    the executor converts to an array.

    Args:
        function: function of the op and the arrays.
        plan: returns a function of the arrays for an op, the types of its inputs, and resources, or None to use
            `function`.

    Attributes:
        elementwise: whether each element of the result depends only on the operands' elements at the same index. A
            scalar may then replace an operand whose elements are all equal.
        view: whether a result may be a view of an operand, or read-only; or a function of the op that returns it. Any
            other result owns its memory.
        layout: a function from an op and the layouts of its operands to the layout of the result. By default, the
            result of an elementwise op has the layout that all operands share, and any other result is row-major.
    """

    __slots__ = ("_function", "_layout", "_plan", "elementwise", "view")

    def __init__(
        self,
        function: Function,
        plan: Callable[[Any, Specs, Resources], Function | None] | None = None,
        *,
        elementwise: bool = False,
        view: bool | Callable[[Any], bool] = False,
        layout: Callable[..., Layout] | None = None,
    ) -> None:
        self._function, self._plan, self._layout = function, plan, layout
        self.elementwise = elementwise
        self.view = view

    def __call__(self, op: Any, *arrays: Any) -> Any:
        return self._function(op, *arrays)

    def bind(self, op: Any, inputs: Specs, resources: Resources = SERIAL_RESOURCES) -> Function:
        """Return the function that computes the op for arrays of these types."""
        planned = None if self._plan is None else self._plan(op, inputs, resources)
        return partial(self._function, op) if planned is None else planned

    def layout(self, op: Any, operands: Sequence[Layout], shape: tuple[int, ...]) -> Layout:
        """Return the layout of the op's only result, for operands of these layouts."""
        if self._layout is not None:
            return self._layout(op, *operands)
        if not self.elementwise:
            return row_major(shape)
        axes = {
            by_stride(each.strides) for each in operands if each.shape == shape and not each.repeats
        }
        return dense(shape, *axes) if len(axes) == 1 else row_major(shape)

    def may_view(self, op: StdTensorOp) -> bool:
        """Return whether results of this op may be views of operands, or read-only."""
        return self.view if isinstance(self.view, bool) else self.view(op)


KernelRows = Mapping[type[StdTensorOp], Kernel]

HALF_DTYPES = (DType.F16.dtype, BFLOAT16)


def in_float32(function: Function) -> Function:
    """Return a function that computes float16 and bfloat16 arrays in float32, and rounds the result, as XLA does."""

    def computed(*arrays: Any) -> Any:
        dtype = arrays[0].dtype
        if dtype not in HALF_DTYPES:
            return function(*arrays)
        return np.asarray(function(*(array.astype(np.float32) for array in arrays))).astype(dtype)

    return computed


def specialized(specialize: Callable[[Any, np.dtype[Any]], Function], **properties: Any) -> Kernel:
    """Return the kernel that applies the function `specialize(op, dtype)`, for the dtype of the first operand."""
    return Kernel(
        lambda op, *arrays: specialize(op, arrays[0].dtype)(*arrays),
        lambda op, inputs, _: specialize(op, inputs[0].dtype.dtype),
        **properties,
    )


def elementwise(
    function: Function, floats: Function | None = None, upcasts: bool = False
) -> Kernel:
    """Return the kernel of an elementwise function of arrays.

    Args:
        floats: the function that is called for float32 and float64 instead, for example a ufunc.
        upcasts: whether float16 and bfloat16 are computed in float32.
    """
    generic = in_float32(function) if upcasts else function

    def specialize(op: Any, dtype: np.dtype[Any]) -> Function:
        if dtype in HALF_DTYPES:
            return generic
        return function if floats is None or not DType.of(dtype).is_float else floats

    return specialized(specialize, elementwise=True)


def unpacked(outputs: Sequence[Any]) -> Any:
    """Return the only output, or a tuple of several outputs, as kernels do."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def bind_kernel(
    kernel: Function, op: StdTensorOp, inputs: Specs, resources: Resources = SERIAL_RESOURCES
) -> Function:
    """Return the function that computes an op for arrays of these types.

    Args:
        kernel: a kernel, or any function of an op and arrays.
    """
    bind = getattr(kernel, "bind", None)
    function = partial(kernel, op) if bind is None else bind(op, inputs, resources)
    is_exact = len(inputs) < 2 or all([spec.is_exact for spec in inputs])
    return function if is_exact or op.parts else _with_inference(function, op)


def _with_inference(function: Function, op: StdTensorOp) -> Function:
    """Return a function that infers the result from the actual shapes of its operands, and then calls `function`.

    Data-dependent extents that must be equal cannot be compared earlier, and NumPy would broadcast an extent of 1.
    """

    def checked(*arrays: Any, **options: Any) -> Any:
        op.infer(*[TensorSpec.of(x.shape, DType.of(x.dtype)) for x in arrays])
        return function(*arrays, **options)

    return checked
