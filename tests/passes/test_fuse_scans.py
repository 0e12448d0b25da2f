"""Two scans over the same iterations must be merged.

The bits must be the same, and the stacks between the scans must disappear.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.ops.control import Scan
from tenferro.passes import NATIVE_PASSES, fuse_scans, stop_early
from tenferro.types import flatten

X = np.linspace(0.1, 1.0, 3)
XS = np.random.default_rng(1).standard_normal((7, 3))


def two_scans(x: Any, xs: Any) -> Any:
    return tnf.scan(lambda c, u: (tnf.tanh(c * x + u), (c, u * c)), x, xs)


def total(x: Any, xs: Any) -> Any:
    last, (first, second) = two_scans(x, xs)
    return tnf.sum(last * x) + tnf.sum(first * second)


def two(
    second: Callable[..., Any], length: int = 7, reverse: bool = False
) -> Callable[[Any, Any], Any]:
    """Return a function with two scans.

    The slices of the second scan are computed by `second` from the results of the first one.
    """

    def fn(x: Any, xs: Any) -> Any:
        last, (states, _) = two_scans(x, xs)
        start, slices = second(last, states, x, xs)
        step = lambda c, u: (c * u + 1, c)
        return last, tnf.scan(step, start, slices, length=length, reverse=reverse)

    return fn


def scans(program: Any) -> list[Scan]:
    return [step.op for step in program.instructions if isinstance(step.op, Scan)]


def require_same_bits(program: Any, fused: Any, *arrays: Any) -> None:
    executor = tnf.GraphExecutor("K", compiled=False, passes=())
    sides = [flatten(executor.run(each, *arrays))[0] for each in (program, fused)]
    for one, other in zip(*sides, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize(
    ("fn", "before", "after"),
    [
        (lambda x, xs: tnf.jvp(two_scans, (x, xs), (x, xs)), 2, 1),
        (lambda x, xs: tnf.jvp(tnf.grad(total), (x, xs), (x, xs)), 4, 2),
        (two(lambda last, states, x, xs: (x, states)), 2, 1),
        (two(lambda last, states, x, xs: (x * 2, states)), 2, 1),
        # An op between the scans must move before the merged scan. If the op reads a result of the first scan, the
        # scans must not be merged.
        (two(lambda last, states, x, xs: (tnf.sum(xs) + x, states)), 2, 1),
        (two(lambda last, states, x, xs: (last, states)), 2, 2),
        (two(lambda last, states, x, xs: (x, states * 2)), 2, 2),
        (two(lambda last, states, x, xs: (x, tnf.flip(states, axis=0))), 2, 2),
        (two(lambda last, states, x, xs: (x, xs)), 2, 2),
        (two(lambda last, states, x, xs: (x, states), reverse=True), 2, 2),
        (two(lambda last, states, x, xs: (x, states[:4]), length=4), 2, 2),
    ],
)
def test_the_same_bits_by_fewer_scans(fn: Any, before: int, after: int) -> None:
    program = tnf.compile(fn, X, XS)
    fused = fuse_scans(program)
    assert (len(scans(program)), len(scans(fused))) == (before, after)
    assert fused is program if before == after else fused is not program
    require_same_bits(program, fused, X, XS)


def test_nothing_is_stacked_between_them() -> None:
    fn = lambda x: tnf.jvp(
        lambda x: tnf.fori_loop(0, 9, lambda _, c: tnf.sin(c) * x, x), (x,), (x,)
    )
    program = tnf.compile(fn, X)
    (fused,) = scans(fuse_scans(program))
    assert len(scans(program)[0].body.output_specs) > scans(program)[0].num_carry
    assert len(fused.body.output_specs) == fused.num_carry


def test_loops_that_print_stay_apart() -> None:
    def fn(x: Any, xs: Any) -> Any:
        def step(c: Any, u: Any) -> Any:
            tnf.debug_print("{}", c)
            return c + u, c

        _, states = tnf.scan(step, x, xs)
        return tnf.scan(lambda c, u: (c * u, c), x, states)

    program = tnf.compile(fn, X, XS)
    assert fuse_scans(program) is program


def test_three_in_a_row_are_one() -> None:
    def fn(x: Any, xs: Any) -> Any:
        step = lambda c, u: (c * 0.5 + u, c)
        _, ys = tnf.scan(step, x, xs)
        _, zs = tnf.scan(step, x, ys)
        return tnf.scan(step, x, zs)

    program = tnf.compile(fn, X, XS)
    fused = fuse_scans(program)
    assert len(scans(fused)) == 1
    require_same_bits(program, fused, X, XS)


def test_bounded_loops_end_early_first() -> None:
    """`stop_early` must run before `fuse_scans`.

    A merged loop with two conditionals would run all iterations.
    """
    assert NATIVE_PASSES.index(fuse_scans) > NATIVE_PASSES.index(stop_early)
