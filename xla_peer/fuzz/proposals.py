"""Table of functions, one per op class, that draw a random op of the class and its operands for the fuzzer.

A function takes the op class (its card) and the pool of values. It returns an op with a random payload, and its
operands. For an op class that is never drawn, the table contains `NotProposed` with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenferro.ops import STD_OPS, Column, StdTensorOp
from tenferro.ops import analytic as an
from tenferro.ops import contraction as co
from tenferro.ops import control as cf
from tenferro.ops import dynamic as dy
from tenferro.ops import elementwise as el
from tenferro.ops import indexing as ix
from tenferro.ops import reduction as re
from tenferro.ops import source as so
from tenferro.ops import structural as st
from tenferro.ops.extension import Extension
from tenferro.types import DType, TensorSpec
from xla_peer.fuzz.pool import Pool, in_order

__all__ = ["PROPOSALS", "NotProposed", "Proposal"]

Proposal = tuple[StdTensorOp, list[int]]
Propose = Callable[[Any, Pool], Proposal]


@dataclass(frozen=True)
class NotProposed:
    """The reason why the fuzzer never draws an op."""

    reason: str


Row = Propose | NotProposed
COMMON = tuple(in_order(DType))
"""Dtypes of the values in random programs."""
INTEGERS = tuple(in_order([dtype for dtype in DType if dtype.is_integer]))


def _ranked(least: int, largest_extent: int = 1) -> Callable[[TensorSpec], bool]:
    return lambda spec: spec.rank >= least and all(e >= largest_extent for e in spec.shape)


def _axis(pool: Pool, value: int) -> int:
    return pool.integer(0, pool.spec(value).rank - 1)


# ---- elementwise and analytic -------------------------------------------------------------------------


def _unary(card: Any, pool: Pool) -> Proposal:
    return card(), [pool.operand(card.accepts)]


def _binary(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    return card(), [x, pool.like(pool.spec(x))]


def _clamp(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    spec = pool.spec(x)
    return card(), [pool.like(spec), x, pool.like(spec)]


def _compare(card: Any, pool: Pool) -> Proposal:
    operands = _binary(el.Add, pool)[1]
    directions = ("EQ", "NE") if pool.spec(operands[0]).dtype.is_complex else el.DIRECTIONS
    return card(pool.choice(directions)), operands


def _select(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    spec = pool.spec(x)
    return card(), [pool.of(spec.shape, DType.Bool), x, pool.like(spec)]


def _convert(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    return card(pool.choice(COMMON)), [x]


def _bitcast(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    size = pool.spec(x).dtype.itemsize
    same = [d for d in in_order(card.accepts) if d.itemsize == size and not d.is_complex]
    if pool.spec(x).dtype.is_complex or not same:
        return el.Negate(), [x]
    return card(pool.choice(same)), [x]


def _reduce_precision(card: Any, pool: Pool) -> Proposal:
    return card(pool.integer(2, 8), pool.integer(0, 10)), [pool.operand(card.accepts)]


def _polygamma(card: Any, pool: Pool) -> Proposal:
    return card(pool.integer(0, 3)), [pool.operand(card.accepts)]


# ---- structural ---------------------------------------------------------------------------------------


def _transpose(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    return card(tuple(pool.rng.permutation(pool.spec(x).rank).tolist())), [x]


def _reshape(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    shape = pool.spec(x).shape
    size = math.prod(shape)
    factors = [f for f in range(1, size + 1) if size % f == 0]
    forms = [(size,), shape[::-1], (1, *shape), (*shape, 1)]
    forms += [(f, size // f) for f in factors]
    return card(pool.choice(forms)), [x]


def _broadcast(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts, lambda spec: spec.rank <= 2)
    shape = pool.spec(x).shape
    rank = pool.integer(len(shape), 3)
    dims = tuple(sorted(pool.rng.permutation(rank)[: len(shape)].tolist()))
    wide = [pool.choice((1, 2, 3)) for _ in range(rank)]
    for extent, dim in zip(shape, dims, strict=True):
        wide[dim] = extent if extent != 1 or pool.chance(0.5) else wide[dim]
    return card(tuple(wide), dims), [x]


def _slice(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    starts = [pool.integer(0, extent) for extent in pool.spec(x).shape]
    limits = [pool.integer(a, b) for a, b in zip(starts, pool.spec(x).shape, strict=True)]
    strides = [pool.integer(1, 3) for _ in starts]
    return card(tuple(starts), tuple(limits), tuple(strides)), [x]


def _pad(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    rank = pool.spec(x).rank
    low, high = (tuple(pool.integer(-1, 2) for _ in range(rank)) for _ in range(2))
    interior = tuple(pool.integer(0, 1) for _ in range(rank))
    return card(low, high, interior), [x, pool.of((), pool.spec(x).dtype)]


def _concatenate(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts, _ranked(1, 0))
    axis, count = _axis(pool, x), pool.integer(1, 3)
    shape, dtype = list(pool.spec(x).shape), pool.spec(x).dtype
    parts = [x]
    for _ in range(count - 1):
        shape[axis] = pool.integer(0, 3)
        parts.append(pool.of(shape, dtype))
    return card(axis, count), parts


def _reverse(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    return card(pool.some(range(pool.spec(x).rank))), [x]


def _extract_diag(card: Any, pool: Pool) -> Proposal:
    n, shape = pool.integer(0, 4), list(pool.shape(0, 2))
    a, b = sorted(pool.rng.permutation(len(shape) + 2)[:2].tolist())
    shape.insert(a, n)
    shape.insert(b, n)
    return card(a, b), [pool.of(shape, pool.choice(COMMON))]


def _embed_diag(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts, lambda spec: 1 <= spec.rank <= 2)
    rank = pool.spec(x).rank
    a, b = pool.integer(0, rank - 1), pool.integer(0, rank)
    return (card(a, b) if a != b else card(a, rank)), [x]


def _triangle(card: Any, pool: Pool) -> Proposal:
    return card(pool.integer(-2, 2)), [pool.operand(card.accepts, _ranked(2, 0))]


def _barrier(card: Any, pool: Pool) -> Proposal:
    count = pool.integer(1, 2)
    return card(count), [pool.operand(card.accepts) for _ in range(count)]


# ---- reductions ---------------------------------------------------------------------------------------


def _reduce(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    return card(pool.some(range(pool.spec(x).rank))), [x]


def _arg(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts, _ranked(1))
    return card(_axis(pool, x)), [x]


def _scan(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts, _ranked(1, 0))
    return card(_axis(pool, x), pool.chance(0.5)), [x]


def _sort(card: Any, pool: Pool) -> Proposal:
    x = pool.operand([d for d in card.accepts if not d.is_complex], _ranked(1, 0))
    count = pool.integer(1, 2)
    rest = [pool.of(pool.spec(x).shape, pool.choice(COMMON)) for _ in range(count - 1)]
    return card(_axis(pool, x), True, count), [x, *rest]


def _top_k(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts, _ranked(1))
    return card(pool.integer(0, pool.spec(x).shape[-1])), [x]


# ---- contractions -------------------------------------------------------------------------------------


def _dot(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    shape, dtype = pool.spec(x).shape, pool.spec(x).dtype
    axes = pool.rng.permutation(len(shape)).tolist()
    contracting = axes[: pool.integer(0, min(2, len(axes)))]
    batch = [axis for axis in axes if axis not in contracting][: pool.integer(0, 1)]
    paired = [*contracting, *batch]
    extents = [shape[axis] for axis in paired] + list(pool.shape(0, 2))
    order = pool.rng.permutation(len(extents)).tolist()
    y = pool.of([extents[axis] for axis in order], dtype)
    places = [order.index(number) for number in range(len(paired))]
    return (
        card(
            tuple(contracting),
            tuple(places[: len(contracting)]),
            tuple(batch),
            tuple(places[len(contracting) :]),
        ),
        [x, y],
    )


def _convolution(card: Any, pool: Pool) -> Proposal:
    rank = pool.integer(1, 2)
    dtype = pool.choice([DType.F32, DType.F64, DType.C64, DType.C32, DType.I32])
    batch, features, outputs = (pool.integer(1, 3) for _ in range(3))
    image = [pool.integer(1, 6) for _ in range(rank)]
    window = [pool.integer(1, 3) for _ in range(rank)]
    dims = list(range(rank + 2))
    at_input, at_kernel, at_output = (pool.rng.permutation(dims).tolist() for _ in range(3))
    x_shape, w_shape = [0] * (rank + 2), [0] * (rank + 2)
    for axis, extent in zip(at_input, [batch, features, *image], strict=True):
        x_shape[axis] = extent
    for axis, extent in zip(at_kernel, [features, outputs, *window], strict=True):
        w_shape[axis] = extent
    op = card(
        window_strides=tuple(pool.integer(1, 2) for _ in image),
        padding=tuple((pool.integer(0, 2), pool.integer(0, 2)) for _ in image),
        lhs_dilation=tuple(pool.integer(1, 2) for _ in image),
        rhs_dilation=tuple(pool.integer(1, 2) for _ in image),
        window_reversal=tuple(pool.chance(0.3) for _ in image),
        input_batch=at_input[0],
        input_feature=at_input[1],
        input_spatial=tuple(at_input[2:]),
        kernel_input_feature=at_kernel[0],
        kernel_output_feature=at_kernel[1],
        kernel_spatial=tuple(at_kernel[2:]),
        output_batch=at_output[0],
        output_feature=at_output[1],
        output_spatial=tuple(at_output[2:]),
    )
    return op, [pool.of(x_shape, dtype), pool.of(w_shape, dtype)]


# ---- indexing -----------------------------------------------------------------------------------------


def _windows(pool: Pool, shape: tuple[int, ...]) -> Any:
    """Draw the indexed axes, the window sizes, the collapsed axes, and a batch shape."""
    rank = len(shape)
    chosen = pool.some(range(rank))
    sizes = [pool.integer(0 if e == 0 else 1, e) if a in chosen else e for a, e in enumerate(shape)]
    gone = [a for a in chosen if shape[a] > 0 and pool.chance(0.6)]
    for axis in gone:
        sizes[axis] = 1
    return chosen, tuple(sizes), tuple(gone), pool.shape(0, 1)


def _gather(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts, _ranked(0, 1))
    shape = pool.spec(x).shape
    chosen, sizes, gone, batch = _windows(pool, shape)
    window_rank = len(shape) - len(gone)
    places = sorted(pool.rng.permutation(window_rank + len(batch))[:window_rank].tolist())
    op = card(tuple(places), gone, (), (), chosen, len(batch), sizes)
    return op, [x, pool.indices([*batch, len(chosen)], max(shape, default=1))]


def _scatter(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts, _ranked(0, 1))
    shape, dtype = pool.spec(x).shape, pool.spec(x).dtype
    chosen, sizes, gone, batch = _windows(pool, shape)
    window = [size for axis, size in enumerate(sizes) if axis not in gone]
    places = sorted(pool.rng.permutation(len(window) + len(batch))[: len(window)].tolist())
    updates, rest, left = [], list(batch), list(window)
    for axis in range(len(window) + len(batch)):
        updates.append(left.pop(0) if axis in places else rest.pop(0))
    combiners = [c for c in ix.COMBINERS if c not in ("min", "max") or not dtype.is_complex]
    if dtype.is_bool:
        combiners = ["set"]
    op = card(tuple(places), gone, (), (), chosen, len(batch), pool.choice(combiners))
    indices = pool.indices([*batch, len(chosen)], max(shape, default=1))
    return op, [x, indices, pool.of(updates, dtype)]


def _starts(pool: Pool, shape: tuple[int, ...]) -> list[int]:
    dtype = pool.choice([DType.I32, DType.I64])
    return [pool.leaf_of(np.asarray(pool.integer(-2, extent + 1), dtype.dtype)) for extent in shape]


def _dynamic_slice(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    shape = pool.spec(x).shape
    return card(tuple([pool.integer(0, e) for e in shape])), [x, *_starts(pool, shape)]


def _dynamic_update(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts)
    shape, dtype = pool.spec(x).shape, pool.spec(x).dtype
    update = pool.of([pool.integer(0, extent) for extent in shape], dtype)
    return card(len(shape)), [x, update, *_starts(pool, shape)]


# ---- sources ------------------------------------------------------------------------------------------


def _constant(card: Any, pool: Pool) -> Proposal:
    value = pool.leaf(TensorSpec.of(pool.shape(), pool.choice(COMMON)))
    return st.OptimizationBarrier(1), [value]


def _iota(card: Any, pool: Pool) -> Proposal:
    shape = pool.shape(1)
    return card(shape, pool.integer(0, len(shape) - 1), pool.choice(in_order(card.accepts))), []


def _shape_of(card: Any, pool: Pool) -> Proposal:
    x = pool.operand(card.accepts, _ranked(1, 0))
    return card(_axis(pool, x)), [x]


def _all(cards: Iterable[type[StdTensorOp]], row: Row) -> dict[type[StdTensorOp], Row]:
    return dict.fromkeys(cards, row)


DATA_DECIDE = NotProposed("the data decide an extent, and StableHLO's backends have no such type")
UNARY = [card for card in (*el.CARDS, *an.CARDS) if card.input_count == 1]
BINARY = [card for card in (*el.CARDS, *an.CARDS) if card.input_count == 2]

PROPOSALS: Column[Row] = Column(
    "proposal",
    "xla_peer/fuzz/proposals.py",
    [*STD_OPS, Extension],
    {so.Constant: _constant, so.Iota: _iota, so.ShapeOf: _shape_of},
    {
        **_all(UNARY, _unary),
        **_all(BINARY, _binary),
        el.Clamp: _clamp,
        el.Compare: _compare,
        el.Select: _select,
        el.Convert: _convert,
        el.BitcastConvert: _bitcast,
        el.ReducePrecision: _reduce_precision,
        an.Polygamma: _polygamma,
    },
    {
        st.Transpose: _transpose,
        st.Reshape: _reshape,
        st.BroadcastInDim: _broadcast,
        st.Slice: _slice,
        st.Pad: _pad,
        st.Concatenate: _concatenate,
        st.Reverse: _reverse,
        st.ExtractDiag: _extract_diag,
        st.EmbedDiag: _embed_diag,
        st.Tril: _triangle,
        st.Triu: _triangle,
        st.OptimizationBarrier: _barrier,
    },
    {
        **_all([re.ReduceSum, re.ReduceProd, re.ReduceMax, re.ReduceMin], _reduce),
        **_all([re.ReduceAnd, re.ReduceOr], _reduce),
        **_all([re.ArgMax, re.ArgMin], _arg),
        **_all([re.CumSum, re.CumProd, re.CumMax, re.CumMin], _scan),
        re.Sort: _sort,
        re.TopK: _top_k,
    },
    {co.DotGeneral: _dot, co.Convolution: _convolution},
    {
        ix.Gather: _gather,
        ix.GatherDynamicSliceSizes: DATA_DECIDE,
        ix.Scatter: _scatter,
        ix.DynamicSlice: _dynamic_slice,
        ix.DynamicUpdateSlice: _dynamic_update,
    },
    _all(dy.CARDS, DATA_DECIDE),
    _all(cf.CARDS, NotProposed("their bodies are programs, which are proposed as such")),
    {
        Extension: NotProposed(
            "families take matrices that mean something; their own tests compare both paths"
        )
    },
)
