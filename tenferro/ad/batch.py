"""Batch: a function of one tensor as a function of many at once, along a leading axis.

Law: slice i of each result is the function of slice i. It turns a pushforward or a pullback into the
matrix of it, by applying it to all unit tensors; and a program into one of batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tenferro.ad.algebra import Value, lead
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.linearize import missing_rule
from tenferro.graph import Mark, Opaque
from tenferro.ops.structural import OptimizationBarrier
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.ad.context import AdContext

__all__ = ["batch", "batch_all", "batch_program", "batch_some"]


def batch(
    emitter: GraphEmitter,
    start: int,
    inputs: Mapping[int, int],
    outputs: Sequence[int | None],
) -> list[int | None]:
    """The outputs with a leading axis, given such values for `inputs`.

    None stays None, and so does an output that depends on none of them.

    Args:
        start: the number of nodes there were when the inputs were made.

    Raises:
        ADRuleUnsupportedError: an op without a batch rule.
        UnsupportedError: an op whose batch rule does not cover operands that all differ.
    """
    batched, _ = _sweep(emitter, start, inputs)
    return [None if value is None else batched.get(value) for value in outputs]


def batch_all(
    emitter: GraphEmitter,
    start: int,
    inputs: Mapping[int, int],
    outputs: Sequence[int],
    size: object,
) -> list[int]:
    """As `batch`; an output that depends on no input is repeated `size` times."""
    many, one = _sweep(emitter, start, inputs)
    return [
        many[value] if value in many else lead(Value(emitter, one.get(value, value)), size).handle
        for value in outputs
    ]


def batch_some(
    emitter: GraphEmitter,
    start: int,
    inputs: Mapping[int, int],
    outputs: Sequence[int],
    size: object,
    wanted: Sequence[bool],
) -> tuple[list[int], list[bool]]:
    """As `batch_all`, but only `wanted` outputs are repeated; and which have the leading axis now."""
    many, one = _sweep(emitter, start, inputs)
    made: list[int] = []
    for value, is_wanted in zip(outputs, wanted, strict=True):
        if value in many:
            made.append(many[value])
        else:
            alone = one.get(value, value)
            made.append(lead(Value(emitter, alone), size).handle if is_wanted else alone)
    has = [v in many or w for v, w in zip(outputs, wanted, strict=True)]
    return made, has


def _sweep(
    emitter: GraphEmitter, start: int, inputs: Mapping[int, int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Values that got a leading axis, and values made again without one."""
    graph = emitter.graph
    stop = len(graph.nodes)
    batched: dict[int, int] = dict(inputs)  # value -> value with the leading axis
    again: dict[int, int] = {}  # value -> the same without it, where a barrier tied it to an input
    for index in range(start, stop):
        node = graph.nodes[index]
        mask = tuple([value in batched for value in node.inputs])
        if not any(mask) and not any([value in again for value in node.inputs]):
            continue
        emitter.source = graph.sources[index]
        handles = [batched.get(value, again.get(value, value)) for value in node.inputs]
        op = node.op
        if isinstance(op, Mark):
            for position, value in zip(op.takes, node.outputs, strict=True):
                (batched if mask[position] else again)[value] = handles[position]
        elif isinstance(op, Opaque):
            raise op.refuse().at(str(emitter.source or ""))
        elif isinstance(op, OptimizationBarrier):
            made = graph.add(op, tuple(handles), emitter.source)
            for here, value, new in zip(mask, node.outputs, made, strict=True):
                (batched if here else again)[value] = new
        elif not any(mask):
            made = graph.add(op, tuple(handles), emitter.source)
            again.update(zip(node.outputs, made, strict=True))
        else:
            rule = emitter.rules[type(op)]
            if rule.batch is None:
                raise missing_rule(op, "batch").at(str(emitter.source or ""))
            values: tuple[Value, ...] = rule.batch(op, emitter.values(handles), mask)
            batched.update({v: x.handle for v, x in zip(node.outputs, values, strict=True)})
    emitter.source = None
    return batched, again


def batch_program(
    program: GraphProgram, batched: Sequence[bool], size: object, context: AdContext
) -> GraphProgram:
    """The program of `size` slices at once: inputs in `batched`, and all outputs, get a leading axis.

    Raises:
        ADRuleUnsupportedError, UnsupportedError: an op without a batch rule for such operands.
    """
    graph, values = program.to_graph()
    emitter = context.emitter(graph)
    shared = [values[slot] for slot in program.input_slots]
    leading = [
        graph.add_input(TensorSpec.of((size, *graph.types[value].shape), graph.types[value].dtype))
        if here
        else value
        for value, here in zip(shared, batched, strict=True)
    ]
    given = {value: new for value, new in zip(shared, leading, strict=True) if value != new}
    outputs = [values[slot] for slot in program.output_slots]
    many, one = _sweep(emitter, 0, given)
    results = [
        many[value] if value in many else lead(Value(emitter, one.get(value, value)), size).handle
        for value in outputs
    ]
    return GraphProgram.from_graph(
        graph,
        results,
        name=f"batch_{program.name}",
        inputs=leading,
        in_tree=program.in_tree,
        out_tree=program.out_tree,
        input_names=program.input_names,
        output_names=program.output_names,
        guards=graph.guards.guards,
    )
