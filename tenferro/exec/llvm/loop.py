"""Compiled loops: one function of arrays runs all iterations."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tenferro.costs import MIN_COMPILED_LOOP_COST, estimated_cost
from tenferro.dims import GuardLog
from tenferro.errors import TenferroError
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import strip_loop
from tenferro.exec.llvm.compiled import (
    CompiledFunction,
    Interpreted,
    WrittenFunction,
    written_function,
)
from tenferro.exec.llvm.control import COMPILED, Emitter
from tenferro.exec.llvm.link import Linker, Processor
from tenferro.exec.llvm.strip_mining import strip_mine
from tenferro.exec.llvm.tensor import Body, Memory, Specs, Tensor
from tenferro.ops.control import Scan, While
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.exec.plan.bind import Binder

__all__ = ["compiled_loop", "require_gain"]

LOOP = "loop"
"""Name of loops in the executor's compile statistics."""
MAX_TEXT_LINES = 20_000
"""Maximum number of lines of a function's text; LLVM takes up to half a millisecond per line."""


def _require_forms(op: Scan | While, kernels: Binder) -> None:
    """Raise an error if an op in the loop is not compiled."""
    left = [part.program for part in op.parts]
    while left:
        program = left.pop()
        for step in program.instructions:
            operands = tuple([program.types[slot] for slot in step.inputs])
            left += [part.program for part in step.op.parts]
            reason = "" if step.op.parts else COMPILED.cell(step.op).reason_for(step.op, operands)
            try:
                if reason and kernels.row(step.op, operands) is None:
                    raise NotCompiledError(f"{step.op.name}: {reason}")
            except TenferroError as error:
                error.at(step.source)
                raise


def compiled_loop(
    op: Scan | While, inputs: Specs, kernels: Binder, linker: Linker, interpreted: Interpreted
) -> CompiledFunction:
    """Return the compiled function of a loop; it is strip-mined if possible.

    Args:
        kernels: the executor's kernels, and the lowerings of extensions.
        interpreted: returns the interpreter's loop, which runs if LLVM fails.

    Raises:
        NotCompiledError: the loop cannot be compiled.
    """
    log = linker.log
    if isinstance(op, Scan):
        with suppress(NotCompiledError), log.attempt(strip_loop.KIND):
            strips = strip_mine(op, inputs)
            if strips is not None:
                written = strip_loop.written_strip(strips, inputs, linker.processor)
                function = CompiledFunction(
                    strip_loop.KIND,
                    written,
                    strips.types,
                    slice(0, 0),
                    kernels.resources,
                    linker,
                    interpreted,
                    strips.starts,
                )
                function.remark = f"compiled in {len(strips.starts)} strips of {strips.width}"
                return function
    with log.attempt(LOOP):
        written = written_loop(op, inputs, kernels, linker.processor)
        outputs = op.output_types(tuple(inputs), GuardLog())
        carried = slice(op.num_consts, op.first_xs)
        return CompiledFunction(
            LOOP, written, outputs, carried, kernels.resources, linker, interpreted
        )


def require_gain(op: Scan | While, kernels: Binder, always: bool) -> None:
    """Raise an error if a loop cannot be compiled, or is so short that compilation would take longer than it saves.

    Args:
        always: whether to accept short loops, too; unsupported ops then raise an error when code is written.

    Raises:
        NotCompiledError: the loop cannot be compiled, or is short.
    """
    if op.has_effects:
        raise NotCompiledError(f"{op.name}: effects are not compiled")
    if always:
        return
    _require_forms(op, kernels)
    if isinstance(op.length, int):
        cost = estimated_cost(op, (), ())
        if cost < MIN_COMPILED_LOOP_COST:
            raise NotCompiledError(
                f"{op.length} iterations of {cost / max(op.length, 1):.0f} calls of NumPy are not worth compiling"
            )


def written_loop(
    op: Scan | While, inputs: Specs, kernels: Binder, processor: Processor
) -> WrittenFunction:
    """Return the LLVM module of a loop."""
    if not all([spec.is_static for spec in inputs]):
        raise NotCompiledError(f"{op.name}: dynamic extents are not compiled")
    code = processor.code()
    body = Body(code, kernels)
    emitter = Emitter(body)
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
        emitter.iterate(op, consts, carry, [body.stored(x) for x in xs], stacks)
    else:
        carry, stacks = memories[n:], []
        emitter.repeat(op, consts, carry)
    code.ret(0)
    lines = len(code.region)
    if lines > MAX_TEXT_LINES:
        raise NotCompiledError(
            f"{op.name}: {lines} lines of text, more than {MAX_TEXT_LINES}, would take long to compile"
        )
    pointers = [*names, *[memory.pointer for memory in stacks]]
    return written_function(body, "loop", pointers)
