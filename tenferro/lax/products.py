"""Contractions and sorts, with jax.lax's names: dot products, sorts, the largest elements.

Source: jax.lax, "Operators".
"""

from __future__ import annotations

from typing import Any

from tenferro.api import searching
from tenferro.api.axes import normalize_axis
from tenferro.api.creation import iota
from tenferro.api.elementwise import greater_equal, less, logical_and, negative, subtract, where
from tenferro.api.precision import precision_name
from tenferro.api.promotion import convert
from tenferro.api.reductions import cumulative_sum
from tenferro.dispatch import apply, apply_one, as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError, UnsupportedError
from tenferro.lax.operands import same_dtype
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.reduction import Sort
from tenferro.types import ArrayLike, DType, DTypeLike

__all__ = [
    "approx_max_k",
    "approx_min_k",
    "batch_matmul",
    "dot",
    "dot_general",
    "ragged_dot",
    "sort",
    "sort_key_val",
    "top_k",
]


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Sum products of elements over the contracting axes.

    The axes of the result are the batch axes, which both operands have, the free axes of lhs, and the free axes of rhs.

    Args:
        dimension_numbers: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)), where each entry lists axes.
        precision: "highest", "high" or "default"; None leaves the choice to the lowering.
        preferred_element_type: dtype of the sums and of the result; None for the dtype of the operands.

    Raises:
        ShapeError, DTypeError, AxisError, InvalidConfigError: axes or dtypes do not fit.

    >>> import numpy as np
    >>> dot_general(np.ones((2, 3)), np.ones((2, 3)), (((1,), (1,)), ((0,), (0,))))
    array([3., 3.])
    """
    x, y = same_dtype("dot_general", lhs, rhs)
    try:
        (of_lhs, of_rhs), (lhs_batch, rhs_batch) = dimension_numbers
        lists = [tuple(axes) for axes in (of_lhs, of_rhs, lhs_batch, rhs_batch)]
    except (TypeError, ValueError):
        raise InvalidConfigError(
            "lax.dot_general: dimension_numbers must be ((lhs contracting, rhs contracting), (lhs batch, rhs batch)), "
            f"got {dimension_numbers!r}"
        ) from None
    dtype = None if preferred_element_type is None else DType.of(preferred_element_type)
    op = DotGeneral(
        *lists, precision=precision_name("lax.dot_general", precision), accumulate_dtype=dtype
    )
    return apply_one(op, x, y)


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Multiply vectors and matrices: sum products over the last axis of lhs and the first axis of rhs.

    Args:
        dimension_numbers: the axes, as in `dot_general`, instead of the last axis of lhs and the first axis of rhs.

    Raises:
        ShapeError: a rank is not 1 or 2 and there are no `dimension_numbers`, or extents differ.
        DTypeError: the operands have different dtypes.

    >>> import numpy as np
    >>> dot(np.ones((2, 3)), np.arange(3.0))
    array([3., 3.])
    """
    x, y = same_dtype("dot", lhs, rhs)
    if dimension_numbers is None:
        if not {len(x.shape), len(y.shape)} <= {1, 2}:
            raise ShapeError(
                f"lax.dot: operands must be vectors or matrices, got {spec_of(x)} and {spec_of(y)}; "
                "use dot_general or tnf.matmul"
            )
        dimension_numbers = (((len(x.shape) - 1,), (0,)), ((), ()))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Any:
    """Multiply two batches of matrices with equal leading axes.

    Raises:
        ShapeError, DTypeError: ranks, extents or dtypes differ.

    >>> import numpy as np
    >>> batch_matmul(np.ones((2, 1, 3)), np.ones((2, 3, 1))).shape
    (2, 1, 1)
    """
    x, y = same_dtype("batch_matmul", lhs, rhs)
    rank = len(x.shape)
    if rank < 2 or len(y.shape) != rank:
        raise ShapeError(
            f"lax.batch_matmul: operands must have one rank of at least 2, got {spec_of(x)} and {spec_of(y)}"
        )
    batch = tuple(range(rank - 2))
    return dot_general(x, y, (((rank - 1,), (rank - 2,)), (batch, batch)), precision)


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: None = None,
) -> Any:
    """Multiply each group of rows of lhs by the matrix of the group in rhs. Rows after the last group become 0.

    Args:
        lhs: a matrix (m, k). The rows of group 0 come first, then the rows of group 1, and so on.
        rhs: matrices (g, k, n), one for each group.
        group_sizes: the number of rows of each group, integers (g,).
        precision, preferred_element_type: as in `dot_general`.
        group_offset: must be None.

    Raises:
        ShapeError, DTypeError: the shapes do not fit, or the sizes are not integers.
        UnsupportedError: `group_offset` is not None.

    >>> import numpy as np
    >>> ragged_dot(np.ones((3, 1)), np.array([[[1.0]], [[5.0]]]), np.array([2, 1]))
    array([[1.],
           [1.],
           [5.]])
    """
    x, matrices = same_dtype("ragged_dot", lhs, rhs)
    sizes = as_operand(group_sizes)
    if group_offset is not None:
        raise UnsupportedError("lax.ragged_dot: group_offset is not supported; slice the groups")
    if not spec_of(sizes).dtype.is_integer:
        raise DTypeError(f"lax.ragged_dot: group_sizes must be integers, got {spec_of(sizes)}")
    if len(x.shape) != 2 or len(matrices.shape) != 3 or tuple(sizes.shape) != matrices.shape[:1]:
        raise ShapeError(
            "lax.ragged_dot: operands must be (m, k), (g, k, n) and (g,), got "
            f"{spec_of(x)}, {spec_of(matrices)} and {spec_of(sizes)}"
        )
    limits = cumulative_sum(sizes, dtype=DType.I64)
    rows = iota((*sizes.shape, x.shape[0]), 1, DType.I64)
    ends, starts = limits[:, None], subtract(limits, sizes)[:, None]
    is_of_group = logical_and(greater_equal(rows, starts), less(rows, ends))
    zero = convert(0, spec_of(x).dtype)
    masked = where(is_of_group[:, :, None], x[None], zero)
    numbers = (((0, 2), (0, 1)), ((), ()))
    return dot_general(masked, matrices, numbers, precision, preferred_element_type)


def sort(operand: ArrayLike, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sort a tensor along an axis, in ascending order. Several tensors are sorted by the first `num_keys` of them.

    NaN comes last. Complex numbers are ordered by real part, then by imaginary part.

    Args:
        is_stable: whether equal keys keep their order. Sorts of several operands and native sorts are always stable, so
            that derivatives reorder tangents like their elements.

    Raises:
        ShapeError, AxisError: the operands have different shapes, or the axis is outside the rank.
        InvalidConfigError: the number of keys is not between 1 and the number of operands.

    >>> import numpy as np
    >>> sort((np.array([1, 0, 1]), np.array([5.0, 4.0, 3.0])), num_keys=2)
    (array([0, 1, 1]), array([4., 3., 5.]))
    """
    is_tuple = isinstance(operand, tuple | list)
    tensors = [as_operand(x) for x in (operand if is_tuple else (operand,))]
    if not tensors or not 1 <= num_keys <= len(tensors):
        raise InvalidConfigError(
            f"lax.sort: num_keys must be from 1 to the number of operands, got {num_keys} and {len(tensors)}"
        )
    axis = normalize_axis("lax.sort", dimension, len(tensors[0].shape))
    op = Sort(axis, bool(is_stable) or len(tensors) > 1, len(tensors))
    # Sort by the last key first. Later sorts, by other keys, are stable, so they keep this order among equal keys.
    for i in reversed(range(num_keys)):
        key, *others = apply(op, tensors[i], *tensors[:i], *tensors[i + 1 :])
        tensors = [*others[:i], key, *others[i:]]
    return tuple(tensors) if is_tuple else tensors[0]


def sort_key_val(
    keys: Any, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Any, Any]:
    """Sort `keys` along an axis in ascending order, and reorder `values` in the same way.

    Raises:
        ShapeError, AxisError: the values have another shape, or the axis is outside the rank.

    >>> import numpy as np
    >>> sort_key_val(np.array([2, 1]), np.array([5.0, 6.0]))
    (array([1, 2]), array([6., 5.]))
    """
    return sort((keys, values), dimension, is_stable)


def top_k(operand: ArrayLike, k: int, *, axis: int = -1, is_stable: bool = True) -> tuple[Any, Any]:
    """Return the k largest elements along an axis, in descending order, and their int64 indices.

    NaN counts as largest. Among equal elements, the element with the lower index comes first.

    Args:
        is_stable: no effect. Equal elements always keep their order.

    Raises:
        ShapeError, AxisError, DTypeError: there are fewer than k elements, the axis is outside the rank, or the
            operand is complex.

    >>> import numpy as np
    >>> top_k(np.array([3.0, 1.0, 2.0]), 2)
    (array([3., 2.]), array([0, 2]))
    """
    x = as_operand(operand)
    if spec_of(x).dtype.is_complex:
        raise DTypeError(f"lax.top_k: complex numbers have no order, got {spec_of(x)}")
    return searching.top_k(x, k, axis=axis)


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Any, Any]:
    """Return the k largest elements along an axis, and their int32 indices. The result is exact, like that of `top_k`.

    Args:
        recall_target, reduction_input_size_override: no effect, because the result is exact.
        aggregate_to_topk: must be True.

    Raises:
        UnsupportedError: `aggregate_to_topk` is False: the extent of the result would depend on the machine.
        ShapeError, AxisError, DTypeError: as for `top_k`.

    >>> import numpy as np
    >>> approx_max_k(np.array([3.0, 1.0, 2.0]), 2)
    (array([3., 2.]), array([0, 2], dtype=int32))
    """
    if not aggregate_to_topk:
        raise UnsupportedError(
            "lax.approx_max_k: with aggregate_to_topk=False the number of elements depends on the machine; use True"
        )
    values, indices = top_k(operand, k, axis=reduction_dimension)
    return values, convert(indices, DType.I32)


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Any, Any]:
    """Return the k smallest elements along an axis, and their indices; `approx_max_k` describes the arguments.

    >>> import numpy as np
    >>> approx_min_k(np.array([3.0, 1.0, 2.0]), 2)
    (array([1., 2.]), array([1, 2], dtype=int32))
    """
    values, indices = approx_max_k(
        negative(as_operand(operand)),
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
    )
    return negative(values), indices
