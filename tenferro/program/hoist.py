"""Hoisting of large constants to inputs, so that XLA gets them as arrays, not as text in the module."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenferro.ops.source import Constant
from tenferro.program.instructions import renumber
from tenferro.program.program import GraphProgram
from tenferro.types import flatten, unflatten

__all__ = ["hoist_constants"]


def hoist_constants(program: GraphProgram, above: int) -> tuple[GraphProgram, dict[str, Any]]:
    """Return a program with inputs in place of constants of more than `above` bytes, and these constants by name.

    The additional inputs follow the other inputs. Together they form the last argument of the program, a dict.

    >>> import numpy as np, tenferro as tnf
    >>> table = np.arange(3.0)
    >>> program, constants = hoist_constants(tnf.compile(lambda x: x + table, np.ones(3)), above=16)
    >>> program.run(np.ones(3), constants)
    array([1., 2., 3.])
    """
    arrays: dict[str, Any] = {}
    hoisted: dict[int, None] = {}
    for instruction in program.instructions:
        op = instruction.op
        if isinstance(op, Constant) and op.array.nbytes > above:
            arrays[f"constant{len(arrays)}"] = op.array
            hoisted[instruction.outputs[0]] = None
    if not hoisted:
        return program, {}
    inputs = (*program.input_slots, *hoisted)
    rest = [i for i in program.instructions if i.outputs[0] not in hoisted]
    instructions, slots, output_slots = renumber(rest, inputs, program.output_slots)
    arguments: Any = unflatten(program.in_tree, program.input_slots)
    return replace(
        program,
        instructions=instructions,
        types=tuple([program.types[slot] for slot in slots]),
        input_slots=tuple(range(len(inputs))),
        output_slots=output_slots,
        in_tree=flatten((*arguments, arrays))[1],
        input_names=(*program.input_names, *arrays),
        marked=None,
    ), arrays
