"""Updates `x.at[index]` and segment reductions must equal `jax.numpy`, in every mode for out-of-bounds indices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tests.pairs import in_turn

R = np.random.default_rng(5)
X = R.normal(size=(4, 3, 5))
ROWS, J = np.array([[0, 9, -1], [3, -5, 2]]), np.array([2, -4, 1])

INDICES: list[Any] = [
    (ROWS,), (ROWS, J), (ROWS, slice(None), J), (slice(1, 3), ROWS % 3 + 1), (..., J * 3), (7,), (1, 9), (None, ROWS, ..., 1), (-9, slice(None), 2),
    (ROWS, slice(0, 2)), (slice(None, None, 2), 5),
]  # fmt: skip


def jaxs(call: Any, *arrays: Any) -> Any:
    with jax.enable_x64(True):
        return np.asarray(jax.jit(call)(*arrays))


@in_turn("number", range(len(INDICES)), "mode", ["fill", "clip", "drop"])
def test_reading_outside(number: int, mode: str) -> None:
    index = INDICES[number]
    wanted = jaxs(lambda x: x.at[index].get(mode=mode), X)
    read = lambda x: tnf.at(x)[index].get(mode=mode)
    np.testing.assert_array_equal(read(X), wanted)
    np.testing.assert_array_equal(tnf.compile(read, X).run(X), wanted)


@in_turn(
    "number", range(len(INDICES)), "how", ["drop set", "fill add", "clip max", "drop multiply"]
)
def test_writing_outside(number: int, how: str) -> None:
    mode, name = how.split()
    index = INDICES[number]
    wanted = jaxs(lambda x: getattr(x.at[index], name)(2.0, mode=mode), X)
    write = lambda x: getattr(tnf.at(x)[index], name)(2.0, mode=mode)
    np.testing.assert_array_equal(write(X), wanted)
    np.testing.assert_array_equal(tnf.compile(write, X).run(X), wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "complex64", "bool"])
def test_the_element_outside(dtype: str) -> None:
    x = np.ones(3, dtype)
    wanted = jaxs(lambda x: x.at[np.array([5, 0])].get(mode="fill"), x)
    result = tnf.at(x)[np.array([5, 0])].get(mode="fill")
    assert result.dtype == wanted.dtype
    np.testing.assert_array_equal(result, wanted)
    filled = tnf.at(np.zeros((0, 2)))[np.array([0, 3])].get(mode="fill", fill_value=7)
    np.testing.assert_array_equal(filled, np.full((2, 2), 7.0))


def test_traced_indices_and_derivatives() -> None:
    f = lambda x, i: (x.at[i].get(mode="fill", fill_value=1.0) ** 2).sum()
    ours = tnf.grad(f)(X[0], J)
    np.testing.assert_allclose(ours, jaxs(jax.grad(f), X[0], J))
    applied = tnf.at(X)[J].apply(np.square, mode="drop")
    np.testing.assert_array_equal(applied, jaxs(lambda x: x.at[J].apply(jnp.square), X))


@pytest.mark.parametrize("name", ["divide", "power", "subtract", "multiply"])
@pytest.mark.parametrize("mode", [None, "clip", "drop"])
def test_repeated_elements_take_all_of_their_values(name: str, mode: str | None) -> None:
    x, rows, values = np.arange(1.0, 7.0).reshape(3, 2), np.array([2, 0, 2]), np.array([[2.0], [4.0], [3.0]])  # fmt: skip
    wanted = x.copy()
    getattr(np, name).at(wanted, rows, values)
    np.testing.assert_array_equal(getattr(tnf.at(x)[rows], name)(values, mode=mode), wanted)
    loss = lambda x: getattr(x.at[rows], name)(values, mode=mode).sum()
    np.testing.assert_allclose(tnf.grad(loss)(x), jaxs(jax.grad(loss), x))


def test_values_have_the_shape_of_the_selected_elements() -> None:
    x, index = np.arange(1.0, 6.0), np.array([3, 3, 0])
    for name in ("divide", "power", "multiply"):
        wanted = x.copy()
        getattr(np, name).at(wanted, index, [2.0, 3.0, 4.0])
        np.testing.assert_array_equal(getattr(tnf.at(x)[index], name)([2.0, 3.0, 4.0]), wanted)


def test_what_is_refused() -> None:
    for name in ("segment_max", "segment_min"):
        with pytest.raises(errors.DTypeError, match="complex"):
            getattr(tnf, name)(np.array([1j, 2.0]), np.array([0, 0]))
    with pytest.raises(errors.InvalidConfigError, match="mode must be one of"):
        tnf.at(X)[0].get(mode="wrap")
    with pytest.raises(errors.InvalidConfigError, match='needs mode="fill"'):
        tnf.at(X)[0].get(fill_value=1.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'moed'"):
        tnf.at(X)[0].set(1.0, moed="drop")


@pytest.mark.parametrize("name", ["segment_sum", "segment_prod", "segment_max", "segment_min"])
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_segments(name: str, dtype: str) -> None:
    data = (R.normal(size=(6, 2)) * 5).astype(dtype)
    ids = np.array([0, 4, 4, 1, -1, 9])
    for count in (None, 5, 0):
        with jax.enable_x64(True):
            wanted = np.asarray(getattr(jax.ops, name)(data, ids, count))
        result = getattr(tnf, name)(data, ids, count)
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result, wanted)
    program = tnf.compile(lambda d, i: getattr(tnf, name)(d, i, 5), data, ids)
    np.testing.assert_allclose(
        program.run(data, ids), jaxs(lambda d, i: getattr(jax.ops, name)(d, i, 5), data, ids)
    )
    with pytest.raises(errors.DataDependentShapeError, match="num_segments"):
        tnf.compile(lambda i: getattr(tnf, name)(data, i), ids)
    with pytest.raises(errors.ShapeError, match="do not fit"):
        getattr(tnf, name)(data, ids[:3])
