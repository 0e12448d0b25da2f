"""Compiled loops: one function of arrays in place of the interpreter's iterations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from tenferro.costs import MIN_COMPILED_LOOP_COST, estimated_cost
from tenferro.dims import GuardLog
from tenferro.errors import TenferroError
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import python_calls
from tenferro.exec.llvm.compiled import CompiledFunction, WrittenFunction, written_function
from tenferro.exec.llvm.control import COMPILED, Emitter, Prepare
from tenferro.exec.llvm.fallback import Interpreted
from tenferro.exec.llvm.host import HostCalls
from tenferro.exec.llvm.ir import Value
from tenferro.exec.llvm.link import Linker, Processor
from tenferro.exec.llvm.strip_loop import strip_loop
from tenferro.exec.llvm.strip_mining import strip_mine
from tenferro.exec.llvm.tensor import Body, Memory, Specs, Tensor
from tenferro.exec.schedule import KernelTable
from tenferro.graph import Instruction
from tenferro.ops.control import Scan, While
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec

__all__ = ["compiled_loop", "require_gain"]

LOOP, LOOP_OF_STRIPS = "loop", "loop of strips"
"""Names of attempts in the log."""
MIN_COMPILED_PER_CALL = 4
"""Minimum number of compiled instructions for each call of an interpreter's kernel."""
MIN_BASELINE_LINES = 1000
"""Minimum length of a text that gets baseline code although the work of its while loops is unknown."""
MAX_TEXT_LINES = 20_000
"""Maximum length of a text; LLVM takes up to half a millisecond for each line."""


def _require_few_calls(op: Scan | While, kernels: KernelTable) -> None:
    """Refuse a loop that mostly calls the interpreter's kernels, which is slower from compiled code."""
    calls: list[tuple[str, Any]] = []
    count = 0
    left = [part.program for part in op.parts]
    while left:
        program = left.pop()
        for step in program.instructions:
            count += 1
            operands = tuple([program.types[slot] for slot in step.inputs])
            if step.op.parts:
                left += [part.program for part in step.op.parts]
                continue
            reason = COMPILED.cell(step.op).reason_for(step.op, operands)
            if reason and _is_called(step, operands, kernels):
                calls.append((f"{step.op.name}: {reason}", step.source))
    if calls and count < (MIN_COMPILED_PER_CALL + 1) * len(calls):
        reason, source = calls[0]
        raise NotCompiledError(reason).at(source)


def _is_called(step: Instruction, operands: tuple[TensorSpec, ...], kernels: KernelTable) -> bool:
    """Return whether an op without a row is a call of a kernel, and not compiled by a runtime."""
    try:
        return kernels.row(step.op, operands) is None
    except TenferroError as error:
        error.at(step.source)
        raise


def _cached(prepare: Prepare) -> Prepare:
    """Return `prepare` with a cache, because strip-mining prepares the body before it is written."""
    programs: dict[int, tuple[GraphProgram, GraphProgram]] = {}

    def prepared(program: GraphProgram) -> GraphProgram:
        if id(program) not in programs:
            programs[id(program)] = program, prepare(program)
        return programs[id(program)][1]

    return prepared


def compiled_loop(
    op: Scan | While,
    inputs: Specs,
    prepare: Prepare,
    kernels: KernelTable,
    linker: Linker,
    interpreted: Interpreted,
) -> CompiledFunction:
    """Return the loop as a function of its operands, strip-mined if its strips are independent.

    Args:
        prepare: the executor's passes, which run on bodies first.
        kernels: the executor's kernels, for ops that are not compiled.
        interpreted: returns the interpreter's loop, which runs if LLVM fails.

    Raises:
        NotCompiledError: the loop cannot be compiled.
    """
    log, prepare = linker.log, _cached(prepare)
    if isinstance(op, Scan):
        with suppress(NotCompiledError), log.attempt(LOOP_OF_STRIPS):
            strips = strip_mine(op, inputs, prepare)
            if strips is not None:
                return strip_loop(strips, inputs, prepare, kernels, linker, interpreted)
    with log.attempt(LOOP):
        host = HostCalls(kernels)
        written = written_loop(op, inputs, prepare, host, linker.processor)
        outputs = op.output_types(tuple(inputs), GuardLog())
        carried = slice(op.num_consts, op.first_xs)
        return CompiledFunction(LOOP, written, outputs, carried, host, linker, interpreted)


def require_gain(op: Scan | While, kernels: KernelTable, always: bool) -> None:
    """Refuse a loop that cannot be compiled, or is not worth compiling.

    Args:
        always: accept loops of few iterations too.

    Raises:
        NotCompiledError: it is refused.
    """
    if op.has_effects:
        raise NotCompiledError(f"{op.name}: effects are not compiled")
    if always:
        return
    _require_few_calls(op, kernels)
    if isinstance(op.length, int):
        cost = estimated_cost(op, (), ())
        if cost < MIN_COMPILED_LOOP_COST:
            raise NotCompiledError(
                f"{op.length} iterations of {cost / max(op.length, 1):.0f} calls of NumPy are not worth compiling"
            )


def written_loop(
    op: Scan | While,
    inputs: Specs,
    prepare: Prepare,
    host: HostCalls,
    processor: Processor,
) -> WrittenFunction:
    """Return the module of a loop."""
    if not all([spec.is_static for spec in inputs]):
        raise NotCompiledError(f"{op.name}: dynamic extents are not compiled")
    code = processor.code()
    body = Body(code, host)
    emitter = Emitter(body, prepare)
    names = [f"%a{number}" for number in range(len(inputs))]
    memories = [Memory(name, spec) for name, spec in zip(names, inputs, strict=True)]
    n = op.num_consts
    consts: list[Tensor] = [body.read(memory) for memory in memories[:n]]
    if isinstance(op, Scan):
        if not isinstance(op.length, int):
            raise NotCompiledError("Scan: a dynamic length is not compiled")
        carry, xs = memories[n : op.first_xs], memories[op.first_xs :]
        stacks = [
            Memory(f"%y{number}", TensorSpec.of((op.length, *spec.shape), spec.dtype))
            for number, spec in enumerate(op.body.output_specs[op.num_carry :])
        ]
        local, write_back = _local_carry(body, carry)
        emitter.iterate(op, consts, local, [body.stored(x) for x in xs], stacks)
        status: int | Value = 0
    else:
        carry, stacks = memories[n:], []
        local, write_back = _local_carry(body, carry)
        status = python_calls.while_loop(
            code,
            lambda: emitter.while_condition(op, consts, local),
            lambda: emitter.while_body(op, consts, local),
            "%chunks",
        )
    write_back()
    code.ret(status)
    lines = code.length
    is_known = code.while_loops <= (op.length is None)
    work = code.work if is_known or lines >= MIN_BASELINE_LINES else None
    if lines > MAX_TEXT_LINES:
        raise NotCompiledError(
            f"{op.name}: {lines} lines of text, more than {MAX_TEXT_LINES}, would take long to compile"
        )
    pointers = [*names, *[memory.pointer for memory in stacks]]
    return written_function(body, "loop", pointers, "%chunks", work)


def _local_carry(body: Body, carry: Sequence[Memory]) -> tuple[list[Memory], Callable[[], None]]:
    """Copy small carries to the stack; return the memory of the carry and a function that writes them back."""
    local: list[Memory] = []
    small: list[tuple[Memory, Memory]] = []
    for memory in carry:
        if memory.spec.size <= 16:
            own = body.memory(memory.spec)
            body.write(body.stored(memory), own)
            local.append(own)
            small.append((own, memory))
        else:
            local.append(memory)

    def write_back() -> None:
        for own, memory in small:
            body.write(body.stored(own), memory)

    return local, write_back
