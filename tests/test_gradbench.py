"""GradBench's kernels must have right values and gradients on small inputs, natively and through PJRT."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tenferro as tnf
from xla_peer import XlaExecutor

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks" / "loops"), str(ROOT / "benchmarks")]

from agreement import directional_difference, distance  # noqa: E402  # needs the path
from gradbench import GRADBENCH  # noqa: E402

del sys.path[:2]

EXECUTORS = {"native": tnf.GraphExecutor(), "PJRT": XlaExecutor("cpu", notices=False)}
STEPS = {"particle": 60, "saddle": 60}
"""Maximum number of iterations for loops that otherwise end only at convergence. Gradients need such a bound."""
IN = {"kmeans": 1, "particle": 2, "saddle": 0}
"""Position of the differentiated argument, for kernels whose gradient the benchmark does not measure."""


def named(kernel):
    return kernel.name.removeprefix("gradbench ")


def names(kernel):
    """Return tenferro's namespace for a kernel.

    For kernels in `STEPS`, its `while_loop` has the bound that gradients need.
    """
    steps = STEPS.get(named(kernel))
    if steps is None:
        return tnf
    bounded = partial(tnf.while_loop, max_steps=steps)
    return SimpleNamespace(**{n: getattr(tnf, n) for n in tnf.__all__} | {"while_loop": bounded})


def test_all_twelve_are_here():
    assert {named(kernel) for kernel in GRADBENCH} | {"hello"} == {
        *("ba", "det", "gmm", "hello", "ht", "kmeans"),
        *("llsq", "lse", "lstm", "ode", "particle", "saddle"),
    }


@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
def test_hello(executor):
    double = tnf.jit(tnf.grad(lambda x: x * x), executor=executor)
    assert double(3.0) == 6.0


@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
@pytest.mark.parametrize("kernel", GRADBENCH, ids=named)
def test_gradients_are_central_differences_by_hand(kernel, executor):
    place = kernel.gradient if kernel.gradient is not None else IN[named(kernel)]
    arguments = kernel.arguments(kernel.small)
    loss, arrays = kernel.loss(names(kernel), arguments)
    both = tnf.jit(tnf.value_and_grad(loss, place), executor=executor)
    value, gradient = both(*arrays)
    results = kernel.numpy(*arguments)
    first = results[0] if isinstance(results, tuple) else results
    assert distance(value, np.sum(np.square(first))) <= kernel.tolerance
    direction, slope = directional_difference(replace(kernel, gradient=place), arguments)
    assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-4, abs=1e-15)
