"""A program may be called inside a trace. The symbols of the program and of the trace must be related."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro.errors import DTypeError, GuardError, ShapeError

S = tnf.TensorSpec
X = np.arange(6.0).reshape(2, 3)


def test_symbols_of_the_program_are_extents_of_the_trace() -> None:
    inner = tnf.compile(lambda a: tnf.sum(a, axis=0) + 1.0, S(("n", 3), "float64"))
    for spec, x in ((S(("m", 3), "float64"), X), (S((2, 3), "float64"), X)):
        outer = tnf.compile(lambda x: inner.run(x * 2.0), spec)
        assert np.array_equal(outer.run(x), inner.run(x * 2))
    twice = tnf.compile(lambda x: inner.run(tnf.concat([x, x])), S(("n", 3), "float64"))
    assert twice.output_specs == (S((3,), "float64"),)
    assert np.array_equal(twice.run(X), inner.run(np.concatenate([X, X])))


def test_one_symbol_in_two_arguments() -> None:
    add = tnf.compile(lambda a, b: a + b, S(("n",), "float64"), S(("n",), "float64"))
    same = tnf.compile(lambda x, y: add.run(x, y), S(("m",), "float64"), S(("m",), "float64"))
    assert not same.guards
    assert same.run(np.ones(4), np.ones(4)).tolist() == [2] * 4
    other = tnf.compile(lambda x, y: add.run(x, y), S(("m",), "float64"), S(("k",), "float64"))
    assert other.run(np.ones(4), np.ones(4)).tolist() == [2] * 4
    with pytest.raises(GuardError, match="needs"):
        other.run(np.ones(4), np.ones(3))
    number = tnf.compile(lambda a: a * 2.0, S((3,), "float64"))
    held = tnf.compile(lambda x: number.run(x), S(("m",), "float64"))
    assert held.run(np.ones(3)).tolist() == [2] * 3
    with pytest.raises(GuardError, match="needs m == 3"):
        held.run(np.ones(4))
    with pytest.raises(ShapeError, match="extent 3, got 4"):
        tnf.compile(lambda x: number.run(x), S((4,), "float64"))


def test_extents_that_are_computed() -> None:
    inner = tnf.compile(
        lambda a, b: (a[1:], tnf.sum(b)), S(("n*2+1",), "float64"), S(("n",), "float64")
    )
    outer = tnf.compile(
        lambda x, y: inner.run(x, y), S(("m*2+1",), "float64"), S(("m",), "float64")
    )
    assert [y.tolist() for y in outer.run(np.arange(5.0), np.ones(2))] == [[1, 2, 3, 4], 2]
    with pytest.raises(ShapeError, match="no other extent determines"):
        tnf.compile(
            lambda x: tnf.compile(lambda a: a, S(("n*2",), "float64")).run(x), S(("m",), "float64")
        )


def test_guards_of_the_program_hold_in_the_trace() -> None:
    inner = tnf.compile(lambda a, b: a + b, S(("n",), "float64"), S(("k",), "float64"))
    assert inner.guards
    outer = tnf.compile(lambda x, y: inner.run(x, y), S(("p",), "float64"), S(("q",), "float64"))
    assert outer.run(np.ones(2), np.ones(2)).tolist() == [2, 2]
    with pytest.raises(GuardError):
        outer.run(np.ones(2), np.ones(3))
    with pytest.raises(GuardError):
        tnf.compile(lambda x, y: inner.run(x, y), np.ones(2), np.ones(3))


def test_constants_stay_broadcast() -> None:
    inner = tnf.compile(lambda x: tnf.sum(0.5 * x**2), np.ones((300, 300)))
    gradient = tnf.compile(tnf.grad(inner.run), np.ones((300, 300)))
    sizes = [i.op.array.size for i in gradient.instructions if hasattr(i.op, "array")]
    assert max(sizes) == 1


def test_derivatives_of_symbolic_losses_are_exported(tmp_path: Any) -> None:
    def loss(x: Any, y: Any) -> Any:
        return tnf.mean((x - y) ** 2)

    specs = S(("b", 2), "float64"), S(("b", 2), "float64")
    xla_peer.export(loss, *specs, path=tmp_path / "loss.mlirbc", gradient=True)
    x, y = np.ones((4, 2)), np.zeros((4, 2))
    program = tnf.compile(loss, *specs)
    for batch in (1, 4):
        expected = 2 * (x - y)[:batch] / (2 * batch)
        gradient = tnf.compile(tnf.grad(program.run), *specs).run(x[:batch], y[:batch])
        np.testing.assert_allclose(gradient, expected)
    artifact = xla_peer.load(tmp_path / "loss.mlirbc")
    assert artifact.run(x, y) == loss(x, y)


def test_indices_of_a_symbolic_batch(tmp_path: Any) -> None:
    def loss(w: Any, x: Any) -> Any:
        return tnf.mean(w[x])

    specs = S((3, 2), "float64"), S(("b",), "int64")
    xla_peer.export(loss, *specs, path=tmp_path / "loss.mlirbc", gradient=True)
    program = tnf.compile(tnf.grad(tnf.compile(loss, *specs).run), *specs)
    w, x = np.ones((3, 2)), np.array([0, 2, 2, 0])
    np.testing.assert_allclose(program.run(w, x), [[0.25, 0.25], [0, 0], [0.25, 0.25]])


def test_programs_are_exported_for_trees_as_run_takes_them() -> None:
    program = tnf.compile(
        lambda p, x: x @ p["w"], {"w": S((2, "n"), "float64")}, S(("b", 2), "float64")
    )
    tree, x = {"w": np.ones((2, 3))}, np.ones((4, 2))
    assert xla_peer.export_for_jax(program, tree, x)
    assert program.specialize_to((tree, x)).run(tree, x).tolist() == program.run(tree, x).tolist()
    with pytest.raises(DTypeError, match="x: expected f64"):
        program.specialize_to((tree, x.astype("float32")))


def test_saved_programs_compose(tmp_path: Any) -> None:
    tnf.save(tnf.compile(lambda a: a + 1.0, S(("n",), "float64")), tmp_path / "p.tnf")
    again = tnf.load(tmp_path / "p.tnf")
    twice = tnf.compile(lambda x: again.run(again.run(x)), S(("n",), "float64"))
    assert twice.run(np.zeros(3)).tolist() == [2] * 3
    x = tnf.EagerRuntime().variable(np.ones(3))
    tnf.sum(again.run(x)).backward()
    assert x.grad.tolist() == [1] * 3
