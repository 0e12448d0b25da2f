"""Python's operators and NumPy's protocols, for every tensor class.

A class takes part by deriving from `Operators` and defining `__tenferro_apply__` and `spec`.
"""

from __future__ import annotations

from typing import Any

from tenferro.api import (
    creation,
    elementwise,
    indexing,
    linear,
    manipulation,
    reductions,
    searching,
)
from tenferro.api.device import DEVICE, check_device
from tenferro.api.inspection import check_version
from tenferro.api.updates import At
from tenferro.counterparts import is_missing
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.tracebacks import public, public_methods
from tenferro.types import DType

__all__ = ["Operators"]


@public_methods
class Operators:
    """The Array API's operators, the methods people reach for, and NumPy functions by name."""

    __slots__ = ()

    spec: Any
    """Shape and dtype together."""

    @staticmethod
    def __tenferro_sequence__(entries: Any) -> Any:
        """Nested sequences, some of whose entries are tensors, as one tensor."""
        return creation.asarray(entries)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents: numbers; in a trace also symbols, or bounds."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.spec.dtype

    def __dir__(self) -> list[str]:
        """What a tensor has: not what it is told to be called otherwise."""
        return [name for name in super().__dir__() if not is_missing(type(self), name)]

    # ---- arithmetic --------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return elementwise.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return elementwise.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return elementwise.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return elementwise.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        return elementwise.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return elementwise.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        return elementwise.divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return elementwise.divide(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return elementwise.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return elementwise.floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        return elementwise.remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return elementwise.remainder(other, self)

    def __pow__(self, other: Any) -> Any:
        return elementwise.pow(self, other)

    def __rpow__(self, other: Any) -> Any:
        return elementwise.pow(other, self)

    def __matmul__(self, other: Any) -> Any:
        return linear.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return linear.matmul(other, self)

    def __neg__(self) -> Any:
        return elementwise.negative(self)

    def __pos__(self) -> Any:
        return elementwise.positive(self)

    def __abs__(self) -> Any:
        return elementwise.abs(self)

    # ---- bits --------------------------------------------------------------------------------

    def __and__(self, other: Any) -> Any:
        return elementwise.bitwise_and(self, other)

    def __rand__(self, other: Any) -> Any:
        return elementwise.bitwise_and(other, self)

    def __or__(self, other: Any) -> Any:
        return elementwise.bitwise_or(self, other)

    def __ror__(self, other: Any) -> Any:
        return elementwise.bitwise_or(other, self)

    def __xor__(self, other: Any) -> Any:
        return elementwise.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> Any:
        return elementwise.bitwise_xor(other, self)

    def __lshift__(self, other: Any) -> Any:
        return elementwise.bitwise_left_shift(self, other)

    def __rlshift__(self, other: Any) -> Any:
        return elementwise.bitwise_left_shift(other, self)

    def __rshift__(self, other: Any) -> Any:
        return elementwise.bitwise_right_shift(self, other)

    def __rrshift__(self, other: Any) -> Any:
        return elementwise.bitwise_right_shift(other, self)

    def __invert__(self) -> Any:
        return elementwise.bitwise_invert(self)

    # ---- comparison --------------------------------------------------------------------------

    def __eq__(self, other: Any) -> Any:
        return elementwise.equal(self, other) if _has_elements(other) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        return elementwise.not_equal(self, other) if _has_elements(other) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        return elementwise.less(self, other)

    def __le__(self, other: Any) -> Any:
        return elementwise.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return elementwise.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return elementwise.greater_equal(self, other)

    __hash__ = None  # type: ignore[assignment]  # because == gives a tensor

    # ---- shape and order ---------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        return indexing.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise UnsupportedError(
            "tensors are values and do not change; x.at[index].set(values) gives the new one"
        )

    @property
    def at(self) -> At:
        """`x.at[index].set(values)`, `add`, `multiply`, `min`, `max`: a new tensor with elements changed."""
        return At(self)

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a tensor of rank 0")
        return iter(manipulation.unstack(self))

    @property
    @public
    def T(self) -> Any:  # noqa: N802  # because NumPy and the Array API spell it so
        """The axes reversed."""
        return manipulation.transpose(self)

    @property
    @public
    def mT(self) -> Any:  # noqa: N802  # because the Array API spells it so
        """The last two axes swapped."""
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

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """The elements with a new shape, given as one tuple or several numbers."""
        one = len(shape) == 1 and isinstance(shape[0], tuple | list)
        return manipulation.reshape(self, shape[0] if one else shape, order=order)

    def transpose(self, *axes: Any) -> Any:
        """The axes permuted, reversed when no order is given."""
        one = len(axes) == 1 and isinstance(axes[0], tuple | list)
        return manipulation.transpose(self, (axes[0] if one else axes) or None)

    def ravel(self, order: str = "C") -> Any:
        """All elements along one axis."""
        return manipulation.ravel(self, order=order)

    def astype(self, dtype: Any) -> Any:
        """The elements in another dtype."""
        return manipulation.astype(self, dtype)

    def conj(self) -> Any:
        """The complex conjugate."""
        return elementwise.conj(self)

    # ---- reductions --------------------------------------------------------------------------

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """The sum over `axis`."""
        return reductions.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """The product over `axis`."""
        return reductions.prod(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """The mean over `axis`."""
        return reductions.mean(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The largest element over `axis`."""
        return reductions.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The smallest element over `axis`."""
        return reductions.min(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Whether all over `axis` are nonzero."""
        return reductions.all(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Whether any over `axis` is nonzero."""
        return reductions.any(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The index of the first largest element."""
        return searching.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The index of the first smallest element."""
        return searching.argmin(self, axis=axis, keepdims=keepdims)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.spec.rank

    @property
    def size(self) -> Any:
        """Number of elements."""
        return self.spec.size

    # ---- NumPy's protocols -------------------------------------------------------------------

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The module whose functions take this tensor.

        Raises:
            InvalidConfigError: a version of the standard that it does not follow.
        """
        check_version(api_version)
        return _namespace()

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """This tensor; there is one device.

        Raises:
            InvalidConfigError: another device, or a stream.
        """
        check_device("to_device", device)
        if stream is not None:
            raise InvalidConfigError(
                f"to_device: the device {device!r} has no streams, got {stream!r}"
            )
        return self

    @property
    def device(self) -> str:
        """The one device: where programs run is decided when they run."""
        return DEVICE

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """`np.exp(tensor)` is `tenferro.exp(tensor)`.

        Raises:
            UnsupportedError: what has no counterpart, of a tensor that belongs to a trace or is tracked.
        """
        from tenferro.api import numpy_functions  # because its functions take tensors

        return numpy_functions.call_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """`np.sum(tensor)` is `tenferro.sum(tensor)`.

        Raises:
            UnsupportedError: what has no counterpart, of a tensor that belongs to a trace or is tracked.
        """
        from tenferro.api import numpy_functions  # because its functions take tensors

        return numpy_functions.call_function(func, types, args, kwargs)


def _has_elements(other: Any) -> bool:
    """Whether `==` goes element by element; what holds no numbers is just another object."""
    return isinstance(other, bool | int | float | complex | list | tuple) or any(
        hasattr(type(other), protocol) for protocol in ("__tenferro_apply__", "__array__")
    )


def _namespace() -> Any:
    import tenferro

    return tenferro
