"""Compiled blocks: consecutive steps on small arrays, compiled to one function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.kernels.matrix_view import Axes
from tenferro.exec.layout import dense, in_memory
from tenferro.exec.llvm.compiled import (
    CompiledFunction,
    Interpreted,
    WrittenFunction,
    written_function,
)
from tenferro.exec.llvm.control import Emitter
from tenferro.exec.llvm.link import Linker, Processor
from tenferro.exec.llvm.loop import MAX_TEXT_LINES
from tenferro.exec.llvm.tensor import Body, Memory
from tenferro.exec.planned import Block
from tenferro.program import GraphProgram

if TYPE_CHECKING:
    from tenferro.exec.plan.bind import Binder

__all__ = ["CompiledBlock"]

KIND = "compiled block"
"""Name of compiled blocks in the executor's compile statistics."""
MAX_WITH_LOCK = 30_000
"""Maximum number of instructions, about 10 microseconds, of a block that does not release the GIL."""


class CompiledBlock(CompiledFunction):
    """Compiled function of a block's operands.

    Operands and results are contiguous arrays, with their axes in the order `block.axes`. An operand with another
    layout is copied first.

    Args:
        program: the computation of the block.

    Raises:
        NotCompiledError: an op of the block is not compiled.
    """

    accepts_buffers = False

    def __init__(
        self,
        block: Block,
        program: GraphProgram,
        kernels: Binder,
        linker: Linker,
        interpreted: Interpreted,
    ) -> None:
        body = block.body
        slots = zip(
            (*body.input_slots, *body.output_slots),
            (*program.input_slots, *program.output_slots),
            strict=True,
        )
        axes = {own: block.axes[slot] for slot, own in slots if slot in block.axes}
        written = _written(program, axes, kernels, linker.processor)
        super().__init__(
            KIND, written, program.output_specs, slice(0, 0), kernels.resources, linker, interpreted
        )
        self._operand_axes = tuple([
            (number, axes[slot])
            for number, slot in enumerate(program.input_slots)
            if slot in axes
        ])  # fmt: skip
        outputs = zip(program.output_slots, self.outputs, strict=True)
        forms = [in_memory(x, axes.get(slot, tuple(range(x.rank)))) for slot, x in outputs]
        self._results = [(shape, dtype) for shape, dtype, _ in forms]
        self._result_axes = tuple([
            (number, inverse)
            for number, (slot, (*_, inverse)) in enumerate(zip(program.output_slots, forms, strict=True))
            if slot in axes
        ])  # fmt: skip

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        function = self._function or self.linked(self.work)
        results = [np.empty(shape, dtype) for shape, dtype in self._results]
        if function is not None:
            operands = [*arrays]
            for number, axes in self._operand_axes:
                operands[number] = operands[number].transpose(axes)
            self._run(function, (*operands, *results))
        for number, axes in self._result_axes:
            results[number] = results[number].transpose(axes)
        if function is None:
            self._interpret(arrays, results)
        return results[0] if len(results) == 1 else results


def _written(
    program: GraphProgram, axes: Mapping[int, Axes], kernels: Binder, processor: Processor
) -> WrittenFunction:
    code = processor.code()
    body = Body(code, kernels)

    def memory(name: str, slot: int) -> Memory:
        spec, order = program.types[slot], axes.get(slot)
        return Memory(name, spec, None if order is None else dense(spec.shape, order).strides)

    names = [f"%a{number}" for number in range(len(program.input_slots))]
    operands = [body.stored(memory(*each)) for each in zip(names, program.input_slots, strict=True)]
    inputs = [
        body.number(x.spec, body.at(x, (0,) * x.spec.rank)) if x.spec.size == 1 else x
        for x in operands
    ]
    targets = [memory(f"%y{number}", slot) for number, slot in enumerate(program.output_slots)]
    is_plain = not any(slot in axes for slot in program.output_slots)
    emitter = Emitter(body)
    outputs = emitter.emit(program, inputs, targets if is_plain else ())
    pairs = zip(outputs, targets, strict=True)
    body.write_all([(x, body.storing(target)) for x, target in pairs if x.memory is not target])
    code.ret(0)
    lines = len(code.region)
    if lines > MAX_TEXT_LINES:
        raise NotCompiledError(f"{lines} lines of text, more than {MAX_TEXT_LINES}")
    pointers = [*names, *[target.pointer for target in targets]]
    releases = code.work > MAX_WITH_LOCK or bool(code.while_loops)
    return written_function(body, "block", pointers, releases=releases)
