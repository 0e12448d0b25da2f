"""Compiled fused groups: one loop over rows computes all instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.fused import FusedFunction
from tenferro.exec.kernels.copying import Dense
from tenferro.exec.layout import Axes, Layout, arranged, by_stride, dense, row_major
from tenferro.exec.llvm.code import Code, Element, Index, literal
from tenferro.exec.llvm.control import Emitter
from tenferro.exec.llvm.folding import BLOCK_TERMS, INTERLEAVE, MIN_INTERLEAVED_TERMS, alloca_scalar
from tenferro.exec.llvm.ir import Module, Value
from tenferro.exec.llvm.link import LinkedFunction, Linker, Processor
from tenferro.exec.llvm.python_calls import define_function
from tenferro.exec.llvm.reduction import COMBINERS
from tenferro.exec.llvm.tensor import Body, Memory
from tenferro.exec.runtime.threads import SERIAL
from tenferro.exec.schedule import ExecInstruction, InPlace
from tenferro.facts import Fact
from tenferro.graph import Graph
from tenferro.ops.reduction import ReduceSum
from tenferro.ops.structural import BroadcastInDim, Reshape
from tenferro.program import GraphProgram
from tenferro.types import DType, TensorSpec

__all__ = ["CompiledGroup"]


KIND = "fused group"
"""Name of fused groups in the executor's compile statistics."""


class CompiledGroup(FusedFunction, LinkedFunction):
    """Fused group as a compiled function of whole arrays.

    Each thread computes some of the tiles. Tiles depend only on shapes, and a reduction over rows combines the totals
    of the tiles in order, so the results do not depend on the number of threads.

    Attributes:
        module: the module. Its function takes pointers to operands, results, partial totals and scratch memory, and a
            range of rows.

    Raises:
        NotCompiledError: an op is not compiled; the error names the user's line.
    """

    def __init__(self, step: ExecInstruction, body: Callable[..., Any], linker: Linker) -> None:
        assert step.fused is not None
        FusedFunction.__init__(self, step.fused, body, step.kernels.resources)
        with linker.log.attempt(KIND):
            module, self.scratch_bytes, self.work = _written(step, linker.processor)
        LinkedFunction.__init__(self, KIND, module, linker)
        types, layouts = self.op.body.input_types, self.tiling.operands
        self._strides = [
            tuple([step * spec.dtype.itemsize for step in layout.strides])
            for layout, spec in zip(layouts, types, strict=True)
        ]
        results = [self.tiling.axes(spec.rank) for spec in self.op.results]
        self._orders = [*map(contiguous_axes, layouts), *results]
        self._rows = Dense("C", self.resources)
        self.workers = self.resources.workers if self.tiling.is_parallel else SERIAL

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        """Return the results, then the totals; see `FusedFunction`."""
        function = self._function or self.linked(self.work)
        if function is None:
            return super().__call__(*arrays, into=into)
        op, tiling = self.op, self.tiling
        operands = [
            x if x.strides == strides else self._arranged(x, number)
            for number, (x, strides) in enumerate(zip(arrays, self._strides, strict=True))
        ]
        results: list[Any] = []
        for number, target in enumerate(into or (None,) * len(op.results)):
            # If an operand was copied, the result in its place overwrites the copy.
            in_place = [y for x, y in zip(arrays, operands, strict=True) if x is target]
            results.append(in_place[0] if in_place else self.empty_result(number, target))
        count = -(-tiling.rows // tiling.height)
        totals = [np.empty((count, *spec.shape), spec.dtype.dtype) for spec in op.totals]
        # Contiguous arrays are passed instead of addresses, which take longer to get in Python.
        pointers = [
            x.transpose(order) if order is not None and x.flags.aligned else x.ctypes.data
            for x, order in zip((*operands, *results), self._orders, strict=True)
        ]
        self._compute(function, pointers, totals)
        combined = [fold(total) for fold, total in zip(op.folds, totals, strict=True)]
        outputs = [*results, *combined]
        return outputs[0] if len(outputs) == 1 else outputs

    def _arranged(self, x: Any, number: int) -> Any:
        """Return operand x in the planned layout."""
        layout = self.tiling.operands[number]
        if layout == row_major(layout.shape) and not x.flags.c_contiguous:
            return self._rows(x)
        return arranged(x, layout)

    def _compute(
        self, function: Callable[..., Any], pointers: Sequence[Any], totals: Sequence[Any]
    ) -> None:
        """Compute the results and the partial totals of all tiles; `pointers` are row-major arrays or addresses."""
        height = self.tiling.height
        scratch = self.resources.memory.scratch if self.scratch_bytes else _no_scratch

        def run(start: int, stop: int) -> None:
            with scratch([self.scratch_bytes]) as (piece,):
                step = height if totals else stop - start
                for i in range(start, stop, step):
                    partials = [total[i // height :] for total in totals]
                    status = function(*pointers, *partials, piece, i, min(i + step, stop))
                    assert status is not None

        self.workers.parallel_for(run, self.tiling.rows, height)


def _no_scratch(_: Sequence[int]) -> AbstractContextManager[Sequence[int]]:
    return nullcontext((0,))


def contiguous_axes(layout: Layout) -> Axes | None:
    """Return the order of the axes of a contiguous array with this layout; None if it is not contiguous."""
    axes = by_stride(layout.strides)
    return axes if layout == dense(layout.shape, axes) else None


def _written(step: ExecInstruction, processor: Processor) -> tuple[Module, int, int | None]:
    """Return a group's module, its scratch memory in bytes, and the estimated work of all rows.

    The work is None if the order of a sum depends on LLVM's passes.
    """
    code = processor.code()
    body = Body(code)
    writer = _Writer(step, code, body)
    with code.times(prod(writer.op.shape[:1])):
        writer.write()
    names = [*writer.names, *writer.partials, "%scratch"]
    define_function(code, names, ("%start", "%stop"), "rows")
    totals = zip(writer.totals, writer.op.totals, strict=True)
    is_ordered = not any([_is_reassociated(op, spec) for op, spec in totals])
    return code.module(), body.scratch_bytes, code.work if is_ordered else None


def _is_reassociated(op: Any, total: TensorSpec) -> bool:
    """Return whether a total is a scalar sum of floats; LLVM may change the order of its terms."""
    return isinstance(op, ReduceSum) and not total.shape and total.dtype.is_inexact


def _reassociated_sum(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write x + y for floats; LLVM may reorder a chain of these sums."""
    if not dtype.is_complex:
        return code.value("fadd", xs[0], xs[1], flags="reassoc")
    return tuple([code.value("fadd", a, b, flags="reassoc") for a, b in zip(*xs, strict=True)])


def _row_program(step: ExecInstruction) -> tuple[GraphProgram, tuple[Any, ...]]:
    """Return a program that computes one row of the group, and the reduction of each total.

    The inputs are a row of each operand and the group's constants. The outputs are a row of each result, and the row's
    term of each total.
    """
    op = step.fused
    assert op is not None
    types = op.body.types
    lead, results = op.lead, step.output_slots[: len(op.results)]
    summed = step.output_slots[len(op.results) :]
    graph, values, totals = Graph(), dict[int, int](), dict[int, Any]()
    for slot in (*step.input_slots, *op.body.constants):
        spec = types[slot]
        if spec.rank < lead:
            raise NotCompiledError("an operand without the rows of its group")
        values[slot] = graph.add_input(TensorSpec(spec.shape[lead:], spec.dtype))
    for member in op.body.instructions:
        (slot,) = member.output_slots
        inner = _row_op(member, lead)
        operands = tuple([values[operand] for operand in member.input_slots])
        if slot in summed:
            totals[slot] = inner
            # A row's term of a total is its reduction over axes within the row, or the row if there are none.
            if not inner.axes:
                (values[slot],) = operands
                continue
        (values[slot],) = graph.add(inner, operands, member.source)
    outputs = [values[slot] for slot in (*results, *summed)]
    program = GraphProgram.from_graph(graph, outputs, name="row")
    return program, tuple([totals[slot] for slot in summed])


def _row_op(member: ExecInstruction, lead: int) -> Any:
    """Return the op that an instruction of the group applies to a row, without leading axes.

    Raises:
        NotCompiledError: the result has fewer axes than the group has leading axes.
    """
    op: Any = member.op
    if Fact.REDUCES in member.facts:
        return replace(op, axes=tuple([axis - lead for axis in op.axes if axis >= lead]))
    if member.output_types[0].rank < lead:
        raise NotCompiledError("an operand without the rows of its group")
    if isinstance(op, BroadcastInDim):
        dims = tuple([axis - lead for axis in op.dims[lead:]])
        return BroadcastInDim(op.shape[lead:], dims)
    return Reshape(op.shape[lead:]) if isinstance(op, Reshape) else op


class _Writer:
    """Writer of a group's function."""

    def __init__(self, step: ExecInstruction, code: Code, body: Body) -> None:
        op = step.fused
        assert op is not None
        tiling = op.require_tiling()
        self.op, self.code, self.body = op, code, body
        self.program, self.totals = _row_program(step)
        results = [dense(spec.shape, tiling.axes(spec.rank)) for spec in op.results]
        self.layouts = [tiling.view_layout(layout) for layout in (*tiling.operands, *results)]
        self.lead = tiling.lead
        self.names = [f"%a{number}" for number in range(len(self.layouts))]
        # A result in place of an operand uses the operand's pointer, because all pointers are `noalias`.
        self.pointers = list(self.names)
        for number, place in enumerate(step.places):
            if isinstance(place, InPlace):
                operand = step.input_slots.index(place.slot)
                self.pointers[len(op.body.input_slots) + number] = self.pointers[operand]
        self.partials = [f"%s{number}" for number in range(len(op.totals))]
        self.emitter = Emitter(body)

    def write(self) -> None:
        code = self.code
        partials = [
            Memory(name, TensorSpec(spec.shape, spec.dtype))
            for name, spec in zip(self.partials, self.op.totals, strict=True)
        ]
        for op, total in zip(self.totals, partials, strict=True):
            first = op.identity(total.spec.dtype)
            self.body.write(self.body.filled(total.spec, first), total)
        count = code.value("sub", "%stop", "%start", type="i64")
        if all([total.spec.shape for total in partials]):
            self._all_rows("%start", count, partials)
        else:
            blocks = code.value("udiv", code.value("add", count, BLOCK_TERMS - 1), BLOCK_TERMS)
            code.loop(blocks, lambda block: self._block(block, count, partials))
        code.ret(0)

    def _block(self, block: Index, count: Value, partials: Sequence[Memory]) -> None:
        """Write the rows of one block, and add its scalar totals to the partial totals.

        A sum of block sums is more accurate than one long sum.
        """
        code, blocks = self.code, list[Memory]()
        for op, total in zip(self.totals, partials, strict=True):
            if total.spec.shape:
                blocks.append(total)
                continue
            dtype = total.spec.dtype
            cell = Memory(alloca_scalar(code, dtype), total.spec)
            code.store(literal(op.identity(dtype), dtype), cell.pointer, 0, dtype)
            blocks.append(cell)
        done = code.scaled(block, BLOCK_TERMS)
        left = code.value("sub", count, done)
        size = code.intrinsic("smin", left, BLOCK_TERMS)
        self._all_rows(code.add("%start", done), size, blocks)
        for op, total, cell in zip(self.totals, partials, blocks, strict=True):
            if total is not cell:
                self._combine(op, total, (), code.load(cell.pointer, 0, total.spec.dtype))

    def _all_rows(self, start: Index, count: Value, partials: Sequence[Memory]) -> None:
        code = self.code
        extents = self.layouts[0].shape[1 : self.lead]
        # A scalar reduction with several accumulators does not wait for the latency of each operation.
        is_long = not extents or extents[-1] >= 2 * MIN_INTERLEAVED_TERMS
        has_scalars = any([not total.spec.shape for total in partials])
        interleave = INTERLEAVE if is_long and has_scalars else 1

        def loop(index: tuple[Index, ...]) -> None:
            axis = len(index)
            if axis == len(extents) + 1:
                self._row(index, partials)
                return
            code.loop(
                extents[axis - 1] if axis else count,
                lambda i: loop((*index, i if axis else code.add(i, start))),
                interleave=interleave if axis == len(extents) else 1,
            )

        loop(())

    def _row(self, index: tuple[Index, ...], partials: Sequence[Memory]) -> None:
        """Write code that computes one row of all results, and adds its terms to the totals."""
        body = self.body
        constants = self.op.body.constants.values()
        count = len(self.program.input_slots) - len(constants)
        types = [*self.program.input_specs[:count], *self.program.output_specs]
        rows = [
            self._row_memory(pointer, layout, spec, index)
            for pointer, layout, spec in zip(self.pointers, self.layouts, types, strict=False)
        ]
        inputs = [body.stored(row) for row in rows[:count]]
        specs = self.program.input_specs[count:]
        numbers = [
            body.filled(spec, x.flat[0].item()) for spec, x in zip(specs, constants, strict=True)
        ]
        outputs = self.emitter.emit(self.program, [*inputs, *numbers])
        stores = [body.storing(row) for row in rows[count:]]
        totals = zip(self.totals, partials, strict=True)
        stores += [partial(self._combine, op, total) for op, total in totals]
        body.write_all(list(zip(outputs, stores, strict=True)))

    def _row_memory(
        self, pointer: str, layout: Layout, spec: TensorSpec, index: tuple[Index, ...]
    ) -> Memory:
        offset = self.body.offset(Memory(pointer, spec, layout.strides), index)
        return Memory(pointer, spec, layout.strides[len(index) :], offset)

    def _combine(self, op: Any, total: Memory, at: tuple[Index, ...], value: Any) -> None:
        code, spec = self.code, total.spec
        offset = code.ravel_index(at, spec.shape)
        old = code.load(total.pointer, offset, spec.dtype)
        combine = _reassociated_sum if _is_reassociated(op, spec) else COMBINERS[op.combiner]
        value = combine(code, op, spec.dtype, [old, value])
        code.store(value, total.pointer, offset, spec.dtype)
