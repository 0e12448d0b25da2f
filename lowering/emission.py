"""The loop that every lowering is: each instruction of a program through its emitter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowering.refusals import refuse
from lowering.writer import Value, Writer
from tenferro.dims import is_exact
from tenferro.errors import ConcretizationError, NonStaticShapeError, TenferroError
from tenferro.ops import StdTensorOp
from tenferro.program import GraphProgram, Instruction

__all__ = ["Emitters", "emit_instructions"]

Emitters = Mapping[type[StdTensorOp], Any]


def emit_instructions(
    view: GraphProgram, writer: Writer, emitters: Emitters, inputs: Sequence[Value] | None = None
) -> list[Value]:
    """Write the statements of a program on `inputs`, the writer's arguments; returns the outputs.

    Raises:
        NonStaticShapeError: an extent that the data decide.
        UnsupportedError: an op that StableHLO cannot express.
    """
    writer.emitters = emitters
    values: list[Any] = [*(writer.arguments if inputs is None else inputs)]
    values += [None] * (len(view.types) - len(values))
    for instruction in view.instructions:
        _emit(instruction, view, writer, values, emitters)
    return [values[slot] for slot in view.output_slots]


def _emit(
    instruction: Instruction,
    view: GraphProgram,
    writer: Writer,
    values: list[Any],
    emitters: Emitters,
) -> None:
    writer.source = instruction.source
    writer.result_types = tuple(view.types[slot] for slot in instruction.outputs)
    try:
        _require_exact(instruction, view)
        used = [view.types[slot] for slot in (*instruction.inputs, *instruction.outputs)]
        refuse(instruction.op, writer.platform, used)
        result = _emitted(instruction, writer, values, emitters)
    except TenferroError as error:
        error.at(str(instruction.source) if instruction.source else None)
        raise
    results = (result,) if isinstance(result, Value) else result
    for slot, value in zip(instruction.outputs, results, strict=True):
        values[slot] = value


def _emitted(
    instruction: Instruction, writer: Writer, values: Sequence[Any], emitters: Emitters
) -> Any:
    """The op's emitted values; computing with extents that are symbols is an error."""
    op = instruction.op
    operands = [values[slot] for slot in instruction.inputs]
    symbolic = [x.spec for x in operands if not x.spec.is_static]
    if not symbolic:
        return emitters[type(op)](op, writer, *operands)
    try:
        return emitters[type(op)](op, writer, *operands)
    except (TypeError, ConcretizationError) as error:
        raise NonStaticShapeError(
            f"{op.name}: has no StableHLO for symbolic extents, here of {', '.join(map(str, symbolic))}; "
            "give concrete specs"
        ) from error


def _require_exact(instruction: Instruction, view: GraphProgram) -> None:
    for index, slot in enumerate(instruction.outputs):
        for axis, extent in enumerate(view.types[slot].shape):
            if not is_exact(extent):
                raise NonStaticShapeError(
                    f"{instruction.op.name}: axis {axis} of output {index} has extent {extent}, "
                    "which the data decide, and StableHLO text needs a number; run it natively, or "
                    "keep the full extent and mask what is beyond the size with Select"
                )
