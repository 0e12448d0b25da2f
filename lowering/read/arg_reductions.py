"""Reader of reductions of pairs (value, index) that compute the index of the largest or smallest element.

The reduction's region selects one of two pairs. If the region only compares and selects, its result depends only on the
order of the values and of the indices. So the region is evaluated for every possible order of two pairs: a pair and a
pair with a larger index, and the initial pair and any other pair. If the region always selects the pair that `ArgMax`
or `ArgMin` selects, the reduction is read as `ArgMax` or `ArgMin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowering.module_tree import Block
from lowering.read.comparators import SEES_ONLY_ORDER, constants_of, counts_along, standings
from lowering.read.reader import Reader
from tenferro.dims import is_static
from tenferro.errors import UnsupportedError
from tenferro.ops import reduction as re
from tenferro.types import DType

__all__ = ["arg_reduction"]


def arg_reduction(
    r: Reader, block: Block, operands: Sequence[int], axes: Sequence[int]
) -> list[int] | None:
    """Read a reduction of pairs as a maximum and `ArgMax`, or as a minimum and `ArgMin`.

    Return None if the reduction computes something else.

    Args:
        block: the reduction's region.
        operands: values, their indices, and the initial value and index.
        axes: the reduced axes.
    """
    if len(operands) != 4 or len(axes) != 1:
        return None
    x, places, *start = operands
    spec, kind = r.spec(x), r.spec(places).dtype
    (axis,) = axes
    if spec.dtype.is_complex or not kind.is_integer or spec.shape[axis] == 0:
        return None
    initial = [r.evaluated(value) for value in start]
    if any(value is None for value in initial) or not counts_along(r, places, axis):
        return None
    if not {operation.name for operation in block.operations} <= SEES_ONLY_ORDER:
        return None
    for largest in (True, False):
        if _keeps_the_winner(r, block, spec.dtype, kind, spec.shape[axis], initial, largest):
            values = re.ReduceMax((axis,)) if largest else re.ReduceMin((axis,))
            arg_op = re.ArgMax(axis) if largest else re.ArgMin(axis)
            return [r.apply_one(values, x), r.convert(r.apply_one(arg_op, x), kind)]
    return None


def _keeps_the_winner(
    r: Reader,
    block: Block,
    dtype: DType,
    kind: DType,
    extent: Any,
    start: Sequence[Any],
    largest: bool,
) -> bool:
    """Return whether the region always selects the pair that `ArgMax`, or `ArgMin` if not `largest`, selects.

    The region is evaluated for every order of two values, and for every order of two indices below `extent`.
    """
    constants = constants_of(r, block)
    values, numbers = standings(dtype, constants), standings(kind, constants)
    numbers = numbers[numbers >= 0]
    if is_static(extent):
        numbers = numbers[numbers < extent]
    a, b, i, j = (
        grid.ravel() for grid in np.meshgrid(values, values, numbers, numbers, indexing="ij")
    )
    later = i < j
    begun = [np.full(len(values) * len(numbers), value) for value in start]
    any_b, any_j = (grid.ravel() for grid in np.meshgrid(values, numbers, indexing="ij"))
    firsts = [np.concatenate(pair) for pair in zip((a[later], i[later]), begun, strict=True)]
    seconds = [
        np.concatenate(pair) for pair in zip((b[later], j[later]), (any_b, any_j), strict=True)
    ]
    answers = _answers(r, block, [*firsts, *seconds])
    if answers is None:
        return False
    value, position = answers
    (a, i), (b, j) = firsts, seconds
    with np.errstate(all="ignore"):
        more = (a > b) if largest else (a < b)
        odd_a, odd_b = a != a, b != b
        same = (a == b) | (odd_a & odd_b)
        first = (odd_a & ~odd_b) | (more & ~odd_b) | (same & (i <= j))
        right = (value == np.where(first, a, b)) | ((value != value) & (odd_a | odd_b))
    # If all elements equal the initial value, `ArgMax` returns index 0. So an element that equals the initial value
    # must replace it, unless the initial index is 0.
    tied = same & (np.arange(len(a)) >= later.sum())
    wanted = np.where(first, i, j)
    placed = np.where(tied, (position == j) | ((position == i) & (i == 0)), position == wanted)
    return bool(right.all() and placed.all() and _loses(start[0], values, largest))


def _loses(start: Any, values: Any, largest: bool) -> bool:
    """Return whether the initial value can never win against an element, and so never affects the result.

    For `ArgMax` no element may be smaller than the initial value, and for `ArgMin` no element may be larger.
    """
    start = np.asarray(start).reshape(())
    with np.errstate(all="ignore"):
        worse = (values < start) if largest else (values > start)
    return bool(start == start and not worse.any())


def _answers(r: Reader, block: Block, arguments: Sequence[Any]) -> list[Any] | None:
    """Evaluate the region elementwise for arrays of arguments; return None if it cannot be evaluated."""
    scratch = r.scratch()
    inputs = [scratch.constant(values) for values in arguments]
    try:
        outputs = scratch.lifted(block, inputs)
    except (KeyError, UnsupportedError):
        return None
    return list(map(np.asarray, scratch.builder.finish(outputs).run()))
