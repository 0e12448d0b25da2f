"""`recognised`: a program in which formulas of library functions, such as softmax, are calls of functions.

A trace of a library function contains the function's ops, but not its name. So the function is traced again for each
possible operand, and the program is searched for the same ops. The sub-program of a call is the only branch of a `Cond`;
its source lines contain the name of a function in `lowering.numpy_source.functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lowering.numpy_source.control import LIBRARY
from tenferro.ad.rules.analytic import logistic_slope, sech_squared
from tenferro.api import logsumexp, softmax
from tenferro.api.logarithms import shares
from tenferro.dims import is_exact
from tenferro.graph import Graph, GraphBuilder, SourceLine
from tenferro.graph.value import Value
from tenferro.ops.analytic import Tanh
from tenferro.ops.control import Cond
from tenferro.ops.elementwise import Abs
from tenferro.ops.reduction import ReduceMax
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram
from tenferro.program.instructions import copy_into
from tenferro.program.rewrite import Producers, Values, emit_again, fresh_arena, written_again
from tenferro.program.subprogram import Subprogram
from tenferro.types import TensorSpec
from xla_peer.tracing import traced

__all__ = ["recognised"]


class _Formula(NamedTuple):
    """Formula of a library function.

    Attributes:
        name: the name of the function in `lowering.numpy_source.functions`.
        program: the function that writes the formula as a program, for the op by whose presence it is recognised and
            the types of its operands.
        takes_result: whether the last operand is the result of this op; otherwise only the op's operand is passed.
    """

    name: str
    program: Callable[..., GraphProgram]
    takes_result: bool = False


def _slope(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that writes a slope, a formula of derivative rules, as a program."""

    def program(op: Any, *specs: TensorSpec) -> GraphProgram:
        graph = Graph()
        builder = GraphBuilder(graph)
        operands = [Value(builder, graph.add_input(spec)) for spec in specs]
        return GraphProgram.from_graph(graph, [rule(*operands).handle])

    return program


def _library(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that traces `function(x, axes)` for the axes of a reduction."""
    return lambda op, spec: traced(lambda x: function(x, op.axes), spec)


FORMULAS: Mapping[type[Any], Sequence[_Formula]] = {
    ReduceMax: (
        _Formula("softmax", _library(softmax)),
        _Formula("logsumexp", _library(logsumexp)),
        _Formula("logsumexp", _library(lambda x, axes: logsumexp(x, axes, True))),
        _Formula("shares", _library(shares)),
    ),
    Tanh: (_Formula("sech_squared", _slope(sech_squared), takes_result=True),),
    Abs: (_Formula("logistic_slope", _slope(logistic_slope)),),
}
"""Formulas that are recognised, by the class of an op that they contain; its operands are those of the formula."""


def recognised(
    program: GraphProgram, simplified: Callable[[GraphProgram], GraphProgram]
) -> GraphProgram:
    """Return the program with calls in place of formulas, in the bodies of loops and conditionals, too.

    Args:
        simplified: the simplification that the program has undergone, so that formulas undergo it, too.
    """

    def rule(producers: Producers, op: Any, inputs: Values, source: Any) -> Values | None:
        if not op.parts:
            return None
        parts = [Subprogram.of_program(recognised(part.program, simplified)) for part in op.parts]
        return producers.apply(op.with_parts(*parts), inputs, source)

    program = emit_again(program, rule)
    calls = {slot: (part, inputs) for slot, part, inputs in _calls(program, simplified)}
    return _with_calls(program, calls) if calls else program


def _calls(
    program: GraphProgram, simplified: Callable[[GraphProgram], GraphProgram]
) -> Iterator[tuple[int, Subprogram, Sequence[int]]]:
    """Find formulas; yield the slot of the result, the sub-program, and the slots of the operands."""
    slots = {(i.op, tuple(i.inputs)): i.outputs for i in program.instructions}
    parts: dict[Any, Any] = {}
    for op, inputs, outputs, _, _ in program.instructions:
        for number, formula in enumerate(FORMULAS.get(type(op), ())):
            operands = (*inputs, *outputs) if formula.takes_result else tuple(inputs)
            specs = [program.types[slot] for slot in operands]
            key = (number, op, *specs)
            if not _is_supported(op, specs[0]):
                continue
            if key not in parts:
                parts[key] = simplified(formula.program(op, *specs))
            slot = _found(parts[key], operands, slots)
            if slot is not None:
                yield slot, _named(parts[key], formula.name), operands


def _is_supported(op: Any, spec: TensorSpec) -> bool:
    """Return whether functions accept an operand of this type: it is real, and no maximum is of no elements."""
    reduced = [spec.shape[axis] for axis in op.axes] if isinstance(op, ReduceMax) else []
    has_elements = all([isinstance(n, int) and n > 0 for n in reduced])
    return not spec.dtype.is_complex and has_elements and all(map(is_exact, spec.shape))


def _found(formula: GraphProgram, operands: Sequence[int], slots: Mapping[Any, Any]) -> int | None:
    """Return the slot of a formula's result in the program that has these slots; None if an op of it is missing."""
    values = dict(zip(formula.input_slots, operands, strict=True))
    for op, inputs, outputs, _, _ in formula.instructions:
        results = slots.get((op, tuple([values[slot] for slot in inputs])))
        if results is None:
            return None
        values.update(zip(outputs, results, strict=True))
    return values[formula.output_slots[0]]


def _named(formula: GraphProgram, name: str) -> Subprogram:
    """Return a formula as a sub-program, whose source lines contain the name of the function."""
    graph, values = fresh_arena(formula)
    line = SourceLine(LIBRARY, 0, name)
    copy_into(graph, [i._replace(source=line) for i in formula.instructions], values)
    return Subprogram.of_program(written_again(formula, graph, values))


def _with_calls(program: GraphProgram, calls: Mapping[int, Any]) -> GraphProgram:
    """Return the program with calls in place of the instructions that compute these slots."""
    graph, values = fresh_arena(program)
    for instruction in program.instructions:
        copy_into(graph, [instruction], values, types=program.types)
        part, operands = calls.get(instruction.outputs[0], (None, ()))
        if part is not None:
            (index,) = graph.add(Constant.of(np.int32(0)), ())
            inputs = (index, *[values[slot] for slot in operands])
            (values[instruction.outputs[0]],) = graph.add(Cond((part,)), inputs, instruction.source)
    return written_again(program, graph, values)
