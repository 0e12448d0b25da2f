"""Composite ONNX operators as NumPy functions: recurrent and quantised layers, resizing, window functions.

The arguments of each function are the attributes `a` of a node, and the node's operands; see
`xla_peer/onnx/readers.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

import tenferro as tnf
from lowering.numpy_source import functions
from tenferro.errors import UnsupportedError
from tenferro.types import DType
from xla_peer.onnx.readers import (
    axes_of,
    cast,
    concrete,
    conv,
    dtype_of,
    ints,
    kind_of,
    numpy_dtype,
)

__all__ = ["LAYERS", "keys_kernel"]

# ---- recurrent layers ------------------------------------------------------------------------------

ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": functions.logistic,
    "Softplus": lambda x: np.logaddexp(x, np.zeros((), numpy_dtype(x))),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Tanh": np.tanh,
}
"""Supported activation functions of recurrent layers, by ONNX's names."""


def recurrent(defaults: list[str], states: int, step: Callable[..., Any]) -> Any:
    """Return the function that computes a recurrent layer.

    Args:
        defaults: names of the default activations of one direction.
        states: number of arrays in the state; the first array is the output of an iteration.
        step: a function that returns the next state. Its arguments are the attributes, the activations, the product of
            the input and its weights, the state, the recurrent weights, the two biases, and the peephole weights.
    """

    def read(
        a: Any, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, *rest: Any
    ) -> list[Any]:
        names = [
            name.decode() if isinstance(name, bytes) else name for name in a.get("activations", ())
        ]
        directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
        reversals = directions[a.get("direction", "forward")]
        names = names or defaults * len(reversals)
        unknown = {*names} - ACTIVATIONS.keys()
        if unknown or a.get("clip"):
            what = ", ".join(sorted(unknown)) or "clip"
            raise UnsupportedError(f"recurrent layers: {what} is not read")
        rest = (*rest, *[None] * (states + 1 - len(rest)))
        if a.get("layout"):
            x = np.swapaxes(x, 0, 1)
        size, kind = r.shape[-1], numpy_dtype(x)
        zeros = np.zeros((x.shape[1], size), kind)
        ends: list[Any] = []
        outputs: list[Any] = []
        for d, is_reversed in enumerate(reversals):
            start = []
            for state in rest[:states]:
                if state is not None and a.get("layout"):
                    state = np.swapaxes(state, 0, 1)
                start.append(zeros if state is None else state[d])
            biases = np.zeros(2 * w.shape[1], kind) if b is None else b[d]
            peepholes = None if rest[states] is None else rest[states][d]
            functions_of_gates = [
                ACTIVATIONS[name] for name in names[d * len(defaults) : (d + 1) * len(defaults)]
            ]
            products = x @ w[d].T

            def iteration(
                carry: Any,
                each: Any,
                d: int = d,
                biases: Any = biases,
                peepholes: Any = peepholes,
                activations: Any = functions_of_gates,
            ) -> Any:
                product, t = each
                after = step(a, activations, product, carry, r[d], *np.split(biases, 2), peepholes)
                output = after[0]
                if lengths is not None:
                    is_there = (t < lengths)[:, None]
                    after = [
                        np.where(is_there, new, old) for new, old in zip(after, carry, strict=True)
                    ]
                    output = np.where(is_there, output, 0)
                return tuple(after), output

            end, rows = tnf.scan(
                iteration, tuple(start), (products, np.arange(x.shape[0])), reverse=is_reversed
            )
            outputs.append(rows)
            ends.append(end)
        along = 2 if a.get("layout") else 1
        if a.get("layout"):
            outputs = [np.swapaxes(y, 0, 1) for y in outputs]
        last = [
            np.stack([end[i] for end in ends], axis=1 if a.get("layout") else 0)
            for i in range(states)
        ]
        return [np.stack(outputs, axis=along), *last]

    return read


def _rnn(a: Any, f: Any, product: Any, state: Any, r: Any, bias: Any, own: Any, _: Any) -> Any:
    return [f[0](product + state[0] @ r.T + bias + own)]


def _gru(a: Any, f: Any, product: Any, state: Any, r: Any, bias: Any, own: Any, _: Any) -> Any:
    (h,) = state
    z, reset, new = np.split(product + bias, 3, -1)
    r_z, r_reset, r_new = np.split(r, 3)
    own_z, own_reset, own_new = np.split(own, 3)
    z = f[0](z + h @ r_z.T + own_z)
    reset = f[0](reset + h @ r_reset.T + own_reset)
    if a.get("linear_before_reset"):
        new = f[1](new + reset * (h @ r_new.T + own_new))
    else:
        new = f[1](new + (reset * h) @ r_new.T + own_new)
    return [(1 - z) * new + z * h]


def _lstm(
    a: Any, f: Any, product: Any, state: Any, r: Any, bias: Any, own: Any, peepholes: Any
) -> Any:
    h, c = state
    i, o, forget, new = np.split(product + h @ r.T + bias + own, 4, -1)
    p_i, p_o, p_forget = (0, 0, 0) if peepholes is None else np.split(peepholes, 3)
    i = f[0](i + p_i * c)
    forget = 1 - i if a.get("input_forget") else f[0](forget + p_forget * c)
    c = forget * c + i * f[1](new)
    return [f[0](o + p_o * c) * f[2](c), c]


# ---- resizing ----------------------------------------------------------------------------------------


def _positions(mode: str, n: int, m: int, scale: float, roi: Any) -> Any:
    """Return, for each of the m elements of a resized axis, its position in the original axis of n elements.

    Args:
        mode: ONNX's `coordinate_transformation_mode`.
        scale: m / n, or the requested factor.
        roi: the first and the last position of the region, for `tf_crop_and_resize`, relative to the axis.
    """
    y, width = np.arange(m, dtype=np.float64), scale * n
    if mode == "align_corners":
        return y * (0 if width == 1 else (n - 1) / (width - 1))
    if mode == "asymmetric":
        return y / scale
    if mode == "tf_crop_and_resize":
        first, last = roi
        if width == 1:
            return y * 0 + (first + last) * (n - 1) / 2
        return (first + y * (last - first) / (width - 1)) * (n - 1)
    if mode == "pytorch_half_pixel" and width == 1:
        return y * 0 - 0.5
    offset = n / 2 * (1 - m / width) if mode == "half_pixel_symmetric" else 0
    return offset + (y + 0.5) / scale - 0.5


def keys_kernel(a: Any, distance: Any) -> Any:
    """Return the weight of an element at a distance from the sampled position, by the linear or Keys' cubic kernel."""
    x = np.abs(distance)
    if a.get("mode") == "linear":
        return np.maximum(1 - x, 0)
    c = a.get("cubic_coeff_a", -0.75)
    near = ((c + 2) * x - (c + 3)) * x * x + 1
    far = ((c * x - 5 * c) * x + 8 * c) * x - 4 * c
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _weights(a: Any, places: Any, n: int, scale: float) -> Any:
    """Return the matrix [positions, n] of the weights with which the n elements of an axis are interpolated."""
    scale = min(scale, 1.0) if a.get("antialias") else 1.0
    radius = math.ceil((1 if a.get("mode") == "linear" else 2) / scale)
    taps = np.floor(places)[:, None] + np.arange(1 - radius, radius + 1)
    weights = keys_kernel(a, (taps - places[:, None]) * scale)
    if a.get("exclude_outside"):
        weights = np.where((taps >= 0) & (taps < n), weights, 0)
    if a.get("exclude_outside") or a.get("antialias"):
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((len(places), n))
    rows = np.broadcast_to(np.arange(len(places))[:, None], taps.shape)
    np.add.at(matrix, (rows, np.clip(taps, 0, n - 1).astype(np.int64)), weights)
    return matrix


def _rounded(mode: str, places: Any) -> Any:
    """Round positions to integers by ONNX's `nearest_mode`."""
    if mode in ("floor", "ceil"):
        return getattr(np, mode)(places)
    return np.floor(places + 0.5) if mode == "round_prefer_ceil" else np.ceil(places - 0.5)


def resize(a: Any, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    """Resize axes, one after the other: take the nearest elements, or interpolate by a matrix of weights.

    Source: ONNX operators, Resize; Keys, Cubic convolution interpolation for digital image processing (1981).
    """
    if a["opset"] < 11:  # then the operands are only x and scales
        roi, scales = None, roi
        a = {**a, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    axes = axes_of(x, a.get("axes", range(np.ndim(x))))
    extents = [x.shape[axis] for axis in axes]
    if sizes is not None:
        wanted = ints(sizes, "sizes")
        factors = [m / n for m, n in zip(wanted, extents, strict=True)]
        policy = a.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factor = min(factors) if policy == "not_larger" else max(factors)
            factors = [factor] * len(axes)
            wanted = [math.floor(factor * n + 0.5) for n in extents]
    else:
        factors = [float(scale) for scale in np.ravel(concrete(scales, "scales"))]
        wanted = [math.floor(n * scale) for n, scale in zip(extents, factors, strict=True)]
    mode = a.get("coordinate_transformation_mode", "half_pixel")
    regions = None if roi is None else np.ravel(concrete(roi, "roi"))
    kind = numpy_dtype(x)
    for i, (axis, n, m, scale) in enumerate(zip(axes, extents, wanted, factors, strict=True)):
        if scale == 1 and m == n and mode != "tf_crop_and_resize":
            continue
        region = None if regions is None or not regions.size else regions[[i, i + len(axes)]]
        places = _positions(mode, n, m, scale, region)
        if a.get("mode", "nearest") == "nearest":
            near = _rounded(a.get("nearest_mode", "round_prefer_floor"), places)
            x = np.take(x, np.clip(near, 0, n - 1).astype(np.int64), axis=axis)
        else:
            matrix = _weights(a, places, n, scale).astype(kind if kind_of(x) == "f" else "f8")
            x = np.moveaxis(np.tensordot(matrix, x, axes=(1, axis)), 0, axis)
            x = cast(x, kind)
        if mode == "tf_crop_and_resize":
            shape = [m if j == axis else 1 for j in range(np.ndim(x))]
            is_inside = ((places >= 0) & (places <= n - 1)).reshape(shape)
            x = np.where(is_inside, x, np.asarray(a.get("extrapolation_value", 0.0), kind))
    return x


# ---- quantised layers ----------------------------------------------------------------------------------


def _along(a: Any, scale: Any, x: Any) -> Any:
    """Reshape or repeat a scale or zero point so that it broadcasts against x.

    ONNX gives one value for the whole tensor, one for each index of an axis, or one for each block along an axis.
    """
    axis = a.get("axis", 1) % max(np.ndim(x), 1)
    if a.get("block_size"):
        y = np.repeat(scale, a["block_size"], axis=axis)
        return np.take(y, np.arange(x.shape[axis]), axis=axis)
    if not np.ndim(scale) or math.prod(scale.shape) == 1:
        return np.reshape(scale, ())
    return np.reshape(scale, [-1 if i == axis else 1 for i in range(np.ndim(x))])


def _saturated(x: Any, kind: Any) -> Any:
    """Round and clip numbers to a narrow integer dtype, or convert them to a narrow float dtype."""
    if not DType.of(kind).is_integer:
        return cast(x, kind)
    info = ml_dtypes.iinfo(kind)
    return cast(np.clip(np.rint(x), int(info.min), int(info.max)), kind)


def quantize(a: Any, x: Any, scale: Any, zero: Any = None) -> Any:
    """Return round(x / scale) + zero, clipped to the range of a narrow integer dtype."""
    kind = dtype_of(a["output_dtype"]) if a.get("output_dtype") else np.dtype(np.uint8)
    kind = kind if zero is None else numpy_dtype(zero)
    wide = dtype_of(a["precision"]) if a.get("precision") else numpy_dtype(x)
    y = x.astype(wide) / _along(a, scale, x).astype(wide)
    y = np.rint(y) if DType.of(kind).is_integer else y
    if zero is not None:
        y = y + _along(a, zero, x).astype(wide)
    return _saturated(y, kind)


def dequantize(a: Any, x: Any, scale: Any, zero: Any = None) -> Any:
    """Return (x - zero) * scale, the numbers that quantised integers represent."""
    wide = np.int32 if kind_of(x) in "iu" else numpy_dtype(scale)
    y = x.astype(wide) if zero is None else x.astype(wide) - _along(a, zero, x).astype(wide)
    kind = dtype_of(a["output_dtype"]) if a.get("output_dtype") else numpy_dtype(scale)
    return cast(y.astype(numpy_dtype(scale)) * _along(a, scale, x), kind)


def dynamic_quantize(a: Any, x: Any) -> list[Any]:
    """Convert x to uint8 by quantisation; return the integers, the scale and the zero point.

    The scale and the zero point are computed from the range of the elements, which is extended to include 0.
    """
    low, high = np.minimum(np.min(x), 0), np.maximum(np.max(x), 0)
    scale = (high - low) / 255
    zero = _saturated(-low / np.where(scale == 0, 1, scale), np.uint8)
    safe = np.where(scale == 0, 1, scale).astype(numpy_dtype(x))
    return [_saturated(np.rint(x / safe) + zero.astype(numpy_dtype(x)), np.uint8), scale, zero]


def _centred(x: Any, zero: Any, axis: int) -> Any:
    x = x.astype(np.int32)
    if zero is None:
        return x
    rank = np.ndim(x)
    is_line = np.ndim(zero) == 1 and zero.shape[0] > 1
    shape = [-1 if i == axis % rank else 1 for i in range(rank)] if is_line else zero.shape
    return x - np.reshape(zero, shape).astype(np.int32)


def matmul_integer(a: Any, x: Any, y: Any, x_zero: Any = None, y_zero: Any = None) -> Any:
    """Multiply matrices of narrow integers, less their zero points, in int32."""
    return _centred(x, x_zero, -2) @ _centred(y, y_zero, -1)


def conv_integer(a: Any, x: Any, kernel: Any, x_zero: Any = None, zero: Any = None) -> Any:
    """Convolve narrow integers, less their zero points, to int32; the sums are computed exactly in float64."""
    centred = [
        part.astype(np.float64) for part in (_centred(x, x_zero, 1), _centred(kernel, zero, 0))
    ]
    return conv(a, *centred).astype(np.int32)


def quantized_matmul(
    a: Any, x: Any, xs: Any, xz: Any, y: Any, ys: Any, yz: Any, scale: Any, zero: Any
) -> Any:
    """Multiply quantised matrices, and quantise the product.

    Args:
        x, xs, xz: the integers, the scale and the zero point of the first matrix.
        y, ys, yz: the integers, the scale and the zero point of the second matrix.
        scale, zero: the scale and the zero point of the result.
    """
    factor = (xs * ys / scale).astype(np.float64)
    product = matmul_integer(a, x, y, xz, yz).astype(np.float64) * factor
    return _saturated(product + zero.astype(np.float64), numpy_dtype(zero))


def quantized_conv(
    a: Any,
    x: Any,
    xs: Any,
    xz: Any,
    kernel: Any,
    ks: Any,
    kz: Any,
    scale: Any,
    zero: Any,
    bias: Any = None,
) -> Any:
    """Convolve quantised features, and quantise the result.

    Args:
        x, xs, xz: the integers, the scale and the zero point of the features.
        kernel, ks, kz: the integers, the scale and the zero point of the kernel.
        scale, zero: the scale and the zero point of the result.
    """
    y = conv_integer(a, x, kernel, xz, kz)
    shape = (1, -1, *[1] * (np.ndim(x) - 2))
    if bias is not None:
        y = y + np.reshape(bias, shape)
    factor = np.reshape(xs * ks / scale, shape if np.ndim(ks) else ()).astype(np.float64)
    return _saturated(y * factor + zero.astype(np.float64), numpy_dtype(zero))


# ---- other operators -----------------------------------------------------------------------------------


def window(*coefficients: float) -> Any:
    """Return the function that computes a window function: the sum of coefficient k times cos(k angle) over all k.

    The samples cover one period or, if the window is not periodic, include both ends of the period.
    """

    def read(a: Any, size: Any) -> Any:
        (n,) = ints(size, "a size")
        angle = 2 * np.pi * np.arange(n) / (n if a.get("periodic", 1) else n - 1)
        y = sum([c * np.cos(k * angle) for k, c in enumerate(coefficients)])
        return np.asarray(y).astype(dtype_of(a.get("output_datatype", 1)))

    return read


def eye_like(a: Any, x: Any) -> Any:
    """Return a matrix of the shape of x with ones on a diagonal, and zeros elsewhere."""
    kind = dtype_of(a["dtype"]) if "dtype" in a else numpy_dtype(x)
    return np.eye(*x.shape, k=a.get("k", 0), dtype=kind)


def center_crop_pad(a: Any, x: Any, shape: Any) -> Any:
    """Cut elements off both ends of axes, or add zeros at both ends, to reach the extents in `shape`."""
    wanted = ints(shape, "a shape")
    for axis, m in zip(axes_of(x, a.get("axes", range(np.ndim(x)))), wanted, strict=True):
        n = x.shape[axis]
        first = max(n - m, 0) // 2
        x = np.take(x, np.arange(first, first + min(n, m)), axis=axis)
        before = max(m - n, 0) // 2
        widths = [(0, 0)] * np.ndim(x)
        widths[axis] = (before, max(m - n, 0) - before)
        x = np.pad(x, widths)
    return x


def reverse_sequence(a: Any, x: Any, lengths: Any) -> Any:
    """Reverse the first elements of each sequence; `lengths` contains the number of elements to reverse."""
    time, batch = a.get("time_axis", 0), a.get("batch_axis", 1)
    y = np.moveaxis(x, (batch, time), (0, 1))
    t, lengths = np.arange(y.shape[1]), np.reshape(lengths, (-1, 1))
    order = np.where(t < lengths, lengths - 1 - t, t).reshape(
        (*y.shape[:2], *[1] * (np.ndim(y) - 2))
    )
    return np.moveaxis(np.take_along_axis(y, order, 1), (0, 1), (batch, time))


def standardize(a: Any, x: Any) -> Any:
    """Subtract the mean over the axes in the attribute `axes`, and divide by the standard deviation."""
    axes = axes_of(x, a.get("axes", (0, 2, 3)))
    centred = x - np.mean(x, axis=axes, keepdims=True)
    return centred / (np.sqrt(np.mean(centred * centred, axis=axes, keepdims=True)) + 1e-9)


LAYERS: Mapping[str, Callable[..., Any]] = {
    "BlackmanWindow": window(0.42, -0.5, 0.08),
    "CenterCropPad": center_crop_pad,
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic_quantize,
    "EyeLike": eye_like,
    "GRU": recurrent(["Sigmoid", "Tanh"], 1, _gru),
    "HammingWindow": window(25 / 46, -21 / 46),
    "HannWindow": window(0.5, -0.5),
    "LSTM": recurrent(["Sigmoid", "Tanh", "Tanh"], 2, _lstm),
    "MatMulInteger": matmul_integer,
    "MeanVarianceNormalization": standardize,
    "QLinearConv": quantized_conv,
    "QLinearMatMul": quantized_matmul,
    "QuantizeLinear": quantize,
    "RNN": recurrent(["Tanh"], 1, _rnn),
    "Resize": resize,
    "ReverseSequence": reverse_sequence,
    "SwiGLU": lambda a, x, y: x * functions.logistic(a.get("alpha", 1.0) * x) * y,
    "Upsample": lambda a, x, scales=None: resize(
        {**a, "opset": 10}, x, a.get("scales") if scales is None else scales
    ),
}
"""Functions that compute an ONNX operator, by the name of the operator."""
