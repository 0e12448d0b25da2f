"""`clip` with one bound or two must have NumPy's values, and the derivative zero at a bound."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenferro as tnf
import xla_peer

INF, NAN = np.inf, np.nan
BOUNDS: dict[str, tuple[Any, Any]] = {
    "lower": (0.5, None), "upper": (None, 0.5), "both": (-0.5, 0.5), "crossed": (1.0, -1.0),
    "infinite lower": (INF, None), "infinite upper": (None, -INF), "wide": (-INF, INF),
    "nan lower": (NAN, None), "nan upper": (None, NAN), "zero": (0.0, None), "zero above": (None, 0.0),
}  # fmt: skip
FLOATS = ["float16", "bfloat16", "float32", "float64"]
SPECIAL = [-INF, -2.0, -0.5, -0.0, 0.0, 0.25, 0.5, 2.0, INF, NAN]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bounds", BOUNDS)
def test_values_of_floats_are_numpys(dtype: str, bounds: str) -> None:
    low, high = BOUNDS[bounds]
    x = np.array(SPECIAL).astype(dtype if dtype != "bfloat16" else ml_dtypes.bfloat16)
    wanted = np.clip(x.astype(np.float64), low, high)
    program = tnf.compile(lambda x: tnf.clip(x, low, high), x)
    eager = tnf.clip(tnf.EagerRuntime().constant(x), low, high)
    for y in (tnf.clip(x, low, high), program.run(x), eager.numpy()):
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y.astype(np.float64), wanted)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64", "bool"])
@pytest.mark.parametrize("bounds", [(1, None), (None, 1), (0, 1), (None, None)])
def test_values_of_integers_are_numpys(dtype: str, bounds: tuple[Any, Any]) -> None:
    low, high = (bool(b) if dtype == "bool" and b is not None else b for b in bounds)
    limits = [0, 1] if dtype == "bool" else [*(np.iinfo(dtype).min, np.iinfo(dtype).max), 0, 1, 2]
    x = np.array(limits, dtype)
    wanted = x if low is high is None else np.clip(x, low, high)
    for y in (tnf.clip(x, low, high), tnf.jit(lambda x: tnf.clip(x, low, high))(x)):
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("how", ["jit", "eager", "peer"])
def test_the_derivative_is_zero_at_a_bound(how: str) -> None:
    x = np.array([-INF, -1.0, 0.0, 0.5, 1.0, 3.0, INF])
    cases = [
        ({"min": 0.0}, [0, 0, 0, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0, 0]),
        ({"max": 1.0}, [1, 1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1, 1]),
        ({"min": 0.0, "max": 1.0}, [0, 0, 0, 1, 0, 0, 0], None),
    ]  # fmt: skip
    for options, of_x, of_bound in cases:
        bound = np.full(7, next(iter(options.values())))
        if how == "eager":
            rt = tnf.EagerRuntime()
            v, b = rt.variable(x), rt.variable(bound)
            tnf.sum(
                tnf.clip(v, **(options if of_bound is None else dict.fromkeys(options, b)))
            ).backward()
            result = v.grad, b.grad
        else:
            executor = xla_peer.XlaExecutor() if how == "peer" else None

            def loss(
                x: Any, b: Any, options: Any = options, one: bool = of_bound is not None
            ) -> Any:
                return tnf.sum(tnf.clip(x, **(dict.fromkeys(options, b) if one else options)))

            result = tnf.jit(tnf.grad(loss, argnums=(0, 1)), executor=executor)(x, bound)
        assert np.asarray(result[0]).tolist() == of_x
        if of_bound is not None:
            assert np.asarray(result[1]).tolist() == of_bound


def test_bounds_broadcast_and_shapes_may_be_symbols() -> None:
    x, low = np.arange(6.0).reshape(2, 3), np.array([[1.0], [4.0]])
    for y in (tnf.clip(x, low), tnf.jit(lambda x, low: tnf.clip(x, low))(x, low)):
        np.testing.assert_array_equal(y, np.clip(x, low, None))
    column = tnf.clip(x[0], max=low)
    assert column.shape == (2, 3)
    np.testing.assert_array_equal(column, np.clip(x[0], None, low))
    spec = tnf.TensorSpec(("n", 3), "float64")
    program = tnf.compile(lambda x: (tnf.clip(x, 1.0), tnf.clip(x, max=x[:1])), spec)
    result = program.run(x)
    np.testing.assert_array_equal(result[0], np.clip(x, 1.0, None))
    np.testing.assert_array_equal(result[1], np.clip(x, None, x[:1]))


def test_peers_agree_on_one_bound() -> None:
    x = np.array(SPECIAL, np.float32)

    def both(x: Any) -> Any:
        return tnf.clip(x, 0.0), tnf.clip(x, max=0.0), tnf.clip(tnf.astype(x > 0, "int8"), 1)

    native, peer = tnf.compile(both, x).run(x), xla_peer.XlaExecutor().run(tnf.compile(both, x), x)
    for y, z in zip(native, peer, strict=True):
        assert y.dtype == z.dtype
        np.testing.assert_array_equal(y, z)
        np.testing.assert_array_equal(np.signbit(y), np.signbit(z))


def test_signs_of_zeros_in_buffers_are_those_of_the_kernel() -> None:
    x = np.tile(np.array([-0.0, 0.0, -1.0, 1.0, NAN]), 20_000)
    low, high = (
        np.tile(np.array([0.0, -0.0]), 50_000),
        np.tile(np.array([0.0, -0.0, 1.0, -0.0]), 25_000),
    )
    program = tnf.compile(lambda x, low, high: 2.0 * tnf.clip(x * 1.0, low, high), x, low, high)
    wanted = 2.0 * tnf.clip(x, low, high)
    for _ in range(3):
        result = program.run(x, low, high)
        np.testing.assert_array_equal(result, wanted)
        np.testing.assert_array_equal(np.signbit(result), np.signbit(wanted))
