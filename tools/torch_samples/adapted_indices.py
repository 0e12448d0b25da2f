"""Gathers and scatters of tenferro with the signatures of PyTorch's operators."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf
from tools.torch_samples.adapted import Call, rank, require


def take(x: Any, index: Any) -> Any:
    return tnf.take(x, index)


def take_along(x: Any, index: Any, dim: int | None = None) -> Any:
    return tnf.take_along_axis(x, tnf.ravel(index) if dim is None else index, axis=dim)


def index_select(x: Any, dim: int, index: Any) -> Any:
    return tnf.take(tnf.atleast_1d(x), index, axis=dim) if rank(x) else x


def rows_of(x: Any, dim: int, index: Any) -> Any:
    """Convert PyTorch's `index` along `dim` to a tuple of NumPy index arrays, one for each axis.

    Along all other axes, element (i, j, ..) of the index array keeps its own position.
    """
    if not rank(x):
        return ()
    grids = list(np.indices(np.shape(index)))
    grids[dim % rank(x)] = index
    return tuple(grids)


def gather(x: Any, dim: int, index: Any) -> Any:
    if not rank(x):
        return x if not rank(index) else tnf.broadcast_to(x, np.shape(index))
    require(rank(x) == rank(index), "indices of another rank")
    cut = tuple(slice(None) if i == dim % rank(x) else slice(n) for i, n in enumerate(index.shape))
    return tnf.take_along_axis(x[cut], index, axis=dim)


def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    target = tnf.at(x)[tuple(indices)]
    return target.add(values) if accumulate else target.set(values)


def at_rows(x: Any, dim: int, index: Any) -> Any:
    require(rank(x), "a scalar")
    return tnf.at(x)[(slice(None),) * (dim % rank(x)) + (index,)]


def index_add(x: Any, dim: int, index: Any, values: Any, alpha: Any = 1) -> Any:
    return at_rows(x, dim, index).add(alpha * values)


def index_copy(x: Any, dim: int, index: Any, values: Any) -> Any:
    return at_rows(x, dim, index).set(values)


def index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    return at_rows(x, dim, index).set(value)


def select_scatter(x: Any, values: Any, dim: int, index: int) -> Any:
    return at_rows(x, dim, index).set(values)


def slice_scatter(x: Any, values: Any, dim: int, start: Any, end: Any, step: int) -> Any:
    return at_rows(x, dim, slice(start, end, step)).set(values)


def diagonal_scatter(x: Any, values: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    require(rank(x) == 2 and (dim1 - dim2) % 2, "a diagonal of a stack")
    row, column = (max(-offset, 0), max(offset, 0))
    steps = np.arange(np.shape(values)[0])
    places = (steps + row, steps + column)
    return tnf.at(x)[places if dim1 % 2 == 0 else places[::-1]].set(values)


def scatter(method: str) -> Call:
    def into(x: Any, dim: int, index: Any, values: Any) -> Any:
        places = rows_of(x, dim, index)
        if rank(values):
            values = values[tuple(slice(n) for n in np.shape(index))]
        return getattr(tnf.at(x)[places], method)(values)

    return into


def scatter_reduce(x: Any, dim: int, index: Any, values: Any, reduce: str, include_self: bool) -> Any:  # fmt: skip
    require(include_self, "results without the previous elements")
    methods = {"sum": "add", "prod": "multiply", "amin": "min", "amax": "max"}
    return scatter(methods[reduce])(x, dim, index, values)


def put(x: Any, index: Any, values: Any, accumulate: bool) -> Any:
    target = tnf.at(tnf.ravel(x))[tnf.ravel(index)]
    flat = target.add(tnf.ravel(values)) if accumulate else target.set(tnf.ravel(values))
    return tnf.reshape(flat, x.shape)
