"""If a while loop is also computed by another, larger loop, it must be removed, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.ops.control import While
from tenferro.passes import NATIVE_PASSES, share_loops
from tenferro.types import flatten

X = np.linspace(0.2, 1.3, 3)


def goes_on(carry: Any) -> Any:
    return carry[0] < 5.0


def body(x: Any) -> Callable[[Any], Any]:
    return lambda carry: (carry[0] + 1.5, tnf.sin(carry[1]) * x)


def value(x: Any) -> Any:
    return tnf.while_loop(goes_on, body(x), (0.0, x))[1]


def as_constant_of(larger: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Return a function with two loops.

    The first is `value`. `larger` builds the second one from x and the result of the first one.
    """
    return lambda x: (y := value(x), larger(x, y))


def counted(x: Any, _: Any) -> Any:
    step = body(x)
    return tnf.while_loop(lambda c: goes_on(c[1:]), lambda c: (c[0] + 1, *step(c[1:])), (0, 0.0, x))


def summed(x: Any, _: Any) -> Any:
    """Add a carry that reads the carries of the shared loop but does not change them."""
    step = body(x)
    return tnf.while_loop(goes_on, lambda c: (*step(c), c[2] + c[1] * x), (0.0, x, 0 * x))


def of_the_result(x: Any, y: Any) -> Any:
    step = body(x)
    return tnf.while_loop(goes_on, lambda c: (*step(c), c[2] + y), (0.0, x, 0 * x))


def another_condition(x: Any, _: Any) -> Any:
    step = body(x)
    return tnf.while_loop(lambda c: c[0] < 6.5, lambda c: (*step(c), c[2] + 1), (0.0, x, 0))


def another_step(x: Any, _: Any) -> Any:
    return tnf.while_loop(goes_on, lambda c: (c[0] + 1.5, tnf.cos(c[1]) * x, c[2] + 1), (0.0, x, 0))


def another_start(x: Any, _: Any) -> Any:
    step = body(x)
    return tnf.while_loop(goes_on, lambda c: (*step(c), c[2] + 1), (0.5, x, 0))


def another_constant(x: Any, _: Any) -> Any:
    step = body(2 * x)
    return tnf.while_loop(goes_on, lambda c: (*step(c), c[2] + 1), (0.0, x, 0))


def mixed(x: Any, _: Any) -> Any:
    """Update a carry of the shared loop from another carry. It is then not the same loop, and must remain."""
    step = body(x)

    def both(c: Any) -> Any:
        i, y = step(c)
        return i, y + c[2], c[2] * 0.5

    return tnf.while_loop(goes_on, both, (0.0, x, x))


def ends_otherwise(x: Any, _: Any) -> Any:
    """Let the condition read an additional carry.

    The loop may then end earlier, so that the shared loop must remain.
    """
    step = body(x)
    return tnf.while_loop(
        lambda c: (c[0] < 5.0) & (c[2] < 2), lambda c: (*step(c), c[2] + 1), (0.0, x, 0)
    )


def loops(program: Any) -> int:
    return sum([isinstance(step.op, While) for step in program.instructions])


def require_same_bits(program: Any, *arrays: Any) -> None:
    shared = share_loops(program)
    executor = tnf.GraphExecutor("K", compiled=False, passes=())
    sides = [flatten(executor.run(each, *arrays))[0] for each in (program, shared)]
    for one, other in zip(*sides, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize(
    ("fn", "before", "after"),
    [
        (lambda x: tnf.jvp(value, (x,), (x,)), 2, 1),
        (lambda x: tnf.jvp(lambda x: tnf.jvp(value, (x,), (x,)), (x,), (x,)), 3, 1),
        (lambda x: (value(x), value(2 * x), tnf.jvp(value, (x,), (x,))), 3, 2),
        (as_constant_of(counted), 2, 1),
        (as_constant_of(summed), 2, 1),
        (lambda x: (tnf.exp(value(x)), tnf.cos(x), summed(x, x), tnf.sin(value(x))), 2, 1),
    ],
)
def test_contained_loops_are_not_run(fn: Any, before: int, after: int) -> None:
    program = tnf.compile(fn, X)
    assert loops(program) == before
    shared = share_loops(program)
    assert loops(shared) == after
    assert share_loops(shared) is shared
    require_same_bits(program, X)
    require_same_bits(program, np.full(3, np.nan))


@pytest.mark.parametrize(
    "larger",
    [
        of_the_result,
        another_condition,
        another_step,
        another_start,
        another_constant,
        mixed,
        ends_otherwise,
    ],
)
def test_other_loops_stay(larger: Any) -> None:
    program = tnf.compile(as_constant_of(larger), X)
    assert share_loops(program) is program
    assert loops(program) == 2


def test_a_smaller_loop_that_comes_later_stays() -> None:
    program = tnf.compile(lambda x: (summed(x, x), value(x)), X)
    assert loops(share_loops(program)) == 2
    require_same_bits(program, X)


def test_loops_that_print_stay(capsys: pytest.CaptureFixture[str]) -> None:
    def printing(x: Any) -> Any:
        def step(c: Any) -> Any:
            tnf.debug_print("body {}", c[0])
            return body(x)(c)

        return tnf.while_loop(goes_on, step, (0.0, x))[1]

    program = tnf.compile(lambda x: (printing(x), summed(x, x)), X)
    assert loops(share_loops(program)) == 2
    program.run(X)
    assert capsys.readouterr().out.count("body") == 4


def test_inside_of_loops_and_in_the_executor() -> None:
    def tangent(x: Any) -> Any:
        return tnf.jvp(value, (x,), (x,))

    fn = lambda x: tnf.scan(lambda c, u: (c + 1, tangent(u)), 0, tnf.stack([x, 2 * x]))[1]
    program = tnf.compile(fn, X)
    results = [
        flatten(tnf.GraphExecutor("K", compiled=False, **options).run(program, X))[0]
        for options in ({}, {"passes": ()})
    ]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    assert share_loops in NATIVE_PASSES
    schedule = tnf.GraphExecutor("K", compiled=False).compile(tnf.compile(tangent, X))
    assert str(schedule).count("While(") == 1
