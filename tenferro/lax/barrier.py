"""Barriers between computations, with jax.lax's name.

Source: jax.lax.optimization_barrier.
"""

from __future__ import annotations

from typing import Any

from tenferro.dispatch import apply, as_operand
from tenferro.ops.structural import OptimizationBarrier
from tenferro.types import PyTree, flatten, unflatten

__all__ = ["optimization_barrier"]


def optimization_barrier(operand: PyTree, /) -> Any:
    """Return the operands behind a barrier: compilers do not optimise across it, and results wait for all operands.

    Args:
        operand: a tree of tensors.

    >>> import numpy as np
    >>> optimization_barrier((np.ones(1), np.zeros(1)))
    (array([1.]), array([0.]))
    """
    leaves, tree = flatten(operand)
    tensors = [as_operand(leaf) for leaf in leaves]
    return unflatten(
        tree, list(apply(OptimizationBarrier(len(tensors)), *tensors)) if tensors else []
    )
