"""What NumPy, memory or Python's stack cannot hold is an error of ours, on arrays and in programs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro import errors
from tenferro.graph import SourceLine

LARGE = (1 << 33, 1 << 33)
MANY = (1,) * 65


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tnf.reshape(np.zeros(1), MANY), r"Reshape: .*f64\[1,1.*64"),
        (lambda: tnf.expand_dims(np.zeros(1), tuple(range(64))), r"f64\[1,1.*64"),
        (lambda: tnf.broadcast_to(np.zeros(1), MANY), r"BroadcastInDim: .*f64\[1,1.*64"),
        (lambda: tnf.zeros(MANY), r"full: f64\[1,1.*64"),
        (lambda: tnf.zeros(LARGE), r"full: f64\[8589934592,8589934592\]"),
        (lambda: tnf.ones((1 << 23, 1 << 23), dtype="i1"), r"full: i8\[8388608,8388608\]"),
        (lambda: tnf.broadcast_to(np.zeros(1), LARGE), r"BroadcastInDim: .*f64\[8589934592"),
        (lambda: tnf.pad(np.zeros(3), 1 << 60), r"Pad: .*f64\["),
        (lambda: tnf.eye(1 << 33), "eye: 8589934592 by 8589934592"),
        (lambda: tnf.arange(1 << 62), "arange: 0 to 4611686018427387904"),
        (lambda: tnf.linspace(0, 1, 1 << 50), "linspace: 1125899906842624 points"),
        (lambda: tnf.random.uniform(tnf.random.key(0), MANY), "64"),
    ],
)
def test_what_numpy_cannot_hold(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(errors.BackendFailureError, match=words) as told:
        call()
    assert isinstance(told.value, tnf.TenferroError)


def test_programs_and_traces_say_it_with_the_line() -> None:
    for shape in (MANY, LARGE):
        program = tnf.compile(lambda x, to=shape: tnf.broadcast_to(x, to) + 1, np.zeros(1))
        with pytest.raises(errors.BackendFailureError, match=r"test_native_limits\.py:\d+ in"):
            program.run(np.zeros(1))


@pytest.mark.parametrize("order", ["C", "F", "K"])
def test_a_view_that_is_a_result_and_fits_nowhere(order: Any) -> None:
    """A view of 10**18 rows costs nothing; the result, with memory of its own, takes 3 EB."""
    program = tnf.compile(lambda x: tnf.broadcast_to(x, (10**18, 3)), np.ones(3, bool))
    executor = tnf.GraphExecutor(order=order)
    with pytest.raises(
        errors.BackendFailureError, match=r"BroadcastInDim: .*bool\[1000000000000000000,3\]"
    ) as told:
        executor.run(program, np.ones(3, bool))
    assert "test_native_limits.py" in str(told.value.source)


@pytest.mark.parametrize("triangle", [tnf.tril, tnf.triu])
def test_diagonals_beyond_every_extent(triangle: Callable[..., Any]) -> None:
    """Up to 2^62 a row's number and k add up in the int64 of a lowered module; beyond, k is refused."""
    x = np.ones((2, 3))
    for k in (-(1 << 62), 1 << 62):
        at_bound = tnf.compile(lambda x, k=k: triangle(x, k), x)
        is_whole = (k > 0) == (triangle is tnf.tril)
        np.testing.assert_array_equal(at_bound.run(x), x * is_whole)
        module = lowering.lower_to_stablehlo(at_bound)
        assert f"dense<{k}>" in module.text
        for beyond in (2 * k, 2 * k - 1, 10**30 * k, k + (1 if k > 0 else -1)):
            with pytest.raises(errors.InvalidConfigError, match=r"Tri[lu]: k is at"):
                triangle(x, beyond)


def nested(depth: int) -> Callable[[Any], Any]:
    """As many choices inside each other."""
    fn: Callable[[Any], Any] = tnf.sin
    for _ in range(depth):
        fn = lambda x, inner=fn: tnf.cond(
            x > 0, inner, lambda x: x, x
        )  # because each has the one before
    return fn


@pytest.mark.parametrize(
    "run", [lambda fn: tnf.compile(fn, 1.0), lambda fn: fn(1.0), lambda fn: tnf.grad(fn)(1.0)]
)
def test_choices_inside_each_other(run: Any) -> None:
    with pytest.raises(errors.UnsupportedError, match="cond: more than 100 loops and choices"):
        run(nested(300))


def test_fifty_choices_inside_each_other_run() -> None:
    np.testing.assert_allclose(tnf.compile(nested(50), 1.0).run(0.5), np.sin(0.5))
    np.testing.assert_allclose(tnf.grad(nested(50))(0.5), np.cos(0.5))


MANY_OPERANDS = """
from tenferro.graph import Graph
from tenferro.ops.structural import Concatenate
from tenferro.types import TensorSpec
graph = Graph()
x = graph.add_input(TensorSpec.parse("f64[1]"))
(y,) = graph.add(Concatenate(0, 200_000), (x,) * 200_000)
assert graph.types[y].shape == (200_000,)
"""


def test_an_operation_of_many_operands() -> None:
    """In a process of its own, which a stack that overflows ends."""
    ended = subprocess.run([sys.executable, "-c", MANY_OPERANDS], check=False)
    assert ended.returncode == 0


def test_a_place_without_a_function() -> None:
    assert str(SourceLine("<stablehlo>", 1, "")) == "<stablehlo>:1"
    assert (
        str(SourceLine("<stablehlo>", 1, "").of("Sin")) == "<stablehlo>:1, in the derivative of Sin"
    )
    assert str(SourceLine("model.py", 1, "loss")) == "model.py:1 in loss"


def test_the_root_of_all_errors_is_at_the_top() -> None:
    assert tnf.TenferroError is errors.TenferroError
    assert "TenferroError" in tnf.__all__
