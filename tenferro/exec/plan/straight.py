"""Straight: lines of steps as one step each, and groups as compiled code, once they have run so often that LLVM's work
is paid for.

A line gives the bits that its steps give, so that the schedule may change between two runs; how often is decided before
the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.llvm.link import Linker
from tenferro.exec.llvm.straight import VIEWS, StraightFunction, Text
from tenferro.exec.plan.late_groups import late_groups, with_compiled
from tenferro.exec.plan.lines import Compilable, Line, lines_of, runs_until_paid
from tenferro.exec.plan.place import free
from tenferro.exec.schedule import Arena, ExecInstruction, ExecProgram, Lent, Straight

__all__ = ["Straightener", "joined"]


class Straightener:
    """From a schedule to the one that later runs follow.

    Args:
        compiler: whose machine code it is; where that compiles always, the first run is a later one.
    """

    def __init__(self, compiler: LoopCompiler) -> None:
        self.linker, self.always = compiler.linker, compiler.always
        self.log = compiler.log

    def after(self, program: ExecProgram, inputs: Sequence[Any] = ()) -> int:
        """Return the number of runs before blocks and groups are compiled; 0 without any."""
        with suppress(NotCompiledError), self.log.attempt("estimate of compiled blocks"):
            return _runs([*self._lines(program, inputs), *late_groups(program)])
        return 0

    def straightened(self, program: ExecProgram, inputs: Sequence[Any] = ()) -> ExecProgram:
        """Return the schedule with compiled blocks as one step each, and with groups that are compiled late.

        Args:
            inputs: arrays with the layouts of later runs; row-major ones without any.
        """
        with suppress(NotCompiledError), self.log.attempt("compiled block"):
            with_groups = with_compiled(program, late_groups(program), self.linker)
            return joined(with_groups, self._lines(program, inputs), self.linker)
        return replace(program, later=None)

    def announced(self, program: ExecProgram) -> ExecProgram:
        """Return the schedule with a remark at the first step of each block, and at each group."""
        if self.always:
            return self.straightened(program)
        with suppress(NotCompiledError), self.log.attempt("estimate of compiled blocks"):
            return self._announced(program)
        return replace(program, later=None)

    def _announced(self, program: ExecProgram) -> ExecProgram:
        lines, groups = self._lines(program), late_groups(program)
        runs, steps = _runs([*lines, *groups]), list(program.instructions)
        for group in groups:
            step = steps[group.number]
            steps[group.number] = step._replace(note=f"compiled after {runs} runs")
        for line in lines:
            first, count = line.numbers[0], len(line.numbers)
            remark = f"the first of {count} steps that are compiled after {runs} runs"
            steps[first] = steps[first]._replace(note=remark)
        return replace(program, instructions=tuple(steps), later=None)

    def _lines(self, program: ExecProgram, inputs: Sequence[Any] = ()) -> list[Line]:
        lines = lines_of(program, inputs)
        return lines if self.always else [line for line in lines if line.saves > 0]


def _runs(parts: Sequence[Compilable]) -> int:
    return runs_until_paid(parts) if parts else 0


def joined(program: ExecProgram, lines: Sequence[Line], linker: Linker) -> ExecProgram:
    """The schedule with lines as steps, those that can be compiled."""
    steps: dict[int, list[ExecInstruction]] = {
        number: [step] for number, step in enumerate(program.instructions)
    }
    texts: dict[Any, Text] = {}
    touched: set[int] = set()
    for line in lines:
        try:
            step = _step(program, line, linker, texts)
        except NotCompiledError:
            continue
        views = [program.instructions[number] for number in line.views]
        for number in (*line.numbers, *line.views):
            steps[number] = []
        steps[line.numbers[-1]] = [step, *views]
        touched.update((*step.input_slots, *step.output_slots))
    order = _without_unread_views([step for each in steps.values() for step in each], program)
    numbers = program.numbers - touched
    return free(replace(program, instructions=order, numbers=numbers, later=None))


def _step(
    program: ExecProgram, line: Line, linker: Linker, texts: dict[Any, Text]
) -> ExecInstruction:
    """The step of a line."""
    constants = program.constants
    read = {slot for step in line.body for slot in step.input_slots}
    body = ExecProgram(
        instructions=tuple(map(_by_itself, line.body)),
        input_slots=line.takes,
        output_slots=line.gives,
        types=program.types,
        resources=program.resources,
        constants={slot: constants[slot] for slot in sorted(read & constants.keys())},
        numbers=program.numbers,
    )
    body = free(body)
    function = StraightFunction(body, line.orders, linker, line.is_optimised, texts)
    return ExecInstruction(
        op=Straight(body),
        kernel=function,
        function=function,
        input_slots=body.input_slots,
        output_slots=body.output_slots,
        output_types=tuple([program.types[slot] for slot in body.output_slots]),
        source=line.body[0].source,
        origin=tuple([number for step in line.body for number in step.origin]),
    )


def _by_itself(step: ExecInstruction) -> ExecInstruction:
    """A step that runs without the memory that the whole schedule has for what stays inside of it."""
    if not any([isinstance(place, Arena) for place in step.places]):
        return step
    places = [Lent(place.size) if isinstance(place, Arena) else place for place in step.places]
    return step._replace(places=tuple(places))


def _without_unread_views(
    steps: Sequence[ExecInstruction], program: ExecProgram
) -> tuple[ExecInstruction, ...]:
    """Without views that are read by lines alone, which do them again."""
    read = set(program.output_slots)
    remaining: list[ExecInstruction] = []
    for step in reversed(steps):
        if isinstance(step.op, VIEWS) and read.isdisjoint(step.output_slots):
            continue
        read.update(step.input_slots)
        remaining.append(step)
    return tuple(reversed(remaining))
