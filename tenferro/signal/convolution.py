"""Convolutions and correlations of tensors of any rank, computed by sums of products or by Fourier transforms.

Source: SciPy 1.16, reference, scipy.signal, "Convolution".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tenferro.api import fft
from tenferro.api.axes import normalize_axis
from tenferro.api.elementwise import conj, multiply, round
from tenferro.api.manipulation import flip, reshape
from tenferro.api.padding import pad
from tenferro.api.promotion import as_inexact, broadcast_shapes, convert, result_type
from tenferro.dims import is_static
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, NonStaticShapeError, ShapeError
from tenferro.lax.convolution import conv_general_dilated
from tenferro.types import ArrayLike

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve", "oaconvolve"]

MODES = ("full", "same", "valid")
LARGEST_DIRECT = 1 << 22
"""Maximum number of products for which method="auto" sums the products directly."""


def _pair(name: str, in1: ArrayLike, in2: ArrayLike, mode: str) -> tuple[Any, Any]:
    """Return the operands as tensors, after checking that they have equal rank and static extents.

    Raises:
        InvalidConfigError, ShapeError, NonStaticShapeError: `mode` is unknown; the ranks differ; or an extent is
            symbolic.
    """
    if mode not in MODES:
        raise InvalidConfigError(f'{name}: mode must be "full", "same" or "valid", got {mode!r}')
    x, y = as_operand(in1), as_operand(in2)
    if len(x.shape) != len(y.shape):
        raise ShapeError(f"{name}: operands must have one rank, got {spec_of(x)} and {spec_of(y)}")
    for operand in (x, y):
        if not all(map(is_static, operand.shape)):
            raise NonStaticShapeError(f"{name}: needs known extents, got {spec_of(operand)}")
    return x, y


def _is_swapped(name: str, x: Any, y: Any, mode: str, axes: Sequence[int]) -> bool:
    """Return whether to exchange the operands for mode "valid", because only y is as large as x along every axis.

    Raises:
        ShapeError: neither operand is at least as large as the other along every axis.
    """
    if mode != "valid":
        return False
    if all(x.shape[axis] >= y.shape[axis] for axis in axes):
        return False
    if all(y.shape[axis] >= x.shape[axis] for axis in axes):
        return True
    raise ShapeError(
        f'{name}: for "valid" one operand must be at least as large along every axis, got {spec_of(x)} and {spec_of(y)}'
    )


def _reversed(x: Any) -> Any:
    return conj(flip(x, axis=tuple(range(len(x.shape)))))


def _direct(x: Any, y: Any, mode: str) -> Any:
    """Return the convolution as a sum of products. For mode "valid", y must not be larger than x."""
    dtype = result_type(x, y)
    if dtype.is_bool:
        raise DTypeError(f"convolve: takes numbers, got {spec_of(x)} and {spec_of(y)}")
    rank = len(x.shape)
    if 0 in x.shape or 0 in y.shape:
        raise ShapeError(f"convolve: operands must not be empty, got {spec_of(x)} and {spec_of(y)}")
    kernel = convert(flip(y, axis=tuple(range(rank))), dtype)
    pads = []
    for size in y.shape:
        low = {"full": size - 1, "same": size - 1 - (size - 1) // 2, "valid": 0}[mode]
        pads.append((low, {"full": size - 1, "same": (size - 1) // 2, "valid": 0}[mode]))
    image = reshape(convert(x, dtype), (1, 1, *x.shape))
    result = conv_general_dilated(
        image, reshape(kernel, (1, 1, *y.shape)), (1,) * rank, pads, precision="highest"
    )
    return reshape(result, tuple(result.shape[2:]))


def _is_large(x: Any, y: Any) -> bool:
    """Return whether to use Fourier transforms: there are many products, and the dtype is inexact anyway."""
    return result_type(x, y).is_inexact and math.prod(x.shape) * math.prod(y.shape) > LARGEST_DIRECT


def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Any:
    """Return the convolution y[n] = sum over k of in1[k] in2[n - k], along every axis.

    Args:
        mode: the part of the result to return: "full" for all; "same" for the middle, with the shape of in1; or "valid"
            for the positions at which the operands overlap completely.
        method: "direct" sums products, and "fft" multiplies Fourier transforms. "auto" is "fft" for large
            floating-point operands, else "direct".

    Raises:
        InvalidConfigError, ShapeError: `mode` or `method` is unknown; the ranks differ; or an operand is empty.

    >>> convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
    array([0. , 1. , 2.5, 4. , 1.5])

    Source: scipy.signal.convolve.
    """
    x, y = _pair("convolve", in1, in2, mode)
    if method not in ("auto", "direct", "fft"):
        raise InvalidConfigError(
            f'convolve: method must be "auto", "direct" or "fft", got {method!r}'
        )
    if not x.shape:
        return multiply(x, y)
    if _is_swapped("convolve", x, y, mode, range(len(x.shape))):
        x, y = y, x
    if method == "direct" or (method == "auto" and not _is_large(x, y)):
        return _direct(x, y, mode)
    result, dtype = fftconvolve(x, y, mode), result_type(x, y)
    return result if dtype.is_inexact else convert(round(result), dtype)


def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Any:
    """Return the cross-correlation: `convolve` of in1 with in2 reversed and conjugated.

    Args:
        mode, method: as in `convolve`.

    Raises:
        InvalidConfigError, ShapeError: as for `convolve`.

    >>> correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
    array([0.5, 2. , 3.5, 3. , 0. ])

    Source: scipy.signal.correlate.
    """
    _, y = _pair("correlate", in1, in2, mode)
    return convolve(in1, _reversed(y), mode, method)


def _of_images(
    name: str,
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str,
    boundary: str,
    fillvalue: float,
    shift: int,
) -> Any:
    """Return the convolution of matrices. For mode "same", the middle begins at (extent of in2 - shift) // 2."""
    x, y = _pair(name, in1, in2, mode)
    if len(x.shape) != 2:
        raise ShapeError(f"{name}: takes matrices, got {spec_of(x)} and {spec_of(y)}")
    if boundary not in ("fill", "wrap", "symm"):
        raise InvalidConfigError(
            f'{name}: boundary must be "fill", "wrap" or "symm", got {boundary!r}'
        )
    if _is_swapped(name, x, y, mode, (0, 1)):
        x, y = y, x
    if mode == "valid":
        return _direct(x, y, mode)
    shape, sizes = x.shape, y.shape
    is_zero = boundary == "fill" and fillvalue == 0
    if not is_zero:
        around = [(size - 1, size - 1) for size in sizes]
        kind = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}[boundary]
        options: dict[str, Any] = {"constant_values": fillvalue} if boundary == "fill" else {}
        x = pad(x, around, mode=kind, **options)
    full = _direct(x, y, "full" if is_zero else "valid")
    if mode == "full":
        return full
    rows, columns = ((size - shift) // 2 for size in sizes)
    return full[rows : rows + shape[0], columns : columns + shape[1]]


def convolve2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0
) -> Any:
    """Return the convolution of two matrices.

    Args:
        mode: as in `convolve`.
        boundary: the values of in1 outside its bounds: "fill" for `fillvalue`, "wrap" for periodic continuation, or
            "symm" for reflection.

    Raises:
        InvalidConfigError, ShapeError: `mode` or `boundary` is unknown, or an operand is no matrix.

    >>> convolve2d([[1.0, 2.0]], [[1.0, 1.0]], boundary="wrap")
    array([[3., 3., 3.]])

    Source: scipy.signal.convolve2d.
    """
    return _of_images("convolve2d", in1, in2, mode, boundary, fillvalue, 1)


def correlate2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0
) -> Any:
    """Return the cross-correlation of two matrices: `convolve2d` with in2 reversed and conjugated.

    Args:
        mode, boundary, fillvalue: as in `convolve2d`. For mode "same", the middle begins at half the extent of in2.

    Raises:
        InvalidConfigError, ShapeError: as for `convolve2d`.

    >>> correlate2d([[1.0, 2.0]], [[0.0, 1.0]])
    array([[1., 2., 0.]])

    Source: scipy.signal.correlate2d.
    """
    _, y = _pair("correlate2d", in1, in2, mode)
    return _of_images("correlate2d", in1, _reversed(y), mode, boundary, fillvalue, 0)


def _fast_length(n: int) -> int:
    """Return the smallest number that is at least n and has no prime factors except 2, 3 and 5.

    >>> _fast_length(7), _fast_length(17)
    (8, 18)
    """
    for length in range(max(n, 1), 2 * max(n, 1) + 1):
        rest = length
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return length
    raise AssertionError(n)


def _middle(x: Any, shape: Sequence[int], axes: Sequence[int]) -> Any:
    """Return the middle part of x that has, along `axes`, the extents of `shape`."""
    place: list[Any] = [slice(None)] * len(x.shape)
    for axis in axes:
        start = (x.shape[axis] - shape[axis]) // 2
        place[axis] = slice(start, start + shape[axis])
    return x[tuple(place)]


def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Any:
    """Return the convolution along `axes`, computed by Fourier transforms. The other axes are broadcast.

    Args:
        mode: as in `convolve`.
        axes: the axes along which to convolve; None for all.

    Raises:
        InvalidConfigError, ShapeError, AxisError: as for `convolve`; also if an axis is outside the rank.

    >>> import numpy as np
    >>> np.round(fftconvolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5]), 12) + 0.0
    array([0. , 1. , 2.5, 4. , 1.5])

    Source: scipy.signal.fftconvolve.
    """
    x, y = _pair("fftconvolve", in1, in2, mode)
    rank = len(x.shape)
    named = range(rank) if axes is None else [axes] if isinstance(axes, int) else list(axes)
    along = sorted({normalize_axis("fftconvolve", axis, rank) for axis in named})
    if len(along) != len(named):
        raise InvalidConfigError(f"fftconvolve: axes must be different, got {axes!r}")
    others = [axis for axis in range(rank) if axis not in along]
    broadcast_shapes([x.shape[axis] for axis in others], [y.shape[axis] for axis in others])
    dtype = result_type(as_inexact(x), as_inexact(y))
    x, y = convert(x, dtype), convert(y, dtype)
    if not along:
        return multiply(x, y)
    if 0 in x.shape or 0 in y.shape:
        raise ShapeError(
            f"fftconvolve: operands must not be empty, got {spec_of(x)} and {spec_of(y)}"
        )
    if _is_swapped("fftconvolve", x, y, mode, along):
        x, y = y, x
    full = [x.shape[axis] + y.shape[axis] - 1 for axis in along]
    lengths = [_fast_length(extent) for extent in full]
    forward, inverse = (fft.fftn, fft.ifftn) if dtype.is_complex else (fft.rfftn, fft.irfftn)
    products = multiply(forward(x, s=lengths, axes=along), forward(y, s=lengths, axes=along))
    wide = inverse(products, s=lengths, axes=along)
    place: list[Any] = [slice(None)] * rank
    for axis, extent in zip(along, full, strict=True):
        place[axis] = slice(0, extent)
    result = wide[tuple(place)]
    if mode == "full":
        return result
    shape = list(x.shape)
    if mode == "valid":
        for axis in along:
            shape[axis] = x.shape[axis] - y.shape[axis] + 1
    return _middle(result, shape, along)


def oaconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Any:
    """Return the convolution, computed as by `fftconvolve`. SciPy's function uses the overlap-add method instead.

    >>> import numpy as np
    >>> np.round(oaconvolve([1.0, 2.0], [0.0, 1.0]), 12) + 0.0
    array([0., 1., 2.])

    Source: scipy.signal.oaconvolve.
    """
    return fftconvolve(in1, in2, mode, axes)
