"""Samples of gathers, scatters and slices, computed by StableHLO's index arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.ops import indexing as ops
from tenferro.types import DType, TensorSpec
from tests.samples.elementwise import ieee_maximum, ieee_minimum
from tests.samples.sample import (
    COMMON,
    Array,
    OpSample,
    SampleRows,
    dtypes_of,
    indices,
    ordinary_values,
    python_number,
    wrap,
)


def start_at(index_array: Array, vector_axis: int, batch: tuple[int, ...]) -> list[int]:
    """Return the index vector at the position `batch` of an array of indices."""
    if vector_axis == index_array.ndim:
        return [int(index_array[batch])]
    return [
        int(index_array[(*batch[:vector_axis], j, *batch[vector_axis:])])
        for j in range(index_array.shape[vector_axis])
    ]


def gathered(op: Any, x: Array, index: Array, label: str) -> OpSample:
    (out,) = op.infer(TensorSpec(x.shape, x.dtype), TensorSpec(index.shape, index.dtype))
    y = np.zeros(out.shape, x.dtype)
    batch_axes = [a for a in range(out.rank) if a not in op.offset_dims]
    dropped = set(op.collapsed_slice_dims) | set(op.operand_batching_dims)
    window_axes = [a for a in range(x.ndim) if a not in dropped]
    for i in indices(out.shape):
        batch = tuple(i[a] for a in batch_axes)
        start = [0] * x.ndim
        vector = start_at(index, op.index_vector_dim, batch)
        for j, axis in enumerate(op.start_index_map):
            start[axis] = min(max(vector[j], 0), x.shape[axis] - op.slice_sizes[axis])
        for a, b in zip(op.operand_batching_dims, op.start_indices_batching_dims, strict=True):
            start[a] = batch[b - (b > op.index_vector_dim)]
        for axis, place in zip(window_axes, op.offset_dims, strict=True):
            start[axis] += i[place]
        y[i] = x[tuple(start)]
    return OpSample(op, (x, index), (y,), label=label)


GATHERS: list[tuple[str, tuple[int, ...], Any, dict[str, Any]]] = [
    (
        "rows",
        (5, 3),
        [[0], [4], [2], [9], [-3]],
        {
            "offset_dims": (1,),
            "collapsed_slice_dims": (0,),
            "start_index_map": (0,),
            "index_vector_dim": 1,
            "slice_sizes": (1, 3),
        },
    ),
    (
        "columns-implicit-vector",
        (3, 5),
        [4, 0, 7],
        {
            "offset_dims": (0,),
            "collapsed_slice_dims": (1,),
            "start_index_map": (1,),
            "index_vector_dim": 1,
            "slice_sizes": (3, 1),
        },
    ),
    (
        "columns-behind",
        (3, 5),
        [[4, 0, 7], [1, 1, -1]],
        {
            "offset_dims": (2,),
            "collapsed_slice_dims": (1,),
            "start_index_map": (1,),
            "index_vector_dim": 2,
            "slice_sizes": (3, 1),
        },
    ),
    (
        "windows",
        (6, 7),
        [[1, 5], [4, -2], [3, 3]],
        {
            "offset_dims": (1, 2),
            "collapsed_slice_dims": (),
            "start_index_map": (1, 0),
            "index_vector_dim": 1,
            "slice_sizes": (2, 3),
        },
    ),
    (
        "vector-first",
        (6, 7),
        [[1, 4, 3], [5, -2, 3]],
        {
            "offset_dims": (0, 1),
            "collapsed_slice_dims": (),
            "start_index_map": (0, 1),
            "index_vector_dim": 0,
            "slice_sizes": (2, 3),
        },
    ),
    (
        "batching",
        (2, 5, 3),
        [[[4], [0]], [[1], [8]]],
        {
            "offset_dims": (2,),
            "collapsed_slice_dims": (1,),
            "operand_batching_dims": (0,),
            "start_indices_batching_dims": (0,),
            "start_index_map": (1,),
            "index_vector_dim": 2,
            "slice_sizes": (1, 1, 3),
        },
    ),
    (
        "batching-swapped",
        (2, 5),
        [[4, 0], [1, 8], [2, 2]],
        {
            "offset_dims": (),
            "collapsed_slice_dims": (1,),
            "operand_batching_dims": (0,),
            "start_indices_batching_dims": (1,),
            "start_index_map": (1,),
            "index_vector_dim": 2,
            "slice_sizes": (1, 1),
        },
    ),
    (
        "no-indices",
        (5, 3),
        np.zeros((0, 1)),
        {
            "offset_dims": (1,),
            "collapsed_slice_dims": (0,),
            "start_index_map": (0,),
            "index_vector_dim": 1,
            "slice_sizes": (1, 3),
        },
    ),
    (
        "empty-window",
        (5, 3),
        [[1], [2]],
        {
            "offset_dims": (1, 2),
            "collapsed_slice_dims": (),
            "start_index_map": (0,),
            "index_vector_dim": 1,
            "slice_sizes": (0, 3),
        },
    ),
]


def gathers(card: Any) -> list[OpSample]:
    samples = []
    for dtype in COMMON:
        for label, shape, index, fields in GATHERS:
            numbers = {"operand_batching_dims": (), "start_indices_batching_dims": ()} | fields
            x = ordinary_values(shape, dtype, 1)
            samples.append(
                gathered(card(**numbers), x, np.array(index, np.int64), f"{label}-{dtype.short}")
            )
    for dtype in ("int8", "int32", "uint8", "uint64"):
        _, shape, _, fields = GATHERS[0]
        numbers = {"operand_batching_dims": (), "start_indices_batching_dims": ()} | fields
        index = np.array([[0], [4], [100]], dtype)
        samples.append(
            gathered(card(**numbers), ordinary_values(shape, DType.F64, 1), index, f"by-{dtype}")
        )
    return samples


def combine(combiner: str, dtype: DType, a: Any, b: Any) -> Any:
    if combiner == "set":
        return b
    if dtype.is_bool:
        return (a or b) if combiner in ("add", "max") else (a and b)
    if combiner in ("add", "multiply"):
        value = a + b if combiner == "add" else a * b
        return wrap(value, dtype) if dtype.is_integer else value
    if dtype.is_integer:
        return max(a, b) if combiner == "max" else min(a, b)
    return ieee_maximum(a, b) if combiner == "max" else ieee_minimum(a, b)


CUT = {
    "interpreter": "if a window lies partly outside, the specification drops only the elements outside, and XLA the whole window"
}


def scattered(op: Any, x: Array, index: Array, updates: Array, label: str) -> OpSample:
    dtype = DType.of(x.dtype)
    y = x.copy()
    scatter_axes = [a for a in range(updates.ndim) if a not in op.update_window_dims]
    dropped = set(op.inserted_window_dims) | set(op.input_batching_dims)
    window_axes = [a for a in range(x.ndim) if a not in dropped]
    is_cut = False
    for u in indices(updates.shape):
        batch = tuple(u[a] for a in scatter_axes)
        place = [0] * x.ndim
        limit = list(x.shape)
        vector = start_at(index, op.index_vector_dim, batch)
        for j, axis in enumerate(op.scatter_dims_to_operand_dims):
            place[axis] = vector[j]
        for a, b in zip(op.input_batching_dims, op.scatter_indices_batching_dims, strict=True):
            place[a] = batch[b - (b > op.index_vector_dim)]
        starts = list(place)
        for axis, w in zip(window_axes, op.update_window_dims, strict=True):
            place[axis] += u[w]
            limit[axis] -= updates.shape[w] - 1
        at = tuple(place)
        if all(0 <= s < n for s, n in zip(starts, limit, strict=True)):
            y[at] = combine(op.combiner, dtype, python_number(y[at]), python_number(updates[u]))
        else:
            is_cut |= all(0 <= i < n for i, n in zip(at, x.shape, strict=True))
    inexact = dtype.is_inexact and op.combiner in ("add", "multiply")
    return OpSample(
        op,
        (x, index, updates),
        (y,),
        ulps=4 if inexact else 0,
        xla_ulps=8 if inexact else 0,
        because="several updates of one element round in another order" if inexact else "",
        label=label,
        exempt=CUT if is_cut else {},
    )


SCATTERS: list[tuple[str, tuple[int, ...], Any, tuple[int, ...], dict[str, Any]]] = [
    (
        "no axis",
        (2,),
        [[], [], []],
        (3, 2),
        {
            "update_window_dims": (1,),
            "inserted_window_dims": (),
            "scatter_dims_to_operand_dims": (),
            "index_vector_dim": 1,
        },
    ),
    (
        "rows",
        (5, 3),
        [[0], [4], [9], [-1]],
        (4, 3),
        {
            "update_window_dims": (1,),
            "inserted_window_dims": (0,),
            "scatter_dims_to_operand_dims": (0,),
            "index_vector_dim": 1,
        },
    ),
    (
        "windows",
        (5, 6),
        [[0, 1], [4, 0], [2, 5]],
        (3, 2, 2),
        {
            "update_window_dims": (1, 2),
            "inserted_window_dims": (),
            "scatter_dims_to_operand_dims": (0, 1),
            "index_vector_dim": 1,
        },
    ),
    (
        "batching",
        (2, 5),
        [[[4], [0]], [[1], [8]]],
        (2, 2),
        {
            "update_window_dims": (),
            "inserted_window_dims": (1,),
            "input_batching_dims": (0,),
            "scatter_indices_batching_dims": (0,),
            "scatter_dims_to_operand_dims": (1,),
            "index_vector_dim": 2,
        },
    ),
    (
        "empty",
        (5, 3),
        np.zeros((0, 1)),
        (0, 3),
        {
            "update_window_dims": (1,),
            "inserted_window_dims": (0,),
            "scatter_dims_to_operand_dims": (0,),
            "index_vector_dim": 1,
        },
    ),
]


def scatters() -> list[OpSample]:
    samples = []
    for dtype in COMMON:
        for combiner in ops.COMBINERS:
            if dtype.is_complex and combiner in ("min", "max"):
                continue
            for label, shape, index, update_shape, fields in SCATTERS:
                numbers = {"input_batching_dims": (), "scatter_indices_batching_dims": ()} | fields
                op = ops.Scatter(**numbers, combiner=combiner)
                x, updates = (
                    ordinary_values(shape, dtype, 1),
                    ordinary_values(update_shape, dtype, 2),
                )
                samples.append(
                    scattered(
                        op,
                        x,
                        np.array(index, np.int64),
                        updates,
                        f"{label}-{combiner}-{dtype.short}",
                    )
                )
    _, shape, _, _, fields = SCATTERS[1]
    numbers = {"input_batching_dims": (), "scatter_indices_batching_dims": ()} | fields
    x, updates = ordinary_values(shape, DType.I64, 1), ordinary_values((3, 3), DType.I64, 2)
    for combiner in ("add", "multiply", "min", "max"):
        op = ops.Scatter(**numbers, combiner=combiner)
        index = np.array([[1], [1], [2]])
        samples.append(scattered(op, x, index, updates, f"twice-{combiner}"))
    return samples


def slices() -> list[OpSample]:
    samples = []
    for dtype in COMMON:
        for start in ((1, 2), (9, -4), (0, 0)):
            x = ordinary_values((4, 5), dtype, 1)
            first = [min(max(s, 0), n - w) for s, n, w in zip(start, (4, 5), (2, 3), strict=True)]
            y = np.zeros((2, 3), dtype.dtype)
            for i in indices((2, 3)):
                y[i] = x[first[0] + i[0], first[1] + i[1]]
            starts = tuple(np.array(s, np.int32) for s in start)
            samples.append(
                OpSample(
                    ops.DynamicSlice((2, 3)), (x, *starts), (y,), label=f"{dtype.short}-{start}"
                )
            )
    scalar = ordinary_values((), DType.F32, 1)
    samples.append(OpSample(ops.DynamicSlice(()), (scalar,), (scalar.copy(),), label="scalar"))
    return samples


def updates() -> list[OpSample]:
    samples = []
    for dtype in COMMON:
        for start in ((1, 2), (9, -4)):
            x, update = ordinary_values((4, 5), dtype, 1), ordinary_values((2, 3), dtype, 2)
            first = [min(max(s, 0), n - w) for s, n, w in zip(start, (4, 5), (2, 3), strict=True)]
            y = x.copy()
            for i in indices((2, 3)):
                y[first[0] + i[0], first[1] + i[1]] = update[i]
            starts = tuple(np.array(s, np.int64) for s in start)
            op = ops.DynamicUpdateSlice(2)
            samples.append(OpSample(op, (x, update, *starts), (y,), label=f"{dtype.short}-{start}"))
    return samples


assert dtypes_of(ops.Gather) == list(COMMON)

ROWS: SampleRows = {
    ops.Gather: gathers(ops.Gather),
    ops.GatherDynamicSliceSizes: gathers(ops.GatherDynamicSliceSizes),
    ops.Scatter: scatters(),
    ops.DynamicSlice: slices(),
    ops.DynamicUpdateSlice: updates(),
}
