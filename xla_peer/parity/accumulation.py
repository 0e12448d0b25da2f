"""Rounding errors of long sums and products, measured on the actual terms.

The rounding errors of random terms partly cancel, so the total error grows as the square root of the number of terms.
The rounding errors of equal terms all have one sign, so the total error grows in proportion to the number of terms.
Therefore the error is measured on a few elements of the result. The terms of these elements are added up in the dtype
of the sum. Every partial sum is compared with the same partial sum in higher precision. Reductions, scans, products of
small matrices and matrix-vector products are measured as one chain of all terms, other products as chains of `BLOCK`
terms. These are the longest chains that NumPy, BLAS and XLA on CPUs were observed to form.

Terms with alternating signs cancel in one chain, but in a lane of a vector unit all terms may have the same sign. So
the terms are also added up in as many lanes as each number in `LANES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.ops import Column, StdTensorOp
from tenferro.ops import contraction as co
from tenferro.ops import indexing as ix
from tenferro.ops import reduction as re
from tenferro.types import DType
from xla_peer.parity.rounding import ROUNDING
from xla_peer.parity.ulps import are_small_whole

__all__ = ["accumulated_error"]

ELEMENTS = 64
"""Maximum number of elements of the result whose terms are added up."""
LONGEST = 1 << 22
"""Maximum number of terms that are added up; the error of a longer sum is extrapolated in proportion to its length."""
BLOCK = 4096
LANES = (2, 4, 8, 16)
"""Numbers of lanes that are tried. With n lanes, lane j adds up the terms j, j + n, j + 2 n, ..."""
LANE_ROWS = 16
"""Maximum number of elements of the result whose terms are added up in lanes."""
SMALL = 1_000_000
"""Maximum number of multiplications of a matrix product that OpenBLAS does not split into blocks."""
PRODUCTS = (re.ReduceProd, re.CumProd)

Kernel = Callable[..., Any]


def accumulated_error(
    op: StdTensorOp, kernel: Kernel, operands: Sequence[Any], result: Any, pending: float
) -> Any:
    """Estimate the error of a result by the order of its terms: a quarter of the error of the measured chains.

    The results of two implementations may each differ from the exact result by the error of the measured chains. So the
    estimate is an eighth of their largest distance.

    Args:
        op: the op that combines terms.
        kernel: a function that runs the op.
        operands, result: the operands and the result of the op.
        pending: the relative error of terms whose last rounding another implementation may omit.
    """
    if isinstance(op, ix.Scatter):
        return _scattered(op, kernel, operands, result, pending)
    if not pending and all([are_small_whole(x, result.dtype) for x in operands]):
        magnitude = _magnitude(op, kernel, operands, result)
        if are_small_whole(magnitude, result.dtype):
            return np.zeros(result.shape)  # no partial sum is rounded
    share = pending / 4 + _share(op, operands, result)
    if not share:
        return np.zeros(result.shape)
    return share * _magnitude(op, kernel, operands, result)


def _magnitude(op: StdTensorOp, kernel: Kernel, operands: Sequence[Any], result: Any) -> Any:
    """Compute the magnitude to which rounding errors are relative: the sum of absolute terms, or the absolute product.

    The sum is computed by running the op on absolute operands.
    """
    if isinstance(op, PRODUCTS) or (isinstance(op, ix.Scatter) and op.combiner == "multiply"):
        return _wide_abs(result)
    sizes = [x if DType.of(x.dtype).kind in "biu" else np.abs(x).astype(x.dtype) for x in operands]
    magnitude = _wide_abs(np.asarray(kernel(op, *sizes)))
    # The sum of absolute terms may overflow although the sum of the terms does not, so it is limited to the largest
    # number.
    return np.minimum(magnitude, float(ml_dtypes.finfo(result.real.dtype).max))


def _wide_abs(x: Any) -> Any:
    return np.abs(x if x.dtype.kind == "c" else x.astype(np.float64)).astype(np.float64)


def _share(op: Any, operands: Sequence[Any], result: Any) -> float:
    """Estimate the error of the result as a fraction of `_magnitude`; the estimate is at least one rounding.

    The fraction is 0 for a sum of two terms, which every implementation rounds once.
    """
    if not result.size or not all(x.size for x in operands):
        return 0.0
    work = DType.of(result.dtype).accumulator.dtype
    terms = TERMS[type(op)](op, *[x.astype(work, copy=False) for x in operands])
    count = terms.shape[1]
    alone = 1 if isinstance(op, co.DotGeneral | co.Convolution) else 2
    if count <= alone:
        return 0.0
    combine = np.multiply if isinstance(op, PRODUCTS) else np.add
    is_one_chain = alone == 2 or (isinstance(op, co.DotGeneral) and _is_one_chain(op, *operands))
    chain = terms[:, : LONGEST if is_one_chain else BLOCK, None]
    longest = _measured(combine, chain)
    if alone == 2 and work != result.dtype:
        # A reduction applies its combiner to numbers of its own dtype, so it may round each partial sum to this dtype.
        longest = max(longest, _measured(combine, chain.astype(result.dtype)))
    if combine is np.add:  # factors of a product do not cancel, so lanes do not increase its error
        longest = max(longest, _in_lanes(terms))
    grown = max(1.0, count / LONGEST)
    return max(float(ml_dtypes.finfo(terms.real.dtype).eps) / 2, longest * grown / 4)


def _is_one_chain(op: co.DotGeneral, lhs: Any, rhs: Any) -> bool:
    """Return whether the op is a product of small matrices, or a matrix-vector product."""
    rows = math.prod([lhs.shape[axis] for axis in op.lhs_free(lhs.ndim)])
    columns = math.prod([rhs.shape[axis] for axis in op.rhs_free(rhs.ndim)])
    length = math.prod([lhs.shape[axis] for axis in op.lhs_contracting])
    return (rows == 1) != (columns == 1) or rows * columns * length <= SMALL


def _in_lanes(terms: Any) -> float:
    """Measure the largest relative error of sums of the rows of `terms` in 2, 4, 8 or 16 lanes."""
    rows = terms[:: -(-len(terms) // LANE_ROWS)]
    errors = [0.0]
    for width in LANES:
        length = min(rows.shape[1], LONGEST) // width
        if length > 1:
            lanes = rows[:, : length * width].reshape(len(rows), length, width)
            errors.append(_measured(np.add, lanes))
    return max(errors)


def _measured(combine: np.ufunc, terms: Any) -> float:
    """Measure the largest relative error of partial sums or products.

    Args:
        combine: `np.add` or `np.multiply`.
        terms: an array of shape [rows, length, lanes]. The terms of each lane are combined along `length`, and then the
            results of all lanes.
    """
    wide = np.clongdouble if terms.dtype.kind == "c" else np.longdouble
    partial = combine.accumulate(terms, axis=1)
    exact = combine.accumulate(terms.astype(wide), axis=1)
    size = combine.accumulate(np.abs(terms).astype(np.float64), axis=1).sum(axis=2)
    error = (np.abs((partial.astype(wide) - exact).sum(axis=2)) / size).astype(np.float64)
    return float(np.max(error, where=np.isfinite(error), initial=0.0))


def _chosen(count: int, length: int) -> Any:
    """Return evenly spaced indices below `count`: at most `ELEMENTS`, and fewer if each sum has many terms."""
    most = max(1, min(ELEMENTS, LONGEST // max(length, 1)))
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def _rows(x: Any, axes: Sequence[int]) -> Any:
    """Select some slices of x that extend along `axes`, and flatten each slice to a row of the result."""
    free_axes = [axis for axis in range(x.ndim) if axis not in axes]
    view = x.transpose(*free_axes, *axes)
    extents = view.shape[: len(free_axes)]
    length = math.prod(view.shape[len(free_axes) :])
    places = _chosen(math.prod(extents), length)
    rows = view[np.unravel_index(places, extents)] if free_axes else view[None]
    return rows.reshape(len(places), length)


def _reduced(op: re.Reduction, x: Any) -> Any:
    return _rows(x, op.axes)


def _scanned(op: re.Scan, x: Any) -> Any:
    return _rows(np.flip(x, op.axis) if op.reverse else x, (op.axis,))


def _contracted(op: co.DotGeneral, lhs: Any, rhs: Any) -> Any:
    lhs_free, rhs_free = op.lhs_free(lhs.ndim), op.rhs_free(rhs.ndim)
    a = lhs.transpose(*op.lhs_batch, *lhs_free, *op.lhs_contracting)
    b = rhs.transpose(*op.rhs_batch, *rhs_free, *op.rhs_contracting)
    batch, left, right = len(op.lhs_batch), len(lhs_free), len(rhs_free)
    extents = (*a.shape[: batch + left], *b.shape[batch : batch + right])
    length = math.prod(a.shape[batch + left :])
    places = _chosen(math.prod(extents), length)
    index = np.unravel_index(places, extents) if extents else ()
    of_lhs, of_rhs = index[: batch + left], (*index[:batch], *index[batch + left :])
    rows = [(x[at] if at else x[None]).reshape(-1, length) for x, at in ((a, of_lhs), (b, of_rhs))]
    return rows[0] * rows[1]


def _convolved(op: co.Convolution, x: Any, kernel: Any) -> Any:
    """Return the terms of some elements of a convolution, with a row per element.

    The terms are the products of the elements of a window and of the kernel.
    """
    x = x.transpose(op.input_batch, op.input_feature, *op.input_spatial)
    w = kernel.transpose(op.kernel_output_feature, op.kernel_input_feature, *op.kernel_spatial)
    w = np.flip(w, tuple(2 + axis for axis, flag in enumerate(op.window_reversal) if flag))
    batch = x.shape[0] // op.batch_group_count
    counts = [
        max(0, (max(0, (extent - 1) * gap + 1) + sum(pad) - (size - 1) * step - 1) // stride + 1)
        for extent, size, pad, stride, gap, step in zip(
            x.shape[2:], w.shape[2:], op.padding, op.window_strides, op.lhs_dilation,
            op.rhs_dilation, strict=True,
        )
    ]  # fmt: skip
    extents, length = (batch, w.shape[0], *counts), math.prod(w.shape[1:])
    if not math.prod(extents):
        return np.zeros((1, 0), x.dtype)
    places = _chosen(math.prod(extents), length)
    number, feature, *space = np.unravel_index(places, extents)
    group = feature // (w.shape[0] // (op.feature_group_count * op.batch_group_count))
    channel, *offsets = np.indices(w.shape[1:]).reshape(len(counts) + 1, -1)
    if op.feature_group_count > 1:
        channels = (group * w.shape[1])[:, None] + channel
    else:
        number, channels = number + group * batch, np.broadcast_to(channel, (len(places), length))
    inside = np.ones((len(places), length), bool)
    index: list[Any] = []
    for axis, (position, offset) in enumerate(zip(space, offsets, strict=True)):
        at = (position * op.window_strides[axis])[:, None] + offset * op.rhs_dilation[axis]
        at, rest = np.divmod(at - op.padding[axis][0], op.lhs_dilation[axis])
        inside &= (rest == 0) & (at >= 0) & (at < x.shape[2 + axis])
        index.append(np.clip(at, 0, x.shape[2 + axis] - 1))
    windows = x[(number[:, None], channels, *index)]
    return np.where(inside, windows, 0) * w[feature].reshape(len(places), length)


TERMS: Column[Callable[..., Any]] = Column(
    "terms",
    "xla_peer/parity/accumulation.py",
    [op for op, row in ROUNDING.items() if row.combined is not None and op is not ix.Scatter],
    {
        re.ReduceSum: _reduced,
        re.ReduceProd: _reduced,
        re.CumSum: _scanned,
        re.CumProd: _scanned,
        co.DotGeneral: _contracted,
        co.Convolution: _convolved,
    },
)
"""Functions that return the terms of some elements of an op's result, with a row per element, by op class."""


def _scattered(
    op: ix.Scatter, kernel: Kernel, operands: Sequence[Any], result: Any, pending: float
) -> Any:
    """Estimate the error of a scatter from the number of updates of each element.

    The estimate assumes that all roundings except the first have the same sign.
    """
    x, indices, updates = operands
    ones = np.zeros(x.shape), indices, np.ones(updates.shape)
    hits = np.asarray(kernel(replace(op, combiner="add"), *ones))
    own = float(ml_dtypes.finfo(result.real.dtype).eps) / 16 * np.maximum(hits - 1, 0)
    share = own + np.where(hits > 0, pending / 4, 0)
    return share * _magnitude(op, kernel, operands, result)
