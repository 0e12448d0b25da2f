"""Strip-mined loops: their text, and their run on the executor's threads.

If the width does not divide the extent, the last strip overlaps the one before, and recomputes its results.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.layout import row_major
from tenferro.exec.llvm import python_calls
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
"""Name of attempts in the log."""
MAX_STRIP_WORK = 10 * python_calls.CHUNK_WORK
"""Maximum estimated number of instructions of a strip, because an interrupted caller waits for running strips."""


def written_strip(strips: StripMinedScan, inputs: Specs, processor: Processor) -> WrittenFunction:
    """Return the module of a strip.

    Raises:
        NotCompiledError: an op that is not compiled, or too much work in a strip.
    """
    op, code = strips.op, processor.code()
    body = Body(code)
    emitter = Emitter(body)
    names = [f"%a{number}" for number in range(len(inputs))]
    results = [f"%y{number}" for number in range(len(strips.outputs))]
    operands = list(zip(names, inputs, strips.inputs, strict=True))

    def begin(name: str, spec: TensorSpec, axis: int | None, lead: int) -> Memory:
        """Return the memory of a value from the first element of the strip on.

        `lead` is 1 for values that are stacked along the iterations.
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
        strides = row_major(spec.shape).strides if lead + axis else None
        return body.stored(Memory(memory.pointer, shape, strides))

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
    """Function of operands that runs strip by strip on the executor's threads, and allocates its results.

    Args:
        starts: first index of each strip.
        remark: remark beside the step in the printed schedule.
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
        """Return the results.

        Args:
            into: buffer of each result, or None for a new one.
        """
        function = self._function or self.linked(self.work)
        results = allocate_results(self.outputs, into)
        if function is None:
            return self._interpret(arrays, results)
        operands = [*map(as_contiguous, arrays), *results, *self._constants]
        stop = threading.Event()

        def run(first: int, last: int) -> None:
            with self.memory.scratch([self.scratch_bytes]) as (scratch,):
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
