"""Finish: results as the caller wants them, in an order and each in memory of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from tenferro.errors import BackendFailureError
from tenferro.exec.claims import own
from tenferro.exec.copying import Dense
from tenferro.exec.interpreter import located
from tenferro.exec.plan.alias import aliases, may_view
from tenferro.exec.plan.place import free, slots_read
from tenferro.exec.schedule import Block, Copies, ExecInstruction, ExecProgram

__all__ = ["finish"]


def finish(program: ExecProgram, order: Literal["F", "C", "K"]) -> ExecProgram:
    """The schedule with copies of the results that may be in another order, or in memory of others.

    Results never share memory with an input, a constant, or each other. One in memory of its own is copied as soon
    as nothing else reads it: caches hold it then, and its memory serves the next. A kernel that can give its result
    in the order does so, where nothing else reads it.
    """
    memory = aliases(program)
    roots = [memory.roots[slot] for slot in program.output_slots]
    times = Counter([root for several in roots for root in several])
    viewed = {slot for step in program.instructions if may_view(step) for slot in step.output_slots}
    # Compiled blocks write results in the order that the schedule was planned for.
    blocks = [step for step in program.instructions if isinstance(step.op, Block)]
    ordered = {s for step in blocks for s in step.output_slots if order == program.order}
    shared: list[int] = []
    alone: dict[int, int] = {}
    beside: dict[int, None] = {}
    for position, (slot, several) in enumerate(zip(program.output_slots, roots, strict=True)):
        foreign = [root for root in several if root in memory.foreign]
        if foreign or any([times[root] > 1 for root in several]):
            shared.append(position)
            beside.update(dict.fromkeys([root for root in foreign if root in program.input_slots]))
        elif order == "K" or slot in ordered:
            continue
        elif program.types[slot].rank > 1 or slot in viewed:
            alone[slot] = position
    copied = [*alone.values(), *shared]
    if not copied:
        return program
    new = dict(zip(copied, range(program.n_slots, program.n_slots + len(copied)), strict=True))
    outputs = tuple([new.get(n, slot) for n, slot in enumerate(program.output_slots)])
    makers = {slot: step for step in program.instructions for slot in step.output_slots}

    def copies(positions: Sequence[int], *others: int) -> ExecInstruction:
        slots = tuple([program.output_slots[position] for position in positions])
        op = Copies(order, len(slots))
        dense = None if order == "K" else Dense(order, program.resources)
        function = partial(_copied, len(slots), dense, [makers.get(slot) for slot in slots])
        return ExecInstruction(
            op=op,
            kernel=function,
            function=function,
            input_slots=(*slots, *others),
            output_slots=tuple([new[position] for position in positions]),
            output_types=tuple([program.types[slot] for slot in slots]),
        )

    steps: list[ExecInstruction] = []
    read = {slot for step in program.instructions for slot in slots_read(step)}
    for step, ending in zip(program.instructions, _ending(program, alone), strict=True):
        in_order = getattr(step.function, "in_order", None)
        numbers = [
            n for n, slot in enumerate(step.output_slots) if slot in alone and slot not in read
        ]
        if in_order is not None and numbers:
            step = step._replace(function=in_order(order, numbers))
        steps += [step, *[copies([alone[slot]]) for slot in ending]]
    if shared:
        steps.append(copies(shared, *beside))
    finished = replace(
        program,
        instructions=tuple(steps),
        output_slots=outputs,
        types=(*program.types, *[program.types[program.output_slots[n]] for n in copied]),
    )
    return free(finished)


def _ending(program: ExecProgram, slots: Container[int]) -> list[list[int]]:
    """For each step, those of the slots that no later one reads."""
    last: dict[int, int] = {}
    for number, step in enumerate(program.instructions):
        last.update(
            dict.fromkeys(
                [s for s in (*slots_read(step), *step.output_slots) if s in slots], number
            )
        )
    ending: list[list[int]] = [[] for _ in program.instructions]
    for slot, number in last.items():
        ending[number].append(slot)
    return ending


def _copied(
    count: int, dense: Dense | None, makers: Sequence[ExecInstruction | None], *arrays: Any
) -> Any:
    """The kernel of the copies: the first arrays, in memory of their own; a single one by itself.

    Raises:
        BackendFailureError: a view that memory does not hold once it is copied, with its op and line.
    """
    try:
        copies = own(arrays[:count], arrays[count:], dense)
    except MemoryError as error:
        number, text = error.args
        maker = makers[number]
        if maker is None:
            raise BackendFailureError(f"result {number}, a copy of an input: {text}") from error
        raise located(maker, MemoryError(text)) from error
    return copies if len(copies) > 1 else copies[0]
