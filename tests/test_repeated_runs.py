"""An executor keeps code and memory between runs. They must not change the results of later runs."""

from __future__ import annotations

import math
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.extension import ExtensionOp, HostReferenceRuntime, apply, extension_family

X = np.array([0.25, 0.5, 2.0])
DOUBLED = tnf.compile(lambda x: x + x, X)


@pytest.mark.parametrize("order", ["F", "C", "K"])
@pytest.mark.parametrize(
    "other", [X.astype("f4"), X.astype("i8"), X.astype("c16"), X > 1], ids=lambda x: x.dtype
)
def test_another_dtype_is_refused_at_any_run(order: Any, other: Any) -> None:
    executor = tnf.GraphExecutor(order=order)
    for _ in range(3):
        assert executor.run(DOUBLED, X).dtype == np.float64
        with pytest.raises(errors.DTypeError):
            executor.run(DOUBLED, other)
        with pytest.raises(errors.DTypeError):
            executor.run(DOUBLED, other)


@pytest.mark.parametrize(
    "other", [np.zeros(4), np.zeros((3, 1)), np.zeros(())], ids=lambda x: str(x.shape)
)
def test_another_shape_is_refused_at_any_run(other: Any) -> None:
    executor = tnf.GraphExecutor()
    for _ in range(3):
        executor.run(DOUBLED, X)
        with pytest.raises(errors.ShapeError):
            executor.run(DOUBLED, other)


def test_jit_traces_again_for_another_dtype_or_shape() -> None:
    doubled = tnf.jit(lambda x: x + x)
    for _ in range(3):
        for x in (X, X.astype("f4"), X[:2], X.astype("c8"), X[None]):
            y = doubled(x)
            assert (y.dtype, y.shape) == (x.dtype, x.shape)
            np.testing.assert_array_equal(y, x + x)


CONSTANT = np.arange(3.0)
HOLDERS = {
    "as it is": lambda x: (x, tnf.asarray(CONSTANT)),
    "times two": lambda x: (x, x.lift(CONSTANT) * 2.0),
    "its view": lambda x: (x, tnf.reshape(x.lift(CONSTANT), (3, 1))),
    "twice": lambda x: (x, x.lift(CONSTANT) * 2.0, x.lift(CONSTANT) * 2.0),
    "of no input": lambda x: (x, tnf.zeros(3, dtype="float64") + 1.0),
    "of a loop": lambda x: (x, tnf.fori_loop(0, 2, lambda i, y: y * 2.0, x.lift(CONSTANT))),
}


@pytest.mark.parametrize("order", ["F", "C", "K"])
@pytest.mark.parametrize("name", HOLDERS)
def test_results_that_are_written_to_are_no_constants(name: str, order: Any) -> None:
    program = tnf.compile(HOLDERS[name], X)
    executor = tnf.GraphExecutor(order=order)
    kept = [y.copy() for y in executor.run(program, X)]
    for _ in range(3):
        results = executor.run(program, X)
        for i, (y, wanted) in enumerate(zip(results, kept, strict=True)):
            np.testing.assert_array_equal(y, wanted)
            assert not any(np.shares_memory(y, z) for z in (X, CONSTANT, *results[:i]))
        for y in results:
            y[:] = 7.0


@extension_family("tenferro-tests", "calls_back", version=1)
@dataclass(frozen=True)
class CallsBack(ExtensionOp):
    """y = x, up to rounding. Its `eager_execute` calls an op, and runs another program."""

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [tnf.log(DOUBLED.run(np.exp(inputs[0]) / 2))]  # calls an op and runs another program


def called(x: Any) -> Any:
    return apply(CallsBack(), x)


@pytest.mark.parametrize(
    "fn",
    [
        called,
        lambda x: called(x * 1.0) * 1.0,
        lambda x: tnf.fori_loop(0, 2, lambda i, y: called(y), x),
        lambda x: tnf.scan(lambda y, _: (called(y), None), x, None, length=2)[0],
        lambda x: tnf.cond(x[0] > 0, called, lambda y: y, x),
    ],
    ids=["alone", "among ops", "in a loop", "in a scan", "in a branch"],
)
def test_extensions_call_back_at_any_run(fn: Any) -> None:
    executor = tnf.GraphExecutor()
    executor.register_runtime(HostReferenceRuntime(CallsBack.family_id))
    program = tnf.compile(fn, X)
    for _ in range(3):
        np.testing.assert_allclose(executor.run(program, X), X, rtol=1e-15)


def test_extensions_call_back_from_concrete_and_eager_arrays() -> None:
    runtime = HostReferenceRuntime(CallsBack.family_id)
    tnf.default_executor().register_runtime(runtime, replace=True)
    eager = tnf.EagerRuntime()
    eager.register_runtime(runtime)
    for _ in range(3):
        np.testing.assert_allclose(called(X), X, rtol=1e-15)
        np.testing.assert_allclose(np.asarray(called(eager.constant(X))), X, rtol=1e-15)


FACTOR = ContextVar("FACTOR", default=0.0)
CALLS = ContextVar("CALLS", default=0)


@extension_family("tenferro-tests", "reads_its_context", version=1)
@dataclass(frozen=True)
class Scaled(ExtensionOp):
    """y = x times a factor. The runtime reads the factor from a context variable of the caller."""

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        CALLS.set(CALLS.get() + 1)
        return [inputs[0] * FACTOR.get()]


def scaled(x: Any) -> Any:
    return apply(Scaled(), x)


@pytest.mark.parametrize(
    "fn",
    [
        scaled,
        lambda x: scaled(x * 2.0) * 0.5,
        lambda x: tnf.scan(lambda y, _: (scaled(y), None), x, None, length=1)[0],
        lambda x: tnf.cond(x[0] > 0, scaled, lambda y: y, x),
        lambda x: tnf.while_loop(lambda y: y[0] == 0.25, scaled, x),
    ],
    ids=["alone", "among ops", "in a scan", "in a branch", "in a while loop"],
)
def test_extensions_read_and_set_their_caller_s_context(fn: Any) -> None:
    executor = tnf.GraphExecutor()
    runtime = HostReferenceRuntime(Scaled.family_id)
    executor.register_runtime(runtime)
    tnf.default_executor().register_runtime(runtime, replace=True)
    eager = tnf.EagerRuntime()
    eager.register_runtime(runtime)
    program = tnf.compile(fn, X)
    runs = (lambda: executor.run(program, X), lambda: fn(X), lambda: fn(eager.constant(X)))
    for factor in (2.0, 3.0):
        token = FACTOR.set(factor)
        for run in runs:
            before = CALLS.get()
            np.testing.assert_array_equal(np.asarray(run()), X * factor)
            assert CALLS.get() == before + 1
        FACTOR.reset(token)


@pytest.mark.parametrize("every", [7, 60])
def test_values_leave_a_long_loop_where_they_are_read(every: int) -> None:
    """Values of an unrolled loop of hundreds of iterations must be right if they are read only at the end."""
    iterations = 160

    def fn(n: Any, x: Any) -> Any:
        kept = []
        for step in range(iterations):
            y = n.sin(x) * 0.5
            x = y * y + y
            if step % every == every - 1:
                kept += [y, x]
        return x, kept, sum(k * (i + 1.0) for i, k in enumerate(kept))

    program = tnf.compile(lambda x: fn(tnf, x), X)
    executor = tnf.GraphExecutor()
    x, kept, total = fn(np, X)
    for _ in range(3):
        result, values, sums = executor.run(program, X)
        np.testing.assert_allclose(result, x, rtol=1e-12)
        for y, z in zip(values, kept, strict=True):
            np.testing.assert_allclose(y, z, rtol=1e-12)
        np.testing.assert_allclose(sums, total, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_narrow_floats_are_rounded_once(dtype: str) -> None:
    """A sum of a million intermediate values must be rounded only once.

    The values have both signs, and are stored in planned memory.
    """
    x = np.asarray(tnf.astype(np.random.default_rng(3).normal(size=1_200_000), dtype))
    program = tnf.compile(lambda x, c: tnf.sum(-(x * c)), x, x[0])
    executor = tnf.GraphExecutor()
    for factor in (0.7, 1.3, 3.1):
        c = np.asarray(tnf.astype(np.float64(factor), dtype))
        # The exact result is the sum of the rounded products.
        exact = math.fsum(-np.asarray(tnf.multiply(x, c)).astype(float))
        result = executor.run(program, x, c)
        assert result.dtype == x.dtype
        assert result == tnf.astype(np.float64(exact), dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_whose_parts_are_no_narrow_floats_are_exact(dtype: str) -> None:
    """A sum of 600,003 ones, followed by 600,000 minus ones, must be exact.

    Its partial sums exceed the range of float16 and the precision of bfloat16.
    """
    x = np.ones(1_200_003)
    x[600_003:] = -1.0
    x = np.asarray(tnf.astype(x, dtype))
    program = tnf.compile(lambda x: tnf.sum(tnf.abs(x) * x * x * x), x)
    executor = tnf.GraphExecutor()
    for sign in (1, -1):
        assert executor.run(program, sign * x) == 3 * sign
