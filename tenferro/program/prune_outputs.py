"""Prune outputs: replace an extension op that has unused outputs by an op that computes only the used outputs.

Law: the results are equal up to rounding, and the instructions keep their order.

Source: docs/specification/schedule.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from tenferro.errors import InvalidConfigError
from tenferro.graph import Instruction
from tenferro.ops.control import ControlOp
from tenferro.ops.extension import Extension
from tenferro.program.instructions import renumber
from tenferro.program.subprogram import Subprogram

if TYPE_CHECKING:
    from tenferro.program.program import GraphProgram

__all__ = ["prune_outputs"]


def prune_outputs(program: GraphProgram) -> GraphProgram:
    """Return the program with `op.prune_outputs(used)` in place of each extension op that has unused outputs.

    Ops inside loops and branches are also replaced.

    Raises:
        InvalidConfigError: a replacement belongs to another family, has other inputs, or does not return exactly the
            used outputs.
    """
    if not any([_may_prune(instruction) for instruction in program.instructions]):
        return program
    read = {slot for instruction in program.instructions for slot in instruction.inputs}
    read.update(program.output_slots)
    instructions = [_pruned(program, one, read) for one in program.instructions]
    if all(a is b for a, b in zip(instructions, program.instructions, strict=True)):
        return program
    code, slots, outputs = renumber(instructions, program.input_slots, program.output_slots)
    types = tuple([program.types[slot] for slot in slots])
    return replace(program, instructions=code, types=types, output_slots=outputs)


def _may_prune(instruction: Instruction) -> bool:
    op = instruction.op
    return isinstance(op, ControlOp) or (isinstance(op, Extension) and len(instruction.outputs) > 1)


def _pruned(program: GraphProgram, instruction: Instruction, read: Collection[int]) -> Instruction:
    op = instruction.op
    if isinstance(op, ControlOp):
        programs = [part.program for part in op.parts]
        parts = [prune_outputs(part) for part in programs]
        if all(a is b for a, b in zip(parts, programs, strict=True)):
            return instruction
        return instruction._replace(op=op.with_parts(*map(Subprogram.of_program, parts)))
    if not isinstance(op, Extension) or len(instruction.outputs) < 2 or op.has_effects:
        return instruction
    used = tuple([slot in read for slot in instruction.outputs])
    prune = getattr(op.op, "prune_outputs", None)
    smaller = None if all(used) or prune is None else prune(used)
    if smaller is None:
        return instruction
    outputs = tuple([slot for slot in instruction.outputs if slot in read])
    _check(program, op, Extension(smaller), instruction.inputs, outputs)
    return instruction._replace(op=Extension(smaller), outputs=outputs)


def _check(
    program: GraphProgram,
    op: Extension,
    smaller: Extension,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
) -> None:
    declared = tuple([program.types[slot] for slot in outputs])
    types = smaller.infer(*[program.types[slot] for slot in inputs])
    if smaller.family_id != op.family_id or types != declared:
        raise InvalidConfigError(
            f"extension: family_id={op.family_id}: prune_outputs gives {smaller.name} with "
            f"({', '.join(map(str, types))}), expected an op of the same family and inputs with the used outputs, "
            f"({', '.join(map(str, declared))})"
        )
