"""Overhead of an eager operation over a plain NumPy call, compared with torch and autograd.

python benchmarks/eager.py            prints the table
python benchmarks/eager.py --write    also writes it into docs/performance.md

Each library runs a hundred operations on float64[8]. The overhead is the processor time of one operation minus that
of the NumPy call. The table has the overhead in microseconds, followed by the overhead divided by the time of np.add
on the same arrays.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
import torch
from interleaved import medians, show

import tenferro as tnf

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
SECONDS = 4.0
COUNT = 100
RT = tnf.EagerRuntime()

OPS: dict[str, Callable[[Any, Any], Any]] = {
    "x + y": lambda n, x: x + x,
    "x * 2.0": lambda n, x: x * 2.0,
    "exp(x)": lambda n, x: n.exp(x),
    "sum(x)": lambda n, x: n.sum(x),
    "mean(x)": lambda n, x: n.mean(x),
    "x @ x": lambda n, x: x @ x,
    "reshape(x, (2, 4))": lambda n, x: n.reshape(x, (2, 4)),
    "x[2:6]": lambda n, x: x[2:6],
}


def repeated(op: Callable[[Any, Any], Any], n: Any, x: Any) -> Callable[[], None]:
    """Return a function that runs the operation a hundred times and discards the results."""

    def run() -> None:
        for _ in range(COUNT):
            op(n, x)

    return run


def recorded(op: Callable[[Any, Any], Any]) -> Callable[[], None]:
    """Return a function that computes a gradient with autograd, which records a hundred runs of the operation."""

    def scalar(x: Any) -> Any:
        for _ in range(COUNT):
            op(anp, x)
        return anp.sum(x)

    return lambda: autograd.make_vjp(scalar)(np.ones(8))


def table() -> str:
    """Return a table of the overheads, with a row for each operation."""
    x = np.ones(8)
    names = ("tenferro", "torch", "tenferro, tracked", "torch, tracked", "autograd, tracked")
    lines = ["| operation | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
    for title, op in OPS.items():
        tracked = torch.ones(8, dtype=torch.float64, requires_grad=True)
        times = medians(
            {
                "numpy": repeated(op, np, x),
                "add": repeated(lambda n, x: n.add(x, x), np, x),
                "tenferro": repeated(op, tnf, RT.constant(x)),
                "torch": repeated(op, torch, torch.ones(8, dtype=torch.float64)),
                "tenferro, tracked": repeated(op, tnf, RT.variable(x)),
                "torch, tracked": repeated(op, torch, tracked),
                "autograd, tracked": recorded(op),
            },
            SECONDS,
            time.thread_time,
        )
        over = {name: (times[name] - times["numpy"]) for name in names}
        cells = [
            f"{seconds / COUNT * 1e6:.1f} us, {seconds / times['add']:.0f}"
            for seconds in over.values()
        ]
        lines.append(f"| `{title}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    show(table(), PAGE, "eager")
