"""Record of a kernel: a loop with a public definition, and a version of it for each library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Kernel"]


@dataclass(frozen=True)
class Kernel:
    """A measured loop.

    The table has a row for its value, and a row for its gradient if `gradient` is not None.

    Attributes:
        source: the public definition that the kernel follows.
        inputs: a function of a random generator and the size; it returns the arguments. Python integers among the
            arguments are iteration counts, and remain Python integers when the kernel is traced.
        traced: the kernel as a function of a namespace and the arguments. The namespace is tenferro, or `jax.numpy`
            with the addition of JAX's loops, adapted to tenferro's signatures.
        numpy: a handwritten NumPy version. It calls NumPy on whole arrays if the definition allows this, else it has
        Python loops.
        size: the size of the measured inputs, for which handwritten NumPy takes 10 to 200 ms.
        small: the size of the inputs on which results are compared.
        calls: a second NumPy version, with a call for each operation of `traced`. None unless `numpy` uses another
            algorithm, such as triangles, matrix products, or a special function of NumPy.
        numba: a loop for `numba.njit` to compile; None if the definition is not a loop over numbers.
        gradient: the position of the argument with respect to which the kernel is differentiated, counted among the
            arrays. The differentiated scalar is the sum of squares of the first result.
        tolerance: the largest allowed difference from `numpy`, relative to the largest element. Libraries sum in
        different orders.
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
        """Return the arguments. They are equal for every contestant and in every run, because the seed is fixed."""
        return self.inputs(np.random.default_rng(0), *size)

    def of_arrays(self, n: Any, arguments: tuple[Any, ...]) -> tuple[Callable[..., Any], list[Any]]:
        """Return `traced` as a function of the array arguments alone, and the array arguments.

        The integers among the arguments are fixed.
        """
        arrays = [x for x in arguments if not isinstance(x, int)]

        def function(*xs: Any) -> Any:
            values = iter(xs)
            return self.traced(n, *[x if isinstance(x, int) else next(values) for x in arguments])

        return function, arrays

    def loss(self, n: Any, arguments: tuple[Any, ...]) -> tuple[Callable[..., Any], list[Any]]:
        """Return the loss as a function of the array arguments, and the array arguments.

        The loss is the sum of squares of the first result.
        """
        function, arrays = self.of_arrays(n, arguments)

        def squares(*xs: Any) -> Any:
            results = function(*xs)
            first = results[0] if isinstance(results, tuple) else results
            return n.sum(first * first)

        return squares, arrays
