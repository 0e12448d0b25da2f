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
        reference: a float64 version from another library, with correct infinities and NaN; it only selects the
            arguments with large errors, which are then measured with many digits.
        domain: the smallest and largest measured value of each argument.
        points: arguments at which an implementation may switch from one formula to another.
        ulps: the declared maximum error of all engines, in float32 and float64, in units in the last place.
        terms: returns the size of the terms that cancel near zeros of the function; errors are relative to it.
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
