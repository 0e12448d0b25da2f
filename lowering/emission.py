"""Emission of a program: a loop that calls the StableHLO emitter of each instruction's op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.inference import agree
from lowering.refusals import refuse
from lowering.writer import Value, Writer
from tenferro.dims import is_exact
from tenferro.errors import (
    BackendFailureError,
    ConcretizationError,
    NonStaticShapeError,
    TenferroError,
)
from tenferro.program import GraphProgram, Instruction

__all__ = ["emit_instructions"]


def emit_instructions(
    view: GraphProgram, writer: Writer, inputs: Sequence[Value] | None = None
) -> list[Value]:
    """Emit the operations of the program `view`, and return the program's outputs as values of the writer.

    Args:
        inputs: values of the writer that are passed as the program's inputs; by default the writer's arguments.

    Raises:
        NonStaticShapeError: an extent depends on the data.
        UnsupportedError: StableHLO cannot express an op.
        BackendFailureError: the types that an emitter returns differ from the types that the op infers.
    """
    values: list[Any] = [*(writer.arguments if inputs is None else inputs)]
    values += [None] * (len(view.types) - len(values))
    for instruction in view.instructions:
        _emit(instruction, view, writer, values)
    return [values[slot] for slot in view.output_slots]


def _emit(instruction: Instruction, view: GraphProgram, writer: Writer, values: list[Any]) -> None:
    writer.source = instruction.source
    try:
        _require_exact(instruction, view)
        used = [view.types[slot] for slot in (*instruction.inputs, *instruction.outputs)]
        refuse(instruction.op, writer.platform, used)
        results = _emitted(instruction, writer, values)
        _require_declared(instruction, view, results)
    except TenferroError as error:
        error.at(instruction.source)
        raise
    for slot, value in zip(instruction.outputs, results, strict=True):
        values[slot] = value


def _emitted(instruction: Instruction, writer: Writer, values: Sequence[Any]) -> Sequence[Value]:
    """Call the emitter of an instruction's op, and return the values that it emits.

    Raises:
        NonStaticShapeError: the emitter failed because an extent of an operand is symbolic.
    """
    op = instruction.op
    operands = [values[slot] for slot in instruction.inputs]
    symbolic = [x.spec for x in operands if not x.spec.is_static]
    try:
        result = writer.emitters[type(op)](op, writer, *operands)
    except (TypeError, ConcretizationError) as error:
        if not symbolic:
            raise
        raise NonStaticShapeError(
            f"{op.name}: has no StableHLO for symbolic extents, here of {', '.join(map(str, symbolic))}; "
            "give concrete specs"
        ) from error
    return (result,) if isinstance(result, Value) else result


def _require_declared(
    instruction: Instruction, view: GraphProgram, results: Sequence[Value]
) -> None:
    declared = [view.types[slot] for slot in instruction.outputs]
    given = [value.spec for value in results]
    if given != declared and not all(map(agree, given, declared)):
        raise BackendFailureError(
            f"{instruction.op.name}: its emitter gives ({', '.join(map(str, given))}), the op's own rule "
            f"declares ({', '.join(map(str, declared))})"
        )


def _require_exact(instruction: Instruction, view: GraphProgram) -> None:
    for index, slot in enumerate(instruction.outputs):
        for axis, extent in enumerate(view.types[slot].shape):
            if not is_exact(extent):
                raise NonStaticShapeError(
                    f"{instruction.op.name}: axis {axis} of output {index} has extent {extent}, "
                    "which the data decide, and StableHLO text needs a number; run it natively, or "
                    "keep the full extent and mask what is beyond the size with Select"
                )
