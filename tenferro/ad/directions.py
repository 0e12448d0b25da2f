"""Random directions on which derivatives are checked, and the inner product of tangents and cotangents."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["direction_generator", "inner_product", "random_direction"]

STREAM = 0x64697265
"""Second seed of random directions, which makes them differ from tensors drawn by `np.random.default_rng(seed)`.

If a direction equalled the tensor itself, the directional derivative of a scale-invariant function would be zero, and
the check could not find an error.
"""


def direction_generator(seed: int) -> np.random.Generator:
    """Return the random generator that draws the directions for a check with the seed `seed`."""
    return np.random.default_rng((seed, STREAM))


def random_direction(generator: np.random.Generator, x: Any) -> Any:
    """Draw normal numbers in the shape and dtype of x; if x is complex, draw both the real and the imaginary parts."""
    values = generator.normal(size=x.shape)
    if x.dtype.kind == "c":
        values = values + 1j * generator.normal(size=x.shape)
    return np.asarray(values).astype(x.dtype)


def inner_product(a: Any, b: Any) -> float:
    """<a, b> = sum Re(conj(a) b), in double precision."""
    a, b = np.asarray(a), np.asarray(b)
    wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    return float(np.sum((np.conj(a.astype(wide)) * b.astype(wide)).real))
