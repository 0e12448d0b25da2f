"""Operands of public functions: arrays, Python numbers, and tensors of a trace or of a runtime.

A tensor class has an attribute `spec`, its shape and dtype, and methods with names that begin with `__tenferro_`. Any
other operand is an array, or is converted to an array.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tenferro.dims import Dim, SymDim
from tenferro.dispatch.application import apply_one
from tenferro.dispatch.tracing import apply_in_trace
from tenferro.errors import DTypeError, InvalidConfigError, NonStaticShapeError
from tenferro.ops.elementwise import Subtract
from tenferro.ops.source import ShapeOf
from tenferro.ops.structural import BroadcastInDim
from tenferro.types import ArrayLike, DType, Tensor, TensorSpec, host_array

__all__ = [
    "PYTHON_SCALARS",
    "as_constant_of",
    "as_operand",
    "copied",
    "elements",
    "first_tensor",
    "is_traced",
    "is_weak",
    "spec_of",
    "stop_gradient",
    "strong",
]

PYTHON_SCALARS = (bool, int, float, complex)
MOST_AXES = 64
"""Maximum number of axes of a NumPy array."""


def as_constant_of(x: Any, value: Any) -> Any:
    """Convert an array to a constant of the trace or runtime of x. A tensor is returned unchanged.

    If x is itself a runtime, the constant belongs to x.
    """
    lift = getattr(x, "lift", None)
    return value if lift is None or is_traced(value) else lift(value)


def is_traced(operand: Any) -> bool:
    """Return whether an operand is a tensor of a trace or a runtime, and not an array."""
    return hasattr(type(operand), "__tenferro_apply__")


def is_weak(operand: Any) -> bool:
    """Return whether an operand is weak: a Python number, or a tensor that stands for a Python number in a trace.

    In an operation with a tensor, a weak operand takes the dtype of the tensor.
    """
    return type(operand) in PYTHON_SCALARS or hasattr(type(operand), "__tenferro_strong__")


def strong(operand: Any) -> Any:
    """Convert a weak tensor to a tensor that keeps its dtype in operations. Any other operand is returned unchanged."""
    return (
        operand.__tenferro_strong__() if hasattr(type(operand), "__tenferro_strong__") else operand
    )


def as_operand(value: ArrayLike) -> Tensor:
    """Convert a value to an operand of an op.

    A sequence that contains tensors becomes one tensor, a tensor is returned unchanged, and anything else becomes an
    array.

    Raises:
        DTypeError: `value` cannot be converted to an array, or tenferro does not support its dtype.
        NonStaticShapeError: `value` is an extent, and no trace is active.
        BackendFailureError: `value` is an array on a device other than the host.
        InvalidConfigError: `value` is a PyTorch tensor that requires grad.
    """
    if is_traced(value) or type(value) is np.ndarray:
        return cast("Tensor", value)
    if isinstance(value, SymDim):
        return _in_trace(value)
    if isinstance(value, list | tuple) and (tensor := first_tensor(value)) is not None:
        return tensor.__tenferro_sequence__(value)
    try:
        if isinstance(value, np.ma.MaskedArray):
            raise DTypeError("a mask would be lost; fill it first, or use where()")
        array = host_array(value, "operand")
        if array.dtype.kind in "OSU":
            raise DTypeError(_what_is_no_number(array))
        DType.of(array.dtype)
    except InvalidConfigError:
        raise
    except (DTypeError, ValueError, TypeError) as error:
        raise DTypeError(f"{type(value).__name__} {value!r:.60} is not a tensor: {error}") from None
    return array


def _in_trace(extent: SymDim) -> Any:
    """Return a symbolic extent as an int64 scalar of the current trace."""
    # The extent is measured as the length of a broadcast axis, which cannot be negative. Therefore the sums of the
    # positive and of the negative terms are measured on two axes, and then subtracted.
    added, subtracted = extent.sides
    if subtracted == 0:
        return _counted(added)
    return apply_one(Subtract(), _counted(added), _counted(subtracted))


def _counted(extent: Dim) -> Any:
    """Emit the number that an extent has at run time: the length of a broadcast axis, which uses no memory."""
    if isinstance(extent, int):
        return np.array(extent, np.int64)
    wide = apply_in_trace(BroadcastInDim((extent,), ()), [np.zeros((), bool)])
    if wide is None:
        raise NonStaticShapeError(f"the extent {extent} is a number in a trace only")
    return apply_one(ShapeOf(0), *wide)


def _what_is_no_number(array: np.ndarray[Any, Any]) -> str:
    if array.size and all(
        [isinstance(x, int) for x in array.flat]
    ):  # with floats among them, the array would have a dtype
        return "an integer is beyond int64 and uint64, and fits no dtype; make it a float"
    if any([isinstance(x, SymDim) for x in array.flat]):
        return "extents that are known when the program runs are joined by tenferro.stack"
    return "it holds no numbers"


def first_tensor(entries: Any) -> Any:
    """Return the first tensor in nested sequences; None if they contain no tensor.

    Raises:
        DTypeError: the sequences are nested deeper than an array has axes; for example, a sequence contains itself.
    """
    first = None
    remaining = [(entries, 0)]
    while remaining:
        entry, depth = remaining.pop()
        if isinstance(entry, list | tuple):
            if depth >= MOST_AXES:
                raise DTypeError(
                    f"a {type(entries).__name__} is not a tensor: it contains itself, or more than {MOST_AXES} "
                    "sequences inside each other"
                )
            remaining.extend([(inner, depth + 1) for inner in reversed(entry)])
        elif first is None and is_traced(entry):
            first = entry
    return first


def elements(operand: Any, asked: str, hint: str) -> Any:
    """Return the elements of an operand: the array itself, or the array of an eager tensor.

    Raises:
        DataDependentShapeError: the operand is a tensor of a trace, which has no elements yet. The message contains
            `asked`, the operation that needs the elements, and `hint`, an advice.
    """
    return operand.__tenferro_elements__(asked, hint) if is_traced(operand) else operand


def spec_of(operand: Any) -> TensorSpec:
    """Return the shape and dtype of an array or a tensor."""
    spec = getattr(operand, "spec", None)
    return spec if spec is not None else TensorSpec.of(operand.shape, DType.of(operand.dtype))


def copied(x: Any) -> Any:
    """Copy an array or eager tensor; a traced tensor is immutable and is returned unchanged."""
    return x.copy() if hasattr(x, "copy") else x


def stop_gradient(x: Any) -> Any:
    """Return x as a constant for derivatives: its derivative is zero."""
    return x.__tenferro_stop__() if is_traced(x) else x
