"""Reductions over windows and over axes, and cumulative reductions, with jax.lax's names.

A window reduction gathers windows along new axes, and reduces these axes. Its derivative is that of the reduction. For
example, elements that equal the maximum of a window share the derivative equally.

Source: jax.lax; StableHLO spec #reduce_window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenferro.api.axes import normalize_axes, normalize_axis
from tenferro.api.compile import compile
from tenferro.api.control import associative_scan
from tenferro.api.logarithms import logaddexp
from tenferro.api.manipulation import concat, expand_dims, moveaxis, reshape, squeeze
from tenferro.api.promotion import broadcast_to, convert
from tenferro.dims import is_static
from tenferro.dispatch import apply_one, as_operand, is_traced, spec_of
from tenferro.errors import (
    DTypeError,
    InvalidConfigError,
    NonStaticShapeError,
    ShapeError,
    TenferroError,
    UnsupportedError,
)
from tenferro.lax.convolution import dilated, padtype_to_pads
from tenferro.lax.operands import axis_list, same_dtype
from tenferro.ops import elementwise as el
from tenferro.ops import reduction as ops
from tenferro.ops.op import StdTensorOp
from tenferro.ops.structural import Pad, Slice
from tenferro.types import ArrayLike, DType, DTypeLike, Tensor, TensorSpec

__all__ = [
    "argmax",
    "argmin",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "reduce",
    "reduce_and",
    "reduce_max",
    "reduce_min",
    "reduce_or",
    "reduce_prod",
    "reduce_sum",
    "reduce_window",
    "reduce_xor",
]


# ---- recognised combinations ---------------------------------------------------------------


_REDUCTIONS: dict[type[StdTensorOp], type[ops.Reduction]] = {
    card.combiner: card for card in ops.CARDS if issubclass(card, ops.Reduction)
}
"""Maps the class of a binary op to the reduction over axes that it defines: `Add` to `ReduceSum`."""


def _combiner(name: str, computation: Callable[[Any, Any], Any], dtype: DType) -> StdTensorOp:
    """Return the binary op that computes the same function as `computation`, a function of two scalars.

    Raises:
        UnsupportedError: the function is not one of the ops in `_REDUCTIONS`.
    """
    shown = getattr(computation, "__name__", repr(computation))
    scalar = TensorSpec.of((), dtype)
    try:
        program = compile(computation, scalar, scalar)
    except (TenferroError, TypeError, ValueError) as error:
        raise UnsupportedError(f"{_refusal(name, shown)}: {error}") from error
    if len(program.instructions) == 1:
        (only,) = program.instructions
        is_of_both = set(only.inputs) == {0, 1}
        if type(only.op) in _REDUCTIONS and is_of_both:
            return only.op
    raise UnsupportedError(_refusal(name, shown))


def _refusal(name: str, shown: str) -> str:
    return (
        f"lax.{name}: computation is a sum, product, maximum, minimum, and or or of two numbers (lax.add, "
        f"operator.mul, np.maximum, a lambda of them, ..), which {shown} is not"
    )


def _identity(op: StdTensorOp, dtype: DType) -> Any:
    return convert(_REDUCTIONS[type(op)].identity(dtype), dtype)


def _with_initial_value(op: StdTensorOp, start: Tensor, result: Any) -> Any:
    """Combine the result of a reduction with the initial value `start`, unless `start` is the identity of the op."""
    identity = _identity(op, spec_of(result).dtype)
    if not is_traced(start) and start == identity:
        return result
    return apply_one(op, broadcast_to(start, result.shape), result)


def _one_pair(name: str, operand: ArrayLike, init_value: ArrayLike) -> tuple[Any, Any]:
    """Convert an operand and its initial value, which must have rank 0, to one dtype.

    Raises:
        UnsupportedError: there are several operands.
        ShapeError, DTypeError: the initial value has another rank or dtype.
    """
    if isinstance(operand, tuple | list | dict):
        raise UnsupportedError(f"lax.{name}: takes one operand, not a tree; reduce each by itself")
    x, start = same_dtype(name, as_operand(operand), init_value)
    if start.shape:
        raise ShapeError(f"lax.{name}: the initial value must have rank 0, got {spec_of(start)}")
    return x, start


def reduce(
    operands: ArrayLike,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
) -> Any:
    """Combine all elements along axes, beginning with `init_values`.

    Args:
        operands: one tensor.
        init_values: a scalar.
        computation: a function of two scalars: sum, product, maximum, minimum, `and` or `or`.

    Raises:
        UnsupportedError: `computation` is none of these functions, or there are several operands.
        ShapeError, DTypeError: the initial value has another rank or dtype, or an axis is outside the rank.

    >>> import numpy as np
    >>> reduce(np.arange(6.0).reshape(2, 3), 10.0, lambda a, b: a + b, (1,))
    array([13., 22.])
    """
    x, start = _one_pair("reduce", operands, init_values)
    axes = normalize_axes("lax.reduce", axis_list("reduce", "dimensions", dimensions), len(x.shape))
    op = _combiner("reduce", computation, spec_of(x).dtype)
    reduction = _REDUCTIONS[type(op)]
    return _with_initial_value(op, start, apply_one(reduction(axes), x))


def reduce_window(
    operand: ArrayLike,
    init_value: ArrayLike,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Combine the elements of each window, beginning with `init_value`, which also pads the operand.

    float16 and bfloat16 are added and multiplied in float32. If several elements of a window equal its maximum, they
    share the derivative equally.

    Args:
        computation: a function of two scalars: sum, product, maximum, minimum, `and` or `or`.
        window_dimensions: the extent of the window along every axis; 1 along the axes of batch and features.
        window_strides: the distance between neighbouring windows along every axis; None stands for 1.
        padding: a name, as in `padtype_to_pads`, or a pair of numbers for every axis.
        base_dilation: the distance between neighbouring elements of the operand after `init_value` is inserted.
        window_dilation: the distance between neighbouring elements of a window.

    Raises:
        UnsupportedError: `computation` is none of these functions, or there are several operands.
        InvalidConfigError, ShapeError, DTypeError: an argument does not have one number per axis, or the initial value
            has another rank or dtype.

    >>> import numpy as np
    >>> reduce_window(np.array([1.0, 5.0, 2.0, 4.0]), -np.inf, np.maximum, (2,), (2,))
    array([5., 4.])
    """
    x, start = _one_pair("reduce_window", operand, init_value)
    rank = len(x.shape)
    sizes, strides, gaps, holes = (
        _numbers(what, numbers, rank)
        for what, numbers in (
            ("window_dimensions", window_dimensions),
            ("window_strides", window_strides),
            ("base_dilation", base_dilation),
            ("window_dilation", window_dilation),
        )
    )
    op = _combiner("reduce_window", computation, spec_of(x).dtype)
    pads = padding if isinstance(padding, str) else [tuple(pair) for pair in padding]
    if not isinstance(pads, str) and len(pads) != rank:
        raise InvalidConfigError(
            f"lax.reduce_window: padding must have a pair for each axis of {spec_of(x)}, got {padding!r}"
        )
    return windows_combined(op, x, start, sizes, strides, pads, gaps, holes)


def windows_combined(
    op: StdTensorOp,
    x: Any,
    start: ArrayLike,
    sizes: Sequence[int],
    strides: Sequence[int],
    padding: Any,
    gaps: Sequence[int],
    holes: Sequence[int],
) -> Any:
    """Compute `reduce_window` for the binary op `op`. Sizes, strides and dilations have a number for every axis."""
    dtype, rank, pads = spec_of(x).dtype, len(x.shape), padding
    if isinstance(padding, str):
        extents = [dilated(extent, gap) for extent, gap in zip(x.shape, gaps, strict=True)]
        reach = [dilated(size, hole) for size, hole in zip(sizes, holes, strict=True)]
        pads = padtype_to_pads(extents, reach, strides, padding)
    work = dtype.accumulator if isinstance(op, el.Add | el.Multiply) else dtype
    x, start = convert(x, work), convert(start, work)
    if any(low or high for low, high in pads) or any(gap > 1 for gap in gaps):
        low, high = zip(*pads, strict=True)
        x = apply_one(Pad(low, high, tuple([gap - 1 for gap in gaps])), x, start)
    wide = [axis for axis in range(rank) if sizes[axis] != 1 or strides[axis] != 1]
    for axis in wide:
        x = _windows_along(x, axis, sizes[axis], strides[axis], holes[axis])
    reduction = _REDUCTIONS[type(op)]
    y = apply_one(reduction(tuple(range(rank, rank + len(wide)))), x) if wide else x
    return convert(_with_initial_value(op, start, y), dtype)


def _numbers(what: str, numbers: Any, rank: int) -> tuple[int, ...]:
    if numbers is None and what != "window_dimensions":
        return (1,) * rank
    if (
        not isinstance(numbers, tuple | list)
        or len(numbers) != rank
        or any(not isinstance(n, int | np.integer) or n < 1 for n in numbers)
    ):
        raise InvalidConfigError(
            f"lax.reduce_window: {what} must have a number of at least 1 for each of {rank} axes, got {numbers!r}"
        )
    return tuple([int(n) for n in numbers])


def _windows_along(x: Any, axis: int, size: int, stride: int, hole: int) -> Any:
    """Return x with windows along `axis` in place of elements, and the elements of a window on a new last axis."""
    extent = x.shape[axis]
    reach = dilated(size, hole)
    if not is_static(extent):
        if stride != 1:
            raise NonStaticShapeError(
                f"lax.reduce_window: axis {axis} of {spec_of(x)} has a symbolic extent, along which windows can "
                "only move by 1"
            )
        count = extent - reach + 1
    else:
        count = 0 if extent < reach else (extent - reach) // stride + 1
    if is_static(count) and count and hole == 1 and (stride == size or count == 1):
        # Windows that are adjacent and do not overlap are separated by a reshape, without a gather.
        x = _strided(x, axis, 0, count * size, 1)
        shape = tuple(x.shape)
        x = reshape(x, (*shape[:axis], count, size, *shape[axis + 1 :]))
        return moveaxis(x, axis + 1, -1)
    parts = [
        _strided(x, axis, k * hole, k * hole + (count - 1) * stride + 1, stride)
        if not is_static(count) or count
        else _strided(x, axis, 0, 0, 1)
        for k in range(size)
    ]
    return concat([expand_dims(part, axis=len(x.shape)) for part in parts], axis=-1)


def _strided(x: Any, axis: int, start: ArrayLike, limit: ArrayLike, stride: int) -> Any:
    """Return x[start:limit:stride] along one axis."""
    starts: list[Any] = [0] * len(x.shape)
    limits, strides = list(x.shape), [1] * len(x.shape)
    if start == 0 and limit == limits[axis] and stride == 1:
        return x
    starts[axis], limits[axis], strides[axis] = start, limit, stride
    return apply_one(Slice(tuple(starts), tuple(limits), tuple(strides)), x)


# ---- whole axes -------------------------------------------------------------------------------------


def _reduction(name: str, card: Any, formula: str, dtypes: str) -> Any:
    def function(operand: ArrayLike, axes: Sequence[int]) -> Any:
        x = as_operand(operand)
        named = axis_list(name, "axes", axes)
        return apply_one(card(normalize_axes(f"lax.{name}", named, len(x.shape))), x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{formula} over axes, in the operand's dtype.\n\nDtypes: {dtypes}.\n\n"
        "Raises:\n    AxisError, DTypeError: an axis is outside the rank or named twice, or the dtype is another one.\n"
    )
    return function


reduce_sum = _reduction("reduce_sum", ops.ReduceSum, "The sum", "numeric")
reduce_prod = _reduction("reduce_prod", ops.ReduceProd, "The product", "numeric")
reduce_max = _reduction(
    "reduce_max",
    ops.ReduceMax,
    "The largest element (over no elements, the least number of the dtype)",
    "real",
)
reduce_min = _reduction(
    "reduce_min",
    ops.ReduceMin,
    "The smallest element (over no elements, the largest number of the dtype)",
    "real",
)
reduce_and = _reduction("reduce_and", ops.ReduceAnd, "Bitwise and", "bool and integers")
reduce_or = _reduction("reduce_or", ops.ReduceOr, "Bitwise or", "bool and integers")


def reduce_xor(operand: ArrayLike, axes: Sequence[int]) -> Any:
    """Return the bitwise exclusive or of the elements over axes, in the operand's dtype; 0 over no elements.

    Dtypes: bool and integers.

    Raises:
        AxisError, DTypeError: an axis is outside the rank or named twice, or the dtype is neither bool nor an integer.
        NonStaticShapeError: an axis has a symbolic extent.

    >>> import numpy as np
    >>> reduce_xor(np.array([1, 3, 4]), (0,))
    array(6)
    """
    x = as_operand(operand)
    named = axis_list("reduce_xor", "axes", axes)
    reduced = normalize_axes("lax.reduce_xor", named, len(x.shape))
    if not all(is_static(x.shape[axis]) for axis in reduced):
        raise NonStaticShapeError(f"lax.reduce_xor: needs known extents, got {spec_of(x)}")
    for axis in sorted(reduced, reverse=True):
        x = _xor_along(moveaxis(x, axis, 0))
    return x


def _xor_along(x: Any) -> Any:
    """Return the exclusive or of all slices of x along its first axis, by repeatedly combining its two halves."""
    if not x.shape[0]:
        return broadcast_to(convert(0, spec_of(x).dtype), tuple(x.shape[1:]))
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        pairs = apply_one(el.Xor(), x[:half], x[half : 2 * half])
        x = concat([pairs, x[2 * half :]], axis=0) if x.shape[0] % 2 else pairs
    return squeeze(x, axis=0)


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike | None) -> Any:
    """Return the index of the first largest element along `axis`, or of the first NaN, in `index_dtype`.

    Raises:
        ShapeError, AxisError, DTypeError: the axis is empty or outside the rank, or the operand is complex.
    """
    return _arg_reduction("argmax", ops.ArgMax, operand, axis, index_dtype)


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike | None) -> Any:
    """Return the index of the first smallest element along `axis`, or of the first NaN, in `index_dtype`.

    Raises:
        ShapeError, AxisError, DTypeError: the axis is empty or outside the rank, or the operand is complex.
    """
    return _arg_reduction("argmin", ops.ArgMin, operand, axis, index_dtype)


def _arg_reduction(
    name: str, card: Any, operand: ArrayLike, axis: int, index_dtype: DTypeLike | None
) -> Any:
    x, dtype = as_operand(operand), DType.of(index_dtype)
    if not dtype.is_integer:
        raise DTypeError(f"lax.{name}: index_dtype must be an integer dtype, got {dtype}")
    return convert(apply_one(card(normalize_axis(f"lax.{name}", axis, len(x.shape))), x), dtype)


# ---- cumulative ----------------------------------------------------------------------------------------


def _running(name: str, card: Any, formula: str, dtypes: str) -> Any:
    def function(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Any:
        x = as_operand(operand)
        return apply_one(card(normalize_axis(f"lax.{name}", axis, len(x.shape)), bool(reverse)), x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{formula} of the elements up to and including each element along `axis`, in the operand's dtype.\n\n"
        f"Args:\n    reverse: use the elements from each element to the end instead.\n\nDtypes: {dtypes}.\n\n"
        "Raises:\n    AxisError, DTypeError: the axis is outside the rank, or the dtype is another one.\n"
    )
    return function


cumsum = _running("cumsum", ops.CumSum, "Sums", "numeric")
cumprod = _running("cumprod", ops.CumProd, "Products", "numeric")
cummax = _running("cummax", ops.CumMax, "Maxima", "real")
cummin = _running("cummin", ops.CumMin, "Minima", "real")


def cumlogsumexp(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Any:
    """Compute log(sum of e^x) over the elements up to and including each element along `axis`, without overflow.

    Args:
        reverse: sum from each element to the end of the axis instead.

    Raises:
        AxisError, DTypeError: the axis is outside the rank, or the operand is not a float.

    >>> import numpy as np
    >>> cumlogsumexp(np.array([1000.0, 1000.0]))
    array([1000.        , 1000.69314718])
    """
    x = as_operand(operand)
    if not spec_of(x).dtype.is_float:
        raise DTypeError(f"lax.cumlogsumexp: the operand must be float, got {spec_of(x)}")
    axis = normalize_axis("lax.cumlogsumexp", axis, len(x.shape))
    return associative_scan(logaddexp, x, reverse=bool(reverse), axis=axis)
