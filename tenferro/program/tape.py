"""`Tape`: the values that a loop stores in each iteration, and those that the loop of its derivative recomputes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tenferro.graph import Instruction
from tenferro.ops.control import Scan, While
from tenferro.ops.indexing import Scatter
from tenferro.program.instructions import makers
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.program.program import GraphProgram

__all__ = ["Tape", "TapeValue", "tape_of", "tapes_of"]


@dataclass(frozen=True)
class TapeValue:
    """Value that is computed in each iteration of a loop.

    Attributes:
        spec: the type of the value.
        op: the name of the op that computes the value; "an input of the iteration" for a carry or an input slice.
        source: the line of the user's code that created the op, or "".
    """

    spec: TensorSpec
    op: str
    source: str

    @property
    def nbytes(self) -> int:
        """The bytes that the value takes in each iteration; 0 if the number is unknown."""
        return self.spec.nbytes if self.spec.is_static else 0

    def __str__(self) -> str:
        return f"{self.spec} = {self.op}{f' at {self.source}' if self.source else ''}"


@dataclass(frozen=True)
class Tape:
    """Values that a loop stacks in each iteration.

    Attributes:
        iterations: the number of iterations, which is the leading extent of the stacks.
        stacked: the values that every iteration stacks.
        recomputed: in the loop of a derivative, values of the original loop that this loop computes again.
        passing: the number of values of an iteration that are neither carried nor stacked.
    """

    iterations: Any
    stacked: tuple[TapeValue, ...]
    recomputed: tuple[TapeValue, ...]
    passing: int

    @property
    def iteration_bytes(self) -> int:
        """Bytes that one iteration stacks."""
        return sum([value.nbytes for value in self.stacked])

    @property
    def nbytes(self) -> int:
        """The total bytes of the stacks; 0 if the trip count is unknown."""
        return self.iteration_bytes * self.iterations if isinstance(self.iterations, int) else 0

    def lines(self) -> list[str]:
        """Return lines of text: one for the total bytes, one per stacked or recomputed value, one for the rest."""
        lines: list[str] = []
        if self.stacked:
            total = (
                f"{self.nbytes:,} B" if self.nbytes else "a number of bytes that depends on symbols"
            )
            lines.append(
                f"stacks {self.iteration_bytes:,} B of each iteration, {total} of {self.iterations} iterations"
            )
            lines += [f"stacked: {value}" for value in self.stacked]
        lines += [f"computed again: {value}" for value in self.recomputed]
        if lines and self.passing:
            lines.append(f"not kept: {self.passing} other values of an iteration")
        return lines


def tapes_of(program: GraphProgram) -> dict[int, Tape]:
    """Return the tapes of the loops of a program, by the position of the loop. Loops inside loops are omitted."""
    tapes = {number: tape_of(step) for number, step in enumerate(program.instructions)}
    return {number: tape for number, tape in tapes.items() if tape is not None}


def tape_of(step: Instruction) -> Tape | None:
    """Return the tape of a loop that stacks or recomputes values; None for an instruction of any other kind."""
    op: Any = step.op
    if not isinstance(op, Scan | While):
        return None
    body = op.body.program
    if isinstance(op, Scan):
        iterations, rows = op.length, list(body.output_slots[op.num_carry :])
    else:
        iterations, rows = _written_rows(body, op.num_consts)
    again = _recomputed(body) if step.source is not None and step.source.derivative_of else []
    if not rows and not again:
        return None
    lasting = {*rows, *body.output_slots, *again}
    computed = [slot for inner in body.instructions for slot in inner.outputs]
    passing = len([slot for slot in computed if slot not in lasting])
    stacked, recomputed = (tuple(_values(body, slots)) for slots in (rows, again))
    return Tape(iterations, stacked, recomputed, passing)


def _written_rows(body: GraphProgram, num_consts: int) -> tuple[Any, list[int]]:
    """Return the extent of the stacks that a while loop carries, and the slots of the values written into them."""
    steps = makers(body.instructions)
    iterations, rows = 0, list[int]()
    for own, output in zip(body.input_slots[num_consts:], body.output_slots, strict=True):
        step = steps.get(output)
        if step is None or not isinstance(step.op, Scatter):
            continue
        operand, _, row = step.inputs
        if operand == own and body.types[row].rank == body.types[own].rank - 1:
            iterations = body.types[own].shape[0]
            rows.append(row)
    return iterations, rows


def _recomputed(body: GraphProgram) -> list[int]:
    """Return the values in the loop of a derivative that are computed by ops of the user's code."""
    return [
        slot
        for step in body.instructions
        if step.source is not None and not step.source.derivative_of and step.inputs
        for slot in step.outputs
    ]


def _values(body: GraphProgram, slots: Sequence[int]) -> list[TapeValue]:
    steps = makers(body.instructions)
    values: list[TapeValue] = []
    for slot in slots:
        step = steps.get(slot)
        name = "an input of the iteration" if step is None else step.op.name
        source = "" if step is None or step.source is None else str(step.source)
        values.append(TapeValue(body.types[slot], name, source))
    return values
