"""Bodies: instruction after instruction, and the loops and choices that hold them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
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
    extension,
    host,
    indexing,
    python_calls,
    reduction,
    source,
    structural,
)
from tenferro.exec.llvm.code import Element, Index
from tenferro.exec.llvm.order import WRITERS, updates_late
from tenferro.exec.llvm.parts import Parts
from tenferro.exec.llvm.rows import Row, Rows, not_compiled
from tenferro.exec.llvm.tensor import SMALL, Body, Memory, Store, Tensor
from tenferro.ops import ALL_OPS, Column
from tenferro.ops.control import Alternatives, Cond, ControlOp, Scan, While
from tenferro.ops.structural import BroadcastInDim
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec

__all__ = ["COMPILED", "ROWS", "Emitter", "row_of_program"]

Prepare = Callable[[GraphProgram], GraphProgram]
MAX_CHAIN = 32
"""Maximum number of ops whose elements are computed inside of each other; the next value lies in memory."""
MAX_NESTING = 16
"""Maximum depth of loops and conditionals inside of each other."""


class Emitter:
    """Writes programs.

    Args:
        prepare: what a body goes through first: the executor's passes.
        repeated: loops that are written once, as functions.
    """

    def __init__(
        self, body: Body, prepare: Prepare, repeated: frozenset[ControlOp] = frozenset()
    ) -> None:
        self.body, self.prepare = body, prepare
        self.nesting = 0
        self.parts = Parts(body, repeated)

    def emit(
        self,
        program: GraphProgram,
        inputs: Sequence[Tensor],
        memories: Sequence[Memory] = (),
    ) -> list[Tensor]:
        """The outputs of a program, lazily where nobody needs them in memory.

        Args:
            memories: where the first outputs go in the end; one that is written element after element goes there at
                once, if nothing reads any more what lies there.

        Raises:
            NotCompiledError: an op that is not compiled, with the user's line.
            UnsupportedError: an extension without a runtime, as well.
        """
        values: dict[int, Tensor] = dict(zip(program.input_slots, inputs, strict=True))
        chains: dict[int, int] = {}
        settled = _settled_slots(program)
        targets = dict(
            zip(reversed(program.output_slots[: len(memories)]), reversed(memories), strict=True)
        )
        for step in updates_late(program):
            dying = set(compress(step.inputs, step.last_use))
            types = [program.types[slot] for slot in step.outputs]
            try:
                if not all([spec.is_static for spec in types]):
                    raise NotCompiledError(f"{step.op.name}: extents that wait are not compiled")
                results = self._write(step, values, types, dying, targets.get(step.outputs[0]))
            except TenferroError as error:
                error.at(str(step.source) if step.source else None)
                raise
            chain = 1 + max([chains.get(slot, 0) for slot in step.inputs], default=0)
            for slot in dying:
                values.pop(slot, None)
            for slot, result in zip(step.outputs, results, strict=True):
                is_lazy = result.memory is None and not result.is_cheap
                is_settled = is_lazy and (slot in settled or not result.spec.shape)
                if is_settled or (result.memory is None and chain > MAX_CHAIN):
                    result = self.body.settled(result)
                elif result.memory is None:
                    chains[slot] = chain
                values[slot] = result
        return [values[slot] for slot in program.output_slots]

    def _write(
        self,
        step: Any,
        values: dict[int, Tensor],
        types: Sequence[TensorSpec],
        dying: set[int],
        target: Memory | None,
    ) -> Sequence[Tensor]:
        op, body = step.op, self.body
        operands = [values[slot] for slot in step.inputs]
        if isinstance(op, Scan | While | Cond):
            with self._nested(op):
                return self._write_control(op, operands, types)
        row: Row = COMPILED[type(op)]
        specs = tuple([x.spec for x in operands])
        is_refused = bool(row.reason_for(op, specs))
        if is_refused and body.host is not None and not getattr(op, "aliases", None):
            of_family = body.host.kernels.row(op, specs)
            if of_family is None:
                return host.call(body, step, operands, types)
            row, op = of_family, op.op
        operands = row.settled(body, operands)
        if isinstance(op, WRITERS):
            self._take(step, values, operands, dying)
        elif target is not None:
            self._aim(target, values, operands, dying)
        results = row.write(body, op, operands, types)
        body.target = None
        return results

    @contextmanager
    def _nested(self, op: ControlOp) -> Generator[None]:
        if self.nesting == MAX_NESTING:
            raise NotCompiledError(f"{op.name}: nesting deeper than {MAX_NESTING} is not compiled")
        self.nesting += 1
        yield
        self.nesting -= 1

    def _write_control(
        self, op: Scan | While | Cond, operands: Sequence[Tensor], types: Sequence[TensorSpec]
    ) -> Sequence[Tensor]:
        if isinstance(op, Cond):
            return self.cond(op, operands, types)
        results = self.parts.call(op, operands, types, self._loop)
        return self._loop(op, operands) if results is None else results

    def _aim(
        self, target: Memory, values: dict[int, Tensor], operands: list[Tensor], dying: set[int]
    ) -> None:
        """Let the op write its result where it goes in the end, if at most a few numbers are still read from there."""
        body = self.body
        if any([slot not in dying and target in x.reads for slot, x in values.items()]):
            return
        readers = [position for position, x in enumerate(operands) if target in x.reads]
        if all([operands[position].spec.size <= SMALL for position in readers]):
            for position in readers:
                operands[position] = body.copied(operands[position])
            body.target = target

    def _take(
        self, step: Any, values: dict[int, Tensor], operands: list[Tensor], dying: set[int]
    ) -> None:
        """Let the op write into its first operand's memory, if that dies and nothing that stays reads it."""
        body, slot = self.body, step.inputs[0]
        memory = operands[0].memory
        if memory is None or memory not in body.writable or slot not in dying:
            return
        for live_slot, x in list(values.items()):
            if live_slot not in dying and memory in x.reads:
                values[live_slot] = body.copied(x) if x.spec.shape else body.settled(x)
        for position, x in enumerate(operands[1:], 1):
            if memory in x.reads:
                operands[position] = body.copied(x) if x.spec.shape else body.settled(x)
        body.taken = memory

    # ---- loops and choices -------------------------------------------------------------------------

    def emitted_over(
        self, memories: Sequence[Memory], program: GraphProgram, inputs: Sequence[Tensor]
    ) -> list[Tensor]:
        """The outputs of a body, which may overwrite its carry and its own values, but nothing around it."""
        around, self.body.writable = self.body.writable, set(memories)
        outputs = self.emit(self.prepare(program), inputs, memories)
        self.body.writable |= around
        return outputs

    def carried(self, inits: Sequence[Tensor]) -> list[Memory]:
        """Memory of a carry, with its first values."""
        memories = [self.body.memory(x.spec) for x in inits]
        for x, memory in zip(inits, memories, strict=True):
            self.body.write(x, memory)
        return memories

    def handed_on(
        self,
        outputs: Sequence[Tensor],
        memories: Sequence[Memory],
        others: Sequence[tuple[Tensor, Store]] = (),
        is_dense: bool = True,
    ) -> None:
        """The next carry into its memory, after the last reader of the one before, and a turn's other results.

        Args:
            others: values that are no carry, with what stores their elements.
            is_dense: whether they may be stored by the numbers of their elements.
        """
        body = self.body
        pairs = [
            (x, memory)
            for x, memory in zip(outputs, memories, strict=True)
            if x.memory is not memory
        ]
        written = {memory for _, memory in pairs}

        def reads_others(x: Tensor) -> bool:
            """Whether an element depends on elements of another place, or of another time."""
            beside = {memory for memory in x.aligned if memory.spec.shape == x.spec.shape}
            return bool((written & x.reads) - beside)

        together: list[tuple[Tensor, Store]] = []
        copies: list[tuple[Tensor, Store]] = []

        def add(x: Tensor, store: Store) -> None:
            is_copy = x.memory is not None and x.memory not in written
            (copies if is_copy else together).append((x, store))

        for x, store in others:
            if reads_others(x):
                body.write_all([(x, store)], is_dense)
            else:
                add(x, store)
        for x, memory in pairs:
            if x.spec.shape and reads_others(x):
                x = body.copied(x)
            add(x if x.spec.shape else body.settled(x), body.storing(memory))
        body.write_all(together, is_dense)
        for x, store in copies:
            body.write_all([(x, store)], is_dense)

    def turn(
        self,
        op: Scan,
        t: Index,
        consts: Sequence[Tensor],
        memories: Sequence[Memory],
        xs: Sequence[Tensor],
        stacks: Sequence[Memory],
        is_dense: bool = True,
    ) -> None:
        """One turn of a scan.

        Args:
            is_dense: whether stacked values may be stored by the numbers of their elements.
        """
        code = self.body.code
        slices = [self._slice(x, t) for x in xs]
        carry = [self.body.read(memory) for memory in memories]
        outputs = self.emitted_over(memories, op.body.program, [*consts, *carry, *slices])

        def stacking(stack: Memory) -> Store:
            shape, dtype = stack.spec.shape[1:], stack.spec.dtype

            def store(index: tuple[Index, ...], value: Element) -> None:
                offset = code.add(code.scaled(t, prod(shape)), code.linear(index, shape))
                code.store(value, stack.pointer, offset, dtype)

            return store

        count = len(memories)
        stacked = [(y, stacking(stack)) for y, stack in zip(outputs[count:], stacks, strict=True)]
        self.handed_on(outputs[:count], memories, stacked, is_dense)

    def _slice(self, x: Tensor, t: Index) -> Tensor:
        spec = TensorSpec.of(x.spec.shape[1:], x.spec.dtype)
        return Tensor(
            spec, lambda index: self.body.at(x, (t, *index)), x.reads, is_cheap=x.is_cheap
        )

    def _loop(self, op: Scan | While, operands: Sequence[Tensor]) -> list[Tensor]:
        """A loop inside of a body."""
        return self.scan(op, operands) if isinstance(op, Scan) else self.while_(op, operands)

    def scan(self, op: Scan, operands: Sequence[Tensor]) -> list[Tensor]:
        """A scan inside of a body."""
        n, first, body, code = op.num_consts, op.first_xs, self.body, self.body.code
        ready = [x if x.is_cheap else body.settled(x) for x in operands]
        memories = self.carried(ready[n:first])
        types = [
            TensorSpec.of((op.length, *spec.shape), spec.dtype)
            for spec in op.body.output_specs[op.num_carry :]
        ]
        stacks = [body.memory(spec) for spec in types]

        def one(i: Index) -> None:
            t = code.add(code.scaled(i, -1), op.length - 1) if op.reverse else i
            with code.scope():
                self.turn(op, t, ready[:n], memories, ready[first:], stacks)

        python_calls.turns(code, op.length, one)
        return [body.stored(memory) for memory in (*memories, *stacks)]

    def goes_on(self, op: While, consts: Sequence[Tensor], memories: Sequence[Memory]) -> str:
        """The condition of a while loop."""
        carry = [self.body.read(memory) for memory in memories]
        (more,) = self.emitted_over((), op.cond.program, [*consts, *carry])
        return self.body.at(more)

    def step(self, op: While, consts: Sequence[Tensor], memories: Sequence[Memory]) -> None:
        """The body of a while loop."""
        carry = [self.body.read(memory) for memory in memories]
        outputs = self.emitted_over(memories, op.body.program, [*consts, *carry])
        self.handed_on(outputs, memories)

    def while_(self, op: While, operands: Sequence[Tensor]) -> list[Tensor]:
        """A while loop inside of a body."""
        body, n = self.body, op.num_consts
        ready = [x if x.is_cheap else body.settled(x) for x in operands]
        memories = self.carried(ready[n:])
        python_calls.repeat(
            body.code,
            lambda: self.goes_on(op, ready[:n], memories),
            lambda: self.step(op, ready[:n], memories),
        )
        return [body.stored(memory) for memory in memories]

    def cond(
        self, op: Cond, operands: Sequence[Tensor], types: Sequence[TensorSpec]
    ) -> list[Tensor]:
        """A choice: each branch writes the results where they are looked for."""
        body, code = self.body, self.body.code
        index, *rest = operands
        ready = [x if x.is_cheap else body.settled(x) for x in rest]
        memories = [body.memory(spec) for spec in types]
        chosen = body.at(index)
        kind = "i1" if index.spec.dtype.is_bool else "i32"

        def branch(first: int, last: int) -> None:
            """Choose by halves; without a sign, whatever is no branch's number is larger, and the last one's."""
            if first == last:
                write(first)
                return
            middle = (first + last + 1) // 2
            name = "true" if kind == "i1" else str(middle)
            is_below = code.value(f"icmp ult {kind} {chosen}, {name}")
            code.branch(is_below, lambda: branch(first, middle - 1), lambda: branch(middle, last))

        def write(number: int) -> None:
            outputs = self.emitted_over((), op.branches[number].program, ready)
            stores = map(body.storing, memories)
            body.write_all(list(zip(outputs, stores, strict=True)))

        branch(0, len(op.branches) - 1)
        return [body.stored(memory) for memory in memories]


def row_of_program(program: GraphProgram) -> Row:
    """An op as the instructions of a program."""

    def write(
        body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
    ) -> Sequence[Tensor]:
        return Emitter(body, lambda each: each).emit(program, operands)

    return Row(write, moves=True, settles=True)


def _settled_slots(program: GraphProgram) -> set[int]:
    """Slots with elements that are read more than once and not cheap to compute again."""
    readers: dict[int, list[tuple[int, int]]] = {}
    for number, step in enumerate(program.instructions):
        for position, slot in enumerate(step.inputs):
            readers.setdefault(slot, []).append((number, position))
    outputs = set(program.output_slots)
    settled: set[int] = set()
    roots: dict[int, set[int]] = {}
    for number, step in reversed(list(enumerate(program.instructions))):
        for slot in step.outputs:
            sources = {-1} if slot in outputs else set[int]()
            moves = False
            for reader, position in readers.get(slot, []):
                user = program.instructions[reader]
                row = None if isinstance(user.op, Scan | While | Cond) else COMPILED[type(user.op)]
                if row is None or row.must_settle(position):
                    settled.add(slot)
                    continue
                y = user.outputs[0]
                grows = isinstance(user.op, BroadcastInDim) and (
                    program.types[y].size > program.types[slot].size
                )
                if grows:
                    settled.add(slot)
                moves |= row.moves
                sources |= {reader} if row.moves or y in settled else roots[y]
            if len(sources) > 1 or (moves and len(readers.get(slot, [])) > 1):
                settled.add(slot)
            roots[slot] = sources or {number}
    return settled


_INSIDE = not_compiled("only loops are compiled, and what is inside of them")
ROWS: Rows = {Alternatives: _INSIDE, Cond: _INSIDE, Scan: _INSIDE, While: _INSIDE}
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
    extension.ROWS,
)
