"""Block: consecutive steps on small values become one compiled step each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tenferro import costs
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.periods import cuts
from tenferro.exec.plan.place import free
from tenferro.exec.plan.unbind import program_of
from tenferro.exec.planned import Axes, Block, Compiled
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.facts import Fact, facts_of
from tenferro.ops.control import Cond, Scan
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec

__all__ = ["block", "compiled_step"]

MAX_STEPS = 400
"""Maximum number of steps of a block: LLVM takes longer for each the more there are."""
MAX_PERIODIC_STEPS = 120
"""Maximum number of steps of a block where a program repeats itself: blocks of the same text are compiled once."""
UNROLLED = 32
"""Number of elements from which a step is a loop in the text."""
LOOPS = 4
"""Factor by which blocks are shorter where most steps are loops: LLVM's passes take a time that is more than linear."""


def block(program: ExecProgram, compiler: LoopCompiler) -> ExecProgram:
    """Return the schedule with blocks, if they save as much time as the compiler requires.

    A step that does not depend on the preceding block is moved ahead of it.
    """
    least = compiler.block_gain
    if least is None:
        return program
    with suppress(NotCompiledError), compiler.log.attempt("estimate of compiled blocks"):
        spared = costs.BLOCK_CALL + costs.BLOCK_RESULT
        if sum(map(_cost, program.instructions)) - spared >= least:
            return _with_blocks(program, compiler)
    return program


def _with_blocks(program: ExecProgram, compiler: LoopCompiler) -> ExecProgram:
    steps: list[ExecInstruction] = []
    readers = program.readers()
    run = _Run(program, readers, compiler)
    for number, step in enumerate(program.instructions):
        if _fits(step, program):
            run.take(number)
            continue
        if run.is_needed_by(step) or getattr(step.op, "has_effects", False):
            steps += run.finish()
            run = _Run(program, readers, compiler)
        steps.append(step)
    steps += run.finish()
    return free(replace(program, instructions=tuple(steps)))


def _cost(step: ExecInstruction) -> float:
    """Return the estimated time of a step beside its elements, in calls."""
    if step.planned is not None and step.control is None:
        return 1.0
    return costs.estimated_calls(step.source_op, step.input_types, step.output_types)


def _is_small(spec: TensorSpec) -> bool:
    return spec.is_static and 0 < spec.size <= costs.SMALL


def _fits(step: ExecInstruction, program: ExecProgram) -> bool:
    """Return whether a step may be part of a block."""
    from tenferro.exec.llvm.control import COMPILED  # because only what compiles asks

    if step.planned is not None and step.control is None:
        return False
    left: list[tuple[Any, Sequence[TensorSpec], Sequence[TensorSpec]]]
    left = [(step.source_op, step.input_types, step.output_types)]
    while left:
        op, operands, results = left.pop()
        if not all(map(_is_small, (*operands, *results))) or getattr(op, "has_effects", False):
            return False
        if op.parts:
            if not isinstance(op, Cond | Scan):
                return False
            for part in op.parts:
                types = part.program.types
                left += [
                    (inner.op, [types[s] for s in inner.inputs], [types[s] for s in inner.outputs])
                    for inner in part.program.instructions
                ]
        elif costs.multiplications(op, operands, results) > costs.SERIAL_BLAS[0]:
            return False
        elif Fact.EXTERNAL in facts_of(op):
            if getattr(op, "aliases", None) or program.kernels.row(op, tuple(operands)) is None:
                return False
        elif COMPILED.cell(op).reason_for(op, operands):
            return False
    return True


@dataclass
class _Run:
    """A block that is being collected."""

    program: ExecProgram
    readers: Mapping[int, Sequence[int]]
    compiler: LoopCompiler
    numbers: list[int] = field(default_factory=list)
    results: set[int] = field(default_factory=set)

    def take(self, number: int) -> None:
        """Add a step."""
        self.numbers.append(number)
        self.results.update(self.program.instructions[number].output_slots)

    def is_needed_by(self, step: ExecInstruction) -> bool:
        """Return whether the step reads a result of the block."""
        return not self.results.isdisjoint(step.input_slots)

    def finish(self) -> Iterator[ExecInstruction]:
        """Return the steps, cut into blocks if all blocks save the required time."""
        steps = [self.program.instructions[number] for number in self.numbers]
        kinds = [(type(step.op), step.output_types) for step in steps]
        loops = [step for step in steps if step.output_types[0].size > UNROLLED]
        share = LOOPS if 2 * len(loops) > len(steps) else 1
        parts = [
            self.numbers[start:stop]
            for start, stop in cuts(kinds, MAX_PERIODIC_STEPS // share, MAX_STEPS // share)
        ]
        outputs = [self._outputs(part) for part in parts]
        saved = [self._saved(part, slots) for part, slots in zip(parts, outputs, strict=True)]
        least = self.compiler.block_gain
        assert least is not None
        if sum(saved) < least:
            yield from steps
            return
        for part, slots, each in zip(parts, outputs, saved, strict=True):
            if not slots:  # because nothing reads what they compute
                continue
            inside = [self.program.instructions[number] for number in part]
            if len(part) < 2 or each < least / 2:
                yield from inside
            else:
                yield from self._finished(inside, slots)

    def _outputs(self, numbers: Sequence[int]) -> list[int]:
        """Return the slots of some steps that others read."""
        mine = set(numbers)
        return [
            slot for number in numbers for slot in self.program.instructions[number].output_slots
            if any([reader not in mine for reader in self.readers.get(slot, ())])
        ]  # fmt: skip

    def _saved(self, numbers: Sequence[int], outputs: Sequence[int]) -> float:
        """Return the estimated calls of NumPy that some steps save in each run as a block."""
        saved = sum([_cost(self.program.instructions[number]) for number in numbers])
        return saved - costs.BLOCK_CALL - costs.BLOCK_RESULT * len(outputs)

    def _finished(
        self, steps: Sequence[ExecInstruction], outputs: Sequence[int]
    ) -> Iterator[ExecInstruction]:
        """Return some steps as one block, or unchanged if they are not compiled."""
        try:
            with self.compiler.log.attempt("compiled block"):
                yield self._step(steps, outputs)
        except NotCompiledError:
            yield from steps

    def _step(self, steps: Sequence[ExecInstruction], outputs: Sequence[int]) -> ExecInstruction:
        from tenferro.exec.llvm.block import CompiledBlock  # because most programs have none

        def compiled(op: Block, inside: GraphProgram) -> Any:
            kernels = self.program.kernels
            interpreted = partial(op.function, kernels)
            return CompiledBlock(op, inside, kernels, self.compiler.linker, interpreted)

        return compiled_step(self.program, steps, outputs, compiled)


def compiled_step(
    program: ExecProgram,
    steps: Sequence[ExecInstruction],
    outputs: Sequence[int],
    compiled: Callable[[Block, GraphProgram], Any],
) -> ExecInstruction:
    """Return some steps as one compiled step.

    Args:
        outputs: the slots that other steps read.
        compiled: returns the machine code of a block, which computes a program.
    """
    read = dict.fromkeys([slot for step in steps for slot in step.input_slots])
    written = {slot for step in steps for slot in step.output_slots}
    inputs = [s for s in read if s not in written and s not in program.constants]
    body = free(
        ExecProgram(
            instructions=tuple(steps),
            input_slots=tuple(inputs),
            output_slots=tuple(outputs),
            types=program.types,
            kernels=program.kernels,
            constants={s: x for s, x in program.constants.items() if s in read},
        )
    )
    op = Block(body, _axes(program, inputs, outputs))
    return ExecInstruction(
        op=Compiled(op, compiled(op, program_of(body))),
        input_slots=tuple(inputs),
        output_slots=tuple(outputs),
        input_types=tuple([program.types[slot] for slot in inputs]),
        output_types=tuple([program.types[slot] for slot in outputs]),
        kernels=program.kernels,
        source=steps[0].source,
        origin=tuple([number for step in steps for number in step.origin]),
    )


def _axes(program: ExecProgram, inputs: Sequence[int], outputs: Sequence[int]) -> dict[int, Axes]:
    """Return the order of axes of operands and results that are not row-major."""
    axes = {slot: program.axes[slot] for slot in inputs if slot in program.axes}
    if program.order == "F":
        rank = {slot: program.types[slot].rank for slot in outputs if slot in program.output_slots}
        axes |= {slot: tuple(reversed(range(n))) for slot, n in rank.items() if n > 1}
    return axes
