"""Transpose: compute the cotangents of linear inputs from the cotangents of linear outputs, in one backward sweep.

Law: <y_bar, A x_dot> = <A^H y_bar, x_dot> for a linear map A, with <a, b> = Re(conj(a) b). Instructions follow the
instructions that compute their inputs, so a loop from last to first visits each value after all of its uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenferro.ad.algebra import Value
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.joined import joined
from tenferro.ad.linearize import missing_rule
from tenferro.ad.rule import AdRule, TransposeRule
from tenferro.errors import ADRuleUnsupportedError, TenferroError
from tenferro.graph import Instruction, Mark, Opaque
from tenferro.ops import StdTensorOp
from tenferro.ops.source import ShapeOf
from tenferro.program import needed

__all__ = ["require_linear", "transpose"]


def transpose(
    emitter: GraphEmitter, start: int, inputs: Sequence[int], cotangents: Iterable[tuple[int, int]]
) -> list[int | None]:
    """Return the cotangent of each linear input in `inputs`; None if it is zero.

    Args:
        start: the number of instructions in the graph when the linear inputs were created.

    Raises:
        ADRuleUnsupportedError: an op that depends on the linear inputs has no transpose, or is not linear in its
            operands.
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
                x_bars = _transpose_of(op, rule, mask)(op, values, mask, y_bars)
        except TenferroError as error:
            error.at(emitter.source)
            raise
        for value, is_linear, x_bar in zip(operands, mask, x_bars, strict=True):
            if is_linear and x_bar is not None:
                accumulate(value, x_bar)
    emitter.source = None
    x_bars = [bars[value].handle if value in bars else None for value in inputs]
    return joined(graph, end, x_bars)


def require_linear(
    emitter: GraphEmitter, start: int, inputs: Iterable[int], outputs: Iterable[int]
) -> None:
    """Check that every op on a path from `inputs` to `outputs` is linear. The graph does not change.

    Raises:
        ADRuleUnsupportedError: an op is not linear in its operands, or has no transpose.
    """
    instructions = emitter.graph.instructions
    reached = set(inputs)
    for index in needed(instructions, outputs, start=start):
        op, operands, results, _, _ = instructions[index]
        if reached.isdisjoint(operands) or isinstance(op, ShapeOf):
            continue
        reached.update(results)
        if isinstance(op, Mark | Opaque):
            continue
        rule = emitter.rules[type(op)]
        if rule.jvp is None:
            continue
        emitter.derive(index)
        try:
            _transpose_of(op, rule, tuple([value in reached for value in operands]))
        except TenferroError as error:
            error.at(emitter.source)
            raise
    emitter.source = None


def _transpose_of(op: StdTensorOp, rule: AdRule, mask: tuple[bool, ...]) -> TransposeRule:
    """Return the transpose rule of an op, after checking that the op is linear in the operands that `mask` flags."""
    if rule.transpose is None:
        raise missing_rule(op, "transpose")
    if rule.is_linear is not None and not rule.is_linear(mask):
        raise ADRuleUnsupportedError(
            f"{op.name}: is not linear in operands that depend on a tangent, so it has no transpose; "
            "a derivative rule must be linear in its tangents"
        )
    return rule.transpose
