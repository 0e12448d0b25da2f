"""Peak memory of a backward pass through a chain, with and without checkpoints.

`python benchmarks/checkpoint_memory.py`. Memory is counted in activations, the arrays between two layers. Plain
reverse mode saves one or two per layer. With a checkpoint around each group of sqrt(layers) layers, it saves about 2
sqrt(layers).
"""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import tenferro as tnf

LAYERS = 200
WIDTH = 100_000


def layers(count: int) -> Callable[[Any], Any]:
    """Return a function that applies `count` layers, each of which saves one value."""

    def fn(x: Any) -> Any:
        for _ in range(count):
            x = tnf.sin(x)
        return x

    return fn


def loss(grouped: bool) -> Callable[[Any], Any]:
    """Return the loss of the chain of layers; if `grouped`, each group of layers is a checkpoint."""
    group = math.isqrt(LAYERS)
    sizes = [group] * (LAYERS // group) + ([LAYERS % group] if LAYERS % group else [])

    def fn(x: Any) -> Any:
        for size in sizes:
            block = layers(size)
            x = (tnf.checkpoint(block) if grouped else block)(x)
        return tnf.sum(x)

    return fn


def measure(grouped: bool) -> tuple[float, float, Any]:
    """Run the gradient; return its peak memory in activations, its time in seconds, and the gradient."""
    x = np.linspace(-1, 1, WIDTH)
    program = tnf.compile(tnf.grad(loss(grouped)), x)
    executor = tnf.GraphExecutor()
    executor.compile(program)
    tracemalloc.start()
    began = time.perf_counter()
    gradient = executor.run(program, x)
    seconds = time.perf_counter() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / x.nbytes, seconds, gradient


if __name__ == "__main__":
    print(f"{LAYERS} layers, peak in activations of one layer")
    print("| reverse mode | peak | seconds |")
    print("| --- | --- | --- |")
    plain, plain_seconds, expected = measure(False)
    print(f"| plain | {plain:.0f} | {plain_seconds:.2f} |")
    grouped, grouped_seconds, gradient = measure(True)
    print(f"| checkpoints of {math.isqrt(LAYERS)} layers | {grouped:.0f} | {grouped_seconds:.2f} |")
    assert np.array_equal(gradient, expected)
