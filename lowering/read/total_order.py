"""Sorts of floats in the total order, -NaN < -inf < .. < -0 < 0 < .. < inf < NaN.

`Sort` and `TopK` treat all NaNs as equal, and -0 as equal to +0. So the bits of floats are converted to keys: integers
in the same order as the floats in the total order. The floats are sorted together with their keys, so that derivatives
flow through the floats.
"""

from __future__ import annotations

from typing import Any

from lowering.read.bounded import padded_to_bounds, size_of, truncated
from lowering.read.reader import Reader
from tenferro.dims import is_static
from tenferro.ops import elementwise as el
from tenferro.ops import reduction as re
from tenferro.ops.indexing import Gather
from tenferro.ops.source import Iota
from tenferro.types import DType

__all__ = ["key", "taken_along_last", "top_k"]


def key(r: Reader, x: int, descending: bool = False) -> int:
    """Convert x to integers whose order is the total order of x's elements, or its reverse if `descending`."""
    if r.spec(x).dtype is DType.F8E8M0FNU:  # this dtype has no sign bit, so its bits are in order
        x = r.apply_one(el.BitcastConvert(DType.U8), x)
    dtype = r.spec(x).dtype
    if not dtype.is_float:
        return r.apply_one(el.Not(), x) if descending else x
    if dtype.bits == 6:
        x = r.convert(x, DType.F8E4M3FN)  # this 8-bit dtype has every value of the 6-bit floats
    word = {4: DType.I4, 8: DType.I8, 16: DType.I16, 32: DType.I32, 64: DType.I64}[
        r.spec(x).dtype.bits
    ]
    bits = r.apply_one(el.BitcastConvert(word), x)
    like = r.spec(bits)
    sign = r.apply_one(el.ShiftRightArithmetic(), bits, r.full(word.bits - 1, like))
    magnitude = r.full((1 << (word.bits - 1)) - 1, like)
    ordered = r.apply_one(el.Xor(), bits, r.apply_one(el.And(), sign, magnitude))
    if dtype in ONE_NAN:
        is_nan = r.apply_one(el.Compare("NE"), x, x)
        moved_up = r.apply_one(el.Subtract(), ordered, sign)
        ordered = r.apply_one(el.Select(), is_nan, r.full(word.extremes[0], like), moved_up)
    return r.apply_one(el.Not(), ordered) if descending else ordered


ONE_NAN = frozenset([DType.F8E4M3B11FNUZ, DType.F8E4M3FNUZ, DType.F8E5M2FNUZ])
"""Dtypes in which the bits of -0 represent the only NaN. This NaN has the sign bit, so it is below all numbers."""


def top_k(r: Reader, x: int, k: Any, largest: bool = True) -> tuple[int, int]:
    """Return the k largest or smallest elements along the last axis, in the total order, and their indices."""
    spec = r.spec(x)
    if not spec.is_exact:
        return _top_k_at_bounds(r, x, k, largest)
    if not is_static(k):
        axis = spec.rank - 1
        counted = r.apply_one(Iota(spec.shape, axis, DType.I64))
        _, places = r.apply(re.Sort(axis, True, 2), key(r, x, descending=largest), counted)
        places = r.slice(places, axis, 0, k)
        return taken_along_last(r, x, places), places
    is_empty = 0 in (*spec.shape, k)
    if is_empty or (largest and not spec.dtype.is_float):
        values, places = r.apply(re.TopK(k), x)
        return values, places
    _, places = r.apply(re.TopK(k), key(r, x, descending=not largest))
    return taken_along_last(r, x, places), places


def _top_k_at_bounds(r: Reader, x: int, k: Any, largest: bool) -> tuple[int, int]:
    """Return the results of `top_k` if sizes of x depend on data: the first k elements in descending order.

    The program raises an error if the last axis has fewer than k elements.
    """
    axis = r.spec(x).rank - 1
    last = size_of(r, x, axis, k)
    padded, sizes = padded_to_bounds(r, x)
    counted = r.apply_one(Iota(r.spec(padded).shape, axis, DType.I64))
    keys = key(r, padded, descending=largest)
    unsorted = [truncated(r, value, {axis: last}) for value in (keys, counted)]
    _, places = r.apply(re.Sort(axis, True, 2), *unsorted)
    places = r.slice(r.at_bound(places, axis), axis, 0, k)
    sizes.pop(axis, None)
    return truncated(r, taken_along_last(r, padded, places), sizes), truncated(r, places, sizes)


def taken_along_last(r: Reader, x: int, places: int) -> int:
    """Return y with y[.., i] = x[.., places[.., i]]: elements of x at separate indices for each row."""
    return r.apply_one(along_last(len(r.spec(x).shape)), x, places)


def along_last(rank: int) -> Gather:
    """Return the op that gathers elements along the last axis of an array, at separate indices for each row."""
    rows = tuple(range(rank - 1))
    return Gather(
        offset_dims=(),
        collapsed_slice_dims=(rank - 1,),
        operand_batching_dims=rows,
        start_indices_batching_dims=rows,
        start_index_map=(rank - 1,),
        index_vector_dim=rank,
        slice_sizes=(1,) * rank,
    )
