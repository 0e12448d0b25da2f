"""Through XLA, `scan(parallel=True)` must compute all iterations of a linear recurrence at once.

The results must equal those of a loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import optree
import pytest

import tenferro as tnf
from lowering import lower_to_stablehlo
from tenferro import GraphExecutor
from tenferro.errors import UnsupportedError
from xla_peer import XlaExecutor

EXECUTORS = {
    "native": GraphExecutor(),
    "interpreted": GraphExecutor(compiled=False),
    "xla": XlaExecutor("cpu", notices=False),
}
A, B = np.random.default_rng(0).uniform(0.5, 1.5, (2, 11, 3))


def smoothed(rate: Any, a: Any, b: Any, *, reverse: bool = False, parallel: bool = True) -> Any:
    """Scan with three carries: a counter, a level that depends on the counter, and a trend of the level."""

    def body(carry: Any, x: Any) -> Any:
        a, b = x
        after = rate * carry["level"] * a - (b - carry["level"]) / (1 + a) + carry["count"]
        after = tnf.where(b > 1.0, after, -carry["level"])
        trend = 0.5 * carry["trend"] + after * b
        return {"level": after, "count": carry["count"] + 1, "trend": trend}, (
            carry["level"],
            trend,
        )

    start: Any = {"level": np.ones(3), "count": np.float64(2), "trend": np.zeros(3)}
    return tnf.scan(body, start, (a, b), reverse=reverse, parallel=parallel)


def by_hand(rate: Any, a: Any, b: Any, *, reverse: bool) -> Any:
    level, count, trend = np.ones(3), 2.0, np.zeros(3)
    dtype = np.result_type(rate, a)
    levels, trends = np.empty(a.shape, dtype), np.empty(a.shape, dtype)
    for k in range(len(a))[:: -1 if reverse else 1]:
        levels[k] = level
        after = rate * level * a[k] - (b[k] - level) / (1 + a[k]) + count
        level = np.where(b[k] > 1.0, after, -level)
        count, trend = count + 1, 0.5 * trend + level * b[k]
        trends[k] = trend
    return {"level": level, "count": count, "trend": trend}, (levels, trends)


def close(ours: Any, theirs: Any) -> None:
    for x, y in zip(optree.tree_leaves(ours), optree.tree_leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
@pytest.mark.parametrize("reverse", [False, True])
def test_the_results_are_those_by_hand(executor: Any, reverse: bool) -> None:
    ours = tnf.jit(lambda rate: smoothed(rate, A, B, reverse=reverse), executor=executor)(0.3)
    close(ours, by_hand(0.3, A, B, reverse=reverse))


@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
def test_gradients_are_complex_steps(executor: Any) -> None:
    def loss(rate: Any, a: Any) -> Any:
        last, (levels, _) = smoothed(rate, a, B)
        return tnf.sum(last["trend"] ** 2) + tnf.sum(levels)

    slope, gradient = tnf.jit(tnf.grad(loss, (0, 1)), executor=executor)(0.3, A)

    def stepped(rate: Any, a: Any) -> Any:
        last, (levels, _) = by_hand(rate, a, B, reverse=False)
        return (np.sum(last["trend"] ** 2) + np.sum(levels)).imag / 1e-30

    np.testing.assert_allclose(slope, stepped(0.3 + 1e-30j, A), rtol=1e-11)
    for place in ((0, 0), (4, 2), (10, 1)):
        moved = A.astype(complex)
        moved[place] += 1e-30j
        np.testing.assert_allclose(gradient[place], stepped(0.3, moved), rtol=1e-10, atol=1e-12)


def test_no_loop_in_the_text_and_log_n_lines() -> None:
    def text(n: int, parallel: bool) -> str:
        f = lambda a, b: tnf.scan(
            lambda c, x: (c * x[0] + x[1],) * 2, 0.0, (a, b), parallel=parallel
        )[1]
        return lower_to_stablehlo(tnf.compile(f, np.ones(n), np.ones(n))).plain_text

    assert "stablehlo.while" in text(16, parallel=False)
    assert "stablehlo.while" not in text(16, parallel=True)
    lines = [text(n, parallel=True).count("stablehlo.multiply") for n in (16, 32, 64)]
    assert lines[2] - lines[1] == lines[1] - lines[0] > 0


def test_loops_of_numbers_and_of_no_iterations() -> None:
    power = tnf.scan(lambda c, _: (c * 2.0, None), 1.0, length=10, parallel=True)[0]
    assert power == 1024.0
    empty = tnf.scan(lambda c, x: (c * x, c), 3.0, np.ones(0), parallel=True)
    assert empty[0] == 3.0
    assert empty[1].shape == (0,)
    integers = tnf.scan(lambda c, x: (c + x, c), 0, np.arange(5), parallel=True)
    np.testing.assert_array_equal(integers[1], [0, 0, 1, 3, 6])


REFUSED = {
    "Tanh": (
        lambda c, x: (tnf.tanh(c), None),
        0.5,
        r"carry.* goes through Tanh at .*; leave parallel out",
    ),
    "a square": (lambda c, x: (c * c, None), 0.5, "goes through Multiply"),
    "a divisor": (lambda c, x: (x / c, None), 0.5, "goes through Divide"),
    "each other": (lambda c, x: ((c[1], c[0]), None), (0.5, 0.5), "depend on each other"),
    "a bool": (lambda c, x: (c, None), np.True_, "numbers in the carry"),
    "a checkpoint": (lambda c, x: (tnf.checkpoint(lambda c: c * x)(c), None), 0.5, "checkpoint"),
}


@pytest.mark.parametrize(("body", "start", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_linear_recurrence_is_refused(body: Any, start: Any, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        tnf.scan(body, start, np.ones(3), parallel=True)
