"""Smaller programs and plainer arrays on which the paths still part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tenferro.errors import TenferroError
from tenferro.graph import Graph
from tenferro.program import GraphProgram, copy_into
from tenferro.types import DType, TensorSpec, flatten
from xla_peer.fuzz.program import Case
from xla_peer.parity.divergence import prefix

__all__ = ["shrunk"]

TRIES = 80


def shrunk(case: Case, parts: Callable[[Case], bool]) -> Case:
    """A case on which `parts` still holds, and that none of a few steps makes smaller.

    Values in the middle become parameters, from the last to the first; then elements become 1, half of
    an array at a time.
    """
    tries = [TRIES]

    def holds(candidate: Case) -> bool:
        tries[0] -= 1
        try:
            return tries[0] >= 0 and parts(candidate)
        except TenferroError:
            return False

    slots = [slot for step in case.program.instructions for slot in step.outputs]
    for _ in range(len(slots)):
        smaller = next(filter(holds, _cuts(case)), None)
        if smaller is None:
            break
        case = smaller
    for number in range(len(case.leaves)):
        case = _plainer(case, number, holds)
    return case


def _cuts(case: Case) -> Iterator[Case]:
    """The case with one value computed beforehand, for each value that is no output, from the last on."""
    outputs = set(case.program.output_slots)
    inner = [
        step.outputs
        for step in case.program.instructions
        if step.inputs and outputs.isdisjoint(step.outputs)
    ]
    return (_cut(case, slots) for slots in reversed(inner))


def _cut(case: Case, slots: Sequence[int]) -> Case:
    program = case.program
    values, _ = flatten(prefix(program, slots).run(*case.leaves))
    graph, renumbered, leaves, inputs = Graph(), {}, [], []

    def parameter(slot: int, array: Any) -> None:
        renumbered[slot] = graph.add_input(TensorSpec.of(array.shape, DType.of(array.dtype)))
        inputs.append(renumbered[slot])
        leaves.append(array)

    for slot, leaf in zip(program.input_slots, case.leaves, strict=True):
        parameter(slot, leaf)
    for slot, value in zip(slots, map(np.asarray, values), strict=True):
        parameter(slot, value)
    copy_into(
        graph, [i for i in program.instructions if i.outputs[0] not in renumbered], renumbered
    )
    outputs = [renumbered[slot] for slot in program.output_slots]
    operands = {value for step in graph.instructions for value in step.inputs} | set(outputs)
    used_inputs = [(v, leaf) for v, leaf in zip(inputs, leaves, strict=True) if v in operands]
    smaller = GraphProgram.from_graph(
        graph, outputs, name=program.name, inputs=[v for v, _ in used_inputs], guards=()
    )
    return Case(smaller, tuple([leaf for _, leaf in used_inputs]))


def _plainer(case: Case, number: int, holds: Callable[[Case], bool]) -> Case:
    """The leaf with ones wherever that changes nothing, by halves."""
    ranges = [(0, case.leaves[number].size)]
    while ranges:
        start, stop = ranges.pop()
        flat = case.leaves[number].ravel().copy()
        if stop <= start or (flat[start:stop] == 1).all():
            continue
        flat[start:stop] = 1
        leaves = list(case.leaves)
        leaves[number] = flat.reshape(case.leaves[number].shape)
        candidate = Case(case.program, tuple(leaves))
        if holds(candidate):
            case = candidate
        elif stop - start > 1:
            middle = (start + stop) // 2
            ranges += [(start, middle), (middle, stop)]
    return case
