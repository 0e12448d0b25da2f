"""Unrolled loops must be rolled into scans, with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.ops.control import Scan
from tenferro.ops.source import Constant
from tenferro.passes.roll import MAX_EMBEDDED, _periods, roll
from tenferro.types import TensorSpec, flatten
from tests.counting import calls

RNG = np.random.default_rng(5)
T = 12


def recurrent(x: Any, rows: Any, w: Any) -> Any:
    """Apply T steps of a recurrent function, unrolled.

    Each iteration reads a row, a number that changes, and a number that is constant. Constants equal to these are
    also used outside of the iterations.
    """
    for t in range(T):
        x = tnf.tanh(x @ w + rows[t]) + 0.5 * np.float64(t + 1)
        x = x - tnf.sum(x * x) * 1e-2
    return tnf.sum(x)


def layers(weights: list[Any], x: Any) -> Any:
    for w in weights:
        x = tnf.sin(x @ w) * 0.5 + x
    return tnf.sum(x**2)


def verlet(x: Any, v: Any) -> Any:
    """Integrate by Verlet's method, and return all positions.

    An iteration reads the two preceding states.
    """
    before, trajectory = x - v * 0.1, []
    for _ in range(T):
        before, x = x, 2.0 * x - before - 0.01 * tnf.sin(x)
        trajectory.append(x)
    return trajectory, x - before


def alternating(x: Any, y: Any) -> Any:
    for _ in range(T):
        for _ in range(3):
            x = tnf.cos(x) + y
        x, y = tnf.exp(-x), x * y
    return x, y


def training(w: Any, batch: Any) -> Any:
    """Run gradient descent with momentum. The gradient of each step is part of the unrolled loop."""
    velocity = tnf.zeros_like(w)
    for _ in range(T):
        gradient = tnf.grad(lambda w: tnf.mean(tnf.tanh(batch @ w) ** 2))(w)
        velocity = 0.9 * velocity - 0.1 * gradient
        w = w + velocity
    return w


def bits(x: Any) -> Any:
    for _ in range(T):
        x = x ^ (x << 13)
        x = x ^ (x >> 7)
        x = x ^ (x << 17)
    return x


def twice(x: Any, rows: Any) -> Any:
    """Read each row in two consecutive iterations, and all rows again after the loop."""
    for t in range(1, len(rows)):
        x = tnf.tanh(x + rows[t]) * rows[t - 1]
    return tnf.sum(x) + tnf.sum(rows**3)


def blocks(x: Any, rows: Any, matrix: Any) -> Any:
    """Read, in each iteration, two rows, and three columns of `matrix`, beginning at its right end."""
    for t in range(T):
        last = 3 * (T - t) + 1
        x = tnf.tanh(x + rows[2 * t : 2 * t + 2]) * matrix[:, last - 3 : last] + 0.5 * x
    return tnf.sum(x)


def windows(x: Any, rows: Any) -> Any:
    """Read overlapping windows of two rows. Consecutive iterations share a row."""
    for t in range(T):
        x = tnf.tanh(x + rows[t : t + 2]) * tnf.sin(x) - rows[t : t + 2]
    return tnf.sum(x)


def columns(x: Any, matrix: Any) -> Any:
    for t in range(matrix.shape[1]):
        x = tnf.sin(x) * matrix[:, t] + matrix[:, t]
    return tnf.sum(x**2)


def elements(x: Any, table: Any) -> Any:
    for i in range(2):
        for j in range(T):
            x = tnf.tanh(x * table[i, j]) + table[i, j]
    return tnf.sum(x)


MATRIX = RNG.normal(size=(4, 4))
WEIGHTS = [RNG.normal(size=(3, 3)) for _ in range(T)]
BLOCKS = RNG.normal(size=(2, 3)), RNG.normal(size=(2 * T, 3)), RNG.normal(size=(2, 3 * T + 2))
CASES: dict[str, tuple[Any, tuple[Any, ...], int]] = {
    "recurrent": (recurrent, (RNG.normal(size=4), RNG.normal(size=(T, 4)), MATRIX), 3),
    "recurrent, gradient": (
        tnf.grad(recurrent, argnums=(0, 2)),
        (RNG.normal(size=4), RNG.normal(size=(T, 4)), MATRIX),
        44,
    ),
    "rows, gradient": (
        tnf.grad(recurrent, argnums=1),
        (RNG.normal(size=4), RNG.normal(size=(T, 4)), MATRIX),
        46,
    ),
    "twice, gradient": (
        tnf.grad(twice, argnums=(0, 1)),
        (RNG.normal(size=4), RNG.normal(size=(3 * T, 4))),
        47,
    ),
    "columns, gradient": (
        tnf.grad(columns, argnums=1),
        (RNG.normal(size=4), RNG.normal(size=(4, 3 * T))),
        25,
    ),
    "elements, gradient": (
        tnf.grad(elements, argnums=1),
        (RNG.normal(size=4), RNG.normal(size=(2, T))),
        60,
    ),
    "blocks": (blocks, BLOCKS, 10),
    "blocks, gradient": (tnf.grad(blocks, argnums=(0, 1, 2)), BLOCKS, 53),
    "windows": (windows, (BLOCKS[0], RNG.normal(size=(T + 1, 3))), 21),
    "windows, gradient": (tnf.grad(windows, (0, 1)), (BLOCKS[0], RNG.normal(size=(T + 1, 3))), 230),
    "layers": (layers, (WEIGHTS, RNG.normal(size=(2, 3))), 20),
    "layers, gradient": (tnf.value_and_grad(layers), (WEIGHTS, RNG.normal(size=(2, 3))), 96),
    "verlet": (verlet, (RNG.normal(size=3), RNG.normal(size=3)), 40),
    "alternating": (alternating, (RNG.normal(size=3), RNG.normal(size=3)), 10),
    "training": (training, (RNG.normal(size=3), RNG.normal(size=(5, 3))), 42),
    "bits": (bits, (RNG.integers(0, 2**63, 4).astype(np.uint64),), 1),
}
"""Each entry has a function, its arguments, and the maximum number of instructions after rolling."""


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_written_out_program(name: str) -> None:
    function, arguments, most = CASES[name]
    written_out = tnf.compile(function, *arguments)
    program = tnf.compile(function, *arguments, roll=True)
    assert any(isinstance(step.op, Scan) for step in program.instructions)
    assert len(program.instructions) <= most
    # Run the ops one after the other. Fused or compiled code may add numbers in another order.
    executor = tnf.GraphExecutor(compiled=False, segmented=False, passes=())
    expected = flatten(executor.run(written_out, *arguments))[0]
    for y, z in zip(flatten(executor.run(program, *arguments))[0], expected, strict=True):
        np.testing.assert_array_equal(y, z)
        np.testing.assert_array_equal(np.signbit(y), np.signbit(z))
    for y, z in zip(flatten(program.run(*arguments))[0], expected, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-11)


def drawn_function(seed: int) -> Any:
    """Return a random loop of integer arithmetic. Its iterations read several earlier states and rows."""
    rng = np.random.default_rng(seed)
    names, lags = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    steps = [
        (
            str(rng.choice(["+", "-", "*", "^"])),
            *rng.integers(0, names, 3),
            *rng.integers(1, lags + 1, 2),
        )
        for _ in range(int(rng.integers(1, 5)))
    ]
    count = int(rng.integers(8, 40))
    odd = set(rng.integers(0, count, int(rng.integers(0, 3))).tolist())
    kept = set(rng.integers(0, count, int(rng.integers(0, 4))).tolist())
    uses_rows, counts, every = rng.integers(0, 2, 3).astype(bool)

    def function(x: Any, rows: Any) -> Any:
        histories, results = [[x, x * 3, x ^ (x * 5)] for _ in range(names)], []
        for t in range(count):
            for kind, to, a, b, lag_a, lag_b in steps:
                left, right = histories[a][-lag_a], histories[b][-lag_b]
                if t in odd:
                    left = left + 1
                result = {
                    "+": left + right,
                    "-": left - right,
                    "*": left * right,
                    "^": left ^ right,
                }
                histories[to].append(result[kind])
            if uses_rows:
                histories[0].append(histories[0][-1] + rows[t])
            if counts:
                histories[0].append(histories[0][-1] ^ np.uint64(7 * t % 11))
            if t in kept or every:
                results.append(histories[-1][-1])
        return results, [history[-1] for history in histories]

    return function


def test_random_loops_give_what_numpy_gives() -> None:
    x, rows = np.arange(1, 4, dtype=np.uint64), np.arange(120, dtype=np.uint64).reshape(40, 3)
    executor = tnf.GraphExecutor(compiled=False, segmented=False, passes=())
    rolled = 0
    for seed in range(30):
        function = drawn_function(seed)
        program = tnf.compile(function, x, rows, roll=True)
        rolled += any(isinstance(step.op, Scan) for step in program.instructions)
        results = flatten(executor.run(program, x, rows))[0]
        for y, expected in zip(results, flatten(function(x, rows))[0], strict=True):
            np.testing.assert_array_equal(y, expected, err_msg=f"seed {seed}")
    assert rolled > 10


def test_derivatives_effects_and_symbols() -> None:
    def iterated(x: Any) -> Any:
        for _ in range(40):
            x = tnf.sin(x)
        return tnf.sum(x)

    program = tnf.compile(iterated, TensorSpec(("n",), "float64"), roll=True)
    assert len(program.instructions) == 2
    point = np.array([0.1, 0.5, 0.9])
    values = np.array([point] * 41)
    for t in range(40):
        values[t + 1] = np.sin(values[t])
    np.testing.assert_allclose(program.run(point), values[-1].sum(), rtol=1e-14)
    derivative = np.prod(np.cos(values[:-1]), axis=0)
    np.testing.assert_allclose(tnf.grad(program.run)(point), derivative, rtol=1e-13)

    def printing(x: Any) -> Any:
        for _ in range(40):
            x = tnf.sin(x) * 2.0
            tnf.debug_print("{}", x)
        return x

    printed = tnf.compile(printing, 1.0)
    assert roll(printed) is printed


def test_what_does_not_repeat_stays_and_costs_linear_time() -> None:
    def reading_the_middle(x: Any) -> Any:
        """Multiply each value by an earlier one at a random distance, so that the program has no period."""
        values = [x]
        for _ in range(60):
            values.append(values[-1] * values[RNG.integers(len(values))])
        return values[-1]

    written_out = tnf.compile(reading_the_middle, 1.0)
    assert roll(written_out) is written_out
    programs = [
        tnf.compile(lambda x, count=count: _chained(x, count), np.ones(3)) for count in (250, 1000)
    ]
    work = [calls(lambda program=program: roll(program)).total() for program in programs]
    assert work[1] < 5 * work[0]  # the second program has four times the ops


def _chained(x: Any, count: int) -> Any:
    for _ in range(count):
        x = tnf.tanh(x * 1.5 + 0.25) - x
    return x


@pytest.mark.parametrize("size", [MAX_EMBEDDED, MAX_EMBEDDED + 1])
def test_small_constants_are_written_into_the_body(size: int) -> None:
    array = RNG.normal(size=size)

    def shifted(x: Any) -> Any:
        for _ in range(T):
            x = tnf.sin(tnf.cos(tnf.exp(-x) * array) + array)
        return x

    (scan,) = [i.op for i in roll(tnf.compile(shifted, array)).instructions if type(i.op) is Scan]
    inside = [i.op for i in scan.body.program.instructions if isinstance(i.op, Constant)]
    assert [each.array.size for each in inside].count(size) == (size == MAX_EMBEDDED)


def test_a_long_period_of_two_kinds_is_found() -> None:
    """A period of thirty steps must be found, although it contains only two kinds of steps, each many times."""
    period = np.random.default_rng(0).integers(0, 2, 30)
    assert 30 in _periods(np.tile(period, 5))
