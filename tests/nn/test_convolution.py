"""Convolutions and pooling must equal definitions in NumPy, in all layouts.

Gradients must be transposed convolutions.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors, nn

RNG = np.random.default_rng(11)


def windows_of(x: np.ndarray, sizes: Any, strides: Any, dilation: Any) -> np.ndarray:
    """Return all windows of x.

    x is indexed by [batch, features, space..], and the result by [batch, features, positions.., window..].
    """
    reach = [(size - 1) * step + 1 for size, step in zip(sizes, dilation, strict=True)]
    axes = tuple(range(2, 2 + len(reach)))
    view = np.lib.stride_tricks.sliding_window_view(x, reach, axes)
    places = tuple(slice(None, None, step) for step in strides)
    return view[(slice(None), slice(None), *places, *(slice(None, None, s) for s in dilation))]


def defined(x: Any, w: Any, strides: Any, pads: Any, dilation: Any, groups: int) -> np.ndarray:
    """Compute a convolution by its definition: for each group, sums over windows and features.

    x has the shape [n, c, space..], and w has the shape [o, c / groups, space..].
    """
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    windows = windows_of(x, w.shape[2:], strides, dilation)
    count = len(strides)
    parts = []
    for part, kernel in zip(np.split(windows, groups, 1), np.split(w, groups, 0), strict=True):
        axes = [1, *range(2 + count, 2 + 2 * count)]
        parts.append(np.moveaxis(np.tensordot(part, kernel, (axes, range(1, 2 + count))), -1, 1))
    return np.concatenate(parts, 1)


CASES = {
    "1d": ((2, 4, 9), (6, 4, 3), {}),
    "1d-strided": ((2, 4, 9), (6, 2, 3), {"strides": 2, "padding": 1, "groups": 2}),
    "2d": ((2, 3, 6, 7), (4, 3, 3, 2), {"strides": (2, 1), "padding": ((1, 0), (0, 2)), "dilation": (1, 2)}),
    "2d-depthwise": ((2, 3, 6, 7), (6, 1, 3, 3), {"padding": (1, 1), "groups": 3}),
    "3d": ((1, 2, 4, 5, 4), (3, 2, 2, 3, 1), {"padding": 1}),
}  # fmt: skip


def pairs_of(padding: Any, count: int) -> Any:
    entries = [padding] * count if isinstance(padding, int) else padding
    return [(e, e) if isinstance(e, int) else e for e in entries]


def numbers_of(numbers: Any, count: int) -> Any:
    return (numbers,) * count if isinstance(numbers, int) else numbers


def last(x: Any) -> Any:
    return np.moveaxis(x, 1, -1)


def kernel_last(w: Any) -> Any:
    """Transpose a kernel from [out, in, space..] to [space.., in, out]."""
    return np.transpose(w, (*range(2, w.ndim), 1, 0))


@pytest.mark.parametrize("name", CASES)
def test_convolutions_are_sums_over_windows(name: str) -> None:
    x_shape, w_shape, options = CASES[name]
    x, w, count = RNG.standard_normal(x_shape), RNG.standard_normal(w_shape), len(x_shape) - 2
    wanted = defined(
        x,
        w,
        numbers_of(options.get("strides", 1), count),
        pairs_of(options.get("padding", 0), count),
        numbers_of(options.get("dilation", 1), count),
        options.get("groups", 1),
    )
    np.testing.assert_allclose(nn.conv(x, w, data_format="NCHW", **options), wanted, atol=1e-13)
    found = nn.conv(last(x), kernel_last(w), **options)
    np.testing.assert_allclose(found, last(wanted), atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_transposed_convolutions_are_gradients(name: str) -> None:
    y_shape, w_shape, options = CASES[name]
    w = RNG.standard_normal(w_shape)
    forward = lambda y: nn.conv(y, w, data_format="NCHW", **options)
    y, pull = tnf.vjp(forward, np.zeros(y_shape))
    cotangent = RNG.standard_normal(y.shape)
    found = nn.conv_transpose(cotangent, w, data_format="NCHW", **options)
    # Elements at the end that no strided window reaches are absent from the result of the transposed convolution.
    wanted = pull(cotangent)[0][tuple(slice(n) for n in found.shape)]
    np.testing.assert_allclose(found, wanted, atol=1e-13)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposed_convolutions_of_the_default_layout_are_jaxs(padding: str) -> None:
    x, w = RNG.standard_normal((2, 4, 3, 2)), RNG.standard_normal((3, 2, 2, 5))
    found = nn.conv_transpose(x, w, strides=(2, 3), padding=padding)
    with jax.enable_x64(True):
        wanted = jax.lax.conv_transpose(x, w, (2, 3), padding)
    np.testing.assert_allclose(found, wanted, atol=1e-13)


# ---- pooling ----------------------------------------------------------------------------------------

POOLS = {
    "tiled": (2, None, 0),
    "overlapping": ((3, 2), (1, 2), 0),
    "padded": (3, 2, 1),
    "uneven": ((2, 3), 2, ((1, 0), (0, 2))),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("kind", ["max", "min", "mean", "mean of x"])
def test_pools_are_reductions_of_windows(name: str, kind: str) -> None:
    size, strides, padding = POOLS[name]
    x = RNG.standard_normal((2, 3, 6, 7))
    sizes = numbers_of(size, 2)
    steps = numbers_of(size if strides is None else strides, 2)
    fill = {"max": -np.inf, "min": np.inf, "mean": 0.0, "mean of x": np.nan}[kind]
    reduce = {"max": np.max, "min": np.min, "mean": np.mean, "mean of x": np.nanmean}[kind]
    padded = np.pad(x, [(0, 0), (0, 0), *pairs_of(padding, 2)], constant_values=fill)
    wanted = reduce(windows_of(padded, sizes, steps, (1, 1)), axis=(-1, -2))
    pool = {"max": nn.max_pool, "min": nn.min_pool}.get(kind, nn.avg_pool)
    options = {"count_include_pad": False} if kind == "mean of x" else {}
    found = pool(x, size, strides, padding, data_format="NCHW", **options)
    np.testing.assert_allclose(found, wanted, atol=1e-14)
    found = pool(last(x), size, strides, padding, **options)
    np.testing.assert_allclose(found, last(wanted), atol=1e-14)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool", "float16", "float32"])
def test_maxima_of_every_real_dtype(dtype: str) -> None:
    x = (RNG.standard_normal((1, 6, 2)) * 9).astype(dtype)
    found = nn.max_pool(x, 3, 1, "SAME")
    padded = np.pad(x, [(0, 0), (1, 1), (0, 0)], mode="edge")
    wanted = np.max([padded[:, i : i + 6] for i in range(3)], axis=0)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, wanted)


def test_means_of_low_precision_do_not_overflow() -> None:
    x = np.full((1, 4, 1), 60000, np.float16)
    y = nn.avg_pool(x, 4)
    assert y.dtype == np.float16
    assert y.item() == 60000


def network(x: Any, w: Any, v: Any) -> Any:
    """Apply every function of the module: a convolution, pooling, and a transposed convolution."""
    y = nn.conv(x, w, strides=2, padding="SAME", groups=2)
    y = nn.max_pool(y, 2, 1) + nn.avg_pool(y, 2, 1) - nn.min_pool(y, 2, 1)
    return nn.conv_transpose(tnf.tanh(y), v, strides=2, padding="SAME")


ARGUMENTS = (
    RNG.standard_normal((2, 6, 6, 4)),
    RNG.standard_normal((3, 3, 2, 6)),
    RNG.standard_normal((2, 2, 6, 3)),
)


def test_derivatives_to_second_order() -> None:
    tnf.check_grads(lambda *xs: tnf.sum(network(*xs)), ARGUMENTS, order=2)


def test_the_peer_agrees() -> None:
    gradient = tnf.grad(lambda *xs: tnf.sum(network(*xs) ** 2), argnums=(0, 1, 2))
    program = tnf.compile(lambda *xs: (network(*xs), gradient(*xs)), *ARGUMENTS)
    found = xla_peer.XlaExecutor().run(program, *ARGUMENTS)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(program.run(*ARGUMENTS)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_vmap_and_symbols() -> None:
    x, w, v = ARGUMENTS
    stacked = np.stack([x, 2 * x])
    found = tnf.vmap(lambda x: network(x, w, v))(stacked)
    np.testing.assert_allclose(found, [network(x, w, v), network(2 * x, w, v)])
    program = tnf.compile(network, tnf.TensorSpec(("n", 6, 6, 4), "f8"), w, v)
    np.testing.assert_allclose(program.run(x[:1], w, v), network(x[:1], w, v))


def test_empty_batches() -> None:
    x, w, v = ARGUMENTS
    assert network(x[:0], w, v).shape == (0, *network(x, w, v).shape[1:])
    assert nn.max_pool(x[:, :1], 2).shape == (2, 0, 3, 4)


X, W = np.ones((1, 5, 5, 3)), np.ones((3, 3, 3, 8))
REFUSED = {
    "layout": (lambda: nn.conv(X, W, data_format="CHWN"), errors.InvalidConfigError, "NCHW"),
    "batch": (lambda: nn.conv(X[0, 0], W), errors.ShapeError, "1 to 3 axes of space"),
    "features": (lambda: nn.conv(X, W, data_format="NCHW"), errors.ShapeError, "has 5 features"),
    "kernel": (lambda: nn.conv(X, W[0]), errors.ShapeError, r"\[space.., in, out\]"),
    "dtype": (lambda: nn.conv(X, W.astype("f4")), errors.DTypeError, "one dtype"),
    "strides": (lambda: nn.conv(X, W, strides=(1, 2, 3)), errors.InvalidConfigError, "each of 2 axes"),
    "padding": (lambda: nn.conv(X, W, padding=(1,)), errors.InvalidConfigError, "SAME"),
    "word": (lambda: nn.conv(X, W, padding="FULL"), errors.InvalidConfigError, "SAME"),
    "groups": (lambda: nn.conv(X, W, groups=0), errors.InvalidConfigError, "groups"),
    "transposed": (lambda: nn.conv_transpose(X, W, data_format="NCHW"), errors.ShapeError, "out / 1"),
    "window": (lambda: nn.max_pool(X, (2, 2, 2)), errors.InvalidConfigError, "window_shape"),
    "outside": (lambda: nn.avg_pool(X, 2, padding=2), errors.InvalidConfigError, "without an element"),
    "mean": (lambda: nn.avg_pool(X.astype(int), 2), errors.DTypeError, "float or complex"),
    "order": (lambda: nn.max_pool(X + 0j, 2), errors.DTypeError, "no order"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_is_wrong(name: str) -> None:
    call, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        call()
