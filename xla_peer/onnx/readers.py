"""ONNX operators as NumPy functions, which run on arrays and on traced tensors.

The arguments of each function are the attributes `a` of a node, a dictionary, and the node's operands. Such a function
is called the reader of the operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

import tenferro as tnf
from lowering.numpy_source import functions
from tenferro.dims import SymDim, is_static
from tenferro.errors import ConcretizationError, UnsupportedError
from tenferro.types import DType

__all__ = [
    "READERS",
    "axes_of",
    "cast",
    "concrete",
    "conv",
    "dtype_of",
    "heads",
    "ints",
    "kind_of",
    "numpy_dtype",
    "windows",
]


EIGHT_BITS = frozenset(map(DType.of, (
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz,
)))  # fmt: skip
"""Types for which ONNX's casts saturate, unless the attribute `saturate` is 0."""


FAR = 2**31 - 1
"""Largest extent. With a negative step, an end below -`FAR` means that the slice includes the first element."""


def concrete(x: Any, what: str) -> Any:
    """Return a value that depends only on constants as an array.

    Args:
        what: a description of the value for the message.

    Raises:
        UnsupportedError: the value depends on inputs; the message asks for `constants=`.
    """
    try:
        return np.asarray(x)
    except ConcretizationError as error:
        raise UnsupportedError(f"{what} depends on inputs; give these in constants=") from error


def ints(x: Any, what: str) -> list[Any]:
    """Return a constant vector or number as a list of ints and symbolic extents."""
    numbers = np.ravel(concrete(x, what))
    return [n if isinstance(n, SymDim) else int(n) for n in numbers]


def counted(n: Any) -> Any:
    """Return the vector 0, .., n - 1, as a NumPy array, or as a tensor if n is a symbolic extent."""
    return np.arange(n) if is_static(n) else tnf.arange(n)


def numbers_of(extents: Any) -> Any:
    """Return symbolic extents and numbers as an int64 tensor."""
    extents = np.array(extents, object)
    numbers = [
        np.int64(n) if is_static(n) else tnf.shape_of(tnf.zeros((n, 0)), 0)
        for n in extents.reshape(-1)
    ]
    return np.reshape(tnf.stack(numbers), extents.shape)


def dtype_of(number: int) -> Any:
    """Return the NumPy dtype of an element type, which ONNX identifies by a number."""
    helper = import_module("onnx.helper")
    return DType.of(helper.tensor_dtype_to_np_dtype(number)).dtype


def numpy_dtype(x: Any) -> Any:
    """Return the dtype of an array or a tensor as a NumPy dtype."""
    return DType.of(x.dtype).dtype


def kind_of(x: Any) -> str:
    """Return the kind of x's dtype: "b", "i", "u", "f" or "c".

    NumPy's own kind is "V" for dtypes of ml_dtypes.
    """
    return DType.of(x.dtype).kind


def cast(x: Any, dtype: Any, saturate: Any = True) -> Any:
    """Convert x to a dtype as ONNX does: integers wrap.

    An array of symbolic extents counts as int64.

    Args:
        saturate: whether a number beyond the range of an 8-bit float, or an infinity, becomes the largest number.
    """
    if isinstance(x, SymDim) or (isinstance(x, np.ndarray) and x.dtype == object):
        return x if dtype == np.int64 else numbers_of(x).astype(dtype)
    if numpy_dtype(x) == dtype:
        return x
    kind = DType.of(dtype)
    if kind.is_integer and kind.is_narrow and kind_of(x) == "f":
        x = x.astype(np.int32)  # int32 in between, because a direct conversion saturates
    if kind in EIGHT_BITS and saturate:
        largest = float(ml_dtypes.finfo(dtype).max)
        x = x.astype(np.float32) if kind_of(x) != "f" or numpy_dtype(x).itemsize < 4 else x
        x = np.where(x > largest, largest, np.where(x < -largest, -largest, x))
    return x.astype(dtype)


def convert(a: Any, x: Any, kind: Any) -> Any:
    """Read Cast to the dtype `kind`.

    The dtype float8_e8m0fnu contains only powers of two. A number is rounded up to the next power of two, unless the
    attribute `round_mode` says otherwise.
    """
    saturate = a.get("saturate", 1)
    if kind != ml_dtypes.float8_e8m0fnu:
        return cast(x, kind, saturate)
    bits = cast(x, np.float32).view(np.int32)
    exponent, rest = (bits & 0x7F800000) >> 23, bits & 0x7FFFFF
    half = 1 << 22
    is_more = {
        "up": rest > 0,
        "down": rest < 0,
        "nearest": (rest > half) | ((rest == half) & (exponent > 0)),
    }[a.get("round_mode", "up")]
    is_more = is_more & (exponent < (254 if saturate else 255))
    return (exponent + is_more).astype(np.uint8).view(kind)


def axes_of(x: Any, axes: Any) -> tuple[int, ...]:
    """Convert axes of x to numbers from 0; negative axes count from the end."""
    return tuple(int(axis) % max(np.ndim(x), 1) for axis in axes)


def plain(function: Callable[..., Any]) -> Any:
    """Return the reader of an operator without attributes."""
    return lambda a, *xs: function(*xs)


def folded(function: Callable[..., Any]) -> Any:
    """Return the reader of an operator that combines any number of operands, two at a time, by `function`."""

    def read(a: Any, *xs: Any) -> Any:
        y = xs[0]
        for x in xs[1:]:
            y = function(y, x)
        return y

    return read


def divide(a: Any, x: Any, y: Any) -> Any:
    """Read Div; integers are truncated."""
    return functions.integer_quotient(x, y) if kind_of(x) in "iu" else x / y


def modulo(a: Any, x: Any, y: Any) -> Any:
    """Compute the remainder of x divided by y. It has the sign of y or, with the attribute `fmod`, of x."""
    return np.fmod(x, y) if a.get("fmod") else np.mod(x, y)


def power(a: Any, x: Any, y: Any) -> Any:
    """Compute the power in the dtype of x."""
    kind = numpy_dtype(x)
    if "f" in (kind_of(x), kind_of(y)):
        return cast(np.power(x.astype(np.float64), y.astype(np.float64)), kind)
    return cast(np.power(x, y.astype(kind)), kind)


def reduction(function: Callable[..., Any]) -> Any:
    """Return the reader of a reduction.

    In older opsets the reduced axes are an attribute, in newer opsets an operand.
    """

    def read(a: Any, x: Any, axes: Any = None) -> Any:
        chosen = a.get("axes") if axes is None else ints(axes, "axes")
        if not chosen:
            if a.get("noop_with_empty_axes"):
                return function(np.expand_dims(x, 0), (0,), False)
            chosen = range(np.ndim(x))
        return cast(function(x, axes_of(x, chosen), bool(a.get("keepdims", 1))), numpy_dtype(x))

    return read


def log_sum_exp(x: Any, axis: Any, keepdims: bool) -> Any:
    """Return log(sum(e^x)); the maximum is subtracted before, so that e^x does not overflow."""
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    y = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return y if keepdims else np.squeeze(y, axis)


def arg(function: Callable[..., Any]) -> Any:
    """Return the reader of ArgMax or ArgMin; the attribute `select_last_index` selects the last of equal elements."""

    def read(a: Any, x: Any) -> Any:
        axis = a.get("axis", 0) % np.ndim(x)
        if a.get("select_last_index"):
            y = x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis)
        else:
            y = function(x, axis=axis)
        return np.expand_dims(y, axis) if a.get("keepdims", 1) else y

    return read


def reshape(a: Any, x: Any, shape: Any) -> Any:
    """Reshape in row-major order.

    Without the attribute `allowzero`, an extent of 0 in `shape` stands for the operand's extent at the same position.
    """
    sizes = ints(shape, "a shape")
    if not a.get("allowzero"):
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return np.reshape(x, tuple(sizes))


def flatten(a: Any, x: Any) -> Any:
    """Flatten to a matrix: axes before `axis` become its rows, the other axes its columns."""
    axis = a.get("axis", 1)
    axis = axis + np.ndim(x) if axis < 0 else axis
    return np.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def squeeze(a: Any, x: Any, axes: Any = None) -> Any:
    """Drop axes of extent 1."""
    chosen = a.get("axes") if axes is None else ints(axes, "axes")
    return np.squeeze(x, None if chosen is None else axes_of(x, chosen))


def unsqueeze(a: Any, x: Any, axes: Any = None) -> Any:
    """Add axes of extent 1."""
    chosen = a["axes"] if axes is None else ints(axes, "axes")
    rank = np.ndim(x) + len(chosen)
    return np.expand_dims(x, tuple(axis % rank for axis in chosen))


def slice_(
    a: Any, x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None
) -> Any:
    """Slice x along some axes, with starts, ends and steps as in Python."""
    first = a.get("starts") if starts is None else ints(starts, "starts")
    last = a.get("ends") if ends is None else ints(ends, "ends")
    along = a.get("axes", range(len(first))) if axes is None else ints(axes, "axes")
    by = [1] * len(first) if steps is None else ints(steps, "steps")
    index = [slice(None)] * np.ndim(x)
    for start, end, axis, step in zip(first, last, along, by, strict=True):
        n = x.shape[axis]
        if step < 0 and not is_static(n):  # supported only for all elements in reverse order
            index[axis] = slice(None if start == -1 else start, None if end < -FAR else end, step)
            continue
        stop = None if step < 0 and end < -n else end
        index[axis] = slice(start, stop, step)
    return x[tuple(index)]


def concat(a: Any, *xs: Any) -> Any:
    """Concatenate the operands along an axis."""
    return np.concatenate(list(xs), axis=a["axis"])


def split(a: Any, x: Any, sizes: Any = None) -> Any:
    """Split x along an axis, into parts of the given sizes, or into parts that are as equal as possible."""
    axis = a.get("axis", 0)
    parts = a.get("split") if sizes is None else ints(sizes, "sizes")
    if parts is None:
        count = a.get("num_outputs") or a["outputs"]
        size = -(-x.shape[axis] // count)
        parts = [size] * (count - 1) + [x.shape[axis] - size * (count - 1)]
    return list(np.split(x, np.cumsum(parts)[:-1].tolist(), axis=axis))


def expand(a: Any, x: Any, shape: Any) -> Any:
    """Broadcast x to the shape to which x.shape and `shape` are broadcast together."""
    asked = ints(shape, "a shape")
    rank = max(np.ndim(x), len(asked))
    own = (*[1] * (rank - np.ndim(x)), *x.shape)
    asked = [1] * (rank - len(asked)) + asked
    shape = tuple([n if m == 1 else m for n, m in zip(own, asked, strict=True)])
    broadcast = np.broadcast_to if all(map(is_static, shape)) else tnf.broadcast_to
    return broadcast(x, shape)


def gather(a: Any, x: Any, indices: Any) -> Any:
    """Gather slices along an axis; negative indices count from the end."""
    axis = a.get("axis", 0) % np.ndim(x)
    if isinstance(x, np.ndarray) and x.dtype == object:
        return np.take(x, concrete(indices, "indices of extents"), axis=axis)
    indices = np.where(indices < 0, indices + x.shape[axis], indices)
    return tnf.take(x, indices, axis=axis)


def gather_elements(a: Any, x: Any, indices: Any) -> Any:
    """Gather elements along an axis, one for each element of `indices`."""
    axis = a.get("axis", 0) % np.ndim(x)
    indices = np.where(indices < 0, indices + x.shape[axis], indices).astype(np.int64)
    places = [
        indices
        if i == axis
        else counted(n).reshape([-1 if j == i else 1 for j in range(np.ndim(x))])
        for i, n in enumerate(indices.shape)
    ]
    return functions.indexable(x, indices)[tuple(places)]


def gather_nd(a: Any, x: Any, indices: Any) -> Any:
    """Gather slices at the index vectors along the last axis of `indices`; leading axes may be batch axes."""
    batch = a.get("batch_dims", 0)
    depth = indices.shape[-1]
    lead = [
        counted(x.shape[i]).reshape([-1 if j == i else 1 for j in range(np.ndim(indices) - 1)])
        for i in range(batch)
    ]
    parts = [indices[..., i] for i in range(depth)]
    parts = [np.where(p < 0, p + x.shape[batch + i], p) for i, p in enumerate(parts)]
    return functions.indexable(x, indices)[(*lead, *parts)]


def _updated(x: Any, where: Any, updates: Any, reduction: str) -> Any:
    target = tnf.at(x)[where]
    name = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}[reduction]
    return getattr(target, name)(updates)


def scatter_nd(a: Any, x: Any, indices: Any, updates: Any) -> Any:
    """Combine slices of `updates` into x, at the index vectors along the last axis of `indices`."""
    parts = [indices[..., i] for i in range(indices.shape[-1])]
    where = tuple([np.where(p < 0, p + x.shape[i], p) for i, p in enumerate(parts)])
    return _updated(x, where, updates, a.get("reduction", "none"))


def scatter_elements(a: Any, x: Any, indices: Any, updates: Any) -> Any:
    """Combine the elements of `updates` into x, at `indices` along an axis."""
    axis = a.get("axis", 0) % np.ndim(x)
    indices = np.where(indices < 0, indices + x.shape[axis], indices).astype(np.int64)
    places = [
        indices
        if i == axis
        else counted(n).reshape([-1 if j == i else 1 for j in range(np.ndim(x))])
        for i, n in enumerate(indices.shape)
    ]
    return _updated(x, tuple(places), updates, a.get("reduction", "none"))


def pad(a: Any, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    """Pad x with a constant, the edge elements, a reflection, or elements from the opposite end.

    Negative widths remove elements.
    """
    widths = a.get("pads") if pads is None else ints(pads, "pads")
    along = range(np.ndim(x)) if axes is None else axes_of(x, ints(axes, "axes"))
    low, high = [0] * np.ndim(x), [0] * np.ndim(x)
    for i, axis in enumerate(along):
        low[axis], high[axis] = widths[i], widths[i + len(along)]
    mode = a.get("mode", "constant")
    edges = [(max(p, 0), max(q, 0)) for p, q in zip(low, high, strict=True)]
    index = tuple(
        slice(max(-p, 0), n - max(-q, 0)) for p, q, n in zip(low, high, x.shape, strict=True)
    )
    if mode == "constant":
        filled = a.get("value", 0) if value is None else np.reshape(value, ())
        return np.pad(x[index], edges, constant_values=filled)
    modes: Mapping[str, Any] = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}
    return np.pad(x[index], edges, mode=modes[mode])


def cumulative(function: Callable[..., Any], identity: int) -> Any:
    """Return the reader of a cumulative sum or product.

    With the attribute `exclusive`, a result does not include its own element.
    """

    def read(a: Any, x: Any, axis: Any) -> Any:
        (along,) = axes_of(x, ints(axis, "an axis"))
        y = np.flip(x, along) if a.get("reverse") else x
        if a.get("exclusive"):
            first = np.full(
                [1 if i == along else n for i, n in enumerate(x.shape)], identity, numpy_dtype(x)
            )
            y = np.concatenate(
                [first, np.take(y, np.arange(x.shape[along] - 1), axis=along)], axis=along
            )
        y = function(y, axis=along, dtype=numpy_dtype(x))
        return np.flip(y, along) if a.get("reverse") else y

    return read


def top_k(a: Any, x: Any, k: Any = None) -> Any:
    """Find the k largest or smallest elements along an axis, and their indices."""
    axis = a.get("axis", -1) % np.ndim(x)
    count = a.get("k") if k is None else ints(k, "k")[0]
    moved = np.moveaxis(x, axis, -1)
    if a.get("largest", 1):
        values, indices = functions.top_k(moved, count)
    else:
        order = np.argsort(moved, axis=-1, kind="stable")[..., :count]
        values, indices = np.take_along_axis(moved, order, axis=-1), order
    return [np.moveaxis(values, -1, axis), np.moveaxis(indices, -1, axis)]


def _softmax_axes(a: Any, x: Any) -> Any:
    """Return the axes over which a softmax sums: the axis in the attribute `axis`.

    Before opset 13, all axes from this axis on are summed.
    """
    if a["opset"] < 13:
        return tuple(range(a.get("axis", 1) % np.ndim(x), np.ndim(x)))
    return axes_of(x, (a.get("axis", -1),))


def softmax(a: Any, x: Any, log: bool = False) -> Any:
    """Divide e^x by its sum along an axis."""
    axis = _softmax_axes(a, x)
    y = x - np.max(x, axis=axis, keepdims=True)
    total = np.sum(np.exp(y), axis=axis, keepdims=True)
    return y - np.log(total) if log else np.exp(y) / total


def clip(a: Any, x: Any, low: Any = None, high: Any = None) -> Any:
    """Clip x to a range; either bound may be missing."""
    low, high = a.get("min") if low is None else low, a.get("max") if high is None else high
    y = (
        x
        if low is None
        else np.maximum(x, np.asarray(low, numpy_dtype(x)) if not hasattr(low, "at") else low)
    )
    return (
        y
        if high is None
        else np.minimum(y, np.asarray(high, numpy_dtype(x)) if not hasattr(high, "at") else high)
    )


def gemm(a: Any, x: Any, y: Any, c: Any = None) -> Any:
    """Return alpha A' B' + beta C, where A' is x or its transpose, and B' is y or its transpose."""
    x, y = x.T if a.get("transA") else x, y.T if a.get("transB") else y
    product = a.get("alpha", 1.0) * (x @ y)
    return cast(product if c is None else product + a.get("beta", 1.0) * c, numpy_dtype(x))


def layer_norm(a: Any, x: Any, scale: Any, bias: Any = None) -> Any:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + bias, the mean, and 1 / sqrt(variance + epsilon)."""
    axis = a.get("axis", -1) % np.ndim(x)
    axes = tuple(range(axis, np.ndim(x)))
    mean = np.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    inverse = 1 / np.sqrt(
        np.mean(centred * centred, axis=axes, keepdims=True) + a.get("epsilon", 1e-5)
    )
    y = centred * inverse * scale
    return [cast(y if bias is None else y + bias, numpy_dtype(x)), mean, inverse]


def rms_norm(a: Any, x: Any, scale: Any) -> Any:
    """Return x / sqrt(mean(x^2) + epsilon) * scale."""
    axes = tuple(range(a.get("axis", -1) % np.ndim(x), np.ndim(x)))
    square = np.mean(x * x, axis=axes, keepdims=True)
    return cast(x / np.sqrt(square + a.get("epsilon", 1e-5)) * scale, numpy_dtype(x))


def batch_norm(a: Any, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    """Normalise each feature by `mean` and `variance` or, in training, by the mean and variance of the batch."""
    shape = (1, -1, *[1] * (np.ndim(x) - 2))
    epsilon, axes = a.get("epsilon", 1e-5), (0, *range(2, np.ndim(x)))
    results: list[Any] = []
    if a.get("training_mode"):
        here, spread, momentum = np.mean(x, axis=axes), np.var(x, axis=axes), a.get("momentum", 0.9)
        results = [
            mean * momentum + here * (1 - momentum),
            variance * momentum + spread * (1 - momentum),
        ]
        mean, variance = here, spread
    parts = [np.reshape(part, shape) for part in (scale, bias, mean, variance)]
    y = parts[0] * (x - parts[2]) / np.sqrt(parts[3] + epsilon) + parts[1]
    return [cast(y, numpy_dtype(x)), *results]


def instance_norm(a: Any, x: Any, scale: Any, bias: Any) -> Any:
    """Normalise each feature of each example by its own mean and variance."""
    axes, shape = tuple(range(2, np.ndim(x))), (1, -1, *[1] * (np.ndim(x) - 2))
    mean, variance = np.mean(x, axis=axes, keepdims=True), np.var(x, axis=axes, keepdims=True)
    y = (x - mean) / np.sqrt(variance + a.get("epsilon", 1e-5))
    return cast(y * np.reshape(scale, shape) + np.reshape(bias, shape), numpy_dtype(x))


def pads_of(
    a: Any,
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Any:
    """Return the padding of each spatial axis at its start and its end, from `auto_pad` or `pads`."""
    count, mode = len(extents), a.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", "VALID"):
        pads = a.get("pads", [0] * 2 * count) if mode == "NOTSET" else [0] * 2 * count
        return [(pads[i], pads[i + count]) for i in range(count)]
    edges: list[tuple[int, int]] = []
    for n, k, s, d in zip(extents, kernel, strides, dilations, strict=True):
        total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        half = total // 2
        edges.append((half, total - half) if mode == "SAME_UPPER" else (total - half, half))
    return edges


def conv(a: Any, x: Any, kernel: Any, bias: Any = None) -> Any:
    """Convolve x of shape [batch, features, spatial axes ..] with a kernel [outputs, features, spatial axes ..]."""
    count = np.ndim(x) - 2
    strides, dilations = (a.get(name, [1] * count) for name in ("strides", "dilations"))
    padding = pads_of(a, x.shape[2:], kernel.shape[2:], strides, dilations)
    y = tnf.lax.conv_general_dilated(
        x, kernel, strides, padding, rhs_dilation=dilations, feature_group_count=a.get("group", 1)
    )
    return y if bias is None else y + np.reshape(bias, (1, -1, *[1] * count))


def windows(a: Any, x: Any, identity: Any) -> tuple[Any, list[int], int]:
    """Return the windows of a pooling, with the elements of a window along a new first axis.

    Args:
        identity: the value of padded elements.

    Returns:
        The windows, the number of windows along each spatial axis, and the number of elements of a window.
    """
    kernel = a["kernel_shape"]
    count = len(kernel)
    strides, dilations = (a.get(name, [1] * count) for name in ("strides", "dilations"))
    edges = pads_of(a, x.shape[2:], kernel, strides, dilations)
    sizes: list[int] = []
    widths = [(0, 0), (0, 0)]
    for (low, high), n, k, s, d in zip(edges, x.shape[2:], kernel, strides, dilations, strict=True):
        free = n + low + high - (k - 1) * d - 1
        size = -(-free // s) + 1 if a.get("ceil_mode") else free // s + 1
        if a.get("ceil_mode") and (size - 1) * s >= n + low:
            size -= 1
        sizes.append(size)
        widths.append((low, max(high, (size - 1) * s + (k - 1) * d + 1 - n - low)))
    wide = np.pad(x, widths, constant_values=identity)
    taps = [
        wide[
            (
                slice(None),
                slice(None),
                *[
                    slice(t * d, t * d + (n - 1) * s + 1, s)
                    for t, d, n, s in zip(tap, dilations, sizes, strides, strict=True)
                ],
            )
        ]
        for tap in np.ndindex(*kernel)
    ]
    return np.stack(taps), sizes, len(taps)


def average_pool(a: Any, x: Any) -> Any:
    """Compute the mean of each window; padded elements count only with the attribute `count_include_pad`."""
    total = np.sum(windows(a, x, 0)[0], axis=0)
    ones: Any = np.ones((1, 1, *x.shape[2:]), numpy_dtype(x))
    if a.get("count_include_pad"):
        kernel = a["kernel_shape"]
        strides, dilations = (a.get(name, [1] * len(kernel)) for name in ("strides", "dilations"))
        edges = pads_of(a, x.shape[2:], kernel, strides, dilations)
        ones = np.pad(ones, [(0, 0), (0, 0), *edges], constant_values=1)
        a = {**a, "pads": [0] * 2 * len(edges), "auto_pad": "NOTSET"}
    count = np.sum(windows(a, ones, 0)[0], axis=0)
    # If padding counts, `count` may have one more window than `total`, which starts in the padding. That window is
    # dropped.
    return total / count[(..., *map(slice, total.shape[2:]))]


def global_pool(function: Callable[..., Any]) -> Any:
    """Return the reader of a pooling over all spatial axes."""
    return lambda a, x: function(x, axis=tuple(range(2, np.ndim(x))), keepdims=True)


def one_hot(a: Any, indices: Any, depth: Any, values: Any) -> Any:
    """Return a one-hot encoding along a new axis: `values[1]` at the index, and `values[0]` elsewhere."""
    n = ints(depth, "the depth")[0]
    axis = a.get("axis", -1) % (np.ndim(indices) + 1)
    indices = np.where(indices < 0, indices + n, indices).astype(np.int64)
    counted = np.arange(n).reshape([-1 if i == axis else 1 for i in range(np.ndim(indices) + 1)])
    return np.where(np.expand_dims(indices, axis) == counted, values[1], values[0])


def nll_loss(a: Any, x: Any, target: Any, weight: Any = None) -> Any:
    """Compute the negative log likelihood of the target classes, weighted by class; x has log probabilities."""
    classes = np.arange(x.shape[1]).reshape(1, -1, *[1] * (np.ndim(x) - 2))
    hot = np.expand_dims(target, 1) == classes
    weights = np.ones(x.shape[1], numpy_dtype(x)) if weight is None else weight
    each = np.sum(np.where(hot, np.reshape(weights, classes.shape) + 0 * x, 0), axis=1)
    if a.get("ignore_index") is not None:
        each = np.where(target == a["ignore_index"], 0, each)
    chosen = np.sum(np.where(hot, x, 0), axis=1)
    loss = cast(-chosen * each, numpy_dtype(x))
    mode = a.get("reduction", "mean")
    if mode == "none":
        return loss
    return np.sum(loss) if mode == "sum" else np.sum(loss) / np.sum(each)


def cross_entropy(a: Any, x: Any, target: Any, weight: Any = None) -> Any:
    """Return the negative log likelihood of the target classes from logits x, and the log softmax of x."""
    logs = softmax({"axis": 1, "opset": 13}, x, log=True)
    return [nll_loss(a, logs, target, weight), logs]


def depth_to_space(a: Any, x: Any) -> Any:
    """Rearrange features to blocks of pixels: `blocksize`^2 features become a block of one feature."""
    b, c, h, w = x.shape
    n = a["blocksize"]
    if a.get("mode", "DCR") == "DCR":
        y = np.transpose(np.reshape(x, (b, n, n, c // n**2, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        y = np.transpose(np.reshape(x, (b, c // n**2, n, n, h, w)), (0, 1, 4, 2, 5, 3))
    return np.reshape(y, (b, c // n**2, h * n, w * n))


def space_to_depth(a: Any, x: Any) -> Any:
    """Rearrange blocks of pixels to features.

    The axes of a block come before the channels in the mode DCR, and after them in the mode CRD.
    """
    b, c, h, w = x.shape
    n = a["blocksize"]
    order = (0, 1, 3, 5, 2, 4) if a.get("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    y = np.transpose(np.reshape(x, (b, c, h // n, n, w // n, n)), order)
    return np.reshape(y, (b, c * n * n, h // n, w // n))


def trilu(a: Any, x: Any, k: Any = None) -> Any:
    """Keep the elements on and above diagonal k, or on and below it, and set all other elements to 0."""
    shift = 0 if k is None else ints(k, "k")[0]
    return np.triu(x, shift) if a.get("upper", 1) else np.tril(x, shift)


def constant_of_shape(a: Any, shape: Any) -> Any:
    """Create an array of a constant shape, filled with the attribute's value."""
    value = a.get("value")
    shape = ints(shape, "a shape")
    full = np.full if all(map(is_static, shape)) else tnf.full
    return full(
        shape,
        0.0 if value is None else value.ravel()[0],
        np.float32 if value is None else value.dtype,
    )


def range_(a: Any, start: Any, limit: Any, delta: Any) -> Any:
    """Create a range from `start` to `limit`, excluded; all operands must be constants."""
    start, limit, delta = (np.ravel(concrete(x, "a range"))[0] for x in (start, limit, delta))
    if not all(map(is_static, (start, limit, delta))):
        first, last, step = (ints(n, "a range")[0] for n in (start, limit, delta))
        return tnf.arange(first, last, step, dtype=np.int64)
    count = max(math.ceil((limit - start) / delta), 0)
    return (start + np.arange(count) * delta).astype(np.asarray(start).dtype)


def gelu(a: Any, x: Any) -> Any:
    """Return x Phi(x), with the standard normal distribution function Phi, or an approximation of it by tanh."""
    if a.get("approximate", "none") == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + tnf.erf(x / math.sqrt(2)))


def lp_norm(a: Any, x: Any) -> Any:
    """Divide x by its norm along an axis; the result is 0 where the norm is 0."""
    axis = a.get("axis", -1)
    norm = (
        np.sum(np.abs(x), axis=axis, keepdims=True)
        if a.get("p", 2) == 1
        else np.sqrt(np.sum(x * x, axis=axis, keepdims=True))
    )
    return np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm))


def is_inf(a: Any, x: Any) -> Any:
    """Return a mask of the infinities of x, with the signs that the attributes request."""
    above = (x == np.inf) if a.get("detect_positive", 1) else np.zeros(x.shape, bool)
    below = (x == -np.inf) if a.get("detect_negative", 1) else np.zeros(x.shape, bool)
    return above | below


def bit_shift(a: Any, x: Any, y: Any) -> Any:
    """Shift bits. A right shift of a signed integer keeps the sign."""
    if a["direction"] == "LEFT":
        return functions.shift_left(x, y)
    if kind_of(x) == "i":
        return functions.shift_right_arithmetic(x, y)
    return functions.shift_right_logical(x, y)


def bit_cast(a: Any, x: Any) -> Any:
    """Reinterpret the bits as another dtype; a bool is a byte with the value 0 or 1."""
    kind = dtype_of(a["to"])
    x = x.astype(np.uint8) if numpy_dtype(x).kind == "b" else x
    return x.view(np.uint8) != 0 if kind.kind == "b" else x.view(kind)


def hardmax(a: Any, x: Any) -> Any:
    """Return 1 at the first of the largest elements along an axis, and 0 elsewhere."""
    first, *others = _softmax_axes(a, x)
    y = np.reshape(x, (*x.shape[:first], -1)) if others else np.moveaxis(x, first, -1)
    is_first = np.expand_dims(np.argmax(y, axis=-1), -1) == np.arange(y.shape[-1])
    is_first = is_first.astype(numpy_dtype(x))
    return np.reshape(is_first, x.shape) if others else np.moveaxis(is_first, -1, first)


def shape_of(a: Any, x: Any) -> Any:
    """Return the extents as a vector of int64, or of objects if some extents are symbolic."""
    extents = x.shape[a.get("start", 0) : a.get("end")]
    return np.array(extents, np.int64 if all(map(is_static, extents)) else object)


def constant(a: Any) -> Any:
    """Return the constant in the node's attributes as an array."""
    for name in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if name in a:
            kind = None if name == "value" else np.float32 if "float" in name else np.int64
            return np.asarray(a[name], kind)
    raise UnsupportedError("Constant: strings and sparse tensors are not read")


def elu(a: Any, x: Any) -> Any:
    """Return x above 0, and alpha (e^x - 1) below."""
    return np.where(x > 0, x, a.get("alpha", 1.0) * (np.exp(np.minimum(x, 0)) - 1))


def selu(a: Any, x: Any) -> Any:
    """Return gamma x above 0, and gamma alpha (e^x - 1) below."""
    gamma, alpha = a.get("gamma", 1.0507009873554805), a.get("alpha", 1.6732632423543772)
    return gamma * np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1))


def softplus(x: Any) -> Any:
    """Return log(1 + e^x)."""
    return np.logaddexp(x, np.zeros_like(x))


def prelu(a: Any, x: Any, slope: Any) -> Any:
    """Multiply negative elements of x by `slope`; before opset 7, a vector contains a slope for each feature."""
    if a["opset"] < 7 and np.ndim(slope) == 1:
        slope = np.reshape(slope, (-1, *[1] * (np.ndim(x) - 2)))
    return np.where(x < 0, slope * x, x)


def shrink(a: Any, x: Any) -> Any:
    """Return 0 for |x| <= lambd, and otherwise x moved towards 0 by `bias`."""
    bias, limit = a.get("bias", 0.0), a.get("lambd", 0.5)
    return cast(np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0)), numpy_dtype(x))


def tile(a: Any, x: Any, repeats: Any) -> Any:
    """Repeat x along each axis."""
    return np.tile(x, tuple(ints(repeats, "repeats")))


def group_norm(a: Any, x: Any, scale: Any, bias: Any) -> Any:
    """Normalise each group of features of each example by its own mean and variance."""
    groups, shape = a["num_groups"], (1, -1, *[1] * (np.ndim(x) - 2))
    if a["opset"] < 21:  # one scale and one bias for each group
        scale, bias = (np.repeat(each, x.shape[1] // groups) for each in (scale, bias))
    parts = np.reshape(x, (x.shape[0], groups, -1))
    mean, variance = np.mean(parts, axis=2, keepdims=True), np.var(parts, axis=2, keepdims=True)
    y = np.reshape((parts - mean) / np.sqrt(variance + a.get("epsilon", 1e-5)), x.shape)
    return y * np.reshape(scale, shape) + np.reshape(bias, shape)


def dropout(a: Any, x: Any, ratio: Any = None, training: Any = None) -> Any:
    """Return x unchanged, and a mask that is true everywhere, because nothing is dropped outside of training."""
    if (
        training is not None
        and bool(concrete(training, "training_mode"))
        and (ratio is None or float(concrete(ratio, "ratio")))
    ):
        raise UnsupportedError("Dropout: training draws random numbers, and is not read")
    return [x, np.ones(x.shape, bool)]


def heads(x: Any, count: Any) -> Any:
    """Split features into heads: [batch, length, features] becomes [batch, heads, length, features of a head].

    An operand that already has four axes is returned unchanged.
    """
    if np.ndim(x) == 4:
        return x
    return np.transpose(np.reshape(x, (*x.shape[:2], count, -1)), (0, 2, 1, 3))


def attention(
    a: Any,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    past_k: Any = None,
    past_v: Any = None,
    lengths: Any = None,
) -> Any:
    """Return softmax(Q K^T scale + bias) V; the bias includes the masks, and a row that is masked completely is 0.

    Also return the keys and values of this call and of earlier calls, and the products of queries and keys.

    Source: ONNX operators, Attention.
    """
    kind, rank = numpy_dtype(q), np.ndim(q)
    q = heads(q, a.get("q_num_heads"))
    k, v = (heads(x, a.get("kv_num_heads")) for x in (k, v))
    before = 0
    if past_k is not None:
        before = past_k.shape[2]
        k, v = np.concatenate([past_k, k], axis=2), np.concatenate([past_v, v], axis=2)
    present = [k, v]
    rows, columns = q.shape[2], k.shape[2]
    bias: Any = np.zeros((rows, columns), kind)
    if mask is not None:
        missing = columns - mask.shape[-1]
        is_flag = numpy_dtype(mask).kind == "b"
        if missing > 0:
            widths = [(0, 0)] * (np.ndim(mask) - 1) + [(0, missing)]
            mask = np.pad(mask, widths, constant_values=False if is_flag else -np.inf)
        bias = bias + (np.where(mask, 0.0, -np.inf).astype(kind) if is_flag else mask)
    offset: Any = np.full((1, 1, 1, 1), before)
    if lengths is not None and past_k is None:
        offset = np.reshape(lengths, (-1, 1, 1, 1)) - rows
    distance = np.arange(rows).reshape(rows, 1) + offset - np.arange(columns)
    left, right = a.get("left_window_size", -1), a.get("right_window_size", -1)
    for is_limited, is_open in (
        (bool(a.get("is_causal")), distance >= 0),
        (left >= 0, distance <= left),
        (right >= 0, -distance <= right),
    ):
        if is_limited:
            bias = bias + np.where(is_open, 0.0, -np.inf).astype(kind)
    if lengths is not None:
        is_there = np.arange(columns) < np.reshape(lengths, (-1, 1, 1, 1))
        bias = bias + np.where(is_there, 0.0, -np.inf).astype(kind)
    repeats = q.shape[1] // k.shape[1]
    if repeats > 1:
        k, v = np.repeat(k, repeats, axis=1), np.repeat(v, repeats, axis=1)
    scale = np.sqrt(a.get("scale") or 1 / math.sqrt(q.shape[3])).astype(kind)
    product = (q * scale) @ (np.swapaxes(k, -1, -2) * scale)
    cap = a.get("softcap", 0.0)
    if cap:
        product = np.tanh(product / cap) * cap
    mode, biased = a.get("qk_matmul_output_mode", 0), product + bias
    wide = biased.astype(dtype_of(a["softmax_precision"])) if "softmax_precision" in a else biased
    top = np.max(wide, axis=-1, keepdims=True)
    power = np.exp(wide - np.where(np.isfinite(top), top, 0))
    total = np.sum(power, axis=-1, keepdims=True)
    weights = power / np.where(total == 0, 1, total)
    weights = np.where(np.max(bias, axis=-1, keepdims=True) == -np.inf, 0, weights)
    shown = weights if mode == 3 else biased if mode == 2 or (mode == 1 and not cap) else product
    y = weights.astype(kind) @ v
    if rank == 3:
        y = np.reshape(np.transpose(y, (0, 2, 1, 3)), (y.shape[0], rows, -1))
    return [y, *present, shown.astype(kind)]


def rotary(a: Any, x: Any, cosines: Any, sines: Any, places: Any = None) -> Any:
    """Rotate pairs of features by the angles of their positions.

    Source: Su and others, RoFormer: enhanced transformer with rotary position embedding (2021).
    """
    rank, shape = np.ndim(x), x.shape
    y = (
        np.transpose(x, (0, 2, 1, 3))
        if rank == 4
        else np.reshape(x, (*shape[:2], a["num_heads"], -1))
    )
    size = a.get("rotary_embedding_dim") or y.shape[-1]
    turned, rest = y[..., :size], y[..., size:]
    if places is not None:
        cosines, sines = (tnf.take(each, places, axis=0) for each in (cosines, sines))
    c, s = np.expand_dims(cosines, 2), np.expand_dims(sines, 2)
    is_paired = a.get("interleaved")
    first, second = (
        (turned[..., 0::2], turned[..., 1::2])
        if is_paired
        else (turned[..., : size // 2], turned[..., size // 2 :])
    )
    parts = [c * first - s * second, s * first + c * second]
    joined = (
        np.reshape(np.stack(parts, axis=-1), turned.shape)
        if is_paired
        else np.concatenate(parts, axis=-1)
    )
    y = np.concatenate([joined, rest], axis=-1)
    return np.transpose(y, (0, 2, 1, 3)) if rank == 4 else np.reshape(y, shape)


def conv_transpose(a: Any, x: Any, kernel: Any, bias: Any = None) -> Any:
    """Compute the transpose of a convolution: insert zeros between the elements of x, and convolve."""
    count, groups = np.ndim(x) - 2, a.get("group", 1)
    strides, dilations = (a.get(name, [1] * count) for name in ("strides", "dilations"))
    extra = a.get("output_padding", [0] * count)
    widths = [(n - 1) * d + 1 for n, d in zip(kernel.shape[2:], dilations, strict=True)]
    full = [
        (n - 1) * s + w + e for n, s, w, e in zip(x.shape[2:], strides, widths, extra, strict=True)
    ]
    sizes = a.get("output_shape")
    mode = a.get("auto_pad", "NOTSET")
    if sizes is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        sizes = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    pads = a.get("pads", [0] * 2 * count)
    edges = [(pads[i], pads[i + count]) for i in range(count)]
    if sizes is not None:
        totals = [f - n for f, n in zip(full, sizes, strict=True)]
        # If an odd number of elements must be cut, one more is cut at the start than at the end, or for SAME_UPPER the
        # reverse. If the result is too short, zeros are appended.
        cut = [max(t, 0) // 2 if mode == "SAME_UPPER" else (max(t, 0) + 1) // 2 for t in totals]
        edges = [(low, t - low) for low, t in zip(cut, totals, strict=True)]
    padding = [
        (w - 1 - low, w - 1 - high + e)
        for w, (low, high), e in zip(widths, edges, extra, strict=True)
    ]
    parts = np.reshape(kernel, (groups, kernel.shape[0] // groups, *kernel.shape[1:]))
    turned = np.reshape(np.swapaxes(parts, 1, 2), (-1, parts.shape[1], *kernel.shape[2:]))
    turned = np.flip(turned, tuple(range(2, count + 2)))
    y = tnf.lax.conv_general_dilated(
        x,
        turned,
        [1] * count,
        padding,
        lhs_dilation=strides,
        rhs_dilation=dilations,
        feature_group_count=groups,
    )
    return y if bias is None else y + np.reshape(bias, (1, -1, *[1] * count))


def lp_pool(a: Any, x: Any) -> Any:
    """Compute the p-norm of each window."""
    p = a.get("p", 2)
    return cast(np.sum(np.abs(windows(a, x, 0)[0]) ** p, axis=0) ** (1.0 / p), numpy_dtype(x))


def local_response(a: Any, x: Any) -> Any:
    """Return x / (bias + alpha / size * s)^beta, where s is the sum of the squares of `size` neighbouring features."""
    size = a["size"]
    before = (size - 1) // 2
    wide = np.pad(x * x, [(0, 0), (before, size - 1 - before), *[(0, 0)] * (np.ndim(x) - 2)])
    total = sum([wide[:, i : i + x.shape[1]] for i in range(1, size)], wide[:, : x.shape[1]])
    return x / (a.get("bias", 1.0) + a.get("alpha", 1e-4) / size * total) ** a.get("beta", 0.75)


READERS: Mapping[str, Callable[..., Any]] = {
    "Abs": plain(np.abs), "Acos": plain(np.arccos), "Acosh": plain(np.arccosh), "Add": plain(lambda x, y: x + y),
    "And": plain(lambda x, y: x & y), "ArgMax": arg(np.argmax), "ArgMin": arg(np.argmin), "Asin": plain(np.arcsin),
    "Asinh": plain(np.arcsinh), "Attention": attention, "ConvTranspose": conv_transpose, "LRN": local_response,
    "LpPool": lp_pool, "RotaryEmbedding": rotary, "Atan": plain(np.arctan), "Atanh": plain(np.arctanh), "AveragePool": average_pool,
    "BatchNormalization": batch_norm, "BitCast": bit_cast, "BitShift": bit_shift,
    "BitwiseAnd": plain(lambda x, y: x & y), "BitwiseNot": plain(lambda x: ~x), "BitwiseOr": plain(lambda x, y: x | y),
    "BitwiseXor": plain(lambda x, y: x ^ y), "Cast": lambda a, x: convert(a, x, dtype_of(a["to"])),
    "CastLike": lambda a, x, y: convert(a, x, numpy_dtype(y)), "Ceil": plain(np.ceil),
    "Celu": lambda a, x: np.maximum(x, 0) + np.minimum(0, a.get("alpha", 1.0) * (np.exp(x / a.get("alpha", 1.0)) - 1)),
    "Clip": clip, "Concat": concat, "Constant": constant, "ConstantOfShape": constant_of_shape, "Conv": conv,
    "Cos": plain(np.cos), "Cosh": plain(np.cosh), "CumProd": cumulative(np.cumprod, 1), "CumSum": cumulative(np.cumsum, 0),
    "DepthToSpace": depth_to_space, "Det": plain(np.linalg.det), "Div": divide, "Dropout": dropout,
    "Einsum": lambda a, *xs: np.einsum(a["equation"], *xs), "Elu": elu, "Equal": plain(lambda x, y: x == y),
    "Erf": plain(tnf.erf), "Exp": plain(np.exp), "Expand": expand, "Flatten": flatten, "Floor": plain(np.floor),
    "Gather": gather, "GatherElements": gather_elements, "GatherND": gather_nd, "Gelu": gelu, "Gemm": gemm,
    "GlobalAveragePool": global_pool(np.mean), "GlobalMaxPool": global_pool(np.max), "Greater": plain(lambda x, y: x > y),
    "GreaterOrEqual": plain(lambda x, y: x >= y), "GroupNormalization": group_norm,
    "HardSigmoid": lambda a, x: np.clip(a.get("alpha", 0.2) * x + a.get("beta", 0.5), 0, 1),
    "HardSwish": lambda a, x: x * np.clip(x / 6 + 0.5, 0, 1), "Hardmax": hardmax, "Identity": plain(lambda x: x),
    "InstanceNormalization": instance_norm, "IsInf": is_inf, "IsNaN": plain(np.isnan), "LayerNormalization": layer_norm,
    "LeakyRelu": lambda a, x: np.where(x < 0, a.get("alpha", 0.01) * x, x), "Less": plain(lambda x, y: x < y),
    "LessOrEqual": plain(lambda x, y: x <= y), "Log": plain(np.log), "LogSoftmax": lambda a, x: softmax(a, x, log=True),
    "LpNormalization": lp_norm, "MatMul": plain(lambda x, y: x @ y), "Max": folded(np.maximum),
    "Mean": lambda a, *xs: sum(xs[1:], xs[0]) / len(xs), "Min": folded(np.minimum),
    "Mish": plain(lambda x: x * np.tanh(softplus(x))), "Mod": modulo, "Mul": plain(lambda x, y: x * y),
    "Neg": plain(lambda x: -x), "NegativeLogLikelihoodLoss": nll_loss, "Not": plain(lambda x: ~x), "OneHot": one_hot,
    "Or": plain(lambda x, y: x | y), "PRelu": prelu, "Pad": pad,
    "Pow": power, "RMSNormalization": rms_norm, "Range": range_, "Reciprocal": plain(lambda x: 1 / x),
    "ReduceL1": reduction(lambda x, axis, keep: np.sum(np.abs(x), axis=axis, keepdims=keep)),
    "ReduceL2": reduction(lambda x, axis, keep: np.sqrt(np.sum(x * x, axis=axis, keepdims=keep))),
    "ReduceLogSum": reduction(lambda x, axis, keep: np.log(np.sum(x, axis=axis, keepdims=keep))),
    "ReduceLogSumExp": reduction(log_sum_exp),
    "ReduceMax": reduction(
        lambda x, axis, keep: np.max(x, axis=axis, keepdims=keep, initial=_identity(x, largest=False))
    ),
    "ReduceMean": reduction(lambda x, axis, keep: np.mean(x, axis=axis, keepdims=keep)),
    "ReduceMin": reduction(
        lambda x, axis, keep: np.min(x, axis=axis, keepdims=keep, initial=_identity(x, largest=True))
    ),
    "ReduceProd": reduction(lambda x, axis, keep: np.prod(x, axis=axis, keepdims=keep)),
    "ReduceSum": reduction(lambda x, axis, keep: np.sum(x, axis=axis, keepdims=keep)),
    "ReduceSumSquare": reduction(lambda x, axis, keep: np.sum(x * x, axis=axis, keepdims=keep)),
    "Relu": plain(lambda x: np.maximum(x, 0)), "Reshape": reshape, "Round": plain(np.rint), "Scatter": scatter_elements,
    "ScatterElements": scatter_elements, "ScatterND": scatter_nd, "Selu": selu, "Shape": shape_of, "Shrink": shrink,
    "Sigmoid": plain(functions.logistic), "Sign": plain(np.sign), "Sin": plain(np.sin), "Sinh": plain(np.sinh),
    "Size": plain(lambda x: np.asarray(math.prod(x.shape), np.int64)), "Slice": slice_, "Softmax": softmax,
    "SoftmaxCrossEntropyLoss": cross_entropy, "Softplus": plain(softplus), "Softsign": plain(lambda x: x / (1 + np.abs(x))),
    "SpaceToDepth": space_to_depth, "Split": split, "Sqrt": plain(np.sqrt), "Squeeze": squeeze, "Sub": plain(lambda x, y: x - y),
    "Sum": folded(lambda x, y: x + y), "Swish": lambda a, x: x * functions.logistic(a.get("alpha", 1.0) * x),
    "Tan": plain(np.tan), "Tanh": plain(np.tanh), "ThresholdedRelu": lambda a, x: np.where(x > a.get("alpha", 1.0), x, 0),
    "Tile": tile, "TopK": top_k, "Transpose": lambda a, x: np.transpose(x, a.get("perm")), "Trilu": trilu,
    "Unsqueeze": unsqueeze, "Where": plain(np.where), "Xor": plain(lambda x, y: x ^ y),
}  # fmt: skip
"""Functions that compute an ONNX operator, by the name of the operator.

A missing optional operand is passed as None, or omitted if no operand follows it.
"""


def _identity(x: Any, largest: bool) -> Any:
    """Return the identity of a minimum in x's dtype, which is the largest number, or else that of a maximum."""
    kind = numpy_dtype(x)
    if kind.kind == "b":
        return largest
    if kind_of(x) == "f":
        return np.inf if largest else -np.inf
    return np.iinfo(kind).max if largest else np.iinfo(kind).min
