"""Creation functions must accept tensors as bounds, fill values and elements.

Values, dtypes and gradients must be right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors

RT = tnf.EagerRuntime()
BOUNDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "floats": (np.float64(1.5), np.float64(2.0), {}), "float32": (np.float32(0.1), np.float32(-7), {}),
    "number beside float32": (np.float32(0.1), 3.0, {}), "integers": (np.int32(-3), np.int64(4), {}),
    "open": (np.float64(-1), np.float64(2), {"endpoint": False}), "rounded down": (np.float64(-2.5), 2, {"dtype": "int64"}),
    "narrow": (np.float16(0), np.float16(1), {}), "complex": (np.complex64(1j), np.complex64(2), {}),
    "wide": (np.float32(0), np.float32(1), {"dtype": "float64"}), "vectors": (np.arange(3.0), np.arange(3.0) * 7, {}),
    "matrix and row": (np.ones((2, 3)), np.arange(3.0), {"endpoint": False}), "still": (np.float64(2), np.float64(2), {}),
}  # fmt: skip


@pytest.mark.parametrize("num", [0, 1, 2, 5])
@pytest.mark.parametrize("name", BOUNDS)
def test_linspace_of_tensors_is_numpys(name: str, num: int) -> None:
    start, stop, options = BOUNDS[name]
    wanted = np.linspace(start, stop, num, **options)

    def points(a: Any, b: Any) -> Any:
        return tnf.linspace(a, b, num, **options)

    runs = [points(start, stop), tnf.compile(lambda a: points(a, stop), start).run(start)]
    if not isinstance(stop, int | float) or isinstance(stop, np.generic):
        runs.append(tnf.compile(lambda b: points(start, b), stop).run(stop))
        runs.append(points(RT.constant(start), RT.constant(stop)).numpy())
    for y in runs:
        assert y.dtype == wanted.dtype
        assert y.shape == wanted.shape
        # If a step is zero, NumPy divides before it multiplies. The last bit may therefore differ from tenferro's.
        np.testing.assert_allclose(y, wanted, rtol=4e-16 if name == "matrix and row" else 0)


def test_linspace_has_gradients() -> None:
    weights = np.array([1.0, 10.0, 100.0, 1000.0, 1e4])

    def loss(a: Any, b: Any) -> Any:
        return tnf.sum(weights * tnf.linspace(a, b, 5))

    share = np.arange(5) / 4
    wanted = np.sum(weights * (1 - share)), np.sum(weights * share)
    np.testing.assert_allclose(tnf.grad(loss, argnums=(0, 1))(1.0, 2.0), wanted)
    a, b = RT.variable(1.0), RT.variable(2.0)
    loss(a, b).backward()
    np.testing.assert_allclose((a.grad, b.grad), wanted)
    tnf.check_grads(
        lambda a, b: tnf.linspace(a, b, 4, endpoint=False), (np.ones(2), np.zeros(2)), order=2
    )
    program = tnf.compile(tnf.grad(loss, argnums=(0, 1)), 1.0, 2.0)
    np.testing.assert_allclose(xla_peer.XlaExecutor().run(program, 1.0, 2.0), wanted)
    with pytest.raises(errors.InvalidConfigError, match="num must be at least 0"):
        tnf.linspace(0.0, 1.0, -1)
    with pytest.raises(errors.ConcretizationError):
        tnf.compile(lambda n: tnf.linspace(0.0, 1.0, n), np.array(3))


def test_integers_of_linspace_are_rounded_down() -> None:
    result = tnf.linspace(-1, 1, 5, dtype="int8")
    np.testing.assert_array_equal(result, np.linspace(-1, 1, 5, dtype="int8"))
    assert result.dtype == np.int8


@pytest.mark.parametrize("bounds", [(5,), (1, 4), (0.5, 3.0), (0.1, 1.0, 0.1), (3, -2, -1), (2, 2)])
def test_arange_of_eager_tensors_is_numpys(bounds: tuple[Any, ...]) -> None:
    wanted = np.arange(*bounds)
    result = tnf.arange(*map(RT.constant, bounds))
    assert result.dtype == wanted.dtype
    np.testing.assert_array_equal(result, wanted)


def test_arange_has_gradients_and_needs_a_known_shape() -> None:
    start, stop, step = RT.variable(0.5), RT.variable(3.0), RT.variable(0.75)
    tnf.sum(tnf.arange(start, stop, step)).backward()
    assert start.grad == 4.0
    assert step.grad == 0.0 + 1.0 + 2.0 + 3.0
    assert stop.grad is None
    for bounds in (lambda n: (n,), lambda n: (0, n), lambda n: (n, 3), lambda n: (0, 3, n)):
        with pytest.raises(errors.DataDependentShapeError, match="arange"):
            tnf.compile(lambda n, b=bounds: tnf.arange(*b(n)), np.array(2))
    with pytest.raises(errors.InvalidConfigError, match="not be zero"):
        tnf.arange(0, 3, RT.constant(0))


SEQUENCES: dict[str, Any] = {
    "add": lambda a: tnf.add([a, 1.0, 2.0], np.ones(3)), "sum": lambda a: tnf.sum([a, 2 * a]),
    "nested": lambda a: tnf.linalg.det([[a, 1.0], [1.0, (a * 3)]]), "concat": lambda a: tnf.concat([[a], [1.0, a]]),
    "tuples": lambda a: tnf.matmul((a, 2.0), np.array([3.0, 4.0])), "prepend": lambda a: tnf.diff(np.ones(2), prepend=[a]),
    "where": lambda a: tnf.where([True, False], [a, a], 0.0), "full": lambda a: tnf.full((2,), [a, 2.0]),
    "arrays beside": lambda a: tnf.exp([np.array([1.0, 2.0]), a * np.ones(2)]), "mean": lambda a: tnf.mean([a, a * a]),
}  # fmt: skip


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_of_tensors_are_tensors(name: str) -> None:
    function = SEQUENCES[name]
    wanted = function(1.5)
    slope = tnf.jvp(lambda a: tnf.sum(function(a)), (1.5,), (1.0,))[1]
    difference = (np.sum(function(1.5 + 1e-6)) - np.sum(function(1.5 - 1e-6))) / 2e-6
    np.testing.assert_allclose(tnf.jit(function)(1.5), wanted)
    np.testing.assert_allclose(slope, difference, rtol=1e-8)
    a = RT.variable(1.5)
    result = function(a)
    assert result.is_tracked
    np.testing.assert_allclose(result.numpy(), wanted)
    tnf.sum(result).backward()
    np.testing.assert_allclose(a.grad, slope)


def test_a_tensor_of_a_trace_is_not_exported() -> None:
    with pytest.raises(errors.ConcretizationError, match="DLPack"):
        tnf.compile(lambda x: tnf.from_dlpack(x), np.ones(2))


UNFIT: dict[str, Any] = {
    "full": lambda u: tnf.full((2,), 300, dtype=u.dtype), "full below": lambda u: tnf.full((2,), -1, dtype="uint8"),
    "full of NaN": lambda u: tnf.full((2,), np.nan, dtype="int32"), "full of inf": lambda u: tnf.full((), -np.inf, dtype="int32"),
    "full of complex": lambda u: tnf.full((2,), 1j, dtype="float32"), "full of many": lambda u: tnf.full((2,), [300, 1], dtype="uint8"),
    "full_like": lambda u: tnf.full_like(u, 300), "lax.full": lambda u: tnf.lax.full((2,), 300, "uint8"),
    "lax.full_like": lambda u: tnf.lax.full_like(u, 300), "asarray": lambda u: tnf.asarray(300, "uint8"),
    "arange": lambda u: tnf.arange(257, dtype="uint8"), "arange below": lambda u: tnf.arange(-1, 3, dtype="uint8"),
    "arange down": lambda u: tnf.arange(3, -2, -1, dtype="uint8"), "pad": lambda u: tnf.pad(u, 1, constant_values=300),
    "pad by sides": lambda u: tnf.pad(u, 1, constant_values=(300, 0)), "pad ramp": lambda u: tnf.pad(u, 1, "linear_ramp", end_values=300),
    "where": lambda u: tnf.where(u > 0, u, 300), "at": lambda u: tnf.at(u)[0].set(300), "at sub": lambda u: tnf.at(u)[0].subtract(300),
    "initial": lambda u: tnf.max(u, initial=300), "select": lambda u: tnf.select([u > 0], [u], 300),
    "number": lambda u: u + 300, "NaN beside integers": lambda u: tnf.sum(u, initial=np.nan),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_python_numbers_that_do_not_fit_are_refused(name: str) -> None:
    u = np.arange(3, dtype="uint8")
    for call in (lambda: UNFIT[name](RT.constant(u)), lambda: tnf.compile(UNFIT[name], u)):
        with pytest.raises(errors.DTypeError):
            call()


def test_numbers_at_the_limits_of_a_dtype_fit() -> None:
    np.testing.assert_array_equal(tnf.full((2,), 255, "u1"), np.full((2,), 255, "u1"), strict=True)
    np.testing.assert_array_equal(
        tnf.arange(256, dtype="u1"), np.arange(256, dtype="u1"), strict=True
    )
    np.testing.assert_array_equal(
        tnf.arange(300, 300, dtype="u1"), np.arange(0, dtype="u1"), strict=True
    )
    np.testing.assert_array_equal(
        tnf.arange(2.5, dtype="u1"), np.arange(3, dtype="u1"), strict=True
    )
    np.testing.assert_array_equal(tnf.full((2,), 2.0, "i4"), np.full((2,), 2, "i4"), strict=True)
    assert tnf.full((), np.int64(300), "u1") == 44
