"""Fourier transforms in compiled loops must equal their definition, evaluated in extended precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm import fourier
from tenferro.exec.llvm.link import is_installed
from tenferro.program import Routine
from tenferro.types import DType, TensorSpec
from tests.exec.compiled_loops import in_a_loop
from tests.pairs import in_turn

pytestmark = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
DTYPES = (np.complex128, np.complex64)
LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 30, 35, 49, 64, 105, 125, 128, 210, 256]


def random(dtype: Any, *shape: int) -> Any:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    is_complex = np.issubdtype(dtype, np.complexfloating)
    return (x + 1j * rng.standard_normal(shape) if is_complex else x).astype(dtype)


def transform(x: Any, axis: int, sign: int) -> Any:
    """Return the Fourier transform sum_j x[j] e^(sign 2 pi i j k / n) along an axis of extent n."""
    n = x.shape[axis]
    powers = np.outer(np.arange(n), np.arange(n)) % n
    angle = np.longdouble("6.283185307179586476925286766559") * powers / n
    matrix = np.cos(angle) + sign * 1j * np.sin(angle)
    return np.moveaxis(np.moveaxis(x.astype(np.clongdouble), axis, -1) @ matrix, -1, axis)


def require_near(y: Any, exact: Any) -> None:
    eps = float(np.finfo(y.dtype).eps)
    assert y.shape == exact.shape
    scale = float(np.sqrt(np.mean(np.abs(exact) ** 2))) or 1.0
    assert float(np.max(np.abs(y - exact))) <= 8 * eps * scale * (1 + np.log2(max(2, y.size)))


@in_turn("n", LENGTHS, "dtype", DTYPES)
def test_lengths(n: int, dtype: Any) -> None:
    x = random(dtype, 2, n)
    there, back = in_a_loop(lambda x: [tnf.fft.fft(x), tnf.fft.ifft(x)], x)
    assert there.dtype == back.dtype == dtype
    require_near(there, transform(x, 1, -1))
    require_near(back, transform(x, 1, 1) / n)


@in_turn("n", LENGTHS, "dtype", (np.float64, np.float32))
def test_real_sides(n: int, dtype: Any) -> None:
    x = random(dtype, 2, n)
    half, same = in_a_loop(lambda x: [tnf.fft.rfft(x), tnf.fft.irfft(tnf.fft.rfft(x), n)], x)
    require_near(half, transform(x, 1, -1)[:, : n // 2 + 1])
    assert same.dtype == dtype
    require_near(same, x.astype(np.longdouble))


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_the_first_and_the_middle_element_of_half_a_spectrum_are_real(n: int) -> None:
    x = random(np.complex128, 2, n // 2 + 1)
    (y,) = in_a_loop(lambda x: [tnf.fft.irfft(x, n)], x)
    np.testing.assert_allclose(y, np.fft.irfft(x, n), atol=1e-15)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 5), (2, 1, 6), (2, 2, 3, 4)], ids=str)
def test_several_axes(shape: tuple[int, ...]) -> None:
    x = random(np.complex128, 2, *shape)
    axes = tuple(range(-min(3, len(shape)), 0))
    y, z = in_a_loop(lambda x: [tnf.fft.fftn(x, axes=axes), tnf.fft.ifftn(x, axes=axes)], x)
    there = back = x.astype(np.clongdouble)
    for axis in axes:
        there, back = transform(there, axis, -1), transform(back, axis, 1) / x.shape[axis]
    require_near(y, there)
    require_near(z, back)
    real, same = in_a_loop(
        lambda x: [tnf.fft.rfftn(x, axes=axes), tnf.fft.irfftn(tnf.fft.rfftn(x, axes=axes), shape[-len(axes):], axes=axes)],
        x.real.copy(),
    )  # fmt: skip
    whole = x.real.astype(np.clongdouble)
    for axis in axes:
        whole = transform(whole, axis, -1)
    require_near(real, whole[..., : shape[-1] // 2 + 1])
    require_near(same, x.real.astype(np.longdouble))


def test_an_axis_in_the_middle_and_a_gradient() -> None:
    """The gradient through the spectral steps of a heat equation must equal central differences."""

    def loss(u: Any) -> Any:
        def turn(u: Any, _: Any) -> Any:
            return tnf.real(tnf.fft.ifft(0.9 * tnf.fft.fft(u, axis=0), axis=0)) + u**2 * 0.01, None

        return tnf.sum(tnf.scan(turn, u, None, length=4)[0] ** 2)

    u = random(np.float64, 6, 3)
    gradient = tnf.jit(tnf.grad(loss), executor=tnf.GraphExecutor("K", compiled=True))(u)
    value = tnf.jit(loss, executor=tnf.GraphExecutor(compiled=False))
    direction = random(np.float64, 6, 3)[::-1]
    step = 1e-6
    slope = (value(u + step * direction) - value(u - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-8)


@pytest.mark.parametrize("n", [67, 2 * 67, 1025])
def test_other_lengths_are_scipys(n: int) -> None:
    assert fourier.row_of(Routine("fft", lengths=(n,)), [TensorSpec.of((n,), DType.C64)]) is None
