"""Whole loops, compiled: a function of arrays in place of the interpreter's turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from tenferro.dims import GuardLog
from tenferro.errors import TenferroError
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import python_calls
from tenferro.exec.llvm.compiled import CompiledFunction
from tenferro.exec.llvm.control import COMPILED, Emitter
from tenferro.exec.llvm.fallback import Interpreted
from tenferro.exec.llvm.first_call import Work
from tenferro.exec.llvm.host import HostCalls, Kernels
from tenferro.exec.llvm.link import Linker, Processor
from tenferro.exec.llvm.loop_text import LoopText
from tenferro.exec.llvm.parts import repeated_in
from tenferro.exec.llvm.strip_loop import StripLoop
from tenferro.exec.llvm.strips import Prepare, strips_of
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.graph import Instruction
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.ops.control import Alternatives, Cond, ControlOp, Scan, While
from tenferro.ops.extension import Extension
from tenferro.ops.indexing import Gather, Scatter
from tenferro.ops.reduction import Sort, TopK
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec

__all__ = ["compiled_loop", "require_gain"]

LOOP, LOOP_OF_STRIPS = "loop", "loop of strips"
"""Names of attempts."""
WORTH = 60
"""Microseconds of the interpreter, by estimate, that are worth compiling, which takes from ten milliseconds to some
hundred: after some hundreds of runs it is paid for, and a loop in a program that is kept is run more often. It is
decided before the first run, because functions may have other last bits compiled."""
PER_MICROSECOND = 500
"""Elements that the interpreter computes in a microsecond, beside one for each instruction."""
HEAVY: dict[type, float] = {
    Extension: 20.0,
    DotGeneral: 2.0,
    Convolution: 40.0,
    Sort: 5.0,
    TopK: 10.0,
    Gather: 5.0,
    Scatter: 5.0,
}
"""Microseconds of an instruction of these, which are several calls of NumPy, or of SciPy from a runtime."""
TURNS = 16
"""Of a while loop, which nothing tells."""
WHILE_TURNS = 100
"""The same, for what its first call is worth: a loop that one waits for takes more, and vectors cost others little."""

COMPILED_PER_CALL = 4
"""Instructions for each that is a call of the interpreter's kernel, below which a loop is interpreted."""
LONG = 1000
"""Lines of a text whose first call does not wait for LLVM's passes, a tenth of a second, although loops inside of it
turn nobody knows how often."""
MAX_LINES = 20_000
"""Of a text: LLVM takes up to half a millisecond for each."""


def cost_of(program: GraphProgram) -> float:
    """Microseconds that the interpreter needs for a body, by estimate, with the loops inside of it."""
    cost = 0.0
    left: list[tuple[GraphProgram, float]] = [(program, 1.0)]
    while left:
        program, times = left.pop()
        for step in program.instructions:
            sizes = [program.types[slot] for slot in step.outputs]
            elements = sum([spec.size for spec in sizes if spec.is_static])
            cost += times * (HEAVY.get(type(step.op), 1.0) + elements / PER_MICROSECOND)
            if isinstance(step.op, ControlOp):
                turns = step.op.length if isinstance(step.op, Scan) else TURNS
                often = turns if isinstance(turns, int) else TURNS
                often = 1 if isinstance(step.op, Cond | Alternatives) else often
                parts = step.op.parts[:1] if isinstance(step.op, Alternatives) else step.op.parts
                left += [(part.program, times * often) for part in parts]
    return cost


def _require_few_calls(op: Scan | While, kernels: Kernels) -> None:
    """Refuse a loop that would call the interpreter's kernels most of the time, which costs more from outside."""
    calls: list[tuple[str, Any]] = []
    count = 0
    left = [part.program for part in op.parts]
    while left:
        program = left.pop()
        for step in program.instructions:
            count += 1
            operands = tuple([program.types[slot] for slot in step.inputs])
            if isinstance(step.op, ControlOp):
                left += [part.program for part in step.op.parts]
                continue
            reason = COMPILED[type(step.op)].reason_for(step.op, operands)
            if reason and _is_called(step, operands, kernels):
                calls.append((f"{step.op.name}: {reason}", step.source))
    if calls and count < (COMPILED_PER_CALL + 1) * len(calls):
        reason, source = calls[0]
        raise NotCompiledError(reason).at(str(source) if source else None)


def _is_called(step: Instruction, operands: tuple[TensorSpec, ...], kernels: Kernels) -> bool:
    """Whether the kernel of an op that has no row is called, and no runtime has it compiled."""
    try:
        return kernels.row(step.op, operands) is None
    except TenferroError as error:
        error.at(str(step.source) if step.source else None)
        raise


def _once_each(prepare: Prepare) -> Prepare:
    """`prepare`, run once for each program: strips are looked for in the body that is written then."""
    programs: dict[int, tuple[GraphProgram, GraphProgram]] = {}

    def prepared(program: GraphProgram) -> GraphProgram:
        if id(program) not in programs:
            programs[id(program)] = program, prepare(program)
        return programs[id(program)][1]

    return prepared


def compiled_loop(
    op: Scan | While,
    inputs: Sequence[TensorSpec],
    prepare: Prepare,
    kernels: Kernels,
    linker: Linker,
    interpreted: Interpreted,
) -> CompiledFunction | StripLoop:
    """Return the loop as a function of its operands, in strips where these do not depend on each other.

    Args:
        prepare: what bodies go through first: the executor's passes.
        kernels: of the executor, for what is not compiled.
        interpreted: gives the interpreter's loop, which runs where LLVM fails.

    Raises:
        NotCompiledError: what cannot be compiled.
    """
    log, prepare = linker.log, _once_each(prepare)
    if isinstance(op, Scan):
        with suppress(NotCompiledError), log.attempt(LOOP_OF_STRIPS):
            strips = strips_of(op, inputs, prepare)
            if strips is not None:
                return StripLoop(strips, inputs, prepare, kernels, linker, interpreted)
    with log.attempt(LOOP):
        host = HostCalls(kernels)
        text = written(op, inputs, prepare, host, linker.processor)
        outputs = op.output_types(tuple(inputs), GuardLog())
        carried = slice(op.num_consts, op.first_xs if isinstance(op, Scan) else len(inputs))
        return CompiledFunction(LOOP, text, outputs, carried, host, linker, interpreted)


def require_gain(op: Scan | While, kernels: Kernels, always: bool) -> None:
    """Refuse a loop that cannot be compiled, or for which it does not pay.

    Args:
        always: compile loops of few iterations too, for which it does not pay.

    Raises:
        NotCompiledError: it is refused.
    """
    if op.has_effects:
        raise NotCompiledError(f"{op.name}: effects are not compiled")
    if always:
        return
    _require_few_calls(op, kernels)
    if isinstance(op, Scan) and isinstance(op.length, int):
        cost = op.length * cost_of(op.body.program)
        if cost < WORTH:
            raise NotCompiledError(
                f"{op.length} turns of {cost / max(op.length, 1):.0f} us do not pay"
            )


def written(
    op: Scan | While,
    inputs: Sequence[TensorSpec],
    prepare: Prepare,
    host: HostCalls,
    processor: Processor,
) -> LoopText:
    """The loop's text."""
    if not all([spec.is_static for spec in inputs]):
        raise NotCompiledError(f"{op.name}: extents that wait are not compiled")
    code = processor.code()
    body = Body(code, host)
    emitter = Emitter(body, prepare, repeated_in(op))
    names = [f"%a{number}" for number in range(len(inputs))]
    memories = [Memory(name, spec) for name, spec in zip(names, inputs, strict=True)]
    n = op.num_consts
    consts: list[Tensor] = [body.read(memory) for memory in memories[:n]]
    if isinstance(op, Scan):
        if not isinstance(op.length, int):
            raise NotCompiledError("Scan: a length that waits is not compiled")
        carry, xs = memories[n : op.first_xs], memories[op.first_xs :]
        stacks = [
            Memory(f"%y{number}", TensorSpec.of((op.length, *spec.shape), spec.dtype))
            for number, spec in enumerate(op.body.output_specs[op.num_carry :])
        ]
        held, put_back = _in_registers(body, carry)

        def one(i: Any) -> None:
            t = code.add(code.scaled(i, -1), op.length - 1) if op.reverse else i
            emitter.turn(op, t, consts, held, [body.stored(x) for x in xs], stacks)

        python_calls.turns(code, op.length, one)
        status = "0"
    else:
        carry, stacks = memories[n:], []
        held, put_back = _in_registers(body, carry)
        status = python_calls.repeat(
            code,
            lambda: emitter.goes_on(op, consts, held),
            lambda: emitter.step(op, consts, held),
            "%parts",
        )
    put_back()
    code.line(f"ret i64 {status}")
    pointers = [*names, *[memory.pointer for memory in stacks]]
    every = [*pointers, *[name for name, _ in body.constants], "%scratch", "%host"]
    lines = len(code.lines) + code.lines_of_parts
    work: Work | None = None
    if code.while_loops <= isinstance(op, While) or lines >= LONG:
        work = Work.of(code, WHILE_TURNS if code.while_loops else 1)
    if lines > MAX_LINES:
        raise NotCompiledError(
            f"{op.name}: {lines} lines of text, more than {MAX_LINES}, would take long to compile"
        )
    numbers = ["%parts"]
    text = code.text("loop", every, numbers, is_internal=True)
    text += python_calls.entry(code, every, numbers) + code.lanes_text()
    constants = [array for _, array in body.constants]
    return LoopText(text, constants, body.scratch_bytes, work, code.largest_call)


def _in_registers(body: Body, carry: Sequence[Memory]) -> tuple[list[Memory], Callable[[], None]]:
    """Small carries in local memory while the function runs, and the function that writes them back."""
    held: list[Memory] = []
    small: list[tuple[Memory, Memory]] = []
    for memory in carry:
        if memory.spec.size <= 16:
            own = body.memory(memory.spec)
            body.write(body.stored(memory), own)
            held.append(own)
            small.append((own, memory))
        else:
            held.append(memory)

    def put_back() -> None:
        for own, memory in small:
            body.write(body.stored(own), memory)

    return held, put_back
