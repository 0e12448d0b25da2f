"""`tenferro.nn` must equal jax.nn and definitions, natively and through PJRT.

Other tests are about signatures and errors.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import tenferro as tnf
import tenferro.nn
import xla_peer
from tenferro import errors, nn
from tests.nn.samples import (
    ACTIVATIONS,
    AT_CORNERS,
    AT_INFINITIES,
    AT_ZERO,
    CALLS,
    DEFINITIONS,
    POINTS,
    Call,
    mp,
)

ARRAYS = [call.arrays for call in CALLS.values()]


EVERY = tuple(CALLS.values())


def results_of(module: Any, arrays: Any, calls: Any = EVERY) -> list[Any]:
    return [call.call(module, *xs) for call, xs in zip(calls, arrays, strict=True)]


def weights(y: Any) -> np.ndarray:
    return np.cos(np.arange(np.prod(y.shape, dtype=int))).reshape(y.shape)


def gradients_of(module: Any, grad: Any, total: Any, arrays: Any, calls: Any = EVERY) -> list[Any]:
    """Return the gradient of each smooth call: that of a weighted sum of the elements of its result."""

    def loss(call: Call, xs: Any) -> Any:
        y = call.call(module, *xs)
        return total(y * weights(y))

    return [
        grad(lambda *xs, call=call: loss(call, xs), argnums=tuple(range(len(xs))))(*xs)
        for call, xs in zip(calls, arrays, strict=True)
        if call.is_smooth
    ]


@functools.cache
def by_jax() -> tuple[list[Any], list[Any]]:
    """Compute the values and the gradients of all calls by JAX, compiled together to save time."""

    def both(arrays: Any) -> Any:
        return results_of(jax.nn, arrays), gradients_of(jax.nn, jax.grad, jax.numpy.sum, arrays)

    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(both)(ARRAYS))


def both_here(arrays: Any) -> Any:
    return results_of(nn, arrays), gradients_of(nn, tnf.grad, tnf.sum, arrays)


def assert_close(found: Any, expected: Any, rtol: float, atol: float = 1e-12) -> None:
    for y, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(y, wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", CALLS)
def test_values_are_jaxs(name: str) -> None:
    call, expected = CALLS[name], by_jax()[0][list(CALLS).index(name)]
    # JAX computes the softmax of attention in float32, whatever the dtype of the operands.
    rtol = 1e-5 if name.startswith("attention") else 1e-11
    assert_close(call.call(nn, *call.arrays), expected, rtol)
    assert_close(tnf.jit(lambda *xs: call.call(nn, *xs))(*call.arrays), expected, rtol)


def test_derivatives_are_jaxs() -> None:
    found = iter(both_here(ARRAYS)[1])
    names = [name for name, call in CALLS.items() if call.is_smooth]
    for name, y, wanted in zip(names, found, by_jax()[1], strict=True):
        assert_close(y, wanted, *((1e-4, 1e-6) if name.startswith("attention") else (1e-9,)))


def test_the_peer_agrees() -> None:
    names = [name for name in CALLS if name not in ACTIVATIONS]
    arrays = [CALLS[name].arrays for name in names]

    def both(arrays: Any) -> Any:
        calls = [CALLS[name] for name in names]
        return results_of(nn, arrays, calls), gradients_of(nn, tnf.grad, tnf.sum, arrays, calls)

    program = tnf.compile(both, arrays)
    assert_close(xla_peer.XlaExecutor().run(program, arrays), program.run(arrays), 1e-9)


def test_exported_programs_run(tmp_path: Any) -> None:
    names = [name for name in CALLS if not name.startswith("attention")][::5]
    arrays = [CALLS[name].arrays for name in names]
    program = tnf.compile(
        lambda arrays: [CALLS[n].call(nn, *xs) for n, xs in zip(names, arrays, strict=True)], arrays
    )
    xla_peer.export(program, path=tmp_path / "nn.mlir")
    assert_close(xla_peer.load(tmp_path / "nn.mlir").run(arrays), program.run(arrays), 1e-12)


def test_eager_tensors() -> None:
    runtime = tnf.EagerRuntime()
    for call in CALLS.values():
        if not call.is_smooth:
            continue
        variables = [runtime.variable(x) for x in call.arrays]
        total = lambda *xs, call=call: tnf.sum(call.call(nn, *xs))
        total(*variables).backward()
        wanted = tnf.grad(total, argnums=tuple(range(len(variables))))(*call.arrays)
        assert_close([np.asarray(x.grad) for x in variables], list(wanted), 1e-9)


# ---- special points ---------------------------------------------------------------------------------


def activation(name: str) -> Any:
    if name == "gelu-exact":
        return lambda x: nn.gelu(x, approximate=False)
    return getattr(nn, name)


def slopes(name: str, x: np.ndarray) -> tuple[Any, Any, Any]:
    """Return the values, derivatives and second derivatives of an activation, computed natively."""
    f = activation(name)
    first = tnf.grad(lambda x: tnf.sum(f(x)))
    second = tnf.grad(lambda x: tnf.sum(first(x)))
    return tnf.jit(lambda x: (f(x), first(x), second(x)))(x)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_far_out_values_and_derivatives_are_the_definitions(name: str) -> None:
    definition = DEFINITIONS[name]
    y, first, second = slopes(name, np.array(POINTS))
    for place, x in enumerate(POINTS):
        for order, found in enumerate((y, first, second)):
            wanted = float(mp.diff(definition, mp.mpf(x), order, h=mp.mpf(10) ** -80))
            # Far from zero, a derivative is a difference of terms of size 1. Its error is therefore relative to 1.
            np.testing.assert_allclose(found[place], wanted, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("name", ["silu", "mish"])
def test_products_with_a_subnormal_gate_keep_their_digits(name: str) -> None:
    for dtype, points in ((np.float64, (-712.3, -713.25, -720.0)), (np.float32, (-88.3, -91.7))):
        x = np.array(points, dtype)
        info = np.finfo(dtype)
        for order, results in enumerate(slopes(name, x)):
            for point, y in zip(x.tolist(), results.tolist(), strict=True):
                wanted = mp.diff(DEFINITIONS[name], mp.mpf(point), order, h=mp.mpf(10) ** -80)
                spacing = abs(wanted) * float(info.eps) + float(info.smallest_subnormal)
                assert abs(y - wanted) <= 8 * spacing, (point, order)


@pytest.mark.parametrize("name", AT_INFINITIES)
def test_infinities(name: str) -> None:
    values, derivatives = AT_INFINITIES[name]
    for dtype in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16):
        y, first, second = slopes(name, np.array([-np.inf, np.inf]).astype(dtype))
        rtol = 1e-2 if np.dtype(dtype).itemsize == 2 else 1e-6
        np.testing.assert_allclose(y.astype(float), values, rtol=rtol)
        np.testing.assert_allclose(first.astype(float), derivatives, rtol=rtol, atol=1e-40)
        np.testing.assert_allclose(second.astype(float), [0, 0], atol=1e-40)


@pytest.mark.parametrize("name", AT_ZERO)
def test_zero(name: str) -> None:
    found = [float(part) for part in slopes(name, np.zeros(()))]
    np.testing.assert_allclose(found, AT_ZERO[name], rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", AT_CORNERS)
def test_corners(name: str) -> None:
    points = AT_CORNERS[name]
    _, first, _ = slopes(name, np.array(list(points)))
    np.testing.assert_allclose(first, list(points.values()), rtol=1e-14)


def test_special_points_on_the_peer() -> None:
    x = np.array([-np.inf, -1000.0, -100.0, 0.0, 100.0, 1000.0, np.inf, np.nan])
    names = list(AT_ZERO)
    program = tnf.compile(lambda x: [slopes_traced(name, x) for name in names], x)
    found = xla_peer.XlaExecutor().run(program, x)
    for name, here, there in zip(names, program.run(x), found, strict=True):
        for a, b in zip(here, there, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-15, err_msg=name)


def slopes_traced(name: str, x: Any) -> Any:
    f = activation(name)
    return f(x), tnf.grad(lambda x: tnf.sum(f(x)))(x)


@pytest.mark.parametrize("name", AT_ZERO)
def test_nan_stays(name: str) -> None:
    assert np.isnan(activation(name)(np.nan))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", [*AT_ZERO, "softmax", "log_softmax", "standardize", "glu"])
def test_dtypes_stay(name: str, dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = np.linspace(-2, 2, 8).astype(kind)
    y = activation(name)(x)
    assert y.dtype == kind
    wanted = activation(name)(x.astype(float))
    eps = float(ml_dtypes.finfo(kind).eps)
    np.testing.assert_allclose(y.astype(float), wanted, rtol=16 * eps, atol=8 * eps)
    assert activation(name)(np.zeros((0, 8), kind)).dtype == kind


def test_integers() -> None:
    x = np.array([-1, 0, 9], np.int8)
    assert nn.relu(x).dtype == nn.relu6(x).dtype == np.int8
    np.testing.assert_array_equal(nn.relu6(x), [0, 0, 6])
    assert nn.sigmoid(x).dtype == np.float16
    np.testing.assert_array_equal(nn.one_hot(np.array([44], np.int8), 300).nonzero()[1], [44])


def test_masks_that_leave_nothing() -> None:
    x, none = np.arange(3.0), np.zeros(3, bool)
    np.testing.assert_array_equal(nn.softmax(x, where=none), np.zeros(3))
    np.testing.assert_array_equal(nn.log_softmax(x, where=none), np.full(3, -np.inf))
    assert nn.logsumexp(x, where=none) == -np.inf
    loss = lambda x: tnf.sum(nn.softmax(x, where=none) * x)
    np.testing.assert_array_equal(tnf.grad(loss)(x), np.zeros(3))
    some = np.array([True, True, False])
    loss = lambda x: tnf.sum(nn.log_softmax(x, where=some)[:2])
    np.testing.assert_allclose(tnf.grad(loss)(np.array([0.0, 0.0, np.inf])), [0, 0, 0], atol=1e-15)


@pytest.mark.parametrize("function", [tnf.softmax, tnf.log_softmax, nn.softmax, nn.log_softmax])
def test_probabilities_of_nothing_are_nothing(function: Any) -> None:
    for axis, shape in ((1, (2, 0)), (0, (2, 0)), (-1, (2, 3, 0))):
        x = np.zeros(shape)
        assert function(x, axis=axis).shape == shape
        assert tnf.vjp(lambda x, axis=axis: function(x, axis=axis), x)[1](x)[0].shape == shape


@pytest.mark.parametrize("function", [tnf.logsumexp, nn.logsumexp])
def test_the_logarithm_of_a_sum_of_nothing_is_that_of_zero(function: Any) -> None:
    x = np.zeros((2, 0))
    np.testing.assert_array_equal(function(x, axis=1), [-np.inf, -np.inf])
    assert function(x) == -np.inf
    assert function(x, axis=0).shape == (0,)
    y, pull = tnf.vjp(lambda x: function(x, axis=1), x)
    assert pull(y)[0].shape == (2, 0)


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax", "logaddexp", "logaddexp2"])
def test_complex_exponents_are_refused_by_name(name: str) -> None:
    operands = (np.ones(2) * 1j,) * (2 if "add" in name else 1)
    with pytest.raises(errors.DTypeError, match=rf"^{name}: takes real numbers, got c128\[2\]"):
        getattr(tnf, name)(*operands)


@pytest.mark.parametrize("axis", [None, 1])
def test_sums_of_complex_exponentials(axis: int | None) -> None:
    """The result is that of the definition for small numbers, moved by the real number that is added to them."""
    rng = np.random.default_rng(3)
    x, b = rng.standard_normal((2, 3, 4)) + 1j * rng.standard_normal((2, 3, 4))
    for function in (nn.logsumexp, tnf.special.logsumexp):
        for factors in (None, b, b.real):
            total = np.sum((1 if factors is None else factors) * np.exp(x), axis=axis)
            result = function(x + 800, axis, factors)
            np.testing.assert_allclose(result, np.log(total) + 800, rtol=1e-12)
            magnitude, sign = function(x - 800, axis, factors, return_sign=True)
            np.testing.assert_allclose(magnitude, np.log(abs(total)) - 800, rtol=1e-12)
            np.testing.assert_allclose(sign, total / abs(total), rtol=1e-10)
    tnf.check_grads(lambda x: nn.logsumexp(x, axis), (x,), order=2)


def test_vmap() -> None:
    x = np.linspace(-3, 3, 12).reshape(3, 4)
    for name in [*AT_ZERO, "softmax", "standardize", "glu"]:
        f = activation(name)
        np.testing.assert_allclose(tnf.vmap(f)(x), np.stack([f(row) for row in x]), err_msg=name)
    q = np.random.default_rng(0).standard_normal((2, 3, 4, 2))
    np.testing.assert_allclose(
        tnf.vmap(nn.dot_product_attention)(q, q, q), nn.dot_product_attention(q, q, q)
    )


# ---- normalisation and dropout ------------------------------------------------------------------------


def test_layer_norm_and_batch_norm_are_their_formulas() -> None:
    rng = np.random.default_rng(1)
    x, scale, bias = rng.standard_normal((2, 5, 3)), rng.standard_normal(3), rng.standard_normal(3)
    centred = x - x.mean(-1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + bias
    np.testing.assert_allclose(nn.layer_norm(x, scale, bias), wanted)
    mean, var = x.mean((0, 1)), x.var((0, 1))
    wanted = (x - mean) / np.sqrt(var + 1e-5) * scale + bias
    np.testing.assert_allclose(nn.batch_norm(x, scale, bias), wanted)
    np.testing.assert_allclose(nn.batch_norm(x, scale, bias, mean=mean, variance=var), wanted)
    second = nn.batch_norm(np.moveaxis(x, 2, 1), scale, bias, axis=1)
    np.testing.assert_allclose(np.moveaxis(second, 1, 2), wanted)
    with pytest.raises(errors.ShapeError, match="extents of axes"):
        nn.batch_norm(x, np.ones(5))


def test_dropout_keeps_the_mean() -> None:
    key = tnf.random.key(0)
    y = nn.dropout(key, np.ones(20000, np.float32), 0.25)
    assert y.dtype == np.float32
    assert set(np.unique(y)) == {0, np.float32(1 / 0.75)}
    assert abs(y.mean() - 1) < 0.02
    np.testing.assert_array_equal(nn.dropout(key, np.ones(3), 0), np.ones(3))
    np.testing.assert_array_equal(nn.dropout(key, np.full(3, np.inf), 1.0), np.zeros(3))
    slope = tnf.grad(lambda x: tnf.sum(nn.dropout(key, x, 0.5)))(np.ones(64))
    np.testing.assert_array_equal(slope, nn.dropout(key, np.ones(64), 0.5))


# ---- initializers -------------------------------------------------------------------------------------

INITIALIZERS: dict[str, tuple[Any, ...]] = {
    "constant": (2.5,), "normal": (0.3,), "uniform": (0.3,), "truncated_normal": (0.3,),
    "variance_scaling": (1.5, "fan_geo_avg", "normal"), "orthogonal": (2.0,), "delta_orthogonal": (2.0,),
    "glorot_normal": (), "glorot_uniform": (), "he_normal": (), "lecun_uniform": (),
}  # fmt: skip


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers_are_jaxs(name: str) -> None:
    init = getattr(nn.initializers, name)(*INITIALIZERS[name])
    theirs = getattr(jax.nn.initializers, name)(*INITIALIZERS[name])
    dtype, rtol = ("float32", 2e-5) if name == "glorot_uniform" else ("float64", 1e-12)
    with jax.enable_x64(True):
        wanted = theirs(jax.random.PRNGKey(5), (3, 2, 4, 5), dtype)
    found = init(tnf.random.key(5), (3, 2, 4, 5), dtype)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol)


def test_initializers_in_programs() -> None:
    init = nn.initializers.he_normal()
    key = tnf.random.key(1)
    np.testing.assert_allclose(
        tnf.jit(lambda key: init(key, (2, 3)))(key), init(key, (2, 3)), rtol=1e-13
    )
    rows = nn.initializers.orthogonal(column_axis=0)(key, (2, 3, 4)).reshape(2, -1)
    np.testing.assert_allclose(rows @ rows.T, np.eye(2), atol=1e-14)


# ---- errors and names ---------------------------------------------------------------------------------

ODD, TOKENS = np.ones((2, 3)), np.ones((1, 2, 4, 3))
REFUSED = {
    "odd": (lambda: nn.glu(ODD), errors.ShapeError, "odd extent 3"),
    "classes": (lambda: nn.one_hot(np.ones(2), 3), errors.DTypeError, "must be integers"),
    "algorithm": (lambda: nn.standardize(ODD, algorithm="slow"), errors.InvalidConfigError, '"stable"'),
    "rate": (lambda: nn.dropout(tnf.random.key(0), ODD, 2.0), errors.InvalidConfigError, "from 0 to 1"),
    "heads": (lambda: nn.dot_product_attention(TOKENS, TOKENS[:, :, :3], TOKENS[:, :, :3]), errors.ShapeError, "a multiple of key's"),
    "rank": (lambda: nn.dot_product_attention(ODD, ODD, ODD), errors.ShapeError, "batch, length, heads, features"),
    "dtype": (lambda: nn.dot_product_attention(TOKENS, TOKENS.astype("f4"), TOKENS), errors.DTypeError, "one float dtype"),
    "values": (lambda: nn.dot_product_attention(TOKENS, TOKENS, TOKENS[:, :1]), errors.ShapeError, "one shape"),
    "mask": (lambda: nn.dot_product_attention(TOKENS, TOKENS, TOKENS, mask=np.ones((2, 2))), errors.DTypeError, "must be bool"),
    "bias": (lambda: nn.dot_product_attention(*[TOKENS.astype("f4")] * 3, bias=np.ones((2, 2))), errors.DTypeError, "does not fit"),
    "mode": (lambda: nn.initializers.variance_scaling(1.0, "fan", "normal"), errors.InvalidConfigError, "fan_avg"),
    "fans": (lambda: nn.initializers.he_normal()(tnf.random.key(0), (3,)), errors.ShapeError, "in_axis"),
    "integers": (lambda: nn.initializers.he_normal()(tnf.random.key(0), (3, 3), "int32"), errors.DTypeError, "makes floats"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_is_wrong(name: str) -> None:
    call, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        call()


LEFT_OUT = {
    "implementation": "there is one",
    "return_residual": "logsumexp of the logits is what it gives",
    "out_sharding": "sharding is said by `xla_peer.partition`",
}
"""Parameters of jax.nn that tenferro's functions lack, each with the reason."""
OURS = {
    "avg_pool",
    "batch_norm",
    "conv",
    "conv_transpose",
    "dropout",
    "layer_norm",
    "max_pool",
    "min_pool",
}
"""Names of `tenferro.nn` that are absent from jax.nn."""


@pytest.mark.parametrize("module", ["nn", "initializers"])
def test_signatures_are_jaxs(module: str) -> None:
    ours, theirs = (nn, jax.nn) if module == "nn" else (nn.initializers, jax.nn.initializers)
    for name in sorted({*ours.__all__} - OURS - {"initializers", "tanh"}):
        here, there = (
            [
                (p.name, p.kind, p.default)
                for p in inspect.signature(getattr(m, name)).parameters.values()
                if p.name not in LEFT_OUT
            ]
            for m in (ours, theirs)
        )
        assert here == there, name


def test_the_module_is_imported_both_ways() -> None:
    assert tenferro.nn is tnf.nn is nn
    assert len(set(nn.__all__)) == len(nn.__all__)
