"""Times of programs on small arrays, relative to NumPy calls by hand.

Each program runs compiled, as printed Python, and interpreted.

python benchmarks/small_programs.py            prints the table
python benchmarks/small_programs.py --write    also writes it into docs/performance.md
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from interleaved import medians, show

import tenferro as tnf

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
SECONDS = 4.0


def chain(n: Any, x: Any) -> Any:
    """Apply a thousand ops, alternately additions and products."""
    y = x
    for _ in range(500):
        y = n.multiply(n.add(y, x), x)
    return y


def scalars(n: Any, x: Any) -> Any:
    """Apply a hundred ops to one number."""
    for _ in range(50):
        x = n.multiply(n.sin(x), x)
    return x


def arithmetic(n: Any, x: Any) -> Any:
    """Apply twelve arithmetic operations."""
    y = x
    for _ in range(4):
        y = n.subtract(n.multiply(n.add(y, x), x), y)
    return y


def transcendental(n: Any, x: Any) -> Any:
    """Apply twelve operations. Most of them are transcendental functions."""
    y = x
    for _ in range(3):
        y = n.sqrt(n.add(n.exp(n.tanh(y)), 1.0))
    return y


SENDERS, RECEIVERS = np.random.default_rng(0).integers(0, 10, (2, 30))
WEIGHTS = np.random.default_rng(1).standard_normal((4, 4))


def messages(n: Any, x: Any) -> Any:
    """Apply three layers of a graph network.

    A layer computes a message along each edge, and sums the messages at each node.
    """
    for _ in range(3):
        along = n.tanh((x[SENDERS] - x[RECEIVERS]) @ WEIGHTS)
        if n is np:
            total = np.zeros_like(x)
            np.add.at(total, RECEIVERS, along)
        else:
            total = tnf.at(tnf.zeros_like(x))[RECEIVERS].add(along)
        x = x + total
    return n.sum(x * x)


def layers(n: Any, x: Any) -> Any:
    """Apply softmax, subtraction of a mean, and sorting to each of ten rows, four times."""
    for _ in range(4):
        y = n.exp(x - n.max(x, axis=1, keepdims=True))
        y = y / n.sum(y, axis=1, keepdims=True)
        mean = n.sum(y, axis=1, keepdims=True) / 4.0
        x = n.sort(y - mean, axis=1)[:, ::-1] + x
    return x


def likelihood(n: Any, x: Any) -> Any:
    """Return the log likelihood of a Gaussian process whose observations at the points x are sin(3 x)."""
    gram = n.exp(-(((x[:, None] - x) / 0.3) ** 2)) + 0.1 * n.eye(len(x))
    factor = n.linalg.cholesky(gram)
    y = n.sin(3.0 * x)
    return -0.5 * (y @ n.linalg.solve(gram, y)) - n.sum(n.log(n.diagonal(factor)))


MOVES = np.eye(4) + 0.1 * np.eye(4, k=2)
SEES, NOISE = np.eye(2, 4), 0.3 * np.eye(2)


def update(n: Any, x: Any) -> Any:
    """Return the mean and the covariance after one step of a Kalman filter.

    The state has four components, two of which are observed.
    """
    mean, covariance = MOVES @ x[0], MOVES @ x[1:] @ MOVES.T + 0.01 * n.eye(4)
    seen = SEES @ covariance @ SEES.T + NOISE
    gain = n.linalg.solve(seen, SEES @ covariance).T
    mean = mean + gain @ (n.ones(2) - SEES @ mean)
    return mean, covariance - gain @ seen @ gain.T


CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "1,000 ops on float64[8]": (chain, np.full(8, 0.9)),
    "1,000 ops on float64[1000]": (chain, np.full(1000, 0.9)),
    "100 ops on one float64": (scalars, np.float64(0.3)),
    "3 layers on a graph of 10 nodes": (messages, np.linspace(0, 1, 40).reshape(10, 4)),
    "4 layers of softmax and sort on float64[10, 4]": (
        layers,
        np.linspace(0, 1, 40).reshape(10, 4),
    ),
    "likelihood of a Gaussian process of 20 points": (likelihood, np.linspace(0, 1, 20)),
    "step of a Kalman filter of 4 states": (update, np.eye(5, 4) + 0.1),
    "12 arithmetic ops on float64[4,000,000]": (arithmetic, np.full(4_000_000, 0.9)),
    "12 transcendental ops on float64[4,000,000]": (transcendental, np.full(4_000_000, 0.9)),
}


def table() -> str:
    """Measure all programs, and return a Markdown table with a row for each."""
    lines = [
        "| | NumPy by hand | first result, compiled | compiled, ratio | printed, ratio | interpreted, ratio |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for title, (fn, x) in CASES.items():
        program = tnf.compile(lambda x, fn=fn: fn(tnf, x), x)
        executors = {
            "compiled": tnf.GraphExecutor("K", compiled="jit"),
            "printed": tnf.GraphExecutor("K", compiled="loops"),
            "interpreted": tnf.GraphExecutor("K", compiled="loops", segmented=False),
        }
        runs: dict[str, Callable[[], Any]] = {
            name: lambda executor=executor, program=program, x=x: executor.run(program, x)
            for name, executor in executors.items()
        }
        start = time.perf_counter()
        runs["compiled"]()
        first = time.perf_counter() - start
        runs["hand"] = lambda fn=fn, x=x: fn(np, x)
        for run in [*runs.values()] * 3:  # because the second run compiles
            run()
        times = medians(runs, SECONDS)
        hand = times["hand"]
        ratios = [f"{times[name] / hand:.2f}" for name in executors]
        lines.append(
            f"| {title} | {hand * 1e6:.0f} us | {first * 1e3:.1f} ms | {' | '.join(ratios)} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    show(table(), PAGE, "small programs")
