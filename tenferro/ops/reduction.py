"""Ops that combine the elements along axes: reductions, argmax and argmin, cumulative ops, and sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tenferro.dims import GuardLog, at_least
from tenferro.errors import ShapeError
from tenferro.ops import elementwise as el
from tenferro.ops.op import StdTensorOp, card, normalize
from tenferro.rules.dtypes import ANY, BOOL, INTEGERS, NUMERIC, ORDERED, require_dtype
from tenferro.rules.payload import as_bool, as_int, as_ints, distinct_axes
from tenferro.rules.shapes import same_shape, without_axes
from tenferro.types import DType, TensorSpec

__all__ = [
    "CARDS",
    "ArgMax",
    "ArgMin",
    "CumMax",
    "CumMin",
    "CumProd",
    "CumSum",
    "ReduceAnd",
    "ReduceMax",
    "ReduceMin",
    "ReduceOr",
    "ReduceProd",
    "ReduceSum",
    "Sort",
    "TopK",
]


def least(dtype: DType) -> Any:
    """Return the least value of a real dtype: -inf if the dtype has infinities."""
    return dtype.extremes[0]


def largest(dtype: DType) -> Any:
    """Return the largest value of a real dtype: inf if the dtype has infinities."""
    return dtype.extremes[1]


def _all_bits(dtype: DType) -> Any:
    return True if dtype.is_bool else ~np.zeros((), dtype.dtype)


@card
class Reduction(StdTensorOp):
    """Base class of reductions: all elements along `axes` are combined, and the axes are removed.

    Errors:  AxisError unless axes are distinct axes of x; DTypeError on another dtype
    """

    combiner: ClassVar[type[StdTensorOp]]
    """The binary op that combines two elements."""
    identity: ClassVar[Callable[[DType], Any]]
    """Function of a dtype that returns the result of the reduction over no elements."""
    axes: tuple[int, ...]

    def __post_init__(self) -> None:
        normalize(self, axes=tuple(sorted(as_ints(self.name, "axes", self.axes))))
        distinct_axes(self.name, "axes", self.axes)

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        require_dtype(self.name, "x", x.dtype, self.accepts)
        distinct_axes(self.name, "axes", self.axes, x.rank)
        return (TensorSpec.of(without_axes(x.shape, self.axes), x.dtype),)


@card
class ArgReduction(StdTensorOp):
    """Base class of ops that return an index along one axis, and remove the axis."""

    axis: int

    def __post_init__(self) -> None:
        normalize(self, axis=as_int(self.name, "axis", self.axis, 0))

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        require_dtype(self.name, "x", x.dtype, self.accepts)
        distinct_axes(self.name, "axis", (self.axis,), x.rank)
        extent = x.shape[self.axis]
        if isinstance(extent, int) and extent == 0:
            raise ShapeError(f"{self.name}: axis {self.axis} of {x} is empty and has no winner")
        guards.require(extent, ">=", 1, f"{self.name}: axis {self.axis}")
        return (TensorSpec.of(without_axes(x.shape, (self.axis,)), DType.I64),)


@card
class Scan(StdTensorOp):
    """Base class of cumulative ops: element i of the result combines elements 0 .. i of x along an axis.

    With `reverse`, it combines elements i .. n - 1.

    Errors:  AxisError outside the rank; DTypeError on another dtype
    """

    combiner: ClassVar[type[StdTensorOp]]
    """The binary op that combines two elements."""
    axis: int
    reverse: bool = False

    def __post_init__(self) -> None:
        normalize(
            self,
            axis=as_int(self.name, "axis", self.axis, 0),
            reverse=as_bool(self.name, "reverse", self.reverse),
        )

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        require_dtype(self.name, "x", x.dtype, self.accepts)
        distinct_axes(self.name, "axis", (self.axis,), x.rank)
        return inputs


class ReduceSum(Reduction):
    """Sum over axes; 0 if there are no elements. float16 and bfloat16 are summed in float32.

    Shapes:  x S -> S without `axes`; no axes leave x as it is
    Dtypes:  every integer, float and complex dtype
    AD:      linear; its transpose broadcasts
    Lowers:  stablehlo.reduce with add
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = NUMERIC
    combiner = el.Add
    identity = staticmethod(lambda _: 0)


class ReduceProd(Reduction):
    """Product over axes; 1 if there are no elements. float16 and bfloat16 are multiplied in float32.

    Shapes:  x S -> S without `axes`; no axes leave x as it is
    Dtypes:  every integer, float and complex dtype
    AD:      rule, which is also right where elements are zero
    Lowers:  stablehlo.reduce with multiply
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = NUMERIC
    combiner = el.Multiply
    identity = staticmethod(lambda _: 1)


class ReduceMax(Reduction):
    """Largest element over axes; NaN if an element is NaN; over no elements, the smallest value of the dtype.

    The native maximum of 0.0 and -0.0 is 0.0. XLA may return either, because StableHLO leaves the order of operands
    open.

    Shapes:  x S -> S without `axes`; no axes leave x as it is
    Dtypes:  every real dtype, and bool
    AD:      the mean of the tangents of all elements that equal the result
    Lowers:  stablehlo.reduce with maximum
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ORDERED
    combiner = el.Maximum
    identity = staticmethod(least)


class ReduceMin(Reduction):
    """Smallest element over axes; NaN if an element is NaN; over no elements, the largest value of the dtype.

    The native minimum of 0.0 and -0.0 is -0.0. XLA may return either, because StableHLO leaves the order of operands
    open.

    Shapes:  x S -> S without `axes`; no axes leave x as it is
    Dtypes:  every real dtype, and bool
    AD:      the mean of the tangents of all elements that equal the result
    Lowers:  stablehlo.reduce with minimum
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ORDERED
    combiner = el.Minimum
    identity = staticmethod(largest)


class ReduceAnd(Reduction):
    """Bitwise and over axes, logical on bool; all bits set if there are no elements.

    Shapes:  x S -> S without `axes`; no axes leave x as it is
    Dtypes:  bool and every integer dtype
    AD:      inactive
    Lowers:  stablehlo.reduce with and
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = BOOL | INTEGERS
    combiner = el.And
    identity = staticmethod(_all_bits)


class ReduceOr(Reduction):
    """Bitwise or over axes, logical on bool; 0 if there are no elements.

    Shapes:  x S -> S without `axes`; no axes leave x as it is
    Dtypes:  bool and every integer dtype
    AD:      inactive
    Lowers:  stablehlo.reduce with or
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = BOOL | INTEGERS
    combiner = el.Or
    identity = staticmethod(lambda _: 0)


class ArgMax(ArgReduction):
    """Index of the first largest element along an axis, as int64. If there are NaNs, it is the index of the first NaN.

    Shapes:  x S -> S without `axis`
    Dtypes:  every real dtype, and bool; int64 out
    AD:      inactive
    Lowers:  stablehlo.reduce over values and indices
    Errors:  ShapeError on an empty axis; AxisError outside the rank; DTypeError on complex
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ORDERED


class ArgMin(ArgReduction):
    """Index of the first smallest element along an axis, as int64. If there are NaNs, it is the index of the first NaN.

    Shapes:  x S -> S without `axis`
    Dtypes:  every real dtype, and bool; int64 out
    AD:      inactive
    Lowers:  stablehlo.reduce over values and indices
    Errors:  ShapeError on an empty axis; AxisError outside the rank; DTypeError on complex
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ORDERED


class CumSum(Scan):
    """Cumulative sum along an axis; float16 and bfloat16 are summed in float32.

    Result i is the sum of elements 0 .. i or, with `reverse`, of elements i .. n - 1.

    Shapes:  x S -> S
    Dtypes:  every integer, float and complex dtype
    AD:      linear; its transpose is the cumulative sum in the opposite direction
    Lowers:  stablehlo.reduce_window, with a window of all preceding elements
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = NUMERIC
    combiner = el.Add


class CumProd(Scan):
    """Cumulative product along an axis; float16 and bfloat16 are multiplied in float32.

    Result i is the product of elements 0 .. i or, with `reverse`, of elements i .. n - 1.

    Shapes:  x S -> S
    Dtypes:  every integer, float and complex dtype
    AD:      rule
    Lowers:  stablehlo.reduce_window, with a window of all preceding elements
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = NUMERIC
    combiner = el.Multiply


class CumMax(Scan):
    """Cumulative maximum along an axis. All elements from the first NaN on are NaN.

    Result i is the maximum of elements 0 .. i or, with `reverse`, of elements i .. n - 1.

    Shapes:  x S -> S
    Dtypes:  every real dtype, and bool
    AD:      to the latest winner
    Lowers:  stablehlo.reduce_window, with a window of all preceding elements
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ORDERED
    combiner = el.Maximum


class CumMin(Scan):
    """Cumulative minimum along an axis. All elements from the first NaN on are NaN.

    Result i is the minimum of elements 0 .. i or, with `reverse`, of elements i .. n - 1.

    Shapes:  x S -> S
    Dtypes:  every real dtype, and bool
    AD:      to the latest winner
    Lowers:  stablehlo.reduce_window, with a window of all preceding elements
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ORDERED
    combiner = el.Minimum


@card
class Sort(StdTensorOp):
    """Sort along an axis: all `count` operands are reordered so that the first operand, the key, is in ascending order.

    NaN comes last; -0.0 and 0.0 are equal; complex numbers are ordered by real part, then by imaginary part; False
    comes before True. With `stable`, elements with equal keys keep their order. Native execution always keeps it.

    Shapes:  x0 S, .. of one shape -> as many of that shape
    Dtypes:  every dtype, and each operand its own
    AD:      linear for a fixed order: each tangent is reordered like its operand
    Lowers:  stablehlo.sort with a comparator
    Errors:  ShapeError unless the operands have one shape; AxisError outside the rank

    >>> Sort(0, True, 2).infer(TensorSpec.parse("f64[3]"), TensorSpec.parse("i64[3]"))
    (f64[3], i64[3])
    """

    axis: int
    stable: bool = True
    count: int = 1

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        normalize(
            self,
            axis=as_int("Sort", "axis", self.axis, 0),
            stable=as_bool("Sort", "stable", self.stable),
            count=as_int("Sort", "count", self.count, 1),
        )

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
        distinct_axes("Sort", "axis", (self.axis,), inputs[0].rank)
        shape = inputs[0].shape
        for index, operand in enumerate(inputs[1:], 1):
            shape = same_shape("Sort", ("x0", inputs[0]), (f"x{index}", operand), guards)
        return tuple(TensorSpec.of(shape, x.dtype) for x in inputs)


@card
class TopK(StdTensorOp):
    """The k largest elements along the last axis, in descending order, and their indices.

    NaN counts as largest. Among equal elements, the element with the lower index comes first.

    Shapes:  x [.., d] -> values [.., k], indices [.., k]
    Dtypes:  every real dtype, and bool; indices int64
    AD:      linear for a fixed choice of elements: the tangent is gathered at the indices
    Lowers:  stablehlo.sort of values and indices, then stablehlo.slice
    Errors:  ShapeError unless x has an axis and k <= d; DTypeError on complex
    Source:  CHLO dialect, top_k
    """

    k: int

    accepts: ClassVar[frozenset[DType]] = ORDERED
    output_count: ClassVar[Any] = 2

    def __post_init__(self) -> None:
        normalize(self, k=as_int("TopK", "k", self.k, 0))

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        (x,) = inputs
        require_dtype("TopK", "x", x.dtype, self.accepts)
        extent: Any = x.shape[-1] if x.shape else 0
        decided = at_least(extent, self.k)
        if not x.shape or decided is False:
            raise ShapeError(f"TopK: the last axis of {x} has fewer than {self.k} elements")
        if decided is None:
            guards.require(extent, ">=", self.k, "TopK: the last axis")
        shape = (*x.shape[:-1], self.k)
        return (TensorSpec.of(shape, x.dtype), TensorSpec.of(shape, DType.I64))


CARDS = (
    ReduceSum,
    ReduceProd,
    ReduceMax,
    ReduceMin,
    ReduceAnd,
    ReduceOr,
    ArgMax,
    ArgMin,
    CumSum,
    CumProd,
    CumMax,
    CumMin,
    Sort,
    TopK,
)
