"""`EagerTensor`: an array with operations that run at once and may be differentiated."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from tenferro.api.arguments import refuse
from tenferro.api.creation import asarray
from tenferro.api.eager.recording import is_recording
from tenferro.api.inspection import check_version
from tenferro.api.operators import Operators
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.ops import StdTensorOp
from tenferro.ops.structural import Reshape
from tenferro.tracebacks import public_methods
from tenferro.types import ArrayLike, DType, DTypeLike, Index, Tensor, TensorSpec

if TYPE_CHECKING:
    from tenferro.api.eager.runtime import EagerRuntime
    from tenferro.api.eager.tape import Record

__all__ = ["EagerTensor"]


@public_methods
class EagerTensor(Operators):
    """Tensor of an `EagerRuntime`, whose operations run at once. Only assignment changes its elements.

    Attributes:
        grad: for a variable, the sum of the cotangents from all calls of `backward`; None before the first call.
        is_variable: whether `backward` differentiates with respect to this tensor.
        spec: the shape and dtype together.

    >>> import tenferro as tnf
    >>> rt = tnf.EagerRuntime()
    >>> x = rt.variable([1.0, 2.0])
    >>> y = tnf.sum(x * x)
    >>> y.backward()
    >>> y, x.grad
    (EagerTensor(5.), EagerTensor([2., 4.]))
    """

    __slots__ = (
        "__weakref__",
        "array",
        "grad",
        "is_variable",
        "position",
        "record",
        "runtime",
        "spec",
    )

    runtime: EagerRuntime
    array: Any
    spec: TensorSpec
    record: Record | None
    position: int
    is_variable: bool
    grad: EagerTensor | None

    def __init__(
        self,
        runtime: EagerRuntime,
        array: np.ndarray[Any, Any],
        spec: TensorSpec | None = None,
        record: Record | None = None,
        position: int = 0,
        is_variable: bool = False,
    ) -> None:
        self.runtime = runtime
        self.array = array
        self.spec = TensorSpec.of(array.shape, DType.of(array.dtype)) if spec is None else spec
        self.record = record
        self.position = position
        self.is_variable = is_variable
        self.grad = None

    @staticmethod
    def __tenferro_apply__(
        op: StdTensorOp, operands: tuple[Any, ...], like: EagerTensor
    ) -> tuple[Any, ...]:
        """Run `op` at once or, if an operand is a traced tensor, append `op` to its trace."""
        runtime = like.runtime
        for x in operands:
            if type(x) is EagerTensor:
                if x.runtime is not runtime:
                    raise InvalidConfigError(f"{op.name}: operands belong to two EagerRuntimes")
            elif (handler := getattr(type(x), "__tenferro_apply__", None)) is not None:
                return handler(op, operands, x)
        return runtime.apply(op, operands)

    @staticmethod
    def __tenferro_call__(
        function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Run a planned API function in the runtime of its first argument, an eager tensor."""
        return arguments[0].runtime.call(function, arguments, options)

    def __setitem__(self, index: Index, value: ArrayLike) -> None:
        """Assign the value of `self.at[index].set(value)` to this tensor.

        Tensors that were computed from this tensor before, including slices, keep their values and derivatives.

        Raises:
            InvalidConfigError: the tensor is a variable, and the assignment is outside `no_grad`.
            DTypeError, ShapeError, OutOfBoundsError: `at` does not accept the index or the value.
        """
        self._check_may_change("x.at[index].set(values) gives a new tensor")
        new = self.at[index].set(value)
        self.array, self.record, self.position = new.array, new.record, new.position

    def _check_may_change(self, instead: str) -> None:
        if self.is_variable and is_recording():
            raise InvalidConfigError(
                "a variable is not assigned to while operations are recorded, for its gradient would be "
                f"that of another value; do it in `with tenferro.no_grad():`, or {instead}"
            )

    def assign(self, value: ArrayLike) -> None:
        """Replace the value of a variable by a value of the same shape and dtype.

        Operations that were recorded before the assignment keep the earlier value, also for their derivatives. `grad`
        does not change.

        Args:
            value: an array, a Python number, or a constant tensor.

        Raises:
            InvalidConfigError: this tensor is not a variable, or `value` was computed from variables.
            ShapeError, DTypeError: `value` has another shape or dtype.

        >>> import tenferro as tnf
        >>> w = tnf.EagerRuntime().variable([1.0, 2.0])
        >>> w.assign([3.0, 4.0])
        >>> w
        EagerTensor([3., 4.])
        """
        if not self.is_variable:
            raise InvalidConfigError(
                "assign: this tensor is not a variable; x[...] = value changes it"
            )
        if getattr(value, "is_tracked", False):
            raise InvalidConfigError(
                "assign: variables led to the value, whose gradient would be lost; give x.detach(), or "
                "compute it in `with tenferro.no_grad():`"
            )
        if not hasattr(value, "dtype"):
            value = asarray(value, dtype=self.spec.dtype)
        self._take(self.runtime.constant(value).array)

    def _take(self, array: Tensor) -> None:
        if array.shape != self.array.shape:
            raise ShapeError(f"assign: the variable is {self.spec}, got the shape {array.shape}")
        if array.dtype != self.array.dtype:
            raise DTypeError(
                f"assign: the variable is {self.spec}, got {array.dtype}; convert the value with "
                f"astype(x, {self.spec.dtype.value!r})"
            )
        self.array = array

    def _changed(self, operation: Callable[[Any, Any], Any], rhs: ArrayLike) -> Any:
        """Apply an augmented assignment such as `w += x` to a variable, in place.

        If this tensor is not a variable, return NotImplemented. Python then assigns the result of `w + x` to `w`.
        """
        if not self.is_variable:
            return NotImplemented
        self._check_may_change("x = x + y makes a new tensor")
        self._take(operation(self, rhs).array)
        return self

    def __iadd__(self, rhs: ArrayLike) -> Any:
        return self._changed(operator.add, rhs)

    def __isub__(self, rhs: ArrayLike) -> Any:
        return self._changed(operator.sub, rhs)

    def __imul__(self, rhs: ArrayLike) -> Any:
        return self._changed(operator.mul, rhs)

    def __itruediv__(self, rhs: ArrayLike) -> Any:
        return self._changed(operator.truediv, rhs)

    def __ifloordiv__(self, rhs: ArrayLike) -> Any:
        return self._changed(operator.floordiv, rhs)

    def __imod__(self, rhs: ArrayLike) -> Any:
        return self._changed(operator.mod, rhs)

    def __ipow__(self, rhs: ArrayLike) -> Any:
        return self._changed(operator.pow, rhs)

    def __imatmul__(self, rhs: ArrayLike) -> Any:
        return self._changed(operator.matmul, rhs)

    def __tenferro_stop__(self) -> EagerTensor:
        """Return the elements as a constant, which has no derivative."""
        return self.detach()

    def __tenferro_constant__(self) -> Any:
        """Return the elements, which become a constant of a trace.

        Raises:
            InvalidConfigError: the tensor is tracked, so its gradient would be lost.
        """
        if self.is_tracked:
            raise InvalidConfigError(
                f"a tracked eager tensor {self.spec} would be a constant of this trace, and its gradient "
                "lost; pass it as an argument, or detach() it"
            )
        return self.array

    def __tenferro_elements__(self, asked: str, hint: str) -> Any:
        """Return the elements, for functions whose result has a data-dependent shape."""
        return self.array

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the Array API namespace of this tensor's runtime.

        Raises:
            InvalidConfigError: `api_version` is not a supported version of the standard.
        """
        check_version(api_version)
        return self.runtime.namespace

    def lift(self, value: ArrayLike) -> EagerTensor:
        """Wrap an array as a constant of this tensor's runtime."""
        return self.runtime.constant(value)

    def __tenferro_number__(self, value: ArrayLike) -> EagerTensor:
        """Convert a Python number to this tensor's dtype and shape."""
        return self.runtime.number(value, self.spec)

    guards = None
    """No guards are recorded, because the extents of eager tensors are numbers."""

    def __tenferro_distrust__(self) -> None:
        """Do nothing. Trust matters only for compilation by XLA, and operations on eager tensors run natively."""

    @property
    def caches(self) -> Any:
        """The caches of the plans that extensions compute."""
        return self.runtime.executor.extensions.caches

    # ---- derivatives -------------------------------------------------------------------------

    @property
    def is_tracked(self) -> bool:
        """Whether the tensor is a variable or depends on one; always False under `no_grad`."""
        return (self.is_variable or self.record is not None) and is_recording()

    def backward(self, seed: ArrayLike | None = None) -> None:
        """Add, to the `grad` of each variable on which this tensor depends, the variable's cotangent.

        Args:
            seed: the cotangent of this tensor, with its shape and dtype. For a real scalar the default is 1.

        Raises:
            InvalidConfigError: the tensor depends on no variable.
            ShapeError, DTypeError: `seed` has another shape or dtype, or is missing although this tensor is not a real
                scalar.
            ADRuleUnsupportedError: an op has no derivative; the error shows the line of your code that called the op.

        >>> import tenferro as tnf
        >>> x = tnf.EagerRuntime().variable([1.0, 2.0])
        >>> (x * x).backward(seed=[1.0, 10.0])
        >>> x.grad
        EagerTensor([ 2., 40.])
        """
        self.runtime.backward(self, seed)

    def clear_grad(self) -> None:
        """Reset `grad` to None."""
        self.grad = None

    def copy(self, order: str = "C") -> EagerTensor:
        """Return a new tensor with the same value. It is not a variable, and may be assigned to.

        The copy is tracked if this tensor is tracked.
        """
        refuse("copy", "order", order)
        if self.is_variable:
            return self.runtime.apply(Reshape(self.shape), (self,))[0]
        return EagerTensor(self.runtime, self.array, self.spec, self.record, self.position)

    def detach(self) -> EagerTensor:
        """Return the same elements as a constant."""
        return EagerTensor(self.runtime, self.array)

    # ---- elements ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.array)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
        view = self.array.view()
        view.flags.writeable = False
        return np.asarray(view, dtype=dtype, copy=copy)

    def numpy(self) -> Any:
        """Return the elements as a read-only NumPy array."""
        return self.__array__()

    def item(self, *index: SupportsIndex) -> Any:
        """Return the only element, or the element at an index, as a Python number."""
        return self.array.item(*index)

    def tolist(self) -> Any:
        """Return the elements as nested lists."""
        return self.array.tolist()

    def __bool__(self) -> bool:
        return bool(self.array)

    def __int__(self) -> int:
        return int(self.array)

    def __index__(self) -> int:
        return self.array.__index__()

    def __float__(self) -> float:
        return float(self.array)

    def __complex__(self) -> complex:
        return complex(self.array)

    def __repr__(self) -> str:
        return f"EagerTensor{repr(self.array).removeprefix('array')}"

    def __str__(self) -> str:
        return str(self.array)

    def __format__(self, form: str) -> str:
        return format(self.array, form)

    # ---- exchange ----------------------------------------------------------------------------

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the elements as read-only memory.

        DLPack before version 1.0 has no flag for read-only memory. A consumer that uses an older version receives a
        copy.

        Raises:
            BufferError: `copy` is False, and the consumer's version is older than 1.0.
        """
        old = max_version is None or max_version[0] < 1
        array = np.array(self.array) if copy is None and old else self.numpy()
        return array.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __copy__(self) -> EagerTensor:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> EagerTensor:
        """Return a tensor of the same runtime with copied elements. The copy of a variable is a variable.

        Raises:
            InvalidConfigError: the tensor was computed from variables, and the copy would lose its derivatives.
        """
        return EagerTensor(self.runtime, self._alone("copied").copy(), is_variable=self.is_variable)

    def __reduce__(self) -> Any:
        """Pickle the tensor with its runtime; tensors that are pickled together share the runtime after loading.

        Raises:
            InvalidConfigError: the tensor was computed from variables, and the copy would lose its derivatives.
        """
        return _restored, (self.runtime, self._alone("pickled"), self.is_variable)

    def _alone(self, how: str) -> Any:
        if self.record is not None:
            raise InvalidConfigError(
                f"a tensor that operations on variables led to is not {how}, for their gradients would "
                "be lost; detach() it first"
            )
        return self.array


def _restored(runtime: EagerRuntime, array: Any, is_variable: bool) -> EagerTensor:
    return EagerTensor(runtime, array, is_variable=is_variable)
