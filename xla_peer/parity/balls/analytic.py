"""Radii of analytic functions: the largest slope within the ball, and the accuracy that `ROUNDING` declares.

Each function has a modulus of continuity: the largest movement of f if its argument stays within a radius r of x. For
real numbers it is computed from the largest slope in [x - r, x + r], for complex numbers from a bound on the disc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.special

from tenferro.ops import StdTensorOp
from tenferro.ops import analytic as an
from xla_peer.parity.balls.operands import (
    EPSILON,
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

__all__ = ["ROWS", "operand_error"]

Continuity = Callable[[Any, Any, Any], Any]
"""Function of x, a radius r and f(x) that bounds |f(z) - f(x)| for all z within r of x."""


def _analytic(real: Continuity | None, complex_: Continuity | None = None) -> Rule:
    """Return the rule of a function of one operand.

    Without a modulus of continuity, only exact operands have a bound.
    """

    def rule(operands: Operands) -> Sequence[Any]:
        (x,), (radius,), (result,) = operands.values, operands.radii, operands.results
        reach = radius + operand_error(operands, x)
        continuity = complex_ if operands.is_complex else real
        if continuity is None:
            spread = np.full(np.shape(result), np.inf)
        else:
            spread = outward(continuity(wide(x), outward(reach), wide(result)), 1024)
        spread = np.where(reach == 0, 0.0, np.where(np.isnan(spread), np.inf, spread))
        spread = np.where(np.isnan(wide(x)) & (radius == 0), 0.0, spread)
        own = _own(operands, result, spread) + underflow(operands)
        return (rounded(operands, result, spread, own, elementwise=True),)

    return rule


def operand_error(operands: Operands, x: Any) -> Any:
    """Bound the change of the operand x that has the same effect as the intermediate roundings of two implementations.

    The bound includes the change from x to zero if x is subnormal, because an implementation may flush it.
    """
    row, dtype = operands.rounding, operands.specs[0].dtype
    size = np.where(np.isfinite(modulus(x)), modulus(x), 0.0)
    ulps = row.operand(operands.op, operands.specs) + row.argument
    if type(operands.op) is an.Exp:
        # XLA rewrites e^a e^b as e^(a + b), which rounds a + b.
        return unit(dtype) * size + flushed(x, dtype)
    return 4.0 * ulps * unit(dtype.accumulator) * size + flushed(x, dtype)


def _own(operands: Operands, result: Any, spread: Any) -> Any:
    """Bound the distance of two implementations of a function for the same operand, from the declared accuracy.

    Args:
        spread: the change of the exact result within the balls.
    """
    dtype, ulps = operands.dtype, operands.rounding.output(operands.is_complex)
    size = modulus(result) + spread
    if not ulps:  # both implementations round the exact value once
        (x,) = operands.values
        is_exact = (wide(result) * wide(result) == wide(x)) & (operands.radii[0] == 0)
        return np.where(is_exact & (not operands.is_complex), 0.0, 4.0 * unit(dtype) * size)
    own = 4.0 * (ulps + 1.0) * unit(dtype.accumulator) * size
    return own if dtype.accumulator is dtype else own + 2.0 * unit(dtype) * size


def _by_slope(slope: Callable[[Any, Any], Any]) -> Continuity:
    """Return a function that bounds the change of a function over a ball: the radius times the largest slope.

    Args:
        slope: a function that returns the largest slope in the ball. Its arguments are the smallest and the largest |x|
            there.
    """

    def continuity(x: Any, radius: Any, result: Any) -> Any:
        least = np.maximum(np.abs(x) - radius, 0.0)
        return radius * slope(least, np.abs(x) + radius)

    return continuity


def _where_positive(low: Any, value: Callable[[Any], Any]) -> Any:
    """Apply a function to positive numbers; return infinity for all other numbers."""
    return np.where(low > 0, value(np.where(low > 0, low, 1.0)), np.inf)


# ---- real arguments ------------------------------------------------------------------------------


def _exp(x: Any, radius: Any, result: Any) -> Any:
    """Bound the change of e^x over a ball.

    The change is also at most about twice the largest value, which is 0 for example at x = -10^30 with radius 10^14.
    """
    return np.fmin(modulus(result) * 1.02 * np.expm1(radius), 2.04 * np.exp(x.real + radius))


def _exp_rule(operands: Operands) -> Sequence[Any]:
    """Bound e^x; if the operand's sign shows that it is never positive, results are at most 1, up to rounding."""
    (ball,) = operands.balls
    (radius,) = _analytic(_exp, _exp)(operands)
    return (np.minimum(radius, 1.02) if ball.sign < 0 else radius,)


def _expm1(x: Any, radius: Any, result: Any) -> Any:
    return np.fmin(np.exp(x.real) * np.expm1(radius), 2.04 * np.exp(x.real + radius))


def _log(x: Any, radius: Any, result: Any) -> Any:
    return _where_positive(x - radius, lambda low: -np.log1p(-np.minimum(radius / x, 1.0)))


def _log1p(x: Any, radius: Any, result: Any) -> Any:
    low = 1.0 + x - radius - 2 * EPSILON * np.abs(x)
    return _where_positive(low, lambda low: radius / low)


def _log1p_rule(operands: Operands) -> Sequence[Any]:
    """Bound log(1 + x); an operand whose sign is known to be nonnegative is at least 1 away from the pole at -1."""
    (ball,) = operands.balls
    if operands.is_complex or ball.sign <= 0:
        return _analytic(_log1p, _log1p_on_disc)(operands)
    return _analytic(_by_slope(lambda least, most: 1.0 / (1.0 + least)))(operands)


def _sqrt(x: Any, radius: Any, result: Any) -> Any:
    return np.where(x - radius >= 0, _sqrt_of_nonnegative(x, radius, result), np.inf)


def _sqrt_rule(operands: Operands) -> Sequence[Any]:
    """Bound a square root; for operands known to be nonnegative, |sqrt(x) - sqrt(y)| <= sqrt(|x - y|) holds near 0."""
    (ball,) = operands.balls
    if operands.is_complex or ball.sign <= 0:
        return _analytic(_sqrt, _sqrt_on_disc)(operands)
    return _analytic(_sqrt_of_nonnegative)(operands)


def _sqrt_of_nonnegative(x: Any, radius: Any, result: Any) -> Any:
    by_slope = radius / np.sqrt(np.where(x > 0, x, 1.0))
    return np.fmin(np.where(x > 0, by_slope, np.inf), np.sqrt(radius))


def _rsqrt(x: Any, radius: Any, result: Any) -> Any:
    return _where_positive(x - radius, lambda low: 0.5 * radius * low**-1.5)


def _cbrt(x: Any, radius: Any, result: Any) -> Any:
    low = np.abs(x) - radius
    by_slope = _where_positive(low, lambda low: radius / 3.0 * low ** (-2.0 / 3.0))
    return np.fmin(by_slope, np.cbrt(4.0 * radius))


def _sin(x: Any, radius: Any, result: Any) -> Any:
    return np.minimum(radius * np.minimum(np.abs(np.cos(x)) + radius + 2**-40, 1.0), 2.0)


def _cos(x: Any, radius: Any, result: Any) -> Any:
    return np.minimum(radius * np.minimum(np.abs(np.sin(x)) + radius + 2**-40, 1.0), 2.0)


def _tan(x: Any, radius: Any, result: Any) -> Any:
    low = np.abs(np.cos(x)) * (1 - 2**-40) - radius
    return _where_positive(low, lambda low: radius / low**2)


def _logistic_slope(least: Any, most: Any) -> Any:
    return np.exp(-least) / (1.0 + np.exp(-least)) ** 2


def _erf_inv(x: Any, radius: Any, result: Any) -> Any:
    most = np.abs(x) + radius
    slope = np.sqrt(np.pi) / 2 * np.exp(scipy.special.erfinv(np.minimum(most, 1.0)) ** 2)
    return np.where(most < 1, radius * slope * (1 + 2**-20), np.inf)


def _digamma_slope(order: int) -> Continuity:
    """Bound the slope by (order + 1)! sum_k |x + k|^-m, m = order + 2, over the poles on both sides of x."""

    def continuity(x: Any, radius: Any, result: Any) -> Any:
        power = order + 2
        right = np.where(x > 0, x, x - np.floor(x)) - radius
        left = np.where(x > 0, np.inf, np.ceil(x) - x - radius)
        terms = _where_positive(right, lambda low: scipy.special.zeta(power, low))
        terms = terms + np.where(
            x > 0, 0.0, _where_positive(left, lambda low: scipy.special.zeta(power, low))
        )
        return radius * terms * scipy.special.factorial(order + 1) * (1 + 2**-20)

    return continuity


def _lgamma(x: Any, radius: Any, result: Any) -> Any:
    """Bound lgamma over a ball by its slope, digamma.

    Between two poles digamma rises, so |digamma| is largest at an end of the ball.
    """
    low, high = x - radius, x + radius
    is_between = (low > 0) | (np.floor(low) == np.floor(high))
    is_between &= np.floor(low) != low
    ends = np.maximum(np.abs(scipy.special.psi(low)), np.abs(scipy.special.psi(high)))
    return np.where(is_between, radius * ends * (1 + 2**-20), np.inf)


def _polygamma(operands: Operands) -> Sequence[Any]:
    return _analytic(_digamma_slope(operands.op.order))(operands)


def _atan2(operands: Operands) -> Sequence[Any]:
    """Bound the angle of a point (x, y).

    If the point moves by r, the angle changes by at most asin(r / |point|), and it jumps by 2 pi at the branch cut.
    """
    (result,) = operands.results
    y, x = map(wide, operands.values)
    a, b = operands.radii
    reach, size = outward(np.hypot(a, b)), np.hypot(x, y)
    share = reach / size
    turn = np.arcsin(np.minimum(share, 1.0))
    spread = np.where(share < 1, np.minimum(turn, np.pi), 2.1 * np.pi)
    spread = np.where((x - b <= 0) & (np.abs(y) <= a), 2.1 * np.pi, spread)
    no_move = (a == 0) & (b == 0) & ((y != 0) | (x > 0))
    spread = np.where(no_move, 0.0, np.where(np.isnan(spread), 2.1 * np.pi, spread))
    own = _own(operands, result, spread)
    return (rounded(operands, result, outward(spread, 64), own, elementwise=True),)


# ---- complex arguments ---------------------------------------------------------------------------


def _log_on_disc(x: Any, radius: Any, result: Any) -> Any:
    """Bound the complex logarithm over a disc; across the branch cut, its imaginary part jumps by 2 pi."""
    size = modulus(x)
    share = np.minimum(radius / size, 1.0)
    smooth = np.where(radius < size, -np.log1p(-share), np.inf)
    return smooth + np.where(_meets_cut(x, radius), 2.1 * np.pi, 0.0)


def _log1p_on_disc(x: Any, radius: Any, result: Any) -> Any:
    return _log_on_disc(1.0 + x, radius + EPSILON * modulus(1.0 + x), result)


def _sqrt_on_disc(x: Any, radius: Any, result: Any) -> Any:
    size = modulus(x)
    smooth = np.fmin(radius / np.sqrt(size), np.sqrt(2.0 * radius))
    return np.where(_meets_cut(x, radius), 2.0 * np.sqrt(size + radius), smooth)


def _rsqrt_on_disc(x: Any, radius: Any, result: Any) -> Any:
    low = modulus(x) - radius
    smooth = _where_positive(low, lambda low: 0.5 * radius * low**-1.5)
    across = _where_positive(low, lambda low: 2.0 / np.sqrt(low))
    return np.where(_meets_cut(x, radius), across, smooth)


def _meets_cut(x: Any, radius: Any) -> Any:
    return (x.real - radius <= 0) & (np.abs(x.imag) <= radius)


def _circular_on_disc(x: Any, radius: Any, result: Any) -> Any:
    """Bound sin and cos over a disc by their slopes: |cos z| and |sin z| are at most cosh(Im z)."""
    return radius * np.cosh(np.abs(x.imag) + radius)


def _hyperbolic_on_disc(x: Any, radius: Any, result: Any) -> Any:
    return radius * np.cosh(np.abs(x.real) + radius)


def _tan_on_disc(x: Any, radius: Any, result: Any) -> Any:
    """Bound tan over a disc of radius r: its slope is 1 / |cos|^2, and |cos| falls by less than r cosh(|Im z| + r)."""
    return _from_denominator(np.cos(x), np.cosh(np.abs(x.imag) + radius), radius)


def _tanh_on_disc(x: Any, radius: Any, result: Any) -> Any:
    return _from_denominator(np.cosh(x), np.cosh(np.abs(x.real) + radius), radius)


def _logistic_on_disc(x: Any, radius: Any, result: Any) -> Any:
    """Bound the logistic function over a disc by the bound of tanh, because it equals (1 + tanh(z / 2)) / 2."""
    return _tanh_on_disc(x / 2.0, radius / 2.0, result) / 2.0


def _from_denominator(value: Any, growth: Any, radius: Any) -> Any:
    low = modulus(value) * (1 - 2**-40) - radius * growth
    return _where_positive(low, lambda low: radius / low**2)


def _slope_by_distance(x: Any, radius: Any, points: Sequence[complex], power: float) -> Any:
    """Compute the maximum over a disc of the product of |z - p|^-power over all `points` p."""
    slope = np.ones(np.shape(x))
    for point in points:
        low = modulus(x - point) - radius
        slope = slope * _where_positive(low, lambda low: low**-power)
    return slope


def _by_branch_points(*points: complex, power: float) -> Continuity:
    """Return a function that bounds an inverse trigonometric or hyperbolic function over a disc.

    The slope is the product of |z - p|^-power over the branch points p. A disc that touches a branch cut, which runs
    from a branch point outwards along an axis, has no bound.
    """

    def continuity(x: Any, radius: Any, result: Any) -> Any:
        along, across = (x.real, x.imag) if points[0].imag == 0 else (x.imag, x.real)
        crosses = (np.abs(across) <= radius) & (np.abs(along) + radius >= 1)
        return np.where(crosses, np.inf, radius * _slope_by_distance(x, radius, points, power))

    return continuity


def _acosh_on_disc(x: Any, radius: Any, result: Any) -> Any:
    """Bound acosh over a disc; its branch cut runs from 1 along the real axis to minus infinity."""
    crosses = (np.abs(x.imag) <= radius) & (x.real - radius <= 1)
    return np.where(crosses, np.inf, radius * _slope_by_distance(x, radius, (1.0, -1.0), 0.5))


ROWS: Mapping[type[StdTensorOp], Rule] = {
    **dict.fromkeys(an.CARDS, _analytic(None)),
    an.Exp: _exp_rule,
    an.Expm1: _analytic(_expm1, _expm1),
    an.Log: _analytic(_log, _log_on_disc),
    an.Log1p: _log1p_rule,
    an.Sqrt: _sqrt_rule,
    an.Rsqrt: _analytic(_rsqrt, _rsqrt_on_disc),
    an.Cbrt: _analytic(_cbrt),
    an.Sin: _analytic(_sin, _circular_on_disc),
    an.Cos: _analytic(_cos, _circular_on_disc),
    an.Tan: _analytic(_tan, _tan_on_disc),
    an.Tanh: _analytic(_by_slope(lambda least, most: np.cosh(least) ** -2.0), _tanh_on_disc),
    an.Logistic: _analytic(_by_slope(_logistic_slope), _logistic_on_disc),
    an.Asin: _analytic(
        _by_slope(
            lambda least, most: _where_positive(1 - most, lambda low: (low * (1 + most)) ** -0.5)
        ),
        _by_branch_points(1 + 0j, -1 + 0j, power=0.5),
    ),
    an.Acos: _analytic(
        _by_slope(
            lambda least, most: _where_positive(1 - most, lambda low: (low * (1 + most)) ** -0.5)
        ),
        _by_branch_points(1 + 0j, -1 + 0j, power=0.5),
    ),
    an.Atan: _analytic(
        _by_slope(lambda least, most: 1.0 / (1.0 + least**2)), _by_branch_points(1j, -1j, power=1.0)
    ),
    an.Sinh: _analytic(_by_slope(lambda least, most: np.cosh(most)), _hyperbolic_on_disc),
    an.Cosh: _analytic(_by_slope(lambda least, most: np.sinh(most)), _hyperbolic_on_disc),
    an.Asinh: _analytic(
        _by_slope(lambda least, most: 1.0 / np.sqrt(1.0 + least**2)),
        _by_branch_points(1j, -1j, power=0.5),
    ),
    an.Acosh: _analytic(
        lambda x, radius, result: _where_positive(
            x - radius - 1, lambda low: radius / np.sqrt(low * (low + 2.0))
        ),
        _acosh_on_disc,
    ),
    an.Atanh: _analytic(
        _by_slope(
            lambda least, most: _where_positive(1 - most, lambda low: 1.0 / (low * (1 + most)))
        ),
        _by_branch_points(1 + 0j, -1 + 0j, power=1.0),
    ),
    an.Erf: _analytic(_by_slope(lambda least, most: 2 / np.sqrt(np.pi) * np.exp(-(least**2)))),
    an.Erfc: _analytic(_by_slope(lambda least, most: 2 / np.sqrt(np.pi) * np.exp(-(least**2)))),
    an.ErfInv: _analytic(_erf_inv),
    an.Lgamma: _analytic(_lgamma),
    an.Digamma: _analytic(_digamma_slope(0)),
    an.Polygamma: _polygamma,
    an.Atan2: _atan2,
}
