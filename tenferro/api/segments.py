"""Reductions over groups of rows of a tensor, called segments. Each row has the number of its segment.

Source: `jax.ops.segment_sum`, `segment_prod`, `segment_max` and `segment_min`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.api.manipulation import reshape
from tenferro.api.updates import at
from tenferro.dispatch import as_constant_of, as_operand, elements, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.ops.reduction import ReduceMax, ReduceMin, ReduceProd, ReduceSum, Reduction
from tenferro.types import ArrayLike

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def _reduced(
    name: str, data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None, mode: str | None, card: type[Reduction], combiner: str
) -> Any:  # fmt: skip
    x, ids = as_operand(data), as_operand(segment_ids)
    rank, dtype = len(ids.shape), spec_of(x).dtype
    if dtype.is_complex and dtype not in card.accepts:
        raise DTypeError(f"{name}: complex numbers have no order, got {spec_of(x)}")
    if not spec_of(ids).dtype.is_integer:
        raise DTypeError(f"{name}: segment ids must be integers, got {spec_of(ids)}")
    if rank < 1 or tuple(x.shape[:rank]) != tuple(ids.shape):
        raise ShapeError(f"{name}: segment ids {spec_of(ids)} do not fit data {spec_of(x)}")
    if num_segments is None:
        known = np.asarray(elements(ids, name, "give num_segments"))
        num_segments = int(known.max()) + 1 if known.size else 0
    if num_segments < 0:
        raise InvalidConfigError(f"{name}: num_segments must be at least 0, got {num_segments}")
    x, ids = reshape(x, (-1, *x.shape[rank:])), reshape(ids, (-1,))
    start = np.full((num_segments, *x.shape[1:]), card.identity(dtype), dtype.dtype)
    updates = at(as_constant_of(x, start))[ids]
    return getattr(updates, combiner)(
        x, mode="drop" if mode is None else mode, wrap_negative_indices=False
    )


def segment_sum(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, *, mode: str | None = None,
) -> Any:  # fmt: skip
    """Return y[k] = the sum of data[i] over all i with segment_ids[i] = k. A segment without rows has the sum 0.

    Args:
        segment_ids: integers with the shape of data's leading axes. Rows with negative or too large ids are dropped.
        num_segments: the number of segments. The default is the largest id plus 1. It is required if the ids are
            traced.
        indices_are_sorted, unique_indices: have no effect. They are hints in `jax.ops`.
        mode: how to treat ids out of range, as in `x.at[index].add`. The default is "drop".

    Raises:
        DTypeError: the ids are not integers. ShapeError: the shape of the ids does not match data.
        DataDependentShapeError: the ids are traced, and `num_segments` is None.

    >>> segment_sum(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 0]))
    array([5., 0., 2.])
    """
    return _reduced("segment_sum", data, segment_ids, num_segments, mode, ReduceSum, "add")


def segment_prod(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, *, mode: str | None = None,
) -> Any:  # fmt: skip
    """Return the product of each segment's rows. A segment without rows has the product 1.

    Arguments and errors are as for `segment_sum`.

    >>> segment_prod(np.array([3.0, 2.0, 4.0]), np.array([0, 2, 0]))
    array([12.,  1.,  2.])
    """
    return _reduced("segment_prod", data, segment_ids, num_segments, mode, ReduceProd, "multiply")


def segment_max(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, *, mode: str | None = None,
) -> Any:  # fmt: skip
    """Return the maximum of each segment's rows. For a segment without rows, it is the dtype's least number.

    Arguments and errors are as for `segment_sum`.

    >>> segment_max(np.array([3, 2, 4]), np.array([0, 1, 0]))
    array([4, 2])
    """
    return _reduced("segment_max", data, segment_ids, num_segments, mode, ReduceMax, "max")


def segment_min(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, *, mode: str | None = None,
) -> Any:  # fmt: skip
    """Return the minimum of each segment's rows. For a segment without rows, it is the dtype's largest number.

    Arguments and errors are as for `segment_sum`.

    >>> segment_min(np.array([3, 2, 4]), np.array([0, 1, 0]))
    array([3, 2])
    """
    return _reduced("segment_min", data, segment_ids, num_segments, mode, ReduceMin, "min")
