"""Batch: a linear function of one tensor as a function of many at once, along a leading axis.

Law: slice i of each result is the function of slice i. It turns a pushforward or a pullback into the
matrix of it, by applying it to all unit tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenferro.ad.algebra import Value
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.linearize import missing_rule
from tenferro.graph import Mark, Opaque
from tenferro.ops.structural import OptimizationBarrier

__all__ = ["batch"]


def batch(
    emitter: GraphEmitter,
    start: int,
    inputs: Mapping[int, int],
    outputs: Sequence[int | None],
) -> list[int | None]:
    """The outputs with a leading axis, given such values for the linear `inputs`.

    None stays None, and so does an output that depends on none of them.

    Args:
        start: the number of nodes there were when the linear inputs were made.

    Raises:
        ADRuleUnsupportedError: an op in the linear region without a batch rule.
    """
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
    return [None if value is None else batched.get(value) for value in outputs]
