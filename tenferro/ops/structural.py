"""Ops that move elements without arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tenferro.dims import GuardLog, UpperBound, is_exact, product
from tenferro.errors import NonStaticShapeError, ShapeError
from tenferro.ops.op import StdTensorOp, normalize
from tenferro.rules.dtypes import ANY
from tenferro.rules.payload import as_dims, as_ints, distinct_axes
from tenferro.types import DType, TensorSpec

__all__ = ["CARDS", "BroadcastInDim", "Reshape", "Transpose"]


@dataclass(frozen=True, slots=True)
class Transpose(StdTensorOp):
    """Permute axes: axis i of y is axis perm[i] of x.

    Shapes:  x [d0, .., dk] -> y with extent d[perm[i]] on axis i
    Dtypes:  every dtype
    AD:      linear; its transpose permutes by the inverse of perm
    Lowers:  stablehlo.transpose, one to one
    Errors:  ShapeError unless perm names each axis of x exactly once
    Source:  seed 004 section IV, StableHLO spec #transpose

    >>> Transpose((2, 0, 1)).infer(TensorSpec.parse("f64[2,3,4]"))
    (f64[4,2,3],)
    >>> Transpose((0, 0)).infer(TensorSpec.parse("f64[2,3]"))
    Traceback (most recent call last):
        ...
    tenferro.errors.ShapeError: Transpose: perm must name each axis once, got (0, 0) for f64[2,3]
    """

    perm: tuple[int, ...]

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        normalize(self, perm=as_ints("Transpose", "perm", self.perm))

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        if sorted(self.perm) != list(range(x.rank)):
            raise ShapeError(f"Transpose: perm must name each axis once, got {self.perm} for {x}")
        return (TensorSpec.of(tuple(x.shape[axis] for axis in self.perm), x.dtype),)


@dataclass(frozen=True, slots=True)
class Reshape(StdTensorOp):
    """Reinterpret the elements, taken in column-major order, with a new shape.

    y[j] = x[i] where i and j have the same offset with the *first* axis fastest (NumPy's order="F").

    Shapes:  x S -> y `shape`, of the same size
    Dtypes:  every dtype
    AD:      linear; its transpose reshapes back
    Lowers:  transpose, stablehlo.reshape, transpose, because StableHLO's is row-major;
             transposes that cancel are not written
    Errors:  ShapeError unless the sizes agree; NonStaticShapeError when x's size depends on data
    Source:  seed 004 section IV, StableHLO spec #reshape

    >>> Reshape((3, 2)).infer(TensorSpec.parse("f64[6]"))
    (f64[3,2],)
    >>> Reshape((4,)).infer(TensorSpec.parse("f64[2,3]"))
    Traceback (most recent call last):
        ...
    tenferro.errors.ShapeError: Reshape: f64[2,3] has 6 elements, shape (4,) has 4
    """

    shape: tuple[Any, ...]

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        normalize(self, shape=as_dims("Reshape", "shape", self.shape))

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        if not x.is_exact:
            axis = next(axis for axis, extent in enumerate(x.shape) if not is_exact(extent))
            raise NonStaticShapeError(
                f"Reshape: the extent of axis {axis} of {x} depends on the data; "
                "only exact extents may be reshaped, PadToMatch restores one"
            )
        shape = self.resolved("shape", (x.shape,))
        if guards.meet(product(x.shape), product(shape), "Reshape: number of elements") is None:
            raise ShapeError(
                f"Reshape: {x} has {product(x.shape)} elements, shape {shape} has {product(shape)}"
            )
        return (TensorSpec.of(shape, x.dtype),)


@dataclass(frozen=True, slots=True)
class BroadcastInDim(StdTensorOp):
    """Place axis j of x at axis dims[j] of y and repeat along all others, and along extents of 1.

    y[i0, .., ik] = x[i[dims[0]], .., i[dims[r]]], an index being 0 where x's extent is 1.

    Shapes:  x [a0, .., ar] -> y `shape`, a[j] being 1 or shape[dims[j]]
    Dtypes:  every dtype
    AD:      linear; its transpose sums over what was repeated
    Lowers:  stablehlo.broadcast_in_dim, one to one
    Errors:  ShapeError, AxisError unless dims are distinct axes of shape that fit
    Source:  seed 004 section IV, StableHLO spec #broadcast_in_dim

    >>> BroadcastInDim((2, 3), (1,)).infer(TensorSpec.parse("f64[3]"))
    (f64[2,3],)
    """

    shape: tuple[Any, ...]
    dims: tuple[int, ...]

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        normalize(
            self,
            shape=as_dims("BroadcastInDim", "shape", self.shape),
            dims=as_ints("BroadcastInDim", "dims", self.dims),
        )
        distinct_axes("BroadcastInDim", "dims", self.dims, len(self.shape))

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        shape = self.resolved("shape", (x.shape,))
        if len(self.dims) != x.rank:
            raise ShapeError(
                f"BroadcastInDim: dims must place each axis of {x}, got {self.dims}"
            )
        for axis, (extent, dim) in enumerate(zip(x.shape, self.dims, strict=True)):
            if extent == 1:
                continue
            if isinstance(extent, UpperBound):
                raise NonStaticShapeError(
                    f"BroadcastInDim: the extent of axis {axis} of {x} depends on the data"
                )
            reason = f"BroadcastInDim: axis {axis} of the operand and axis {dim} of the shape"
            if guards.meet(extent, shape[dim], reason) is None:
                raise ShapeError(
                    f"BroadcastInDim: axis {axis} of {x} must be 1 or "
                    f"{shape[dim]}, the extent of axis {dim} of {shape}"
                )
        return (TensorSpec.of(shape, x.dtype),)


CARDS = (Transpose, Reshape, BroadcastInDim)
