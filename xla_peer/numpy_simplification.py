"""`simplified`: a program with fewer ops and equal results, for a short NumPy file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowering.literal import is_splat
from lowering.numpy_source.statements import StatementFinder
from lowering.numpy_source.writer import MAX_LISTED, regular
from tenferro.dispatch import apply
from tenferro.graph import Graph
from tenferro.ops import StdTensorOp
from tenferro.ops.control import Scan
from tenferro.ops.elementwise import Add, Compare, Convert
from tenferro.ops.extension import Extension
from tenferro.ops.indexing import DynamicSlice
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim, Reshape, Slice
from tenferro.passes import clean_up
from tenferro.program import GraphProgram
from tenferro.program.instructions import copy_into
from tenferro.program.rewrite import Producers, Values, emit_again
from tenferro.program.subprogram import Subprogram
from tenferro.types import DType
from xla_peer.numpy_outlining import outlined
from xla_peer.numpy_recognition import recognised

__all__ = ["simplified"]

MAX_EVALUATED = 1 << 16
"""Maximum number of elements of a constant operand or result of an op that is evaluated."""
MAX_LISTED_FLOATS = 4
"""Maximum number of elements of a float array that replaces the op that computes it."""


def simplified(program: GraphProgram) -> GraphProgram:
    """Return the program with fewer ops and equal results.

    Repeated calls of one Python function, and formulas of library functions, are calls of sub-programs.
    """
    return recognised(_outlined(_simplified(program), StatementFinder()), _simplified)


def _outlined(program: GraphProgram, finder: StatementFinder) -> GraphProgram:
    """Replace repeated calls of Python functions by calls of sub-programs, in the bodies of loops, too."""

    def rule(producers: Producers, op: Any, inputs: Values, source: Any) -> Values | None:
        if not op.parts:
            return None
        parts = [Subprogram.of_program(_outlined(part.program, finder)) for part in op.parts]
        return producers.apply(op.with_parts(*parts), inputs, source)

    return outlined(emit_again(program, rule), finder)


def _simplified(program: GraphProgram) -> GraphProgram:
    """Return the program with fewer ops and equal results, in the bodies of loops and conditionals, too.

    Loops of one iteration are replaced by their bodies. An op on constants is replaced by its result if the text of the
    result is short.
    """
    program = clean_up(emit_again(program, _with_simplified_parts))
    arrays_of, constants = _constants(program)
    instructions = iter(program.instructions)

    def rule(producers: Producers, op: Any, inputs: Values, source: Any) -> Values | None:
        instruction = next(instructions)
        if isinstance(op, DynamicSlice):
            starts = [arrays_of.get(slot) for slot in instruction.inputs[1:]]
            return _static_slice(producers, op, inputs, starts, source)
        arrays = [constants.get(slot) for slot in instruction.outputs]
        if any([array is None for array in arrays]):
            return None
        return tuple([_constant(producers, x, source) for x in arrays])

    return clean_up(emit_again(program, rule))


def _with_simplified_parts(
    producers: Producers, op: Any, inputs: Values, source: Any
) -> Values | None:
    """Replace the sub-programs of an op by simplified ones; replace a loop of one iteration by its body."""
    if not op.parts:
        return None
    parts = [Subprogram.of_program(_simplified(part.program)) for part in op.parts]
    op = op.with_parts(*parts)
    if isinstance(op, Scan) and op.length == 1:
        return _iteration(producers.graph, op, inputs, source)
    if isinstance(op, Scan):
        return _counted(producers, op, inputs, source)
    return producers.apply(op, inputs, source)


def _iteration(graph: Graph, op: Scan, inputs: Values, source: Any) -> Values:
    """Write the only iteration of a loop, without the loop."""
    body = op.body.program
    values: dict[int, int] = {}
    for number, (slot, value) in enumerate(zip(body.input_slots, inputs, strict=True)):
        if number >= op.first_xs:
            (value,) = graph.add(Reshape(op.body.input_specs[number].shape), (value,), source)
        values[slot] = value
    copy_into(graph, body.instructions, values, source=source)
    outputs = [values[slot] for slot in body.output_slots]
    rows = outputs[op.num_carry :]
    stacked = [graph.add(Reshape((1, *graph.types[y].shape)), (y,), source)[0] for y in rows]
    return (*outputs[: op.num_carry], *stacked)


def _counted(producers: Producers, op: Scan, inputs: Values, source: Any) -> Values:
    """Write a loop in which carries that count iterations are slices of constant ranges."""
    n = op.num_consts
    ranges = {
        number: array
        for number in range(op.num_carry)
        if (array := _range(producers, op, number, inputs[n + number])) is not None
    }
    if not ranges:
        return producers.apply(op, inputs, source)
    others = [number for number in range(op.num_carry) if number not in ranges]
    order = [*range(n), *[n + number for number in others], *range(op.first_xs, len(inputs))]
    order += [n + number for number in ranges]
    counts = [producers.apply(Constant.of(array), (), source)[0] for array in ranges.values()]
    body = _body(op, order, {n + number for number in ranges})
    loop = Scan(body, op.length, n, len(others))
    outputs = producers.apply(loop, (*[inputs[i] for i in order[: -len(counts)]], *counts), source)
    ends = {
        number: producers.apply(Constant.of(array[-1:][0] + array.dtype.type(1)), (), source)[0]
        for number, array in ranges.items()
    }
    carries = dict(zip(others, outputs, strict=False)) | ends
    return (*[carries[number] for number in range(op.num_carry)], *outputs[len(others) :])


def _range(producers: Producers, op: Scan, number: int, first: int) -> Any:
    """Return the values of a carry that counts iterations from a constant on, as an array; None for other carries."""
    maker, body = producers.maker(first), op.body.program
    counter, result = body.input_slots[op.num_consts + number], body.output_slots[number]
    step = next((i for i in body.instructions if result in i.outputs), None)
    if maker is None or not isinstance(maker.op, Constant):
        return None
    if step is None or not isinstance(step.op, Add) or counter not in step.inputs:
        return None
    start = maker.op.array
    if start.ndim or start.dtype.kind not in "iu" or op.reverse or not isinstance(op.length, int):
        return None
    other = next((slot for slot in step.inputs if slot != counter), None)
    is_one = any(
        other in i.outputs and isinstance(i.op, Constant) and i.op.array == 1
        for i in body.instructions
    )
    stop = int(start) + op.length
    if not is_one or start < 0 or op.length < 1 or stop > np.iinfo(start.dtype).max:
        return None
    return np.arange(int(start), stop, dtype=start.dtype)


def _body(op: Scan, order: Sequence[int], counters: set[int]) -> Subprogram:
    """Return the body of a loop with its inputs in another order, and without the carries at the positions `counters`.

    A comparison whether such a carry is negative is False.
    """
    old = op.body.program
    graph = Graph()
    values = {old.input_slots[i]: graph.add_input(op.body.input_specs[i]) for i in order}
    counts = {values[old.input_slots[i]] for i in counters}
    producers = Producers(graph)

    def rule(op: Any, inputs: Values, source: Any) -> Values | None:
        if isinstance(op, Convert) and inputs[0] in counts:
            (value,) = producers.apply(op, inputs, source)
            counts.update([value] if op.to in (DType.I32, DType.I64) else [])
            return (value,)
        if isinstance(op, Compare) and op.direction == "LT" and inputs[0] in counts:
            bound = producers.maker(inputs[1])
            if bound is not None and isinstance(bound.op, Constant) and not np.any(bound.op.array):
                return producers.apply(Constant.of(np.bool_(False)), (), source)
        return None

    copy_into(graph, old.instructions, values, rule)
    dropped = {position - op.num_consts for position in counters}
    outputs = [values[y] for k, y in enumerate(old.output_slots) if k not in dropped]
    return Subprogram.of_program(_simplified(GraphProgram.from_graph(graph, outputs)))


def _static_slice(
    producers: Producers, op: DynamicSlice, inputs: Values, starts: Sequence[Any], source: Any
) -> Values | None:
    """Write a slice at constant positions as `Slice`."""
    spec = producers.types[inputs[0]]
    if any([start is None for start in starts]) or not spec.is_static:
        return None
    if not all(isinstance(size, int) for size in op.sizes):
        return None
    last = np.subtract(spec.shape, op.sizes)
    first = tuple([min(max(int(a), 0), int(b)) for a, b in zip(starts, last, strict=True)])
    limits = tuple([a + size for a, size in zip(first, op.sizes, strict=True)])
    return producers.apply(Slice(first, limits, (1,) * spec.rank), inputs[:1], source)


def _constants(program: GraphProgram) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the constant values by slot, and the constants whose text is so short that they replace their ops."""
    arrays: dict[int, Any] = {}
    short: dict[int, Any] = {}
    for op, inputs, outputs, _, _ in program.instructions:
        specs = [program.types[slot] for slot in outputs]
        is_small = all(spec.is_static and spec.size <= MAX_EVALUATED for spec in specs)
        if not is_small or not _is_evaluated(op) or any(slot not in arrays for slot in inputs):
            continue
        results = [np.asarray(y) for y in apply(op, *[arrays[slot] for slot in inputs])]
        arrays.update(zip(outputs, results, strict=True))
        if inputs and not isinstance(op, BroadcastInDim) and all(map(_is_short, results)):
            short.update(zip(outputs, results, strict=True))
    return arrays, short


def _constant(producers: Producers, array: Any, source: Any) -> int:
    """Write a constant; an array of equal elements is a broadcast of its element."""
    is_filled = array.ndim and array.size and is_splat(array)
    element = array[(0,) * array.ndim] if is_filled else array
    (value,) = producers.apply(Constant.of(np.asarray(element)), (), source)
    return (
        producers.apply(BroadcastInDim(array.shape, ()), (value,), source)[0]
        if is_filled
        else value
    )


def _is_evaluated(op: StdTensorOp) -> bool:
    """Return whether an op is evaluated if its operands are constants."""
    return not op.parts and not isinstance(op, Extension)


def _is_short(array: Any) -> bool:
    """Return whether the text of a constant array is at most a short list."""
    limit = MAX_LISTED_FLOATS if array.dtype.kind in "fc" else MAX_LISTED
    return array.size <= limit or is_splat(array) or bool(regular(array, ""))
