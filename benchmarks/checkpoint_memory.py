"""Peak memory of a backward pass through a chain of layers, with and without checkpoints.

Run `python benchmarks/checkpoint_memory.py`. The unit of memory is one activation, the array between two layers.
Reverse mode without checkpoints saves one or two activations per layer. With a checkpoint around each group of
sqrt(layers) layers, it saves about 2 sqrt(layers) in all.
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
    """Return a function that applies `count` layers, each of which saves one array for the backward pass."""

    def fn(x: Any) -> Any:
        for _ in range(count):
            x = tnf.sin(x)
        return x

    return fn


def loss(grouped: bool) -> Callable[[Any], Any]:
    """Return the loss of the chain of layers. If `grouped`, each group of layers is a checkpoint."""
    group = math.isqrt(LAYERS)
    sizes = [group] * (LAYERS // group) + ([LAYERS % group] if LAYERS % group else [])

    def fn(x: Any) -> Any:
        for size in sizes:
            block = layers(size)
            x = (tnf.checkpoint(block) if grouped else block)(x)
        return tnf.sum(x)

    return fn


def measure(grouped: bool) -> tuple[float, float, Any]:
    """Run the gradient program; return its peak memory in activations, its time in seconds, and the gradient."""
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
