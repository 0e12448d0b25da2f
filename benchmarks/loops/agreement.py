"""Comparison of all contestants' results on small inputs. The reference is the handwritten NumPy version."""

from __future__ import annotations

from typing import Any

import numpy as np
import optree
from contestants import CONTESTANTS
from kernel import Kernel

__all__ = ["check", "directional_difference", "distance"]


def check(kernels: list[Kernel], names: list[str]) -> int:
    """Compare the results of all contestants with the reference, and print a line for each kernel.

    Return 1 if a result disagrees, else 0.
    """
    wrong = 0
    for kernel in kernels:
        arguments = kernel.arguments(kernel.small)
        parts: list[str] = []
        for gradient in (False, True) if kernel.gradient is not None else (False,):
            if gradient:
                run = CONTESTANTS["jax"](kernel, arguments, True)
                expected = None if run is None else run()
            else:
                expected = kernel.numpy(*arguments)
            for name in names:
                run = CONTESTANTS[name](kernel, arguments, gradient)
                if run is None or expected is None:
                    continue
                far = distance(run(), expected)
                if not far <= kernel.tolerance:
                    wrong = 1
                    what = "gradient" if gradient else "value"
                    parts.append(f"{name}: {what} is off by {far:.1e}")
        print(f"{kernel.name:24s} {'; '.join(parts) or 'agrees'}", flush=True)
    return wrong


def distance(results: Any, expected: Any) -> float:
    """Return the largest difference between results and expected results.

    A difference is divided by the largest element of the expected array, or by 1 if all its elements are smaller.
    """
    ours, theirs = optree.tree_leaves(results), optree.tree_leaves(expected)
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} results, expected {len(theirs)}")
    worst = 0.0
    for x, y in zip(ours, theirs, strict=True):
        a, b = np.asarray(x), np.asarray(y)
        if a.shape != b.shape:
            raise ValueError(f"result of shape {a.shape}, expected {b.shape}")
        if a.size:
            scale = max(1.0, float(np.max(np.abs(b))))
            worst = max(worst, float(np.max(np.abs(a - b))) / scale)
    return worst


def directional_difference(
    kernel: Kernel, arguments: tuple[Any, ...], step: float = 1e-6
) -> tuple[Any, float]:
    """Return a random direction, and a central difference of the loss in this direction.

    The loss is the sum of squares of the NumPy version's first result.
    """
    place = [k for k, x in enumerate(arguments) if not isinstance(x, int)][kernel.gradient or 0]
    direction = np.random.default_rng(1).standard_normal(np.shape(arguments[place]))

    def loss(sign: float) -> float:
        moved = list(arguments)
        moved[place] = arguments[place] + sign * step * direction
        results = kernel.numpy(*moved)
        first = results[0] if isinstance(results, tuple) else results
        return float(np.sum(np.square(first)))

    return direction, (loss(1.0) - loss(-1.0)) / (2 * step)
