"""Kernels: loops written from their public definitions, for each contestant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Kernel"]


@dataclass(frozen=True)
class Kernel:
    """One row of the table.

    Attributes:
        source: the public definition from which it is written.
        inputs: `inputs(rng, *size)` returns the arguments. Python integers among them are iteration counts, known
            when the kernel is traced.
        traced: `traced(n, *arguments)`, where `n` is tenferro or `jax.numpy` with JAX's loops, which have equal names
            and signatures.
        numpy: a handwritten version in NumPy: calls on arrays if the definition allows them, else Python loops.
        size: the size of the measured inputs; handwritten NumPy takes 10 to 200 ms on them.
        small: the size of the inputs on which results are compared.
        calls: a handwritten version with the calls of `traced`, if `numpy` uses another algorithm: triangles, matrix
            products, or a special function of NumPy.
        numba: a loop to be compiled by `numba.njit`; None if the definition is not a loop over numbers.
        gradient: the argument with respect to which the sum of squares of the first result is differentiated.
        tolerance: the largest allowed difference, relative to the largest element: orders of summation differ.
    """

    name: str
    source: str
    inputs: Callable[..., tuple[Any, ...]]
    traced: Callable[..., Any]
    numpy: Callable[..., Any]
    size: tuple[int, ...]
    small: tuple[int, ...]
    calls: Callable[..., Any] | None = None
    numba: Callable[..., Any] | None = None
    gradient: int | None = None
    tolerance: float = 1e-9

    def arguments(self, size: tuple[int, ...]) -> tuple[Any, ...]:
        """Return the arguments, equal for every contestant and in every run."""
        return self.inputs(np.random.default_rng(0), *size)

    def of_arrays(self, n: Any, arguments: tuple[Any, ...]) -> tuple[Callable[..., Any], list[Any]]:
        """Return the traced kernel as a function of its arrays, and the arrays."""
        arrays = [x for x in arguments if not isinstance(x, int)]

        def function(*xs: Any) -> Any:
            values = iter(xs)
            return self.traced(n, *[x if isinstance(x, int) else next(values) for x in arguments])

        return function, arrays

    def loss(self, n: Any, arguments: tuple[Any, ...]) -> tuple[Callable[..., Any], list[Any]]:
        """Return the sum of squares of the first result as a function of the arrays, and the arrays."""
        function, arrays = self.of_arrays(n, arguments)

        def squares(*xs: Any) -> Any:
            results = function(*xs)
            first = results[0] if isinstance(results, tuple) else results
            return n.sum(first * first)

        return squares, arrays
