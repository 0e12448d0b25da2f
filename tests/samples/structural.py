"""Samples of ops that only move elements. Their results are exact in all dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenferro.ops import structural as ops
from tenferro.types import DType
from tests.samples.sample import (
    COMMON,
    Array,
    OpSample,
    SampleRows,
    by_index,
    indices,
    ordinary_values,
)

Place = Callable[[tuple[int, ...]], tuple[int, ...] | None]


def moved(x: Array, shape: Sequence[int], place: Place, fill: Any = 0) -> Array:
    """Return an array y of the given shape with y[i] = x[place(i)], or `fill` where `place(i)` is None."""
    result = np.zeros(shape, x.dtype)
    for index in indices(shape):
        source = place(index)
        result[index] = fill if source is None else x[source]
    return result


def offset_f(index: Sequence[int], shape: Sequence[int]) -> int:
    """Return the offset of the element at an index, if the array is stored in column-major order."""
    total, step = 0, 1
    for i, n in zip(index, shape, strict=True):
        total, step = total + i * step, step * n
    return total


def index_f(offset: int, shape: Sequence[int]) -> tuple[int, ...]:
    result = []
    for n in shape:
        result.append(offset % n)
        offset //= n
    return tuple(result)


def each_dtype(make: Callable[[DType], list[OpSample]]) -> list[OpSample]:
    return [sample for dtype in COMMON for sample in make(dtype)]


def transposes(dtype: DType) -> list[OpSample]:
    samples = []
    for shape, perm in (((2, 3, 4), (2, 0, 1)), ((2, 3), (1, 0)), ((), ()), ((0, 2), (1, 0))):
        x = ordinary_values(shape, dtype, 1)
        out = tuple(shape[axis] for axis in perm)
        y = moved(x, out, lambda i, perm=perm: tuple(i[perm.index(a)] for a in range(len(perm))))
        samples.append(OpSample(ops.Transpose(perm), (x,), (y,), label=f"{dtype.short}-{perm}"))
    return samples


def reshapes(dtype: DType) -> list[OpSample]:
    samples = []
    for shape, out in (
        ((2, 3, 4), (4, 6)),
        ((6,), (3, 2)),
        ((), (1, 1)),
        ((0, 3), (2, 0)),
        ((2, 3), (3, 2)),
    ):
        x = ordinary_values(shape, dtype, 1)
        y = moved(x, out, lambda i, s=shape, o=out: index_f(offset_f(i, o), s))
        samples.append(OpSample(ops.Reshape(out), (x,), (y,), label=f"{dtype.short}-{shape}-{out}"))
    return samples


def broadcasts(dtype: DType) -> list[OpSample]:
    samples = []
    for shape, out, dims in (
        ((3,), (2, 3), (1,)),
        ((), (2, 2), ()),
        ((2, 3), (3, 4, 2), (2, 0)),
        ((1, 3), (2, 3), (0, 1)),
        ((3, 1), (0, 3, 2), (1, 2)),
    ):
        x = ordinary_values(shape, dtype, 1)
        y = moved(
            x,
            out,
            lambda i, s=shape, d=dims: tuple(
                0 if n == 1 else i[a] for n, a in zip(s, d, strict=True)
            ),
        )
        op = ops.BroadcastInDim(out, dims)
        samples.append(OpSample(op, (x,), (y,), label=f"{dtype.short}-{shape}-{out}-{dims}"))
    return samples


def slices(dtype: DType) -> list[OpSample]:
    samples = []
    for starts, limits, strides in (
        ((1, 0), (6, 4), (2, 3)),
        ((0, 2), (7, 2), (1, 1)),
        ((2, 1), (3, 4), (1, 1)),
    ):
        x = ordinary_values((7, 4), dtype, 1)
        out = [-(-(b - a) // s) for a, b, s in zip(starts, limits, strides, strict=True)]
        y = moved(
            x, out, lambda i, a=starts, s=strides: tuple(a[k] + i[k] * s[k] for k in range(2))
        )
        op = ops.Slice(starts, limits, strides)
        samples.append(OpSample(op, (x,), (y,), label=f"{dtype.short}-{starts}-{limits}"))
    return samples


def pads(dtype: DType) -> list[OpSample]:
    samples = []
    for low, high, interior in (
        ((1, 0), (2, 1), (0, 2)),
        ((-1, 2), (0, -1), (1, 0)),
        ((-2, -1), (-1, 0), (2, 1)),
        ((0, 0), (0, 0), (0, 0)),
        ((-3, 0), (0, 0), (0, 0)),
    ):
        x, value = ordinary_values((3, 4), dtype, 1), ordinary_values((), dtype, 9)
        out = [
            a + n + max(n - 1, 0) * g + b
            for a, n, g, b in zip(low, x.shape, interior, high, strict=True)
        ]

        def place(
            i: tuple[int, ...], low: Any = low, gap: Any = interior
        ) -> tuple[int, ...] | None:
            source = []
            for k, n in enumerate((3, 4)):
                position, rest = divmod(i[k] - low[k], gap[k] + 1)
                if rest or not 0 <= position < n:
                    return None
                source.append(position)
            return tuple(source)

        y = moved(x, out, place, value[()])
        op = ops.Pad(low, high, interior)
        samples.append(
            OpSample(op, (x, value), (y,), label=f"{dtype.short}-{low}-{high}-{interior}")
        )
    return samples


def concatenates(dtype: DType) -> list[OpSample]:
    parts = [ordinary_values((2, n), dtype, n) for n in (3, 0, 2)]
    lookup = [(p, j) for p, part in enumerate(parts) for j in range(part.shape[1])]
    y = by_index(
        (2, 5),
        dtype,
        lambda i: (
            parts[lookup[i[1]][0]][i[0], lookup[i[1]][1]].item()
            if dtype is not DType.BF16
            else float(parts[lookup[i[1]][0]][i[0], lookup[i[1]][1]])
        ),
    )
    one = ordinary_values((2,), dtype, 1)
    return [
        OpSample(ops.Concatenate(1, 3), tuple(parts), (y,), label=dtype.short),
        OpSample(ops.Concatenate(0, 1), (one,), (one.copy(),), label=f"one-{dtype.short}"),
    ]


def reverses(dtype: DType) -> list[OpSample]:
    samples = []
    for axes in ((0,), (1,), (0, 1), ()):
        x = ordinary_values((2, 3), dtype, 1)
        y = moved(
            x,
            x.shape,
            lambda i, axes=axes: tuple(
                n - 1 - j if a in axes else j
                for a, (j, n) in enumerate(zip(i, (2, 3), strict=True))
            ),
        )
        samples.append(OpSample(ops.Reverse(axes), (x,), (y,), label=f"{dtype.short}-{axes}"))
    return samples


def poisoned(x: Array, dtype: DType) -> Array:
    """Return a copy of x with NaN and infinities off its diagonal. The result of the op must not depend on them."""
    if dtype.is_inexact:
        x = x.copy()
        x[(0, 1, *(0,) * (x.ndim - 2))] = np.nan
        x[(1, 0, *(0,) * (x.ndim - 2))] = np.inf
    return x


def extract_diags(dtype: DType) -> list[OpSample]:
    samples = []
    for shape, a, b in (
        ((3, 3), 0, 1),
        ((3, 3, 2), 1, 0),
        ((3, 4, 3), 0, 2),
        ((3, 4, 3), 2, 0),
        ((2, 4, 4), 2, 1),
    ):
        x = (
            poisoned(ordinary_values(shape, dtype, 1), dtype)
            if shape[:2] == (3, 3)
            else ordinary_values(shape, dtype, 1)
        )
        out = [n for axis, n in enumerate(shape) if axis != b]

        def place(i: tuple[int, ...], a: int = a, b: int = b) -> tuple[int, ...]:
            kept = list(i)
            kept.insert(b, i[a - (b < a)])
            return tuple(kept)

        y = moved(x, out, place)
        op = ops.ExtractDiag(a, b)
        samples.append(OpSample(op, (x,), (y,), label=f"{dtype.short}-{shape}-{a}-{b}"))
    return samples


def embed_diags(dtype: DType) -> list[OpSample]:
    samples = []
    for shape, a, b in (((3,), 0, 1), ((3,), 1, 0), ((3, 4), 0, 2), ((3, 4), 2, 0), ((2, 4), 1, 2)):
        x = ordinary_values(shape, dtype, 1)
        if dtype.is_inexact:
            x = x.copy()
            x.reshape(-1)[0] = np.inf
        out = list(shape)
        out.insert(b, shape[a - (b < a)])

        def place(i: tuple[int, ...], a: int = a, b: int = b) -> tuple[int, ...] | None:
            return tuple(j for axis, j in enumerate(i) if axis != b) if i[a] == i[b] else None

        op = ops.EmbedDiag(a, b)
        samples.append(
            OpSample(op, (x,), (moved(x, out, place),), label=f"{dtype.short}-{shape}-{a}-{b}")
        )
    return samples


def triangles(card: Any, keeps: Callable[[int, int], bool]) -> list[OpSample]:
    samples = []
    for dtype in COMMON:
        for shape, k in (((3, 4), 0), ((2, 3, 2), -1), ((3, 3), 1)):
            x = poisoned(ordinary_values(shape, dtype, 1), dtype)
            y = moved(x, shape, lambda i, k=k: i if keeps(i[-1] - i[-2], k) else None)
            samples.append(OpSample(card(k), (x,), (y,), label=f"{dtype.short}-{shape}-{k}"))
    return samples


def barriers(dtype: DType) -> list[OpSample]:
    x, y = ordinary_values((2, 3), dtype), np.arange(4)
    return [
        OpSample(ops.OptimizationBarrier(2), (x, y), (x, y), label=f"{dtype.short}-two"),
        OpSample(ops.OptimizationBarrier(), (x,), (x,), label=dtype.short),
    ]


ROWS: SampleRows = {
    ops.Transpose: each_dtype(transposes),
    ops.Reshape: each_dtype(reshapes),
    ops.BroadcastInDim: each_dtype(broadcasts),
    ops.Slice: each_dtype(slices),
    ops.Pad: each_dtype(pads),
    ops.Concatenate: each_dtype(concatenates),
    ops.Reverse: each_dtype(reverses),
    ops.ExtractDiag: each_dtype(extract_diags),
    ops.EmbedDiag: each_dtype(embed_diags),
    ops.Tril: triangles(ops.Tril, lambda offset, k: offset <= k),
    ops.Triu: triangles(ops.Triu, lambda offset, k: offset >= k),
    ops.OptimizationBarrier: each_dtype(barriers),
}
