"""Sums must be right over any axes, in any layout, and of any length; NaN in a row must not affect other rows."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.kernels import KERNELS, bind_kernel
from tenferro.ops.reduction import ReduceSum
from tenferro.types import DType, TensorSpec

SHAPES = [(), (0,), (1,), (5,), (3, 4), (3, 0), (0, 3), (2, 3, 5), (1, 7, 1), (2, 1, 3, 4)]
AXES = [
    (shape, axes)
    for shape in SHAPES
    for count in range(1, len(shape) + 1)
    for axes in itertools.combinations(range(len(shape)), count)
]


def laid_out(x: Any) -> list[Any]:
    """Return copies of x that are row-major, column-major, strided, with padded rows, and with reversed rows."""
    gaps = np.empty((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)[..., ::2]
    gaps[...] = x
    padded = np.empty((*x.shape[:-1], x.shape[-1] + 3), x.dtype)[..., : x.shape[-1]]
    padded[...] = x
    backwards = x[..., ::-1].copy()[..., ::-1]
    return [x, np.asfortranarray(x), gaps, padded, backwards]


def sum_of(x: Any, axes: tuple[int, ...]) -> Any:
    spec = TensorSpec(x.shape, DType.of(x.dtype))
    with np.errstate(all="ignore"):
        return bind_kernel(KERNELS[ReduceSum], ReduceSum(axes), (spec,))(x)


def by_definition(x: Any, axes: tuple[int, ...]) -> Any:
    """Return exact sums of the elements of x over the axes, each rounded once."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    result = np.zeros([x.shape[axis] for axis in kept], np.float64)
    for index in np.ndindex(result.shape):
        place: list[Any] = [slice(None)] * x.ndim
        for axis, i in zip(kept, index, strict=True):
            place[axis] = i
        result[index] = math.fsum(x[tuple(place)].ravel().tolist())
    return result


@pytest.mark.parametrize(("shape", "axes"), AXES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_any_axes_of_any_order(shape: tuple[int, ...], axes: tuple[int, ...], dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    for arranged in laid_out(x):
        found = sum_of(arranged, axes)
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found, by_definition(x, axes), atol=8 * np.finfo(dtype).eps, rtol=0
        )


@pytest.mark.parametrize("length", [127, 128, 129, 384, 401])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_rows(length: int, dtype: Any) -> None:
    x = np.random.default_rng(1).uniform(0.5, 1.5, (3, length)).astype(dtype)
    for arranged in laid_out(x):
        for axes in ((1,), (0, 1)):
            exact = by_definition(x, axes)
            np.testing.assert_allclose(sum_of(arranged, axes), exact, rtol=32 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_what_is_not_finite(dtype: Any) -> None:
    inf, nan = np.inf, np.nan
    rows = [[inf, 1, 2], [-inf, 1, 2], [inf, -inf, 0], [nan, 1, 0], [0.0, -0.0, 0.0], [-0.0] * 3]
    found = sum_of(np.array(rows, dtype), (1,))
    np.testing.assert_array_equal(found, np.array([inf, -inf, nan, nan, 0, 0], dtype))
    assert not np.signbit(found[4:].real).any()
    if np.dtype(dtype).kind == "c":
        assert sum_of(np.array([complex(1, inf), 2], dtype), (0,)) == complex(3, inf)


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_have_one_sum(length: int, dtype: Any) -> None:
    x = -np.zeros((1, length), dtype)
    assert not np.signbit(sum_of(x[0], (0,)))
    assert not np.signbit(sum_of(x, (1,)))


def test_a_row_does_not_depend_on_the_others() -> None:
    x = np.random.default_rng(3).standard_normal((37, 1001)).astype(np.float32)
    whole = sum_of(x, (1,))
    for start, stop in ((0, 1), (5, 9), (30, 37)):
        assert np.array_equal(sum_of(x[start:stop], (1,)), whole[start:stop])


def test_sums_of_products() -> None:
    def fn(x: Any, y: Any, row: Any) -> Any:
        d = tnf.exp(x) - y
        return tnf.sum(d * x, axis=1), tnf.sum(d * row, axis=1), tnf.sum(d * d), tnf.max(d * y)

    rng = np.random.default_rng(4)
    x, y, row = (rng.uniform(-1, 1, shape) for shape in ((300, 700), (300, 700), (700,)))
    program = tnf.compile(fn, x, y, row)
    found = tnf.GraphExecutor().run(program, x, y, row)
    d = np.exp(x) - y
    expected = (
        by_definition(d * x, (1,)),
        by_definition(d * row, (1,)),
        by_definition(d * d, (0, 1)),
        (d * y).max(),
    )
    for value, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, exact, rtol=1e-13, atol=1e-13)
    for arrays in (
        (np.asfortranarray(x), np.asfortranarray(y), row),
        (x, np.asfortranarray(y), row),
    ):
        for value, exact in zip(tnf.GraphExecutor().run(program, *arrays), expected, strict=True):
            np.testing.assert_allclose(value, exact, rtol=1e-13, atol=1e-13)
    alone = tnf.GraphExecutor(threads=1).run(program, x, y, row)
    assert all(map(np.array_equal, alone, found))


def test_a_product_with_what_repeats_along_the_row() -> None:
    def fn(x: Any) -> Any:
        m = tnf.max(x, axis=1, keepdims=True)
        return tnf.sum(tnf.exp(x) * m, axis=1), tnf.sum(tnf.sin(x) * 2.0, axis=1)

    x = np.random.default_rng(5).uniform(-1, 1, (400, 500))
    first, second = tnf.GraphExecutor().run(tnf.compile(fn, x), x)
    m = x.max(axis=1, keepdims=True)
    np.testing.assert_allclose(first, by_definition(np.exp(x) * m, (1,)), rtol=1e-13)
    np.testing.assert_allclose(second, by_definition(np.sin(x) * 2, (1,)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_equal_numbers_are_as_accurate_as_numpys(dtype: Any) -> None:
    errors: dict[str, list[float]] = {"ours": [], "NumPy's": []}
    for number in (0.1, 0.001, 0.7, 0.3333, 0.9, 1.1, 0.0123):
        for length in (100, 500, 1000, 1024, 4096, 8191, 100_000, 1_000_003):
            x = np.full((1, length), number, dtype)
            exact = length * Fraction(float(x[0, 0]))
            for whose, y in (("ours", sum_of(x, (1,))), ("NumPy's", np.sum(x, axis=1))):
                errors[whose].append(float(abs(Fraction(float(y[0])) / exact - 1)))
    # NumPy's rounding depends on the vector width of the processor. Therefore mean errors are compared, not bits.
    assert np.mean(errors["ours"]) <= 1.25 * np.mean(errors["NumPy's"])
    assert max(errors["ours"]) <= 1.5 * max(errors["NumPy's"])
