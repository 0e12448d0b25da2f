"""Groups, compiled: one loop over rows in place of a call for each instruction and tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, TypeAlias

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.code import (
    Code,
    Element,
    Index,
    arguments,
    literal,
    llvm_type,
)
from tenferro.exec.llvm.control import Emitter
from tenferro.exec.llvm.first_call import Work
from tenferro.exec.llvm.folding import BLOCK, CHAINED, CHAINS, cell_of
from tenferro.exec.llvm.link import Linker, OfPointers
from tenferro.exec.llvm.reduction import TOTALS, identity
from tenferro.exec.llvm.tensor import Body, Memory, Store, Tensor
from tenferro.exec.schedule import ExecInstruction, Tiles
from tenferro.graph import Graph
from tenferro.ops.reduction import ReduceSum
from tenferro.ops.structural import BroadcastInDim, Reshape
from tenferro.program import BoundedCache, GraphProgram
from tenferro.types import DType, TensorSpec

__all__ = ["CompiledGroup"]


def _reduces(member: ExecInstruction) -> bool:
    return type(member.op) in TOTALS


Pairs: TypeAlias = tuple[tuple[int, int], ...]
KIND = "fused group"
"""The name of attempts."""
TEXTS = 8
"""Kept for one group, for arrays that lie in memory in as many ways."""
STRIP = 8
"""Elements of the last axis that are taken at once where arrays lie across it: so many lines stay in the nearest cache,
also where they lie a power of two apart.
"""


@dataclass(frozen=True)
class Walk:
    """How an array lies in memory: extents and steps in elements, the axes that all share first."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """The computation of one row, and of totals from rows.

    Attributes:
        program: of a row of each operand, then the group's constants; it gives results, then parts of totals.
        totals: for each total the op that combines the parts.
    """

    program: GraphProgram
    totals: tuple[Any, ...]


class CompiledGroup:
    """A group as a function of pointers and the rows from where to where.

    Attributes:
        text: for row-major arrays.

    Raises:
        NotCompiledError: an op that is not compiled, with the user's line.
    """

    def __init__(self, step: ExecInstruction, types: Sequence[TensorSpec], linker: Linker) -> None:
        assert isinstance(step.op, Tiles)
        self.op, self.linker = step.op, linker
        self.rows = _rows(step, types)
        self._texts: BoundedCache[tuple[str, int, Work | None]] = BoundedCache(TEXTS)
        specs = [*[types[s] for s in step.input_slots], *step.op.results]
        self.text, _, _ = self.text_of(tuple(map(_dense, specs)), step.op.lead)

    def function(
        self, arrays: Sequence[Any], lead: int, over: Pairs = ()
    ) -> tuple[Callable[..., int], int, bool]:
        """The function for arrays that lie in memory as these do, bytes of scratch that it needs, and whether it is for
        one run of the group, after which there is a faster one.

        It takes a pointer to each array and to the shares of each total, one to scratch, and the rows from
        where to where. The arrays' elements lie whole elements apart.

        Args:
            over: numbers of results that are written over operands, and of these, which lie in memory alike.

        Raises:
            NotCompiledError: an op that is not compiled, or LLVM fails.
        """
        walks = tuple(
            [Walk(x.shape, tuple([step // x.itemsize for step in x.strides])) for x in arrays]
        )
        with self.linker.log.attempt(KIND):
            text, scratch, work = self.text_of(walks, lead, over)
        convention = OfPointers(len(arrays) + len(self.op.totals) + 1, 2)
        function = self.linker.function_for_one_call(KIND, text, work, convention)
        if function is not None:
            return function, scratch, True
        return self.linker.function(KIND, text, convention), scratch, False

    def text_of(
        self, walks: tuple[Walk, ...], lead: int, over: Pairs = ()
    ) -> tuple[str, int, Work | None]:
        """The text, bytes of scratch, and the work of all rows, by estimate; None where LLVM's passes
        decide the order of a sum.
        """
        return self._texts.get((walks, lead, over), lambda: self._written(walks, lead, over))

    def _written(
        self, walks: Sequence[Walk], lead: int, over: Pairs
    ) -> tuple[str, int, Work | None]:
        code = self.linker.processor.code()
        body = Body(code)
        writer = _Writer(self.op, self.rows, code, body, walks, lead, over)
        with code.times(prod(self.op.shape[:1])):
            writer.write()
        names = [*writer.names, *writer.shares, "%scratch"]
        text = _entered(code, names, ("%start", "%stop")) + code.lanes_text()
        totals = zip(self.rows.totals, self.op.totals, strict=True)
        is_ordered = not any([_is_in_any_order(op, spec) for op, spec in totals])
        return text, body.scratch_bytes, Work.of(code) if is_ordered else None


def _entered(code: Code, pointers: Sequence[str], numbers: Sequence[str]) -> str:
    """The text of `@f`, and of the function that it calls where that has areas of scratch."""
    if not code.areas:
        return code.text("f", pointers, numbers)
    text = code.text("rows", pointers, numbers, is_internal=True)
    call = code.call_of("rows", pointers, numbers)
    return f"{text}define i64 @f({arguments(pointers, numbers)}) nounwind {{\n{call}\n  ret i64 %status\n}}\n"


def _is_in_any_order(op: Any, total: TensorSpec) -> bool:
    """Whether a total is a sum of rows' numbers, which LLVM adds along lanes in an order of its own."""
    return isinstance(op, ReduceSum) and not total.shape and total.dtype.is_inexact


def _added(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """A sum of floats in any order."""
    kind = llvm_type(dtype)
    if not dtype.is_complex:
        return code.value(f"fadd reassoc {kind} {xs[0]}, {xs[1]}")
    return tuple([code.value(f"fadd reassoc {kind} {a}, {b}") for a, b in zip(*xs, strict=True)])


def _dense(spec: TensorSpec) -> Walk:
    strides = [prod(spec.shape[axis + 1 :]) for axis in range(spec.rank)]
    return Walk(spec.shape, tuple(strides))


def _rows(step: ExecInstruction, types: Sequence[TensorSpec]) -> Rows:
    """The group's instructions with their leading axes taken off."""
    op = step.op
    assert isinstance(op, Tiles)
    lead, results = op.lead, step.output_slots[: len(op.results)]
    summed = step.output_slots[len(op.results) :]
    graph, values, totals = Graph(), dict[int, int](), dict[int, Any]()
    for slot in (*step.input_slots, *op.bodies[lead].constants):
        spec = types[slot]
        if spec.rank < lead:
            raise NotCompiledError("an operand without the rows of its group")
        values[slot] = graph.add_input(TensorSpec(spec.shape[lead:], spec.dtype))
    for member in op.members:
        (slot,) = member.output_slots
        inner = _of_row(member, lead)
        operands = tuple([values[operand] for operand in member.input_slots])
        if slot in summed:
            totals[slot] = inner
            # A row's part of a total is what its own axes give; without any, the element itself.
            if not inner.axes:
                (values[slot],) = operands
                continue
        (values[slot],) = graph.add(inner, operands, member.source)
    outputs = [values[slot] for slot in (*results, *summed)]
    program = GraphProgram.from_graph(graph, outputs, name="row")
    return Rows(program, tuple([totals[slot] for slot in summed]))


def _of_row(member: ExecInstruction, lead: int) -> Any:
    """The op on a row: without the leading axes.

    Raises:
        NotCompiledError: a result without the rows of its group.
    """
    op: Any = member.op
    if _reduces(member):
        return replace(op, axes=tuple([axis - lead for axis in op.axes if axis >= lead]))
    if member.output_types[0].rank < lead:
        raise NotCompiledError("an operand without the rows of its group")
    if isinstance(op, BroadcastInDim):
        dims = tuple([axis - lead for axis in op.dims[lead:]])
        return BroadcastInDim(op.shape[lead:], dims)
    return Reshape(op.shape[lead:]) if isinstance(op, Reshape) else op


class _Writer:
    """Writes the function of a group for arrays that lie in memory in one way."""

    def __init__(
        self,
        op: Tiles,
        rows: Rows,
        code: Code,
        body: Body,
        walks: Sequence[Walk],
        lead: int,
        over: Pairs,
    ) -> None:
        self.op, self.rows, self.code, self.body = op, rows, code, body
        self.walks, self.lead = walks, lead
        self.names = [f"%a{number}" for number in range(len(walks))]
        # One name for one memory, because pointers of different names lie apart.
        self.pointers = list(self.names)
        operands = len(walks) - len(op.results)
        for result, operand in over:
            self.pointers[operands + result] = self.pointers[operand]
        self.shares = [f"%s{number}" for number in range(len(op.totals))]
        self.emitter = Emitter(body, lambda program: program)

    def write(self) -> None:
        """All of it."""
        code = self.code
        shares = [
            Memory(name, TensorSpec(spec.shape, spec.dtype))
            for name, spec in zip(self.shares, self.op.totals, strict=True)
        ]
        for op, share in zip(self.rows.totals, shares, strict=True):
            first = identity(TOTALS[type(op)][0], share.spec.dtype)
            self.body.write(self.body.filled(share.spec, first), share)
        count = code.value("sub i64 %stop, %start")
        sums = [share for share in shares if not share.spec.shape]
        if not sums:
            self._all_rows("%start", count, shares)
        else:
            blocks = code.value(f"udiv i64 {code.value(f'add i64 {count}, {BLOCK - 1}')}, {BLOCK}")
            code.loop(blocks, lambda block: self._block(block, count, shares))
        code.line("ret i64 0")

    def _block(self, block: Index, count: str, shares: Sequence[Memory]) -> None:
        """Numbers of some rows are added up by themselves, so that a long sum is one of short ones."""
        code, partial = self.code, list[Memory]()
        for op, share in zip(self.rows.totals, shares, strict=True):
            if share.spec.shape:
                partial.append(share)
                continue
            dtype = share.spec.dtype
            cell = Memory(cell_of(code, dtype), share.spec)
            first = identity(TOTALS[type(op)][0], dtype)
            code.store(literal(first, dtype), cell.pointer, 0, dtype)
            partial.append(cell)
        done = code.scaled(block, BLOCK)
        left = code.value(f"sub i64 {count}, {done}")
        size = code.call("llvm.smin.i64", "i64", [("i64", left), ("i64", str(BLOCK))])
        self._all_rows(str(code.add("%start", done)), size, partial)
        for op, share, cell in zip(self.rows.totals, shares, partial, strict=True):
            if share is not cell:
                self._combine(op, share, (), code.load(cell.pointer, 0, share.spec.dtype))

    def _all_rows(self, start: str, count: str, shares: Sequence[Memory]) -> None:
        code = self.code
        extents = self.walks[0].shape[1 : self.lead]
        # Else each number waits for the one before.
        is_long = not extents or extents[-1] >= 2 * CHAINED
        chains = CHAINS if is_long and any([not share.spec.shape for share in shares]) else 1

        # The order of a total's parts is that of the rows.
        cut = None if shares or not extents else self._cut()

        def loop(index: tuple[Index, ...], first: Index, width: int) -> None:
            axis = len(index)
            if axis == len(extents) + 1:
                self._row(index, shares)
            elif axis == cut and width > STRIP:
                strips, rest = divmod(width, STRIP)
                code.loop(strips, lambda k: loop(index, code.scaled(k, STRIP), STRIP))
                if rest:
                    loop(index, width - rest, rest)
            elif axis == 0:
                code.loop(
                    count,
                    lambda i: loop((code.add(i, start),), first, width),
                    chains=1 if extents else chains,
                )
            elif axis < len(extents):
                code.loop(extents[axis - 1], lambda i: loop((*index, i), first, width))
            else:
                code.loop(
                    width, lambda i: loop((*index, code.add(i, first)), first, width), chains=chains
                )

        loop((), 0, extents[-1] if extents else 0)

    def _cut(self) -> int | None:
        """The axis outside of whose loop strips of the last axis are taken, so that the lines of arrays that lie across
        are read whole while a cache holds them; None where none lies so.
        """
        near: list[int] = []
        for walk in self.walks:
            steps = [abs(step) for step in walk.strides[: self.lead]]
            if len(steps) == self.lead and steps[-1] >= STRIP and 1 in steps:
                near.append(steps.index(1))
        return min(near, default=None)

    def _row(self, index: tuple[Index, ...], shares: Sequence[Memory]) -> None:
        """One row, all of its results."""
        body, rows = self.body, self.rows
        constants = self.op.bodies[self.op.lead].constants.values()
        count = len(rows.program.input_slots) - len(constants)
        views = [self._view(number, index) for number in range(len(self.walks))]
        inputs = [self._read(view, number) for number, view in enumerate(views[:count])]
        specs = rows.program.input_specs[count:]
        numbers = [body.filled(spec, x.item()) for spec, x in zip(specs, constants, strict=True)]
        outputs = self.emitter.emit(rows.program, [*inputs, *numbers])
        stores = [
            self._storing(view, pointer, y.spec.dtype)
            for y, view, pointer in zip(outputs, views[count:], self.pointers[count:], strict=False)
        ]
        parts = zip(rows.totals, shares, strict=True)
        stores += [partial(self._combine, op, share) for op, share in parts]
        body.write_all(list(zip(outputs, stores, strict=True)), is_dense=False)

    def _storing(self, view: tuple[Index, Walk], pointer: str, dtype: DType) -> Store:
        """The writer of an element of a row."""
        offset, walk = view

        def store(at: tuple[Index, ...], value: Any) -> None:
            self.code.store(value, pointer, self._at(offset, walk, at), dtype)

        return store

    def _combine(self, op: Any, share: Memory, at: tuple[Index, ...], value: Any) -> None:
        code, spec = self.code, share.spec
        offset = code.linear(at, spec.shape)
        old = code.load(share.pointer, offset, spec.dtype)
        combine = _added if _is_in_any_order(op, spec) else TOTALS[type(op)][1]
        value = combine(code, op, spec.dtype, [old, value])
        code.store(value, share.pointer, offset, spec.dtype)

    def _view(self, number: int, index: tuple[Index, ...]) -> tuple[Index, Walk]:
        """Where a row of an array begins, and how it goes on."""
        walk, code = self.walks[number], self.code
        offset: Index = 0
        for i, stride in zip(index, walk.strides, strict=False):  # because numbers have no rows
            offset = code.add(offset, code.scaled(i, stride))
        lead = len(index)
        return offset, Walk(walk.shape[lead:], walk.strides[lead:])

    def _at(self, offset: Index, walk: Walk, index: Sequence[Index]) -> Index:
        for i, stride in zip(index, walk.strides, strict=True):
            offset = self.code.add(offset, self.code.scaled(i, stride))
        return offset

    def _read(self, view: tuple[Index, Walk], number: int) -> Tensor:
        """A row of an operand."""
        offset, walk = view
        spec = self.rows.program.input_specs[number]
        memory = Memory(self.pointers[number], spec)

        def element(index: tuple[Index, ...]) -> Any:
            return self.code.load(memory.pointer, self._at(offset, walk, index), spec.dtype)

        return Tensor(spec, element, frozenset([memory]), is_cheap=True)
