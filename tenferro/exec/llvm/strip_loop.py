"""The loop of strips: its text, and its run on the executor's threads.

Indices that fill no strip are not worth a text of their own: the last strip begins earlier, and computes again what
the one before has computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import python_calls
from tenferro.exec.llvm.code import Index
from tenferro.exec.llvm.control import Emitter
from tenferro.exec.llvm.fallback import Fallback, Interpreted
from tenferro.exec.llvm.first_call import Work
from tenferro.exec.llvm.host import Kernels
from tenferro.exec.llvm.link import Linker, OfArrays, Processor
from tenferro.exec.llvm.loop_text import LoopText
from tenferro.exec.llvm.parts import repeated_in
from tenferro.exec.llvm.places import dense, results_in
from tenferro.exec.llvm.strips import Prepare, Strips, strip_of
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.types import TensorSpec

__all__ = ["StripLoop"]

KIND = "loop of strips"
"""The name of attempts."""
MOST_WORK = 10 * python_calls.PART
"""Instructions of a strip, by estimate: an interrupted caller waits for the strips of the other threads."""


def _written(
    strips: Strips, inputs: Sequence[TensorSpec], prepare: Prepare, processor: Processor
) -> LoopText:
    """The text of a strip.

    Raises:
        NotCompiledError: an op that is not compiled, or more work than others should wait for.
    """
    op, code = strips.op, processor.code()
    body = Body(code)
    emitter = Emitter(body, prepare, repeated_in(op))
    names = [f"%a{number}" for number in range(len(inputs))]
    results = [f"%y{number}" for number in range(len(strips.outputs))]
    operands = list(zip(names, inputs, strips.inputs, strict=True))

    def begin(name: str, spec: TensorSpec, axis: int | None, of_turn: int = 0) -> Memory:
        """Where the strip begins, in the memory of the whole, or of the first turn's."""
        if axis is None:
            return Memory(name, spec)
        step = prod(spec.shape[of_turn + axis + 1 :]) * (2 if spec.dtype.is_complex else 1)
        return Memory(code.address(name, code.scaled("%start", step), spec.dtype), spec)

    def read(name: str, spec: TensorSpec, axis: int | None, of_turn: int = 0) -> Tensor:
        memory = begin(name, spec, axis, of_turn)
        if axis is None:
            return body.read(memory) if not of_turn else body.stored(memory)
        shape = strip_of(spec, strips.width, of_turn + axis)
        if of_turn + axis == 0:
            return body.stored(Memory(memory.pointer, shape))

        def element(index: tuple[Index, ...]) -> Any:
            return code.load(memory.pointer, code.linear(index, spec.shape), spec.dtype)

        return Tensor(shape, element, frozenset([memory]), is_cheap=True)

    consts = [read(*operand) for operand in operands[: op.num_consts]]
    held = emitter.carried([read(*operand) for operand in operands[op.num_consts : op.first_xs]])
    xs = [read(*operand, of_turn=1) for operand in operands[op.first_xs :]]
    ends = [
        begin(name, spec, axis, of_turn=int(number >= op.num_carry))
        for number, (name, spec, axis) in enumerate(
            zip(results, strips.whole_outputs(inputs), strips.outputs, strict=True)
        )
    ]
    is_dense = not any(strips.outputs)  # whose strips are dense along the first axis alone

    def one(i: Any) -> None:
        t = code.add(code.scaled(i, -1), op.length - 1) if op.reverse else i
        emitter.turn(op, t, consts, held, xs, ends[op.num_carry :], is_dense)

    python_calls.turns(code, op.length, one)
    if code.work > MOST_WORK:
        raise NotCompiledError(f"{op.name}: a strip takes {code.work} instructions")
    for own, end in zip(held, ends, strict=False):
        body.write_all([(body.stored(own), body.storing(end))], is_dense)
    code.line("ret i64 0")
    every = [*names, *results, *[name for name, _ in body.constants], "%scratch"]
    text = code.text("loop", every, ["%start"], is_internal=True)
    text += python_calls.entry(code, every, ["%start"]) + code.lanes_text()
    constants = [array for _, array in body.constants]
    work = Work.of(code).times(strips.count)
    return LoopText(text, constants, body.scratch_bytes, work, code.largest_call)


class StripLoop:
    """A scan in strips as a function of its operands, which gives results in memory of their own.

    Raises:
        NotCompiledError: an op that is not compiled, or more work than others should wait for.
    """

    takes_places = True

    def __init__(
        self,
        strips: Strips,
        inputs: Sequence[TensorSpec],
        prepare: Prepare,
        kernels: Kernels,
        linker: Linker,
        interpreted: Interpreted,
    ) -> None:
        self.strips, self.linker, self.resources = strips, linker, kernels.resources
        self.written = _written(strips, inputs, prepare, linker.processor)
        self.outputs = strips.whole_outputs(inputs)
        remark = f"compiled in {strips.count} strips of {strips.width}"
        self.fallback = Fallback(interpreted, self.outputs, remark)
        self._function: Callable[..., int | None] | None = None

    @property
    def text(self) -> str:
        """The text for LLVM."""
        return self.written.text

    @property
    def remark(self) -> str:
        """The remark beside the loop."""
        return self.fallback.remark

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        """The last carry, then the stacked outputs of the iterations.

        Args:
            into: for each result the bytes that it is written to, or None for memory of its own.
        """
        function = self._function or self.fallback.unless_failed(self._first_function)
        if function is None:
            return self.fallback.run(arrays, into)
        results = results_in(self.outputs, into)
        operands = [*map(dense, arrays), *results, *self.written.constants]
        memory, strips, stop = self.resources.memory, self.strips, threading.Event()

        def take(first: int, last: int) -> None:
            with memory.scratch([self.written.scratch]) as (scratch,):
                try:
                    for number in range(first, last):
                        if stop.is_set():
                            return
                        status = function(*operands, scratch, strips.start(number))
                        assert status is not None
                except BaseException:
                    stop.set()
                    raise

        self.resources.workers.share(take, strips.count)
        return results[0] if len(results) == 1 else tuple(results)

    def _first_function(self) -> Callable[..., int | None]:
        """One for this call only, where that pays, or the one that is kept."""
        linker, text = self.linker, self.text
        function = linker.function_for_one_call(KIND, text, self.written.work, OfArrays())
        if function is None:
            function = self._function = linker.function(KIND, text, OfArrays())
        return function
