"""Decision which of two disagreeing results is wrong, by the result of StableHLO's reference interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from lowering import lower_to_stablehlo
from tenferro.graph import Graph
from tenferro.ops.control import ControlOp
from tenferro.ops.extension import Extension
from tenferro.program import GraphProgram, Instruction
from xla_peer.parity.comparison import Allowance, compare
from xla_peer.parity.interpreter import interpreted
from xla_peer.parity.pending import nested_instructions

__all__ = ["Opinion", "expanded_ops", "opinion"]


class Opinion(NamedTuple):
    """Third result, of the interpreter or of a definition, compared with both paths.

    Attributes:
        words: a sentence that says with which path the third result agrees, or why it does not decide.
        alone: the path that the third result contradicts, which is therefore wrong; empty if it does not decide.
    """

    words: str
    alone: str = ""


NATIVE, PEER = "native", "PJRT"


def opinion(
    program: GraphProgram,
    leaves: Sequence[Any],
    native: Sequence[Any],
    xla: Sequence[Any],
    allowed: Sequence[Allowance],
) -> Opinion:
    """Compare the result of the reference interpreter with both paths, and decide which path is wrong.

    The interpreter runs the text that PJRT runs. If the text expands an op into several operations, the interpreter and
    PJRT compute it by the same expansion. Then their agreement does not show that the native result is wrong.

    Args:
        native, xla: the outputs of both paths.
        allowed: the allowed differences of each output.
    """
    third = interpreted(program, leaves)
    if isinstance(third, str):
        return Opinion(f"the reference interpreter has no opinion: {third}")
    with_native, with_xla, together = (
        _agree(*pair, allowed) for pair in ((native, third), (xla, third), (native, xla))
    )
    if with_native and with_xla:
        if together:
            return Opinion("the reference interpreter agrees with both")
        return Opinion(
            "the reference interpreter is between native and PJRT, within what rounding explains of "
            "each: it cannot say who is wrong"
        )
    if with_native:
        return Opinion("the reference interpreter agrees with native: PJRT is alone", PEER)
    if not with_xla:
        return Opinion("the reference interpreter agrees with neither")
    expanded = expanded_ops(program)
    if expanded:
        return Opinion(
            "the reference interpreter agrees with PJRT, but both run the same expansion of "
            f"{', '.join(expanded)}, which counts once: native or the expansion is wrong"
        )
    return Opinion("the reference interpreter agrees with PJRT: native is alone", NATIVE)


def _agree(one: Sequence[Any], other: Sequence[Any], allowed: Sequence[Allowance]) -> bool:
    return all(
        compare("", y, z, *allowance).ok
        for y, z, allowance in zip(one, other, allowed, strict=True)
    )


def expanded_ops(program: GraphProgram) -> list[str]:
    """Return the names of the ops that the lowered text expands into functions of several operations."""
    return sorted(
        {step.op.name for step, part in _all_instructions(program) if _is_expanded(step, part)}
    )


def _all_instructions(program: GraphProgram) -> Iterator[tuple[Instruction, GraphProgram]]:
    """Yield the instructions of a program, including those in the bodies of loops."""
    for step in program.instructions:
        if isinstance(step.op, ControlOp):
            yield from nested_instructions(step.op)
        else:
            yield step, program


def _is_expanded(step: Instruction, program: GraphProgram) -> bool:
    if isinstance(step.op, ControlOp):
        return False
    if isinstance(step.op, Extension):
        return True
    graph = Graph()
    inputs = tuple([graph.add_input(program.types[slot]) for slot in step.inputs])
    outputs = graph.add(step.op, inputs)
    alone = GraphProgram.from_graph(graph, list(outputs))
    return "func.call @" in lower_to_stablehlo(alone).plain_text
