"""Nested loops that run several times must have the interpreter's values, and name lines in errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import BackendFailureError
from tenferro.exec.llvm import link
from tenferro.extension import HostReferenceRuntime, apply
from tests.exec.compiled_loops import run_as_written_and_optimised
from tests.test_printed_programs import WornOut

pytestmark = pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")
RNG = np.random.default_rng(5)
TABLE = RNG.standard_normal((5, 40))


def mixed(x: Any, rounds: int = 5) -> Any:
    """Run a loop whose body has many instructions and reads a large constant."""

    def iteration(i: Any, carry: Any) -> Any:
        a, b = carry
        for k in range(6):
            a, b = a * 1.25 + b[k % 3], b * 0.5 - a
        return a, b + tnf.take(TABLE, i, axis=0)[: b.shape[0]]

    a, b = tnf.fori_loop(0, rounds, iteration, (x[0], x))
    return a + b


def whiles(x: Any) -> Any:
    """Run a while loop whose body contains the loop of `mixed`."""
    return tnf.while_loop(lambda c: tnf.sum(c * c) < 50.0, lambda c: c + abs(mixed(c, 3)) + 1.0, x)


def in_a_scan(fn: Any) -> Any:
    return lambda x, ys: tnf.scan(lambda c, y: (fn(c, y), c[0] + y), x, ys)


CASES = {
    "twice": lambda c, y: mixed(c + y) - mixed(c * y),
    "of several types": lambda c, y: mixed(c + y) + mixed(c)[::-1] + mixed(c[:3])[0],
    "around others": lambda c, y: whiles(c * 0.1) + whiles(y) + mixed(c),
    "in a choice": lambda c, y: tnf.cond(c[0] > 0.0, lambda c: mixed(c), lambda c: mixed(-c) + mixed(c), c),
    "in a loop": lambda c, y: tnf.fori_loop(0, 3, lambda i, d: mixed(d) + mixed(d + y), c) * 1e-3,
}  # fmt: skip


@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.parametrize("name", CASES)
def test_repeated_loops_give_the_values_of_the_interpreter(name: str, size: int) -> None:
    x, ys = RNG.standard_normal(size), RNG.standard_normal((7, size))
    program = tnf.compile(in_a_scan(CASES[name]), x, ys)
    executor = tnf.GraphExecutor("K", compiled=True)
    results = run_as_written_and_optimised(executor, program, x, ys)
    interpreted = tnf.GraphExecutor("K", compiled=False).run(program, x, ys)
    for y, wanted in zip(tnf.tree.leaves(results), tnf.tree.leaves(interpreted), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-12)


def test_errors_in_repeated_loops_name_their_lines() -> None:
    def first(x: Any) -> Any:
        return tnf.fori_loop(0, 2, lambda _, c: c + mixed(apply(WornOut(), c)) * 0, x)  # the first

    def second(x: Any) -> Any:
        return tnf.fori_loop(0, 2, lambda _, c: c + mixed(apply(WornOut(), c)) * 0, x)  # the second

    def fn(x: Any, ys: Any) -> Any:
        return tnf.scan(lambda c, y: (c * y, first(c * y) + second(c + y)), x, ys)

    executor = tnf.GraphExecutor(
        "K", compiled=True, runtimes=[HostReferenceRuntime(WornOut.family_id)]
    )
    x, ys = np.ones(4), np.ones((2, 4))
    program = tnf.compile(fn, x, ys)
    executor.run(program, x, ys)
    lines = Path(__file__).read_text().splitlines()
    for carry, rows, line in ((x, -ys, "# the first"), (-2 * x, -ys, "# the second")):
        with pytest.raises(BackendFailureError, match="worn out") as caught:
            executor.run(program, carry, rows)
        place = next(each for each in str(caught.value).splitlines() if "test_llvm_parts" in each)
        assert lines[int(place.rpartition(".py:")[2].split()[0]) - 1].endswith(line)
