"""The boxes of a drawn program: one per input, op and output. Scalar constants are not drawn as boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tenferro.graph import SourceLine
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim

if TYPE_CHECKING:
    from tenferro.program.program import GraphProgram, Instruction

__all__ = ["Box", "boxes_of"]


@dataclass(frozen=True)
class Box:
    """One box of a drawn program. Arrows lead to it from the boxes that compute its operands.

    Attributes:
        kind: "input", "op" or "output".
        name: the name of the op, the argument or the result.
        detail: the op with its payload, in which scalar constants are shown in place of operands.
        gives: the types of the outputs of the op.
        takes: the numbers of the boxes that compute the operands. They are smaller than the number of this box.
        instruction: the position of the instruction in the program; None for inputs and outputs.
        source: the line of the user's code that created the op.
    """

    kind: str
    name: str
    detail: str
    gives: tuple[str, ...]
    takes: tuple[int, ...]
    instruction: int | None = None
    source: SourceLine | None = None


def boxes_of(program: GraphProgram) -> list[Box]:
    """Return the boxes of a program. The boxes of an op's operands precede the box of the op.

    Scalar constants, and tensors filled with one number, have no boxes. They are written in the boxes of the ops that
    read them.
    """
    boxes: list[Box] = []
    maker: dict[int, int] = {}
    written: dict[int, str] = {}
    for slot, name, spec in zip(
        program.input_slots, program.input_names, program.input_specs, strict=True
    ):
        maker[slot] = len(boxes)
        boxes.append(Box("input", name, name, (str(spec),), ()))
    outputs = set(program.output_slots)
    for index, instruction in enumerate(program.instructions):
        text = _scalar(instruction, written)
        if text is not None and not outputs & set(instruction.outputs):
            written[instruction.outputs[0]] = text
            continue
        maker.update(dict.fromkeys(instruction.outputs, len(boxes)))
        boxes.append(
            Box(
                "op",
                instruction.op.name,
                _detail(instruction, written),
                tuple([str(program.types[slot]) for slot in instruction.outputs]),
                _makers(instruction.inputs, maker),
                index,
                instruction.source,
            )
        )
    for slot, name, spec in zip(
        program.output_slots, program.output_names, program.output_specs, strict=True
    ):
        boxes.append(Box("output", name, name, (str(spec),), _makers([slot], maker)))
    return boxes


def _makers(slots: Sequence[int], maker: dict[int, int]) -> tuple[int, ...]:
    return tuple([maker[slot] for slot in slots if slot in maker])


def _scalar(instruction: Instruction, written: dict[int, str]) -> str | None:
    op: Any = instruction.op
    if isinstance(op, Constant) and not op.shape:
        return repr(op.array.item())
    if isinstance(op, BroadcastInDim):
        return written.get(instruction.inputs[0])
    return None


def _detail(instruction: Instruction, written: dict[int, str]) -> str:
    scalars = [written.get(slot) for slot in instruction.inputs]
    if not any(scalars):
        return str(instruction.op)
    return f"{instruction.op} ({', '.join('·' if text is None else text for text in scalars)})"
