"""Ops that move elements without arithmetic."""

from __future__ import annotations

from typing import Any, ClassVar

from tenferro.dims import DimExpr, GuardLog, at_least, dim_max, is_exact, product
from tenferro.errors import (
    AxisError,
    DTypeError,
    InvalidConfigError,
    NonStaticShapeError,
    ShapeError,
)
from tenferro.ops.op import StdTensorOp, card, normalize
from tenferro.rules.dtypes import ANY
from tenferro.rules.payload import as_dims, as_edges, as_int, as_ints, distinct_axes
from tenferro.rules.shapes import same_extent
from tenferro.types import DType, TensorSpec

__all__ = [
    "CARDS",
    "BroadcastInDim",
    "Concatenate",
    "EmbedDiag",
    "ExtractDiag",
    "OptimizationBarrier",
    "Pad",
    "Reshape",
    "Reverse",
    "Slice",
    "Transpose",
    "Tril",
    "Triu",
]


@card
class Transpose(StdTensorOp):
    """Permute axes: axis i of y is axis perm[i] of x.

    Shapes:  x [d0, .., dk] -> y with extent d[perm[i]] on axis i
    Dtypes:  every dtype
    AD:      linear; its transpose permutes by the inverse of perm
    Errors:  ShapeError unless perm names each axis of x exactly once

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


@card
class Reshape(StdTensorOp):
    """Arrange the elements of x, read in column-major order, in a new shape.

    y[j] = x[i] where i and j are at the same offset if the *first* axis varies fastest (NumPy's order="F").

    Shapes:  x S -> y `shape`, of the same size
    Dtypes:  every dtype
    AD:      linear; its transpose reshapes back
    Lowers:  transpose, stablehlo.reshape, transpose, because StableHLO's reshape is row-major; transposes that
        cancel each other are not written
    Errors:  ShapeError unless the sizes agree; NonStaticShapeError when x's size depends on data

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


@card
class BroadcastInDim(StdTensorOp):
    """Broadcast: axis j of x becomes axis dims[j] of y. The elements repeat along new axes, and where x has extent 1.

    y[i0, .., ik] = x[i[dims[0]], .., i[dims[r]]], with index 0 along an axis of x whose extent is 1.

    Shapes:  x [a0, .., ar] -> y `shape`, where a[j] is 1 or shape[dims[j]]
    Dtypes:  every dtype
    AD:      linear; its transpose sums over repeated axes
    Errors:  ShapeError, AxisError unless dims are distinct axes of shape that fit

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
            raise ShapeError(f"BroadcastInDim: dims must place each axis of {x}, got {self.dims}")
        for axis, (extent, dim) in enumerate(zip(x.shape, self.dims, strict=True)):
            if extent == 1 or self.shape[dim] == DimExpr.input_axis(0, axis):
                continue
            if not is_exact(extent):
                raise NonStaticShapeError(
                    f"BroadcastInDim: the extent of axis {axis} of {x} depends on the data"
                )
            if extent == shape[dim]:
                continue
            difference = extent - shape[dim]
            if isinstance(difference, int) and isinstance(extent, int):
                raise ShapeError(
                    f"BroadcastInDim: axis {axis} of {x} must be 1 or "
                    f"{shape[dim]}, the extent of axis {dim} of {shape}"
                )
            reason = f"BroadcastInDim: axis {axis} of the operand and axis {dim} of the shape"
            guards.require(extent, "is 1 or", shape[dim], reason)
        return (TensorSpec.of(shape, x.dtype),)


@card
class Slice(StdTensorOp):
    """Strided slice along every axis: y[i0, .., ik] = x[starts + i * strides].

    Shapes:  x [d0, .., dk] -> y with extent ceil((limits - starts) / strides) on each axis
    Dtypes:  every dtype
    AD:      linear; its transpose pads
    Errors:  ShapeError unless 0 <= starts <= limits <= the extents; InvalidConfigError on a stride
             below 1

    >>> Slice((1,), (6,), (2,)).infer(TensorSpec.parse("f64[6]"))
    (f64[3],)
    >>> Slice((0,), (7,), (1,)).infer(TensorSpec.parse("f64[6]"))
    Traceback (most recent call last):
        ...
    tenferro.errors.ShapeError: Slice: axis 0 of f64[6] has no elements 0 to 7
    """

    starts: tuple[Any, ...]
    limits: tuple[Any, ...]
    strides: tuple[int, ...]

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        normalize(
            self,
            starts=as_dims("Slice", "starts", self.starts),
            limits=as_dims("Slice", "limits", self.limits),
            strides=as_ints("Slice", "strides", self.strides, 1),
        )
        if not len(self.starts) == len(self.limits) == len(self.strides):
            raise InvalidConfigError(
                f"Slice: starts {self.starts}, limits {self.limits} and strides {self.strides} "
                "must have one entry per axis"
            )

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        if len(self.starts) != x.rank:
            raise ShapeError(f"Slice: has bounds for {len(self.starts)} axes, got {x}")
        starts = self.resolved("starts", (x.shape,))
        limits = self.resolved("limits", (x.shape,))
        shape: list[Any] = []
        for axis, (start, limit, stride, extent) in enumerate(
            zip(starts, limits, self.strides, x.shape, strict=True)
        ):
            if not is_exact(extent):
                if start == 0 and limit == extent and stride == 1:
                    shape.append(extent)
                    continue
                raise NonStaticShapeError(
                    f"Slice: the extent of axis {axis} of {x} depends on the data; "
                    "PadToMatch restores an exact one"
                )
            for larger, smaller in ((extent, limit), (limit, start), (start, 0)):
                decided = at_least(larger, smaller)
                if decided is False:
                    raise ShapeError(
                        f"Slice: axis {axis} of {x} has no elements {start} to {limit}"
                    )
                if decided is None:
                    guards.require(larger, ">=", smaller, f"Slice: bounds of axis {axis}")
            shape.append((limit - start + stride - 1) // stride)
        return (TensorSpec.of(tuple(shape), x.dtype),)


@card
class Pad(StdTensorOp):
    """Insert `padding_value` around and between the elements; negative `low` or `high` removes elements.

    y[low + i * (interior + 1)] = x[i] where this index is inside y; other elements of y are padding_value.

    Shapes:  x [d0, .., dk], padding_value [] -> y with extent
             low + max(0, d + (d - 1) interior) + high on each axis
    Dtypes:  every dtype, one for both
    AD:      linear in both; its transpose slices
    Errors:  ShapeError unless the result's extents are at least 0 and padding_value has rank 0

    >>> Pad((1,), (-1,), (1,)).infer(TensorSpec.parse("f64[3]"), TensorSpec.parse("f64[]"))
    (f64[5],)
    """

    low: tuple[Any, ...]
    high: tuple[Any, ...]
    interior: tuple[int, ...]

    accepts: ClassVar[frozenset[DType]] = ANY
    input_count: ClassVar[Any] = 2

    def __post_init__(self) -> None:
        normalize(
            self,
            low=as_edges("Pad", "low", self.low),
            high=as_edges("Pad", "high", self.high),
            interior=as_ints("Pad", "interior", self.interior, 0),
        )
        if not len(self.low) == len(self.high) == len(self.interior):
            raise InvalidConfigError(
                f"Pad: low {self.low}, high {self.high} and interior {self.interior} must have one "
                "entry per axis"
            )

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        x, value = inputs
        if x.dtype is not value.dtype:
            raise DTypeError(
                f"Pad: x and padding_value must have the same dtype, got {x} and {value}"
            )
        if value.rank:
            raise ShapeError(f"Pad: padding_value must have rank 0, got {value}")
        if len(self.low) != x.rank:
            raise ShapeError(f"Pad: has edges for {len(self.low)} axes, got {x}")
        shape: list[Any] = []
        for axis, (low, high, interior, extent) in enumerate(
            zip(self.low, self.high, self.interior, x.shape, strict=True)
        ):
            if low == high == interior == 0:
                shape.append(extent)
                continue
            if not is_exact(extent):
                raise NonStaticShapeError(
                    f"Pad: the extent of axis {axis} of {x} depends on the data"
                )
            inside = extent + interior * dim_max(extent - 1, 0) if interior else extent
            padded = low + inside + high
            decided = at_least(padded, 0)
            if decided is False:
                raise ShapeError(f"Pad: axis {axis} of {x} would have extent {padded}")
            if decided is None:
                guards.require(padded, ">=", 0, f"Pad: extent of axis {axis}")
            shape.append(padded)
        return (TensorSpec.of(tuple(shape), x.dtype),)


@card
class Concatenate(StdTensorOp):
    """Join `count` operands end to end along one axis.

    Shapes:  operands with equal extents except along `axis` -> y, whose extent along `axis` is their sum
    Dtypes:  every dtype, one for all
    AD:      linear; its transpose slices
    Errors:  ShapeError, DTypeError unless the operands agree except along `axis`; ShapeError above 2^63 - 1

    >>> Concatenate(1, 2).infer(TensorSpec.parse("f64[2,3]"), TensorSpec.parse("f64[2,n]"))
    (f64[2,n+3],)
    """

    axis: int
    count: int

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        normalize(
            self,
            axis=as_int("Concatenate", "axis", self.axis, 0),
            count=as_int("Concatenate", "count", self.count, 1),
        )

    @property
    def input_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it depends on the payload
        """The number of operands, `count`."""
        return self.count

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        first = inputs[0]
        distinct_axes("Concatenate", "axis", (self.axis,), first.rank)
        shape = list(first.shape)
        for index, x in enumerate(inputs[1:], 1):
            if x.dtype is not first.dtype:
                raise DTypeError(
                    f"Concatenate: x0 and x{index} must have the same dtype, got {first} and {x}"
                )
            if x.rank != first.rank:
                raise ShapeError(
                    f"Concatenate: x0 and x{index} must have the same rank, got {first} and {x}"
                )
            for axis in range(first.rank):
                if axis == self.axis:
                    shape[axis] = shape[axis] + x.shape[axis]
                else:
                    what = f"axis {axis} of x0 ({first}) and x{index} ({x})"
                    shape[axis] = same_extent(
                        "Concatenate", what, shape[axis], x.shape[axis], guards
                    )
        joined = shape[self.axis]
        if isinstance(joined, int) and joined >= 1 << 63:
            # Checked here with Python's integers, because NumPy's sum of extents would wrap around.
            raise ShapeError(
                f"Concatenate: the extents along axis {self.axis} add up to {joined}; an extent is at most 2^63 - 1"
            )
        return (TensorSpec.of(tuple(shape), first.dtype),)


@card
class Reverse(StdTensorOp):
    """Reverse the order along axes: y[.., i, ..] = x[.., d - 1 - i, ..].

    Shapes:  x S -> S
    Dtypes:  every dtype
    AD:      linear; the op is its own transpose
    Errors:  AxisError unless axes are distinct axes of x
    """

    axes: tuple[int, ...]

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        normalize(self, axes=as_ints("Reverse", "axes", self.axes))

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        distinct_axes("Reverse", "axes", self.axes, inputs[0].rank)
        return inputs


@card
class ExtractDiag(StdTensorOp):
    """Extract a diagonal: y[.., i, ..] = x[.., i, .., i, ..], where the two indices i are those of axis_a and axis_b.

    Axis axis_b is removed, and axis_a becomes the diagonal. In y the number of axis_a is lower by one if axis_b
    preceded it.

    Shapes:  x with equal extents on both axes -> y without axis_b
    Dtypes:  every dtype
    AD:      linear; its transpose is EmbedDiag
    Lowers:  stablehlo.gather of the diagonal
    Errors:  ShapeError unless the extents agree; AxisError unless the axes differ
    Source:  docs/specification/primitives.md

    >>> ExtractDiag(0, 2).infer(TensorSpec.parse("f64[3,4,3]"))
    (f64[3,4],)
    """

    axis_a: int
    axis_b: int

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        _normalize_pair(self, "ExtractDiag")

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        distinct_axes("ExtractDiag", "axes", (self.axis_a, self.axis_b), x.rank)
        what = f"axes {self.axis_a} and {self.axis_b} of {x}"
        shape = list(x.shape)
        shape[self.axis_a] = same_extent(
            "ExtractDiag", what, shape[self.axis_a], shape[self.axis_b], guards
        )
        del shape[self.axis_b]
        return (TensorSpec.of(tuple(shape), x.dtype),)


@card
class EmbedDiag(StdTensorOp):
    """Write the elements of an axis to a diagonal: y[.., i, .., j, ..] = x[.., i, ..] where i = j, else 0.

    The op is the adjoint of `ExtractDiag` with the same axes. In y, i is the index of axis_a, and j the index of the
    new axis axis_b.

    Shapes:  x of rank r -> y of rank r + 1 with equal extents on axis_a and axis_b
    Dtypes:  every dtype
    AD:      linear; its transpose is ExtractDiag
    Lowers:  broadcast, compare with the diagonal's mask, select
    Errors:  AxisError unless the axes are two different axes of y

    >>> EmbedDiag(0, 2).infer(TensorSpec.parse("f64[3,4]"))
    (f64[3,4,3],)
    """

    axis_a: int
    axis_b: int

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        _normalize_pair(self, "EmbedDiag")

    @property
    def input_axis(self) -> int:
        """The axis of x that becomes the diagonal."""
        return self.axis_a - (self.axis_b < self.axis_a)

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        distinct_axes("EmbedDiag", "axes", (self.axis_a, self.axis_b), x.rank + 1)
        shape = list(x.shape)
        shape.insert(self.axis_b, x.shape[self.input_axis])
        return (TensorSpec.of(tuple(shape), x.dtype),)


def _normalize_pair(op: Any, name: str) -> None:
    normalize(
        op, axis_a=as_int(name, "axis_a", op.axis_a, 0), axis_b=as_int(name, "axis_b", op.axis_b, 0)
    )
    if op.axis_a == op.axis_b:
        raise AxisError(f"{name}: axis_a and axis_b are both {op.axis_a}")


@card
class Triangle(StdTensorOp):
    """Base class of `Tril` and `Triu`, which set one side of diagonal k of the last two axes to zero.

    |k| must be at most 2^62, which exceeds every extent, so that k plus the number of a row fits into int64.
    """

    k: int = 0

    def __post_init__(self) -> None:
        normalize(self, k=as_int(self.name, "k", self.k, -(1 << 62), 1 << 62))

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        if inputs[0].rank < 2:
            raise ShapeError(f"{self.name}: needs two axes, got {inputs[0]}")
        return inputs


class Tril(Triangle):
    """The lower triangle of the last two axes: y[.., i, j] = x[.., i, j] where j <= i + k, else 0.

    Shapes:  x S -> S, of rank at least 2
    Dtypes:  every dtype
    AD:      linear; the op is its own transpose
    Lowers:  compare of two iotas, select
    Errors:  ShapeError on a lower rank; InvalidConfigError for k beyond 2^62
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ANY


class Triu(Triangle):
    """Upper triangle of the last two axes: y[.., i, j] = x[.., i, j] where j >= i + k, else 0.

    Shapes:  x S -> S, of rank at least 2
    Dtypes:  every dtype
    AD:      linear; the op is its own transpose
    Lowers:  compare of two iotas, select
    Errors:  ShapeError on a lower rank; InvalidConfigError for k beyond 2^62
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ANY


@card
class OptimizationBarrier(StdTensorOp):
    """The operands, returned unchanged through a barrier for compilers.

    Compilers do not merge computations on the results with other computations, and the results become available only
    after all operands were computed. Rematerialisation depends on both properties.

    Shapes:  x0 S0, .. -> S0, ..
    Dtypes:  every dtype, each operand its own
    AD:      tangents are passed unchanged
    Errors:  InvalidConfigError unless count is at least 1
    """

    count: int = 1

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        normalize(self, count=as_int("OptimizationBarrier", "count", self.count, 1))

    @property
    def input_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it depends on the payload
        """The number of operands, `count`."""
        return self.count

    @property
    def output_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it depends on the payload
        """The number of outputs, which is also `count`."""
        return self.count

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        return inputs


CARDS = (
    Transpose,
    Reshape,
    BroadcastInDim,
    Slice,
    Pad,
    Concatenate,
    Reverse,
    ExtractDiag,
    EmbedDiag,
    Tril,
    Triu,
    OptimizationBarrier,
)
