"""Record of a measured program: a function as a JAX user writes it, its arguments, and a handwritten NumPy version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["UserProgram"]


@dataclass(frozen=True)
class UserProgram:
    """A measured program. The table has a row for its value and, if `gradient` is not empty, a row with the gradient.

    Attributes:
        source: the public report or definition that the program follows.
        inputs: a function of a random generator that returns the arguments.
        function: the JAX function.
        gradient: the numbers of the arguments with respect to which the sum of squares of the first result is
            differentiated.
        by_hand: a handwritten NumPy version, or None.
        numba: whether `by_hand` is a loop that numba can compile.
        tolerance: the largest allowed difference, relative to the largest element, because orders of summation differ.
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
        """Return the arguments; they are equal for every library and in every run."""
        return self.inputs(np.random.default_rng(0))

    def differentiated(self) -> Callable[..., Any]:
        """Return a function that computes the sum of squares of the first result, and its gradient."""
        import jax  # because the benchmark sets JAX's environment first

        def loss(*arguments: Any) -> Any:
            first = jax.tree.leaves(self.function(*arguments))[0]
            return (first * first).sum()

        return jax.value_and_grad(loss, self.gradient)
