"""The verifier must accept valid schedules, and reject a schedule that violates any of its rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import InvalidScheduleError
from tenferro.exec import ExecProgram
from tenferro.exec.plan import place
from tenferro.exec.plan.verify import VERIFY_VARIABLE, verify
from tenferro.exec.planned import Block
from tenferro.exec.schedule import Arena, InPlace
from tenferro.ops.analytic import Sin
from tenferro.types import TensorSpec

X = np.linspace(0.1, 1.0, 6)
Change = Callable[[ExecProgram], ExecProgram]


def plain() -> ExecProgram:
    """Return the schedule of sin(x) exp(sin(x)).

    Slot 0 is the input x, slot 1 is sin(x), slot 2 its exponential, and slot 3 the product.
    """

    def fn(x: Any) -> Any:
        y = tnf.sin(x)
        return y * tnf.exp(y)

    return tnf.GraphExecutor("K", compiled=False).compile(tnf.compile(fn, X))


def step(number: int, **changes: Any) -> Change:
    """Return a function that replaces fields of the step `number` of a schedule."""

    def changed(program: ExecProgram) -> ExecProgram:
        steps = list(program.instructions)
        steps[number] = steps[number].replaced(**changes)
        return replace(program, instructions=tuple(steps))

    return changed


SCALAR = TensorSpec((), "float64")
BROKEN: dict[str, tuple[Change, str]] = {
    "unwritten operand": (step(0, input_slots=(3,)), "%3 is used before it is written"),
    "operand of a later step": (step(1, input_slots=(3,)), "%3 is used before it is written"),
    "two writers": (step(1, output_slots=(1,)), "%1 is written twice"),
    "writer of an input": (step(1, output_slots=(0,)), "%0 is written twice"),
    "use after free": (step(1, frees=(1,), places=()), "%1 is used after it was freed"),
    "freed twice": (step(2, frees=(1, 1, 2)), "%1 is used after it was freed"),
    "freed output": (step(2, frees=(1, 2, 3)), "%3 is freed, and needed at the end"),
    "missing operand": (step(2, input_slots=(1,)), "2 types for 1 operands"),
    "missing type": (step(0, output_types=()), "0 types for 1 results"),
    "other type": (step(0, output_types=(SCALAR,)), r"%1 is f64\[6\], the step says f64\[\]"),
    "other op": (step(2, op=Sin()), "2 operands and 1 results, the op has 1 and 1"),
    "too many places": (step(0, places=(None, None)), "2 places for 1 results"),
    "in place of no operand": (step(2, places=(InPlace(0),), frees=(1, 2)), "used after it was freed|which is not an operand"),
    "in place of an operand that is needed": (step(1, places=(InPlace(1),)), "%1, which is needed afterwards"),
    "outside of the arena": (step(0, places=(Arena(0, 48),)), "%1 lies outside of the arena"),
    "unwritten output": (lambda p: replace(p, output_slots=(9,)), "%9 is used before it is written"),
    "input twice": (lambda p: replace(p, input_slots=(0, 0)), "has the slot of another"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_rule_that_is_broken_is_told(name: str) -> None:
    change, message = BROKEN[name]
    program = plain()
    assert verify(program) is program
    with pytest.raises(InvalidScheduleError, match=message):
        verify(change(program))


def test_a_result_in_place_of_an_input() -> None:
    program = tnf.GraphExecutor("K", compiled=False).compile(tnf.compile(tnf.sin, X))
    with pytest.raises(InvalidScheduleError, match="which is not the program's"):
        verify(step(0, places=(InPlace(0),), frees=(0,))(program))


def test_a_result_in_place_of_a_view() -> None:
    fn = lambda x: tnf.exp(tnf.matrix_transpose(tnf.sin(x)))
    program = tnf.GraphExecutor("K", compiled=False).compile(tnf.compile(fn, np.ones((3, 3))))
    with pytest.raises(InvalidScheduleError, match="needed afterwards"):
        verify(step(2, places=(InPlace(2),))(program))


def test_values_that_overlap_in_the_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "MIN_PLACED_BYTES", 1)
    monkeypatch.setattr("tenferro.exec.kernels.dot_general.MIN_BUFFERED_ELEMENTS", 0)
    x = np.ones((30, 30))
    fn = lambda x: tnf.sum((x @ x) @ (x @ x.T))
    program = tnf.GraphExecutor("K", compiled=False).compile(tnf.compile(fn, x))
    products = [n for n, each in enumerate(program.instructions) if any(isinstance(p, Arena) for p in each.places)]  # fmt: skip
    assert len(products) >= 2
    first = program.instructions[products[0]].places
    with pytest.raises(InvalidScheduleError, match="overlap in the arena"):
        verify(step(products[1], places=first)(program))


def test_bodies_keep_the_rules() -> None:
    def fn(x: Any) -> Any:
        return tnf.scan(lambda c, _: (tnf.sin(c) * c, None), x, None, length=2)[0]

    program = tnf.GraphExecutor("K", compiled=False).compile(tnf.compile(fn, X))
    control = program.instructions[0].op
    (body,) = control.schedules
    broken = step(0, op=replace(control, schedules=(step(0, input_slots=(2,))(body),)))(program)
    with pytest.raises(InvalidScheduleError, match="%2 is used before it is written"):
        verify(broken)


def test_a_block_keeps_the_rules() -> None:
    pytest.importorskip("llvmlite")
    program = tnf.GraphExecutor("K", compiled=True).compile(
        tnf.compile(lambda x: tnf.sin(x) * x, X)
    )
    (compiled,) = [each.op for each in program.instructions]
    block = compiled.op
    assert isinstance(block, Block)
    broken = replace(compiled, op=replace(block, body=step(0, output_slots=(0,))(block.body)))
    with pytest.raises(InvalidScheduleError, match="%0 is written twice"):
        verify(step(0, op=broken)(program))


def test_planning_steps_are_verified_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = tnf.GraphExecutor("K", compiled=False)
    broken = lambda program: step(0, input_slots=(99,))(program)
    executor.binder = replace(executor.binder, plan=(broken, *executor.binder.plan))
    program = tnf.compile(tnf.sin, X)
    with pytest.raises(InvalidScheduleError, match="%99 is used before it is written"):
        executor.compile(program)
    monkeypatch.delenv(VERIFY_VARIABLE)
    with pytest.raises((IndexError, KeyError)):
        executor.run(program, X)
