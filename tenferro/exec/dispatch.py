"""One door for every op: traced tensors write it down, arrays run it at once.

A tensor class takes part by defining `__tenferro_apply__(op, operands)`, a static method that gives
the op's outputs; the surface functions are written once, against `apply`.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tenferro.dims import GuardLog
from tenferro.errors import ArityError, DTypeError, InvalidConfigError, TenferroError
from tenferro.exec.kernels import KERNELS
from tenferro.exec.quiet import quietly
from tenferro.exec.run import failure
from tenferro.interruption import is_interruption
from tenferro.ops import StdTensorOp
from tenferro.ops.control import ControlOp
from tenferro.ops.extension import Extension
from tenferro.program import native_executor
from tenferro.types import ArrayLike, DType, Tensor, TensorSpec, host_array

__all__ = [
    "apply",
    "apply_all",
    "apply_beside",
    "as_operand",
    "beside",
    "copied",
    "elements",
    "first_tensor",
    "is_foreign",
    "is_traced",
    "spec_of",
    "stop_gradient",
]

PYTHON_SCALARS = (bool, int, float, complex)


def apply(op: StdTensorOp, *operands: Any) -> Any:
    """The one output of `op` on arrays or tensors.

    >>> from tenferro.ops.elementwise import Add
    >>> apply(Add(), np.array([1.0]), np.array([2.0]))
    array([3.])
    """
    outputs = apply_all(op, *operands)
    if len(outputs) != 1:
        raise ArityError(f"{op.name}: has {len(outputs)} outputs")
    return outputs[0]


def apply_all(op: StdTensorOp, *operands: Any) -> tuple[Any, ...]:
    """Every output of `op` on arrays or tensors.

    Raises:
        ArityError, ShapeError, DTypeError: what the op's card refuses.
        BackendFailureError: a kernel failed, such as for a result that memory does not hold.
    """
    for operand in operands:
        handler = getattr(type(operand), "__tenferro_apply__", None)
        if handler is not None:
            return handler(op, operands)
    arrays = [x if type(x) is np.ndarray else host_array(x, op.name) for x in operands]
    types = op.infer(*[spec_of(array) for array in arrays], guards=GuardLog())
    try:
        if is_foreign(op):
            result = quietly(native_executor().kernel(op), (op, *arrays), is_foreign=True)
        else:
            result = quietly(KERNELS[type(op)], (op, *arrays), is_foreign=False)
    except TenferroError:
        raise
    except Exception as error:
        if is_interruption(error):
            raise
        raise failure(op, types, error) from error
    return (np.asarray(result),) if len(types) == 1 else tuple(map(np.asarray, result))


def apply_beside(x: Any, op: StdTensorOp) -> Any:
    """The output of an op without operands: in the trace or the runtime of x, or an array beside one."""
    return x.emit(op) if is_traced(x) else apply(op)


def beside(x: Any, value: Any) -> Any:
    """A tensor as it is; an array as a constant of what x belongs to: a trace or a runtime, itself too."""
    lift = getattr(x, "lift", None)
    return value if lift is None or is_traced(value) else lift(value)


def is_foreign(op: Any) -> bool:
    """True for ops whose kernels may call tenferro in turn."""
    return isinstance(op, Extension | ControlOp)


def is_traced(operand: Any) -> bool:
    """True for tensors whose elements are not known yet."""
    return hasattr(type(operand), "__tenferro_apply__")


def as_operand(value: ArrayLike) -> Tensor:
    """A tensor as it is, sequences of tensors as one, anything else as a NumPy array.

    Raises:
        DTypeError: what is no array, or one of a dtype that tenferro does not have.
        BackendFailureError: an array on another device than the host.
        InvalidConfigError: a tensor of torch that requires grad.
    """
    if is_traced(value) or type(value) is np.ndarray:
        return cast("Tensor", value)
    if isinstance(value, list | tuple) and (tensor := first_tensor(value)) is not None:
        return tensor.__tenferro_sequence__(value)
    try:
        if isinstance(value, np.ma.MaskedArray):
            raise DTypeError("a mask would be lost; fill it first, or use where()")
        array = host_array(value, "operand")
        if array.dtype.kind in "OSU":
            raise DTypeError("it holds no numbers")
        DType.of(array.dtype)
    except InvalidConfigError:
        raise
    except (DTypeError, ValueError, TypeError) as error:
        raise DTypeError(f"{type(value).__name__} {value!r:.60} is no tensor: {error}") from None
    return array


def first_tensor(entries: Any) -> Any:
    """The first tensor in nested sequences; None without one."""
    remaining = [entries]
    while remaining:
        entry = remaining.pop()
        if isinstance(entry, list | tuple):
            remaining.extend(reversed(entry))
        elif is_traced(entry):
            return entry
    return None


def elements(operand: Any, asked: str, hint: str) -> Any:
    """An array as it is, an eager tensor's array.

    Raises:
        DataDependentShapeError: a tensor of a trace, which has none yet: what was asked, and what helps.
    """
    return operand.__tenferro_elements__(asked, hint) if is_traced(operand) else operand


def spec_of(operand: Any) -> TensorSpec:
    """Shape and dtype of an array or a tensor."""
    spec = getattr(operand, "spec", None)
    return spec if spec is not None else TensorSpec.of(operand.shape, DType.of(operand.dtype))


def copied(x: Any) -> Any:
    """The same elements as an array or eager tensor of their own; a tensor of a trace is a value, and stays."""
    return x.copy() if hasattr(x, "copy") else x


def stop_gradient(x: Any) -> Any:
    """x, as a constant to differentiation."""
    return x.__tenferro_stop__() if is_traced(x) else x
