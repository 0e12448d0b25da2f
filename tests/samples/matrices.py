"""Matrices for several tests of linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np

DTYPES = ["float32", "float64", "complex64", "complex128"]
"""Dtypes that LAPACK's routines support."""


def general(*shape: int, dtype: Any = "float64") -> Any:
    """Return normally distributed numbers. They depend only on the shape, so that every run has the same numbers."""
    rng = np.random.default_rng(shape)
    x = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def adjoint(x: Any) -> Any:
    """Return the conjugate transpose of the last two axes."""
    return x.swapaxes(-1, -2).conj()
