"""Convolutions with jax.lax's names. Most functions are a single `Convolution` op.

Source: jax.lax, "Convolution"; StableHLO spec #convolution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tenferro.api.manipulation import flip, moveaxis, swapaxes
from tenferro.api.precision import precision_name
from tenferro.api.promotion import convert, promote_dtypes
from tenferro.dims import is_static
from tenferro.dispatch import apply_one, as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, NonStaticShapeError, ShapeError
from tenferro.lax.operands import same_dtype
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.types import ArrayLike, DType, DTypeLike

__all__ = [
    "ConvDimensionNumbers",
    "conv",
    "conv_dimension_numbers",
    "conv_general_dilated",
    "conv_general_dilated_local",
    "conv_general_dilated_patches",
    "conv_transpose",
    "conv_with_general_padding",
    "padtype_to_pads",
]


class ConvDimensionNumbers(NamedTuple):
    """Order of the axes in a convolution, as numbers of axes.

    `lhs_spec` and `out_spec` list the axes of batch, features and space. `rhs_spec` lists the axes of output features,
    input features and space.
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


def conv_dimension_numbers(
    lhs_shape: Sequence[Any], rhs_shape: Sequence[Any], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Return the axes that `dimension_numbers` names, as a `ConvDimensionNumbers`.

    Args:
        dimension_numbers: three strings, in which each letter stands for an axis. The first and third string contain N
            for batch and C for features, the second O for output features and I for input features. Each also has a
            letter for each spatial axis. None stands for ("NCHW", "OIHW", "NCHW") in any rank. A `ConvDimensionNumbers`
            is returned.

    Raises:
        ShapeError: the operands have different ranks.
        InvalidConfigError: the strings do not name the axes.

    >>> conv_dimension_numbers((1, 8, 8, 3), (2, 2, 3, 4), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    rank = len(lhs_shape)
    if rank != len(rhs_shape) or rank < 2:
        raise ShapeError(
            f"lax convolution: lhs and rhs must have one rank of at least 2, got shapes {tuple(lhs_shape)} and "
            f"{tuple(rhs_shape)}"
        )
    if dimension_numbers is None:
        axes = tuple(range(rank))
        return ConvDimensionNumbers(axes, axes, axes)
    words = tuple(dimension_numbers) if isinstance(dimension_numbers, tuple | list) else ()
    if len(words) != 3 or not all(isinstance(word, str) for word in words):
        raise InvalidConfigError(
            "lax convolution: dimension_numbers must be three strings, a ConvDimensionNumbers or None, "
            f"got {dimension_numbers!r}"
        )
    for word, pair in zip(words, ("NC", "OI", "NC"), strict=True):
        space = set(words[1]) - set("OI")
        if len(word) != rank or set(word) != {*pair, *space} or len(set(word)) != rank:
            raise InvalidConfigError(
                f"lax convolution: dimension_numbers of rank {rank} name {pair[0]}, {pair[1]} and the same "
                f"{rank - 2} axes of space in each word, got {words}"
            )
    space = [letter for letter in words[1] if letter not in "OI"]
    lhs, rhs, out = (
        tuple([word.index(letter) for letter in (*pair, *space)])
        for word, pair in zip(words, ("NC", "OI", "NC"), strict=True)
    )
    return ConvDimensionNumbers(lhs, rhs, out)


def padtype_to_pads(
    in_shape: Sequence[Any],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """Return the padding (before, after) along each axis that a named padding stands for.

    Args:
        in_shape: the extents of the axes along which windows move.
        window_shape: the extents of the window along these axes, including its dilation.
        window_strides: the distance between neighbouring windows along these axes.
        padding: "VALID" pads nothing. "SAME" pads such that there is one window per `stride` elements; an odd element
            of padding is added at the end. "SAME_LOWER" adds the odd element at the start.

    Raises:
        InvalidConfigError: `padding` is none of these names.
        NonStaticShapeError: the padding is "SAME", with a stride along a symbolic extent.

    >>> padtype_to_pads((8,), (3,), (2,), "SAME"), padtype_to_pads((8,), (3,), (2,), "SAME_LOWER")
    ([(0, 1)], [(1, 0)])
    """
    word = str(padding).upper()
    if word == "VALID":
        return [(0, 0)] * len(window_shape)
    if word not in ("SAME", "SAME_LOWER"):
        raise InvalidConfigError(
            f'lax: padding must be "SAME", "SAME_LOWER", "VALID" or a pair of numbers for each axis, got {padding!r}'
        )
    pairs: list[tuple[int, int]] = []
    for extent, size, stride in zip(in_shape, window_shape, window_strides, strict=True):
        if stride == 1:
            total = size - 1
        elif is_static(extent):
            total = max((-(-extent // stride) - 1) * stride + size - extent, 0)
        else:
            raise NonStaticShapeError(
                f"lax: the padding {padding!r} with stride {stride} depends on the extent {extent}, which is "
                "symbolic; give pairs of numbers"
            )
        total = max(total, 0)
        small, large = total // 2, total - total // 2
        pairs.append((small, large) if word == "SAME" else (large, small))
    return pairs


def _factors(name: str, what: str, factors: Any, count: int) -> tuple[int, ...]:
    """Return strides or dilations as a tuple with one number for each spatial axis; None stands for ones."""
    numbers = (1,) * count if factors is None else factors
    if not isinstance(numbers, tuple | list) or len(numbers) != count:
        raise InvalidConfigError(
            f"lax.{name}: {what} must have a number for each of {count} axes of space, got {factors!r}"
        )
    return tuple(numbers)


def dilated(extent: Any, dilation: int) -> Any:
    """Return the extent of an axis after dilation, which inserts `dilation` - 1 zeros between neighbouring elements."""
    return 0 if is_static(extent) and extent == 0 else (extent - 1) * dilation + 1


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Correlate lhs with the kernel rhs, as in neural networks: y[p] = sum over k of x[p s + k] w[k], for stride s.

    Args:
        lhs: a batch of n-dimensional inputs with features, of rank n + 2.
        rhs: the kernel, of the same rank and dtype.
        window_strides: the distance between neighbouring windows along each spatial axis.
        padding: a name, as in `padtype_to_pads`, or a pair of numbers for each spatial axis; negative numbers crop.
        lhs_dilation: the distance between neighbouring elements of lhs after zeros are inserted.
        rhs_dilation: the distance between neighbouring elements of a window.
        dimension_numbers: the order of axes, as in `conv_dimension_numbers`.
        feature_group_count: the number of groups of features. Each group has separate kernels. A depthwise convolution
            has as many groups as features.
        batch_group_count: the number of groups of batch entries. Each group has separate kernels.
        precision: "highest", "high" or "default"; None leaves the choice to the lowering.
        preferred_element_type: dtype of the sums and of the result; None for the dtype of the operands.

    Raises:
        ShapeError, DTypeError, InvalidConfigError: ranks, features, groups or dtypes do not fit.

    >>> import numpy as np
    >>> conv_general_dilated(np.arange(5.0).reshape(1, 1, 5), np.array([[[1.0, 10.0]]]), (1,), "VALID")
    array([[[10., 21., 32., 43.]]])
    """
    x, w = same_dtype("conv_general_dilated", lhs, rhs)
    axes = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    space = (axes.lhs_spec[2:], axes.rhs_spec[2:], axes.out_spec[2:])
    count, name = len(space[0]), "conv_general_dilated"
    strides = _factors(name, "window_strides", window_strides, count)
    holes_of_x = _factors(name, "lhs_dilation", lhs_dilation, count)
    holes_of_w = _factors(name, "rhs_dilation", rhs_dilation, count)
    if isinstance(padding, str):
        extents = [dilated(x.shape[a], d) for a, d in zip(space[0], holes_of_x, strict=True)]
        sizes = [dilated(w.shape[a], d) for a, d in zip(space[1], holes_of_w, strict=True)]
        pads = padtype_to_pads(extents, sizes, strides, padding)
    else:
        pads = [tuple(pair) for pair in padding]
    if len(pads) != count:
        raise InvalidConfigError(
            f"lax.{name}: padding must have a pair for each of {count} axes of space, got {padding!r}"
        )
    op = Convolution(
        window_strides=strides,
        padding=tuple(pads),
        lhs_dilation=holes_of_x,
        rhs_dilation=holes_of_w,
        window_reversal=(False,) * count,
        input_batch=axes.lhs_spec[0],
        input_feature=axes.lhs_spec[1],
        input_spatial=tuple(space[0]),
        kernel_output_feature=axes.rhs_spec[0],
        kernel_input_feature=axes.rhs_spec[1],
        kernel_spatial=tuple(space[1]),
        output_batch=axes.out_spec[0],
        output_feature=axes.out_spec[1],
        output_spatial=tuple(space[2]),
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        precision=precision_name(f"lax.{name}", precision),
    )
    dtype = spec_of(x).dtype
    result = dtype if preferred_element_type is None else DType.of(preferred_element_type)
    if result.is_inexact is not dtype.is_inexact and dtype.is_inexact:
        raise DTypeError(f"lax.{name}: sums of {dtype} cannot be {result}")
    wide = promote_dtypes(dtype, result)
    return convert(apply_one(op, convert(x, wide), convert(w, wide)), result)


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Return the windows of lhs that a convolution reads, flattened along its feature axis.

    The features of the result are the elements of the window of input feature 0, then of input feature 1, and so on.

    Args:
        filter_shape: the extents of the window, in the order of the kernel's spatial axes.
        window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, precision, preferred_element_type: as in
            `conv_general_dilated`.

    Raises:
        ShapeError, DTypeError, InvalidConfigError: as for `conv_general_dilated`.

    >>> import numpy as np
    >>> conv_general_dilated_patches(np.array([[[1.0, 2.0, 3.0]]]), (2,), (1,), "VALID")
    array([[[1., 2.],
            [2., 3.]]])
    """
    x, extents = as_operand(lhs), tuple(filter_shape)
    axes = conv_dimension_numbers(x.shape, (1, 1, *extents), dimension_numbers)
    size, features = math.prod(extents), x.shape[axes.lhs_spec[1]]
    kernel = np.tile(np.eye(size), (features, 1)).reshape(features * size, 1, *extents)
    kernel = np.moveaxis(kernel, (0, 1), axes.rhs_spec[:2]).astype(spec_of(x).dtype.dtype)
    return conv_general_dilated(
        x,
        kernel,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        axes,
        feature_group_count=features,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Any:
    """Return the convolution with a separate kernel at each position of the result.

    Args:
        rhs: the kernels. Their spatial axes are the spatial axes of the result. Their input features are the features
            that `conv_general_dilated_patches` returns.
        filter_shape: the extents of the window, in the order of the kernel's spatial axes.
        window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, precision: as in `conv_general_dilated`.

    Raises:
        ShapeError, DTypeError, InvalidConfigError: as for `conv_general_dilated`; also if rhs and the result have
            different extents along spatial axes.

    >>> import numpy as np
    >>> kernels = np.array([[[1.0, 0.0], [1.0, 2.0]]])
    >>> conv_general_dilated_local(np.array([[[1.0, 2.0, 3.0]]]), kernels, (1,), "VALID", (2,))
    array([[[3., 6.]]])
    """
    x, kernels = same_dtype("conv_general_dilated_local", lhs, rhs)
    axes = conv_dimension_numbers(x.shape, (1, 1, *filter_shape), dimension_numbers)
    patches = conv_general_dilated_patches(
        x, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, axes, precision
    )
    out, kernel = axes.out_spec, axes.rhs_spec
    places = sorted(range(len(out) - 2), key=lambda i: out[2 + i])
    batch = ([out[2 + i] for i in places], [kernel[2 + i] for i in places])
    op = DotGeneral(
        (out[1],),
        (kernel[1],),
        tuple(batch[0]),
        tuple(batch[1]),
        precision=precision_name("lax.conv_general_dilated_local", precision),
    )
    return moveaxis(apply_one(op, patches, kernels), (-2, -1), (out[0], out[1]))


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Apply `conv_general_dilated` to lhs [batch, feature, space..] and rhs [output, input, space..].

    Raises:
        ShapeError, DTypeError, InvalidConfigError: as for `conv_general_dilated`.
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Apply `conv` with dilations, and with padding as a name or a pair of numbers for each spatial axis.

    Raises:
        ShapeError, DTypeError, InvalidConfigError: as for `conv_general_dilated`.
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


_SPACE = {0: "", 1: "H", 2: "HW", 3: "HWD"}


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Any:
    """Compute the transposed convolution of lhs, which is first dilated by `strides`. The result is larger than lhs.

    Args:
        strides: for each spatial axis, the factor by which its extent grows.
        padding: "SAME" or "VALID" is the padding of the convolution in the opposite direction. Pairs of numbers are the
            padding of lhs or, with `use_consistent_padding`, of the convolution in the opposite direction.
        dimension_numbers: None stands for ("NHWC", "HWIO", "NHWC") with two spatial axes, and likewise for other ranks.
        transpose_kernel: whether to reverse the kernel's spatial axes and exchange its input and output features. The
            result is then the gradient of a convolution with the same kernel.

    Raises:
        ShapeError, DTypeError, InvalidConfigError: as for `conv_general_dilated`.

    >>> import numpy as np
    >>> conv_transpose(np.ones((1, 2, 1)), np.ones((2, 1, 1)), (2,), "SAME")[0, :, 0]
    array([1., 1., 1., 1.])
    """
    x, w = same_dtype("conv_transpose", lhs, rhs)
    space = _SPACE.get(len(x.shape) - 2)
    if dimension_numbers is None:
        if space is None:
            raise InvalidConfigError(
                f"lax.conv_transpose: give dimension_numbers for {spec_of(x)}, which has not 0 to 3 axes of space"
            )
        dimension_numbers = (f"N{space}C", f"{space}IO", f"N{space}C")
    axes = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    kernel_space = tuple(axes.rhs_spec[2:])
    steps = _factors("conv_transpose", "strides", strides, len(kernel_space))
    holes = _factors("conv_transpose", "rhs_dilation", rhs_dilation, len(kernel_space))
    pads = padding
    is_word = isinstance(padding, str) and padding.upper() in ("SAME", "VALID")
    if is_word or use_consistent_padding:
        of_axes = [padding] * len(steps) if isinstance(padding, str) else list(padding)
        sizes = [dilated(w.shape[a], d) for a, d in zip(kernel_space, holes, strict=True)]
        pads = [transposed_padding(k, s, p) for k, s, p in zip(sizes, steps, of_axes, strict=True)]
    if transpose_kernel:
        w = swapaxes(flip(w, axis=kernel_space), axes.rhs_spec[0], axes.rhs_spec[1])
    return conv_general_dilated(
        x,
        w,
        (1,) * len(steps),
        pads,
        steps,
        holes,
        axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def transposed_padding(size: int, stride: int, padding: Any) -> tuple[int, int]:
    """Return the padding (low, high) of a transposed convolution along one axis.

    `padding` is that of the convolution in the opposite direction.
    """
    if not isinstance(padding, str):
        low, high = padding
        return size - 1 - low, size - 1 - high
    if padding.upper() == "VALID":
        return size - 1, stride - 1 + max(size - stride, 0)
    if padding.upper() != "SAME":
        raise InvalidConfigError(
            f'lax.conv_transpose: padding must be "SAME", "VALID" or pairs of numbers, got {padding!r}'
        )
    low = size - 1 if stride > size - 1 else -(-(size + stride - 2) // 2)
    return low, size + stride - 2 - low
