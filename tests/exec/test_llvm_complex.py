"""Complex quotients in compiled loops must have the bits of Smith's algorithm; exponentials have special values."""

from __future__ import annotations

import cmath
import math
from typing import Any

import mpmath
import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm.link import is_installed
from tests.exec.compiled_loops import in_a_loop

pytestmark = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
PARTS = [0.0, -0.0, 1.0, -2.5, math.inf, -math.inf, math.nan, 1e-300, 3e200]


def numbers(count: int, dtype: Any) -> np.ndarray:
    """Return random complex numbers of many magnitudes, and all numbers whose parts are in `PARTS`."""
    rng = np.random.default_rng(0)
    sizes = np.exp2(rng.uniform(-30, 30, (2, count)))
    random = rng.standard_normal((2, count)) * sizes
    with np.errstate(over="ignore"):
        ends = np.array([complex(a, b) for a in PARTS for b in PARTS])
        return np.concatenate([random[0] + 1j * random[1], ends]).astype(dtype)


def quotient(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Divide complex numbers by Smith's algorithm, as NumPy does, without fused multiply-adds."""
    a, b, c, d = x.real, x.imag, y.real, y.imag
    is_first = np.abs(c) >= np.abs(d)
    ratio, other = d / c, c / d
    scale, inverse = 1 / (c + d * ratio), 1 / (d + c * other)
    real = np.where(is_first, (a + b * ratio) * scale, (a * other + b) * inverse)
    imag = np.where(is_first, (b - a * ratio) * scale, (b * other - a) * inverse)
    is_zero = (c == 0) & (d == 0)
    return np.where(is_zero, a / np.abs(c), real), np.where(is_zero, b / np.abs(c), imag)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_quotients(dtype: Any) -> None:
    x = numbers(920, dtype)
    pairs = np.random.default_rng(1).permutation(x)
    ends = x[-81:]
    above = np.concatenate([x, np.repeat(ends, 81)]).reshape(2, -1)
    below = np.concatenate([pairs, np.tile(ends, 81)]).reshape(2, -1)
    (y,) = in_a_loop(lambda x, y: [x / y], above, below)
    with np.errstate(all="ignore"):
        parts = quotient(above, below)
    for value, exact in zip((y.real, y.imag), parts, strict=True):
        is_nan = np.isnan(exact)
        np.testing.assert_array_equal(np.isnan(value), is_nan)
        assert np.where(is_nan, 0, value).tobytes() == np.where(is_nan, 0, exact).tobytes()


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_sums_and_products(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    x = (rng.standard_normal((3, 25, 40)) + 1j * rng.standard_normal((3, 25, 40))).astype(dtype)
    values = in_a_loop(
        lambda x: [tnf.sum(x), tnf.sum(x, axis=0), tnf.sum(x, axis=1), tnf.prod(x, axis=0), tnf.cumsum(x, axis=1)],
        x,
    )  # fmt: skip
    z = x.astype(complex)
    exact = [z.sum((1, 2)), z.sum(1), z.sum(2), z.prod(1), z.cumsum(2)]
    for value, wanted in zip(values, exact, strict=True):
        size = np.abs(wanted).max()
        np.testing.assert_allclose(value, wanted, rtol=0, atol=200 * np.finfo(dtype).eps * size)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_exponentials(dtype: Any) -> None:
    """Exponentials must be within four units of the modulus, and have C's special values."""
    rng = np.random.default_rng(3)
    largest = 88.0 if dtype is np.complex64 else 709.0
    a, b = rng.uniform(-largest - 1, largest + 1, 300), rng.uniform(-30, 30, 300)
    near_overflow = [complex(largest + 1.5, math.pi / 2 - t) for t in (1e-3, -1e-3, 0.05, 0.2)]
    usual = np.concatenate([a + 1j * b, near_overflow]).astype(dtype)
    ends = np.array([complex(p, q) for p in PARTS[:-1] for q in PARTS[:-1]], dtype)
    y, at_ends = in_a_loop(lambda x, e: [tnf.exp(x), tnf.exp(e)], usual[None], ends[None])
    info = np.finfo(dtype)
    with mpmath.workdps(30):
        for z, value in zip(usual.tolist(), y[0].tolist(), strict=True):
            exact = mpmath.exp(mpmath.mpc(z))
            for part, wanted in ((value.real, exact.real), (value.imag, exact.imag)):
                if abs(wanted) > float(info.max):
                    assert math.isinf(part)
                    continue
                size = max(float(abs(exact.real)), float(abs(exact.imag)), float(info.tiny))
                assert abs(part - wanted) <= 4 * float(info.eps) * size, (z, value)
    for z, value in zip(ends.tolist(), at_ends[0].tolist(), strict=True):
        try:
            exact = cmath.exp(z)
        except (ValueError, OverflowError):
            continue  # Python raises an error for this number, C does not
        parts = (value.real, value.imag), (exact.real, exact.imag)
        np.testing.assert_allclose(*parts, rtol=1e-6, err_msg=str(z))
