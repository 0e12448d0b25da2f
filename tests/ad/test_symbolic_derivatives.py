"""Programs with symbolic extents must have the same derivatives as programs with static extents.

Some rules differ between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf

N, M = tnf.SymDim("n"), tnf.SymDim("m")
RNG = np.random.default_rng(11)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "prod": lambda x: tnf.prod(x, 0),
    "prod of columns": lambda x: tnf.prod(x, 1),
    "prod of all": tnf.prod,
    "sum": lambda x: tnf.sum(x * x, 0),
    "mean": lambda x: tnf.mean(x * x, 1),
    "var": lambda x: tnf.var(x, 0),
    "std": lambda x: tnf.std(x, 1),
    "max": lambda x: tnf.max(x, 0),
    "min": lambda x: tnf.min(x * x, 1),
    "cumsum": lambda x: tnf.cumsum(x * x, 0),
    "cumprod": lambda x: tnf.cumprod(x, 0),
    "cumprod of columns": lambda x: tnf.cumprod(x, 1),
    "running maximum": lambda x: tnf.lax.cummax(x, 0),
    "running minimum": lambda x: tnf.lax.cummin(x * x, 1, reverse=True),
    "logsumexp": lambda x: tnf.special.logsumexp(x, 0),
    "softmax": lambda x: tnf.nn.softmax(x, -1),
    "sort": lambda x: tnf.sort(x * x, 0),
    "flip": lambda x: tnf.flip(x * x, 0),
    "transpose": lambda x: x.T @ x,
    "gram": lambda x: x @ x.T,
    "einsum": lambda x: tnf.einsum("ij,kj->i", x, x * x),
    "concatenate": lambda x: tnf.concatenate([x * x, x], 0),
    "pad": lambda x: tnf.pad(x * x, ((1, 2), (0, 1))),
    "diff": lambda x: tnf.diff(x * x, axis=0),
    "slices": lambda x: x[1:] * x[:-1],
    "strides": lambda x: x[::2] ** 3,
    "one row": lambda x: x[-1] * x[0],
    "taken": lambda x: tnf.take(x * x, np.array([1, 0, 1]), 0),
    "reshape": lambda x: tnf.reshape(x * x, (-1,)),
    "broadcast": lambda x: x[:, :1] * x[:1],
    "stack": lambda x: tnf.stack([x * x, tnf.sin(x)], -1),
    "norm": lambda x: tnf.linalg.norm(x, axis=0),
    "where": lambda x: tnf.where(x > 0, x**3, x * x),
    "scan": lambda x: tnf.scan(lambda c, row: (c * row, c + row), tnf.ones_like(x[0]), x),
}
V = RNG.normal(size=(5, 4))
LEVELS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: lambda x, v: f(x),
    "forward": lambda f: lambda x, v: tnf.jvp(f, (x,), (v,)),
    "reverse": lambda f: lambda x, v: tnf.grad(f)(x),
    "forward over reverse": lambda f: lambda x, v: tnf.jvp(tnf.grad(f), (x,), (v,)),
    "reverse over reverse": lambda f: tnf.grad(lambda x, v: tnf.sum(tnf.grad(f)(x) * v)),
}
POINTS = {"usual": RNG.normal(size=(5, 4)), "with zeros": RNG.normal(size=(5, 4))}
POINTS["with zeros"][[1, 3, 3], [2, 0, 1]] = 0.0


def weighted(fn: Callable[[Any], Any], x: Any) -> Any:
    """Return a weighted sum of the results of fn(x) whose gradient is different for every element."""
    return sum(tnf.sum(tnf.cos(1.0 + y) * y) for y in tnf.types.flatten(fn(x))[0])


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_symbols_and_numbers_have_the_same_derivatives(name: str, level: str, point: str) -> None:
    x = POINTS[point]
    if point == "with zeros" and name in ("norm", "std"):
        x = x + 3.0  # because norm and std have no derivative at zero
    derivative = LEVELS[level](lambda x: weighted(FUNCTIONS[name], x))
    spec = tnf.TensorSpec((N, M), "float64")
    static = tnf.compile(derivative, x, V).run(x, V)
    symbolic = tnf.compile(derivative, spec, spec).run(x, V)
    for y, z in zip(tnf.types.flatten(symbolic)[0], tnf.types.flatten(static)[0], strict=True):
        assert y.shape == z.shape
        np.testing.assert_allclose(y, z, rtol=1e-10, atol=1e-10)


SEVERAL = RNG.normal(size=(3, 5, 4))
BATCHES: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "reverse": lambda f: tnf.grad(lambda x: weighted(f, x)),
    "forward": lambda f: lambda x: tnf.jvp(f, (x,), (tnf.cos(x),)),
}


@pytest.mark.parametrize("number", [3, "b"])
@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches_of_symbols_are_those_of_each(name: str, kind: str, number: Any) -> None:
    """Each slice of the result of a batch must equal the result for this slice alone.

    The batch has symbolic extents; the function of one slice is compiled with static extents.
    """
    fn = BATCHES[kind](FUNCTIONS[name])
    extent = number if isinstance(number, int) else tnf.SymDim(number)
    spec = tnf.TensorSpec((extent, N, M), "float64")
    batch = tnf.types.flatten(tnf.compile(tnf.vmap(fn), spec).run(SEVERAL))[0]
    program = tnf.compile(fn, SEVERAL[0])
    for i, x in enumerate(SEVERAL):
        for y, z in zip(batch, tnf.types.flatten(program.run(x))[0], strict=True):
            np.testing.assert_allclose(y[i], z, rtol=1e-10, atol=1e-10)
