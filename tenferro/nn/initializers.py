"""`tenferro.nn.initializers`: functions of a key, a shape and a dtype that return initial weights.

For the same key, the numbers equal those of jax.nn.initializers up to the last bits. The default dtype is float64.

>>> from tenferro import nn, random
>>> nn.initializers.he_normal()(random.key(0), (3, 3, 8, 16), "float32").shape
(3, 3, 8, 16)

Source: the module `jax.nn.initializers`; Glorot and Bengio (2010), He et al. (2015), Klambauer et al. (2017).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tenferro.api import creation, random
from tenferro.api.elementwise import multiply
from tenferro.api.manipulation import moveaxis, reshape
from tenferro.api.updates import at
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.types import ArrayLike, DType, DTypeLike

__all__ = [
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

Initializer = Callable[..., Any]
Axes = int | Sequence[int]


def _dtype(dtype: DTypeLike | None) -> DType:
    return DType.F64 if dtype is None else DType.of(dtype)


def zeros(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = None) -> Any:
    """Return weights that are all zero.

    >>> zeros(None, (2,))
    array([0., 0.])
    """
    return creation.zeros(tuple(shape), dtype=_dtype(dtype))


def ones(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = None) -> Any:
    """Return weights that are all one.

    >>> ones(None, (2,))
    array([1., 1.])
    """
    return creation.ones(tuple(shape), dtype=_dtype(dtype))


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer whose weights are all equal to `value`.

    >>> constant(3.0)(None, (2,))
    array([3., 3.])
    """
    default = dtype

    def init(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = default) -> Any:
        return creation.full(tuple(shape), value, dtype=_dtype(dtype))

    return init


def uniform(scale: float = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer that draws uniform numbers from 0 to `scale`.

    >>> uniform(1.0)(random.key(0), (2,)).shape
    (2,)
    """
    default = dtype

    def init(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = default) -> Any:
        return multiply(random.uniform(key, tuple(shape), _dtype(dtype)), scale)

    return init


def normal(stddev: float = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer that draws normal numbers of mean 0 and standard deviation `stddev`. They may be complex.

    >>> normal(1.0)(random.key(0), (2,)).shape
    (2,)
    """
    default = dtype

    def init(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = default) -> Any:
        return multiply(random.normal(key, tuple(shape), _dtype(dtype)), stddev)

    return init


def truncated_normal(
    stddev: float = 1e-2, dtype: DTypeLike | None = None, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """Return an initializer that draws truncated normal numbers of mean 0.

    `stddev` is the standard deviation before truncation.

    Args:
        lower, upper: the bounds of the numbers, in units of `stddev`.

    Raises:
        DTypeError: the initializer is called with a dtype that is not a float.

    >>> truncated_normal(1.0)(random.key(0), (2,)).shape
    (2,)
    """
    default = dtype

    def init(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = default) -> Any:
        numbers = random.truncated_normal(key, lower, upper, tuple(shape), _dtype(dtype))
        return multiply(numbers, stddev)

    return init


def _size(shape: Sequence[int], axes: Axes) -> int:
    return math.prod(shape[axis] for axis in ((axes,) if isinstance(axes, int) else axes))


def _fans(
    shape: Sequence[int], in_axis: Axes, out_axis: Axes, batch_axis: Axes
) -> tuple[float, float]:
    """Return two numbers for weights of this shape: the inputs per output unit, and the outputs per input unit."""
    if len(shape) < 2 and (in_axis, out_axis) == (-2, -1):
        raise ShapeError(
            f"nn.initializers: shape {tuple(shape)} has not an axis of inputs and one of outputs; name them by "
            "in_axis and out_axis"
        )
    fan_in, fan_out, batch = (_size(shape, axes) for axes in (in_axis, out_axis, batch_axis))
    field = math.prod(shape) / max(fan_in * fan_out * batch, 1)
    return fan_in * field, fan_out * field


_MODES: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: math.sqrt(fan_in * fan_out),
}
_TRUNCATED_DEVIATION = 0.87962566103423978
"""Standard deviation of the standard normal distribution truncated to [-2, 2]."""


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """Return an initializer with variance scale / n, where n is the number of inputs or outputs of a unit, or a mean.

    Args:
        mode: selects n: "fan_in" for the number of inputs, "fan_out" for that of outputs, and "fan_avg" or
            "fan_geo_avg" for the arithmetic or geometric mean of both numbers.
        distribution: "truncated_normal" (at two standard deviations), "normal" or "uniform".
        in_axis, out_axis, batch_axis: the axes of the inputs, of the outputs, and of independent weights. All other
            axes are spatial axes of a convolution kernel. For PyTorch's layout, in_axis is 1 and out_axis is 0.

    Raises:
        InvalidConfigError: `mode` or `distribution` is unknown.
        ShapeError: the initializer is called with fewer than two axes.

    >>> variance_scaling(1.0, "fan_in", "uniform")(random.key(0), (3, 2)).shape
    (3, 2)
    """
    default = dtype
    if mode not in _MODES:
        raise InvalidConfigError(
            f"nn.initializers: mode must be one of {tuple(_MODES)}, got {mode!r}"
        )
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise InvalidConfigError(
            f'nn.initializers: distribution must be "truncated_normal", "normal" or "uniform", got {distribution!r}'
        )

    def init(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = default) -> Any:
        kind, shape = _dtype(dtype), tuple(shape)
        if not kind.is_float:
            raise DTypeError(f"nn.initializers: variance_scaling makes floats, got {kind}")
        variance = scale / max(_MODES[mode](*_fans(shape, in_axis, out_axis, batch_axis)), 1e-30)
        if distribution == "normal":
            return multiply(random.normal(key, shape, kind), math.sqrt(variance))
        if distribution == "uniform":
            return multiply(random.uniform(key, shape, kind, -1.0, 1.0), math.sqrt(3 * variance))
        deviation = math.sqrt(variance) / _TRUNCATED_DEVIATION
        numbers = random.truncated_normal(key, -2.0, 2.0, tuple(shape), kind)
        return multiply(numbers, deviation)

    return init


def _scaled(name: str, scale: float, mode: str, distribution: str, author: str) -> Any:
    def initializer(
        in_axis: Axes = -2,
        out_axis: Axes = -1,
        batch_axis: Axes = (),
        dtype: DTypeLike | None = None,
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    initializer.__name__ = initializer.__qualname__ = name
    initializer.__doc__ = (
        f'{author}: variance_scaling({scale}, "{mode}", "{distribution}").\n\n'
        f">>> {name}()(random.key(0), (3, 2)).shape\n(3, 2)\n"
    )
    return initializer


glorot_uniform = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform", "Glorot and Bengio's")
glorot_normal = _scaled("glorot_normal", 1.0, "fan_avg", "truncated_normal", "Glorot and Bengio's")
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform", "LeCun's")
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal", "LeCun's")
he_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform", "He's, for relu")
he_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal", "He's, for relu")
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(
    scale: float = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """Return an initializer that draws random orthogonal matrices and multiplies them by `scale`.

    If the matrices are not square, their rows or their columns are orthonormal. `column_axis` is the axis of the
    columns.

    Raises:
        ShapeError: the initializer is called with fewer than two axes.

    >>> import numpy as np
    >>> w = orthogonal()(random.key(0), (3, 3))
    >>> bool(np.allclose(w @ w.T, np.eye(3)))
    True
    """
    default = dtype

    def init(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = default) -> Any:
        shape, kind = tuple(shape), _dtype(dtype)
        if len(shape) < 2:
            raise ShapeError(f"nn.initializers: orthogonal needs two axes, got shape {shape}")
        if 0 in shape:
            return creation.zeros(shape, dtype=kind)
        columns = shape[column_axis]
        rows = math.prod(shape) // columns
        q = random.orthogonal(key, rows, (), kind, columns)
        others = [extent for axis, extent in enumerate(shape) if axis != column_axis % len(shape)]
        return multiply(moveaxis(reshape(q, (*others, columns)), -1, column_axis), scale)

    return init


def delta_orthogonal(
    scale: float = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """Return an initializer of convolution kernels that are `orthogonal` at the spatial centre, and zero elsewhere.

    Raises:
        ShapeError: the initializer is called with other than three to five axes, or more input than output features.

    >>> w = delta_orthogonal()(random.key(0), (3, 2, 2))
    >>> float(abs(w[0]).sum() + abs(w[2]).sum())
    0.0

    Source: Xiao, Bahri, Sohl-Dickstein, Schoenholz and Pennington, ICML 2018.
    """
    default = dtype

    def init(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = default) -> Any:
        extents, kind = tuple(shape), _dtype(dtype)
        if not 3 <= len(extents) <= 5 or extents[-1] < extents[-2]:
            raise ShapeError(
                "nn.initializers: delta_orthogonal needs three to five axes, and at most as many input features as "
                f"output features, got shape {extents}"
            )
        matrix = orthogonal(scale, column_axis)(key, extents[-2:], kind)
        place = tuple([(extent - 1) // 2 for extent in extents[:-2]])
        return at(creation.zeros(extents, dtype=kind))[place].set(matrix)

    return init
