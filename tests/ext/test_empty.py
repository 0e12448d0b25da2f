"""Linear algebra of matrices without elements and of empty batches must have right values and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import linalg

Function = Callable[[Any], Any]

SQUARE: dict[str, Function] = {
    "cholesky": linalg.cholesky,
    "det": linalg.det,
    "eigh": lambda a: linalg.eigh(a)[0],
    "eigvalsh": linalg.eigvalsh,
    "inv": linalg.inv,
    "lu": lambda a: linalg.lu(a)[2],
    "lu_factor": lambda a: linalg.lu_factor(a)[0],
    "matrix_power": lambda a: linalg.matrix_power(a, 3),
    "qr": lambda a: linalg.qr(a)[1],
    "slogdet": lambda a: linalg.slogdet(a)[1],
    "solve": lambda a: linalg.solve(a, tnf.zeros_like(a)),
    "solve_triangular": lambda a: linalg.solve_triangular(a, tnf.zeros_like(a)),
    "svdvals": linalg.svdvals,
}
SHAPES = [(0, 0), (0, 3, 3), (2, 0, 0), (0, 0, 0), (0, 64, 64), (0, 130, 130), (2, 0, 5, 5)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", SQUARE)
def test_square_matrices(name: str, shape: tuple[int, ...]) -> None:
    fn, a = SQUARE[name], np.zeros(shape)

    def loss(a: Any) -> Any:
        return tnf.sum(tnf.square(fn(a)))

    value, gradient = tnf.value_and_grad(loss)(a)
    assert value == (np.prod(shape[:-2]) if name == "det" else 0)
    assert gradient.shape == shape
    (tangent,) = (tnf.jvp(fn, (a,), (a,))[1],)
    assert tangent.shape == fn(a).shape
    assert tnf.hvp(loss, (a,), (a,)).shape == shape


@pytest.mark.parametrize("name", SQUARE)
def test_a_symbolic_batch_may_be_empty(name: str) -> None:
    fn = SQUARE[name]
    gradient = tnf.compile(
        tnf.grad(lambda a: tnf.sum(fn(a))), tnf.TensorSpec(("n", 3, 3), "float64")
    )
    for n in (2, 0):
        assert gradient.run(np.broadcast_to(np.eye(3), (n, 3, 3)).copy()).shape == (n, 3, 3)


def test_taking_nothing_has_derivatives() -> None:
    x, none = np.zeros((0, 3)), np.zeros(0, int)
    for fn in (
        lambda x: tnf.take_along_axis(x, np.zeros((0, 3), int), axis=0),
        lambda x: tnf.sort(x, axis=0),
        lambda x: tnf.sort(x, axis=1),
        lambda x: x.at[none].set(1.0),
        lambda x: x.at[none].multiply(2.0),
        lambda x: tnf.take(x, none, axis=0),
    ):
        assert tnf.grad(lambda x, fn=fn: tnf.sum(tnf.square(fn(x))))(x).shape == (0, 3)
        y, y_dot = tnf.jvp(fn, (x,), (x,))
        assert y.shape == y_dot.shape
