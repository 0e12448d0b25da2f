"""Share loops: remove a while loop whose iterations are also computed by another loop.

Law: the bits of results do not change. The derivative of a while loop is a loop that also carries the primal values,
because the condition and the tangents need them. So its first results are the results of the original loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tenferro.errors import TenferroError
from tenferro.graph import Graph
from tenferro.ops.control import While
from tenferro.program import GraphProgram, Subprogram, dependents
from tenferro.program.instructions import copy_into
from tenferro.program.rewrite import merged

__all__ = ["share_loops"]


def share_loops(program: GraphProgram) -> GraphProgram:
    """Return the program without loops whose results a larger loop also computes."""
    while (pair := next(_pairs(program), None)) is not None:
        program = _shared(program, pair)
    return program


class _Pair(NamedTuple):
    """Pair of while loops, of which the second also computes the carry of the first.

    Attributes:
        first, second: the positions of the two loops in the program.
        offset: the position, within the carry of the second loop, at which the carry of the first loop begins.
        later: the values between the two loops that depend on the first loop.
    """

    first: int
    second: int
    offset: int
    later: set[int]


def _pairs(program: GraphProgram) -> Iterator[_Pair]:
    """Yield the pairs of loops in which the second also computes the carry of the first."""
    instructions = program.instructions
    earlier: dict[tuple[Any, ...], int] = {}
    sizes: dict[tuple[int, int], None] = {}
    for second, step in enumerate(instructions):
        if not isinstance(step.op, While) or step.op.has_effects:
            continue
        consts, carry = step.inputs[: step.op.num_consts], step.inputs[step.op.num_consts :]
        for n, count in sizes:
            for offset in range(len(carry) - count + 1):
                first = earlier.get((consts[:n], carry[offset : offset + count]))
                if first is None:
                    continue
                smaller = instructions[first]
                later = dependents(instructions[first + 1 : second], smaller.outputs)
                if later.isdisjoint(step.inputs) and _contains(step.op, smaller.op, offset):
                    yield _Pair(first, second, offset, later)
        earlier.setdefault((consts, carry), second)
        sizes[len(consts), len(carry)] = None


def _contains(larger: Any, smaller: Any, offset: int) -> bool:
    """Return whether a loop `larger` computes the carry of `smaller` by the same ops, in its carry from `offset` on."""
    n, count = smaller.num_consts, smaller.input_count - smaller.num_consts
    start = larger.num_consts + offset
    own, inputs = range(n + count), [*range(n), *range(start, start + count)]
    return all([
        _restricted(part, own, outputs) == _restricted(whole, inputs, outputs_of_whole)
        for part, whole, outputs, outputs_of_whole in (
            (smaller.cond, larger.cond, range(1), range(1)),
            (smaller.body, larger.body, range(count), range(offset, offset + count)),
        )
    ])  # fmt: skip


def _restricted(part: Any, inputs: Sequence[int], outputs: Sequence[int]) -> Subprogram | None:
    """Return the sub-program of `part` that computes outputs from inputs, both given by position.

    Return None if the outputs depend on other inputs.
    """
    program, graph = part.program, Graph()
    values = {slot: graph.add_input(program.types[slot]) for slot in program.input_slots}
    every = list(values.values())
    copy_into(graph, program.instructions, values)
    try:
        return Subprogram.of(
            graph,
            [every[position] for position in inputs],
            [values[program.output_slots[position]] for position in outputs],
        )
    except TenferroError:
        return None


def _shared(program: GraphProgram, pair: _Pair) -> GraphProgram:
    """Return the program in which the second loop of `pair` computes the results of both loops."""
    first, second, offset, later = pair
    smaller, larger = program.instructions[first], program.instructions[second]

    def write(graph: Graph, values: list[int]) -> None:
        copy_into(graph, [larger], values)
        for slot, result in zip(smaller.outputs, larger.outputs[offset:], strict=False):
            values[slot] = values[result]

    return merged(program, first, second, later, write)
