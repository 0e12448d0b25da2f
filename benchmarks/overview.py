"""Times of gradient programs by tnf.jit, PJRT and jax.jit in one process: to the first result, and of later runs.

python benchmarks/overview.py            prints the table
python benchmarks/overview.py --write    also writes it into README.md
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from interleaved import medians, show

import tenferro as tnf
from tenferro.program.profile import shown_seconds
from xla_peer import XlaExecutor

README = Path(__file__).resolve().parent.parent / "README.md"
RNG = np.random.default_rng(0)
SECONDS = 1.5


def scalars(n: Any, x: Any) -> Any:
    """Apply a hundred scalar ops to one number."""
    for _ in range(50):
        x = n.sin(x) * 1.01
    return x


def layers(n: Any, w: Any, x: Any) -> Any:
    """Return the sum of squares of the output of four dense layers of 128 features, for 256 rows."""
    for _ in range(4):
        x = n.tanh(x @ w)
    return n.sum(x * x)


def chain(n: Any, w: Any) -> Any:
    """Return the sum of the elements of a product of thirty matrices of 32 by 32."""
    y = w
    for _ in range(29):
        y = y @ w
    return n.sum(y)


def float32(*shape: int) -> Any:
    """Return random float32 numbers with a standard deviation of 1/12."""
    return (RNG.standard_normal(shape) / 12).astype(np.float32)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "100 scalar ops": (scalars, (np.float32(0.5),)),
    "4 dense layers, 256 x 128": (layers, (float32(128, 128), float32(256, 128))),
    "30 matrix products, 32 x 32": (chain, (float32(32, 32),)),
}


def contestants(fn: Any, args: tuple[Any, ...]) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Return a function for each contestant.

    Each call compiles the program, and returns a function that runs it once.
    """

    def native() -> Callable[[], Any]:
        function = tnf.jit(tnf.value_and_grad(lambda *xs: fn(tnf, *xs)))
        return lambda: function(*args)

    def peer() -> Callable[[], Any]:
        program = tnf.compile(tnf.value_and_grad(lambda *xs: fn(tnf, *xs)), *args)
        executor = XlaExecutor("cpu")
        return lambda: executor.run(program, *args)

    def jitted() -> Callable[[], Any]:
        function = jax.jit(jax.value_and_grad(lambda *xs: fn(jnp, *xs)))
        return lambda: jax.tree.map(np.asarray, function(*args))

    return {"tnf.jit": native, "PJRT": peer, "jax.jit": jitted}


def measured(fn: Any, args: tuple[Any, ...]) -> dict[str, tuple[float, float]]:
    """Return two times for each contestant, in seconds.

    They are the time to the first result, tracing and compiling included, and the median of later runs in
    alternation.
    """
    runs: dict[str, Callable[[], Any]] = {}
    first: dict[str, float] = {}
    for name, ready in contestants(fn, args).items():
        start = time.perf_counter()
        runs[name] = ready()
        runs[name]()
        first[name] = time.perf_counter() - start
    later = medians(runs, SECONDS)
    return {name: (first[name], later[name]) for name in runs}


def table() -> str:
    """Measure all programs, and return a Markdown table with a row for each."""
    # Start every compiler before the measurements, so that no time to a first result includes the start.
    jax.jit(lambda x: x + 1)(np.ones(2))
    tnf.jit(lambda x: x + 1)(np.ones(2))
    XlaExecutor("cpu")
    names = ["tnf.jit", "PJRT", "jax.jit"]
    lines = [
        "| value and gradient, float32 | "
        + " | ".join(f"{name}, first" for name in names)
        + " | "
        + " | ".join(f"{name}, then" for name in names)
        + " |",
        "| --- |" + " --- |" * 6,
    ]
    for title, (fn, args) in CASES.items():
        seconds_of = measured(fn, args)
        cells = [shown_seconds(seconds_of[name][part]) for part in (0, 1) for name in names]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    show(table(), README, "overview")
