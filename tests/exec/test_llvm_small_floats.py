"""Compiled loops must have the right bits for every float16 and bfloat16 number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import special

import tenferro as tnf
from tenferro.exec.llvm import link
from tenferro.exec.llvm.link import is_installed
from tenferro.types import DType
from tests.exec.compiled_loops import in_a_loop

pytestmark = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
SMALL = [DType.F16, DType.BF16]
BITS = np.arange(1 << 16, dtype=np.uint16)


@pytest.fixture(autouse=True, params=["by its instructions", "by integers"])
def conversions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Select how float16 is converted: by instructions of the processor, or by integer arithmetic."""
    own = link.processor()
    if request.param == "by integers":
        own = replace(own, converts_halves=False)
    elif not own.converts_halves:
        pytest.skip("this processor has no conversions of float16")
    monkeypatch.setattr(link, "processor", lambda: own)


def every(dtype: DType) -> np.ndarray:
    """Return all numbers of a 16-bit dtype, in an array of four rows."""
    return BITS.view(dtype.dtype).reshape(4, -1)


def require_equal(y: Any, z: Any) -> None:
    """Require equal dtypes and equal bits; only the bits of NaN may differ."""
    assert y.dtype == z.dtype
    is_nan = np.isnan(z)
    np.testing.assert_array_equal(np.isnan(y), is_nan)
    np.testing.assert_array_equal(y.view(np.uint16)[~is_nan], z.view(np.uint16)[~is_nan])


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_arithmetic(dtype: DType) -> None:
    """Arithmetic must equal that of float32, rounded once.

    The result is correctly rounded, because float32 has more than twice as many digits.
    """
    x = every(dtype)
    y = np.random.default_rng(0).permutation(x.reshape(-1)).reshape(x.shape)
    a, b = x.astype(np.float32), y.astype(np.float32)
    values = in_a_loop(
        lambda x, y: [x + y, x - y, x * y, x / y, -x, tnf.sqrt(x), tnf.maximum(x, y)], x, y
    )
    with np.errstate(all="ignore"):
        exact = [a + b, a - b, a * b, a / b, -a, np.sqrt(a), np.maximum(a, b)]
        for value, wanted in zip(values, exact, strict=True):
            require_equal(value, wanted.astype(dtype.dtype))


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_each_step_is_rounded(dtype: DType) -> None:
    """Each intermediate value must be rounded to the 16-bit dtype, not only the result."""
    x = every(dtype)
    y = np.random.default_rng(1).permutation(x.reshape(-1)).reshape(x.shape)
    values = in_a_loop(lambda x, y: [x + y - y, x * y + x, x / y * y, tnf.sqrt(x) * x], x, y)

    def rounded(z: np.ndarray) -> np.ndarray:
        return z.astype(dtype.dtype).astype(np.float32)

    a, b = x.astype(np.float32), y.astype(np.float32)
    with np.errstate(all="ignore"):
        exact = [
            rounded(a + b) - b,
            rounded(a * b) + a,
            rounded(a / b) * b,
            rounded(np.sqrt(a)) * a,
        ]
        for value, wanted in zip(values, exact, strict=True):
            require_equal(value, wanted.astype(dtype.dtype))


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_conversions(dtype: DType) -> None:
    """Ties between 16-bit numbers must be rounded to even, and the floats next to a tie to the nearest number."""
    x = every(dtype)
    with np.errstate(all="ignore"):
        middle = (x.astype(np.float64) + np.nextafter(x, np.inf).astype(np.float64)) / 2
    wide = [
        middle,
        np.nextafter(middle, np.inf),
        np.nextafter(middle, -np.inf),
        middle * (1 + 2.0**-40),
    ]
    doubles = np.concatenate([*wide, middle * 1e30], axis=1)
    with np.errstate(all="ignore"):
        singles = np.nextafter(middle.astype(np.float32), np.float32(np.inf))
        singles = np.concatenate([middle.astype(np.float32), singles], axis=1)
    integers = np.random.default_rng(0).integers(-70000, 70000, (4, 500))
    for array in (doubles, singles, integers):
        (y,) = in_a_loop(lambda x: [tnf.astype(x, dtype)], array)
        with np.errstate(all="ignore"):
            # The interpreter and XLA convert float64 to bfloat16 by float32.
            narrower = array.astype(np.float32) if dtype is DType.BF16 else array
            require_equal(y, narrower.astype(dtype.dtype))
    back = in_a_loop(lambda x: [tnf.astype(x, np.float32), tnf.astype(x, np.float64)], x)
    for y in back:
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(y, x.astype(y.dtype))


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "exp": (tnf.exp, np.exp),
    "log": (tnf.log, np.log),
    "tanh": (tnf.tanh, np.tanh),
    "sinh": (tnf.sinh, np.sinh),
    "cosh": (tnf.cosh, np.cosh),
    "asinh": (tnf.arcsinh, np.arcsinh),
    "acosh": (tnf.arccosh, np.arccosh),
    "atanh": (tnf.arctanh, np.arctanh),
    "asin": (tnf.arcsin, np.arcsin),
    "acos": (tnf.arccos, np.arccos),
    "atan": (tnf.arctan, np.arctan),
    "cbrt": (tnf.cbrt, np.cbrt),
    "erf": (tnf.special.erf, special.erf),
    "erfc": (tnf.special.erfc, special.erfc),
}


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_functions(dtype: DType) -> None:
    """Functions must be within 0.501 units in the last place of their values in float64."""
    x = every(dtype)
    values = in_a_loop(lambda x: [ours(x) for ours, _ in FUNCTIONS.values()], x)
    for name, y in zip(FUNCTIONS, values, strict=True):
        with np.errstate(all="ignore"):
            exact = FUNCTIONS[name][1](x.astype(np.float64))
            nearest = exact.astype(np.float32).astype(dtype.dtype)
        is_other = ~((y == nearest) | (np.isnan(y) & np.isnan(nearest)))
        value, right = y[is_other].astype(np.float64), nearest[is_other].astype(np.float64)
        # If y is not the nearest number, the exact value must be almost in the middle between y and the nearest number.
        between = (value + right) / 2
        spacing = np.abs(value - right)
        assert (np.abs(between - exact[is_other]) <= 0.001 * spacing).all(), name


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_sums_and_products_of_matrices(dtype: DType) -> None:
    """Sums and matrix products must be accumulated in float32, and rounded once at the end."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(dtype.dtype) for shape in ((3, 20, 30), (3, 30, 17)))
    values = in_a_loop(
        lambda x, y: [
            x @ y,
            tnf.sum(x, axis=0),
            tnf.sum(x, axis=1),
            tnf.sum(x),
            tnf.cumsum(x, axis=1),
        ],
        x,
        y,
    )
    a, b = x.astype(np.float64), y.astype(np.float64)
    exact = [a @ b, a.sum(1), a.sum(2), a.sum((1, 2)), a.cumsum(2)]
    for value, wanted in zip(values, exact, strict=True):
        assert value.dtype == dtype.dtype
        epsilon = float(np.spacing(np.ones((), dtype.dtype)))
        difference = np.abs(value.astype(np.float64) - wanted)
        assert (difference <= 0.51 * epsilon * np.abs(wanted) + 1e-5).all()


def test_float32_rounded_to_float16() -> None:
    """All float16 numbers, midpoints between them, their float32 neighbours, and random numbers must be rounded."""
    halves = BITS.view(np.float16).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        between = halves + np.spacing(halves.astype(np.float16)).astype(np.float32) / 2
    rng = np.random.default_rng(3)
    others = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    values = [
        halves,
        between,
        others,
        np.float32([65519.996, 65520, 2**-24, 2**-25, 2**-149, 3e38]),
    ]
    with np.errstate(invalid="ignore"):
        x = np.concatenate(
            [
                np.nextafter(y, np.float32(z)) if z else y
                for y in values
                for z in (-np.inf, 0, np.inf)
            ]
        )
    x = x[: len(x) // 4 * 4].reshape(4, -1)
    (y,) = in_a_loop(lambda x: [x.astype("f2")], x)
    with np.errstate(over="ignore"):
        require_equal(y, x.astype(np.float16))
