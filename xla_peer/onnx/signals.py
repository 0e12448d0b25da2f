"""ONNX operators of signal and sequence models: Fourier transforms, linear attention, and caches.

The arguments of each function are the attributes `a` of a node, and the node's operands; see
`xla_peer/onnx/readers.py`.

Source: ONNX operators; each docstring has the name of the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tenferro as tnf
from lowering.numpy_source import functions
from xla_peer.onnx.readers import axes_of, cast, concrete, dtype_of, heads, ints, numpy_dtype

__all__ = ["SIGNALS"]


def _pairs(z: Any, kind: Any) -> Any:
    """Convert complex numbers to pairs of a real and an imaginary part along a new last axis."""
    return cast(np.stack([np.real(z), np.imag(z)], axis=-1), kind)


def dft(a: Any, x: Any, length: Any = None, axis: Any = None) -> Any:
    """Read DFT, a Fourier transform along one axis.

    The last axis of x has extent 1 if the elements are real, and extent 2 for pairs of a real and an imaginary part.
    """
    default = a.get("axis", 1) if a["opset"] < 20 else -2
    (along,) = axes_of(x, [default] if axis is None else ints(axis, "an axis"))
    is_half, is_inverse = bool(a.get("onesided")), bool(a.get("inverse"))
    n = x.shape[along] if length is None else ints(length, "a length")[0]
    kind = numpy_dtype(x)
    wide = x if kind.itemsize >= 4 else x.astype(np.float32)
    z = wide[..., 0] if x.shape[-1] == 1 else tnf.lax.complex(wide[..., 0], wide[..., 1])
    if is_half and is_inverse:
        n = 2 * (x.shape[along] - 1) if length is None else n
        return cast(np.expand_dims(tnf.fft.irfft(z, n, along), -1), kind)
    if is_half and x.shape[-1] == 1:
        return _pairs(tnf.fft.rfft(z, n, along), kind)
    y = tnf.fft.ifft(z, n, along) if is_inverse else tnf.fft.fft(z, n, along)
    return _pairs(np.take(y, np.arange(n // 2 + 1), axis=along) if is_half else y, kind)


def stft(a: Any, x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    """Read STFT, a short-time Fourier transform: frames along axis 1 are multiplied by the window and transformed."""
    (hop,) = ints(step, "a step")
    if length is not None:
        (n,) = ints(length, "a length")
    else:
        n = x.shape[1] if window is None else window.shape[0]
    frames = np.arange((x.shape[1] - n) // hop + 1).reshape(-1, 1) * hop + np.arange(n)
    y = x[:, frames]
    if window is not None:
        y = y * np.reshape(window, (-1, 1))
    return dft({"onesided": a.get("onesided", 1), "opset": 20}, y)


def mel_weight_matrix(a: Any, mels: Any, length: Any, rate: Any, lowest: Any, highest: Any) -> Any:
    """Read MelWeightMatrix: triangular filters whose corners have equal distances on the mel scale.

    A frequency f is 2595 log10(1 + f / 700) on this scale.
    """
    (count,), (n,), (rate,) = ints(mels, "a count"), ints(length, "a length"), ints(rate, "a rate")
    ends = [np.ravel(concrete(end, "a frequency"))[0] for end in (lowest, highest)]
    low, high = [2595 * np.log1p(end / 700) / np.log(10) for end in ends]
    steps = np.arange(count + 2) * (high - low) / (count + 2) + low
    places = ((n + 1) * 700 * np.expm1(steps / 2595 * np.log(10)) // rate).astype(int)
    left, middle, right = places[:-2], places[1:-1], places[2:]
    j = np.arange(n // 2 + 1)[:, None]
    rising = np.where(left == middle, 1, (j - left) / np.maximum(middle - left, 1))
    y = np.where((j >= left) & (j <= middle), rising, 0)
    y = np.where((j >= middle) & (j < right), (right - j) / np.maximum(right - middle, 1), y)
    return y.astype(dtype_of(a.get("output_datatype", 1)))


def linear_attention(
    a: Any, q: Any, k: Any, v: Any, past: Any = None, decay: Any = None, beta: Any = None
) -> list[Any]:
    """Read LinearAttention: for each head, a matrix is updated by the key and value of each step and read by the query.

    Source: Yang and others, Gated delta networks: improving Mamba2 with delta rule (2024).
    """
    kind, (batch, length, _) = numpy_dtype(q), q.shape
    count, keys = a["q_num_heads"], a["kv_num_heads"]
    wide = np.promote_types(kind, np.float32)
    q, k, v = (
        np.moveaxis(heads(x, n), 2, 0).astype(wide) for x, n in ((q, count), (k, keys), (v, keys))
    )
    depth, width = k.shape[-1], v.shape[-1]
    rule = a.get("update_rule", "gated_delta")
    ones = np.ones((batch, length, 1), kind)
    decays, rates = (
        np.moveaxis(heads(x, n), 2, 0).astype(wide)
        for x, n in (
            (ones if decay is None else decay, 1 if decay is None else keys),
            (ones if beta is None else beta, 1 if beta is None else beta.shape[-1]),
        )
    )
    state = np.zeros((batch, keys, depth, width), wide) if past is None else past.astype(wide)
    scale = a.get("scale") or depth**-0.5

    def step(state: Any, each: Any) -> Any:
        q, k, v, decay, rate = each
        if "gated" in rule:
            state = state * np.expand_dims(np.exp(decay), -1)
        if "delta" in rule:
            v = rate * (v - np.squeeze(np.expand_dims(k, -2) @ state, -2))
        state = state + np.expand_dims(k, -1) * np.expand_dims(v, -2)
        read = np.repeat(state, count // keys, axis=1) if count > keys else state
        return state, scale * np.squeeze(np.expand_dims(q, -2) @ read, -2)

    state, rows = tnf.scan(step, state, (q, k, v, decays, rates))
    y = np.reshape(np.transpose(rows, (1, 0, 2, 3)), (batch, length, count * width))
    return [cast(y, kind), cast(state, kind if past is None else numpy_dtype(past))]


def causal_conv(a: Any, x: Any, kernel: Any, bias: Any = None, past: Any = None) -> list[Any]:
    """Read CausalConvWithState, a convolution of each channel along time; `past` contains elements of earlier calls.

    Return the result, and the last elements of the input, which the next call receives as `past`.
    """
    kind, size = numpy_dtype(x), kernel.shape[2] - 1
    before = np.zeros((*x.shape[:2], size), kind) if past is None else past
    whole = np.concatenate([before, x], axis=2)
    y = tnf.lax.conv_general_dilated(whole, kernel, [1], [(0, 0)], feature_group_count=x.shape[1])
    y = y if bias is None else y + np.reshape(bias, (-1, 1))
    if a.get("activation", "none") != "none":
        wide = y.astype(np.promote_types(kind, np.float32))
        y = wide * functions.logistic(wide)
    return [cast(y, kind), whole[:, :, whole.shape[2] - size :]]


def tensor_scatter(a: Any, cache: Any, update: Any, start: Any = None) -> Any:
    """Read TensorScatter: write `update` into the cache of each example, from the example's index in `start` on."""
    (axis,) = axes_of(cache, [a.get("axis", -2)])
    n, m, batch = cache.shape[axis], update.shape[axis], cache.shape[0]
    first = np.zeros(batch, np.int64) if start is None else start
    places = np.reshape(first, (-1, 1)) + np.arange(m)
    if a.get("mode", "linear") == "circular":
        places = np.mod(places, n)
    target = tnf.at(np.moveaxis(cache, axis, 1))[np.arange(batch).reshape(-1, 1), places]
    return np.moveaxis(target.set(np.moveaxis(update, axis, 1)), 1, axis)


SIGNALS: Mapping[str, Callable[..., Any]] = {
    "CausalConvWithState": causal_conv,
    "DFT": dft,
    "LinearAttention": linear_attention,
    "MelWeightMatrix": mel_weight_matrix,
    "STFT": stft,
    "TensorScatter": tensor_scatter,
}
"""Functions that compute an ONNX operator, by the name of the operator."""
