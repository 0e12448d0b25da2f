"""Tropical algebras: definitions of plus and times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tenferro as tnf

__all__ = ["ALGEBRAS", "MAX_PLUS", "MAX_TIMES", "MIN_PLUS", "Algebra"]


@dataclass(frozen=True)
class Algebra:
    """Semiring of numbers in which `plus` selects one of its operands, and `times` adds or multiplies them.

    Attributes:
        choose: the operation plus, on two tensors.
        combine: the operation times, on two tensors.
        reduce: plus over all elements along axes, called as `reduce(x, axis=..)`.
        zero, one: the identity elements of plus and of times.
    """

    name: str
    choose: Callable[[Any, Any], Any]
    combine: Callable[[Any, Any], Any]
    reduce: Callable[..., Any]
    zero: float
    one: float


MAX_PLUS = Algebra("max_plus", tnf.maximum, tnf.add, tnf.max, -np.inf, 0.0)
"""Algebra of longest paths: plus is the maximum, times the sum."""
MIN_PLUS = Algebra("min_plus", tnf.minimum, tnf.add, tnf.min, np.inf, 0.0)
"""Algebra of shortest paths: plus is the minimum, times the sum."""
MAX_TIMES = Algebra("max_times", tnf.maximum, tnf.multiply, tnf.max, 0.0, 1.0)
"""Algebra of most probable paths, for nonnegative numbers: plus is the maximum, times the product."""

ALGEBRAS = {algebra.name: algebra for algebra in (MAX_PLUS, MIN_PLUS, MAX_TIMES)}
