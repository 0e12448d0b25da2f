"""Measurement of the time and memory of each instruction of a native run, also in bodies of loops and conditionals."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tenferro.exec.interpreter import interpret
from tenferro.exec.runtime.numpy_state import numpy_state
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.program import GraphProgram
from tenferro.program.profile import InstructionProfile, Profile

__all__ = ["measure"]


def measure(
    program: GraphProgram, schedule: ExecProgram, leaves: Sequence[Any], runs: int
) -> Profile:
    """Return the times and memory of the instructions in `runs` runs, after one run that is not counted."""
    spent: list[dict[int, _Spent]] = []
    for _ in range(runs + 1):
        spent.append({})
        with numpy_state():
            interpret(schedule, leaves, partial(_timed, spent[-1], dict(enumerate(leaves))))
    return Profile(program, tuple(_rows(schedule, spent, 0)), runs)


@dataclass
class _Spent:
    """Time and memory of one instruction in one run.

    Attributes:
        seconds: the total time of its executions.
        executions: the number of its executions.
        new_bytes: the size of the new buffers in its last execution.
        moved_bytes: the size of its operands and results in its last execution.
        live_bytes: the size of all live buffers after its last execution.
    """

    seconds: float = 0.0
    executions: int = 0
    new_bytes: int = 0
    moved_bytes: int = 0
    live_bytes: int = 0


def _timed(
    spent: dict[int, _Spent],
    alive: dict[Any, Any],
    program: ExecProgram,
    step: ExecInstruction,
    operands: Sequence[Any],
    call: Callable[..., Any],
) -> Sequence[Any]:
    """Run a step, record its time and memory, and return its results.

    Args:
        spent: the records of the run, by the `id` of the instruction.
        alive: the live arrays, by schedule and slot; the arguments by their number.
    """
    before = _owners(operands)
    start = time.perf_counter()
    results = call(operands)
    seconds = time.perf_counter() - start
    after = _owners(results)
    record = spent.setdefault(id(step), _Spent())
    record.seconds += seconds
    record.executions += 1
    record.new_bytes = sum([size for key, size in after.items() if key not in before])
    record.moved_bytes = sum([x.nbytes for x in (*operands, *results)])
    alive.update({(id(program), s): y for s, y in zip(step.output_slots, results, strict=True)})
    record.live_bytes = sum(_owners([*alive.values()]).values())
    for slot in step.frees:
        alive.pop((id(program), slot), None)
    return results


def _rows(
    schedule: ExecProgram, runs: Sequence[Mapping[int, _Spent]], depth: int
) -> Iterator[InstructionProfile]:
    """Yield a record for each instruction; after a loop, yield the records of its bodies."""
    for step in schedule.instructions:
        spent = [run.get(id(step), _Spent()) for run in runs]
        yield InstructionProfile(
            op=str(step.op),
            types=", ".join(map(str, step.output_types)),
            source=str(step.source or ""),
            seconds=statistics.median([each.seconds for each in spent[1:]]),
            made_bytes=spent[-1].new_bytes,
            moved_bytes=spent[-1].moved_bytes,
            live_bytes=spent[-1].live_bytes,
            depth=depth,
            executions=spent[-1].executions,
        )
        for part in step.bodies:
            yield from _rows(part, runs, depth + 1)


def _owners(arrays: Sequence[Any]) -> dict[int, int]:
    """Return the sizes of the distinct buffers that contain the arrays, by the `id` of the buffer."""
    sizes: dict[int, int] = {}
    for x in arrays:
        while isinstance(getattr(x, "base", None), np.ndarray):
            x = x.base
        if x is not None:
            sizes[id(x)] = x.nbytes
    return sizes
