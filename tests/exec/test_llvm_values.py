"""Conversions, constants and views of every dtype in compiled loops must have the interpreter's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.dispatch import apply_one
from tenferro.exec.llvm import link
from tenferro.ops.source import Constant, Iota
from tenferro.types import DType
from tests.exec.compiled_loops import run_as_written_and_optimised

pytestmark = pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")
RNG = np.random.default_rng(5)
DTYPES = [dtype for dtype in DType if not dtype.is_narrow]
REAL = [dtype for dtype in DTYPES if not dtype.is_complex]
each = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def values(dtype: DType, *shape: int) -> Any:
    """Return random numbers of a dtype, of both signs if it is signed."""
    if dtype.is_bool:
        return RNG.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        limits = np.iinfo(dtype.dtype)
        return RNG.integers(max(limits.min, -200), min(limits.max, 200), shape).astype(dtype.dtype)
    x = RNG.normal(size=shape) * 10
    return (x + 1j * RNG.normal(size=shape) if dtype.is_complex else x).astype(dtype.dtype)


def require_same_bits(fn: Any, *arrays: Any) -> None:
    """Require that a compiled loop returns the same bits as the interpreter."""
    program = tnf.compile(fn, *arrays)
    compiled, interpreted = (tnf.GraphExecutor("C", compiled=way) for way in (True, False))
    assert "# compiled" in str(compiled.compile(program, *arrays))
    ys, zs = (
        tnf.types.flatten(results)[0]
        for results in (
            run_as_written_and_optimised(compiled, program, *arrays),
            interpreted.run(program, *arrays),
        )
    )
    for y, z in zip(ys, zs, strict=True):
        assert (y.shape, y.dtype) == (z.shape, z.dtype)
        assert y.tobytes() == z.tobytes()


@each
def test_conversions(dtype: DType) -> None:
    x = values(dtype, 6, 9)
    targets = [to for to in DTYPES if to.is_complex or not dtype.is_complex]
    if dtype.is_float:  # because converting an out-of-range float is undefined
        targets = [to for to in targets if not to.is_integer or to in (DType.I64, DType.I32)]

    def iteration(carry: Any, row: Any) -> Any:
        return carry, [row.astype(to.value) for to in targets]

    require_same_bits(lambda x: tnf.scan(iteration, 0, x), x)


def test_conversions_of_counters() -> None:
    def iteration(i: Any, _: Any) -> Any:
        return i + 1, [tnf.asarray(i).astype(to.value) for to in DTYPES]

    require_same_bits(lambda i: tnf.scan(iteration, i, None, length=20), np.int64(250))


@each
def test_constants(dtype: DType) -> None:
    several = [values(dtype, *shape) for shape in ((7,), (3, 7), (1,), (20, 30), ())]
    masks = [RNG.integers(0, 2, x.shape).astype(bool) for x in several]

    def iteration(carry: Any, x: Any) -> Any:
        return carry, [tnf.where(mask, y, x) for y, mask in zip(several, masks, strict=True)]

    require_same_bits(lambda xs: tnf.scan(iteration, 0, xs), values(dtype, 4))


@each
def test_sources_in_a_body(dtype: DType) -> None:
    """Constants and iota inside the body of a compiled loop must be right."""
    several = [values(dtype, *shape) for shape in ((7,), (3, 7), (1,), (20, 30), ())]
    counters = [] if dtype.is_bool else [Iota((2, 40), axis, dtype) for axis in range(2)]

    def iteration(carry: Any, x: Any) -> Any:
        constants = [apply_one(Constant.of(y), like=x) for y in several]
        return carry, [*constants, *[apply_one(op, like=x) for op in counters]]

    xs = np.zeros(3)
    program = tnf.compile(lambda xs: tnf.scan(iteration, 0, xs)[1], xs)
    executor = tnf.GraphExecutor("C", compiled=True)
    assert "# compiled" in str(executor.compile(program, xs))
    results = run_as_written_and_optimised(executor, program, xs)
    counts = [count.astype(dtype.dtype) for count in np.indices((2, 40))][: len(counters)]
    for y, z in zip(results, [*several, *counts], strict=True):
        assert y.dtype == z.dtype
        np.testing.assert_array_equal(y, np.stack([z] * 3))


@each
def test_views(dtype: DType) -> None:
    x = values(dtype, 3, 5, 4, 6)

    def iteration(carry: Any, y: Any) -> Any:
        return carry, [
            tnf.transpose(y, (2, 0, 1)), tnf.flip(y, (0, 2)), tnf.reshape(y, (4, 30)), y[1:4, ::2, 3:0:-1],
            tnf.concatenate([y, y[:2]], 0), tnf.pad(y, ((1, 0), (0, 2), (0, 0))), tnf.roll(y, 2, 1), y[:, None, 2],
            tnf.broadcast_to(y[:, :1], y.shape), tnf.stack([y, y], -1), tnf.take(y, np.array([3, 0, 0]), 1),
        ]  # fmt: skip

    require_same_bits(lambda xs: tnf.scan(iteration, 0, xs), x)


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("axes", [(0,), (2,), (0, 2), (0, 1, 2)], ids=str)
def test_reductions_without_rounding(axes: Any, dtype: DType) -> None:
    x = values(dtype, 3, 5, 4, 6)

    def iteration(carry: Any, y: Any) -> Any:
        ys = [tnf.max(y, axes), tnf.min(y, axes), tnf.any(y > 0, axes), tnf.all(y > 0, axes)]
        if dtype.is_integer:
            ys += [tnf.sum(y, axes, dtype=dtype.value), tnf.prod(y, axes, dtype=dtype.value)]
        if len(axes) == 1:
            ys += [tnf.argmax(y, axes[0]), tnf.argmin(y, axes[0])]
        return carry, ys

    require_same_bits(lambda xs: tnf.scan(iteration, 0, xs), x)


FLOATS = [dtype for dtype in REAL if dtype.is_float]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("length", [1, 63, 64, 127, 128, 129, 200, 1024, 2048 + 70])
def test_extremes_of_rows(length: int, dtype: DType) -> None:
    """The extremes of a row must be found in every vector lane, also with NaN, and with 0.0 larger than -0.0."""
    places = sorted({0, length // 2, length - 1, *range(0, length, 37)})
    rows = np.full((4 * len(places), length), -0.0)
    for number, place in enumerate(places):
        first = 4 * number
        rows[first + 1, place] = 0.0
        rows[first + 2] = RNG.normal(size=length)
        rows[first + 2, place] = 7
        rows[first + 3] = rows[first + 2]
        rows[first + 3, place] = np.nan
    x = np.concatenate([rows, -rows]).astype(dtype.dtype)

    def iteration(carry: Any, row: Any) -> Any:
        return carry, (tnf.max(row), tnf.min(row))

    program = tnf.compile(lambda xs: tnf.scan(iteration, 0, xs)[1], x)
    ys = run_as_written_and_optimised(tnf.GraphExecutor("C", compiled=True), program, x)
    largest, smallest, x = (np.asarray(y, np.float64) for y in (*ys, x))
    np.testing.assert_array_equal(largest, np.max(x, axis=1))
    np.testing.assert_array_equal(smallest, np.min(x, axis=1))
    zeros = np.all(x == 0, axis=1)
    is_negative = np.signbit(x[zeros])
    np.testing.assert_array_equal(np.signbit(largest[zeros]), np.all(is_negative, axis=1))
    np.testing.assert_array_equal(np.signbit(smallest[zeros]), np.any(is_negative, axis=1))
