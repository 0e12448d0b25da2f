"""Compilation of strip-mined loops, whose strips run on the executor's threads.

If the width of strips does not divide the extent, the last strip overlaps the previous one. Both compute the same
values there.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import python_calls
from tenferro.exec.llvm.code import Index
from tenferro.exec.llvm.compiled import (
    CompiledFunction,
    Interpreted,
    WrittenFunction,
    allocate_results,
    as_contiguous,
    written_function,
)
from tenferro.exec.llvm.control import Emitter
from tenferro.exec.llvm.link import Linker, Processor
from tenferro.exec.llvm.strip_mining import StripMinedScan, strip_spec
from tenferro.exec.llvm.tensor import Body, Memory, Specs, Tensor
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.exec.plan.bind import Binder

__all__ = ["StripFunction", "written_strip"]

KIND = "loop of strips"
"""Name of the kind of function in the executor's compile statistics."""
MAX_STRIP_WORK = 10 * python_calls.CHUNK_WORK
"""Maximum estimated number of instructions of a strip; an interrupted call ends only when running strips have ended."""


def written_strip(strips: StripMinedScan, inputs: Specs, processor: Processor) -> WrittenFunction:
    """Return the LLVM module of a function that runs the loop on one strip.

    Raises:
        NotCompiledError: an op is not compiled, or a strip takes too many instructions.
    """
    op, code = strips.op, processor.code()
    body = Body(code)
    emitter = Emitter(body)
    names = [f"%a{number}" for number in range(len(inputs))]
    results = [f"%y{number}" for number in range(len(strips.outputs))]
    operands = list(zip(names, inputs, strips.inputs, strict=True))

    def begin(name: str, spec: TensorSpec, axis: int | None, lead: int) -> Memory:
        """Return the memory of a value, beginning at the first element of the strip.

        Args:
            axis: the strip-mined axis of the value in one iteration, or None.
            lead: 1 if the value is stacked along a first axis for iterations, else 0.
        """
        if axis is None:
            return Memory(name, spec)
        step = prod(spec.shape[lead + axis + 1 :]) * (2 if spec.dtype.is_complex else 1)
        return Memory(code.address(name, code.scaled("%start", step), spec.dtype), spec)

    def read(name: str, spec: TensorSpec, axis: int | None, lead: int = 0) -> Tensor:
        memory = begin(name, spec, axis, lead)
        if axis is None:
            return body.read(memory) if not lead else body.stored(memory)
        shape = strip_spec(spec, strips.width, lead + axis)
        if lead + axis == 0:
            return body.stored(Memory(memory.pointer, shape))

        def element(index: tuple[Index, ...]) -> Any:
            return code.load(memory.pointer, code.ravel_index(index, spec.shape), spec.dtype)

        return Tensor(shape, element, frozenset([memory]), is_cheap=True)

    consts = [read(*operand) for operand in operands[: op.num_consts]]
    local = emitter.init_carry(
        [read(*operand) for operand in operands[op.num_consts : op.first_xs]]
    )
    xs = [read(*operand, lead=1) for operand in operands[op.first_xs :]]
    ends = [
        begin(name, spec, axis, lead=int(number >= op.num_carry))
        for number, (name, spec, axis) in enumerate(
            zip(results, strips.types, strips.outputs, strict=True)
        )
    ]
    emitter.iterate(op, consts, local, xs, ends[op.num_carry :])
    if code.work > MAX_STRIP_WORK:
        raise NotCompiledError(f"{op.name}: a strip takes {code.work} instructions")
    for own, end in zip(local, ends, strict=False):
        body.write_all([(body.stored(own), body.storing(end))])
    code.ret(0)
    return written_function(body, "loop", [*names, *results], ["%start"], calls=len(strips.starts))


class StripFunction(CompiledFunction):
    """Function of operands that allocates the results, and runs the strips on the executor's threads.

    Args:
        starts: the first index of each strip.
        remark: the remark beside the step in the printed schedule.
    """

    def __init__(
        self,
        kind: str,
        written: WrittenFunction,
        outputs: Sequence[TensorSpec],
        starts: Sequence[int],
        kernels: Binder,
        linker: Linker,
        interpreted: Interpreted,
        remark: str,
    ) -> None:
        super().__init__(
            kind, written, outputs, slice(0, 0), kernels.resources, linker, interpreted
        )
        self.starts, self.workers, self.remark = starts, kernels.resources.workers, remark

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        """Return the result, or a tuple of the results if there are several.

        Args:
            into: the buffer of each result, or None for new memory.
        """
        function = self._function or self._linked()
        results = allocate_results(self.outputs, into)
        if function is None:
            return self._interpret(arrays, results)
        operands = [*map(as_contiguous, arrays), *results, *self.written.constants]
        stop = threading.Event()

        def run(first: int, last: int) -> None:
            with self.memory.scratch([self.written.scratch]) as (scratch,):
                try:
                    for start in self.starts[first:last]:
                        if stop.is_set():
                            return
                        status = function(*operands, scratch, start)
                        assert status is not None
                except BaseException:
                    stop.set()
                    raise

        self.workers.parallel_for(run, len(self.starts))
        return results[0] if len(results) == 1 else tuple(results)
