"""Record of a function whose errors are measured."""

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
        call: the measured tensor function.
        definition: the function in mpmath.
        reference: a float64 version from another library, with correct infinities and NaN; it selects the arguments
            that are judged with many digits.
        domain: the measured domain of each argument.
        points: arguments at which a formula changes.
        ulps: declared maximum errors of all engines, in float32 and float64.
        terms: the size of terms that cancel near zeros of the function; errors near these zeros are relative to it.
        ranges: a range for each argument, instead of the domain; random arguments are drawn from it.
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
