"""Linear algebra functions that are contractions: products of matrices and tensors.

Source: Array API standard 2024.12, section "Linear Algebra Functions".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.api.arguments import refuse, refuse_options
from tenferro.api.axes import normalize_axis
from tenferro.api.elementwise import conj, multiply, not_equal
from tenferro.api.manipulation import diagonal, expand_dims, moveaxis, ravel
from tenferro.api.planned import elementwise
from tenferro.api.precision import PrecisionLike, precision_name
from tenferro.api.promotion import broadcast_shapes, broadcast_to, convert, result_type
from tenferro.api.reductions import sum as sum_over
from tenferro.dispatch import apply_one, as_operand, spec_of
from tenferro.errors import DTypeError, ShapeError
from tenferro.ops.contraction import DotGeneral
from tenferro.types import ArrayLike, DType, DTypeLike, Tensor

__all__ = ["dot_general", "matmul", "outer", "tensordot", "trace", "vecdot"]


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    contracting: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    *,
    precision: str | None = None,
    accumulate_dtype: DTypeLike | None = None,
) -> Any:
    """Multiply two tensors, and sum over pairs of contracting axes.

    The axes of the result are the batch axes, then the remaining axes of lhs, then the remaining axes of rhs.

    Args:
        contracting: the axes of lhs, and the axes of rhs, that are summed over in pairs.
        batch: the axes of lhs, and the axes of rhs, that form pairs which occur once in the result.
        precision: "highest", "high" or "default" for products through XLA. None leaves the choice to the lowering.
        accumulate_dtype: the dtype of the sums and of the result; None for the dtype of the operands.
    """
    dtype = result_type(lhs, rhs)
    op = DotGeneral(
        tuple(contracting[0]),
        tuple(contracting[1]),
        tuple(batch[0]),
        tuple(batch[1]),
        precision,
        None if accumulate_dtype is None else DType.of(accumulate_dtype),
    )
    return apply_one(op, convert(as_operand(lhs), dtype), convert(as_operand(rhs), dtype))


def _contract(
    lhs: Tensor,
    rhs: Tensor,
    contracting: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    options: tuple[str, Any, DTypeLike | None] = ("", None, None),
) -> Any:
    """Apply `dot_general`. For bools, return whether any product is true.

    Args:
        options: the name of the caller, and its arguments `precision` and `preferred_element_type`.
    """
    name, precision, preferred = options
    precision, dtype = precision_name(name, precision), result_type(lhs, rhs)
    wanted = None if preferred is None else summed_dtype(name, dtype, preferred)
    if dtype.is_bool:
        kind = DType.I32 if wanted is None or wanted.is_bool else wanted
        counts = dot_general(convert(lhs, kind), convert(rhs, kind), contracting, batch)
        return counts if kind is wanted else not_equal(counts, 0)
    return dot_general(lhs, rhs, contracting, batch, precision=precision, accumulate_dtype=wanted)


def summed_dtype(name: str, dtype: DType, preferred: DTypeLike) -> DType:
    """Return the argument `preferred_element_type` of a product as a dtype.

    Raises:
        DTypeError: it cannot hold the kind of the operands' numbers, or is narrower. Only floats may be narrower.
    """
    wanted = DType.of(preferred)
    is_narrower = wanted.itemsize < dtype.itemsize and (dtype.is_complex or not dtype.is_inexact)
    is_kept = wanted.is_complex >= dtype.is_complex and wanted.is_inexact >= dtype.is_inexact
    if is_narrower or not is_kept or (wanted.is_bool and not dtype.is_bool):
        raise DTypeError(f"{name}: preferred_element_type {wanted} cannot hold products of {dtype}")
    return wanted


@elementwise
def matmul(
    x1: ArrayLike, x2: ArrayLike, /, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None
) -> Any:  # fmt: skip
    """Multiply the matrices in the last two axes. Leading axes broadcast.

    If x1 is a vector it counts as a row, and if x2 is a vector it counts as a column. The result does not have this
    axis, as in NumPy.

    Args:
        precision: "highest", "high" or "default", for products on accelerators; None leaves the choice to the lowering.
        preferred_element_type: the dtype of the sums and of the result; None for the promoted dtype.

    Raises:
        ShapeError: an operand is a scalar, or the inner extents differ.
        DTypeError: `preferred_element_type` cannot hold the products.

    >>> import numpy as np
    >>> matmul(np.full((1, 2), 100, "int8"), np.full((2, 1), 100, "int8"), preferred_element_type="int32")
    array([[20000]], dtype=int32)
    """
    options = ("matmul", precision, preferred_element_type)
    lhs, rhs = as_operand(x1), as_operand(x2)
    if not lhs.shape or not rhs.shape:
        raise ShapeError(
            f"matmul: scalars have no matrix product, got {spec_of(lhs)} and {spec_of(rhs)}"
        )
    left, right = len(lhs.shape), len(rhs.shape)
    if left <= 2 or right <= 2:
        product = _contract(lhs, rhs, ((left - 1,), (max(right - 2, 0),)), options=options)
        # The contraction puts the row axis of the single matrix first. Move it behind the batch axes of x2.
        return moveaxis(product, 0, right - 2) if left == 2 and right > 2 else product
    batch = broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2])
    count = len(batch)
    lhs = broadcast_to(lhs, (*batch, *lhs.shape[-2:]))
    rhs = broadcast_to(rhs, (*batch, *rhs.shape[-2:]))
    axes = tuple(range(count))
    return _contract(lhs, rhs, ((count + 1,), (count,)), (axes, axes), options)


def tensordot(
    a: ArrayLike, b: ArrayLike, axes: int | Sequence[int | Sequence[int]] = 2,
    *, precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None,
) -> Any:  # fmt: skip
    """Multiply two tensors, and sum over `axes`; `matmul` describes `precision` and `preferred_element_type`.

    Args:
        axes: a number n, to sum over the last n axes of `a` and the first n axes of `b`; or a pair of lists: axes of
            `a` and axes of `b`.

    Raises:
        ShapeError: the extents of a pair of axes differ.
        AxisError: an axis is outside the rank.

    >>> tensordot([[1, 2], [3, 4]], [1, 1], 1)
    array([3, 7])
    """
    lhs, rhs = as_operand(a), as_operand(b)
    left, right = len(lhs.shape), len(rhs.shape)
    if isinstance(axes, int):
        if not 0 <= axes <= min(left, right):
            raise ShapeError(f"tensordot: axes={axes} for {spec_of(lhs)} and {spec_of(rhs)}")
        lhs_axes, rhs_axes = tuple(range(left - axes, left)), tuple(range(axes))
    else:
        lhs_axes, rhs_axes = (
            tuple(normalize_axis("tensordot", axis, rank) for axis in _listed(side))
            for side, rank in zip(axes, (left, right), strict=True)
        )
    options = ("tensordot", precision, preferred_element_type)
    return _contract(lhs, rhs, (lhs_axes, rhs_axes), options=options)


def _listed(axes: Any) -> Sequence[int]:
    return axes if isinstance(axes, tuple | list) else (axes,)


def vecdot(
    x1: ArrayLike, x2: ArrayLike, /, axis: int = -1,
    *, precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None, **options: Any,
) -> Any:  # fmt: skip
    """Sum conj(x1) x2 along `axis`. The other axes broadcast.

    `matmul` describes `precision` and `preferred_element_type`.

    Raises:
        ShapeError: the extents along `axis` differ.

    >>> vecdot([[1, 2], [3, 4]], [1, 1])
    array([3, 7])
    """
    refuse_options("vecdot", options)
    lhs, rhs = as_operand(x1), as_operand(x2)
    lhs = moveaxis(lhs, normalize_axis("vecdot", axis, len(lhs.shape)), -1)
    rhs = moveaxis(rhs, normalize_axis("vecdot", axis, len(rhs.shape)), -1)
    if lhs.shape[-1] != rhs.shape[-1]:
        raise ShapeError(f"vecdot: extents must agree, got {spec_of(lhs)} and {spec_of(rhs)}")
    shape = broadcast_shapes(lhs.shape, rhs.shape)
    lhs, rhs = broadcast_to(conj(lhs), shape), broadcast_to(rhs, shape)
    count = len(shape) - 1
    axes = tuple(range(count))
    products = ("vecdot", precision, preferred_element_type)
    return _contract(lhs, rhs, ((count,), (count,)), (axes, axes), products)


def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Any:
    """Multiply all pairs of elements of `a` and `b`, both flattened: y[i, j] = a[i] b[j].

    As in NumPy, the operands may have any rank. `linalg.outer` accepts only vectors, as in the Array API standard.

    >>> import tenferro as tnf
    >>> tnf.outer([[1, 2]], [10, 20, 30])
    array([[10, 20, 30],
           [20, 40, 60]])
    """
    refuse("outer", "out", out)
    return multiply(expand_dims(ravel(a), axis=1), expand_dims(ravel(b), axis=0))


def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Any:
    """Sum the elements of a diagonal of two axes, by default the first two, as in NumPy.

    `offset` selects the diagonal. Narrow integers are summed in 64 bits. `linalg.trace` uses the last two axes, as in
    the Array API standard.

    Raises:
        AxisError: the two axes are equal, or `a` has fewer than two axes.

    >>> import tenferro as tnf
    >>> tnf.trace([[1.0, 2.0], [3.0, 4.0]])
    array(5.)
    """
    refuse("trace", "out", out)
    return sum_over(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)
