"""Python's operators and NumPy's protocols, for every tensor class.

A tensor class derives from `Operators`, and defines `__tenferro_apply__` and `spec`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from tenferro.api import (
    creation,
    elementwise,
    indexing,
    linear,
    manipulation,
    products,
    reductions,
    searching,
    sets,
)
from tenferro.api.arguments import refuse
from tenferro.api.device import DEVICE, check_device
from tenferro.api.inspection import check_version
from tenferro.api.namespace import namespace
from tenferro.api.updates import At
from tenferro.counterparts import is_missing
from tenferro.errors import ArityError, InvalidConfigError, UnsupportedError
from tenferro.tracebacks import public, public_methods
from tenferro.types import ArrayLike, DType, DTypeLike, Index, Tensor, UfuncOptions

__all__ = ["REFUSED", "Operators"]

_CHANGES = "it changes the array, and tensors are values; x.at[index].set(values) gives a new one"
_LAYOUT = "the memory layout is not part of a tensor"
_BYTES = "take the bytes of x.numpy(), of a tensor that has elements"

REFUSED = {
    **dict.fromkeys(("byteswap", "fill", "put", "resize", "setfield"), _CHANGES),
    **dict.fromkeys(
        ("base", "ctypes", "data", "flags", "getfield", "setflags", "strides"), _LAYOUT
    ),
    **dict.fromkeys(("dump", "dumps", "tobytes", "tofile"), _BYTES),
    **dict.fromkeys(("argpartition", "partition"), "use sort or argsort"),
    "choose": "use tenferro.select, or take_along_axis",
    "compress": "index with the mask, which needs elements",
    "flat": "use ravel()",
}
"""Attributes of NumPy's arrays that tensors do not have. The values are reasons or alternatives, for errors."""


@public_methods
class Operators:
    """Base class of tensors: Python's operators, the methods and attributes of arrays, and NumPy's protocols."""

    __slots__ = ()

    spec: Any
    """Shape and dtype together."""

    @staticmethod
    def __tenferro_sequence__(entries: ArrayLike) -> Any:
        """Convert nested sequences of numbers and tensors to one tensor."""
        return creation.asarray(entries)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents. They are numbers or, in a trace, also symbolic extents and bounds of data-dependent extents."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.spec.dtype

    def __dir__(self) -> list[str]:
        """List the attributes of the tensor, without names that exist only to raise an error."""
        return [name for name in super().__dir__() if not is_missing(type(self), name)]

    # ---- arithmetic --------------------------------------------------------------------------

    def __add__(self, rhs: ArrayLike) -> Any:
        return elementwise.add(self, rhs)

    def __radd__(self, lhs: ArrayLike) -> Any:
        return elementwise.add(lhs, self)

    def __sub__(self, rhs: ArrayLike) -> Any:
        return elementwise.subtract(self, rhs)

    def __rsub__(self, lhs: ArrayLike) -> Any:
        return elementwise.subtract(lhs, self)

    def __mul__(self, rhs: ArrayLike) -> Any:
        return elementwise.multiply(self, rhs)

    def __rmul__(self, lhs: ArrayLike) -> Any:
        return elementwise.multiply(lhs, self)

    def __truediv__(self, rhs: ArrayLike) -> Any:
        return elementwise.divide(self, rhs)

    def __rtruediv__(self, lhs: ArrayLike) -> Any:
        return elementwise.divide(lhs, self)

    def __floordiv__(self, rhs: ArrayLike) -> Any:
        return elementwise.floor_divide(self, rhs)

    def __rfloordiv__(self, lhs: ArrayLike) -> Any:
        return elementwise.floor_divide(lhs, self)

    def __mod__(self, rhs: ArrayLike) -> Any:
        return elementwise.remainder(self, rhs)

    def __rmod__(self, lhs: ArrayLike) -> Any:
        return elementwise.remainder(lhs, self)

    def __divmod__(self, rhs: ArrayLike) -> Any:
        return elementwise.floor_divide(self, rhs), elementwise.remainder(self, rhs)

    def __rdivmod__(self, lhs: ArrayLike) -> Any:
        return elementwise.floor_divide(lhs, self), elementwise.remainder(lhs, self)

    def __pow__(self, rhs: ArrayLike, modulus: ArrayLike | None = None) -> Any:
        if modulus is not None:
            raise ArityError("pow: takes two operands; pow(x, y, z) is pow(x, y) % z")
        return elementwise.pow(self, rhs)

    def __rpow__(self, lhs: ArrayLike) -> Any:
        return elementwise.pow(lhs, self)

    def __matmul__(self, rhs: ArrayLike) -> Any:
        return linear.matmul(self, rhs)

    def __rmatmul__(self, lhs: ArrayLike) -> Any:
        return linear.matmul(lhs, self)

    def __neg__(self) -> Any:
        return elementwise.negative(self)

    def __pos__(self) -> Any:
        return elementwise.positive(self)

    def __abs__(self) -> Any:
        return elementwise.abs(self)

    # ---- bits --------------------------------------------------------------------------------

    def __and__(self, rhs: ArrayLike) -> Any:
        return elementwise.bitwise_and(self, rhs)

    def __rand__(self, lhs: ArrayLike) -> Any:
        return elementwise.bitwise_and(lhs, self)

    def __or__(self, rhs: ArrayLike) -> Any:
        return elementwise.bitwise_or(self, rhs)

    def __ror__(self, lhs: ArrayLike) -> Any:
        return elementwise.bitwise_or(lhs, self)

    def __xor__(self, rhs: ArrayLike) -> Any:
        return elementwise.bitwise_xor(self, rhs)

    def __rxor__(self, lhs: ArrayLike) -> Any:
        return elementwise.bitwise_xor(lhs, self)

    def __lshift__(self, rhs: ArrayLike) -> Any:
        return elementwise.bitwise_left_shift(self, rhs)

    def __rlshift__(self, lhs: ArrayLike) -> Any:
        return elementwise.bitwise_left_shift(lhs, self)

    def __rshift__(self, rhs: ArrayLike) -> Any:
        return elementwise.bitwise_right_shift(self, rhs)

    def __rrshift__(self, lhs: ArrayLike) -> Any:
        return elementwise.bitwise_right_shift(lhs, self)

    def __invert__(self) -> Any:
        return elementwise.bitwise_invert(self)

    # ---- comparison --------------------------------------------------------------------------

    def __eq__(self, rhs: Any) -> Any:
        return elementwise.equal(self, rhs) if _has_elements(rhs) else NotImplemented

    def __ne__(self, rhs: Any) -> Any:
        return elementwise.not_equal(self, rhs) if _has_elements(rhs) else NotImplemented

    def __lt__(self, rhs: ArrayLike) -> Any:
        return elementwise.less(self, rhs)

    def __le__(self, rhs: ArrayLike) -> Any:
        return elementwise.less_equal(self, rhs)

    def __gt__(self, rhs: ArrayLike) -> Any:
        return elementwise.greater(self, rhs)

    def __ge__(self, rhs: ArrayLike) -> Any:
        return elementwise.greater_equal(self, rhs)

    __hash__ = None  # type: ignore[assignment]  # because == returns a tensor

    # ---- shape and order ---------------------------------------------------------------------

    def __getitem__(self, index: Index) -> Any:
        return indexing.getitem(self, index)

    def __setitem__(self, index: Index, value: ArrayLike) -> None:
        raise UnsupportedError(
            "tensors are values and do not change; x.at[index].set(values) gives the new one"
        )

    @property
    def at(self) -> At:
        """Functional updates: `x.at[index].set(values)` returns a copy of x with the elements at `index` replaced.

        Instead of `set`, `add`, `multiply`, `min` and `max` combine the elements with the values.
        """
        return At(self)

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a tensor of rank 0")
        return iter(manipulation.unstack(self))

    @property
    @public
    def T(self) -> Any:  # noqa: N802  # because NumPy and the Array API spell it so
        """The tensor with its axes in reverse order."""
        return manipulation.transpose(self)

    @property
    @public
    def mT(self) -> Any:  # noqa: N802  # because the Array API spells it so
        """The tensor with its last two axes swapped."""
        return manipulation.matrix_transpose(self)

    @property
    @public
    def real(self) -> Any:
        """The real part."""
        return elementwise.real(self)

    @property
    @public
    def imag(self) -> Any:
        """The imaginary part."""
        return elementwise.imag(self)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.spec.rank

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self.spec.size

    @property
    def itemsize(self) -> int:
        """The number of bytes per element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """The number of bytes of all elements."""
        return self.size * self.itemsize

    # ---- methods that are API functions of the same name -------------------------------------

    all = reductions.all
    any = reductions.any
    argmax = searching.argmax
    argmin = searching.argmin
    argsort = searching.argsort
    clip = elementwise.clip
    conj = elementwise.conj
    conjugate = elementwise.conjugate
    cumprod = reductions.cumprod
    cumsum = reductions.cumsum
    diagonal = manipulation.diagonal
    dot = products.dot
    flatten = manipulation.ravel
    max = reductions.max
    mean = reductions.mean
    min = reductions.min
    nonzero = sets.nonzero
    prod = reductions.prod
    ravel = manipulation.ravel
    repeat = sets.repeat
    round = elementwise.round
    searchsorted = searching.searchsorted
    sort = searching.sort
    squeeze = manipulation.squeeze
    std = reductions.std
    sum = reductions.sum
    swapaxes = manipulation.swapaxes
    take = indexing.take
    trace = linear.trace
    var = reductions.var

    # ---- methods with other signatures ------------------------------------------------------------

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """Reshape the tensor; the new shape is passed as one tuple or as several numbers."""
        one = len(shape) == 1 and isinstance(shape[0], tuple | list)
        return manipulation.reshape(self, shape[0] if one else shape, order=order, copy=copy)

    def transpose(self, *axes: Any) -> Any:
        """Permute the axes; without arguments, reverse their order."""
        one = len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple | list))
        return manipulation.transpose(self, (axes[0] if one else axes) or None)

    def astype(
        self, dtype: DTypeLike | None, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:  # fmt: skip
        """Convert the elements to another dtype, if NumPy's rule `casting` allows the conversion.

        Raises:
            DTypeError: the rule forbids the conversion.
        """
        refuse("astype", "order", order)
        manipulation.cast_dtype("astype", [self], dtype, casting)
        return manipulation.astype(self, dtype, copy=copy)

    def view(self, dtype: DTypeLike | None = None) -> Any:
        """Reinterpret the bits of the elements as another dtype.

        If the widths of the dtypes differ, the extent of the last axis changes.

        Raises:
            ShapeError: the new width does not divide the number of bytes along the last axis.
        """
        return self if dtype is None else manipulation.bits_as(self, DType.of(dtype))

    # ---- NumPy's protocols -------------------------------------------------------------------

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the module `tenferro`, the Array API namespace of this tensor.

        Raises:
            InvalidConfigError: `api_version` is not a supported version of the standard.
        """
        check_version(api_version)
        return namespace().module

    def to_device(self, device: str | None, /, *, stream: int | None = None) -> Any:
        """Return this tensor, because there is only one device.

        Raises:
            InvalidConfigError: `device` is not this device, or a stream is passed.
        """
        check_device("to_device", device)
        if stream is not None:
            raise InvalidConfigError(
                f"to_device: the device {device!r} has no streams, got {stream!r}"
            )
        return self

    @property
    def device(self) -> str:
        """The only device, "cpu", because executors choose where programs run."""
        return DEVICE

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: ArrayLike, **options: Unpack[UfuncOptions]
    ) -> Any:
        """Evaluate `np.exp(tensor)` as `tenferro.exp(tensor)`.

        Raises:
            UnsupportedError: the ufunc has no counterpart in tenferro, and the tensor is traced or tracked.
        """
        return namespace().numpy_functions().call_ufunc(ufunc, method, inputs, options)

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Evaluate `np.sum(tensor)` as `tenferro.sum(tensor)`.

        Raises:
            UnsupportedError: the function has no counterpart in tenferro, and the tensor is traced or tracked.
        """
        return namespace().numpy_functions().call_function(func, types, args, kwargs)


def _has_elements(rhs: Tensor) -> bool:
    """Return whether `rhs` is a number, sequence, tensor or array, so that `==` compares a tensor's elements to it."""
    return isinstance(rhs, bool | int | float | complex | list | tuple) or any(
        hasattr(type(rhs), protocol) for protocol in ("__tenferro_apply__", "__array__")
    )
