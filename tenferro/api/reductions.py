"""Reductions and cumulative functions of the Array API, such as `sum`, `max`, `any` and `cumulative_sum`.

Source: Array API standard 2024.12, sections "Statistical functions" and "Utility functions".
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tenferro.api.arguments import refuse
from tenferro.api.axes import normalize_axes, normalize_axis
from tenferro.api.creation import full, shape_of
from tenferro.api.elementwise import (
    add,
    conj,
    divide,
    equal,
    imag,
    isnan,
    logical_and,
    logical_or,
    maximum,
    minimum,
    multiply,
    not_equal,
    real,
    sqrt,
    subtract,
)
from tenferro.api.elementwise import where as where_else
from tenferro.api.manipulation import concat, expand_dims, flattened, reshape, slice_axis
from tenferro.api.planned import planned
from tenferro.api.promotion import broadcast_to, convert
from tenferro.dims import is_static
from tenferro.dispatch import apply_one, as_operand, is_traced, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.ops import reduction as ops
from tenferro.ops.elementwise import Complex
from tenferro.types import ArrayLike, DType, DTypeLike, Tensor

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]

from tenferro.types import Axis


def _reduced(op: type[Any], name: str, x: Tensor, axis: Axis, keepdims: bool) -> Any:
    axes = normalize_axes(name, axis, len(x.shape))
    result = apply_one(op(axes), x)
    return _with_reduced_axes(result, x, axes) if keepdims else result


def _with_reduced_axes(result: Tensor, x: Tensor, axes: tuple[int, ...]) -> Any:
    """Insert the reduced axes of x into the result of a reduction, with extent 1."""
    return reshape(result, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))


def _masked(x: Tensor, condition: ArrayLike, identity: ArrayLike) -> Any:
    """Replace the elements of x where `condition` is false by `identity`, which does not change the reduction."""
    return where_else(_truth(condition), x, convert(identity, spec_of(x).dtype))


def _truth(condition: ArrayLike) -> Any:
    return convert(as_operand(condition), DType.Bool)


def _sum_dtype(dtype: DType) -> DType:
    """Return the dtype of a sum. As in NumPy, small integers and bools are summed in 64 bits."""
    if dtype.is_bool or dtype.kind == "i":
        return DType.I64
    return DType.U64 if dtype.kind == "u" else dtype


@planned
def sum(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike = True,
) -> Any:  # fmt: skip
    """Sum over `axis`. Bools and integers narrower than 64 bits are summed in 64 bits.

    Args:
        dtype: the dtype to which the elements are converted before the sum. For dtype bool, the sum is `any`.
        initial: a number that is added to the sum.
        where: a mask of the elements to include. It broadcasts with `a`.

    Raises:
        AxisError: an axis is outside the rank.

    >>> sum([[1, 2], [3, 4]], 0), sum([1.0, 2.0], initial=10.0, where=[True, False])
    (array([4, 6]), array(11.))
    """
    if out is not None:
        refuse("sum", "out", out)
    x = as_operand(a)
    x = convert(x, _sum_dtype(spec_of(x).dtype) if dtype is None else DType.of(dtype))
    x = x if where is True else _masked(x, where, 0)
    if spec_of(x).dtype.is_bool:
        total = any(x, axis, keepdims=keepdims)
        return total if initial is None else logical_or(total, _truth(initial))
    total = _reduced(ops.ReduceSum, "sum", x, axis, keepdims)
    return total if initial is None else add(total, convert(initial, spec_of(total).dtype))


@planned
def prod(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike = True,
) -> Any:  # fmt: skip
    """Multiply over `axis`. Bools and integers narrower than 64 bits are multiplied in 64 bits.

    Arguments and errors are as for `sum`. For dtype bool, the product is `all`.

    >>> prod([[1, 2], [3, 4]], 0)
    array([3, 8])
    """
    if out is not None:
        refuse("prod", "out", out)
    x = as_operand(a)
    x = convert(x, _sum_dtype(spec_of(x).dtype) if dtype is None else DType.of(dtype))
    x = x if where is True else _masked(x, where, 1)
    if spec_of(x).dtype.is_bool:
        total = all(x, axis, keepdims=keepdims)
        return total if initial is None else logical_and(total, _truth(initial))
    total = _reduced(ops.ReduceProd, "prod", x, axis, keepdims)
    return total if initial is None else multiply(total, convert(initial, spec_of(total).dtype))


def _require_elements(name: str, x: Any, axis: Axis) -> None:
    for i in normalize_axes(name, axis, len(x.shape)):
        if not is_static(x.shape[i]):
            x.guards.require(x.shape[i], ">=", 1, f"{name} without initial=: axis {i}")
        elif x.shape[i] == 0:
            raise ShapeError(
                f"{name}: axis {i} of {spec_of(x)} is empty, and {name} has no identity; give initial="
            )


def _extreme(
    op: type[Any],
    name: str,
    pair: Any,
    x: Tensor,
    axis: Axis,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike,
) -> Any:
    """Compute the maximum or minimum of the elements of x that `where` includes, and of `initial`.

    Args:
        op: the reduction.
        pair: the function that computes the same extremum of two operands.
    """
    if spec_of(x).dtype.is_complex:
        reduced, pair = (
            functools.partial(_complex_extreme, op),
            functools.partial(_complex_pair, op),
        )
    else:
        reduced = functools.partial(_reduced, op)
    if initial is None:
        if where is not True:
            raise InvalidConfigError(f"{name}: where= needs initial=, as in NumPy")
        _require_elements(name, x, axis)
        return reduced(name, x, axis, keepdims)
    initial = convert(initial, spec_of(x).dtype)
    x = x if where is True else _masked(x, where, initial)
    if spec_of(x).size == 0:
        axes = normalize_axes(name, axis, len(x.shape))
        extents = [1 if i in axes else extent for i, extent in enumerate(x.shape)]
        out_shape = [extent for i, extent in enumerate(extents) if keepdims or i not in axes]
        return broadcast_to(initial, tuple(out_shape))
    return pair(reduced(name, x, axis, keepdims), initial)


def _complex_extreme(op: type[Any], name: str, x: Tensor, axis: Axis, keepdims: bool) -> Any:
    """Compute the extreme of complex elements in lexicographic order, real parts first, as NumPy does.

    The real and the imaginary parts are reduced over the elements that equal the extreme. All of these elements thus
    get an equal part of the derivative.
    """
    worst = -math.inf if op is ops.ReduceMax else math.inf
    axes = normalize_axes(name, axis, len(x.shape))
    parts = real(x), imag(x)
    attains: Any = True
    for part in parts:
        rest = where_else(attains, part, worst)
        attains = logical_and(attains, equal(rest, _reduced(op, name, rest, axes, True)))
    is_nan = logical_or(isnan(parts[0]), isnan(parts[1]))
    is_chosen = where_else(any(is_nan, axis=axes, keepdims=True), is_nan, attains)
    chosen = [where_else(is_chosen, part, worst) for part in parts]
    return apply_one(Complex(), *(_reduced(op, name, part, axes, keepdims) for part in chosen))


def _complex_pair(op: type[Any], x: Tensor, y: ArrayLike) -> Any:
    both = concat([expand_dims(z, axis=0) for z in (x, broadcast_to(y, x.shape))], axis=0)
    return _complex_extreme(op, "maximum", both, 0, False)


@planned
def max(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike = True
) -> Any:  # fmt: skip
    """Return the largest element over `axis`. The result is NaN if any element is NaN.

    Complex elements are ordered by their real parts, then by their imaginary parts, as in NumPy. If several elements
    are the largest, each gets an equal part of the derivative.

    Args:
        initial: a number that is also compared with the elements.
        where: a mask of the elements to include. It requires `initial`.

    Raises:
        ShapeError: an axis is empty, and `initial` is None. If the extent is symbolic, the program raises a GuardError.
        InvalidConfigError: `where` is passed without `initial`.

    >>> max([[1, 5], [3, 4]], 0), max([1, 2], initial=9)
    (array([3, 5]), array(9))
    """
    refuse("max", "out", out)
    return _extreme(ops.ReduceMax, "max", maximum, as_operand(a), axis, keepdims, initial, where)


@planned
def min(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike = True
) -> Any:  # fmt: skip
    """Return the smallest element over `axis`. The result is NaN if any element is NaN.

    Arguments and errors are as for `max`.

    >>> min([[1, 5], [3, 4]], 0)
    array([1, 4])
    """
    refuse("min", "out", out)
    return _extreme(ops.ReduceMin, "min", minimum, as_operand(a), axis, keepdims, initial, where)


amax, amin = max, min


@planned
def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Any:
    """Return whether every element over `axis` that `where` includes is nonzero.

    >>> all([[True, False], [True, True]], 1)
    array([False,  True])
    """
    refuse("all", "out", out)
    x = _truth(a)
    x = x if where is True else _masked(x, where, True)
    return _reduced(ops.ReduceAnd, "all", x, axis, keepdims)


@planned
def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Any:
    """Return whether some element over `axis` that `where` includes is nonzero.

    >>> any([[False, False], [True, False]], 1)
    array([False,  True])
    """
    refuse("any", "out", out)
    x = _truth(a)
    x = x if where is True else _masked(x, where, False)
    return _reduced(ops.ReduceOr, "any", x, axis, keepdims)


@planned
def count_nonzero(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """Count the nonzero elements over `axis`, as int64.

    >>> count_nonzero([[0, 2], [3, 4]], 0)
    array([1, 2])
    """
    return sum(_truth(a), axis=axis, keepdims=keepdims)


def _mean_dtype(dtype: DType) -> DType:
    return dtype if dtype.is_inexact else DType.F64


def _inexact(name: str, x: Tensor, dtype: DTypeLike | None) -> DType:
    """Return the dtype of a mean: `dtype`, which must be float or complex.

    The default is x's dtype, or float64 for integers.
    """
    dtype = _mean_dtype(spec_of(x).dtype) if dtype is None else DType.of(dtype)
    if not dtype.is_inexact:
        raise DTypeError(f"{name}: dtype must be float or complex, got {dtype}")
    return dtype


@planned
def mean(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
    *, where: ArrayLike = True,
) -> Any:  # fmt: skip
    """Compute the arithmetic mean over `axis` of the elements that `where` includes. Integers are averaged in float64.

    Raises:
        DTypeError: `dtype` is neither float nor complex.

    >>> mean([[1, 2], [3, 5]], 0), mean([1.0, 2.0, 9.0], where=[True, True, False])
    (array([2. , 3.5]), array(1.5))
    """
    if out is not None:
        refuse("mean", "out", out)
    x = as_operand(a)
    dtype = _inexact("mean", x, dtype)
    low = dtype.accumulator is not dtype
    total = sum(convert(x, dtype.accumulator), axis=axis, keepdims=keepdims, where=where)
    result = divide(total, _count(x, axis, total, where))
    return convert(result, dtype) if low else result


def _count(x: Tensor, axis: Axis, like: Tensor, where: ArrayLike = True) -> Any:
    """Count the elements of x over `axis` that `where` includes, in the dtype and shape of the result `like`."""
    if where is not True:
        is_included = broadcast_to(_truth(where), x.shape)
        number = convert(is_included, spec_of(like).dtype)
        return reshape(sum(number, axis=axis), like.shape)
    count: Any = 1
    for i in normalize_axes("mean", axis, len(x.shape)):
        extent = x.shape[i]
        if is_static(extent) and isinstance(count, int):
            count *= extent
        else:
            count = multiply(count, extent if is_static(extent) else shape_of(x, i))
    return convert(count, spec_of(like).dtype)


def var(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, ddof: ArrayLike = 0, keepdims: bool = False,
    *, where: ArrayLike = True, mean: ArrayLike | None = None, correction: float = 0.0,
) -> Any:  # fmt: skip
    """Compute the variance over `axis`: the sum of |x - mean|^2 divided by N - `correction`.

    Args:
        dtype: the dtype of the computation.
        ddof, correction: the number to subtract from N. NumPy calls it `ddof`, and the standard calls it `correction`.
        where: a mask of the elements to include.
        mean: the mean, if the caller has already computed it, with extent 1 for each axis in `axis`.

    Raises:
        InvalidConfigError: both `ddof` and `correction` are passed.
        DTypeError: `dtype` is neither float nor complex.

    >>> var([1.0, 2.0, 3.0]), var([1.0, 2.0, 3.0], ddof=1)
    (array(0.66666667), array(1.))
    """
    return convert(*_variance("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction))


def _variance(
    name: str, a: ArrayLike, axis: Axis, dtype: DTypeLike | None, out: None, ddof: ArrayLike, keepdims: bool, where: ArrayLike, centre: Any,
    correction: ArrayLike,
) -> tuple[Any, DType]:  # fmt: skip
    """Return the variance in the dtype of the computation, and the dtype to which the caller must round it."""
    refuse(name, "out", out)
    if ddof != 0 and correction != 0:
        raise InvalidConfigError(f"{name}: ddof and correction name one option; give one of them")
    correction = correction if ddof == 0 else ddof
    x = as_operand(a)
    dtype = _inexact(name, x, dtype)
    if spec_of(x).dtype.is_complex and not dtype.is_complex:
        raise DTypeError(f"{name}: dtype={dtype} would drop imaginary parts; give a complex dtype")
    x = convert(x, dtype.accumulator)
    centre = mean(x, axis=axis, keepdims=True, where=where) if centre is None else centre
    centred = subtract(x, centre)
    squares = real(multiply(conj(centred), centred))
    total = sum(squares, axis=axis, keepdims=keepdims, where=where)
    count = _count(x, axis, total, where)
    lost: Any = convert(correction, spec_of(total).dtype)
    if is_traced(count) or is_traced(lost):
        freedom = maximum(subtract(count, lost), 0.0)
    else:  # by NumPy, because an op on arrays would load the native executor
        freedom = np.maximum(np.subtract(count, lost), 0.0)
    return divide(total, freedom), dtype.real


def std(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, ddof: ArrayLike = 0, keepdims: bool = False,
    *, where: ArrayLike = True, mean: ArrayLike | None = None, correction: float = 0.0,
) -> Any:  # fmt: skip
    """Compute the standard deviation over `axis`, the square root of the variance.

    Where the result is 0, its derivative is 0. Arguments and errors are as for `var`.

    >>> std([1.0, 2.0, 3.0], correction=1)
    array(1.)
    """
    variance, dtype = _variance("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction)
    return convert(root(variance), dtype)


def root(total: Tensor) -> Any:
    """Compute the square root of a sum of squares. Its derivative at 0 is 0.

    At 0, the derivative 0 is a subgradient of the norm. The derivative of the square root is infinite there, and its
    product with the derivative 0 of the squares would be NaN.
    """
    if not is_traced(total):
        return sqrt(total)
    none = equal(total, 0)
    return where_else(none, 0.0, sqrt(where_else(none, 1.0, total)))


def _scan(
    op: type[Any], name: str, x: Tensor, axis: int | None, dtype: DTypeLike | None, identity: int, include_initial: bool
) -> Any:  # fmt: skip
    axis = normalize_axis(name, axis, len(x.shape))
    x = convert(x, _sum_dtype(spec_of(x).dtype) if dtype is None else DType.of(dtype))
    result = apply_one(op(axis), x)
    if not include_initial:
        return result
    first = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    return concat([full(first, identity, spec_of(x).dtype), result], axis=axis)


def _only_axis(name: str, x: Tensor, axis: int | None) -> int:
    """Return `axis`. If it is None, return the only axis of a vector."""
    if axis is None and len(x.shape) != 1:
        raise ShapeError(f"{name}: give axis= for {spec_of(x)}, whose rank is not 1")
    return 0 if axis is None else axis


@planned
def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None, include_initial: bool = False
) -> Any:  # fmt: skip
    """Compute inclusive sums along `axis`.

    Args:
        axis: the axis. It may be omitted for vectors.
        include_initial: whether the result begins with the empty sum, 0, and thus has one element more.

    Raises:
        ShapeError: `axis` is omitted, and x is not a vector.

    >>> cumulative_sum([1, 2, 3], include_initial=True)
    array([0, 1, 3, 6])
    """
    refuse("cumulative_sum", "out", out)
    x = as_operand(x)
    axis = _only_axis("cumulative_sum", x, axis)
    return _scan(ops.CumSum, "cumulative_sum", x, axis, dtype, 0, include_initial)


@planned
def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None, include_initial: bool = False
) -> Any:  # fmt: skip
    """Compute inclusive products along `axis`. Arguments and errors are as for `cumulative_sum`.

    >>> cumulative_prod([1, 2, 3])
    array([1, 2, 6])
    """
    refuse("cumulative_prod", "out", out)
    x = as_operand(x)
    axis = _only_axis("cumulative_prod", x, axis)
    return _scan(ops.CumProd, "cumulative_prod", x, axis, dtype, 1, include_initial)


@planned
def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Any:
    """Compute inclusive sums along `axis`. If `axis` is None, `a` is flattened first, as in NumPy.

    >>> cumsum([[1, 2], [3, 4]]), cumsum([[1, 2], [3, 4]], 0)
    (array([ 1,  3,  6, 10]), array([[1, 2],
           [4, 6]]))
    """
    refuse("cumsum", "out", out)
    x, axis = flattened(a, axis)
    return _scan(ops.CumSum, "cumsum", x, axis, dtype, 0, False)


@planned
def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Any:
    """Compute the product of the elements up to and including each position along `axis`.

    If `axis` is None, `a` is flattened first, as in NumPy.

    >>> cumprod([[1, 2], [3, 4]])
    array([ 1,  2,  6, 24])
    """
    refuse("cumprod", "out", out)
    x, axis = flattened(a, axis)
    return _scan(ops.CumProd, "cumprod", x, axis, dtype, 1, False)


def running_max(a: ArrayLike, axis: int = 0, dtype: DTypeLike | None = None) -> Any:
    """Compute the largest element up to each position along `axis`, as `np.maximum.accumulate` does.

    >>> running_max([3, 1, 4])
    array([3, 3, 4])
    """
    x, chosen = flattened(a, axis)
    x = x if dtype is None else convert(x, DType.of(dtype))
    return apply_one(ops.CumMax(normalize_axis("running_max", chosen, len(x.shape))), x)


def running_min(a: ArrayLike, axis: int = 0, dtype: DTypeLike | None = None) -> Any:
    """Compute the smallest element up to each position along `axis`, as `np.minimum.accumulate` does.

    >>> running_min([3, 1, 4])
    array([3, 1, 1])
    """
    x, chosen = flattened(a, axis)
    x = x if dtype is None else convert(x, DType.of(dtype))
    return apply_one(ops.CumMin(normalize_axis("running_min", chosen, len(x.shape))), x)


def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Any:
    """Compute differences of neighbours along `axis`, n times in succession.

    With too few elements, the result is empty.

    Args:
        prepend, append: elements to join before and after `a` along `axis`. A scalar is joined as one element along
            `axis`. If n is 0, both are ignored, and `a` is returned unchanged.

    Raises:
        InvalidConfigError: n is negative.

    >>> diff([1, 4, 9]), diff([1, 4, 9], 2), diff([1, 4], prepend=0)
    (array([3, 5]), array([2]), array([1, 3]))
    """
    if n < 0:
        raise InvalidConfigError(f"diff: n must be at least 0, got {n}")
    x = as_operand(a)
    axis = normalize_axis("diff", axis, len(x.shape))
    if n == 0:
        return x
    one = tuple(1 if i == axis else extent for i, extent in enumerate(x.shape))
    ends = [None if end is None else as_operand(end) for end in (prepend, append)]
    before, after = [end if end is None or end.shape else broadcast_to(end, one) for end in ends]
    pieces = [piece for piece in (before, x, after) if piece is not None]
    x = concat(pieces, axis=axis) if len(pieces) > 1 else x
    for _ in range(n):
        if is_static(x.shape[axis]) and x.shape[axis] == 0:
            break
        later = slice_axis(x, axis, 1, x.shape[axis])
        earlier = slice_axis(x, axis, 0, x.shape[axis] - 1)
        x = (not_equal if spec_of(x).dtype.is_bool else subtract)(later, earlier)
    return x
