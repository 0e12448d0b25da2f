"""First and second derivatives of public functions must be right, for real and complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf

INDEX = np.array([2, 0, 0, 1])
BOTH: dict[str, tuple[Any, int]] = {
    "max": (lambda x: tnf.max(x, axis=0), 1),
    "min": (tnf.min, 1),
    "add": (tnf.add, 2),
    "subtract": (tnf.subtract, 2),
    "multiply": (tnf.multiply, 2),
    "divide": (tnf.divide, 2),
    "pow": (tnf.pow, 2),
    "negative": (tnf.negative, 1),
    "abs": (tnf.abs, 1),
    "sign": (tnf.sign, 1),
    "conj": (tnf.conj, 1),
    "real": (tnf.real, 1),
    "imag": (tnf.imag, 1),
    "reciprocal": (tnf.reciprocal, 1),
    "square": (tnf.square, 1),
    "sqrt": (tnf.sqrt, 1),
    "rsqrt": (tnf.rsqrt, 1),
    **{
        n: (getattr(tnf, n), 1)
        for n in [
            "exp",
            "expm1",
            "exp2",
            "log",
            "log1p",
            "log2",
            "log10",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
            "atanh",
            "logistic",
        ]
    },
    "sum": (lambda x: tnf.sum(x, axis=0), 1),
    "mean": (lambda x: tnf.mean(x, axis=1, keepdims=True), 1),
    "var": (lambda x: tnf.var(x, axis=0, correction=1), 1),
    "std": (tnf.std, 1),
    "prod": (lambda x: tnf.prod(x, axis=0), 1),
    "cumsum": (lambda x: tnf.cumulative_sum(x, axis=1), 1),
    "cumprod": (lambda x: tnf.cumulative_prod(x, axis=1, include_initial=True), 1),
    "matmul": (lambda x, y: x @ y.T, 2),
    "tensordot": (lambda x, y: tnf.tensordot(x, y, axes=([0], [0])), 2),
    "vecdot": (lambda x, y: tnf.vecdot(x, y), 2),
    "outer": (lambda x, y: tnf.outer(x[0], y[1]), 2),
    "einsum": (lambda x, y: tnf.einsum("ij,kj->ik", x, y), 2),
    "einsum3": (lambda x, y: tnf.einsum("ij,kj,ki->j", x, y, tnf.einsum("ij,kj->ki", x, y)), 2),
    "einsum diag": (lambda x: tnf.einsum("ii->i", x[:3, :3]), 1),
    "where": (lambda x, y: tnf.where(tnf.real(x) > 0, x * y, y), 2),
    "concat": (lambda x, y: tnf.concat([x, y], axis=1), 2),
    "stack": (lambda x, y: tnf.stack([x, y], axis=1), 2),
    "unstack": (lambda x: tnf.unstack(x)[1] * tnf.unstack(x)[2], 1),
    "flip": (tnf.flip, 1),
    "roll": (lambda x: tnf.roll(x, 2, axis=1), 1),
    "reshape": (lambda x: tnf.reshape(x, (4, 3)), 1),
    "reshapeF": (lambda x: tnf.reshape(x, (4, 3), order="F"), 1),
    "permute": (lambda x: tnf.permute_dims(x, (1, 0)), 1),
    "expand": (lambda x: tnf.expand_dims(x, axis=1), 1),
    "squeeze": (lambda x: tnf.squeeze(x[:, :1], axis=1), 1),
    "tile": (lambda x: tnf.tile(x, (2, 1)), 1),
    "repeat": (lambda x: tnf.repeat(x, 2, axis=1), 1),
    "broadcast": (lambda x: tnf.broadcast_to(x, (2, 3, 4)), 1),
    "pad": (lambda x: tnf.pad(x, ((1, 0), (0, 2))), 1),
    "take": (lambda x: tnf.take(x, INDEX, axis=0), 1),
    "take_along": (lambda x: tnf.take_along_axis(x, np.array([[0, 1, 1, 0]] * 3), axis=1), 1),
    "index": (lambda x: x[1:, ::-2], 1),
    "fancy": (lambda x: x[np.array([0, 2, 2])], 1),
    "fancy2": (lambda x: x[np.array([0, 2]), np.array([1, 1])], 1),
    "tril": (lambda x: tnf.tril(x, k=-1), 1),
    "triu": (tnf.triu, 1),
    "diagonal": (tnf.diagonal, 1),
    "trace": (tnf.trace, 1),
    "moveaxis": (lambda x: tnf.moveaxis(x, 0, 1), 1),
    "split": (lambda x: tnf.split(x, 2, axis=1)[1], 1),
    "diff": (lambda x: tnf.diff(x), 1),
    "angle": (tnf.angle, 1),
    "swapaxes": (lambda x: tnf.swapaxes(x, 0, 1), 1),
    "ravel": (lambda x: tnf.ravel(x), 1),
}
REAL: dict[str, tuple[Any, int]] = {
    "maximum": (tnf.maximum, 2),
    "minimum": (tnf.minimum, 2),
    "atan2": (tnf.atan2, 2),
    "hypot": (tnf.hypot, 2),
    "logaddexp": (tnf.logaddexp, 2),
    "remainder": (tnf.remainder, 2),
    "fmod": (tnf.fmod, 2),
    "copysign": (tnf.copysign, 2),
    "floor_divide": (tnf.floor_divide, 2),
    "clip": (lambda x: tnf.clip(x, -0.5, 0.5), 1),
    "clip2": (lambda x, y: tnf.clip(x, y - 1, y + 1), 2),
    "cbrt": (tnf.cbrt, 1),
    "erf": (tnf.erf, 1),
    "erfc": (tnf.erfc, 1),
    "erfinv": (tnf.erfinv, 1),
    "lgamma": (tnf.lgamma, 1),
    "digamma": (tnf.digamma, 1),
    "polygamma": (lambda x: tnf.polygamma(2, x), 1),
    "sort": (lambda x: tnf.sort(x, axis=0), 1),
    "sortd": (lambda x: tnf.sort(x, axis=1, descending=True), 1),
    "top_k": (lambda x: tnf.top_k(x, 2)[0], 1),
    "logsumexp": (lambda x: tnf.logsumexp(x, axis=1), 1),
    "softmax": (lambda x: tnf.softmax(x, axis=0), 1),
    "log_softmax": (tnf.log_softmax, 1),
    "floor": (tnf.floor, 1),
    "round": (tnf.round, 1),
    "trunc": (tnf.trunc, 1),
    "ceil": (tnf.ceil, 1),
}
POSITIVE = {
    "log",
    "sqrt",
    "rsqrt",
    "pow",
    "log2",
    "log10",
    "asin",
    "acos",
    "atanh",
    "erfinv",
    "lgamma",
    "digamma",
    "polygamma",
    "cbrt",
    "log1p",
}

CASES = [
    pytest.param(name, fn, count, dtype, id=f"{name}-{dtype}")
    for dtype, table in (("f8", {**BOTH, **REAL}), ("c16", BOTH))
    for name, (fn, count) in table.items()
]


@pytest.mark.parametrize(("name", "fn", "count", "dtype"), CASES)
def test_derivatives_to_second_order(name: str, fn: Any, count: int, dtype: str) -> None:
    generator = np.random.default_rng(len(name))
    args: list[Any] = []
    for _ in range(count):
        x: Any = generator.normal(size=(3, 4))
        if dtype == "c16":
            x = x + 1j * generator.normal(size=(3, 4))
            x = x * 0.3 if name in ("atanh", "asin", "acos") else x
        elif name in POSITIVE or name == "acosh":
            x = generator.uniform(0.2, 0.9, (3, 4)) + (1.2 if name == "acosh" else 0)
        args.append(x)
    tnf.check_grads(fn, tuple(args), order=2, rtol=1e-7)


def test_complex_elements_that_tie_share_the_derivative() -> None:
    x = np.array([2 - 1j, 1 + 5j, 2 - 1j, 2 - 3j])
    gradient = tnf.grad(lambda x: tnf.real(tnf.max(x) * (1 - 2j)))(x)
    np.testing.assert_array_equal(gradient, np.array([0.5, 0, 0.5, 0]) * (1 + 2j))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3)])
def test_order_without_elements(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    for axis in range(len(shape)):
        gradient = tnf.grad(lambda x, a=axis: tnf.sum(tnf.sort(x, axis=a)))(x)
        assert gradient.shape == shape
        index = np.zeros([0 if i == axis else n for i, n in enumerate(shape)], int)
        found = tnf.grad(lambda x, i=index, a=axis: tnf.sum(tnf.take_along_axis(x, i, axis=a)))(x)
        assert found.shape == shape
    last = min(1, shape[-1])
    assert tnf.grad(lambda x: tnf.sum(tnf.top_k(x, last)[0]))(x).shape == shape


def test_logsumexp_without_elements() -> None:
    x = np.zeros((3, 0))
    y, y_dot = tnf.jvp(lambda x: tnf.logsumexp(x, axis=1), (x,), (x,))
    np.testing.assert_array_equal(y, np.full(3, -np.inf))
    np.testing.assert_array_equal(y_dot, np.zeros(3))
    gradient = tnf.grad(lambda x: tnf.sum(tnf.exp(tnf.logsumexp(x, axis=1))))(x)
    assert gradient.shape == x.shape


def test_logsumexp_takes_its_exponentials_once() -> None:
    x = np.linspace(-1.0, 2.0, 12).reshape(3, 4)
    program = tnf.compile(tnf.value_and_grad(lambda x: tnf.sum(tnf.logsumexp(x, axis=1) ** 2)), x)
    names = [step.op.name for step in program.instructions]
    assert names.count("Exp") == names.count("ReduceMax") == 1
    value, gradient = program.run(x)
    e = np.exp(x)
    y = np.log(e.sum(1, keepdims=True))
    np.testing.assert_allclose(value, (y**2).sum(), rtol=1e-14)
    np.testing.assert_allclose(gradient, 2 * y * e / e.sum(1, keepdims=True), rtol=1e-13)
