"""Derivative of a program's float outputs with respect to its float inputs; all other inputs are constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.ad import AdContext
from tenferro.program import GraphProgram
from tenferro.types import DType, TensorSpec, flatten, unflatten

__all__ = ["active", "float_arguments", "float_vjp"]


def active(specs: Sequence[TensorSpec]) -> list[int]:
    """Return the indices of the float and complex specs."""
    return [number for number, spec in enumerate(specs) if spec.dtype.is_inexact]


def float_arguments(arguments: Sequence[Any]) -> tuple[int, ...]:
    """Return the indices of the arguments whose leaves are all float or complex."""
    return tuple([
        number
        for number, argument in enumerate(arguments)
        if all(DType.of(np.asarray(leaf).dtype).is_inexact for leaf in flatten(argument)[0])
    ])  # fmt: skip


def float_vjp(
    program: GraphProgram, leaves: Sequence[Any], context: AdContext | None = None
) -> tuple[list[Any], Callable[..., tuple[Any, ...]]]:
    """Return the leaves of the result, and a function from cotangents of float results to cotangents of float inputs.

    Args:
        context: the context with the rules that differentiate the program.
    """
    chosen, values = active(program.input_specs), list(leaves)

    def of_floats(*floats: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        for number, x in zip(chosen, floats, strict=True):
            values[number] = x
        results, _ = flatten(program.run(*unflatten(program.in_tree, values)))
        return tuple([y for y in results if DType.of(y.dtype).is_inexact]), tuple(results)

    floats = [values[number] for number in chosen]
    _, pull, results = tnf.vjp(of_floats, *floats, has_aux=True, context=context)
    return list(results), pull
