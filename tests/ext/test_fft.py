"""Fourier transforms must equal NumPy's and the definition, have right derivatives, and run through PJRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro import errors
from tenferro.ext.fft.families import Fft
from tests.levels import LEVELS, peer_of
from tests.pairs import in_turn
from xla_peer import XlaExecutor

REAL_IN = ("rfft", "rfft2", "rfftn", "ihfft")


def random(*shape: int, real: bool, dtype: str = "c16") -> Any:
    generator = np.random.default_rng(shape)
    x = generator.normal(size=shape) + 1j * generator.normal(size=shape)
    return (x.real if real else x).astype({"c8": "f4", "c16": "f8"}[dtype] if real else dtype)


CASES: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    *[
        (name, shape, options)
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
        for shape, options in (
            ((5,), {}),
            ((4, 6), {"axis": 0}),
            ((4, 6), {"n": 7, "norm": "ortho"}),
            ((4, 6), {"n": 4, "norm": "forward"}),
        )
    ],
    *[
        (name, shape, options)
        for name in ("fftn", "ifftn", "rfftn", "irfftn")
        for shape, options in (
            ((3, 4, 5), {}),
            ((3, 4, 5), {"axes": (2, 0)}),
            ((3, 4, 5), {"s": (2, 6), "axes": (0, 1), "norm": "ortho"}),
        )
    ],
    *[(name, (3, 4, 5), {}) for name in ("fft2", "ifft2", "rfft2", "irfft2")],
]
each_case = pytest.mark.parametrize(
    ("name", "shape", "options"), CASES, ids=[f"{n}-{s}-{o}" for n, s, o in CASES]
)


def call(name: str, options: dict[str, Any]) -> Any:
    return lambda x: getattr(tnf.fft, name)(x, **options)


@pytest.fixture(scope="module", params=LEVELS)
def xla(request: pytest.FixtureRequest) -> XlaExecutor:
    return peer_of(request)


@each_case
def test_values_are_numpys_on_both_peers(
    name: str, shape: Any, options: Any, xla: XlaExecutor
) -> None:
    x = random(*shape, real=name in REAL_IN)
    expected = getattr(np.fft, name)(x, **options)
    np.testing.assert_allclose(call(name, options)(x), expected, atol=1e-13)
    program = tnf.compile(call(name, options), x)
    np.testing.assert_allclose(xla.run(program, x), expected, atol=1e-12)


@each_case
def test_derivatives(name: str, shape: Any, options: Any) -> None:
    x = random(*shape, real=name in REAL_IN)
    tnf.check_grads(call(name, options), (x,), order=1, rtol=1e-9)
    tnf.check_grads(lambda x: tnf.sum(tnf.abs(call(name, options)(x)) ** 2), (x,), order=2)


def test_derivatives_through_pjrt(xla: XlaExecutor) -> None:
    x = random(4, 6, real=True)
    power = tnf.grad(lambda x: tnf.sum(tnf.abs(tnf.fft.rfft2(x)) ** 2))
    program = tnf.compile(power, x)
    np.testing.assert_allclose(xla.run(program, x), program.run(x), atol=1e-11)
    np.testing.assert_allclose(
        tnf.jacfwd(lambda x: tnf.fft.irfft(tnf.fft.rfft(x)))(x[0]), np.eye(6), atol=1e-14
    )


def test_the_definition_and_single_precision() -> None:
    n = 5
    matrix = np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    x = random(n, real=False)
    np.testing.assert_allclose(tnf.fft.fft(x), matrix @ x, atol=1e-13)
    assert tnf.fft.fft(x.astype("c8")).dtype == np.complex64
    assert tnf.fft.rfft(x.real.astype("f4")).dtype == np.complex64
    assert tnf.fft.irfft(x.astype("c8")).dtype == np.float32
    assert tnf.fft.fft(np.arange(4)).dtype == np.complex128


def test_four_axes_and_shifts() -> None:
    x = random(2, 3, 2, 4, real=False)
    np.testing.assert_allclose(tnf.fft.fftn(x), np.fft.fftn(x), atol=1e-12)
    np.testing.assert_allclose(tnf.fft.irfftn(x), np.fft.irfftn(x), atol=1e-12)
    np.testing.assert_allclose(tnf.fft.rfftn(x.real), np.fft.rfftn(x.real), atol=1e-12)
    for axes in (None, 1, (0, 2)):
        np.testing.assert_array_equal(tnf.fft.fftshift(x, axes=axes), np.fft.fftshift(x, axes))
        np.testing.assert_array_equal(tnf.fft.ifftshift(x, axes=axes), np.fft.ifftshift(x, axes))
    np.testing.assert_array_equal(tnf.fft.fftfreq(5, d=0.1), np.fft.fftfreq(5, 0.1))
    np.testing.assert_array_equal(tnf.fft.rfftfreq(6), np.fft.rfftfreq(6))


@pytest.mark.parametrize(
    ("attempt", "error", "words"),
    [
        (lambda: tnf.fft.fft(np.ones(3), n=0), errors.InvalidConfigError, "at least 1"),
        (lambda: tnf.fft.fft(np.ones(3), norm="x"), errors.InvalidConfigError, "norm"),
        (lambda: tnf.fft.rfft(np.ones(3, complex)), errors.DTypeError, "use fft"),
        (lambda: tnf.fft.fft(np.ones(3, "f2")), errors.DTypeError, "float16"),
        (lambda: tnf.fft.fftn(np.ones((2, 2)), axes=(0, 0)), errors.InvalidConfigError, "twice"),
        (lambda: tnf.fft.fft(np.ones(3), axis=2), errors.AxisError, "axis 2"),
        (
            lambda: tnf.compile(
                lambda x: tnf.fft.fft(x, x.shape[0] + 1), tnf.TensorSpec(("n",), "f8")
            ),
            errors.NonStaticShapeError,
            "the extent n that the axis has",
        ),
        (lambda: Fft("rfft", (None,)), errors.InvalidConfigError, "needs its lengths"),
        (
            lambda: lowering.lower_to_stablehlo(
                tnf.compile(tnf.fft.fft, tnf.TensorSpec(("n",), "c16")), symbolic=True
            ),
            errors.NonStaticShapeError,
            "needs numbers for its lengths",
        ),
    ],
)
def test_refused(attempt: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        attempt()


KINDS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


@in_turn("kind", KINDS, "norm", [None, "ortho", "forward"])
def test_symbolic_lengths(kind: str, norm: str | None, xla: XlaExecutor) -> None:
    def function(x: Any) -> Any:
        return getattr(tnf.fft, kind)(x, norm=norm)

    def loss(x: Any) -> Any:
        y = function(x)
        return tnf.sum(tnf.sin(tnf.real(y))) + tnf.sum(tnf.cos(tnf.imag(y * 1j)))

    dtype = "f8" if kind in ("rfft", "ihfft") else "c16"
    spec = tnf.TensorSpec(("b", "n"), dtype)
    program, gradient = tnf.compile(function, spec), tnf.compile(tnf.grad(loss), spec)
    for n in (2, 5, 6):
        x = random(3, n, real=dtype == "f8")
        expected = getattr(np.fft, kind)(x, norm=norm)
        for y in (program.run(x), xla.run(program, x)):
            assert y.dtype == expected.dtype
            np.testing.assert_allclose(y, expected, atol=1e-13)
        np.testing.assert_allclose(gradient.run(x), tnf.grad(loss)(x), atol=1e-12)


@pytest.mark.parametrize("kind", ["fftn", "ifftn", "rfftn", "irfftn", "rfft2", "irfft2"])
@pytest.mark.parametrize("shape", [("a", "b", "c"), ("a", 3, 4), (2, 3, "c"), (2, "b", 4)], ids=str)
def test_symbolic_lengths_of_several_axes(kind: str, shape: Any) -> None:
    is_real = kind.startswith("rfft")
    x = random(2, 3, 4, real=is_real)
    program = tnf.compile(getattr(tnf.fft, kind), tnf.TensorSpec(shape, "f8" if is_real else "c16"))
    np.testing.assert_allclose(program.run(x), getattr(np.fft, kind)(x), atol=1e-13)
