"""Time of one iteration of a loop: `python benchmarks/loops/one_iteration.py [--write]`.

With `--write`, the table is written into docs/control.md. The bodies of the loops have 1, 5 and 20 elementwise ops on
one carry, alternately a square root and an addition of 1. Each loop is timed at two lengths. The difference of the
times, divided by the difference of the lengths, excludes the fixed cost of a loop.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

import numpy as np  # because the environment must be set before NumPy loads
from interleaved import show

import tenferro as tnf

PAGE = Path(__file__).resolve().parents[2] / "docs" / "control.md"
BODIES = 1, 5, 20
SHAPES = (), (32,), (10_000,)
ITERATIONS = {"natively": (300, 300, 60), "PJRT": (30_000, 3000, 60)}
"""Difference of the two loop lengths, for each shape of the carry.

XLA's iterations are short, so their time can be measured only for longer loops.
"""
BLOCKS = 7
"""Number of repetitions of a measurement. The fastest repetition counts."""


def body(n: Any, y: Any, ops: int) -> Any:
    """Apply `ops` elementwise operations, chosen so that repeated iterations neither overflow nor reach zero."""
    for k in range(ops):
        y = 1 + y if k % 2 else n.sqrt(y)
    return y


def scan(y: Any, ops: int, rounds: int) -> Any:
    """Run a `scan` without stacked results, with `ops` operations per iteration."""
    return tnf.scan(lambda c, _: (body(tnf, c, ops), None), y, length=rounds)[0]


def fori_loop(y: Any, ops: int, rounds: int) -> Any:
    """Run a `fori_loop` with Python numbers as bounds, with `ops` operations per iteration."""
    return tnf.fori_loop(0, rounds, lambda _, c: body(tnf, c, ops), y)


def while_loop(y: Any, ops: int, rounds: int) -> Any:
    """Run a `while_loop` with a counter in the carry, with `ops` operations per iteration."""
    return tnf.while_loop(
        lambda c: c[0] < rounds, lambda c: (c[0] + 1, body(tnf, c[1], ops)), (0, y)
    )[1]


def by_hand(y: Any, ops: int, rounds: int) -> Any:
    """Run a Python loop, with `ops` NumPy operations per iteration."""
    for _ in range(rounds):
        y = body(np, y, ops)
    return y


Loop = Callable[[Any, int, int], Any]
LOOPS: dict[str, Loop] = {"scan": scan, "fori_loop": fori_loop, "while_loop": while_loop}


def compiled(
    loop: Loop, ops: int, rounds: int, executor: Any, gradient: bool
) -> Callable[..., Any]:
    """Return a compiled loop or, if `gradient`, the compiled gradient of the sum of squares of its final carry."""
    if gradient:
        return tnf.jit(tnf.grad(lambda y: tnf.sum(loop(y, ops, rounds) ** 2)), executor=executor)
    return tnf.jit(lambda y: loop(y, ops, rounds), executor=executor)


def microseconds(call: Callable[[int], Callable[[], Any]], rounds: int) -> float:
    """Return the microseconds of one iteration.

    `call(n)` returns a function that runs a loop of n iterations.
    """
    short, long = call(rounds // 10), call(rounds // 10 + rounds)
    for run in (short, long) * 2:
        run()
    spent = [min(_seconds(run) for _ in range(BLOCKS)) for run in (short, long)]
    return 1e6 * max(0.0, spent[1] - spent[0]) / rounds


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def row(name: str, loop: Loop, executor: Any, rounds: tuple[int, ...], gradient: bool) -> str:
    """Return a row of the table.

    Each shape has a column, and each column a number for each loop body.
    """
    columns: list[str] = []
    for shape, more in zip(SHAPES, rounds, strict=True):
        y = np.ones(shape)
        each: list[str] = []
        for ops in BODIES:

            def call(rounds: int, y: Any = y, ops: int = ops) -> Callable[[], Any]:
                if executor is None:
                    return lambda: loop(y, ops, rounds)
                run = compiled(loop, ops, rounds, executor, gradient)
                return lambda: run(y)

            each.append(f"{microseconds(call, more):.3g}")
        columns.append(", ".join(each))
    return f"| {name} | {' | '.join(columns)} |"


def table() -> str:
    """Return the table of microseconds per iteration."""
    from xla_peer import XlaExecutor

    heads = " | ".join(f"`float64[{', '.join(map(str, shape))}]`" for shape in SHAPES)
    lines = [f"| | {heads} |", f"|{' --- |' * (1 + len(SHAPES))}"]
    peers = {"natively": tnf.GraphExecutor(), "PJRT": XlaExecutor("cpu", notices=False)}
    for name, loop in LOOPS.items():
        for peer, executor in peers.items():
            lines.append(row(f"`{name}`, {peer}", loop, executor, ITERATIONS[peer], False))
    # Only scan and fori_loop have gradients: while_loop does not support reverse mode.
    for name in ("scan", "fori_loop"):
        for peer, executor in peers.items():
            lines.append(
                row(f"`{name}`, gradient, {peer}", LOOPS[name], executor, ITERATIONS[peer], True)
            )
    return "\n".join([*lines, row("NumPy by hand", by_hand, None, ITERATIONS["natively"], False)])


if __name__ == "__main__":
    show(table(), PAGE, "iterations")
