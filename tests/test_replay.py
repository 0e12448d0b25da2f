"""Programs may be called from functions that are traced, differentiated or compiled."""

from __future__ import annotations

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors


def test_a_program_inside_a_program() -> None:
    inner = tnf.compile(
        lambda p, x: {"y": tnf.sin(p["w"] * x), "n": tnf.sum(x)},
        {"w": tnf.TensorSpec((), "f8")},
        tnf.TensorSpec((3,), "f8"),
    )
    x = np.arange(3.0)
    outer = tnf.compile(lambda w, x: inner({"w": w * 2}, x)["y"] + 1, np.float64(0.5), x)
    np.testing.assert_allclose(outer.run(0.5, x), np.sin(x) + 1)
    assert not any(i.op.name == "ReduceSum" for i in outer.instructions)


def test_its_gradient_is_that_of_what_it_computes() -> None:
    x = np.array([0.3, -0.7, 1.1])
    program = tnf.compile(lambda x: tnf.sum(tnf.exp(x) * x), x)
    np.testing.assert_allclose(tnf.grad(program)(x), np.exp(x) * (x + 1))


def test_symbols_are_bound_to_what_it_is_called_with() -> None:
    program = tnf.compile(lambda x: tnf.mean(x), tnf.TensorSpec(("n",), "f8"))
    grad = tnf.grad(program)
    np.testing.assert_allclose(grad(np.ones(4)), np.full(4, 0.25))
    again = tnf.compile(lambda x: program(x * 2), tnf.TensorSpec(("m",), "f8"))
    np.testing.assert_allclose(again.run(np.arange(5.0)), 4.0)


def test_what_does_not_fit() -> None:
    program = tnf.compile(lambda x: x, tnf.TensorSpec((2,), "f8"))
    for spec, error in [
        (tnf.TensorSpec((3,), "f8"), errors.ShapeError),
        (tnf.TensorSpec((2,), "f4"), errors.DTypeError),
    ]:
        with pytest.raises(error, match="x"):
            tnf.compile(lambda x: program(x), spec)
    with pytest.raises(errors.ArityError):
        tnf.compile(lambda x: program(x, x), tnf.TensorSpec((2,), "f8"))
