"""Ops that create tensors, from constants or from a shape."""

from __future__ import annotations

from dataclasses import field
from pickle import PickleBuffer
from typing import Any, ClassVar

import numpy as np

from tenferro.dims import GuardLog, product
from tenferro.errors import InvalidConfigError
from tenferro.ops.elements import LARGE, adopted_elements, digest_of, held_elements, shared_elements
from tenferro.ops.op import StdTensorOp, card, normalize
from tenferro.rules.dtypes import ANY, NUMERIC, require_dtype
from tenferro.rules.payload import as_dims, as_int, as_ints, distinct_axes
from tenferro.types import DType, TensorSpec, host_array

__all__ = ["CARDS", "Constant", "Iota", "ShapeOf"]


@card
class Constant(StdTensorOp):
    """Constant tensor: `data` contains the bytes of its elements in row-major order.

    If there are 64 KiB or more, `data` is a read-only memoryview, and equal constants of the process share its memory.

    Shapes:  () -> shape
    Dtypes:  every dtype
    Identity: constants are equal if dtype, shape and bytes are, so that -0.0 differs from 0.0, and True from 1
    AD:      inactive
    Lowers:  stablehlo.constant
    Errors:  InvalidConfigError unless `data` has exactly the bytes of the shape

    >>> Constant.of(np.array([1.0, -0.0])).infer()
    (f64[2],)
    """

    dtype: DType
    shape: tuple[int, ...]
    data: bytes | memoryview = field(repr=False)

    accepts: ClassVar[frozenset[DType]] = ANY
    input_count: ClassVar[Any] = 0

    def __post_init__(self) -> None:
        dtype = DType.of(self.dtype)
        shape = as_ints("Constant", "shape", self.shape, 0)
        wanted = product(shape) * dtype.itemsize
        size = memoryview(self.data).nbytes
        if size != wanted:
            raise InvalidConfigError(
                f"Constant: {TensorSpec.of(shape, dtype)} takes {wanted} bytes, got {size}"
            )
        if size < LARGE:
            normalize(self, dtype=dtype, shape=shape, data=bytes(self.data))
        else:
            data, digest = shared_elements(self.data)
            normalize(self, dtype=dtype, shape=shape, data=data, _digest=digest)

    @property
    def digest(self) -> bytes:
        """The SHA-256 digest of the elements."""
        return getattr(self, "_digest", None) or digest_of(self.data)

    def __hash__(self) -> int:
        # Hash the digest of a large constant, which is stored, because hashing the elements would read them all.
        return hash((Constant, self.dtype, self.shape, getattr(self, "_digest", self.data)))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is Constant
            and self.dtype is other.dtype
            and self.shape == other.shape
            and (self.data is other.data or self.data == other.data)
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        data = bytes(self.data) if protocol < 5 else PickleBuffer(self.data)
        return Constant, (self.dtype, self.shape, data)

    @classmethod
    def of(cls, array: Any) -> Constant:
        """Create a constant from a NumPy array of any memory order."""
        array = host_array(array, "Constant")
        held = held_elements(array)
        if held is not None:
            return cls(DType.of(array.dtype), array.shape, held)
        dense = np.ascontiguousarray(array)
        data = dense.view(np.uint8).ravel().data if dense.nbytes >= LARGE else array.tobytes()
        return cls(DType.of(array.dtype), array.shape, data)

    @classmethod
    def adopting(cls, array: np.ndarray[Any, Any]) -> Constant:
        """Create a constant that uses the memory of a row-major array in aligned memory, without a copy.

        The caller must keep no other reference to that memory, because constants are immutable.
        """
        memory = array.ravel().view(np.uint8)
        data = adopted_elements(memory) if memory.nbytes >= LARGE else memory.data
        return cls(DType.of(array.dtype), array.shape, data)

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only array."""
        return np.frombuffer(self.data, self.dtype.dtype).reshape(self.shape)

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        return (TensorSpec.of(self.shape, self.dtype),)

    def __str__(self) -> str:
        if product(self.shape) <= 8:
            return f"Constant({self.array.tolist()})"
        return f"Constant(<{len(self.data)} bytes>)"


@card
class Iota(StdTensorOp):
    """Indices along one axis: y[i0, .., ik] = i_axis.

    Shapes:  () -> shape
    Dtypes:  every integer, float and complex dtype; indices that the dtype cannot represent wrap or are rounded
    AD:      inactive
    Errors:  AxisError unless 0 <= axis < rank

    >>> Iota((2, 3), 1, "int32").infer()
    (i32[2,3],)
    """

    shape: tuple[Any, ...]
    axis: int
    dtype: DType

    accepts: ClassVar[frozenset[DType]] = NUMERIC
    input_count: ClassVar[Any] = 0

    def __post_init__(self) -> None:
        normalize(
            self,
            shape=as_dims("Iota", "shape", self.shape),
            axis=as_int("Iota", "axis", self.axis),
            dtype=DType.of(self.dtype),
        )
        distinct_axes("Iota", "axis", (self.axis,), len(self.shape))
        require_dtype("Iota", "dtype", self.dtype, self.accepts)

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        return (TensorSpec.of(self.shape, self.dtype),)


@card
class ShapeOf(StdTensorOp):
    """The extent of one axis as a number: y = shape(x)[axis], a scalar int64.

    The op reads only the shape of x, never the elements.

    Shapes:  x -> []
    Dtypes:  every dtype in, int64 out
    AD:      inactive
    Lowers:  a constant, where the extent is exact
    Errors:  AxisError unless 0 <= axis < rank
    Source:  docs/specification/primitives.md

    >>> ShapeOf(1).infer(TensorSpec.parse("f32[2,n]"))
    (i64[],)
    """

    axis: int

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        normalize(self, axis=as_int("ShapeOf", "axis", self.axis))

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        distinct_axes("ShapeOf", "axis", (self.axis,), inputs[0].rank)
        return (TensorSpec.of((), DType.I64),)


CARDS = (Constant, Iota, ShapeOf)
