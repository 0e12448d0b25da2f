"""ONNX operators whose results have data-dependent extents.

On constants, NumPy computes the results while the model is imported. In a program, the extents are determined when the
program runs natively, as with `tenferro.dynamic_truncate`; lowering such a program to StableHLO is an error.

Source: ONNX operators, Compress, NonZero and Unique; numpy.unique.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.errors import ConcretizationError
from xla_peer.onnx.readers import axes_of, kind_of

__all__ = ["SELECTIONS", "selected"]


def selected(x: Any, is_wanted: Any, axis: int = 0) -> Any:
    """Return the slices of x along an axis for which the bool vector `is_wanted` is true, in order."""
    try:
        places = np.flatnonzero(np.asarray(is_wanted))
    except ConcretizationError:
        order = np.argsort(~is_wanted, stable=True)
        places = tnf.dynamic_truncate(order, np.sum(is_wanted.astype(np.int64)))
    return tnf.take(x, places, axis=axis)


def compress(a: Any, x: Any, condition: Any) -> Any:
    """Return the slices of x along the axis in the attribute `axis` for which `condition` is true.

    Without the attribute, x is flattened, and its elements are selected.
    """
    (axis,) = axes_of(x, (a["axis"],)) if "axis" in a else (0,)
    x = x if "axis" in a else np.ravel(x)
    count = condition.shape[0]  # may be less than the extent of x; the remaining slices are dropped
    return selected(tnf.take(x, np.arange(count), axis=axis), condition, axis)


def non_zero(a: Any, x: Any) -> Any:
    """Return the indices of the elements that are not zero, as a matrix with a column for each element."""
    indices = np.indices(x.shape or (1,)).reshape(max(np.ndim(x), 1), -1)
    return selected(indices, np.ravel(x != 0), axis=1)


def unique(a: Any, x: Any) -> Any:
    """Return the distinct elements of x, or its distinct slices along the attribute `axis`, and three vectors.

    The first vector contains the first position of each distinct element in x. The second vector contains, for each
    element of x, its index among the distinct elements. The third vector contains the number of occurrences of each
    distinct element.
    """
    (axis,) = axes_of(x, (a["axis"],)) if "axis" in a else (0,)
    values = np.moveaxis(x, axis, 0) if "axis" in a else np.ravel(x)
    n = values.shape[0]
    rows = np.reshape(values, (n, -1))
    order = np.lexsort(rows.T[::-1])
    ranked = tnf.take(rows, order, axis=0)
    differs = ranked[1:] != ranked[:-1]
    if kind_of(x) == "f":
        differs = differs & ~(np.isnan(ranked[1:]) & np.isnan(ranked[:-1]))
    is_first = np.concatenate([np.ones(min(n, 1), bool), np.any(differs, axis=1)])
    # `group` contains, for each slice in sorted order, the number of the group of equal slices to which it belongs.
    group = np.cumsum(is_first.astype(np.int64)) - 1
    first = tnf.at(np.zeros(n, np.int64))[np.where(is_first, group, n)].set(order, mode="drop")
    counts = tnf.at(np.zeros(n, np.int64))[group].add(np.ones(n, np.int64))
    inverse = tnf.at(np.zeros(n, np.int64))[order].set(group)
    is_group = np.arange(n) <= group[-1:]
    if not a.get("sorted", 1):
        by_place = np.argsort(np.where(is_group, first, n), stable=True)
        first, counts = tnf.take(first, by_place, axis=0), tnf.take(counts, by_place, axis=0)
        inverse = tnf.take(
            tnf.at(np.zeros(n, np.int64))[by_place].set(np.arange(n)), inverse, axis=0
        )
    first = selected(first, is_group)
    y = np.moveaxis(tnf.take(values, first, axis=0), 0, axis)
    return [y, first, inverse, selected(counts, is_group)]


SELECTIONS: Mapping[str, Callable[..., Any]] = {
    "Compress": compress,
    "NonZero": non_zero,
    "Unique": unique,
}
"""Functions that compute an ONNX operator, by the name of the operator."""
