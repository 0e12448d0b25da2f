"""Block: compiles consecutive steps on small values to one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from tenferro import costs
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.plan.place import free
from tenferro.exec.plan.unbind import program_of
from tenferro.exec.planned import Axes, Block, Compiled
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.facts import Fact, facts_of
from tenferro.ops.control import Cond, Scan
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec

__all__ = ["block", "compiled_step", "cuts", "enclosed", "exact_period", "step_of"]

MAX_STEPS = 400
"""Maximum number of steps of a block; for larger blocks, LLVM takes more time per step."""
MAX_PERIODIC_STEPS = 120
"""Maximum number of steps of a block in a periodic sequence of steps, whose equal blocks are compiled once."""
UNROLLED = 32
"""Maximum number of elements of a result for which LLVM unrolls the loop; larger results count as loops."""
LOOPS = 4
"""Divisor of the maximum number of steps if most are loops, because LLVM's time grows superlinearly with loops."""


def block(program: ExecProgram, compiler: LoopCompiler) -> ExecProgram:
    """Return the schedule with compiled blocks if they save as much time as the compiler requires.

    To make blocks longer, a step that cannot be in a block is moved before the block unless it reads a result of it.
    """
    least = compiler.block_gain
    if least is None:
        return program
    with suppress(NotCompiledError), compiler.log.attempt("estimate of compiled blocks"):
        spared = costs.BLOCK_CALL + costs.BLOCK_RESULT
        if sum(map(_cost, program.instructions)) - spared >= least:
            return _with_blocks(program, compiler, least)
    return program


def _with_blocks(program: ExecProgram, compiler: LoopCompiler, least: float) -> ExecProgram:
    steps: list[ExecInstruction] = []
    readers = program.readers()
    numbers, results = list[int](), set[int]()
    for number, step in enumerate(program.instructions):
        if _fits(step, program):
            numbers.append(number)
            results.update(step.output_slots)
            continue
        if not results.isdisjoint(step.input_slots) or getattr(step.op, "has_effects", False):
            steps += _blocks(program, readers, numbers, compiler, least)
            numbers, results = [], set()
        steps.append(step)
    steps += _blocks(program, readers, numbers, compiler, least)
    return free(replace(program, instructions=tuple(steps)))


def _cost(step: ExecInstruction) -> float:
    """Return the estimated overhead of a step, in NumPy calls, without the time for elements."""
    if step.planned is not None and step.control is None:
        return 1.0
    return costs.estimated_calls(step.source_op, step.input_types, step.output_types)


def _fits(step: ExecInstruction, program: ExecProgram) -> bool:
    from tenferro.exec.llvm.control import COMPILED  # because only a compiler needs it

    if step.planned is not None and step.control is None:
        return False
    left: list[tuple[Any, Sequence[TensorSpec], Sequence[TensorSpec]]]
    left = [(step.source_op, step.input_types, step.output_types)]
    while left:
        op, operands, results = left.pop()
        types = (*operands, *results)
        if not all([spec.is_static and 0 < spec.size <= costs.SMALL for spec in types]):
            return False
        if getattr(op, "has_effects", False):
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


def _blocks(
    program: ExecProgram,
    readers: Mapping[int, Sequence[int]],
    numbers: Sequence[int],
    compiler: LoopCompiler,
    least: float,
) -> Iterator[ExecInstruction]:
    """Yield the steps, as compiled blocks if the blocks save `least` NumPy calls in each run."""
    steps = [program.instructions[number] for number in numbers]
    kinds = [(type(step.op), step.output_types) for step in steps]
    loops = [step for step in steps if step.output_types[0].size > UNROLLED]
    share = LOOPS if 2 * len(loops) > len(steps) else 1
    parts: list[tuple[list[ExecInstruction], list[int], float]] = []
    for start, stop in cuts(kinds, MAX_PERIODIC_STEPS // share, MAX_STEPS // share):
        part, mine = steps[start:stop], {*numbers[start:stop]}
        outputs = [
            slot for step in part for slot in step.output_slots
            if not mine.issuperset(readers.get(slot, ()))
        ]  # fmt: skip
        saved = sum(map(_cost, part)) - costs.BLOCK_CALL - costs.BLOCK_RESULT * len(outputs)
        parts.append((part, outputs, saved))
    if sum([saved for _, _, saved in parts]) < least:
        yield from steps
        return
    for part, outputs, saved in parts:
        if not outputs:  # nothing reads the results of these steps
            continue
        if len(part) < 2 or saved < least / 2:
            yield from part
        else:
            yield from _compiled(program, part, outputs, compiler)


def _compiled(
    program: ExecProgram,
    steps: Sequence[ExecInstruction],
    outputs: Sequence[int],
    compiler: LoopCompiler,
) -> Sequence[ExecInstruction]:
    """Return one step for the compiled block, or the steps if they cannot be compiled."""
    from tenferro.exec.llvm.block import CompiledBlock  # because most programs have no blocks

    def compiled(op: Block, inside: GraphProgram) -> Any:
        interpreted = partial(op.function, program.kernels)
        return CompiledBlock(op, inside, program.kernels, compiler.linker, interpreted)

    try:
        with compiler.log.attempt("compiled block"):
            return [compiled_step(program, steps, outputs, compiled)]
    except NotCompiledError:
        return steps


def compiled_step(
    program: ExecProgram,
    steps: Sequence[ExecInstruction],
    outputs: Sequence[int],
    compiled: Callable[[Block, GraphProgram], Any],
) -> ExecInstruction:
    """Return one compiled step that replaces these steps.

    Args:
        outputs: the slots that other steps read.
        compiled: the function from a block and its program to the compiled function.
    """
    body = enclosed(program, steps, outputs, program.constants)
    op = Block(body, _axes(program, body.input_slots, outputs))
    return step_of(Compiled(op, compiled(op, program_of(body))), body)


def enclosed(
    program: ExecProgram,
    steps: Sequence[ExecInstruction],
    outputs: Sequence[int],
    constants: Mapping[int, Any],
) -> ExecProgram:
    """Return a schedule that consists of these steps, to be the body of one step.

    Args:
        outputs: the slots that other steps read.
        constants: the constants of the schedule; other values that the steps read become inputs.
    """
    read = dict.fromkeys([slot for step in steps for slot in step.input_slots])
    available = {*constants}.union(*[step.output_slots for step in steps])
    return free(
        ExecProgram(
            instructions=tuple(steps),
            input_slots=tuple([slot for slot in read if slot not in available]),
            output_slots=tuple(outputs),
            types=program.types,
            kernels=program.kernels,
            constants={slot: x for slot, x in constants.items() if slot in read},
        )
    )


def step_of(op: Any, body: ExecProgram) -> ExecInstruction:
    """Return a step that runs an op, with the inputs and outputs of the op's body."""
    return ExecInstruction(
        op=op,
        input_slots=body.input_slots,
        output_slots=body.output_slots,
        input_types=body.input_types,
        output_types=tuple([body.types[slot] for slot in body.output_slots]),
        kernels=body.kernels,
        source=body.instructions[0].source,
        origin=tuple([number for step in body.instructions for number in step.origin]),
    )


def _axes(program: ExecProgram, inputs: Sequence[int], outputs: Sequence[int]) -> dict[int, Axes]:
    """Return the memory order of the axes of each operand and result that is not row-major, by slot."""
    axes = {slot: program.axes[slot] for slot in inputs if slot in program.axes}
    if program.order == "F":
        rank = {slot: program.types[slot].rank for slot in outputs if slot in program.output_slots}
        axes |= {slot: tuple(reversed(range(n))) for slot, n in rank.items() if n > 1}
    return axes


def cuts(kinds: Sequence[Any], short: int, long: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each block of a sequence of steps.

    If the sequence is periodic, a block consists of whole periods; else it is as long as possible.

    Args:
        kinds: a value for each step; blocks with equal kinds are compiled to the same code.
        short: the maximum length of a block in a periodic sequence.
        long: the maximum length of any other block.

    >>> list(cuts("ababababab", 4, 6)), list(cuts("abcdefghij", 4, 6))
    ([(0, 4), (4, 8), (8, 10)], [(0, 6), (6, 10)])
    """
    start = 0
    while start < len(kinds):
        period = exact_period(kinds[start : start + min(2 * short, long)])
        length = min(short, long) if 2 * period <= short else long
        stop = min(start + length - length % period, len(kinds))
        yield start, stop
        start = stop


def exact_period(kinds: Sequence[Any]) -> int:
    """Return the smallest period of a sequence, which its prefix function determines.

    Source: Knuth, Morris and Pratt, "Fast pattern matching in strings", 1977.

    >>> exact_period("abcabca"), exact_period("abcd")
    (3, 4)
    """
    borders = [0]
    for kind in kinds[1:]:
        length = borders[-1]
        while length and kinds[length] != kind:
            length = borders[length - 1]
        borders.append(length + (kinds[length] == kind))
    return len(kinds) - borders[-1]
