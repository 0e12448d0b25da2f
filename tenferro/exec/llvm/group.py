"""Compiled fused groups: one loop nest over rows, in place of a call for each instruction and tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, TypeAlias

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.baseline import Work
from tenferro.exec.llvm.code import (
    Code,
    Element,
    Index,
    arguments,
    literal,
    llvm_type,
)
from tenferro.exec.llvm.control import Emitter
from tenferro.exec.llvm.folding import BLOCK_TERMS, INTERLEAVE, MIN_INTERLEAVED_TERMS, alloca_scalar
from tenferro.exec.llvm.link import Linker, PointerConvention
from tenferro.exec.llvm.reduction import TOTALS, identity
from tenferro.exec.llvm.tensor import Body, Memory, Store, Tensor
from tenferro.exec.planned import Fused
from tenferro.exec.schedule import ExecInstruction
from tenferro.graph import Graph
from tenferro.ops.reduction import ReduceSum
from tenferro.ops.structural import BroadcastInDim, Reshape
from tenferro.program import BoundedCache, GraphProgram
from tenferro.types import DType, TensorSpec

__all__ = ["CompiledGroup"]


Aliases: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of a result and the operand that it updates in place."""
KIND = "fused group"
"""Name of attempts in the log."""
MAX_TEXTS = 8
"""Maximum number of cached texts of one group, each for other layouts of the arrays."""
STRIP_WIDTH = 8
"""Width of strips of the last axis if an array is strided along it: that many lines stay in the first-level cache, also
with a stride that is a power of two.
"""


@dataclass(frozen=True)
class Layout:
    """Layout of an array: shape and strides in elements, the common leading axes first."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class RowProgram:
    """Computation of one row and of the group's reductions over rows.

    Attributes:
        program: function of a row of each operand and the group's constants. It returns rows of results, then terms of
            totals.
        totals: reduction of each total.
    """

    program: GraphProgram
    totals: tuple[Any, ...]


class CompiledGroup:
    """Fused group as a function of pointers and a range of rows.

    Attributes:
        text: LLVM text for row-major arrays.

    Raises:
        NotCompiledError: an op that is not compiled, with the line of the user's code.
    """

    def __init__(self, step: ExecInstruction, types: Sequence[TensorSpec], linker: Linker) -> None:
        assert isinstance(step.op, Fused)
        self.op, self.linker = step.op, linker
        self.rows = _row_program(step, types)
        self._texts: BoundedCache[tuple[str, int, Work | None]] = BoundedCache(MAX_TEXTS)
        specs = [*[types[s] for s in step.input_slots], *step.op.results]
        self.text, _, _ = self.text_of(tuple(map(_row_major, specs)), step.op.lead)

    def function(
        self, arrays: Sequence[Any], lead: int, aliases: Aliases = ()
    ) -> tuple[Callable[..., int], int, bool]:
        """Return the function for the layouts of arrays, its scratch memory in bytes, and whether it is baseline code.

        The function takes pointers to the arrays, to partial totals and to scratch memory, and the first row and the end
        of the range. Strides are multiples of the item size.

        Args:
            aliases: results that update operands of the same layout in place, with these operands.

        Raises:
            NotCompiledError: an op that is not compiled, or LLVM fails.
        """
        layouts = tuple(
            [Layout(x.shape, tuple([stride // x.itemsize for stride in x.strides])) for x in arrays]
        )
        with self.linker.log.attempt(KIND):
            text, scratch, work = self.text_of(layouts, lead, aliases)
        convention = PointerConvention(len(arrays) + len(self.op.totals) + 1, 2)
        function = self.linker.baseline_function(KIND, text, work, convention)
        if function is not None:
            return function, scratch, True
        return self.linker.function(KIND, text, convention), scratch, False

    def text_of(
        self, layouts: tuple[Layout, ...], lead: int, aliases: Aliases = ()
    ) -> tuple[str, int, Work | None]:
        """Return the text, its scratch memory in bytes, and the estimated work of all rows.

        The work is None if LLVM's passes determine the order of a sum.
        """
        key = layouts, lead, aliases
        return self._texts.get(key, lambda: self._written(layouts, lead, aliases))

    def _written(
        self, layouts: Sequence[Layout], lead: int, aliases: Aliases
    ) -> tuple[str, int, Work | None]:
        code = self.linker.processor.code()
        body = Body(code)
        writer = _Writer(self.op, self.rows, code, body, layouts, lead, aliases)
        with code.times(prod(self.op.shape[:1])):
            writer.write()
        names = [*writer.names, *writer.partials, "%scratch"]
        text = _with_entry(code, names, ("%start", "%stop")) + code.vector_section()
        totals = zip(self.rows.totals, self.op.totals, strict=True)
        is_ordered = not any([_is_reassociated(op, spec) for op, spec in totals])
        return text, body.scratch_bytes, Work.from_code(code) if is_ordered else None


def _with_entry(code: Code, pointers: Sequence[str], numbers: Sequence[str]) -> str:
    """Return the text of `@f`; with scratch areas it calls an inner function."""
    if not code.areas:
        return code.text("f", pointers, numbers)
    text = code.text("rows", pointers, numbers, is_internal=True)
    call = code.call_text("rows", pointers, numbers)
    return f"{text}define i64 @f({arguments(pointers, numbers)}) nounwind {{\n{call}\n  ret i64 %status\n}}\n"


def _is_reassociated(op: Any, total: TensorSpec) -> bool:
    """Return whether a total is a scalar sum of floats, which LLVM may reassociate."""
    return isinstance(op, ReduceSum) and not total.shape and total.dtype.is_inexact


def _reassociated_sum(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write a sum of floats that LLVM may reassociate."""
    kind = llvm_type(dtype)
    if not dtype.is_complex:
        return code.value(f"fadd reassoc {kind} {xs[0]}, {xs[1]}")
    return tuple([code.value(f"fadd reassoc {kind} {a}, {b}") for a, b in zip(*xs, strict=True)])


def _row_major(spec: TensorSpec) -> Layout:
    strides = [prod(spec.shape[axis + 1 :]) for axis in range(spec.rank)]
    return Layout(spec.shape, tuple(strides))


def _row_program(step: ExecInstruction, types: Sequence[TensorSpec]) -> RowProgram:
    """Return the group's instructions without their leading axes."""
    op = step.op
    assert isinstance(op, Fused)
    lead, results = op.lead, step.output_slots[: len(op.results)]
    summed = step.output_slots[len(op.results) :]
    graph, values, totals = Graph(), dict[int, int](), dict[int, Any]()
    for slot in (*step.input_slots, *op.tiles[lead].constants):
        spec = types[slot]
        if spec.rank < lead:
            raise NotCompiledError("an operand without the rows of its group")
        values[slot] = graph.add_input(TensorSpec(spec.shape[lead:], spec.dtype))
    for member in op.members:
        (slot,) = member.output_slots
        inner = _row_op(member, lead)
        operands = tuple([values[operand] for operand in member.input_slots])
        if slot in summed:
            totals[slot] = inner
            # A row's term of a total is the reduction over its own axes; without any, the element itself.
            if not inner.axes:
                (values[slot],) = operands
                continue
        (values[slot],) = graph.add(inner, operands, member.source)
    outputs = [values[slot] for slot in (*results, *summed)]
    program = GraphProgram.from_graph(graph, outputs, name="row")
    return RowProgram(program, tuple([totals[slot] for slot in summed]))


def _row_op(member: ExecInstruction, lead: int) -> Any:
    """Return the op on a row, without the leading axes.

    Raises:
        NotCompiledError: a result without the rows of its group.
    """
    op: Any = member.op
    if type(op) in TOTALS:
        return replace(op, axes=tuple([axis - lead for axis in op.axes if axis >= lead]))
    if member.output_types[0].rank < lead:
        raise NotCompiledError("an operand without the rows of its group")
    if isinstance(op, BroadcastInDim):
        dims = tuple([axis - lead for axis in op.dims[lead:]])
        return BroadcastInDim(op.shape[lead:], dims)
    return Reshape(op.shape[lead:]) if isinstance(op, Reshape) else op


class _Writer:
    """Writer of a group's function for one tuple of layouts."""

    def __init__(
        self,
        op: Fused,
        rows: RowProgram,
        code: Code,
        body: Body,
        layouts: Sequence[Layout],
        lead: int,
        aliases: Aliases,
    ) -> None:
        self.op, self.rows, self.code, self.body = op, rows, code, body
        self.layouts, self.lead = layouts, lead
        self.names = [f"%a{number}" for number in range(len(layouts))]
        # Aliases share a pointer, because different pointers are `noalias`.
        self.pointers = list(self.names)
        operands = len(layouts) - len(op.results)
        for result, operand in aliases:
            self.pointers[operands + result] = self.pointers[operand]
        self.partials = [f"%s{number}" for number in range(len(op.totals))]
        self.emitter = Emitter(body, lambda program: program)

    def write(self) -> None:
        """Write the function."""
        code = self.code
        partials = [
            Memory(name, TensorSpec(spec.shape, spec.dtype))
            for name, spec in zip(self.partials, self.op.totals, strict=True)
        ]
        for op, total in zip(self.rows.totals, partials, strict=True):
            first = identity(TOTALS[type(op)][0], total.spec.dtype)
            self.body.write(self.body.filled(total.spec, first), total)
        count = code.value("sub i64 %stop, %start")
        if all([total.spec.shape for total in partials]):
            self._all_rows("%start", count, partials)
        else:
            blocks = code.value(
                f"udiv i64 {code.value(f'add i64 {count}, {BLOCK_TERMS - 1}')}, {BLOCK_TERMS}"
            )
            code.loop(blocks, lambda block: self._block(block, count, partials))
        code.line("ret i64 0")

    def _block(self, block: Index, count: str, partials: Sequence[Memory]) -> None:
        """Reduce a block of rows to scalars of its own, so that a long sum is a sum of block sums."""
        code, blocks = self.code, list[Memory]()
        for op, total in zip(self.rows.totals, partials, strict=True):
            if total.spec.shape:
                blocks.append(total)
                continue
            dtype = total.spec.dtype
            cell = Memory(alloca_scalar(code, dtype), total.spec)
            first = identity(TOTALS[type(op)][0], dtype)
            code.store(literal(first, dtype), cell.pointer, 0, dtype)
            blocks.append(cell)
        done = code.scaled(block, BLOCK_TERMS)
        left = code.value(f"sub i64 {count}, {done}")
        size = code.call("llvm.smin.i64", "i64", [("i64", left), ("i64", str(BLOCK_TERMS))])
        self._all_rows(str(code.add("%start", done)), size, blocks)
        for op, total, cell in zip(self.rows.totals, partials, blocks, strict=True):
            if total is not cell:
                self._combine(op, total, (), code.load(cell.pointer, 0, total.spec.dtype))

    def _all_rows(self, start: str, count: str, partials: Sequence[Memory]) -> None:
        code = self.code
        extents = self.layouts[0].shape[1 : self.lead]
        # Independent accumulators hide the latency of scalar reductions.
        is_long = not extents or extents[-1] >= 2 * MIN_INTERLEAVED_TERMS
        has_scalars = any([not total.spec.shape for total in partials])
        interleave = INTERLEAVE if is_long and has_scalars else 1

        # Strips would change the order of totals.
        strip_axis = None if partials or not extents else self._strip_axis()

        def loop(index: tuple[Index, ...], first: Index, width: int) -> None:
            axis = len(index)
            if axis == len(extents) + 1:
                self._row(index, partials)
            elif axis == strip_axis and width > STRIP_WIDTH:
                strips, rest = divmod(width, STRIP_WIDTH)
                code.loop(strips, lambda k: loop(index, code.scaled(k, STRIP_WIDTH), STRIP_WIDTH))
                if rest:
                    loop(index, width - rest, rest)
            elif axis == 0:
                code.loop(
                    count,
                    lambda i: loop((code.add(i, start),), first, width),
                    interleave=1 if extents else interleave,
                )
            elif axis < len(extents):
                code.loop(extents[axis - 1], lambda i: loop((*index, i), first, width))
            else:
                code.loop(
                    width,
                    lambda i: loop((*index, code.add(i, first)), first, width),
                    interleave=interleave,
                )

        loop((), 0, extents[-1] if extents else 0)

    def _strip_axis(self) -> int | None:
        """Return the axis whose loop runs inside the loop over strips of the last axis, or None without strips.

        It is contiguous in an array that is strided along the last axis.
        """
        axes: list[int] = []
        for layout in self.layouts:
            strides = [abs(stride) for stride in layout.strides[: self.lead]]
            if len(strides) == self.lead and strides[-1] >= STRIP_WIDTH and 1 in strides:
                axes.append(strides.index(1))
        return min(axes, default=None)

    def _row(self, index: tuple[Index, ...], partials: Sequence[Memory]) -> None:
        """Write all results of one row."""
        body, rows = self.body, self.rows
        constants = self.op.tiles[self.op.lead].constants.values()
        count = len(rows.program.input_slots) - len(constants)
        views = [self._view(number, index) for number in range(len(self.layouts))]
        inputs = [self._read(view, number) for number, view in enumerate(views[:count])]
        specs = rows.program.input_specs[count:]
        numbers = [body.filled(spec, x.item()) for spec, x in zip(specs, constants, strict=True)]
        outputs = self.emitter.emit(rows.program, [*inputs, *numbers])
        stores = [
            self._storing(view, pointer, y.spec.dtype)
            for y, view, pointer in zip(outputs, views[count:], self.pointers[count:], strict=False)
        ]
        totals = zip(rows.totals, partials, strict=True)
        stores += [partial(self._combine, op, total) for op, total in totals]
        body.write_all(list(zip(outputs, stores, strict=True)), is_dense=False)

    def _storing(self, view: tuple[Index, Layout], pointer: str, dtype: DType) -> Store:
        """Return the writer of an element of a row."""
        offset, layout = view

        def store(at: tuple[Index, ...], value: Any) -> None:
            self.code.store(value, pointer, self._offset(offset, layout, at), dtype)

        return store

    def _combine(self, op: Any, total: Memory, at: tuple[Index, ...], value: Any) -> None:
        code, spec = self.code, total.spec
        offset = code.ravel_index(at, spec.shape)
        old = code.load(total.pointer, offset, spec.dtype)
        combine = _reassociated_sum if _is_reassociated(op, spec) else TOTALS[type(op)][1]
        value = combine(code, op, spec.dtype, [old, value])
        code.store(value, total.pointer, offset, spec.dtype)

    def _view(self, number: int, index: tuple[Index, ...]) -> tuple[Index, Layout]:
        """Return the offset of a row of an array, and the layout of the row."""
        layout, code = self.layouts[number], self.code
        offset: Index = 0
        for i, stride in zip(index, layout.strides, strict=False):  # because scalars have no rows
            offset = code.add(offset, code.scaled(i, stride))
        lead = len(index)
        return offset, Layout(layout.shape[lead:], layout.strides[lead:])

    def _offset(self, offset: Index, layout: Layout, index: Sequence[Index]) -> Index:
        for i, stride in zip(index, layout.strides, strict=True):
            offset = self.code.add(offset, self.code.scaled(i, stride))
        return offset

    def _read(self, view: tuple[Index, Layout], number: int) -> Tensor:
        """Return a row of an operand."""
        offset, layout = view
        spec = self.rows.program.input_specs[number]
        memory = Memory(self.pointers[number], spec)

        def element(index: tuple[Index, ...]) -> Any:
            return self.code.load(memory.pointer, self._offset(offset, layout, index), spec.dtype)

        return Tensor(spec, element, frozenset([memory]), is_cheap=True)
