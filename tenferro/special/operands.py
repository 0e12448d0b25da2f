"""Operands of special functions, and polynomials in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes

from tenferro.api.elementwise import add, multiply, subtract
from tenferro.api.promotion import convert, inexact_dtype, promote, result_type
from tenferro.door import as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError
from tenferro.types import ArrayLike, DType, Tensor

__all__ = ["as_order", "chebyshev", "in_reals", "largest", "polynomial"]


def in_reals(name: str, function: Callable[..., Any], *operands: ArrayLike) -> Any:
    """`function` of the operands in their common float dtype, computed with at least 32 bits.

    Raises:
        DTypeError: complex operands.
    """
    dtype = inexact_dtype(result_type(*operands))
    if dtype.is_complex:
        shown = ", ".join(str(spec_of(as_operand(x))) for x in operands)
        raise DTypeError(f"special.{name}: takes real numbers, got {shown}")
    wide = DType.F32 if dtype.itemsize == 2 else dtype
    return convert(function(*promote(*operands, dtype=wide)), dtype)


def as_order(name: str, parameter: str, value: Any, least: int) -> int:
    """An integer that is static while tracing.

    Raises:
        InvalidConfigError: anything else, or less than `least`.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < least:
        raise InvalidConfigError(
            f"special.{name}: {parameter} must be an int of at least {least}, got {value!r}"
        )
    return value.__index__()


def largest(x: Tensor) -> float:
    """The largest number of x's dtype."""
    return float(ml_dtypes.finfo(spec_of(x).dtype.dtype).max)


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Any:
    """The polynomial in x by Horner's rule, its highest coefficient first."""
    y = add(multiply(x, coefficients[0]), coefficients[1])
    for coefficient in coefficients[2:]:
        y = add(multiply(y, x), coefficient)
    return y


def chebyshev(x: Tensor, coefficients: Sequence[float]) -> Any:
    """The sum of c_k T_k(x) for -1 <= x <= 1 by Clenshaw's recurrence, c_0 first."""
    double = multiply(x, 2.0)
    before: Any = 0.0
    last: Any = multiply(x, 0.0)
    for coefficient in reversed(coefficients[1:]):
        before, last = last, add(subtract(multiply(double, last), before), coefficient)
    return add(subtract(multiply(x, last), before), coefficients[0])
