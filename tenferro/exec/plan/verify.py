"""Verify: checks that a schedule is valid, in tests after each planning step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from tenferro.dims import GuardLog
from tenferro.errors import InvalidScheduleError
from tenferro.exec.plan.alias import aliases
from tenferro.exec.plan.place import slots_read
from tenferro.exec.schedule import Arena, ExecInstruction, ExecProgram, InPlace
from tenferro.types import TensorSpec

__all__ = ["VERIFY_VARIABLE", "verified", "verify"]

VERIFY_VARIABLE = "TENFERRO_VERIFY_SCHEDULES"
"""Environment variable that enables the verification after each planning step; tenferro's tests set it."""


def verified(program: ExecProgram) -> ExecProgram:
    """Return the schedule; verify it if the environment variable `VERIFY_VARIABLE` is set."""
    return verify(program) if os.environ.get(VERIFY_VARIABLE) else program


def verify(program: ExecProgram) -> ExecProgram:
    """Return the schedule if it is valid, that is, if all of these rules hold.

    1. Inputs, constants and results are distinct slots. A slot is written once, before it is read.
    2. A standard op has as many operands and results as it requires, and its results have the types that it infers.
    3. A slot is freed once, by the last step that uses it. Outputs and constants are not freed.
    4. A result may overwrite an operand of its type, at the operand's last use, if no other value shares the memory.
    5. Offsets are within the arena. Values that are live at the same time do not overlap.
    6. The rules hold for bodies.

    Raises:
        InvalidScheduleError: a rule does not hold for a step, which the error names.

    >>> import numpy as np
    >>> import tenferro as tnf
    >>> program = tnf.compile(lambda x: tnf.sin(x) + 1.0, np.ones(3))
    >>> verify(tnf.GraphExecutor().compile(program))
    <ExecProgram (f64[3]): 2 instructions>
    """
    pending = [program]
    while pending:
        schedule = pending.pop()
        _verify_steps(schedule)
        _verify_places(schedule)
        pending += [body for step in schedule.instructions for body in step.bodies]
    return program


def _require(is_kept: bool, text: str) -> None:
    if not is_kept:
        raise InvalidScheduleError(text)


def _verify_steps(program: ExecProgram) -> None:
    """Check the rules of slots and types for one schedule, without bodies."""
    sources = (*program.input_slots, *program.constants)
    written, freed = {*sources}, set[int]()
    _require(len(written) == len(sources), "an input or constant has the slot of another")
    live_at_end = {*program.output_slots, *program.constants}

    def require_value(slot: int) -> None:
        _require(slot in written, f"%{slot} is used before it is written")
        _require(slot not in freed, f"%{slot} is used after it was freed")

    for number, step in enumerate(program.instructions):
        try:
            for slot in slots_read(step):
                require_value(slot)
            for slot in step.output_slots:
                _require(slot not in written, f"%{slot} is written twice")
                written.add(slot)
            _require_types(step, program.types)
            for slot in step.frees:
                _require(slot not in live_at_end, f"%{slot} is freed, and needed at the end")
                require_value(slot)
                freed.add(slot)
        except InvalidScheduleError as error:
            raise InvalidScheduleError(f"step {number}, {step.op}: {error}") from None
    for slot in program.output_slots:
        require_value(slot)


def _require_types(step: ExecInstruction, types: Sequence[TensorSpec]) -> None:
    """Check the number and types of operands and results, also by the type inference of a standard op."""
    operands, results = step.input_types, step.output_types
    for kind, specs, slots in (
        ("operands", operands, step.input_slots),
        ("results", results, step.output_slots),
    ):
        _require(len(specs) == len(slots), f"{len(specs)} types for {len(slots)} {kind}")
        for slot, spec in zip(slots, specs, strict=True):
            _require(types[slot] == spec, f"%{slot} is {types[slot]}, the step says {spec}")
    places = len(step.places)
    _require(places <= len(results), f"{places} places for {len(results)} results")
    if step.planned is not None and step.control is None:
        return
    op = step.source_op
    _require(
        len(operands) == op.input_count and len(results) == op.output_count,
        f"{len(operands)} operands and {len(results)} results, the op has {op.input_count} and {op.output_count}",
    )
    for wanted, spec in zip(op.infer(*operands, guards=GuardLog()), results, strict=True):
        is_same = wanted == spec or not (wanted.is_static and spec.is_static)
        is_same = is_same and wanted.dtype is spec.dtype
        _require(is_same, f"a result is {spec}, the op infers {wanted}")


def _verify_places(program: ExecProgram) -> None:
    """Check that values that are live at the same time do not overlap in memory."""
    roots = aliases(program).roots
    last: dict[int, int] = {}
    for number, step in enumerate(program.instructions):
        for slot in (*step.input_slots, *step.output_slots):
            last.update(dict.fromkeys(roots[slot], number))
    for slot in program.output_slots:
        last.update(dict.fromkeys(roots[slot], len(program.instructions)))
    living: dict[int, Arena] = {}
    for number, step in enumerate(program.instructions):
        for slot, place in zip(step.output_slots, step.places, strict=False):
            if isinstance(place, Arena):
                _require_room(slot, place, living, program.memory.size)
                living[slot] = place
            elif isinstance(place, InPlace):
                operand = place.slot
                _require_overwritable(program, step, slot, operand)
                is_alone = operand in step.frees and roots[operand] == (operand,)
                is_last = is_alone and last[operand] <= number
                _require(is_last, f"%{slot} is written over %{operand}, which is needed afterwards")
                if operand in living:
                    living[slot] = living.pop(operand)
        for slot in [slot for slot in living if last[slot] <= number]:
            del living[slot]


def _require_room(slot: int, place: Arena, living: Mapping[int, Arena], size: int) -> None:
    end = place.offset + place.size
    _require(0 <= place.offset <= end <= size, f"%{slot} lies outside of the arena")
    for other, taken in living.items():
        is_apart = end <= taken.offset or taken.offset + taken.size <= place.offset
        _require(is_apart, f"%{slot} and %{other} overlap in the arena")


def _require_overwritable(
    program: ExecProgram, step: ExecInstruction, slot: int, operand: int
) -> None:
    """Check that an operand is neither an input nor a constant, and that it has the type of the result."""
    text, types = f"%{slot} is written over %{operand}", program.types
    _require(operand in step.input_slots, f"{text}, which is not an operand")
    _require(types[slot] == types[operand], f"{text}, of another type")
    sources = (*program.input_slots, *program.constants)
    _require(operand not in sources, f"{text}, which is not the program's")
