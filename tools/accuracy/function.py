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
        reference: a version for float64 from another library, with correct infinities and NaN. It only estimates
            errors; the errors of the arguments with the largest estimates are then computed with many digits.
        domain: the smallest and largest measured value of each argument.
        points: arguments at which an implementation may switch from one formula to another.
        ulps: the declared maximum error of all engines, in float32 and float64, in units in the last place.
        terms: a function that returns the size of the terms that cancel near zeros of the function; errors are
        relative to this size.
        ranges: a pair of bounds for each argument, which replaces `domain` for random arguments.
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
