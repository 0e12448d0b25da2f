"""Unbind: converts a schedule of standard ops back to a program, so that it can be compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.exec.planned import Control
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.graph import Graph
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim
from tenferro.program import GraphProgram, Subprogram

__all__ = ["program_of"]


def program_of(schedule: ExecProgram) -> GraphProgram:
    """Return the program of a schedule whose steps are standard ops, loops and conditionals."""
    ops = [_op_of(step) for step in schedule.instructions]
    graph, values = Graph(), dict[int, int]()
    for slot in schedule.input_slots:
        values[slot] = graph.add_input(schedule.types[slot])
    for slot, value in schedule.constants.items():
        values[slot] = _constant(graph, np.asarray(value))
    for op, step in zip(ops, schedule.instructions, strict=True):
        operands = tuple([values[slot] for slot in step.input_slots])
        values.update(zip(step.output_slots, graph.add(op, operands, step.source), strict=True))
    outputs = [values[slot] for slot in schedule.output_slots]
    return GraphProgram.from_graph(graph, outputs, name="block")


def _op_of(step: ExecInstruction) -> Any:
    """Return the op of a step; schedules of its bodies become programs."""
    op = step.inner_op
    if not isinstance(op, Control):
        return step.op
    parts = [program_of(body) for body in op.schedules]
    return op.op.with_parts(*map(Subprogram.of_program, parts))


def _constant(graph: Graph, value: Any) -> int:
    """Add a constant to the graph, as a broadcast if it is a broadcast view of one number, and return its id."""
    if value.size > 1 and not any(value.strides):
        (number,) = graph.add(Constant.of(value[(0,) * value.ndim]), ())
        (repeated,) = graph.add(BroadcastInDim(value.shape, ()), (number,))
        return repeated
    (constant,) = graph.add(Constant.of(np.ascontiguousarray(value).reshape(value.shape)), ())
    return constant
