"""Stop bounded loops early: rewrite a scan whose carry does not change after some iteration as a while loop.

Law: the bits of results do not change. The pass applies to a scan without input slices (xs) whose carry does not change
if a predicate is false. Once the predicate is false, it stays false, because every later iteration has the same
carry. Therefore all later rows of the stacked outputs are equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tenferro.graph import Graph, Instruction, SourceLine
from tenferro.ops.control import Cond, Scan, While
from tenferro.ops.elementwise import Add, And, Compare, Select
from tenferro.ops.indexing import Scatter
from tenferro.ops.source import Constant, Iota
from tenferro.ops.structural import BroadcastInDim
from tenferro.program import GraphProgram, Subprogram
from tenferro.program.instructions import copy_into, makers
from tenferro.program.rewrite import Producers, Values, rewrite
from tenferro.types import DType, TensorSpec

__all__ = ["stop_early"]

COUNT = TensorSpec.of((), DType.I64)


def stop_early(program: GraphProgram) -> GraphProgram:
    """Return the program with each scan whose carry stops changing rewritten as a while loop."""
    return rewrite(program, {Scan: scan})


def scan(
    producers: Producers, op: Scan, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Rewrite a scan as a while loop that carries a counter, the scan's carry, and the stacked outputs.

    After the loop, all rows that the loop did not reach are filled with one row, because they are equal.
    """
    conditional = conditional_of(op)
    if conditional is None:
        return None
    graph, n, m = producers.graph, op.num_consts, op.num_carry
    stacks = [
        filled(graph, np.zeros((), spec.dtype.dtype), (op.length, *spec.shape))
        for spec in op.body.output_specs[m:]
    ]
    zero = constant(graph, np.int64(0))
    parts = condition_of(op, conditional), body_of(op, conditional)
    operands = (*inputs[:n], zero, *inputs[n:], *stacks)
    count, *results = producers.apply(While(*parts, n), operands, source)
    carry, stacks = results[:m], results[m:]
    if not stacks:
        return tuple(carry)
    rows = graph.add(Iota((op.length,), 0, DType.I64), ())
    reached = graph.add(BroadcastInDim((op.length,), ()), (count,))
    (is_reached,) = graph.add(Compare("LT"), (*rows, *reached))
    idle = iteration(graph, op, conditional, [*inputs[:n], *carry], 0)[m:]
    return (
        *carry,
        *[chosen(graph, is_reached, y, row) for y, row in zip(stacks, idle, strict=True)],
    )


def conditional_of(op: Scan) -> Instruction | None:
    """Return the conditional that selects between the new and the old carry; None if the body has another form."""
    program, n, m = op.body.program, op.num_consts, op.num_carry
    is_static = all([spec.is_static for spec in program.output_specs])
    has_slices = len(program.input_slots) > n + m
    if has_slices or not is_static or op.has_effects or not isinstance(op.length, int):
        return None
    if not op.length or (op.reverse and len(program.output_slots) > m):
        return None
    steps = makers(program.instructions)
    conditional: Instruction | None = None
    for slot, own in zip(program.output_slots[:m], program.input_slots[n:], strict=False):
        if slot == own:
            continue
        step = steps.get(slot)
        if step is None or type(step.op) is not Cond or (conditional or step) is not step:
            return None
        conditional = step
        if not keeps(step, slot, own) or not program.types[step.inputs[0]].dtype.is_bool:
            return None
    return conditional


def keeps(conditional: Instruction, slot: int, own: int) -> bool:
    """Return whether an output of a conditional equals the value `own` whenever the predicate is false.

    Args:
        slot: the slot of that output.
        own: the slot of the value.
    """
    branch = conditional.op.branches[0].program  # type: ignore[union-attr]
    output = branch.output_slots[conditional.outputs.index(slot)]
    operands = conditional.inputs[1:]
    return output in branch.input_slots and operands[branch.input_slots.index(output)] == own


def condition_of(op: Scan, conditional: Instruction) -> Subprogram:
    """Return the condition of the while loop: iterations are left and the predicate is true."""
    graph = Graph()
    inputs = inputs_of(graph, op)
    n, m = op.num_consts, op.num_carry
    values = dict(enumerate([*inputs[:n], *inputs[n + 1 : n + 1 + m]]))
    copy_into(graph, op.body.program.instructions, values)
    length = constant(graph, np.int64(op.length))
    (is_left,) = graph.add(Compare("LT"), (inputs[n], length))
    return Subprogram.of(graph, inputs, graph.add(And(), (is_left, values[conditional.inputs[0]])))


def body_of(op: Scan, conditional: Instruction) -> Subprogram:
    """Return the body of the while loop, which computes the next counter and carry, and one row of each stacked output.

    In the body, the predicate is true.
    """
    graph = Graph()
    inputs = inputs_of(graph, op)
    n, m = op.num_consts, op.num_carry
    count, carry, stacks = inputs[n], inputs[n + 1 : n + 1 + m], inputs[n + 1 + m :]
    results = iteration(graph, op, conditional, [*inputs[:n], *carry], 1)
    written = [
        graph.add(set_row(len(graph.types[y].shape)), (stack, count, y))[0]
        for stack, y in zip(stacks, results[m:], strict=True)
    ]
    after = graph.add(Add(), (count, constant(graph, np.int64(1))))
    return Subprogram.of(graph, inputs, [*after, *results[:m], *written])


def inputs_of(graph: Graph, op: Scan) -> list[int]:
    """Add the inputs of the loop's condition and body to a graph: the constants, counter, carry and stacked outputs."""
    n, m = op.num_consts, op.num_carry
    stacks = [
        TensorSpec.of((op.length, *spec.shape), spec.dtype) for spec in op.body.output_specs[m:]
    ]
    specs = [*op.body.input_specs[:n], COUNT, *op.body.input_specs[n:], *stacks]
    return [graph.add_input(spec) for spec in specs]


def iteration(
    graph: Graph, op: Scan, conditional: Instruction, inputs: Sequence[int], branch: int
) -> list[int]:
    """Emit one iteration of the scan in which the conditional takes branch number `branch`. Return its outputs."""
    program = op.body.program
    values = dict(enumerate(inputs))
    number = program.instructions.index(conditional)
    copy_into(graph, program.instructions[:number], values)
    values[conditional.inputs[0]] = constant(graph, np.bool_(branch))
    operands = [values[slot] for slot in conditional.inputs[1:]]
    part: Subprogram = conditional.op.branches[branch]  # type: ignore[union-attr]
    results = Subprogram.of_program(part.program).emit(graph, operands)
    values.update(zip(conditional.outputs, results, strict=True))
    copy_into(graph, program.instructions[number + 1 :], values)
    return [values[slot] for slot in program.output_slots]


def set_row(rank: int) -> Scatter:
    """Return the op that writes one row into a stack; `rank` is the rank of the row."""
    return Scatter(tuple(range(rank)), (0,), (), (), (0,), 0, "set", unique_indices=True)


def chosen(graph: Graph, is_reached: int, stack: int, row: int) -> int:
    """Emit a copy of `stack` in which `row` replaces each row that the loop did not reach."""
    shape = graph.types[stack].shape
    (mask,) = graph.add(BroadcastInDim(shape, (0,)), (is_reached,))
    (rows,) = graph.add(BroadcastInDim(shape, tuple(range(1, len(shape)))), (row,))
    return graph.add(Select(), (mask, stack, rows))[0]


def constant(graph: Graph, number: np.generic) -> int:
    """Emit a scalar constant."""
    return graph.add(Constant.of(np.asarray(number)), ())[0]


def filled(graph: Graph, number: np.ndarray, shape: tuple[int, ...]) -> int:
    """Emit a scalar constant, broadcast to `shape`."""
    scalar = graph.add(Constant.of(number), ())
    return graph.add(BroadcastInDim(shape, ()), scalar)[0]
