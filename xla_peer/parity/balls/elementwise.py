"""Error bounds (radii) of elementwise ops: by formulas for arithmetic, and by all possible outcomes for selections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tenferro.ops import StdTensorOp
from tenferro.ops import elementwise as el
from tenferro.types import DType
from xla_peer.parity.balls.measured import error_of_product, error_of_quotient, error_of_sum
from xla_peer.parity.balls.operands import (
    EPSILON,
    Ball,
    Operands,
    Rule,
    flushed,
    outward,
    rounded,
    underflow,
    wide,
)
from xla_peer.parity.pending import unit
from xla_peer.parity.ulps import modulus

__all__ = ["ROWS", "clipped_radius", "larger_radius", "powers_radius"]

LARGEST_WHOLE = 2.0**53
"""Limit up to which all integers are exact in float64."""


def _own(operands: Operands, spread: Any, roundings: float = 1.0, native: Any = np.nan) -> Any:
    """Bound the sum of the rounding errors of another implementation and of the native result.

    Args:
        spread: the change of the exact result within the balls.
        roundings: the number of roundings of the least accurate implementation.
        native: the error of the native result, or NaN if only one rounding is known to bound it.
    """
    dtype = operands.dtype
    if operands.is_complex:
        roundings = max(roundings, 2.0 * operands.rounding.complex)
    size = modulus(operands.results[0])
    one = unit(dtype) * (1.0 + 4.0 * unit(dtype))
    return roundings * one * (size + spread) + np.fmin(one * size, native)


def _arithmetic(
    spread: Callable[..., Any],
    native_error: Callable[..., Any],
    roundings: float = 1.0,
    underflows: bool = False,
) -> Rule:
    """Return the rule of an arithmetic op.

    Args:
        spread: a function of the operands, their radii and the result, which bounds the change of the exact result.
        native_error: a function of real operands and the result, which returns the distance of the native result from
            the exact result, or NaN.
        roundings: rounding error of the least accurate implementation, in half units in the last place of the
            result.
        underflows: whether a result may be 0 although the exact result is not.
    """

    def rule(operands: Operands) -> Sequence[Any]:
        (result,) = operands.results
        if not operands.dtype.is_inexact:
            return (_integer_radius(operands, spread),)
        values = [wide(x) for x in operands.values]
        away = spread(values, operands.radii, wide(result))
        away = np.where(_all_zero(operands.radii), 0.0, away)
        if operands.is_complex:
            own = _own(operands, away, roundings)
        else:
            native = native_error(values, wide(result))
            own = _own(operands, away, roundings, native)
            own = np.where(_all_zero(operands.radii) & (native == 0), 0.0, own)
        if underflows:
            own = own + underflow(operands)
        return (rounded(operands, result, away, own, elementwise=True),)

    return rule


def _integer_radius(operands: Operands, spread: Callable[..., Any]) -> Any:
    """Compute the radius of an integer result, which is not rounded but may wrap around."""
    (result,) = operands.results
    if operands.are_exact:
        return np.zeros(result.shape)
    if operands.dtype.is_bool:
        return np.minimum(sum(operands.radii), 1.0)
    values = [x.astype(np.float64) for x in operands.values]
    away = outward(spread(values, operands.radii, result.astype(np.float64)))
    info = np.iinfo(result.dtype)
    size = np.abs(result.astype(np.float64)) + away
    fits = (size < min(float(info.max), LARGEST_WHOLE)) & (
        result.astype(np.float64) - away >= info.min
    )
    return np.where(_all_zero(operands.radii), 0.0, np.where(fits, np.floor(away), np.inf))


def _all_zero(radii: Sequence[Any]) -> Any:
    zero: Any = True
    for radius in radii:
        zero = zero & (radius == 0)
    return zero


# ---- sums, products and quotients ----------------------------------------------------------------


def _sum_spread(values: Sequence[Any], radii: Sequence[Any], result: Any) -> Any:
    return radii[0] + radii[1]


def _error_of_difference(values: Sequence[Any], result: Any) -> Any:
    return error_of_sum((values[0], -values[1]), result)


def _product_spread(values: Sequence[Any], radii: Sequence[Any], result: Any) -> Any:
    x, y = modulus(values[0]), modulus(values[1])
    a, b = radii
    return _times(x, b) + _times(y, a) + _times(a, b)


def _times(size: Any, radius: Any) -> Any:
    """Multiply magnitudes and radii; the product is 0 if either is 0, also for an infinite radius."""
    return np.where((size == 0) | (radius == 0), 0.0, size * radius)


def _quotient_spread(values: Sequence[Any], radii: Sequence[Any], result: Any) -> Any:
    least = (modulus(values[1]) - radii[1]) * (1.0 - 2.0 * EPSILON)
    size = modulus(result) * (1.0 + 2.0**-8)  # the centre is rounded, to at least 8 bits
    away = _times(size, radii[1]) + radii[0]
    return np.where(least > 0, away / np.where(least > 0, least, 1.0), np.inf)


def _error_of_quotient(values: Sequence[Any], result: Any) -> Any:
    """Return the error of a native quotient x / y; the error is positive unless x is 0 or y is a power of two.

    Even if the native quotient is exact, another implementation may multiply x by the rounded reciprocal of y, and so
    be inexact.
    """
    native = error_of_quotient(values, result)
    mantissa, _ = np.frexp(values[1])
    is_exact = (np.abs(mantissa) == 0.5) | (values[0] == 0)
    return np.where(is_exact, native, np.maximum(native, np.finfo(np.float64).smallest_subnormal))


def _divide(operands: Operands) -> Sequence[Any]:
    """Bound a quotient; division by zero has no bound, because the sign of the zero may differ by implementation."""
    (radius,) = QUOTIENT(operands)
    if not operands.dtype.is_inexact:
        return (np.where(_all_zero(operands.radii), 0.0, np.inf),)
    return (np.where((operands.values[1] == 0) & ~np.isnan(operands.results[0]), np.inf, radius),)


QUOTIENT = _arithmetic(_quotient_spread, _error_of_quotient, roundings=3.0, underflows=True)
"""Rule of quotients; XLA may multiply by the rounded reciprocal of the divisor, which adds two roundings."""


def _remainder(operands: Operands) -> Sequence[Any]:
    """Bound a remainder; unless the balls decide the truncated quotient, any remainder is possible."""
    (result,) = operands.results
    a, b = operands.radii
    if not operands.dtype.is_inexact:
        return (np.where(_all_zero(operands.radii), 0.0, np.inf),)
    x, y, rest = wide(operands.values[0]), np.abs(wide(operands.values[1])), np.abs(wide(result))
    quotient = np.abs(np.trunc(x / y))
    away = outward(a + quotient * b)
    inside = (rest + away < (y - b) * (1.0 - 8.0 * EPSILON)) & ((quotient == 0) | (rest > away))
    spread = np.where(inside, away, np.where(y > b, y + b + rest, np.inf))
    spread = np.where(_all_zero(operands.radii), 0.0, spread)
    return (rounded(operands, result, spread, 0.0, elementwise=True),)


def powers_radius(x: Any, y: Any, a: Any, b: Any, result: Any) -> Any:
    """Bound the change of x^y for real numbers within a distance a of x and b of y.

    Args:
        result: x^y.
    """
    relative = (np.abs(y) + b) * -np.log1p(-a / np.abs(x)) + b * np.abs(np.log(np.abs(x)))
    size = np.abs(result) * (1.0 + 2.0**-6)
    positive = np.where(x - a > 0, size * np.expm1(outward(relative)), np.inf)
    # If the exponent is a whole number without a radius, the base may have any sign.
    whole = (b == 0) & (np.floor(y) == y)
    most, least = np.abs(x) + a, np.abs(x) - a
    growing = np.where(y >= 1, np.abs(y) * most ** np.maximum(y - 1, 0.0) * a, np.inf)
    falling = np.where(
        least > 0, np.abs(y) * np.where(least > 0, least, 1.0) ** (y - 1) * a, np.inf
    )
    by_whole = np.where(y == 0, 0.0, np.where(y > 0, growing, falling))
    return outward(np.fmin(positive, np.where(whole, by_whole, np.inf)), 1024)


def _power(operands: Operands) -> Sequence[Any]:
    (result,) = operands.results
    if not operands.dtype.is_inexact:
        return (np.where(_all_zero(operands.radii), 0.0, np.inf),)
    x, y = map(wide, operands.values)
    a, b = operands.radii
    if operands.is_complex:
        size = modulus(x)
        log = np.abs(np.log(size)) + np.pi
        relative = (modulus(y) + b) * -np.log1p(-a / size) + b * log
        spread = np.where(_crosses_cut(x, a), np.inf, modulus(result) * np.expm1(relative) * 1.02)
    else:
        spread = powers_radius(x, y, a, b, result.astype(np.float64))
    spread = np.where(_all_zero(operands.radii), 0.0, spread)
    work = operands.dtype.accumulator
    ulps = operands.rounding.output(operands.is_complex) + 1.0
    size = modulus(result) + spread
    own = (4.0 * ulps * unit(work) + 2.0 * unit(operands.dtype)) * size + underflow(operands)
    radius = rounded(operands, result, spread, own, elementwise=True)
    return (np.where((x == 0) & np.isinf(wide(result)), np.inf, radius),)


def _crosses_cut(x: Any, radius: Any) -> Any:
    """Return whether the disc around x touches the negative real axis or zero, where the complex power jumps."""
    return (x.real - radius <= 0) & (np.abs(x.imag) <= radius)


# ---- ops that select one of their operands -------------------------------------------------------


def larger_radius(x: Any, y: Any, a: Any, b: Any) -> Any:
    """Compute the radius of max(x, y) from the radii a of x and b of y.

    If one operand is larger than the other everywhere in the balls, its radius is the result. Otherwise the result is
    the larger of the two radii.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    sum_of_radii, apart = outward(a + b), x - y
    radius = np.where(apart > sum_of_radii, a, np.where(-apart > sum_of_radii, b, np.maximum(a, b)))
    # If x is NaN in every implementation, the result is NaN in every implementation. So an infinite radius of y is
    # replaced by 0.
    return np.where(np.isnan(x) & (a == 0), np.where(np.isinf(b), 0.0, radius), radius)


def _maximum(operands: Operands) -> Sequence[Any]:
    return (
        larger_radius(*operands.values, *operands.radii)
        + flushed(operands.results[0], operands.dtype),
    )


def _minimum(operands: Operands) -> Sequence[Any]:
    x, y = (-x.astype(np.float64) for x in operands.values)
    return (larger_radius(x, y, *operands.radii) + flushed(operands.results[0], operands.dtype),)


def clipped_radius(operands: Operands) -> Any:
    """Compute the radius of min(max(x, lower), upper), which is at most the largest radius of the three operands."""
    x, lower, upper = operands.balls
    raised = larger_radius(x.value, lower.value, x.radius, lower.radius)
    above = np.maximum(x.value.astype(np.float64), lower.value.astype(np.float64))
    return larger_radius(-above, -upper.value.astype(np.float64), raised, upper.radius)


def _clamp(operands: Operands) -> Sequence[Any]:
    return (clipped_radius(operands) + flushed(operands.results[0], operands.dtype),)


def _compare(operands: Operands) -> Sequence[Any]:
    """Bound a comparison; it is decided if the balls are disjoint, are points, or always contain the same number."""
    x, y = map(wide, operands.values)
    a, b = operands.radii
    apart = modulus(x - y)
    points = (a == 0) & (b == 0)
    nan = (np.isnan(x) & (a == 0) & np.isfinite(b)) | (np.isnan(y) & (b == 0) & np.isfinite(a))
    decided = points | nan | (apart > outward(a + b))
    decided = decided | _are_copies(*operands.balls) | _are_copies(*operands.balls[::-1])
    return (np.where(decided, 0.0, 1.0),)


def _are_copies(x: Ball, y: Ball) -> Any:
    """Return the mask of the elements of y that equal the elements of x at the same position in every implementation.

    Elements that may be NaN are excluded, because NaN differs from itself.
    """
    is_number = np.isfinite(x.radius)
    if x is y:
        return is_number
    if y.copy is None or y.copy.source is not x:
        return False
    return is_number & (y.copy.places == np.arange(x.value.size).reshape(x.value.shape))


def _select(operands: Operands) -> Sequence[Any]:
    """Bound a selection; if the predicate is undecided, the result may be either operand."""
    pred, on_true, on_false = operands.balls
    own = np.where(pred.value, on_true.radius, on_false.radius)
    not_chosen = np.where(pred.value, on_false.radius, on_true.radius)
    with_other = np.maximum(own, outward(_distance(on_true.value, on_false.value) + not_chosen))
    return (np.where(pred.radius == 0, own, with_other),)


def _distance(x: Any, y: Any) -> Any:
    """Compute the distance of two arrays, element by element.

    The distance of equal infinities, and of two NaN, is 0. If only one element is finite, the distance is infinite.
    """
    same = (x == y) | ((x != x) & (y != y))
    distance = modulus(wide(x) - wide(y))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def _sign(operands: Operands) -> Sequence[Any]:
    (x,), (radius,), (result,) = operands.values, operands.radii, operands.results
    if operands.is_complex:
        size = modulus(x)
        spread = np.where(radius < size, np.minimum(2.0 * radius / size, 2.0), 2.0)
        spread = np.where(radius == 0, 0.0, spread)
        return (rounded(operands, result, spread, _own(operands, spread), elementwise=True),)
    size = np.abs(x.astype(np.float64))
    is_decided = (radius == 0) | (size > outward(radius))
    open_radius = 1.0 + np.abs(result.astype(np.float64))
    return (np.where(is_decided, 0.0, np.where(np.isinf(radius), np.inf, open_radius)),)


def _magnitude(operands: Operands) -> Sequence[Any]:
    (radius,), (result,) = operands.radii, operands.results
    if not operands.is_complex:
        return (radius,)
    return (rounded(operands, result, radius, _own(operands, radius), elementwise=True),)


def _step(operands: Operands) -> Sequence[Any]:
    """Compute the radius of a nondecreasing step function, such as floor, from its values at both ends of the ball."""
    (x,), (radius,), (result,) = operands.values, operands.radii, operands.results
    if operands.are_exact:
        return (np.zeros(result.shape),)
    centre = wide(x)
    radius = np.where(np.isfinite(centre), radius, np.where(radius > 0, np.inf, 0.0))
    ends = [
        operands.run(operands.op, np.nextafter(centre + s * radius, s * np.inf)) for s in (-1, 1)
    ]
    reach = np.maximum(result.astype(np.float64) - ends[0], ends[1] - result.astype(np.float64))
    return (np.where(radius == 0, 0.0, np.where(np.isfinite(reach), outward(reach), np.inf)),)


# ---- bits, bools and conversions -----------------------------------------------------------------


def _of_bits(operands: Operands) -> Sequence[Any]:
    """Bound an op on bits: the result has no bound wherever an operand has a radius."""
    return (np.where(_all_zero(operands.radii), 0.0, np.inf),)


def _bitcast(operands: Operands) -> Sequence[Any]:
    (radius,), (result,) = operands.radii, operands.results
    if result.shape == radius.shape:
        return _of_bits(operands)
    return (np.full(result.shape, 0.0 if operands.are_exact else np.inf),)


def _and(operands: Operands) -> Sequence[Any]:
    """Bound a conjunction of bools as their minimum, and `and` of integers as an op on bits."""
    return _minimum(operands) if operands.dtype.is_bool else _of_bits(operands)


def _or(operands: Operands) -> Sequence[Any]:
    """Bound a disjunction of bools as their maximum, and `or` of integers as an op on bits."""
    return _maximum(operands) if operands.dtype.is_bool else _of_bits(operands)


def _xor(operands: Operands) -> Sequence[Any]:
    if not operands.dtype.is_bool:
        return _of_bits(operands)
    return (np.maximum(*operands.radii),)


def _not(operands: Operands) -> Sequence[Any]:
    return operands.radii if operands.dtype.is_bool else _of_bits(operands)


def _bools_or(numbers: Rule, bools: Rule) -> Rule:
    """Return a rule that calls the rule `bools` for bool operands, and the rule `numbers` for all others."""

    def rule(operands: Operands) -> Sequence[Any]:
        return (bools if operands.dtype.is_bool else numbers)(operands)

    return rule


def _is_finite(operands: Operands) -> Sequence[Any]:
    return (np.where(np.isinf(operands.radii[0]), 1.0, 0.0),)


def _copied(operands: Operands) -> Sequence[Any]:
    return operands.radii


def _convert(operands: Operands) -> Sequence[Any]:
    (x,), (radius,), (result,) = operands.values, operands.radii, operands.results
    source, to = DType.of(x.dtype), operands.dtype
    if to.is_bool:
        is_decided = (radius == 0) | (modulus(x) > outward(radius))
        return (np.where(is_decided, 0.0, 1.0),)
    if not to.is_inexact:
        return (_to_integers(x, radius, result),)
    if not operands.rounding.rounds or bool((wide(x) == wide(result)).all() and not radius.any()):
        return (0.0 * radius if operands.is_local else radius,)
    own = 2.0 * unit(to) * (modulus(result) + radius) * (1.0 + 4.0 * unit(to))
    own = np.where((wide(x) == wide(result)) & (radius == 0) & source.is_inexact, 0.0, own)
    return (rounded(operands, result, radius, own, elementwise=True),)


def _to_integers(x: Any, radius: Any, result: Any) -> Any:
    """Bound a conversion to integers by truncating both ends of the ball.

    There is no bound if an integer may be outside of the range of a narrower integer dtype, because it wraps around.
    """
    info = np.iinfo(result.dtype)
    centre = (x.real if x.dtype.kind == "c" else x).astype(np.float64)
    low, high = (np.nextafter(centre + s * radius, s * np.inf) for s in (-1, 1))
    reach = np.maximum(np.trunc(high) - np.trunc(centre), np.trunc(centre) - np.trunc(low))
    wraps = (x.dtype.kind in "iu") & ((low < info.min) | (high > float(info.max)))
    reach = np.where(wraps | ~np.isfinite(reach) | (np.abs(reach) > LARGEST_WHOLE), np.inf, reach)
    return np.where(radius == 0, 0.0, reach)


def _complex(operands: Operands) -> Sequence[Any]:
    return (outward(np.hypot(*operands.radii)),)


ROWS: Mapping[type[StdTensorOp], Rule] = {
    el.Add: _bools_or(_arithmetic(_sum_spread, error_of_sum), _or),
    el.Subtract: _arithmetic(_sum_spread, _error_of_difference),
    el.Multiply: _bools_or(_arithmetic(_product_spread, error_of_product, underflows=True), _and),
    el.Divide: _divide,
    el.Remainder: _remainder,
    el.Power: _power,
    el.Maximum: _maximum,
    el.Minimum: _minimum,
    el.Negate: _copied,
    el.Abs: _magnitude,
    el.Sign: _sign,
    el.Clamp: _clamp,
    el.Compare: _compare,
    el.Select: _select,
    el.And: _and,
    el.Or: _or,
    el.Xor: _xor,
    el.Not: _not,
    el.ShiftLeft: _of_bits,
    el.ShiftRightArithmetic: _of_bits,
    el.ShiftRightLogical: _of_bits,
    el.PopulationCount: _of_bits,
    el.CountLeadingZeros: _of_bits,
    el.Floor: _step,
    el.Ceil: _step,
    el.RoundNearestEven: _step,
    el.RoundNearestAfz: _step,
    el.IsFinite: _is_finite,
    el.Convert: _convert,
    el.BitcastConvert: _bitcast,
    el.Conj: _copied,
    el.Real: _copied,
    el.Imag: _copied,
    el.Complex: _complex,
    el.ReducePrecision: _step,
}
