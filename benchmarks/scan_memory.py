"""Planned and measured memory of the gradient of a long scan: `python benchmarks/scan_memory.py`.

The scan has a million iterations. Each is one step of a damped oscillator, whose state has two numbers. The planned
memory is the size of the arrays that the program's loops stack, as shown by `program.to_html()` and profiles. The
measured memory is the peak of one run, by tracemalloc.
"""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
from interleaved import show

import tenferro as tnf
from tenferro.ops.control import ControlOp
from tenferro.program.tape import tapes_of

TURNS = 1_000_000
PAGE = Path(__file__).parents[1] / "docs" / "autodiff.md"


def loss(levels: int) -> Any:
    """Return a function of the first state and the spring's constants that computes the energy of the last state.

    Its scan has `levels` nested levels of checkpoints.
    """

    def iteration(state: Any, _: Any, k: Any) -> Any:
        x, v = state[0], state[1]
        v = v - 1e-3 * (tnf.sin(x) * k[0] + v * k[1])
        return tnf.stack([x + 1e-3 * v, v]), None

    def fn(start: Any, k: Any) -> Any:
        body = lambda state, x: iteration(state, x, k)
        if levels:
            body = tnf.checkpoint(body, levels=levels)
        return tnf.sum(tnf.scan(body, start, None, length=TURNS)[0] ** 2)

    return fn


def planned(program: Any) -> int:
    """Return the size, in bytes, of the arrays that a program's loops stack for the backward pass.

    An inner loop counts once, however often it runs.
    """
    inner = [
        part.program
        for step in program.instructions
        if isinstance(step.op, ControlOp)
        for part in step.op.parts
    ]
    return sum(tape.nbytes for tape in tapes_of(program).values()) + sum(map(planned, inner))


def table() -> str:
    """Return a table with a row for each number of checkpoint levels."""
    start, k = np.array([1.0, 0.0]), np.array([1.0, 0.1])
    lines = ["| a million iterations | planned | measured | seconds |", "| --- | --- | --- | --- |"]
    expected = None
    for levels in (0, 1, 2, 3):
        program = tnf.compile(tnf.grad(loss(levels), (0, 1)), start, k)
        executor = tnf.GraphExecutor("K", memory_bytes=0)
        executor.compile(program)
        tracemalloc.start()
        began = time.perf_counter()
        gradient = np.concatenate(executor.run(program, start, k))
        seconds = time.perf_counter() - began
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        expected = gradient if expected is None else expected
        assert np.allclose(gradient, expected, rtol=1e-12)
        name = f"`checkpoint(levels={levels})`" if levels else "plain"
        lines.append(f"| {name} | {planned(program):,} B | {peak:,} B | {seconds:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    show(table(), PAGE, "scan memory")
