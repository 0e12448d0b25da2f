"""`tenferro.fft`: discrete Fourier transforms.

`n` and `s` are the lengths of a transform: the operand is truncated, or padded with zeros, at its end. `norm` selects
the scaling. "backward" and None divide the inverse transform by n, "forward" divides the forward transform by n, and
"ortho" divides both by sqrt(n).

Source: Array API standard 2024.12, extension "fft"; `numpy.fft`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.api.arguments import refuse
from tenferro.api.axes import normalize_axis
from tenferro.api.creation import asarray, shape_of
from tenferro.api.elementwise import conj, divide, multiply, real, sqrt
from tenferro.api.manipulation import concat, flip, moveaxis, permute_dims, roll, slice_axis
from tenferro.api.padding import pad
from tenferro.api.promotion import convert
from tenferro.dims import is_exact, is_static
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, NonStaticShapeError
from tenferro.ext.fft.families import Fft
from tenferro.extension import apply
from tenferro.types import ArrayLike, DType, DTypeLike, Tensor

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

NORMS = ("backward", "ortho", "forward")


def _prepared(name: str, x: ArrayLike, real: bool) -> Any:
    x = as_operand(x)
    dtype = spec_of(x).dtype
    if dtype in (DType.F16, DType.BF16):
        raise DTypeError(f"{name}: takes float32, float64 or complex, got {dtype}; convert it")
    if real:
        if dtype.is_complex:
            raise DTypeError(f"{name}: takes real input, got {spec_of(x)}; use {name[1:]}")
        return x if dtype.is_float else convert(x, DType.F64)
    if dtype.is_complex:
        return x
    return convert(x, DType.C32 if dtype is DType.F32 else DType.C64)


def _fitted(x: Any, axis: int, length: int) -> Any:
    """Truncate x along `axis` to `length`, or pad it with zeros at the end."""
    extent = x.shape[axis]
    if extent == length:
        return x
    if extent > length:
        return slice_axis(x, axis, 0, length)
    return pad(x, {axis: (0, length - extent)})


def _transform(
    name: str, kind: str, x: Any, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None, out: None
) -> Any:  # fmt: skip
    refuse(name, "out", out)
    norm = "backward" if norm is None else norm
    if norm not in NORMS:
        raise InvalidConfigError(f"{name}: norm must be one of {NORMS}, got {norm!r}")
    x = _prepared(name, x, kind == "rfft")
    rank = len(x.shape)
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    places = [normalize_axis(name, axis, rank) for axis in axes]
    if len(set(places)) != len(places):
        raise InvalidConfigError(f"{name}: axes {tuple(axes)} name an axis twice")
    if s is not None and len(s) != len(places):
        raise InvalidConfigError(f"{name}: {len(s)} lengths for {len(places)} axes")
    lengths = _lengths(name, kind, x, s, places)
    is_symbolic = not all(map(is_static, lengths))
    if kind == "rfft" and is_symbolic:
        whole = _transform(name, "fft", convert(x, _complex_of(x)), s, places, norm, None)
        return slice_axis(whole, places[-1], 0, lengths[-1] // 2 + 1)
    if kind == "irfft" and is_symbolic:
        return real(_transform(name, "ifft", _mirrored(x, places), s, places, norm, None))
    for i, (axis, length) in enumerate(zip(places, lengths, strict=True)):
        half = kind == "irfft" and i == len(places) - 1
        x = _fitted(x, axis, length // 2 + 1 if half else length)
    if not places:
        return x
    # An op transforms at most three trailing axes, so the axes to transform are moved to the end.
    order = [axis for axis in range(rank) if axis not in places] + places
    back = [order.index(axis) for axis in range(rank)]
    x = permute_dims(x, tuple(order))
    own = [length if is_static(length) else None for length in lengths]
    x = _in_threes(x, kind, own)
    x = permute_dims(x, tuple(back))
    inverse = kind in ("ifft", "irfft")
    if is_symbolic:
        return _scaled(x, norm, inverse, places)
    count = math.prod(lengths)
    factor = {
        "backward": 1.0,
        "ortho": math.sqrt(count) if inverse else 1 / math.sqrt(max(count, 1)),
        "forward": float(count) if inverse else 1 / max(count, 1),
    }[norm]
    return x if factor == 1.0 else multiply(x, factor)


def _scaled(x: Any, norm: str, inverse: bool, places: Sequence[int]) -> Any:
    """Scale a transform of symbolic lengths as `norm` requires. The program computes the lengths when it runs."""
    dtype = spec_of(x).dtype.real
    for axis in places if norm != "backward" else ():
        count = convert(shape_of(x, axis), dtype)
        count = sqrt(count) if norm == "ortho" else count
        x = multiply(x, convert(count, spec_of(x).dtype)) if inverse else divide(x, count)
    return x


def _mirrored(x: Any, places: Sequence[int]) -> Any:
    """Complete a half spectrum along the last transformed axis, from m to 2 (m - 1) elements.

    The spectrum is Hermitian: the missing elements are the conjugates of the elements at the negative frequencies.
    """
    last = places[-1]
    others = conj(flip(slice_axis(x, last, 1, x.shape[last] - 1), axis=last))
    for axis in places[:-1]:
        # Negate the frequencies of this axis: index k becomes -k modulo n, so the first element stays and the others
        # reverse.
        first, rest = (slice_axis(others, axis, *ends) for ends in ((0, 1), (1, x.shape[axis])))
        others = concat([first, flip(rest, axis=axis)], axis=axis)
    return concat([x, others], axis=last)


def _complex_of(x: Any) -> DType:
    return DType.C32 if spec_of(x).dtype is DType.F32 else DType.C64


def _in_threes(x: Any, kind: str, lengths: Sequence[int | None]) -> Any:
    count = len(lengths)
    if count <= 3:
        return apply(Fft(kind, tuple(lengths)), x)
    rank = len(x.shape)
    rest, last = list(lengths[:-3]), tuple(lengths[-3:])
    plain = "ifft" if kind in ("ifft", "irfft") else "fft"

    def leading_axes(x: ArrayLike) -> Any:
        moved = moveaxis(x, (-3, -2, -1), (rank - count, rank - count + 1, rank - count + 2))
        moved = _in_threes(moved, plain, rest)
        return moveaxis(moved, (rank - count, rank - count + 1, rank - count + 2), (-3, -2, -1))

    if kind == "irfft":
        return apply(Fft(kind, last), leading_axes(x))
    return leading_axes(apply(Fft(kind, last), x))


def _lengths(
    name: str, kind: str, x: Any, s: Sequence[int] | None, places: Sequence[int]
) -> list[int]:
    if s is None:
        lengths = [x.shape[axis] for axis in places]
        if kind == "irfft" and places:
            lengths[-1] = 2 * (lengths[-1] - 1)
    else:
        # As in NumPy 2, -1 among the lengths of several axes stands for the extent of the axis.
        default = -1 if name.endswith("n") else None
        lengths = [x.shape[axis] if n == default else n for n, axis in zip(s, places, strict=True)]
    for length, extent in zip(lengths, [x.shape[axis] for axis in places], strict=True):
        if not is_exact(length) or (s is not None and not is_static(length)):
            raise NonStaticShapeError(
                f"{name}: the length {length} of {spec_of(x)}: a length must be a number, or the extent {extent} "
                "that the axis has, by n=None or s=None"
            )
        if is_static(length) and length < 1:
            raise InvalidConfigError(f"{name}: a length must be at least 1, got {length}")
    return lengths


def fft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Any:
    """Compute y[k] = sum_j x[j] exp(-2 pi i jk / n) along an axis.

    Raises:
        InvalidConfigError: the length is below 1, or `norm` is unknown.
        DTypeError: the dtype is float16 or bfloat16.

    >>> fft([1.0, 2.0]).real
    array([ 3., -1.])
    """
    return _transform("fft", "fft", a, None if n is None else (n,), (axis,), norm, out)


def ifft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Any:
    """Invert `fft`."""
    return _transform("ifft", "ifft", a, None if n is None else (n,), (axis,), norm, out)


def rfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Any:
    """Compute the first n // 2 + 1 elements of the `fft` of a real signal.

    The others are conjugates of these elements.
    """
    return _transform("rfft", "rfft", a, None if n is None else (n,), (axis,), norm, out)


def irfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Any:
    """Invert `rfft`. The result is real and has length n, by default 2 (m - 1) for an operand of length m."""
    return _transform("irfft", "irfft", a, None if n is None else (n,), (axis,), norm, out)


def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Any:
    """Apply `fft` along several axes, by default all."""
    return _transform("fftn", "fft", a, s, axes, norm, out)


def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Any:
    """Invert `fftn`."""
    return _transform("ifftn", "ifft", a, s, axes, norm, out)


def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Any:
    """Apply `rfft` along the last of several axes, by default all, and then `fft` along the other axes."""
    return _transform("rfftn", "rfft", a, s, axes, norm, out)


def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Any:
    """Invert `rfftn`."""
    return _transform("irfftn", "irfft", a, s, axes, norm, out)


def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Any = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Any:
    """Apply `fftn` along two axes, by default the last two."""
    return fftn(a, s=s, axes=axes, norm=norm, out=out)


def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Any = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Any:
    """Apply `ifftn` along two axes, by default the last two."""
    return ifftn(a, s=s, axes=axes, norm=norm, out=out)


def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Any = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Any:
    """Apply `rfftn` along two axes, by default the last two."""
    return rfftn(a, s=s, axes=axes, norm=norm, out=out)


def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Any = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Any:
    """Apply `irfftn` along two axes, by default the last two."""
    return irfftn(a, s=s, axes=axes, norm=norm, out=out)


def _opposite(norm: str | None) -> Any:
    """Return the `norm` for an inverse transform that replaces a forward transform: `hfft` is computed by `irfft`."""
    norms = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}
    return norms.get(norm, norm)


def hfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Any:
    """Apply `fft` to a Hermitian signal, whose first half is `a`. The result is real."""
    return irfft(conj(as_operand(a)), n, axis, _opposite(norm), out)


def ihfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Any:
    """Invert `hfft`."""
    return conj(rfft(a, n, axis, _opposite(norm), out))


def fftfreq(
    n: int,
    d: float = 1.0,
    device: str | None = None,
    *,
    dtype: DTypeLike | None = None,
    like: Tensor | None = None,
) -> Any:
    """Return the frequency of each element of an `fft` of length n, in cycles per unit of the sample spacing d."""
    return asarray(np.fft.fftfreq(n, d), dtype=dtype, device=device, like=like)


def rfftfreq(
    n: int,
    d: float = 1.0,
    device: str | None = None,
    *,
    dtype: DTypeLike | None = None,
    like: Tensor | None = None,
) -> Any:
    """Return the frequency of each element of an `rfft` of length n, in cycles per unit of the sample spacing d."""
    return asarray(np.fft.rfftfreq(n, d), dtype=dtype, device=device, like=like)


def _shifted(x: Tensor, axes: Sequence[int] | None, sign: int) -> Any:
    x = as_operand(x)
    places = range(len(x.shape)) if axes is None else (axes,) if isinstance(axes, int) else axes
    for axis in places:
        half = x.shape[axis] // 2
        x = roll(x, half if sign > 0 else -half, axis=axis)
    return x


def fftshift(x: Any, axes: Any = None) -> Any:
    """Rotate the elements along `axes`, by default all, so that frequency zero is in the middle."""
    return _shifted(x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """Invert `fftshift`."""
    return _shifted(x, axes, -1)
