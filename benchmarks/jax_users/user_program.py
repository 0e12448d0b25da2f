"""Programs of the benchmark: a function as a JAX user writes it, its arguments, and a handwritten NumPy version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["UserProgram"]


@dataclass(frozen=True)
class UserProgram:
    """A program, which has one or two rows in the table: its value, and its value with the gradient.

    Attributes:
        source: the public report or definition from which it is written.
        inputs: `inputs(rng)` returns the arguments.
        function: the JAX function.
        gradient: numbers of the arguments with respect to which the sum of squares of the result is differentiated.
        by_hand: a NumPy version, written as a loop that numba can compile, too.
        numba: whether `by_hand` is such a loop.
        tolerance: the largest allowed difference, relative to the largest element: orders of summation differ.
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
        """Return the arguments, equal for every contestant and in every run."""
        return self.inputs(np.random.default_rng(0))

    def differentiated(self) -> Callable[..., Any]:
        """Return the sum of squares of the first result, with its gradient."""
        import jax  # because the benchmark sets JAX's environment first

        def loss(*arguments: Any) -> Any:
            first = jax.tree.leaves(self.function(*arguments))[0]
            return (first * first).sum()

        return jax.value_and_grad(loss, self.gradient)
