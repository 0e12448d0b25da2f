"""Tensors with tropical operators, made of tenferro's functions; only the matrix product `@` is a fused op.

>>> x = MaxPlus(np.array([1.0, 5.0]))
>>> (x + MaxPlus(3.0)).value, (x * MaxPlus(3.0)).value
(array([3., 5.]), array([4., 8.]))
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import tenferro as tnf
from tenferro_ext_tropical.algebras import MAX_PLUS, MAX_TIMES, MIN_PLUS, Algebra
from tenferro_ext_tropical.matmul import matmul

__all__ = ["MaxPlus", "MaxTimes", "MinPlus"]


class Tropical:
    """A tensor, an array or a number whose operators + and * are those of an algebra."""

    algebra: ClassVar[Algebra]

    def __init__(self, value: Any) -> None:
        self.value = value if hasattr(value, "dtype") else np.asarray(value, dtype=np.float64)

    def _with(self, function: Any, other: Any) -> Any:
        if type(other) is not type(self):
            return NotImplemented
        return type(self)(function(self.value, other.value))

    def __add__(self, other: Any) -> Any:
        return self._with(self.algebra.choose, other)

    def __mul__(self, other: Any) -> Any:
        return self._with(self.algebra.combine, other)

    def __matmul__(self, other: Any) -> Any:
        return self._with(lambda a, b: matmul(a, b, self.algebra), other)

    def __pow__(self, count: int) -> Any:
        """Return x * x * .. with `count` factors, which is a multiple of the number, or for `MaxTimes` its power."""
        scaled = tnf.pow if self.algebra is MAX_TIMES else tnf.multiply
        return type(self)(scaled(self.value, float(count)))

    def __getitem__(self, index: Any) -> Any:
        return type(self)(self.value[index])

    def sum(self, axis: Any = None) -> Any:
        """Combine the elements along axes by the algebra's plus."""
        return type(self)(self.algebra.reduce(self.value, axis=axis))

    @classmethod
    def zero(cls) -> Any:
        """Return the identity element of plus."""
        return cls(cls.algebra.zero)

    @classmethod
    def one(cls) -> Any:
        """Return the identity element of times."""
        return cls(cls.algebra.one)

    @classmethod
    def eye(cls, n: int) -> Any:
        """Return the identity matrix: the one of the algebra on the diagonal, its zero elsewhere."""
        return cls(np.where(np.eye(n, dtype=bool), cls.algebra.one, cls.algebra.zero))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value})"


class MaxPlus(Tropical):
    """Tensor for which + is the maximum and * the sum."""

    algebra = MAX_PLUS


class MinPlus(Tropical):
    """Tensor for which + is the minimum and * the sum."""

    algebra = MIN_PLUS


class MaxTimes(Tropical):
    """Tensor of nonnegative numbers for which + is the maximum and * the product."""

    algebra = MAX_TIMES
