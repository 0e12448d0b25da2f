"""Whole programs run on PyTorch's tensors, and call no NumPy kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from tenferro_torch import TORCH
from tenferro_torch.memory import download, upload

import tenferro as tnf
from tenferro.errors import UnsupportedError
from tenferro.exec.kernels import KERNELS
from tenferro.exec.kernels.kernel import Kernel

GENERATOR = np.random.default_rng(0)
X, T = GENERATOR.normal(size=(5, 4)), GENERATOR.normal(size=(5, 2))
W1, B1 = GENERATOR.normal(size=(4, 3)), GENERATOR.normal(size=3)
W2, B2 = GENERATOR.normal(size=(3, 2)), GENERATOR.normal(size=2)
PARAMETERS = (W1, B1, W2, B2)


@contextmanager
def no_numpy_kernel() -> Iterator[None]:
    """Make every NumPy kernel raise if it is called, bound, or given the sub-programs of a loop."""

    def forbidden(self: Any, *args: Any) -> Any:
        raise AssertionError("NumPy's kernel is used")

    with pytest.MonkeyPatch.context() as patch:
        for kind in {type(kernel) for kernel in KERNELS.values()}:
            for method in ("__call__", "bind", "bind_programs"):
                if hasattr(kind, method):
                    patch.setattr(kind, method, forbidden)
        yield


def run(program: Any, *arguments: Any) -> Any:
    """Run a program by PyTorch alone; constants were computed while tracing, by any backend."""
    with no_numpy_kernel():
        return tnf.GraphExecutor("K", backend=TORCH).run(program, *arguments)


def loss(parameters: Any, x: Any, t: Any) -> Any:
    """Return the mean squared error of a network of two layers."""
    w1, b1, w2, b2 = parameters
    return tnf.mean((tnf.tanh(x @ w1 + b1) @ w2 + b2 - t) ** 2)


def test_numpys_kernels_are_forbidden() -> None:
    program = tnf.compile(lambda x: tnf.tanh(x) @ x, tnf.TensorSpec((2,), "float64"))
    with no_numpy_kernel(), pytest.raises(AssertionError, match="NumPy's kernel is used"):
        tnf.GraphExecutor().run(program, np.ones(2))


def test_value_and_gradient_of_a_network() -> None:
    program = tnf.compile(tnf.value_and_grad(loss), PARAMETERS, X, T)
    value, gradient = run(program, PARAMETERS, X, T)
    leaves = [torch.tensor(p, requires_grad=True) for p in PARAMETERS]
    w1, b1, w2, b2 = leaves
    hidden = torch.tanh(torch.tensor(X) @ w1 + b1)
    expected = torch.mean((hidden @ w2 + b2 - torch.tensor(T)) ** 2)
    expected.backward()
    np.testing.assert_allclose(value, expected.item(), rtol=1e-14)
    for mine, leaf in zip(gradient, leaves, strict=True):
        np.testing.assert_allclose(mine, leaf.grad.numpy(), rtol=1e-12, atol=1e-15)


def test_loops_and_choices() -> None:
    def fn(x: Any, n: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            c = tnf.cond(tnf.sum(c) > 0, lambda c: c * 0.5, lambda c: -c, c)
            return tnf.tanh(c + row), c

        last, rows = tnf.scan(step, x[0], x)
        count = tnf.while_loop(lambda i: i * i < n, lambda i: i + 1, tnf.asarray(0))
        return tnf.sum(last * rows), count

    n = np.asarray(17)
    program = tnf.compile(fn, X, n)
    total, count = run(program, X, n)
    c, rows = X[0], []
    for row in X:
        c = c * 0.5 if c.sum() > 0 else -c
        rows.append(c)
        c = np.tanh(c + row)
    np.testing.assert_allclose(total, np.sum(c * np.array(rows)), rtol=1e-13)
    assert count == 5
    gradient = tnf.compile(tnf.grad(lambda x: fn(x, 17)[0]), X)
    mine = run(gradient, X)
    h, v = 1e-6, GENERATOR.normal(size=X.shape)

    def at(x: Any) -> Any:
        return run(program, x, n)[0]

    slope = (at(X + h * v) - at(X - h * v)) / (2 * h)
    np.testing.assert_allclose(np.sum(mine * v), slope, rtol=1e-7)


def test_a_missing_kernel_is_named_with_the_line() -> None:
    program = tnf.compile(lambda x: tnf.cbrt(x) + 1.0, tnf.TensorSpec((2,), "float64"))
    with pytest.raises(UnsupportedError, match="Cbrt: backend 'torch' has no kernel") as caught:
        tnf.GraphExecutor(backend=TORCH).run(program, np.ones(2))
    assert "test_programs.py" in str(caught.value)


def test_a_dtype_that_is_missing_is_named_with_the_line() -> None:
    program = tnf.compile(lambda x: tnf.astype(x, "uint32"), tnf.TensorSpec((2,), "float64"))
    with pytest.raises(UnsupportedError, match="Convert: backend 'torch' on uint32: PyTorch") as e:
        tnf.GraphExecutor(backend=TORCH).run(program, np.ones(2))
    assert "test_programs.py" in str(e.value)


def test_the_table_has_the_ops_that_programs_are_made_of() -> None:
    names = {op.__name__ for op in TORCH.kernels}
    assert len(names) >= 45
    assert names >= {
        "DotGeneral", "Gather", "Scatter", "Reshape", "BroadcastInDim", "Pad", "Concatenate", "ReduceSum",
        "Sort", "TopK", "Compare", "Select", "Convert", "Scan", "While", "Cond",
    }  # fmt: skip
    assert not any(isinstance(kernel, Kernel) for kernel in TORCH.kernels.values())


@pytest.mark.parametrize("dtype", list(tnf.DType), ids=str)
def test_arrays_come_back(dtype: tnf.DType) -> None:
    for x in (np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2).T[::-1], np.asarray(1)):
        array = x.astype(np.float32).astype(dtype.dtype)
        array.flags.writeable = False
        again = download(upload(array))
        assert again.dtype == dtype.dtype
        np.testing.assert_array_equal(again.astype("c16"), array.astype("c16"))
        assert not np.shares_memory(again, array)
