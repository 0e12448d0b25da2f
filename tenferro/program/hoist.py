"""Large constants as inputs, so that a peer can pass them instead of printing them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenferro.ops.source import Constant
from tenferro.program.program import GraphProgram, Instruction
from tenferro.types import flatten, unflatten

__all__ = ["hoist_constants"]


def hoist_constants(program: GraphProgram, above: int) -> tuple[GraphProgram, dict[str, Any]]:
    """The program with constants of more than `above` bytes as further inputs, and their arrays by name.

    The new inputs follow the old ones, and are one last argument, a dict.

    >>> import numpy as np, tenferro as tnf
    >>> table = np.arange(3.0)
    >>> program, constants = hoist_constants(tnf.compile(lambda x: x + table, np.ones(3)), above=16)
    >>> program.run(np.ones(3), constants)
    array([1., 2., 3.])
    """
    arrays: dict[str, Any] = {}
    hoisted: list[int] = []
    for instruction in program.instructions:
        op = instruction.op
        if isinstance(op, Constant) and op.array.nbytes > above:
            arrays[f"constant{len(arrays)}"] = op.array
            hoisted.append(instruction.outputs[0])
    if not hoisted:
        return program, {}
    first = len(program.input_slots)
    order = [*program.input_slots, *hoisted]
    taken = set(hoisted)
    order += [slot for slot in range(first, program.n_slots) if slot not in taken]
    new = {slot: number for number, slot in enumerate(order)}
    arguments: Any = unflatten(program.in_tree, range(first))
    return replace(
        program,
        instructions=tuple(
            Instruction(
                i.op,
                tuple([new[slot] for slot in i.inputs]),
                tuple([new[slot] for slot in i.outputs]),
                i.last_use,
                i.source,
            )
            for i in program.instructions
            if i.outputs[0] not in taken
        ),
        types=tuple([program.types[slot] for slot in order]),
        input_slots=tuple(range(first + len(hoisted))),
        output_slots=tuple([new[slot] for slot in program.output_slots]),
        in_tree=flatten((*arguments, arrays))[1],
        input_names=(*program.input_names, *arrays),
    ), arrays
