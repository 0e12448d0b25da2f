"""Record of a kernel: a loop written from its public definition, in a version for each library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Kernel"]


@dataclass(frozen=True)
class Kernel:
    """A measured loop: one row of the table for its value, and one for its gradient if `gradient` is not None.

    Attributes:
        source: the public definition that the kernel follows.
        inputs: a function of a random generator and the size that returns the arguments. Python integers among them
            are iteration counts, and remain Python integers when the kernel is traced.
        traced: a function of a namespace and the arguments. The namespace is tenferro, or `jax.numpy` with JAX's loops
            under tenferro's names and signatures.
        numpy: a handwritten NumPy version: calls on arrays if the definition allows them, else Python loops.
        size: the size of the measured inputs, for which handwritten NumPy takes 10 to 200 ms.
        small: the size of the inputs on which results are compared.
        calls: a second NumPy version with one call per operation of `traced`, if `numpy` uses another algorithm, such
            as triangles, matrix products, or a special function of NumPy.
        numba: a loop for `numba.njit` to compile; None if the definition is not a loop over numbers.
        gradient: the number of the array argument with respect to which the sum of squares of the first result is
            differentiated.
        tolerance: the largest allowed difference, relative to the largest element, because orders of summation differ.
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
        """Return the arguments; they are equal for every contestant and in every run."""
        return self.inputs(np.random.default_rng(0), *size)

    def of_arrays(self, n: Any, arguments: tuple[Any, ...]) -> tuple[Callable[..., Any], list[Any]]:
        """Return a function that runs `traced` on the array arguments alone, and these arrays."""
        arrays = [x for x in arguments if not isinstance(x, int)]

        def function(*xs: Any) -> Any:
            values = iter(xs)
            return self.traced(n, *[x if isinstance(x, int) else next(values) for x in arguments])

        return function, arrays

    def loss(self, n: Any, arguments: tuple[Any, ...]) -> tuple[Callable[..., Any], list[Any]]:
        """Return a function that computes the sum of squares of the first result from the arrays, and these arrays."""
        function, arrays = self.of_arrays(n, arguments)

        def squares(*xs: Any) -> Any:
            results = function(*xs)
            first = results[0] if isinstance(results, tuple) else results
            return n.sum(first * first)

        return squares, arrays
