"""Time and memory of a native run, measured instruction by instruction."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.exec.exec_program import ExecProgram
from tenferro.exec.run import execute
from tenferro.program import GraphProgram
from tenferro.program.profile import InstructionProfile, Profile

__all__ = ["measure"]


def measure(
    program: GraphProgram, compiled: ExecProgram, leaves: Sequence[Any], runs: int
) -> Profile:
    """Run `compiled`, which is `program`, that many times, and once before."""
    times: list[list[float]] = [[] for _ in compiled.instructions]
    memory: list[tuple[int, int, int]] = []
    for turn in range(runs + 1):
        slots: list[Any] = [None] * compiled.n_slots
        for slot, leaf in zip(compiled.input_slots, leaves, strict=True):
            slots[slot] = leaf
        memory = []
        with np.errstate(all="ignore"):
            for instruction, function, spent in zip(
                compiled.instructions, compiled.functions, times, strict=True
            ):
                taken = [slots[slot] for slot in instruction.input_slots]
                alive = _owners([*leaves, *slots]) if turn == runs else {}
                before = _owners(taken)
                start = time.perf_counter()
                execute(instruction, function, slots)
                seconds = time.perf_counter() - start
                if turn:
                    spent.append(seconds)
                made = [slots[slot] for slot in instruction.output_slots]
                after = _owners(made)
                memory.append(
                    (
                        sum(size for key, size in after.items() if key not in before),
                        sum(x.nbytes for x in (*taken, *made)),
                        sum({**alive, **after}.values()),
                    )
                )
    rows = [
        InstructionProfile(
            op=str(instruction.op),
            types=", ".join(map(str, instruction.output_types)),
            source=str(instruction.source or ""),
            seconds=statistics.median(spent),
            made_bytes=made,
            moved_bytes=moved,
            live_bytes=live,
        )
        for instruction, spent, (made, moved, live) in zip(
            compiled.instructions, times, memory, strict=True
        )
    ]
    return Profile(program, tuple(rows), runs)


def base_of(x: Any) -> Any:
    """The array that owns the memory."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


def _owners(arrays: Sequence[Any]) -> dict[int, int]:
    """Bytes of each piece of memory that the arrays are views of."""
    owners = [base_of(x) for x in arrays if x is not None]
    return {id(owner): owner.nbytes for owner in owners}
