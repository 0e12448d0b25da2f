"""Lowering of programs to LLVM IR, with their loops and conditionals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from math import prod
from typing import Any

from tenferro.errors import TenferroError
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import (
    analytic,
    contraction,
    dynamic,
    elementwise,
    indexing,
    python_calls,
    reduction,
    source,
    structural,
)
from tenferro.exec.llvm.code import Element, Index
from tenferro.exec.llvm.rows import Row, Rows, not_compiled
from tenferro.exec.llvm.tensor import (
    MAX_ALLOCA_ELEMENTS,
    Body,
    Memory,
    Specs,
    Store,
    Tensor,
    Tensors,
)
from tenferro.exec.llvm.update_order import UPDATE_OPS, delay_updates
from tenferro.ops import ALL_OPS, Column
from tenferro.ops.control import Alternatives, Cond, Scan, While
from tenferro.ops.extension import Extension
from tenferro.ops.structural import BroadcastInDim
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec

__all__ = ["COMPILED", "ROWS", "Emitter", "row_of_program"]

MAX_CHAIN = 32
"""Maximum number of ops in a chain of fused ops."""
MAX_NESTING = 16
"""Maximum nesting depth of loops and conditionals."""


class Emitter:
    """Writer of programs into the body of a function.

    Attributes:
        nesting: the number of loops and conditionals that enclose the current instruction.
    """

    def __init__(self, body: Body) -> None:
        self.body = body
        self.nesting = 0

    def emit(
        self, program: GraphProgram, inputs: Sequence[Tensor], memories: Sequence[Memory] = ()
    ) -> list[Tensor]:
        """Write the instructions of a program, and return its outputs.

        An output is lazy, that is, an expression of its index, unless an op reads or writes it in memory.

        Args:
            memories: the memory for each of the first outputs. An op writes its result there directly, unless a later
                instruction reads the previous contents.

        Raises:
            NotCompiledError: an op is not compiled; the error names the user's line.
            UnsupportedError: an extension has no runtime.
        """
        # The memory of an input that nothing reads may be overwritten.
        read = {slot for step in program.instructions for slot in step.inputs}
        pairs = zip(program.input_slots, inputs, strict=True)
        values = {slot: x for slot, x in pairs if slot in read or slot in program.output_slots}
        chains: dict[int, int] = {}
        materialised = _materialised_slots(program)
        targets = dict(
            zip(reversed(program.output_slots[: len(memories)]), reversed(memories), strict=True)
        )
        for step in delay_updates(program):
            last_used = set(compress(step.inputs, step.last_use))
            types = [program.types[slot] for slot in step.outputs]
            try:
                if not all([spec.is_static for spec in types]):
                    raise NotCompiledError(f"{step.op.name}: dynamic extents are not compiled")
                results = self._write(step, values, types, last_used, targets.get(step.outputs[0]))
            except TenferroError as error:
                error.at(step.source)
                raise
            chain = 1 + max([chains.get(slot, 0) for slot in step.inputs], default=0)
            for slot in last_used:
                values.pop(slot, None)
            for slot, result in zip(step.outputs, results, strict=True):
                is_lazy = result.memory is None and not result.is_cheap
                is_materialised = is_lazy and (slot in materialised or not result.spec.shape)
                if is_materialised or (result.memory is None and chain > MAX_CHAIN):
                    result = self.body.materialised(result)
                elif result.memory is None:
                    chains[slot] = chain
                values[slot] = result
        return [values[slot] for slot in program.output_slots]

    def _write(
        self,
        step: Any,
        values: dict[int, Tensor],
        types: Specs,
        last_used: set[int],
        target: Memory | None,
    ) -> Tensors:
        op, body = step.op, self.body
        operands = [values[slot] for slot in step.inputs]
        row = COMPILED.cell(op)
        if row is _INSIDE:
            return self._write_control(op, operands, types)
        specs = tuple([x.spec for x in operands])
        reason = row.reason_for(op, specs)
        if reason:
            extension_row = None if body.kernels is None else body.kernels.row(op, specs)
            if extension_row is None:
                raise NotCompiledError(f"{op.name}: {reason}")
            row, op = extension_row, op.op
        operands = row.materialised(body, operands)
        if isinstance(op, UPDATE_OPS):
            self._reuse_operand(step, values, operands, last_used)
        elif target is not None:
            self._set_target(target, values, operands, last_used)
        results = row.write(body, op, operands, types)
        body.target = None
        return results

    def _write_control(self, op: Scan | While | Cond, operands: Tensors, types: Specs) -> Tensors:
        if self.nesting == MAX_NESTING:
            raise NotCompiledError(f"{op.name}: nesting deeper than {MAX_NESTING} is not compiled")
        self.nesting += 1
        if isinstance(op, Cond):
            results = self.cond(op, operands, types)
        else:
            results = self.scan(op, operands) if isinstance(op, Scan) else self.while_(op, operands)
        self.nesting -= 1
        return results

    def _set_target(
        self, target: Memory, values: dict[int, Tensor], operands: list[Tensor], last_used: set[int]
    ) -> None:
        """Let the op write its result to `target` if no other value is read from there later.

        Operands that are read from `target` are copied first; if one of them is large, the op writes to new memory.
        """
        body = self.body
        if any([slot not in last_used and target in x.reads for slot, x in values.items()]):
            return
        readers = [position for position, x in enumerate(operands) if target in x.reads]
        if all([operands[position].spec.size <= MAX_ALLOCA_ELEMENTS for position in readers]):
            for position in readers:
                operands[position] = body.copied(operands[position])
            body.target = target

    def _reuse_operand(
        self, step: Any, values: dict[int, Tensor], operands: list[Tensor], last_used: set[int]
    ) -> None:
        """Let the op update its first operand in place at the operand's last use.

        Other values that are read from the same memory are copied first.
        """
        body, slot = self.body, step.inputs[0]
        memory = operands[0].memory
        if memory is None or memory not in body.writable or slot not in last_used:
            return
        for live_slot, x in list(values.items()):
            if live_slot not in last_used and memory in x.reads:
                values[live_slot] = body.copied(x) if x.spec.shape else body.materialised(x)
        for position, x in enumerate(operands[1:], 1):
            if memory in x.reads:
                operands[position] = body.copied(x) if x.spec.shape else body.materialised(x)
        body.reusable = memory

    # ---- loops and conditionals --------------------------------------------------------------------

    def emit_body(
        self, memories: Sequence[Memory], program: GraphProgram, inputs: Sequence[Tensor]
    ) -> list[Tensor]:
        """Write the body of a loop or a branch, and return its outputs.

        Ops may update in place only the carry, which is in `memories`, and values that the body computes.
        """
        outer, self.body.writable = self.body.writable, set(memories)
        outputs = self.emit(program, inputs, memories)
        self.body.writable |= outer
        return outputs

    def init_carry(self, inits: Sequence[Tensor]) -> list[Memory]:
        """Allocate the memory of a carry, and write the initial values."""
        memories = [self.body.memory(x.spec) for x in inits]
        for x, memory in zip(inits, memories, strict=True):
            self.body.write(x, memory)
        return memories

    def store_carry(
        self,
        outputs: Sequence[Tensor],
        memories: Sequence[Memory],
        stacked: Sequence[tuple[Tensor, Store]] = (),
    ) -> None:
        """Write stores of an iteration's outputs, so that no element of the carry is overwritten before it is read.

        Args:
            outputs: the next carry.
            memories: the memory of the carry.
            stacked: the other outputs, with functions that write stores of their elements.
        """
        body = self.body
        pairs = [
            (x, memory)
            for x, memory in zip(outputs, memories, strict=True)
            if x.memory is not memory
        ]
        written = {memory for _, memory in pairs}

        def has_hazard(x: Tensor) -> bool:
            """Return whether an element of x may depend on elements of the carry at other indices."""
            elementwise = {memory for memory in x.aligned if memory.spec.shape == x.spec.shape}
            return bool((written & x.reads) - elementwise)

        fused: list[tuple[Tensor, Store]] = []
        copies: list[tuple[Tensor, Store]] = []

        def add(x: Tensor, store: Store) -> None:
            is_copy = x.memory is not None and x.memory not in written
            (copies if is_copy else fused).append((x, store))

        for x, store in stacked:
            if has_hazard(x):
                body.write_all([(x, store)])
            else:
                add(x, store)
        for x, memory in pairs:
            if x.spec.shape and has_hazard(x):
                x = body.copied(x)
            add(x if x.spec.shape else body.materialised(x), body.storing(memory))
        body.write_all(fused)
        for x, store in copies:
            body.write_all([(x, store)])

    def iterate(
        self,
        op: Scan,
        consts: Sequence[Tensor],
        memories: Sequence[Memory],
        xs: Sequence[Tensor],
        stacks: Sequence[Memory],
    ) -> None:
        body, code, count = self.body, self.body.code, len(memories)

        def slice_of(x: Tensor, t: Index) -> Tensor:
            spec = TensorSpec.of(x.spec.shape[1:], x.spec.dtype)
            return Tensor(spec, lambda i: body.at(x, (t, *i)), x.reads, is_cheap=x.is_cheap)

        def stacking(stack: Memory, t: Index) -> Store:
            shape, dtype = stack.spec.shape[1:], stack.spec.dtype

            def store(index: tuple[Index, ...], value: Element) -> None:
                offset = code.add(code.scaled(t, prod(shape)), code.ravel_index(index, shape))
                code.store(value, stack.pointer, offset, dtype)

            return store

        def iteration(i: Index) -> None:
            t = code.add(code.scaled(i, -1), op.length - 1) if op.reverse else i
            with code.scope(), code.repeated():
                inputs = [*consts, *map(body.read, memories), *[slice_of(x, t) for x in xs]]
                outputs = self.emit_body(memories, op.body.program, inputs)
                stores = [stacking(stack, t) for stack in stacks]
                stacked = list(zip(outputs[count:], stores, strict=True))
                self.store_carry(outputs[:count], memories, stacked)

        python_calls.counted_loop(code, op.length, iteration)

    def scan(self, op: Scan, operands: Tensors) -> list[Tensor]:
        """Write a scan inside a compiled program, and return its results."""
        n, first, body = op.num_consts, op.first_xs, self.body
        ready = [x if x.is_cheap else body.materialised(x) for x in operands]
        memories = self.init_carry(ready[n:first])
        types = [
            TensorSpec.of((op.length, *spec.shape), spec.dtype)
            for spec in op.body.output_specs[op.num_carry :]
        ]
        stacks = [body.memory(spec) for spec in types]
        self.iterate(op, ready[:n], memories, ready[first:], stacks)
        return [body.stored(memory) for memory in (*memories, *stacks)]

    def repeat(self, op: While, consts: Sequence[Tensor], memories: Sequence[Memory]) -> None:
        read, code = self.body.read, self.body.code

        def condition() -> str:
            (more,) = self.emit_body((), op.cond.program, [*consts, *map(read, memories)])
            return self.body.at(more)

        def body() -> None:
            with code.repeated():
                inputs = [*consts, *map(read, memories)]
                self.store_carry(self.emit_body(memories, op.body.program, inputs), memories)

        python_calls.while_loop(code, condition, body)

    def while_(self, op: While, operands: Tensors) -> list[Tensor]:
        """Write a while loop inside a compiled program, and return its results."""
        body, n = self.body, op.num_consts
        ready = [x if x.is_cheap else body.materialised(x) for x in operands]
        memories = self.init_carry(ready[n:])
        self.repeat(op, ready[:n], memories)
        return [body.stored(memory) for memory in memories]

    def cond(self, op: Cond, operands: Tensors, types: Specs) -> list[Tensor]:
        """Write a conditional, and return its results; each branch stores its results in the same memory."""
        body, code = self.body, self.body.code
        index, *rest = operands
        ready = [x if x.is_cheap else body.materialised(x) for x in rest]
        memories = [body.memory(spec) for spec in types]
        chosen = body.at(index)

        def branch(first: int, last: int) -> None:
            """Write a binary search for the branch, from `first` to `last`.

            Indices are compared as unsigned integers, so a negative index chooses the last branch, as a too large
            index does.
            """
            if first == last:
                write(first)
                return
            middle = (first + last + 1) // 2
            limit = "true" if index.spec.dtype.is_bool else middle
            is_below = code.icmp("ult", chosen, limit)
            code.branch(is_below, lambda: branch(first, middle - 1), lambda: branch(middle, last))

        def write(number: int) -> None:
            outputs = self.emit_body((), op.branches[number].program, ready)
            stores = map(body.storing, memories)
            body.write_all(list(zip(outputs, stores, strict=True)))

        branch(0, len(op.branches) - 1)
        return [body.stored(memory) for memory in memories]


def row_of_program(program: GraphProgram) -> Row:
    """Return the lowering that writes the instructions of a program."""

    def write(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
        return Emitter(body).emit(program, operands)

    return Row(write, moves=True, materialises=True)


def _materialised_slots(program: GraphProgram) -> set[int]:
    """Return the slots whose values are written to memory, because elements would be computed more than once.

    Several ops read these elements, or an op reads them more than once, or an op requires its operands in memory.
    """
    readers: dict[int, list[tuple[int, int]]] = {}
    for number, step in enumerate(program.instructions):
        for position, slot in enumerate(step.inputs):
            readers.setdefault(slot, []).append((number, position))
    outputs = set(program.output_slots)
    materialised: set[int] = set()
    roots: dict[int, set[int]] = {}
    for number, step in reversed(list(enumerate(program.instructions))):
        for slot in step.outputs:
            sources = {-1} if slot in outputs else set[int]()
            moves = False
            for reader, position in readers.get(slot, []):
                user = program.instructions[reader]
                row = COMPILED.cell(user.op)
                if row is _INSIDE or row.must_materialise(position):
                    materialised.add(slot)
                    continue
                y = user.outputs[0]
                broadcasts = isinstance(user.op, BroadcastInDim) and (
                    program.types[y].size > program.types[slot].size
                )
                if broadcasts:
                    materialised.add(slot)
                moves |= row.moves
                sources |= {reader} if row.moves or y in materialised else roots[y]
            if len(sources) > 1 or (moves and len(readers.get(slot, [])) > 1):
                materialised.add(slot)
            roots[slot] = sources or {number}
    return materialised


_INSIDE = not_compiled("only loops and their bodies are compiled")
ROWS: Rows = {
    **dict.fromkeys((Alternatives, Cond, Scan, While), _INSIDE),
    Extension: not_compiled("extensions are not compiled"),
}
COMPILED: Column[Row] = Column(
    "compiled",
    "tenferro/exec/llvm",
    ALL_OPS,
    source.ROWS,
    elementwise.ROWS,
    analytic.ROWS,
    structural.ROWS,
    reduction.ROWS,
    contraction.ROWS,
    indexing.ROWS,
    dynamic.ROWS,
    ROWS,
)
