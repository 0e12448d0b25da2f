"""Verify: the rules of the language of schedules.

A planning step may rely on them, and has to keep them. Tests verify a schedule after each step.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

from tenferro.dims import GuardLog
from tenferro.errors import InvalidScheduleError
from tenferro.exec.plan.alias import aliases
from tenferro.exec.schedule import Arena, ExecInstruction, ExecProgram, InPlace
from tenferro.ops import StdTensorOp
from tenferro.types import TensorSpec

__all__ = ["VERIFY_VARIABLE", "verified", "verify"]

VERIFY_VARIABLE = "TENFERRO_VERIFY_SCHEDULES"
"""The environment variable that has schedules verified after each planning step; tests of tenferro set it."""


def verified(program: ExecProgram) -> ExecProgram:
    """Return the schedule, verified if `VERIFY_VARIABLE` requires it."""
    return verify(program) if os.environ.get(VERIFY_VARIABLE) else program


def verify(program: ExecProgram) -> ExecProgram:
    """Return the schedule, if it keeps the rules of the language.

    1. Inputs, constants and results are distinct slots; a slot is written once, and before it is read.
    2. The operands and results of a standard op have the number and the types that the op infers.
    3. A slot is freed once, by the last step that uses it; outputs and constants are not freed.
    4. A result in place of an operand has its type, it is the operand's last use, and nothing else refers to its memory.
    5. Offsets are inside of the arena, and those of values that are needed at the same time do not overlap.
    6. Bodies keep these rules.

    Raises:
        InvalidScheduleError: a rule is broken, with the step.

    >>> import numpy as np
    >>> import tenferro as tnf
    >>> program = tnf.compile(lambda x: tnf.sin(x) + 1.0, np.ones(3))
    >>> verify(tnf.GraphExecutor().compile(program))
    <ExecProgram (f64[3]): 2 instructions>
    """
    pending = [program]
    while pending:
        schedule = pending.pop()
        _Rules(schedule).require()
        pending += [body for step in schedule.instructions for body in step.bodies]
    return program


class _Rules:
    """The rules for one schedule, without its bodies."""

    def __init__(self, program: ExecProgram) -> None:
        self.program = program
        self.written: set[int] = {*program.input_slots, *program.constants}
        self.freed: set[int] = set()

    def require(self) -> None:
        """Raise if a rule is broken."""
        program = self.program
        sources = (*program.input_slots, *program.constants)
        if len({*sources}) < len(sources):
            raise InvalidScheduleError("an input or constant has the slot of another")
        kept = {*program.output_slots, *program.constants}
        for number, step in enumerate(program.instructions):
            try:
                self._operands(step)
                self._results(step)
                self._types(step)
                self._frees(step, kept)
            except InvalidScheduleError as error:
                raise InvalidScheduleError(f"step {number}, {step.op}: {error}") from None
        for slot in program.output_slots:
            self._is_there(slot)
        _require_apart(program)

    def _is_there(self, slot: int) -> None:
        if slot not in self.written:
            raise InvalidScheduleError(f"%{slot} is used before it is written")
        if slot in self.freed:
            raise InvalidScheduleError(f"%{slot} is used after it was freed")

    def _operands(self, step: ExecInstruction) -> None:
        targets = [place.slot for place in step.places if isinstance(place, InPlace)]
        for slot in (*step.input_slots, *targets):
            self._is_there(slot)

    def _results(self, step: ExecInstruction) -> None:
        for slot in step.output_slots:
            if slot in self.written:
                raise InvalidScheduleError(f"%{slot} is written twice")
            self.written.add(slot)

    def _types(self, step: ExecInstruction) -> None:
        types = self.program.types
        counts = len(step.output_slots), len(step.places) or len(step.output_slots)
        if len(step.output_types) != counts[0]:
            raise InvalidScheduleError(f"{len(step.output_types)} types for {counts[0]} results")
        if len(step.input_types) != len(step.input_slots):
            raise InvalidScheduleError(
                f"{len(step.input_types)} types for {len(step.input_slots)} operands"
            )
        if counts[1] > counts[0]:
            raise InvalidScheduleError(f"{counts[1]} places for {counts[0]} results")
        said = zip(
            (*step.input_slots, *step.output_slots),
            (*step.input_types, *step.output_types),
            strict=True,
        )
        for slot, spec in said:
            if types[slot] != spec:
                raise InvalidScheduleError(f"%{slot} is {types[slot]}, the step says {spec}")
        if step.planned is None or step.control is not None:
            _require_types(step.source_op, step.input_types, step.output_types)

    def _frees(self, step: ExecInstruction, kept: Collection[int]) -> None:
        for slot in step.frees:
            if slot in kept:
                raise InvalidScheduleError(f"%{slot} is freed, and needed at the end")
            self._is_there(slot)
            self.freed.add(slot)


def _require_types(
    op: StdTensorOp, operands: Sequence[TensorSpec], results: Sequence[TensorSpec]
) -> None:
    """Require the types that an op infers, where these are known."""
    if len(operands) != op.input_count or len(results) != op.output_count:
        raise InvalidScheduleError(
            f"{len(operands)} operands and {len(results)} results, the op has {op.input_count} and {op.output_count}"
        )
    inferred = op.infer(*operands, guards=GuardLog())
    for wanted, spec in zip(inferred, results, strict=True):
        is_same = wanted == spec or not (wanted.is_static and spec.is_static)
        if not is_same or wanted.dtype is not spec.dtype:
            raise InvalidScheduleError(f"a result is {spec}, the op infers {wanted}")


def _require_apart(program: ExecProgram) -> None:
    """Require that values do not overlap in memory while both are needed."""
    aliasing = aliases(program)
    last: dict[int, int] = {}
    end = len(program.instructions)
    for number, step in enumerate(program.instructions):
        for slot in (*step.input_slots, *step.output_slots):
            last.update(dict.fromkeys(aliasing.roots[slot], number))
    for slot in program.output_slots:
        last.update(dict.fromkeys(aliasing.roots[slot], end))
    living: dict[int, Arena] = {}
    for number, step in enumerate(program.instructions):
        placed = dict(zip(step.output_slots, step.places, strict=False))
        for slot, place in placed.items():
            if isinstance(place, Arena):
                _require_room(slot, place, living, program.memory.size)
                living[slot] = place
            elif isinstance(place, InPlace):
                _require_last_use(program, step, slot, place.slot, aliasing.roots, last, number)
                if place.slot in living:
                    living[slot] = living.pop(place.slot)
        for slot in [slot for slot in living if last[slot] <= number]:
            del living[slot]


def _require_room(slot: int, place: Arena, living: Mapping[int, Arena], size: int) -> None:
    if not 0 <= place.offset <= place.offset + place.size <= size:
        raise InvalidScheduleError(f"%{slot} lies outside of the arena")
    for other, taken in living.items():
        if place.offset < taken.offset + taken.size and taken.offset < place.offset + place.size:
            raise InvalidScheduleError(f"%{slot} and %{other} overlap in the arena")


def _require_last_use(
    program: ExecProgram,
    step: ExecInstruction,
    slot: int,
    operand: int,
    roots: Mapping[int, tuple[int, ...]],
    last: Mapping[int, int],
    number: int,
) -> None:
    """Require that a result may be written over an operand."""
    if operand not in step.input_slots:
        raise InvalidScheduleError(f"%{slot} is written over %{operand}, which is not an operand")
    if program.types[slot] != program.types[operand]:
        raise InvalidScheduleError(f"%{slot} is written over %{operand}, of another type")
    if operand not in step.frees or roots[operand] != (operand,) or last[operand] > number:
        raise InvalidScheduleError(
            f"%{slot} is written over %{operand}, which is needed afterwards"
        )
    if operand in (*program.input_slots, *program.constants):
        raise InvalidScheduleError(
            f"%{slot} is written over %{operand}, which is not the program's"
        )
