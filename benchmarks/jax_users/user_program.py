"""Record of a measured program: a function as JAX's users write it, its arguments, and a NumPy version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["UserProgram"]


@dataclass(frozen=True)
class UserProgram:
    """A measured program.

    The table has a row for its value and, if `gradient` is not empty, a row for value and gradient.

    Attributes:
        source: the public report or definition that the program follows.
        inputs: a function of a random generator that returns the arguments.
        function: the JAX function.
        gradient: positions of the arguments with respect to which the program is differentiated. The differentiated
            scalar is the sum of squares of the first result.
        by_hand: a handwritten NumPy version, or None.
        numba: whether `by_hand` is a loop that numba can compile.
        tolerance: the largest allowed difference from `jax.jit`, relative to the largest element. Libraries sum in
        different orders.
    """

    name: str
    source: str
    inputs: Callable[[np.random.Generator], tuple[Any, ...]]
    function: Callable[..., Any]
    gradient: tuple[int, ...] = ()
    by_hand: Callable[..., Any] | None = None
    numba: bool = True
    tolerance: float = 1e-8

    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments. They are equal for every library and in every run, because the seed is fixed."""
        return self.inputs(np.random.default_rng(0))

    def differentiated(self) -> Callable[..., Any]:
        """Return a function that computes the sum of squares of the first result, and its gradient."""
        import jax  # because JAX's environment variables must be set first

        def loss(*arguments: Any) -> Any:
            first = jax.tree.leaves(self.function(*arguments))[0]
            return (first * first).sum()

        return jax.value_and_grad(loss, self.gradient)
