"""Stencil: compiles a sum of padded arrays, with the expressions that are padded, to one step.

An example is the gradient of finite differences along several axes. Before padding, its terms have different shapes,
so they cannot be in one fused group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any

from tenferro import costs
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.plan.block import compiled_step
from tenferro.exec.plan.group import VIEWS
from tenferro.exec.plan.place import free
from tenferro.exec.planned import Block
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.ops.structural import Pad
from tenferro.program import GraphProgram

__all__ = ["stencil"]

KIND = "stencil"
"""Name of stencils in the executor's compile statistics."""
MIN_PADS = 2
"""Minimum number of padded arrays in a stencil."""


def stencil(program: ExecProgram, compiler: LoopCompiler) -> ExecProgram:
    """Return the schedule in which each sum of large padded arrays is one compiled step."""
    steps = program.instructions
    pads = [
        n for n, step in enumerate(steps)
        if type(step.op) is Pad and step.output_types[0].is_static and step.output_types[0].size >= costs.SMALL
    ]  # fmt: skip
    if len(pads) < MIN_PADS:
        return program
    readers = program.readers()
    makers = {slot: n for n, step in enumerate(steps) for slot in step.output_slots}
    compiled: dict[int, ExecInstruction] = {}
    inside: set[int] = set()
    for root in sorted({_root(program, readers, number) for number in pads}, reverse=True):
        numbers = [] if root in inside else _cone(program, readers, makers, root)
        if len([n for n in numbers if type(steps[n].op) is Pad]) < MIN_PADS:
            continue
        with suppress(NotCompiledError), compiler.log.attempt(KIND):
            compiled[root] = _step(program, [steps[n] for n in numbers], compiler)
            inside.update(numbers)
    kept = [
        compiled.get(n, step) for n, step in enumerate(steps) if n in compiled or n not in inside
    ]
    return free(replace(program, instructions=tuple(kept))) if compiled else program


def _fits(step: ExecInstruction) -> bool:
    """Return whether a step may be in a stencil, where each reader of an element computes the element again."""
    from tenferro.exec.llvm.control import COMPILED  # because few programs pad
    from tenferro.exec.llvm.stencil import CUTS

    types = *step.input_types, *step.output_types
    if step.planned is not None or len(step.output_types) != 1:
        return False
    if not all([spec.is_static and spec.size and not spec.dtype.is_complex for spec in types]):
        return False
    op: Any = step.op
    if type(op) in CUTS:
        is_dense = set(getattr(op, "strides", ())) <= {1} and not any(getattr(op, "interior", ()))
        return is_dense and min((*getattr(op, "low", ()), *getattr(op, "high", ())), default=0) >= 0
    if step.is_elementwise:
        is_cheap = costs.COSTS.cell(op).elements >= costs.ELEMENTS
        is_cheap = is_cheap and all([x.shape == types[-1].shape for x in step.input_types])
        return is_cheap and not COMPILED.cell(op).reason_for(op, step.input_types)
    return type(op) in VIEWS and step.input_types[0].size == 1


def _root(program: ExecProgram, readers: Mapping[int, Sequence[int]], number: int) -> int:
    """Return the last step of a chain of elementwise steps after a Pad, each the only reader of the step before it."""
    steps = program.instructions
    while True:
        following = readers.get(steps[number].output_slots[0], ())
        if len(following) != 1 or following[0] < 0:
            return number
        step = steps[following[0]]
        if not (step.is_elementwise and _fits(step)):
            return number
        number = following[0]


def _cone(
    program: ExecProgram, readers: Mapping[int, Sequence[int]], makers: Mapping[int, int], root: int
) -> list[int]:
    """Return, in order, the root and the steps whose results only the root and other steps of the stencil read."""
    steps = program.instructions
    cone, seen = {root}, {root}
    left = [-makers[slot] for slot in steps[root].input_slots if slot in makers]
    heapify(left)
    while left:
        number = -heappop(left)  # the last step, all of whose readers have been visited
        step = steps[number]
        if number in seen:
            continue
        seen.add(number)
        if not _fits(step) or not cone.issuperset(readers[step.output_slots[0]]):
            continue
        cone.add(number)
        for slot in step.input_slots:
            if slot in makers:
                heappush(left, -makers[slot])
    return sorted(cone)


def _step(
    program: ExecProgram, steps: Sequence[ExecInstruction], compiler: LoopCompiler
) -> ExecInstruction:
    from tenferro.exec.llvm.compiled import CompiledFunction
    from tenferro.exec.llvm.stencil import strip_height, written_stencil

    (y,) = steps[-1].output_types

    def compiled(op: Block, inside: GraphProgram) -> Any:
        starts = range(0, y.shape[0], strip_height(y))
        written = written_stencil(inside, compiler.linker.processor)
        interpreted = partial(op.function, program.kernels)
        none, resources = slice(0, 0), program.kernels.resources
        return CompiledFunction(
            KIND, written, (y,), none, resources, compiler.linker, interpreted, starts
        )

    row_major = replace(program, axes={}, order="K")  # the function copies other layouts
    return compiled_step(row_major, steps, steps[-1].output_slots, compiled)
