"""A planning step that replaces x * x by a square must work in programs, loops, fused groups and compiled blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import MissingCellError
from tenferro.exec import ExecProgram
from tenferro.exec.kernels.kernel import Kernel, elementwise
from tenferro.exec.llvm import is_installed
from tenferro.exec.llvm.elementwise import elementwise as compiled
from tenferro.exec.llvm.elementwise import multiply
from tenferro.exec.planned import Compiled
from tenferro.ops.elementwise import Multiply, SameType
from tenferro.rules.dtypes import NUMERIC

needs_llvmlite = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
CALLS: list[str] = []


def square(x: Any, out: Any = None) -> Any:
    """Return x^2, and record the call in CALLS."""
    CALLS.append("square")
    return np.square(x, out=out)


def write_square(code: Any, op: Any, dtype: Any, xs: Any) -> Any:
    """Write LLVM code that computes x * x, and record the call in CALLS."""
    CALLS.append("text")
    return multiply(code, op, dtype, [xs[0], xs[0]])


class Square(SameType):
    """Square: y = x^2, an op that only these tests define."""

    __slots__ = ()
    accepts: ClassVar[frozenset[tnf.DType]] = NUMERIC
    cells: ClassVar[Mapping[str, Any]] = {
        "kernel": elementwise(square),
        "compiled": compiled(write_square, rounds=True),
    }


def squares(schedule: ExecProgram) -> ExecProgram:
    """Return the schedule with each product of a value with itself replaced by a square."""
    return replace(
        schedule,
        instructions=tuple([
            step.replaced(op=Square(), input_slots=step.input_slots[:1], input_types=step.input_types[:1])
            if isinstance(step.op, Multiply) and step.input_slots[0] == step.input_slots[1]
            else step
            for step in schedule.instructions
        ]),
    )  # fmt: skip


def executor_with_squares(**options: Any) -> tnf.GraphExecutor:
    executor = tnf.GraphExecutor("K", **options)
    executor.binder = replace(executor.binder, plan=(squares, *executor.binder.plan))
    return executor


def plain(x: Any) -> Any:
    for _ in range(8):
        x = x * x + 0.1
    return x


def looped(x: Any) -> Any:
    return tnf.fori_loop(0, 40, lambda i, c: tnf.cumsum(c * c) * 0.5 + x, x)


def branched(x: Any) -> Any:
    return tnf.cond(tnf.sum(x) > 0.0, plain, lambda x: x, x)


def normalised(x: Any) -> Any:
    return x * x / tnf.sum(x * x + x, axis=-1, keepdims=True)


SMALL = np.linspace(0.1, 0.4, 6)
LARGE = np.linspace(-1.0, 2.0, 300_000).reshape(300, 1000)
PROGRAMS = {
    "plain": (plain, SMALL),
    "loop": (looped, SMALL),
    "conditional": (branched, SMALL),
    "fused group": (normalised, LARGE),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "interpreted": {"compiled": False},
    "compiled": {"compiled": True},
    "jit": {"compiled": "jit"},
}


def ops_in(schedule: ExecProgram) -> Iterator[Any]:
    """Yield the ops of a schedule, including those of its loop bodies."""
    for step in schedule.instructions:
        yield step.op
        for body in step.bodies:
            yield from ops_in(body)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("options", ["interpreted", *[pytest.param(each, marks=needs_llvmlite) for each in ("compiled", "jit")]])  # fmt: skip
def test_squares(name: str, options: str) -> None:
    fn, x = PROGRAMS[name]
    program = tnf.compile(fn, x)
    executor = executor_with_squares(**OPTIONS[options])
    expected = tnf.GraphExecutor("K", **OPTIONS[options]).run(program, x)
    CALLS.clear()
    for _ in range(3):
        y = executor.run(program, x)
        assert y.tobytes() == expected.tobytes()
    is_compiled = any([isinstance(op, Compiled) for op in ops_in(executor.compile(program, x))])
    assert is_compiled == (options != "interpreted")
    assert ("text" if is_compiled else "square") in CALLS
    if not is_compiled:
        ops = list(ops_in(executor.compile(program, x)))
        assert Square() in [getattr(op, "op", op) for op in ops]


def test_an_op_without_cells_is_refused() -> None:
    class Cube(SameType):
        """Cube: y = x^3."""

        accepts: ClassVar[frozenset[tnf.DType]] = NUMERIC

    def cubes(schedule: ExecProgram) -> ExecProgram:
        return replace(
            schedule,
            instructions=tuple([step.replaced(op=Cube()) for step in schedule.instructions]),
        )

    executor = tnf.GraphExecutor("K", compiled=False)
    executor.binder = replace(executor.binder, plan=(cubes, *executor.binder.plan))
    with pytest.raises(MissingCellError, match="column kernel has no cell for Cube"):
        executor.run(tnf.compile(tnf.sin, SMALL), SMALL)


def test_kernels_of_outside_are_kernels() -> None:
    assert isinstance(Square.cells["kernel"], Kernel)
    assert Square.cells["kernel"].elementwise
