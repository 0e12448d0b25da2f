"""`tenferro.signal` must have SciPy's values, natively and through PJRT, and right derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.signal

import tenferro as tnf
import xla_peer
from tenferro import errors, signal

R = np.random.default_rng(4)
X, K = R.normal(size=40), R.normal(size=6)
IMAGE, SMALL = R.normal(size=(7, 6)), R.normal(size=(2, 3))
COMPLEX = X + 1j * R.normal(size=40)
SERIES = R.normal(size=(2, 75, 3))
WINDOW = R.uniform(0.5, 1.0, 16)

MODES = ("full", "same", "valid")
CALLS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    **{f"convolve-{m}-{k}": ("convolve", (X, K), {"mode": m, "method": k}) for m in MODES for k in ("direct", "fft")},
    **{f"convolve-swapped-{m}": ("convolve", (K, X), {"mode": m, "method": "direct"}) for m in MODES},
    **{f"correlate-{m}": ("correlate", (COMPLEX, K * 1j), {"mode": m}) for m in MODES},
    **{f"images-{m}": ("convolve", (IMAGE, SMALL), {"mode": m}) for m in MODES},
    "correlate-images": ("correlate", (IMAGE, SMALL), {"mode": "same", "method": "fft"}),
    "integers": ("convolve", (np.arange(5), np.array([3, 4])), {"method": "fft"}),
    "integers-direct": ("correlate", (np.arange(5, dtype=np.int16), np.array([3, 4], np.int16)), {"method": "direct"}),
    "numbers": ("convolve", (2.0, 3.0), {}),
    "volumes": ("convolve", (SERIES[:, :5], SERIES[:1, :2, :2]), {"mode": "same", "method": "direct"}),
    **{f"{n}-{m}-{b}": (n, (IMAGE, SMALL), {"mode": m, "boundary": b, "fillvalue": 2.0}) for n in ("convolve2d", "correlate2d") for m in MODES for b in ("fill", "wrap", "symm")},
    "correlate2d-swapped": ("correlate2d", (SMALL, IMAGE), {"mode": "valid"}),
    "fftconvolve-axes": ("fftconvolve", (SERIES, SERIES[:1, :7]), {"axes": 1, "mode": "same"}),
    "fftconvolve-swapped": ("fftconvolve", (K, COMPLEX), {"mode": "valid"}),
    "oaconvolve": ("oaconvolve", (X, K), {}),
    "detrend": ("detrend", (SERIES,), {"axis": 1, "bp": [10, 40]}),
    "detrend-constant": ("detrend", (SERIES,), {"type": "constant"}),
    **{f"stft-{b}": ("stft", (SERIES,), {"axis": 1, "nperseg": 16, "boundary": b, "detrend": "linear"}) for b in ("zeros", "even", "odd", "constant", None)},
    "stft-complex": ("stft", (COMPLEX,), {"fs": 10.0, "window": ("kaiser", 4.0), "nperseg": 12, "noverlap": 9, "nfft": 15, "scaling": "psd", "padded": False}),
    "istft": ("istft", (R.normal(size=(9, 2, 5)) * (1 + 1j),), {"freq_axis": 0, "noverlap": 12}),
    "istft-two-sided": ("istft", (R.normal(size=(16, 4)) * (2 - 1j),), {"input_onesided": False, "boundary": False, "window": WINDOW, "scaling": "psd", "fs": 3.0}),
    "istft-odd": ("istft", (R.normal(size=(4, 6)) * (2 - 1j),), {"nperseg": 7, "window": "hamming"}),
    "welch": ("welch", (SERIES,), {"axis": 1, "nperseg": 16, "fs": 4.0}),
    "welch-median": ("welch", (X,), {"nperseg": 9, "average": "median", "scaling": "spectrum", "window": "blackman"}),
    "welch-window": ("welch", (X,), {"window": WINDOW, "detrend": False, "return_onesided": False}),
    "csd": ("csd", (X, R.normal(size=30)), {"nperseg": 12, "average": "median"}),
    "csd-complex": ("csd", (COMPLEX, COMPLEX[::-1].copy()), {"nperseg": 12, "noverlap": 3, "detrend": "linear"}),
    "periodogram": ("periodogram", (SERIES,), {"axis": 1, "nfft": 80, "window": "hann"}),
    "coherence": ("coherence", (X, X[::-1].copy()), {"nperseg": 10}),
    "window": ("get_window", (("gaussian", 3.0), 9, False), {}),
}  # fmt: skip


def arrays(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray)


@pytest.mark.filterwarnings("ignore:Input data is complex")
@pytest.mark.filterwarnings("ignore:NOLA")
@pytest.mark.parametrize("name", CALLS)
def test_values_are_scipys(name: str) -> None:
    function, args, kwargs = CALLS[name]
    wanted = arrays(getattr(scipy.signal, function)(*args, **kwargs))
    found = arrays(getattr(signal, function)(*args, **kwargs))
    if function == "istft":  # because SciPy's times have the wrong length
        wanted, found = wanted[1:], found[1:]
    for y, z in zip(found, wanted, strict=True):
        assert (y.shape, y.dtype) == (np.shape(z), np.asarray(z).dtype)
        np.testing.assert_allclose(y, z, rtol=1e-9, atol=1e-12)


def test_float32_stays() -> None:
    x = X.astype("f4")
    for y in (signal.stft(x, nperseg=8)[2], signal.welch(x, nperseg=8)[1], signal.detrend(x)):
        assert y.dtype.itemsize == 4 * (1 + (y.dtype.kind == "c"))


def test_a_signal_comes_back_from_its_transform() -> None:
    _, _, transform = signal.stft(X, nperseg=10)
    times, y = signal.istft(transform, nperseg=10)
    np.testing.assert_allclose(y[:40], X, atol=1e-12)
    assert times.shape == y.shape


LOSSES: dict[str, Callable[[Any], Any]] = {
    "convolve": lambda x: signal.convolve(x, x[:6], "same"),
    "fftconvolve": lambda x: signal.fftconvolve(x, x[:7]),
    "convolve2d": lambda x: signal.convolve2d(
        tnf.reshape(x, (5, 8)), tnf.reshape(x[:6], (2, 3)), boundary="symm"
    ),
    "stft": lambda x: tnf.abs(signal.stft(x, nperseg=8, boundary="odd")[2]),
    "istft": lambda x: signal.istft(tnf.reshape(x, (5, 8)) * (1 + 2j))[1],
    "csd": lambda x: tnf.real(signal.csd(x, x[::-1], nperseg=8)[1]),
    "welch": lambda x: signal.welch(x, nperseg=8, detrend="linear", average="median")[1],
}


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_are_central_differences(name: str) -> None:
    f, direction, step = LOSSES[name], np.cos(np.arange(40.0)), 1e-6
    weights = np.sin(np.arange(f(X).size) + 1.0).reshape(f(X).shape)
    loss = lambda x: tnf.sum(f(x) * weights)  # a weighted sum of the results
    wanted = (loss(X + step * direction) - loss(X - step * direction)) / (2 * step)
    np.testing.assert_allclose(tnf.grad(loss)(X) @ direction, wanted, rtol=1e-6, atol=1e-8)


def test_the_peer_agrees() -> None:
    program = tnf.compile(lambda x: [f(x) for f in LOSSES.values()], X)
    for y, z in zip(xla_peer.XlaExecutor().run(program, X), program.run(X), strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-9, atol=1e-11)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "mode": (lambda: signal.convolve(X, K, "half"), errors.InvalidConfigError, '"full", "same"'),
    "method": (lambda: signal.convolve(X, K, method="sum"), errors.InvalidConfigError, '"direct"'),
    "ranks": (lambda: signal.fftconvolve(X, IMAGE), errors.ShapeError, "one rank"),
    "valid": (lambda: signal.convolve(IMAGE, IMAGE[:2, :].repeat(2, 1), "valid"), errors.ShapeError, "at least as large"),
    "boundary": (lambda: signal.convolve2d(IMAGE, SMALL, boundary="edge"), errors.InvalidConfigError, '"symm"'),
    "window": (lambda: signal.get_window("square", 4), errors.InvalidConfigError, "square|Unknown"),
    "overlap": (lambda: signal.stft(X, nperseg=8, noverlap=8), errors.InvalidConfigError, "noverlap=8"),
    "nfft": (lambda: signal.welch(X, nperseg=8, nfft=4), errors.InvalidConfigError, "nfft=4"),
    "trend": (lambda: signal.detrend(X, type="cubic"), errors.InvalidConfigError, "cubic"),
    "traced": (lambda: tnf.jit(lambda w: signal.welch(X, window=w)[1])(WINDOW), errors.UnsupportedError, "constant"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_is_wrong(name: str) -> None:
    call, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        call()
