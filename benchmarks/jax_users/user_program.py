"""Subjects of the benchmark: a function as a user of JAX writes it, its arguments, and a handwritten version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["UserProgram"]


@dataclass(frozen=True)
class UserProgram:
    """One program, and at most two rows of the table: its value, and its value with its gradient.

    Attributes:
        source: the public report, or the definition, that it is written from.
        inputs: `inputs(rng)` returns the arguments.
        function: of JAX.
        gradient: numbers of the arguments in which the sum of squares of the result is differentiated.
        by_hand: the same in NumPy, as a loop that numba compiles, too.
        numba: whether `by_hand` is such a loop.
        tolerance: relative to the largest element, for other orders of summation.
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
        """Return arguments that are equal for every contestant and in every run."""
        return self.inputs(np.random.default_rng(0))

    def differentiated(self) -> Callable[..., Any]:
        """Return the sum of squares of the first result, with its gradient."""
        import jax  # because who measures sets JAX's environment first

        def loss(*arguments: Any) -> Any:
            first = jax.tree.leaves(self.function(*arguments))[0]
            return (first * first).sum()

        return jax.value_and_grad(loss, self.gradient)
