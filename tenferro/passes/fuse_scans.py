"""Fuse scans: merge two scans with the same iterations into one, so that the second need not read stacks of the first.

Law: the bits of results do not change. The tangent of a scan is a second scan, which reads the residuals that the
first scan stacks. Both scans iterate in the same order. One loop can use each residual as soon as it is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenferro.graph import Graph, Instruction
from tenferro.ops.control import Scan
from tenferro.program import GraphProgram, Subprogram, dependents, makers
from tenferro.program.rewrite import merged

__all__ = ["fuse_scans"]


def fuse_scans(program: GraphProgram) -> GraphProgram:
    """Return the program in which a scan is merged with an earlier scan, if it reads only stacks of that scan."""
    while (pair := next(_pairs(program), None)) is not None:
        program = _fused(program, *pair)
    return program


def _pairs(program: GraphProgram) -> Iterator[tuple[int, int, set[int]]]:
    """Yield the positions of two scans that can be merged.

    The third element is the set of values between the scans that depend on the first scan.
    """
    instructions = program.instructions
    scans = {id(step): number for number, step in enumerate(instructions) if _is_plain(step)}
    if len(scans) < 2:
        return
    maker_of = makers(instructions)
    step: Any
    for second, step in enumerate(instructions):
        if id(step) not in scans:
            continue
        for slot in step.inputs[step.op.first_xs :]:
            source = maker_of.get(slot)
            first = None if source is None else scans.get(id(source))
            if first is None:
                continue
            a = instructions[first]
            later = dependents(instructions[first + 1 : second], a.outputs)
            if _can_merge(a, step, later):
                yield first, second, later
                break


def _is_plain(step: Instruction) -> bool:
    op = step.op
    return isinstance(op, Scan) and isinstance(op.length, int) and not op.has_effects


def _can_merge(a: Any, b: Any, later: set[int]) -> bool:
    """Return whether iteration i of scan b depends on scan a only by its iteration i; values in `later` depend on a."""
    if (a.op.length, a.op.reverse) != (b.op.length, b.op.reverse):
        return False
    stacks = set(a.outputs[a.op.num_carry :])
    return not any([
        slot in later and not (slot in stacks and position >= b.op.first_xs)
        for position, slot in enumerate(b.inputs)
    ])  # fmt: skip


def _fused(program: GraphProgram, first: int, second: int, later: set[int]) -> GraphProgram:
    """Return the program with the scans at positions `first` and `second` merged."""
    a: Any = program.instructions[first]
    b: Any = program.instructions[second]

    def write(graph: Graph, values: list[int]) -> None:
        op, operands = _both(a, b)
        results = graph.add(op, tuple([values[slot] for slot in operands]), b.source or a.source)
        m, n = a.op.num_carry, b.op.num_carry
        stacks = n + len(a.outputs)
        of_first = [*results[:m], *results[m + n : stacks]]
        of_second = [*results[m : m + n], *results[stacks:]]
        for slots, outputs in ((a.outputs, of_first), (b.outputs, of_second)):
            for slot, value in zip(slots, outputs, strict=True):
                values[slot] = value

    return merged(program, first, second, later, write)


def _both(a: Any, b: Any) -> tuple[Scan, list[int]]:
    """Return the scan that merges scans a and b, and its operands: the constants, carries and input slices of both."""
    position = {slot: index for index, slot in enumerate(a.outputs)}
    first = b.op.first_xs
    operands = [
        *a.inputs[: a.op.num_consts],
        *b.inputs[: b.op.num_consts],
        *a.inputs[a.op.num_consts : a.op.first_xs],
        *b.inputs[b.op.num_consts : b.op.first_xs],
        *a.inputs[a.op.first_xs :],
        *[slot for slot in b.inputs[first:] if slot not in position],
    ]
    graph = Graph()

    def inputs_of(step: Any, start: int, stop: int) -> list[int]:
        return [graph.add_input(spec) for spec in step.op.body.input_specs[start:stop]]

    consts = [inputs_of(step, 0, step.op.num_consts) for step in (a, b)]
    carries = [inputs_of(step, step.op.num_consts, step.op.first_xs) for step in (a, b)]
    slices = inputs_of(a, a.op.first_xs, len(a.inputs))
    ours = a.op.body.emit(graph, [*consts[0], *carries[0], *slices])
    reads = [
        ours[position[slot]] if slot in position else graph.add_input(spec)
        for slot, spec in zip(b.inputs[first:], b.op.body.input_specs[first:], strict=True)
    ]
    own = [
        value for value, slot in zip(reads, b.inputs[first:], strict=True) if slot not in position
    ]
    theirs = b.op.body.emit(graph, [*consts[1], *carries[1], *reads])
    m, n = a.op.num_carry, b.op.num_carry
    body = Subprogram.of(
        graph,
        [*consts[0], *consts[1], *carries[0], *carries[1], *slices, *own],
        [*ours[:m], *theirs[:n], *ours[m:], *theirs[n:]],
    )
    num_consts = a.op.num_consts + b.op.num_consts
    return Scan(body, a.op.length, num_consts, m + n, a.op.reverse), operands
