"""Samples of the ops with data-dependent extents."""

from __future__ import annotations

import numpy as np

from tenferro.ops import dynamic as ops
from tests.samples.sample import COMMON, OpSample, SampleRows, ordinary_values

SIZES = [(3, 3), (2.5, 3), (2.4, 2), (-1, 0), (99, 5), (np.nan, 0), (np.inf, 0)]


def truncations() -> list[OpSample]:
    samples = []
    for dtype in COMMON:
        for size, kept in SIZES:
            x = ordinary_values((2, 5), dtype, 1)
            y = np.zeros((2, kept), dtype.dtype)
            for i in range(2):
                for j in range(kept):
                    y[i, j] = x[i, j]
            sample = OpSample(
                ops.DynamicTruncate(1),
                (x, np.array(size)),
                (y,),
                xla=False,
                because="the extent of the result is data",
                label=f"{dtype.short}-{size}",
            )
            samples.append(sample)
    return samples


def pads() -> list[OpSample]:
    samples = []
    for dtype in COMMON:
        for axis, rows, columns in ((0, 4, 3), (1, 2, 5), (1, 2, 3)):
            x = ordinary_values((2, 3), dtype, 1)
            reference = np.zeros((rows, columns), np.int32)
            shape = (rows, 3) if axis == 0 else (2, columns)
            y = np.zeros(shape, dtype.dtype)
            for i in range(2):
                for j in range(3):
                    y[i, j] = x[i, j]
            samples.append(
                OpSample(
                    ops.PadToMatch(axis),
                    (x, reference),
                    (y,),
                    label=f"{dtype.short}-{axis}-{columns}",
                )
            )
    return samples


ROWS: SampleRows = {ops.DynamicTruncate: truncations(), ops.PadToMatch: pads()}
