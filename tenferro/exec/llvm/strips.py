"""Strips: scans that act on each leading index by itself take all turns on a few indices after the other.

A scan over long arrays reads and writes its carry in every turn. Where what becomes of an index of the leading axis
does not depend on the others, all turns on a strip of indices go before the next strip: its carry stays in the
first-level cache, and the executor's threads have strips of their own. The bits are those of the whole scan.

Indices that fill no strip are not worth a text of their own: the last strip begins earlier, and computes again what
the one before has computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from tenferro.exec.llvm import python_calls
from tenferro.exec.llvm.code import Index, NotCompiledError
from tenferro.exec.llvm.control import Emitter
from tenferro.exec.llvm.host import Kernels
from tenferro.exec.llvm.link import Linker, Processor
from tenferro.exec.llvm.places import results_in
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.graph import Graph
from tenferro.ops import StdTensorOp, analytic, elementwise
from tenferro.ops import reduction as re
from tenferro.ops import structural as st
from tenferro.ops.control import ControlOp, Scan
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram, Subprogram
from tenferro.types import TensorSpec

__all__ = ["StripLoop", "Strips", "strips_of"]

Prepare = Callable[[GraphProgram], GraphProgram]
SAME_PLACE = frozenset((*elementwise.CARDS, *analytic.CARDS))
REDUCTIONS = (
    re.ReduceSum, re.ReduceProd, re.ReduceMax, re.ReduceMin, re.ReduceAnd, re.ReduceOr,
)  # fmt: skip
STRIP_BYTES = 1 << 14
"""Of a strip's carry and constants, which every turn reads: half of a small first-level cache."""
LEAST_BYTES = 1 << 16
"""Of the carry and constants of a loop from which strips pay: more than the first-level cache holds."""
LEAST_WIDTH = 64
"""Indices of a strip, so that loops along it fill vectors."""
FEWEST_TURNS = 4
MOST_WORK = 10 * python_calls.PART
"""Instructions of a strip, by estimate: an interrupted caller waits for the strips of the other threads."""


@dataclass(frozen=True)
class Strips:
    """A scan as one of strips.

    Attributes:
        op: the scan on one strip.
        extent: indices in all.
        width: indices of a strip.
        inputs: for each operand whether it is cut, xs along their second axis.
        outputs: the same for results.
    """

    op: Scan
    extent: int
    width: int
    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return -(-self.extent // self.width)

    def start(self, number: int) -> int:
        """The first index of a strip."""
        return min(number * self.width, self.extent - self.width)


@dataclass(frozen=True)
class StripText:
    """The text of a strip.

    Attributes:
        text: of a function of operands, results, constants and scratch, and of the first index.
        pointers: how many the function takes.
        constants: large ones.
        scratch: bytes.
        work: instructions that run by estimate.
    """

    text: str
    pointers: int
    constants: Sequence[Any]
    scratch: int
    work: int


def strips_of(op: Scan, inputs: Sequence[TensorSpec], prepare: Prepare) -> Strips | None:
    """The scan in strips; None where indices depend on each other, or where it would not pay."""
    if not isinstance(op.length, int) or op.length < FEWEST_TURNS or op.has_effects:
        return None
    carry = [spec for spec in inputs[op.num_consts : op.first_xs] if spec.rank]
    if not carry:
        return None
    extent = max(carry, key=lambda spec: spec.size).shape[0]
    slices = [*inputs[: op.first_xs], *[_sliced(spec) for spec in inputs[op.first_xs :]]]
    are_cut = [spec.rank > 0 and spec.shape[0] == extent for spec in slices]
    kept = [spec for spec, is_cut in zip(slices[: op.first_xs], are_cut, strict=False) if is_cut]
    size = sum([spec.nbytes for spec in kept])
    if size < LEAST_BYTES:
        return None
    width = STRIP_BYTES * extent // size // LEAST_WIDTH * LEAST_WIDTH
    if width < LEAST_WIDTH or 2 * width > extent:
        return None
    body = _cut(prepare(op.body.program), are_cut, extent, width)
    if body is None:
        return None
    part, outputs = body
    if outputs[: op.num_carry] != tuple(are_cut[op.num_consts : op.first_xs]):
        return None
    return Strips(op.with_parts(part), extent, width, tuple(are_cut), outputs)


def _sliced(spec: TensorSpec) -> TensorSpec:
    return TensorSpec.of(spec.shape[1:], spec.dtype)


def _cut(
    program: GraphProgram, are_cut: Sequence[bool], extent: int, width: int
) -> tuple[Subprogram, tuple[bool, ...]] | None:
    """The body on a strip, and which of its outputs are strips; None where an op reaches across."""
    graph, values, strips, again = Graph(), dict[int, int](), set[int](), 0
    for slot, is_cut in zip(program.input_slots, are_cut, strict=True):
        values[slot] = graph.add_input(_strip(program.types[slot], width, is_cut))
        if is_cut:
            strips.add(slot)
    inputs = list(values.values())
    for op, operands, results, _, line in program.instructions:
        types = [program.types[slot] for slot in (*operands, *results)]
        cut = [slot in strips for slot in operands]
        y = types[-1]
        if isinstance(op, ControlOp) or not all([spec.is_static for spec in types]):
            return None
        if any(cut) or (y.rank and y.shape[0] == extent):
            strip = _op_of_strip(op, types, cut, width)
            if strip is None:
                return None
            op = strip
            strips.update(results)
        else:
            again += y.size
        outputs = graph.add(op, tuple([values[slot] for slot in operands]), line)
        values.update(zip(results, outputs, strict=True))
    if again > width:  # elements that each strip would compute anew
        return None
    part = Subprogram.of(graph, inputs, [values[slot] for slot in program.output_slots])
    return part, tuple([slot in strips for slot in program.output_slots])


def _op_of_strip(
    op: StdTensorOp, types: Sequence[TensorSpec], cut: Sequence[bool], width: int
) -> StdTensorOp | None:
    """The op on a strip of the operands that are cut, with a strip as its result; None where it is another."""
    *operands, y = types
    shape = (width, *y.shape[1:])
    if type(op) in SAME_PLACE:
        fits = [is_cut or not x.rank for x, is_cut in zip(operands, cut, strict=True)]
        same = [x.shape == y.shape for x in operands if x.rank]
        return op if all([*fits, *same]) else None
    if isinstance(op, Constant):
        array = op.array
        is_filled = bool((array.view(np.uint8).reshape(array.size, -1) == _bytes_of(array)).all())
        return Constant.of(np.broadcast_to(array.flat[0], shape)) if is_filled else None
    if isinstance(op, st.BroadcastInDim):
        repeats = 0 not in op.dims
        return st.BroadcastInDim(shape, op.dims) if cut[0] != repeats else None
    if not all(cut) and not isinstance(op, st.Pad):
        return None
    if not y.rank or y.shape[0] != operands[0].shape[0] or not cut[0]:
        return None
    if isinstance(op, st.Reshape):
        return st.Reshape(shape)
    if isinstance(op, REDUCTIONS):
        return op if 0 not in op.axes else None
    if isinstance(op, st.Slice):
        return replace(op, limits=(width, *op.limits[1:])) if op.strides[0] == 1 else None
    if isinstance(op, st.Concatenate):
        return op if op.axis else None
    if isinstance(op, st.Reverse):
        return op if 0 not in op.axes else None
    if isinstance(op, st.Transpose):
        return op if op.perm[0] == 0 else None
    if isinstance(op, st.Pad):
        is_whole = (op.low[0], op.high[0], op.interior[0], cut[1]) == (0, 0, 0, False)
        return op if is_whole else None
    return None


def _bytes_of(array: Any) -> Any:
    """Of the first element."""
    return np.frombuffer(array.reshape(-1)[:1].tobytes(), np.uint8)


def _strip(spec: TensorSpec, width: int, is_cut: bool) -> TensorSpec:
    return TensorSpec.of((width, *spec.shape[1:]), spec.dtype) if is_cut else spec


def _written(
    strips: Strips, inputs: Sequence[TensorSpec], prepare: Prepare, processor: Processor
) -> StripText:
    """The text of a strip.

    Raises:
        NotCompiledError: an op that is not compiled, or more work than others should wait for.
    """
    op, code = strips.op, processor.code()
    body = Body(code)
    emitter = Emitter(body, prepare)
    names = [f"%a{number}" for number in range(len(inputs))]
    results = [f"%y{number}" for number in range(len(strips.outputs))]
    operands = list(zip(names, inputs, strips.inputs, strict=True))

    def begin(name: str, spec: TensorSpec, is_cut: bool, of_turn: int = 0) -> Memory:
        """Where the strip begins, in the memory of the whole, or of the first turn's."""
        if not is_cut:
            return Memory(name, spec)
        row = prod(spec.shape[of_turn + 1 :]) * (2 if spec.dtype.is_complex else 1)
        return Memory(code.address(name, code.scaled("%start", row), spec.dtype), spec)

    def strip(memory: Memory, is_cut: bool) -> Memory:
        return Memory(memory.pointer, _strip(memory.spec, strips.width, is_cut))

    def along_turns(memory: Memory, is_cut: bool) -> Tensor:
        spec, dtype = memory.spec, memory.spec.dtype
        if not is_cut:
            return body.stored(memory)

        def element(index: tuple[Index, ...]) -> Any:
            return code.load(memory.pointer, code.linear(index, spec.shape), dtype)

        shape = (spec.shape[0], strips.width, *spec.shape[2:])
        return Tensor(TensorSpec.of(shape, dtype), element, frozenset([memory]), is_cheap=True)

    consts = [
        emitter.read(strip(begin(*operand), operand[2])) for operand in operands[: op.num_consts]
    ]
    inits = [
        strip(begin(*operand), operand[2]) for operand in operands[op.num_consts : op.first_xs]
    ]
    held = emitter.carried([body.stored(memory) for memory in inits])
    xs = [
        along_turns(begin(*operand, of_turn=1), operand[2]) for operand in operands[op.first_xs :]
    ]
    specs = _whole_outputs(strips, inputs)
    ends = [
        begin(name, spec, is_cut, of_turn=int(number >= op.num_carry))
        for number, (name, spec, is_cut) in enumerate(
            zip(results, specs, strips.outputs, strict=True)
        )
    ]

    def one(i: Any) -> None:
        t = code.add(code.scaled(i, -1), op.length - 1) if op.reverse else i
        emitter.turn(op, t, consts, held, xs, ends[op.num_carry :])

    python_calls.turns(code, op.length, one)
    if code.work > MOST_WORK:
        raise NotCompiledError(f"{op.name}: a strip takes {code.work} instructions")
    for own, end, is_cut in zip(held, ends, strips.outputs, strict=False):
        body.write(body.stored(own), strip(end, is_cut))
    code.line("ret i64 0")
    every = [*names, *results, *[name for name, _ in body.constants], "%scratch"]
    text = code.text("loop", every, ["%start"], is_internal=True)
    text += python_calls.entry(code, every, ["%start"]) + code.late_text()
    constants = [array for _, array in body.constants]
    return StripText(text, len(every), constants, body.scratch_bytes, code.work)


def _whole_outputs(strips: Strips, inputs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """The types of the results of the whole scan."""
    op = strips.op
    stacks = [
        TensorSpec.of(
            (op.length, strips.extent, *spec.shape[1:]) if is_cut else (op.length, *spec.shape),
            spec.dtype,
        )
        for spec, is_cut in zip(
            op.body.output_specs[op.num_carry :], strips.outputs[op.num_carry :], strict=True
        )
    ]
    return [*inputs[op.num_consts : op.first_xs], *stacks]


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
    ) -> None:
        self.strips, self.linker, self.resources = strips, linker, kernels.resources
        self.written = _written(strips, inputs, prepare, linker.processor)
        self.outputs = _whole_outputs(strips, inputs)
        self._function: Callable[..., int] | None = None

    @property
    def text(self) -> str:
        """What LLVM compiles."""
        return self.written.text

    @property
    def remark(self) -> str:
        """What is printed beside the loop."""
        return f"compiled in {self.strips.count} strips of {self.strips.width}"

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        """The last carry, then the stacked outputs of the iterations.

        Args:
            into: for each result the bytes that it is written to, or None for memory of its own.
        """
        operands = [np.ascontiguousarray(x) for x in arrays]
        results = results_in(self.outputs, into)
        addresses = [x.ctypes.data for x in (*operands, *results, *self.written.constants)]
        function = self._function or self._first_function()
        memory, strips, stop = self.resources.memory, self.strips, threading.Event()

        def take(first: int, last: int) -> None:
            with memory.scratch([self.written.scratch]) as (scratch,):
                pointers = (*addresses, scratch.ctypes.data)
                try:
                    for number in range(first, last):
                        if stop.is_set():
                            return
                        function(*pointers, strips.start(number))
                except BaseException:
                    stop.set()
                    raise

        self.resources.workers.share(take, strips.count)
        return results[0] if len(results) == 1 else tuple(results)

    def _first_function(self) -> Callable[..., int]:
        """One for this call only, where that pays, or the one that is kept."""
        text, pointers, work = self.text, self.written.pointers, self.written.work
        function = self.linker.function_for_one_call(
            text, work * self.strips.count, pointers, 1, has_lock=True
        )
        if function is None:
            function = self._function = self.linker.function(text, pointers, 1, has_lock=True)
        return function
