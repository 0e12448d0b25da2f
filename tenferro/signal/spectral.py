"""Windows, trends, short-time Fourier transforms and power spectra.

Source: SciPy 1.16, reference, scipy.signal, "Spectral analysis".
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenferro.api import fft
from tenferro.api.axes import normalize_axis
from tenferro.api.creation import zeros
from tenferro.api.elementwise import add, conj, divide, imag, multiply, real, square, subtract
from tenferro.api.indexing import take
from tenferro.api.linear import matmul
from tenferro.api.manipulation import concat, flip, moveaxis
from tenferro.api.padding import pad
from tenferro.api.promotion import as_inexact
from tenferro.api.reductions import mean
from tenferro.api.statistics import median
from tenferro.api.updates import at
from tenferro.dims import is_static
from tenferro.dispatch import as_operand, is_traced, spec_of
from tenferro.errors import InvalidConfigError, NonStaticShapeError, ShapeError, UnsupportedError
from tenferro.types import ArrayLike

__all__ = [
    "coherence", "csd", "detrend", "get_window", "istft", "periodogram", "stft", "welch",
]  # fmt: skip

Window = str | tuple[Any, ...] | float | np.ndarray | Sequence[float]


def get_window(window: Window, Nx: int, fftbins: bool = True) -> np.ndarray:  # noqa: N803  # because SciPy calls it so
    """Return the window with the name `window`, as an array of `Nx` numbers.

    Args:
        window: a name such as "hann", or a tuple of a name and parameters, such as ("kaiser", 8.0).
        fftbins: whether the window is one period of a periodic function, for Fourier transforms. Otherwise it is
            symmetric.

    Raises:
        InvalidConfigError: `window` is unknown.

    >>> get_window("hann", 4)
    array([0. , 0.5, 1. , 0.5])

    Source: scipy.signal.get_window.
    """
    from scipy import signal  # because importing scipy takes long

    try:
        return np.asarray(signal.get_window(window, Nx, fftbins))
    except (ValueError, TypeError) as error:
        raise InvalidConfigError(f"get_window: {error}") from error


def _window(name: str, window: Window, nperseg: int | None, extent: int) -> np.ndarray:
    """Return a window as an array. `window` is its name, or its numbers.

    Raises:
        UnsupportedError: the window is a traced tensor.
        InvalidConfigError, ShapeError: the window is not a vector of `nperseg` numbers.
    """
    if isinstance(window, str | tuple):
        length = 256 if nperseg is None else nperseg
        if length < 1:
            raise InvalidConfigError(f"{name}: nperseg must be at least 1, got {nperseg}")
        if length > extent:
            warnings.warn(
                f"{name}: nperseg={length} is more than the extent {extent}, which is taken instead",
                stacklevel=4,
            )
            length = extent
        return get_window(window, length)
    if is_traced(as_operand(window)):
        raise UnsupportedError(f"{name}: a window must be a constant; pass a name or a NumPy array")
    numbers = np.asarray(window)
    if numbers.ndim != 1 or not 0 < len(numbers) <= extent:
        raise ShapeError(
            f"{name}: a window must be a vector of 1 to {extent} numbers, got {numbers.shape}"
        )
    if nperseg is not None and nperseg != len(numbers):
        raise InvalidConfigError(
            f"{name}: nperseg={nperseg} is not the extent {len(numbers)} of the window"
        )
    return numbers


def _lengths(name: str, nperseg: int, noverlap: int | None, nfft: int | None) -> tuple[int, int]:
    """Return the distance between the beginnings of neighbouring segments, and the length of the transform.

    Raises:
        InvalidConfigError: the lengths contradict each other.
    """
    overlap = nperseg // 2 if noverlap is None else int(noverlap)
    length = nperseg if nfft is None else int(nfft)
    if overlap >= nperseg:
        raise InvalidConfigError(f"{name}: noverlap={overlap} is not below nperseg={nperseg}")
    if length < nperseg:
        raise InvalidConfigError(f"{name}: nfft={length} is below nperseg={nperseg}")
    return nperseg - overlap, length


def _series(name: str, x: ArrayLike, axis: int) -> tuple[Any, int]:
    """Return x as a floating-point tensor with `axis` moved to the end, and the number of `axis`.

    Raises:
        NonStaticShapeError, ShapeError: the extent of the axis is symbolic; or x has no axis.
    """
    tensor = as_inexact(as_operand(x))
    if not tensor.shape:
        raise ShapeError(f"{name}: needs an axis, got {spec_of(tensor)}")
    axis = normalize_axis(name, axis, len(tensor.shape))
    if not is_static(tensor.shape[axis]):
        raise NonStaticShapeError(
            f"{name}: needs a known extent of axis {axis}, got {spec_of(tensor)}"
        )
    return moveaxis(tensor, axis, -1), axis


def detrend(
    data: ArrayLike, axis: int = -1, type: str = "linear", bp: int | Sequence[int] = 0, overwrite_data: bool | None = False
) -> Any:  # fmt: skip
    """Subtract the least-squares line, or the mean, from the data along an axis.

    Args:
        type: "linear" for lines, or "constant" for the mean.
        bp: the indices at which a new line begins.
        overwrite_data: has no effect.

    Raises:
        InvalidConfigError: `type` is unknown, or an index in `bp` is outside the axis.

    >>> import numpy as np
    >>> np.round(detrend([1.0, 2.0, 4.0]), 6) + 0.0
    array([ 0.166667, -0.333333,  0.166667])

    Source: scipy.signal.detrend.
    """
    if type not in ("linear", "l", "constant", "c"):
        raise InvalidConfigError(f'detrend: type must be "linear" or "constant", got {type!r}')
    x, axis = _series("detrend", data, axis)
    extent = x.shape[-1]
    if type in ("constant", "c"):
        return moveaxis(subtract(x, mean(x, axis=-1, keepdims=True)), -1, axis)
    cuts = np.unique(np.concatenate([[0], np.atleast_1d(bp), [extent]])).astype(int)
    if cuts[0] < 0 or cuts[-1] > extent:
        raise InvalidConfigError(f"detrend: bp must be from 0 to {extent}, got {bp!r}")
    dtype = spec_of(x).dtype
    parts = []
    for start, stop in itertools.pairwise(cuts):
        count = stop - start
        # The QR factorisation computes an orthonormal basis of the lines, onto which the data are projected.
        lines = np.stack([np.arange(1, count + 1) / count, np.ones(count)], axis=1)
        basis = np.linalg.qr(lines)[0].astype(dtype.dtype)
        part = x[..., int(start) : int(stop)]
        parts.append(subtract(part, matmul(matmul(part, basis), basis.T)))
    return moveaxis(concat(parts, axis=-1), -1, axis)


def _detrended(name: str, frames: Any, kind: str | bool | Callable[[Any], Any]) -> Any:
    """Subtract the trend from each segment along the last axis; `kind` is a name, a function, or False for none."""
    if kind is False or kind is None:
        return frames
    if callable(kind):
        return kind(frames)
    if not isinstance(kind, str):
        raise InvalidConfigError(
            f"{name}: detrend must be a name, a function or False, got {kind!r}"
        )
    return detrend(frames, type=kind)


def _frames(x: Any, size: int, step: int) -> Any:
    """Return the segments of x along its last axis, which begin `step` apart: shape (.., number of segments, size)."""
    count = (x.shape[-1] - size) // step + 1
    return take(x, step * np.arange(count)[:, None] + np.arange(size), axis=-1)


def _transformed(
    name: str, x: Any, window: np.ndarray, step: int, nfft: int, trend: Any, is_onesided: bool
) -> Any:
    """Return the Fourier transforms of the windowed segments of x, of shape (.., number of segments, frequencies)."""
    frames = _detrended(name, _frames(x, len(window), step), trend)
    weights = (
        window.astype(spec_of(frames).dtype.real.dtype) if window.dtype.kind != "c" else window
    )
    function = fft.rfft if is_onesided else fft.fft
    return function(multiply(frames, weights), n=nfft, axis=-1)


def _frequencies(nfft: int, fs: float, is_onesided: bool) -> np.ndarray:
    return (np.fft.rfftfreq if is_onesided else np.fft.fftfreq)(nfft, 1 / fs)


def _odd(x: Any, count: int) -> Any:
    """Extend x at both ends by `count` elements, which are point reflections about the end points."""
    if not count:
        return x
    left = subtract(multiply(x[..., :1], 2), flip(x[..., 1 : count + 1], axis=-1))
    right = subtract(multiply(x[..., -1:], 2), flip(x[..., -count - 1 : -1], axis=-1))
    return concat([left, x, right], axis=-1)


EXTENSIONS = {"even": "reflect", "constant": "edge", "zeros": "constant"}
"""Modes of NumPy's `pad` by SciPy's names of boundaries."""


def _extended(name: str, x: Any, boundary: str | None, count: int) -> Any:
    if boundary is None:
        return x
    if boundary != "odd" and boundary not in EXTENSIONS:
        raise InvalidConfigError(
            f'{name}: boundary must be "even", "odd", "constant", "zeros" or None, got {boundary!r}'
        )
    if boundary in ("odd", "even") and count >= x.shape[-1]:
        raise ShapeError(
            f'{name}: {count} elements before and after do not follow from {x.shape[-1]}; use boundary="zeros"'
        )
    if boundary == "odd":
        return _odd(x, count)
    around = [(0, 0)] * (len(x.shape) - 1) + [(count, count)]
    return pad(x, around, mode=EXTENSIONS[boundary])


def stft(
    x: ArrayLike, fs: float = 1.0, window: Window = "hann", nperseg: int | None = 256, noverlap: int | None = None,
    nfft: int | None = None, detrend: str | bool | Callable[[Any], Any] = False, return_onesided: bool = True,
    boundary: str | None = "zeros", padded: bool = True, axis: int = -1, scaling: str = "spectrum",
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return frequencies, times, and the short-time Fourier transform. Frequencies are along `axis`, and times last.

    Args:
        fs: the number of samples per unit of time.
        window: a name as in `get_window`, or an array.
        nperseg, noverlap, nfft: the lengths of segments, of their overlap, and of the transforms.
        detrend: "linear" or "constant", a function of segments along the last axis, or False for no change.
        return_onesided: whether to omit the negative frequencies in transforms of real numbers.
        boundary: how x is extended at both ends: "even", "odd", "constant", "zeros", or None for no extension.
        padded: whether to append zeros such that the segments contain all of x.
        scaling: "spectrum" divides by the sum of the window, and "psd" by the square root of its power.

    Raises:
        InvalidConfigError, ShapeError: a name is unknown, or the lengths do not fit.

    >>> import numpy as np
    >>> stft(np.ones(8), nperseg=4)[2].real.round(3)[:, 1:3] + 0.0
    array([[ 1. ,  1. ],
           [-0.5, -0.5],
           [ 0. ,  0. ]])

    Source: scipy.signal.stft.
    """
    series, axis = _series("stft", x, axis)
    weights = _window("stft", window, nperseg, series.shape[-1])
    size = len(weights)
    step, length = _lengths("stft", size, noverlap, nfft)
    if scaling not in ("spectrum", "psd"):
        raise InvalidConfigError(f'stft: scaling must be "spectrum" or "psd", got {scaling!r}')
    series = _extended("stft", series, boundary, size // 2)
    if padded:
        missing = (-(series.shape[-1] - size) % step) % size
        series = pad(series, [(0, 0)] * (len(series.shape) - 1) + [(0, missing)])
    is_onesided = return_onesided and not spec_of(series).dtype.is_complex
    spectrum = _transformed("stft", series, weights, step, length, detrend, is_onesided)
    scale = 1 / weights.sum() if scaling == "spectrum" else 1 / np.sqrt(fs * (weights**2).sum())
    spectrum = multiply(spectrum, complex(scale) if np.iscomplexobj(scale) else float(scale))
    times = np.arange(size / 2, series.shape[-1] - size / 2 + 1, step) / float(fs)
    if boundary is not None:
        times -= size / 2 / fs
    return _frequencies(length, fs, is_onesided), times, moveaxis(spectrum, -1, axis)


def istft(
    Zxx: ArrayLike, fs: float = 1.0, window: Window = "hann", nperseg: int | None = None, noverlap: int | None = None,  # noqa: N803  # because SciPy calls it so
    nfft: int | None = None, input_onesided: bool = True, boundary: bool = True, time_axis: int = -1, freq_axis: int = -2,
    scaling: str = "spectrum",
) -> tuple[Any, Any]:  # fmt: skip
    """Return times, and the signal whose short-time Fourier transform is Zxx in the sense of least squares.

    Args:
        fs, window, nperseg, noverlap, nfft, scaling: as in `stft`.
        input_onesided: whether Zxx omits negative frequencies.
        boundary: whether the signal was extended at both ends for the transform.
        time_axis, freq_axis: the axes of times and of frequencies in Zxx.

    Raises:
        InvalidConfigError, ShapeError: the extents do not fit, or Zxx has fewer than two axes.

    >>> import numpy as np
    >>> x = np.arange(8.0)
    >>> np.round(istft(stft(x, nperseg=4)[2])[1], 12) + 0.0
    array([0., 1., 2., 3., 4., 5., 6., 7.])

    Source: scipy.signal.istft; Griffin and Lim, IEEE Transactions on Acoustics, Speech, and Signal Processing 32
    (1984).
    """
    values = as_operand(Zxx)
    if len(values.shape) < 2:
        raise ShapeError(f"istft: needs two axes, got {spec_of(values)}")
    rank = len(values.shape)
    times_at = normalize_axis("istft", time_axis, rank)
    frequencies_at = normalize_axis("istft", freq_axis, rank)
    if times_at == frequencies_at:
        raise InvalidConfigError(f"istft: time and frequency are both axis {times_at}")
    count = values.shape[frequencies_at]
    full = 2 * (count - 1) if input_onesided else count
    size = full if nperseg is None else int(nperseg)
    if nfft is None and input_onesided and size == full + 1:
        nfft = size
    step, length = _lengths("istft", size, noverlap, full if nfft is None else nfft)
    if scaling not in ("spectrum", "psd"):
        raise InvalidConfigError(f'istft: scaling must be "spectrum" or "psd", got {scaling!r}')
    weights = _window("istft", window, size, size)
    frames = moveaxis(values, (times_at, frequencies_at), (-2, -1))
    frames = (fft.irfft if input_onesided else fft.ifft)(frames, n=length, axis=-1)[..., :size]
    total = weights.sum() if scaling == "spectrum" else np.sqrt(fs * (weights**2).sum())
    kind = spec_of(frames).dtype
    frames = multiply(frames, (weights * total).astype(kind.real.dtype))
    number = frames.shape[-2]
    extent = size + (number - 1) * step
    place = step * np.arange(number)[:, None] + np.arange(size)
    start = zeros((*frames.shape[:-2], extent), dtype=kind)
    signal = at(start)[..., place].add(frames)
    norm = np.zeros(extent)
    np.add.at(norm, place, np.broadcast_to(weights**2, place.shape))
    if boundary:
        half = size // 2
        signal, norm = signal[..., half : extent - half], norm[half : extent - half]
    if not (norm > 1e-10).all():
        warnings.warn(
            "istft: the windows do not cover every sample, whose values are not scaled",
            stacklevel=2,
        )
    signal = divide(signal, np.where(norm > 1e-10, norm, 1.0).astype(kind.real.dtype))
    axis = times_at - (frequencies_at < times_at)
    times = np.arange(signal.shape[-1]) / float(fs)
    return times, moveaxis(signal, -1, axis)


def csd(
    x: ArrayLike, y: ArrayLike | None, fs: float = 1.0, window: Window = "hann", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, detrend: str | bool | Callable[[Any], Any] = "constant",
    return_onesided: bool = True, scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[Any, Any]:  # fmt: skip
    """Return frequencies and the cross power spectrum of x and y, by Welch's method.

    Args:
        y: None stands for x. The shorter of x and y is padded with zeros.
        fs, window, nperseg, noverlap, nfft, detrend, return_onesided: as in `stft`.
        scaling: "density" for the power per unit of frequency, or "spectrum" for the power.
        average: the average over segments, "mean" or "median".

    Raises:
        InvalidConfigError, ShapeError: a name is unknown, or the lengths do not fit.

    >>> import numpy as np
    >>> csd(np.ones(4), None, detrend=False, nperseg=4, window="boxcar")[1]
    array([4., 0., 0.])

    Source: scipy.signal.csd.
    """
    first, axis = _series("csd", x, axis)
    second = None if y is None or y is x else _series("csd", y, axis)[0]
    extent = first.shape[-1]
    if second is not None:
        extent = max(extent, second.shape[-1])
        first, second = _to_extent(first, extent), _to_extent(second, extent)
    weights = _window("csd", window, nperseg, extent)
    step, length = _lengths("csd", len(weights), noverlap, nfft)
    if scaling not in ("density", "spectrum"):
        raise InvalidConfigError(f'csd: scaling must be "density" or "spectrum", got {scaling!r}')
    is_onesided = return_onesided and not (
        spec_of(first).dtype.is_complex or (second is not None and spec_of(second).dtype.is_complex)
    )
    spectrum = _transformed("csd", first, weights, step, length, detrend, is_onesided)
    if second is None:
        power = add(square(real(spectrum)), square(imag(spectrum)))
    else:
        other = _transformed("csd", second, weights, step, length, detrend, is_onesided)
        power = multiply(conj(spectrum), other)
    density = 1 / (fs * (np.abs(weights) ** 2).sum())
    scales = np.full(
        spectrum.shape[-1], density if scaling == "density" else 1 / abs(weights.sum()) ** 2
    )
    if is_onesided:
        scales[1 : None if length % 2 else -1] *= 2
    power = multiply(power, scales.astype(spec_of(power).dtype.real.dtype))
    return _frequencies(length, fs, is_onesided), moveaxis(_averaged(power, average), -1, axis)


def _to_extent(x: Any, extent: int) -> Any:
    missing = extent - x.shape[-1]
    return pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, missing)]) if missing else x


def _median_bias(count: int) -> float:
    """Return the expected median of `count` independent exponential variables of mean 1.

    Source: Allen, Anderson, Brady, Brown and Creighton, Physical Review D 85 (2012), appendix B.
    """
    even = 2.0 * np.arange(1, (count - 1) // 2 + 1)
    return float(1 + np.sum(1 / (even + 1) - 1 / even))


def _averaged(power: Any, average: str) -> Any:
    """Return the average of `power` over the segments, which are along the last axis but one."""
    if average not in ("mean", "median"):
        raise InvalidConfigError(f'csd: average must be "mean" or "median", got {average!r}')
    count = power.shape[-2]
    if count == 1 or average == "mean":
        return mean(power, axis=-2)
    bias = _median_bias(count)
    if not spec_of(power).dtype.is_complex:
        return divide(median(power, axis=-2), bias)
    turned = multiply(median(imag(power), axis=-2), 1j)
    return divide(add(median(real(power), axis=-2), turned), bias)


def welch(
    x: ArrayLike, fs: float = 1.0, window: Window = "hann", nperseg: int | None = None, noverlap: int | None = None,
    nfft: int | None = None, detrend: str | bool | Callable[[Any], Any] = "constant", return_onesided: bool = True,
    scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[Any, Any]:  # fmt: skip
    """Return frequencies and the power spectrum of x, by Welch's method; see `csd`.

    Raises:
        InvalidConfigError, ShapeError: as for `csd`.

    >>> import numpy as np
    >>> welch(np.array([1.0, -1.0, 1.0, -1.0]), nperseg=2, window="boxcar")[1]
    array([0., 2.])

    Source: scipy.signal.welch; Welch, IEEE Transactions on Audio and Electroacoustics 15 (1967).
    """
    return csd(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    )  # fmt: skip


def periodogram(
    x: ArrayLike, fs: float = 1.0, window: Window = "boxcar", nfft: int | None = None,
    detrend: str | bool | Callable[[Any], Any] = "constant", return_onesided: bool = True, scaling: str = "density", axis: int = -1,
) -> tuple[Any, Any]:  # fmt: skip
    """Return frequencies and the power spectrum of x, which is treated as one segment; see `csd`.

    Args:
        nfft: the length of the transform, to which x is cut or padded with zeros.

    Raises:
        InvalidConfigError, ShapeError: as for `csd`.

    >>> import numpy as np
    >>> periodogram(np.array([1.0, -1.0]))[1]
    array([0., 2.])

    Source: scipy.signal.periodogram.
    """
    series, axis = _series("periodogram", x, axis)
    extent = series.shape[-1]
    size = extent if nfft is None else min(extent, int(nfft))
    weights = _window("periodogram", window, size, size)
    frequencies, power = csd(
        series[..., :size], None, fs, weights, size, 0, nfft, detrend, return_onesided, scaling, -1
    )
    return frequencies, moveaxis(power, -1, axis)


def coherence(
    x: ArrayLike, y: ArrayLike, fs: float = 1.0, window: Window = "hann", nperseg: int | None = None, noverlap: int | None = None,
    nfft: int | None = None, detrend: str | bool | Callable[[Any], Any] = "constant", axis: int = -1,
) -> tuple[Any, Any]:  # fmt: skip
    """Return frequencies and the coherence |Pxy|^2 / (Pxx Pyy), where Pab is the spectrum of a and b by `csd`.

    Raises:
        InvalidConfigError, ShapeError: as for `csd`.

    >>> import numpy as np
    >>> coherence(np.arange(6.0) ** 2, np.arange(6.0) ** 2, nperseg=2, detrend=False)[1]
    array([1., 1.])

    Source: scipy.signal.coherence.
    """
    rest = (fs, window, nperseg, noverlap, nfft, detrend)
    frequencies, both = csd(
        x, y if y is not x else multiply(as_inexact(as_operand(y)), 1), *rest, axis=axis
    )
    _, first = csd(x, None, *rest, axis=axis)
    _, second = csd(y, None, *rest, axis=axis)
    power = add(square(real(both)), square(imag(both)))
    return frequencies, divide(power, multiply(first, second))
