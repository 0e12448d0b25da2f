"""Finish: results as the caller wants them, in an order and each in memory of its own, by one step at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from tenferro.errors import BackendFailureError
from tenferro.exec.claims import own
from tenferro.exec.interpreter import located
from tenferro.exec.plan.alias import aliases, may_view
from tenferro.exec.plan.place import free
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.schedule import Copies, ExecInstruction, ExecProgram

__all__ = ["finish"]


def finish(program: ExecProgram, order: Literal["F", "C", "K"]) -> ExecProgram:
    """The schedule with copies of the results that may be in another order, or in memory of others.

    Results never share memory with an input, a constant, or each other.
    """
    memory = aliases(program)
    roots = [memory.roots[slot] for slot in program.output_slots]
    times = Counter([root for several in roots for root in several])
    viewed = {slot for step in program.instructions if may_view(step) for slot in step.output_slots}
    copied: list[int] = []
    beside: dict[int, None] = {}
    for position, (slot, several) in enumerate(zip(program.output_slots, roots, strict=True)):
        spec = program.types[slot]
        foreign = [root for root in several if root in memory.foreign]
        is_shared = bool(foreign) or any([times[root] > 1 for root in several])
        may_turn = order != "K" and (spec.rank > 1 or slot in viewed)
        if is_shared or may_turn:
            copied.append(position)
            beside.update(dict.fromkeys([root for root in foreign if root in program.input_slots]))
    if not copied:
        return program
    results = [program.output_slots[position] for position in copied]
    new = range(program.n_slots, program.n_slots + len(copied))
    op = Copies(order, len(copied))
    makers = {slot: step for step in program.instructions for slot in step.output_slots}
    function = partial(_copied, op, program.resources, [makers.get(slot) for slot in results])
    step = ExecInstruction(
        op=op,
        kernel=function,
        function=function,
        input_slots=(*results, *beside),
        output_slots=tuple(new),
        output_types=tuple([program.types[slot] for slot in results]),
    )
    outputs = list(program.output_slots)
    for position, slot in zip(copied, new, strict=True):
        outputs[position] = slot
    dying = tuple([slot for slot in dict.fromkeys(results) if slot not in outputs])
    finished = replace(
        program,
        instructions=(*program.instructions, step._replace(frees=dying)),
        output_slots=tuple(outputs),
        types=(*program.types, *step.output_types),
    )
    return free(finished) if beside else finished


def _copied(
    op: Copies, resources: Resources, makers: Sequence[ExecInstruction | None], *arrays: Any
) -> Any:
    """The kernel of the copies: the results; a single one by itself.

    Raises:
        BackendFailureError: a view that memory does not hold once it is copied, with its op and line.
    """
    try:
        copies = own(arrays[: op.count], arrays[op.count :], op.order, resources)
    except MemoryError as error:
        number, text = error.args
        maker = makers[number]
        if maker is None:
            raise BackendFailureError(f"result {number}, a copy of an input: {text}") from error
        raise located(maker, MemoryError(text)) from error
    return copies if len(copies) > 1 else copies[0]
