"""Samples of the ops without operands: constants and iota."""

from __future__ import annotations

import numpy as np

from tenferro.ops import source as ops
from tests.samples.sample import (
    COMMON,
    OpSample,
    SampleRows,
    by_index,
    dtypes_of,
    ordinary_values,
    special_values,
)


def constants() -> list[OpSample]:
    """Return samples of constants of every dtype.

    They are short lists, long lists, one repeated number, empty arrays, and arrays of rank 0.
    """
    samples: list[OpSample] = []
    for dtype in COMMON:
        arrays = [
            special_values(dtype),
            ordinary_values((9, 7), dtype, 3),
            np.ones((40,), dtype.dtype),
            np.zeros((0, 2), dtype.dtype),
            ordinary_values((), dtype, 4),
        ]
        if dtype.is_float:
            arrays.append(np.array([0.1, 1 / 3, 1e-30, 5e-324, 1e22, -0.0]).astype(dtype.dtype))
        samples += [
            OpSample(ops.Constant.of(a), (), (a,), label=f"{dtype.short}-{i}")
            for i, a in enumerate(arrays)
        ]
    return samples


def iotas() -> list[OpSample]:
    return [
        OpSample(
            ops.Iota((2, 3), axis, dtype),
            (),
            (by_index((2, 3), dtype, lambda i, axis=axis: i[axis]),),
            label=f"{dtype.short}-axis{axis}",
        )
        for dtype in dtypes_of(ops.Iota)
        for axis in (0, 1)
    ]


def shapes() -> list[OpSample]:
    return [
        OpSample(
            ops.ShapeOf(axis),
            (np.zeros((2, 0, 5), dtype.dtype),),
            (np.array((2, 0, 5)[axis], np.int64),),
            label=f"{dtype.short}-axis{axis}",
        )
        for dtype in COMMON
        for axis in range(3)
    ]


ROWS: SampleRows = {ops.Constant: constants(), ops.Iota: iotas(), ops.ShapeOf: shapes()}
