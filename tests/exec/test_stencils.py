"""A sum of padded arrays must be compiled as one step, with the interpreter's bits also at the borders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.planned import Block
from tenferro.ops.structural import Pad
from tests.exec.compiled_loops import require_same_bits, run_as_written_and_optimised

INTERPRETER = tnf.GraphExecutor("K", compiled=False)
Case = tuple[Callable[..., Any], tuple[int, ...], str]


def differences(axes: tuple[int, ...], power: int = 2) -> Callable[..., Any]:
    """Return the gradient of a sum of powers of the differences between neighbours along some axes."""

    def loss(x: Any) -> Any:
        return sum([tnf.sum(tnf.diff(x, axis=axis) ** power) for axis in axes])

    return tnf.grad(loss)


def edges(x: Any, *widths: tuple[tuple[int, int], ...], value: float = 0.0) -> Any:
    return sum(
        [tnf.pad(x * (n + 1), pairs, constant_values=value) for n, pairs in enumerate(widths)]
    )


def second_differences(x: Any) -> Any:
    return tnf.grad(
        lambda x: tnf.sum(tnf.diff(x, 2, axis=0) ** 2) + tnf.sum(tnf.abs(tnf.diff(x, axis=1)))
    )(x)


CASES: dict[str, Case] = {
    "three axes": (differences((0, 1, 2)), (41, 43, 47), "f4"),
    "one axis": (differences((0,)), (70_001,), "f8"),
    "the last axis": (differences((1,), 3), (3, 30_000), "f8"),
    "long and narrow": (differences((0, 1)), (40_000, 2), "f8"),
    "second differences": (second_differences, (257, 300), "f8"),
    "a value at the edge": (
        lambda x: edges(x, ((2, 0), (1, 3)), ((0, 2), (4, 0)), value=-1.5), (250, 290), "f4"
    ),
    "apart from each other": (
        lambda x: edges(x, ((0, 260), (0, 310)), ((260, 0), (310, 0))), (250, 300), "f8"
    ),
    "padded twice": (
        lambda x: tnf.pad(edges(x, ((1, 0), (0, 0)), ((0, 1), (0, 0))), ((0, 0), (2, 1)))
        + tnf.pad(x, ((1, 0), (1, 2))), (251, 270), "f8",
    ),
    "whole numbers": (lambda x: edges(x, ((1, 0), (0, 1)), ((0, 1), (1, 0))), (300, 301), "i4"),
}  # fmt: skip


def array(shape: tuple[int, ...], dtype: str) -> Any:
    """Return an array of random numbers. Floats include -0.0, infinities, NaN, and a subnormal number."""
    x = (np.random.default_rng(sum(shape)).standard_normal(shape) * 100).astype(dtype)
    if dtype[0] == "f":
        x.flat[:: x.size // 7] = [-0.0, np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-310, 3.0][
            : len(x.flat[:: x.size // 7])
        ]
    return x


def stencils_of(executor: tnf.GraphExecutor, program: Any, *arrays: Any) -> list[Block]:
    blocks = [step.inner_op for step in executor.compile(program, *arrays).instructions]
    return [
        op
        for op in blocks
        if isinstance(op, Block)
        and any([isinstance(step.op, Pad) for step in op.body.instructions])
    ]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_bits_are_the_interpreters(name: str) -> None:
    function, shape, dtype = CASES[name]
    x = array(shape, dtype)
    program = tnf.compile(function, x)
    executor = tnf.GraphExecutor("K", compiled=True)
    assert len(stencils_of(executor, program, x)) == 1
    expected = INTERPRETER.run(program, x)
    require_same_bits(run_as_written_and_optimised(executor, program, x), expected)
    threaded = tnf.GraphExecutor("K", compiled=True, threads=3)
    require_same_bits(threaded.run(program, x), expected)


def test_arrays_in_any_order_and_results_in_any() -> None:
    function, shape, dtype = CASES["second differences"]
    x = array(shape, dtype)
    program = tnf.compile(function, x)
    with np.errstate(all="ignore"):
        expected = INTERPRETER.run(program, x)
        for order in ("C", "F", "K"):
            executor = tnf.GraphExecutor(order, compiled=True)
            for y in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
                assert len(stencils_of(executor, program, y)) == 1
                require_same_bits(executor.run(program, y), expected)


def test_values_that_others_read_stay() -> None:
    def function(x: Any) -> Any:
        d = tnf.diff(x, axis=0)
        y = tnf.pad(d, ((0, 1), (0, 0))) - tnf.pad(tnf.diff(x, axis=1), ((0, 0), (1, 0)))
        return y, d, tnf.sum(d)

    x = array((300, 301), "f8")[1:]
    program = tnf.compile(function, x)
    executor = tnf.GraphExecutor("K", compiled=True)
    assert len(stencils_of(executor, program, x)) == 1
    with np.errstate(all="ignore"):
        for y, z in zip(executor.run(program, x), INTERPRETER.run(program, x), strict=True):
            np.testing.assert_array_equal(y, z)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tnf.pad(x, ((1, 0), (0, 0))),
        lambda x: tnf.pad(tnf.exp(x), ((1, 0), (0, 0))) + 1.0,
        lambda x: edges(x, *[((n, 12 - n), (12 - n, n)) for n in range(13)]),
    ],
    ids=["one array", "functions", "many regions"],
)
def test_sums_that_are_no_stencils(function: Callable[..., Any]) -> None:
    x = np.ones((260, 270))
    program = tnf.compile(function, x)
    executor = tnf.GraphExecutor("K", compiled=True)
    assert not stencils_of(executor, program, x)
    np.testing.assert_array_equal(executor.run(program, x), INTERPRETER.run(program, x))


def test_small_arrays_are_no_stencils() -> None:
    x = np.ones((20, 30))
    program = tnf.compile(differences((0, 1)), x)
    assert not stencils_of(tnf.GraphExecutor("K"), program, x)
