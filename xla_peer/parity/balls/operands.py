"""`Ball`, an array with error bounds, and `Operands`, the argument of the rules that compute the bounds.

A ball is an array of values, the centres, with an array of radii of the same shape in float64. The ball of an element
contains the centre, the exact result for the exact arguments, and the result of every other right implementation. The
ball of a complex element is a disc. If a centre is infinite or NaN and its radius is 0, every implementation gives this
value. An infinite radius means that there is no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from tenferro.exec.kernels import KERNELS
from tenferro.ops import StdTensorOp
from tenferro.types import DType, TensorSpec
from xla_peer.parity.rounding import Rounding, rounding_of
from xla_peer.parity.ulps import modulus

__all__ = [
    "Ball",
    "Copy",
    "Operands",
    "Rule",
    "are_integers",
    "flushed",
    "integer_limit",
    "outward",
    "overflow",
    "rounded",
    "sign_of",
    "tiny",
    "underflow",
    "wide",
]

EPSILON = float(np.finfo(np.float64).eps)
NEAR_ZERO = 16.0
"""Factor f such that intermediate values may be subnormal if a result is below f times the smallest normal number."""


@dataclass(frozen=True, eq=False)
class Ball:
    """Array of native values, with a bound on the distance of the values that any right implementation computes.

    Attributes:
        value: the centres, which are the native values.
        radius: the radius of each element.
        copy: the ball from which the elements are copied, if it is known.
        sign: 1 if the elements are >= 0 in every implementation, -1 if they are <= 0, and 0 if unknown.
    """

    value: Any
    radius: Any
    copy: Copy | None = None
    sign: int = 0

    @classmethod
    def exact(cls, x: Any) -> Ball:
        """Return a ball around a value that is equal in all implementations, except for flushed subnormal numbers."""
        x = np.asarray(x)
        radius = np.zeros(x.shape)
        if x.dtype.kind not in "biu":
            dtype = DType.of(x.dtype)
            radius = np.where(_may_be_flushed(x, radius, tiny(dtype)), 2.0 * tiny(dtype), radius)
        return cls(x, radius, sign=sign_of(x))


@dataclass(frozen=True, eq=False)
class Copy:
    """Origin of elements that are copies of elements of another ball, in every implementation.

    Attributes:
        source: the other ball.
        places: for each element, its row-major position in `source`; -1 if it is unknown.
    """

    source: Ball
    places: Any


@dataclass(frozen=True)
class Operands:
    """Application of an op to balls; a rule computes the radii of the results from it.

    Attributes:
        op: the op.
        balls, specs: the operands and their types.
        results: the centres of the results.
        is_local: whether the radii bound only the rounding error of this op, for operands anywhere in their balls.
    """

    op: Any
    balls: tuple[Ball, ...]
    specs: tuple[TensorSpec, ...]
    results: tuple[Any, ...]
    is_local: bool = False

    @property
    def values(self) -> list[Any]:
        """The operands' centres."""
        return [ball.value for ball in self.balls]

    @property
    def radii(self) -> list[Any]:
        """The operands' radii."""
        return [ball.radius for ball in self.balls]

    @property
    def dtype(self) -> DType:
        """The dtype of the first result."""
        return DType.of(self.results[0].dtype)

    @property
    def rounding(self) -> Rounding:
        """The rounding of the op on operands of these types."""
        return rounding_of(self.op, self.specs)

    @property
    def is_complex(self) -> bool:
        """Whether an operand or the result is complex."""
        return self.dtype.is_complex or any(spec.dtype.is_complex for spec in self.specs)

    @property
    def are_exact(self) -> bool:
        """Whether all radii of all operands are 0."""
        return not any(radius.any() for radius in self.radii)

    def run(self, op: StdTensorOp, *arrays: Any) -> Any:
        """Run the native kernel of an op on arrays, such as radii."""
        return np.asarray(KERNELS[type(op)](op, *arrays))


Rule: TypeAlias = Callable[[Operands], Sequence[Any]]
"""Function of `Operands` that returns the radii of the op's results."""


def sign_of(x: Any) -> int:
    """Return 1 if no element is negative, -1 if none is positive, else 0."""
    if x.dtype.kind == "c":
        return 0
    return 1 if bool((x >= 0).all()) else -1 if bool((x <= 0).all()) else 0


def wide(x: Any) -> Any:
    """Convert the array to float64 or complex128."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64, copy=False)


def tiny(dtype: DType) -> float:
    """Return the smallest normal number of a dtype, which bounds the error of flushing to zero."""
    return float(ml_dtypes.finfo(dtype.real.dtype).smallest_normal)


def outward(radius: Any, operations: float = 8.0) -> Any:
    """Enlarge a radius by more than the error of its computation in float64 with `operations` successive roundings."""
    return radius * (1.0 + (operations + 2.0) * EPSILON)


def overflow(dtype: DType) -> float:
    """Return the largest finite number of an inexact dtype."""
    return float(ml_dtypes.finfo(dtype.real.dtype).max)


def underflow(operands: Operands) -> Any:
    """Bound the additional error of results near 0 of nonzero operands if an implementation flushes subnormals."""
    (result,) = operands.results
    least = NEAR_ZERO * tiny(operands.dtype)
    from_nonzero = modulus(result) < least
    for x in operands.values:
        from_nonzero = from_nonzero & (x != 0) & np.isfinite(wide(x))
    return np.where(from_nonzero, 2.0 * least, 0.0)


def flushed(x: Any, dtype: DType) -> Any:
    """Return |x| where x is subnormal, and 0 elsewhere: the error if an implementation flushes x to zero.

    Parts of complex numbers count as subnormal below `NEAR_ZERO` times the smallest normal number, because
    implementations halve and square them.
    """
    if not dtype.is_inexact:
        return np.zeros(np.shape(x))
    parts = (x.real, x.imag) if dtype.is_complex else (x,)
    sizes = [np.abs(part.astype(np.float64, copy=False)) for part in parts]
    least = (NEAR_ZERO if dtype.is_complex else 1.0) * tiny(dtype)
    return sum([np.where(size < least, size, 0.0) for size in sizes])


def integer_limit(dtype: DType) -> float:
    """Return the largest integer n such that a float dtype represents all integers up to n."""
    return 2.0 ** (int(ml_dtypes.finfo(dtype.real.dtype).nmant) + 1)


def are_integers(*arrays: Any) -> bool:
    """Return whether every element is a whole number; for complex numbers, both parts."""
    for x in arrays:
        for part in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
            part = part.astype(np.float64, copy=False)
            if not (np.isfinite(part) & (np.floor(part) == part)).all():
                return False
    return True


def rounded(operands: Operands, result: Any, spread: Any, error: Any, elementwise: bool) -> Any:
    """Compute the radius of a floating-point result.

    Args:
        spread: the largest change of the exact result while the operands vary within their balls.
        error: the largest sum of the rounding errors of two implementations.
        elementwise: whether an element depends only on the operands' elements at the same position.
    """
    dtype = DType.of(result.dtype)
    size, smallest = modulus(result), tiny(dtype)
    whole = outward(spread + error)
    radius = outward(error + np.zeros(size.shape)) if operands.is_local else whole
    is_finite = np.isfinite(size)
    reach = np.where(is_finite, size, 0.0)
    flushed = _may_be_flushed(result, whole, smallest)
    radius = np.where(flushed, outward(radius + 2.0 * smallest), radius)
    radius = np.where(np.isnan(radius) | (reach + whole >= overflow(dtype)), np.inf, radius)
    return np.where(is_finite, radius, _not_finite(operands, result, elementwise))


def _may_be_flushed(x: Any, radius: Any, smallest: float) -> Any:
    """Return a mask of the elements whose real or imaginary part may be subnormal within the distance `radius`."""
    flushed = np.zeros(x.shape, bool)
    for part in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
        reach = np.abs(part.astype(np.float64))
        flushed = flushed | ((reach - radius < smallest) & ((reach > 0) | (radius > 0)))
    return flushed


def _not_finite(operands: Operands, result: Any, elementwise: bool) -> Any:
    """Return the radius of elements that are infinite or NaN: 0 if every implementation gives the same, else infinity.

    An infinity that results from an overflow may be finite elsewhere, because an FMA or another order of terms may
    avoid the overflow. Implementations also differ in complex numbers that are infinite or NaN.
    """
    if np.isfinite(result).all():
        return 0.0
    moved = np.zeros((), bool)
    special = np.zeros((), bool)
    for x, radius in zip(operands.values, operands.radii, strict=True):
        moves, is_special = radius > 0, ~np.isfinite(wide(x))
        moved = moved | (moves if elementwise else moves.any())
        special = special | (is_special if elementwise else is_special.any())
    same = ~moved & (special | np.isnan(result))
    if (
        operands.is_complex
    ):  # infinity times a complex number has no unique value, and a part may overflow
        same = np.zeros((), bool)
    return np.where(same, 0.0, np.inf)
