"""Evaluation of polynomials at a tensor, and the largest number of a tensor's dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes

from tenferro.api.elementwise import add, multiply, subtract
from tenferro.dispatch import spec_of
from tenferro.types import Tensor

__all__ = ["chebyshev", "largest", "polynomial"]


def largest(x: Tensor) -> float:
    """Return the largest finite number of x's dtype."""
    return float(ml_dtypes.finfo(spec_of(x).dtype.dtype).max)


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Any:
    """Evaluate a polynomial at x by Horner's rule. The coefficients begin with the highest power."""
    y = add(multiply(x, coefficients[0]), coefficients[1])
    for coefficient in coefficients[2:]:
        y = add(multiply(y, x), coefficient)
    return y


def chebyshev(x: Tensor, coefficients: Sequence[float]) -> Any:
    """Sum c_k T_k(x), where T_k are Chebyshev polynomials and -1 <= x <= 1, by Clenshaw's recurrence.

    The coefficients begin with c_0.
    """
    double = multiply(x, 2.0)
    before: Any = 0.0
    last: Any = multiply(x, 0.0)
    for coefficient in reversed(coefficients[1:]):
        before, last = last, add(subtract(multiply(double, last), before), coefficient)
    return add(subtract(multiply(x, last), before), coefficients[0])
