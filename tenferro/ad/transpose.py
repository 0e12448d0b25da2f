"""Transpose: from the cotangents of linear outputs to those of linear inputs, in one sweep backward.

Law: <y_bar, A x_dot> = <A^H y_bar, x_dot> with <a, b> = Re(conj(a) b). Nodes have larger numbers than
their inputs, so that counting down meets each value after all its uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenferro.ad.algebra import Value
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.joined import joined
from tenferro.ad.linearize import missing_rule
from tenferro.errors import TenferroError
from tenferro.graph import Instruction, Mark, Opaque

__all__ = ["transpose"]


def transpose(
    emitter: GraphEmitter,
    start: int,
    inputs: Sequence[int],
    cotangents: Iterable[tuple[int, int]],
) -> list[int | None]:
    """Cotangents of the linear `inputs`, given pairs of a value linear in them and its cotangent;
    None where zero.

    Args:
        start: the number of nodes there were when the linear inputs were made.

    Raises:
        ADRuleUnsupportedError: an op in the linear region without a transpose.
    """
    graph, rules = emitter.graph, emitter.rules
    linear = [False] * len(graph.types)
    for value in inputs:
        linear[value] = True
    region: list[tuple[int, Instruction]] = []
    for index, node in enumerate(graph.instructions[start:], start):
        for value in node.inputs:
            if linear[value]:
                region.append((index, node))
                for output in node.outputs:
                    linear[output] = True
                break
    bars: dict[int, Value] = {}
    end = len(graph.instructions)

    def accumulate(value: int, bar: Value) -> None:
        earlier = bars.get(value)
        bars[value] = bar if earlier is None else earlier + bar

    for value, bar in cotangents:
        accumulate(value, Value(emitter, bar))
    for index, (op, operands, results, _, _) in reversed(region):
        if bars.keys().isdisjoint(results):
            continue
        y_bars = [bars.pop(value, None) for value in results]
        emitter.derive(index)
        mask = tuple(map(linear.__getitem__, operands))
        values = emitter.values(operands)
        try:
            if isinstance(op, Mark | Opaque):
                x_bars = op.transpose(emitter, values, mask, y_bars)
            else:
                rule = rules[type(op)]
                if rule.transpose is None:
                    raise missing_rule(op, "transpose")
                x_bars = rule.transpose(op, values, mask, y_bars)
        except TenferroError as error:
            error.at(str(emitter.source or ""))
            raise
        for value, is_linear, x_bar in zip(operands, mask, x_bars, strict=True):
            if is_linear and x_bar is not None:
                accumulate(value, x_bar)
    emitter.source = None
    x_bars = [bars[value].handle if value in bars else None for value in inputs]
    return joined(graph, end, x_bars)
