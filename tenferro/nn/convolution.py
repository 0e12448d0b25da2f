"""Convolutions and pooling of batches with features, in one to three dimensions.

A layout is a string. "NHWC" (also "NWC", "NDHWC") stores features last, with kernels [space.., in, out] as in JAX, Flax
and Keras. "NCHW" (also "NCW", "NCDHW") stores features second, with kernels [out, in, space..] as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.api.creation import ones_like
from tenferro.api.elementwise import divide
from tenferro.api.manipulation import flip, reshape, swapaxes
from tenferro.api.promotion import convert
from tenferro.dims import is_static
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.lax.convolution import (
    ConvDimensionNumbers,
    conv_general_dilated,
    dilated,
    transposed_padding,
)
from tenferro.lax.operands import same_dtype
from tenferro.lax.windows import windows_combined
from tenferro.ops.elementwise import Add, Maximum, Minimum
from tenferro.ops.reduction import largest, least
from tenferro.types import ArrayLike, Shape, Tensor

__all__ = ["avg_pool", "conv", "conv_transpose", "max_pool", "min_pool"]

_FEATURES_LAST = ("NWC", "NHWC", "NDHWC")
_FEATURES_SECOND = ("NCW", "NCHW", "NCDHW")


def _is_last(name: str, data_format: Any) -> bool:
    """Return whether the layout `data_format` has features last.

    Raises:
        InvalidConfigError: the layout is unknown.
    """
    if data_format in _FEATURES_LAST:
        return True
    if data_format in _FEATURES_SECOND:
        return False
    raise InvalidConfigError(
        f'nn.{name}: data_format must be "NHWC" (features last) or "NCHW" (features second), in 1 and 3 dimensions '
        f'"NWC", "NCW", "NDHWC" and "NCDHW" too; got {data_format!r}'
    )


def _space_of(name: str, x: Any) -> int:
    """Return the number of spatial axes of x, whose other axes are those of batch and features.

    Raises:
        ShapeError: the number of spatial axes is not from one to three.
    """
    count = len(x.shape) - 2
    if not 1 <= count <= 3:
        raise ShapeError(
            f"nn.{name}: x must have a batch axis, a feature axis and 1 to 3 axes of space, got {spec_of(x)}; add an "
            "axis of extent 1 for a single input"
        )
    return count


def _per_axis(name: str, what: str, numbers: Any, count: int) -> tuple[int, ...]:
    """Return a tuple with one number for each spatial axis. `numbers` is a single number or a sequence."""
    if isinstance(numbers, int | np.integer):
        return (int(numbers),) * count
    if not isinstance(numbers, tuple | list) or len(numbers) != count:
        raise InvalidConfigError(
            f"nn.{name}: {what} must be a number, or one for each of {count} axes of space, got {numbers!r}"
        )
    return tuple(numbers)


def _padding(name: str, padding: Any, count: int) -> Any:
    """Return the padding as a name, or as one pair per spatial axis.

    `padding` is a name, a number, numbers or pairs.
    """
    if isinstance(padding, str):
        return padding
    if isinstance(padding, int | np.integer):
        return [(int(padding), int(padding))] * count
    entries = list(padding) if isinstance(padding, tuple | list) else []
    if len(entries) != count:
        raise InvalidConfigError(
            f'nn.{name}: padding must be "SAME", "SAME_LOWER", "VALID", a number, or a number or a pair for each of '
            f"{count} axes of space, got {padding!r}"
        )
    return [
        tuple(entry) if isinstance(entry, tuple | list) else (entry, entry) for entry in entries
    ]


def _axes(count: int, is_last: bool) -> ConvDimensionNumbers:
    """Return the order of axes in a layout with `count` spatial axes."""
    space = range(count)
    if is_last:
        io = (0, count + 1, *(1 + i for i in space))
        return ConvDimensionNumbers(io, (count + 1, count, *space), io)
    io = (0, 1, *(2 + i for i in space))
    return ConvDimensionNumbers(io, io, io)


def conv(
    x: ArrayLike,
    w: ArrayLike,
    *,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NHWC",
    precision: Any = None,
) -> Any:
    """Convolve a batch with a kernel. As in all neural networks, this is a cross-correlation.

    Args:
        x: the batch [batch, space.., features], or with data_format="NCHW" [batch, features, space..].
        w: the kernel [space.., features / groups, outputs], or with "NCHW" [outputs, features / groups, space..].
        strides, dilation: the distance between neighbouring windows, and between neighbouring elements of the kernel.
            Each is a number, or one number for each spatial axis.
        padding: "SAME", "SAME_LOWER", "VALID", a number, or a number or a pair for each spatial axis.
        groups: the number of groups of features. Each group has separate kernels. A depthwise convolution has as many
            groups as features.
        precision: "highest", "high" or "default"; None leaves the choice to the lowering.

    Raises:
        ShapeError, DTypeError, InvalidConfigError: ranks, features, dtypes or options do not fit.

    >>> import numpy as np
    >>> conv(np.ones((1, 4, 4, 3)), np.ones((2, 2, 3, 8)), padding="SAME").shape
    (1, 4, 4, 8)
    >>> conv(np.ones((1, 3, 4, 4)), np.ones((8, 3, 2, 2)), data_format="NCHW").shape
    (1, 8, 3, 3)
    """
    x, w = same_dtype("conv", x, w)
    is_last, count = _is_last("conv", data_format), _space_of("conv", x)
    axes = _axes(count, is_last)
    _require_kernel("conv", x, w, axes, groups, data_format)
    return conv_general_dilated(
        x,
        w,
        _per_axis("conv", "strides", strides, count),
        _padding("conv", padding, count),
        rhs_dilation=_per_axis("conv", "dilation", dilation, count),
        dimension_numbers=axes,
        feature_group_count=groups,
        precision=precision,
    )


def _require_kernel(
    name: str, x: Any, w: Any, axes: ConvDimensionNumbers, groups: int, data_format: str
) -> None:
    """Check that the rank and the input features of the kernel fit x."""
    if type(groups) is not int or groups < 1:
        raise InvalidConfigError(
            f"nn.{name}: groups must be a number of at least 1, got {groups!r}"
        )
    layout = "[space.., in, out]" if _is_last(name, data_format) else "[out, in, space..]"
    if len(w.shape) != len(x.shape):
        raise ShapeError(
            f"nn.{name}: the kernel must be {layout}, of rank {len(x.shape)} like x {spec_of(x)}, got {spec_of(w)}"
        )
    features, group_features = x.shape[axes.lhs_spec[1]], w.shape[axes.rhs_spec[1]]
    if is_static(features) and is_static(group_features) and features != group_features * groups:
        raise ShapeError(
            f"nn.{name}: x {spec_of(x)} has {features} features, and the kernel {spec_of(w)}, read as {layout}, "
            f"takes {group_features} for each of {groups} groups; data_format is {data_format!r}"
        )


def conv_transpose(
    x: ArrayLike,
    w: Any,
    *,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NHWC",
    precision: Any = None,
) -> Any:
    """Compute a transposed convolution.

    The result has the shape of an input for which `conv`, with the same strides, padding and dilation, returns the
    shape of x.

    Args:
        x: the batch [batch, space.., features], or with data_format="NCHW" [batch, features, space..].
        w: the kernel. Its layout is [space.., features / groups, outputs], and it is applied to the dilated input
            without a flip, as in JAX. With "NCHW" its layout is [features, outputs / groups, space..], and it is
            flipped in space; the result is then the gradient of `conv` with the same kernel, as in PyTorch.
        padding: the padding of the corresponding `conv`, from the shape of the result to the shape of x.

    Raises:
        ShapeError, DTypeError, InvalidConfigError: ranks, features, dtypes or options do not fit.

    >>> import numpy as np
    >>> conv_transpose(np.ones((1, 4, 4, 3)), np.ones((2, 2, 3, 8)), strides=2).shape
    (1, 8, 8, 8)
    """
    x, w = same_dtype("conv_transpose", x, w)
    name = "conv_transpose"
    is_last, count = _is_last(name, data_format), _space_of(name, x)
    axes = _axes(count, is_last)
    if not is_last:
        w = _transposed_kernel(x, w, groups)
    _require_kernel(name, x, w, axes, groups, data_format)
    steps = _per_axis(name, "strides", strides, count)
    holes = _per_axis(name, "dilation", dilation, count)
    pads = _padding(name, padding, count)
    of_axes = [pads] * count if isinstance(pads, str) else pads
    sizes = [dilated(w.shape[a], d) for a, d in zip(axes.rhs_spec[2:], holes, strict=True)]
    return conv_general_dilated(
        x,
        w,
        (1,) * count,
        [transposed_padding(k, s, p) for k, s, p in zip(sizes, steps, of_axes, strict=True)],
        lhs_dilation=steps,
        rhs_dilation=holes,
        dimension_numbers=axes,
        feature_group_count=groups,
        precision=precision,
    )


def _transposed_kernel(x: Any, w: Any, groups: int) -> Any:
    """Transpose a kernel [in, out / groups, space..] to [out, in / groups, space..], and reverse its spatial axes."""
    if len(w.shape) != len(x.shape) or w.shape[0] != x.shape[1] or w.shape[0] % groups:
        raise ShapeError(
            f"nn.conv_transpose: the kernel must be [in, out / {groups}, space..] for x {spec_of(x)}, "
            f"got {spec_of(w)}"
        )
    inputs, outputs, space = w.shape[0], w.shape[1], tuple(w.shape[2:])
    grouped = swapaxes(reshape(w, (groups, inputs // groups, outputs, *space)), 1, 2)
    kernel = reshape(grouped, (groups * outputs, inputs // groups, *space))
    return flip(kernel, axis=tuple(range(2, 2 + len(space))))


# ---- pooling ----------------------------------------------------------------------------------------


def _pooled(
    name: str,
    op: Any,
    x: Tensor,
    start: ArrayLike,
    window: Shape,
    strides: Any,
    padding: Any,
    fmt: str,
) -> Any:
    count = _space_of(name, x)
    sizes = _per_axis(name, "window_shape", window, count)
    steps = sizes if strides is None else _per_axis(name, "strides", strides, count)
    pads = _padding(name, padding, count)
    if not isinstance(pads, str) and any(
        not 0 <= p < size for pair, size in zip(pads, sizes, strict=True) for p in pair
    ):
        raise InvalidConfigError(
            f"nn.{name}: padding {padding!r} leaves windows of {sizes} without an element of x"
        )
    ends = [(0, 0)]
    if _is_last(name, fmt):
        sizes, steps = (1, *sizes, 1), (1, *steps, 1)
        pads = pads if isinstance(pads, str) else [*ends, *pads, *ends]
    else:
        sizes, steps = (1, 1, *sizes), (1, 1, *steps)
        pads = pads if isinstance(pads, str) else [*ends, *ends, *pads]
    ones = (1,) * len(sizes)
    return windows_combined(op, x, start, sizes, steps, pads, ones, ones)


def max_pool(
    x: ArrayLike,
    window_shape: Any,
    strides: Any = None,
    padding: Any = "VALID",
    *,
    data_format: str = "NHWC",
) -> Any:
    """Compute the largest element of each window. Equal largest elements share the derivative equally.

    Args:
        x: the batch [batch, space.., features], or with data_format="NCHW" [batch, features, space..].
        window_shape: the extents of the window: a number, or one number for each spatial axis.
        strides: the distance between neighbouring windows; None stands for the extents of the window.
        padding: the padding, as in `conv`. Padding elements are never the maximum.

    Raises:
        ShapeError, DTypeError, InvalidConfigError: ranks, dtypes or options do not fit.

    >>> import numpy as np
    >>> max_pool(np.array([1.0, 5.0, 2.0, 4.0]).reshape(1, 4, 1), 2)[0, :, 0]
    array([5., 4.])
    """
    x = as_operand(x)
    _require_real("max_pool", x)
    start = least(spec_of(x).dtype)
    return _pooled("max_pool", Maximum(), x, start, window_shape, strides, padding, data_format)


def min_pool(
    x: ArrayLike,
    window_shape: Any,
    strides: Any = None,
    padding: Any = "VALID",
    *,
    data_format: str = "NHWC",
) -> Any:
    """Compute the smallest element of each window; `max_pool` describes the arguments.

    >>> import numpy as np
    >>> min_pool(np.array([1.0, 5.0, 2.0, 4.0]).reshape(1, 4, 1), 2)[0, :, 0]
    array([1., 2.])
    """
    x = as_operand(x)
    _require_real("min_pool", x)
    start = largest(spec_of(x).dtype)
    return _pooled("min_pool", Minimum(), x, start, window_shape, strides, padding, data_format)


def avg_pool(
    x: Any,
    window_shape: Shape,
    strides: Any = None,
    padding: Any = "VALID",
    count_include_pad: bool = True,
    *,
    data_format: str = "NHWC",
) -> Any:
    """Compute the mean of each window.

    Args:
        x, window_shape, strides, data_format: as in `max_pool`.
        count_include_pad: whether padding counts as elements with the value 0.

    Raises:
        ShapeError, DTypeError, InvalidConfigError: ranks, dtypes or options do not fit.

    >>> import numpy as np
    >>> avg_pool(np.array([1.0, 5.0, 2.0]).reshape(1, 3, 1), 2, 1, "SAME", False)[0, :, 0]
    array([3. , 3.5, 2. ])
    """
    x = as_operand(x)
    dtype = spec_of(x).dtype
    if not dtype.is_inexact:
        raise DTypeError(f"nn.avg_pool: x must be float or complex, got {spec_of(x)}")
    x = convert(x, dtype.accumulator)
    options = (window_shape, strides, padding, data_format)
    total = _pooled("avg_pool", Add(), x, 0, *options)
    if not count_include_pad:
        count = _pooled("avg_pool", Add(), ones_like(x), 0, *options)
        return convert(divide(total, count), dtype)
    sizes = _per_axis("avg_pool", "window_shape", window_shape, len(x.shape) - 2)
    return convert(divide(total, float(np.prod(sizes))), dtype)


def _require_real(name: str, x: Tensor) -> None:
    if spec_of(x).dtype.is_complex:
        raise DTypeError(f"nn.{name}: complex numbers have no order, got {spec_of(x)}")
