"""The record of a function whose errors are measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["INF", "Function"]

INF = math.inf


@dataclass(frozen=True)
class Function:
    """A function of numbers.

    Attributes:
        call: the measured function of tensors.
        definition: the function in mpmath.
        reference: the same in float64 by another library, which picks the arguments that are judged in many digits;
            its infinities and NaN are right.
        domain: of each argument, beyond which nothing is measured.
        points: arguments around which its formula, or ours, changes.
        ulps: the most that any way of running it may be off in float32 and float64, by declaration.
        terms: the size of terms that cancel where the function is small: there the error is relative to them.
        ranges: of each argument by itself, in place of the domain; random arguments only.
    """

    call: Callable[..., Any]
    definition: Callable[..., Any]
    reference: Callable[..., Any]
    domain: tuple[float, float] = (-INF, INF)
    points: tuple[float, ...] = ()
    ulps: float = 8.0
    arity: int = 1
    terms: Callable[..., float] | None = None
    ranges: tuple[tuple[float, float], ...] = ()
