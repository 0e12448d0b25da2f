"""Whole loops, compiled: a function of arrays in place of the interpreter's turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any

import numpy as np

from tenferro.blas import SCIPYS
from tenferro.dims import GuardLog
from tenferro.errors import TenferroError
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import blas, python_calls
from tenferro.exec.llvm.control import COMPILED, Emitter
from tenferro.exec.llvm.fallback import Fallback, Interpreted
from tenferro.exec.llvm.first_call import Work, passes
from tenferro.exec.llvm.host import HostCalls, Kernels
from tenferro.exec.llvm.link import Linker, OfArrays, Processor
from tenferro.exec.llvm.loop_text import LoopText
from tenferro.exec.llvm.parts import repeated_in
from tenferro.exec.llvm.places import dense, results_in
from tenferro.exec.llvm.python_calls import UNFINISHED, WHOLE
from tenferro.exec.llvm.strip_loop import StripLoop
from tenferro.exec.llvm.strips import Prepare, strips_of
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.exec.runtime.threads import Ahead
from tenferro.graph import Instruction
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.ops.control import Alternatives, Cond, ControlOp, Scan, While
from tenferro.ops.extension import Extension
from tenferro.ops.indexing import Gather, Scatter
from tenferro.ops.reduction import Sort, TopK
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec

__all__ = ["CompiledLoop", "compiled_loop", "require_gain"]

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
LITTLE = 1 << 16
"""Bytes of scratch that are new for each call, which takes less time than to look for idle ones."""
LONG = 1000
"""Lines of a text whose first call does not wait for LLVM's passes, a tenth of a second, although loops inside of it
turn nobody knows how often."""
SLOW = 2e8
"""Nanoseconds of LLVM's passes for which later calls do not wait either, where the executor has several threads."""
MOST_LINES = 20_000
"""Of a text: LLVM takes up to half a millisecond for each."""
SHARED_CALL = 400_000
"""Multiplications of a product from which OpenBLAS shares it between its threads."""


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
) -> CompiledLoop | StripLoop:
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
        return CompiledLoop(op, inputs, prepare, kernels, linker, interpreted)


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


class CompiledLoop:
    """A scan or while loop as a function of its operands, which gives results in memory of their own.

    Attributes:
        following: the loop that is called after this one, which is compiled while this one runs for the first time.

    Raises:
        NotCompiledError: an op that is not compiled, with the user's line.
    """

    takes_places = True

    def __init__(
        self,
        op: Scan | While,
        inputs: Sequence[TensorSpec],
        prepare: Prepare,
        kernels: Kernels,
        linker: Linker,
        interpreted: Interpreted,
    ) -> None:
        self.op, self.inputs, self.linker = op, tuple(inputs), linker
        self.memory = kernels.resources.memory
        self.host = HostCalls(kernels)
        self.written = written(op, inputs, prepare, self.host, linker.processor)
        self.outputs = op.output_types(self.inputs, GuardLog())
        self.fallback = Fallback(interpreted, self.outputs, "compiled")
        self.following: CompiledLoop | None = None
        self._first_carry = op.num_consts
        self._first_xs = op.first_xs if isinstance(op, Scan) else len(inputs)
        self._function: Callable[..., int | None] | None = None
        self._ahead: Ahead[Callable[..., int | None]] | None = None
        self._early: Callable[..., int | None] | None = None
        self._optimised: Ahead[Callable[..., int | None]] | None = None
        is_shared = self.written.largest_call >= SHARED_CALL
        # Threads that small products do not need would wait for the next turn by spinning.
        threads = kernels.resources.workers.count
        self.blas_threads = threads if is_shared else 1
        self._has_threads = threads > 1
        self._calls_blas = blas.PREFIX in self.text
        self._needs_little = not self._calls_blas and self.written.scratch <= LITTLE

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        """The last carry, then the stacked outputs of the iterations.

        Args:
            into: for each result the bytes that it is written to, or None for memory of its own.
        """
        function = self._function or self.fallback.unless_failed(self._next_function)
        if function is None:
            return self.fallback.run(arrays, into)
        parts = WHOLE if function is self._function else self.linker.parts(self.text)
        following, self.following = self.following, None
        if following is not None:
            following.compile_ahead()
        first, last, written = self._first_carry, self._first_xs, self.written
        results = results_in(self.outputs, into, arrays[first:last])
        carry, stacks = results[: last - first], results[last - first :]
        operands = (*arrays[:first], *carry, *arrays[last:], *stacks, *written.constants)
        if self._needs_little:
            self._run(function, operands, np.empty(written.scratch, np.uint8), parts)
        else:
            with self._blas(), self.memory.scratch([written.scratch]) as (scratch,):
                self._run(function, operands, scratch, parts)
        return results[0] if len(results) == 1 else tuple(results)

    def _run(
        self,
        function: Callable[..., int | None],
        operands: Sequence[Any],
        scratch: Any,
        parts: int,
    ) -> None:
        """Run all iterations, with another function from where the first one has done its parts."""
        beside = scratch, self.host.address
        status = function(*operands, *beside, parts)
        if status is None:
            status = function(*map(dense, operands), *beside, parts)
            assert status is not None
        while status == UNFINISHED:
            with suppress(NotCompiledError):  # because the first one can go on as well
                function = self._last_function()
            status = function(*map(dense, operands), *beside, WHOLE)

    @property
    def text(self) -> str:
        """The text for LLVM."""
        return self.written.text

    @property
    def remark(self) -> str:
        """The remark beside the loop."""
        return self.fallback.remark

    def _blas(self) -> AbstractContextManager[None]:
        return SCIPYS.several(self.blas_threads) if self._calls_blas else nullcontext()

    def compile_ahead(self) -> None:
        """Compile the first call's code in a thread, where the executor has several."""
        if self._has_threads and self._function is None and self._ahead is None:
            self._ahead = Ahead(self._compiled)

    def _next_function(self) -> Callable[..., int | None]:
        """One for this call, until there is the one that is kept.

        Of a text for which LLVM's passes take long, these run beside the second call and the following ones.
        """
        early = self._early
        if early is None:
            ahead, self._ahead = self._ahead, None
            function = self._compiled() if ahead is None else ahead.value()
            is_long = function is not self._function and passes(self.text) >= SLOW
            self._early = function if is_long and self._has_threads else None
            return function
        if self._optimised is None:
            self._optimised = Ahead(partial(self.linker.function, LOOP, self.text, OfArrays()))
        return self._last_function() if self._optimised.is_there() else early

    def _compiled(self) -> Callable[..., int | None]:
        """A function for one call, where that pays, or the one that is kept."""
        function = self.linker.function_for_one_call(LOOP, self.text, self.written.work, OfArrays())
        return function or self._last_function()

    def _last_function(self) -> Callable[..., int | None]:
        """The one that is kept."""
        optimised = self._optimised
        function = (
            self.linker.function(LOOP, self.text, OfArrays())
            if optimised is None
            else optimised.value()
        )
        self._function = function
        return function


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
    if lines > MOST_LINES:
        raise NotCompiledError(
            f"{op.name}: {lines} lines of text, more than {MOST_LINES}, would take long to compile"
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
