"""Definitions of plus and times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tenferro as tnf

__all__ = ["ALGEBRAS", "MAX_PLUS", "MAX_TIMES", "MIN_PLUS", "Algebra"]


@dataclass(frozen=True)
class Algebra:
    """A semiring on numbers: `plus` chooses, `times` combines.

    Attributes:
        choose: plus, on tensors.
        combine: times, on tensors.
        reduce: plus over axes, `reduce(x, axis=..)`.
        zero, one: the identities of plus and of times.
    """

    name: str
    choose: Callable[[Any, Any], Any]
    combine: Callable[[Any, Any], Any]
    reduce: Callable[..., Any]
    zero: float
    one: float


MAX_PLUS = Algebra("max_plus", tnf.maximum, tnf.add, tnf.max, -np.inf, 0.0)
"""The longest way: max chooses, + combines."""
MIN_PLUS = Algebra("min_plus", tnf.minimum, tnf.add, tnf.min, np.inf, 0.0)
"""The shortest way: min chooses, + combines."""
MAX_TIMES = Algebra("max_times", tnf.maximum, tnf.multiply, tnf.max, 0.0, 1.0)
"""The most probable way, of numbers that are not negative: max chooses, * combines."""

ALGEBRAS = {algebra.name: algebra for algebra in (MAX_PLUS, MIN_PLUS, MAX_TIMES)}
