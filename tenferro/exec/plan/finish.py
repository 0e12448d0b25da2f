"""Finish: adds copies of results that have another memory order than requested, or share memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from tenferro.errors import BackendFailureError
from tenferro.exec.interpreter import located
from tenferro.exec.kernels.aliasing import copy_aliases
from tenferro.exec.kernels.copying import Dense
from tenferro.exec.plan.alias import aliases, may_view
from tenferro.exec.plan.place import free
from tenferro.exec.planned import Block, Copies
from tenferro.exec.schedule import ExecInstruction, ExecProgram

__all__ = ["copied", "finish"]


def finish(program: ExecProgram, order: Literal["F", "C", "K"]) -> ExecProgram:
    """Return the schedule with copies of the results that may have another order or share memory.

    After this step, no result shares memory with an input, a constant, or another result.
    """
    memory = aliases(program)
    roots = [memory.roots[slot] for slot in program.output_slots]
    times = Counter([root for several in roots for root in several])
    viewed = {slot for step in program.instructions if may_view(step) for slot in step.output_slots}
    # Compiled blocks write results whose order is known: it is row-major, or the order in `axes`.
    blocks = [step for step in program.instructions if isinstance(step.inner_op, Block)]
    ordered = {
        s for x in blocks for s in x.output_slots if (s in x.inner_op.axes) == (order == "F")
    }
    shared: list[int] = []
    alone: list[int] = []
    operands: dict[int, None] = {}
    for position, (slot, several) in enumerate(zip(program.output_slots, roots, strict=True)):
        foreign = [root for root in several if root in memory.foreign]
        if foreign or any([times[root] > 1 for root in several]):
            shared.append(position)
            operands.update(
                dict.fromkeys([root for root in foreign if root in program.input_slots])
            )
        elif order == "K" or slot in ordered:
            continue
        elif program.types[slot].rank > 1 or slot in viewed:
            alone.append(position)
    copied = [*alone, *shared]
    if not copied:
        return program
    new = dict(
        zip(copied, range(len(program.types), len(program.types) + len(copied)), strict=True)
    )
    makers = {slot: step for step in program.instructions for slot in step.output_slots}

    def copies(positions: Sequence[int], *others: int) -> ExecInstruction:
        slots = [program.output_slots[position] for position in positions]
        inputs = (*slots, *others)
        types = tuple([program.types[slot] for slot in inputs])
        return ExecInstruction(
            op=Copies(order, len(slots), tuple([makers.get(slot) for slot in slots])),
            input_slots=inputs,
            output_slots=tuple([new[position] for position in positions]),
            input_types=types,
            output_types=types[: len(slots)],
            kernels=program.kernels,
        )

    # There is one step per result, so that the memory of each result is freed before the next result is copied.
    steps = [*program.instructions, *[copies([position]) for position in alone]]
    if shared:
        steps.append(copies(shared, *operands))
    finished = replace(
        program,
        instructions=tuple(steps),
        output_slots=tuple([new.get(n, slot) for n, slot in enumerate(program.output_slots)]),
        types=(*program.types, *[program.types[program.output_slots[n]] for n in copied]),
    )
    return free(finished)


def copied(op: Copies, dense: Dense | None, *arrays: Any) -> Any:
    """Return copies of the results: a tuple, or one array if there is one result.

    Args:
        arrays: the results, and then the inputs with which they may share memory.
        dense: copies an array to the requested order; None to keep the order of each array.

    Raises:
        BackendFailureError: there is not enough memory for a copy; the error names the op and the user's line.
    """
    try:
        copies = copy_aliases(arrays[: op.count], arrays[op.count :], dense)
    except MemoryError as error:
        number, text = error.args
        maker = op.makers[number]
        if maker is None:
            raise BackendFailureError(f"result {number}, a copy of an input: {text}") from error
        raise located(maker, MemoryError(text)) from error
    return copies if len(copies) > 1 else copies[0]
