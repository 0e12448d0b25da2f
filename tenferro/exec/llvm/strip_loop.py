"""LLVM code of strip-mined loops.

If the width of strips does not divide the extent, the last strip overlaps the previous strip, and computes the same
values there.
"""

from __future__ import annotations

from math import prod

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.layout import row_major
from tenferro.exec.llvm import python_calls
from tenferro.exec.llvm.compiled import WrittenFunction, written_function
from tenferro.exec.llvm.control import Emitter
from tenferro.exec.llvm.link import Processor
from tenferro.exec.llvm.strip_mining import StripMinedScan, strip_spec
from tenferro.exec.llvm.tensor import Body, Memory, Specs, Tensor
from tenferro.types import TensorSpec

__all__ = ["KIND", "written_strip"]

KIND = "loop of strips"
"""Name of strip-mined loops in the executor's compile statistics."""
MAX_STRIP_WORK = 10 * python_calls.CHUNK_WORK
"""Maximum estimated number of instructions of a strip, after which an interrupted call ends."""


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
        """Return the memory of a value from the first element of the strip on.

        Args:
            axis: the strip-mined axis of the value in one iteration, or None.
            lead: 1 if the first axis stacks the values of all iterations, else 0.
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
