"""Derivatives of Gauss's hypergeometric function in its parameters, as kernels in float64.

F(a, b; c; x) is represented by a truncated power series in the increments of a, b and c, along the first three axes of
an array. The transformations of Pfaff and Euler (NIST's DLMF, 15.8.1) lead to an argument in [0, 1), and to parameters
that are as positive as possible, so that few terms cancel. Up to 1/2 the power series in x is summed. Beyond 1/2 the
function is continued by Taylor series of the differential equation (DLMF 15.10.1). Each step halves the distance to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tenferro.special.kernels import exponential_series

__all__ = ["kernel_of"]

Series = np.ndarray
Linear = tuple[np.ndarray, tuple[float, ...]]
"""Linear function of the parameters: its value, and its derivatives in a, b and c, which are constants."""

TERMS = 2000
UNIT = 2.0**-60


def _times(series: Series, factor: Linear) -> Series:
    """Multiply a power series in the parameters by a linear function of the parameters."""
    value, slopes = factor
    result = series * value
    for axis, slope in enumerate(slopes):
        if slope and series.shape[axis] > 1:
            shifted, source = np.moveaxis(result, axis, 0), np.moveaxis(series, axis, 0)
            shifted[1:] += slope * source[:-1]
    return result


def _over_c(series: Series, value: np.ndarray) -> Series:
    """Divide a power series in the parameters by a linear function of c with the value `value` and slope 1."""
    result = series / value
    for k in range(1, series.shape[2]):
        result[:, :, k] = (series[:, :, k] - result[:, :, k - 1]) / value
    return result


def _times_power(series: Series, logarithm: np.ndarray, exponent: Linear) -> Series:
    """Multiply a power series in the parameters by e^(exponent logarithm).

    `exponent` is a linear function of the parameters.
    """
    value, slopes = exponent
    result = series * np.exp(value * logarithm)
    for axis, slope in enumerate(slopes):
        source, total = result, result
        for k in range(1, series.shape[axis] if slope else 1):
            source = _times(
                source, (np.zeros_like(value), tuple(float(i == axis) for i in range(3)))
            )
            source = source * (slope * logarithm / k)
            total = total + source
        result = total
    return result


def _power_series(
    first: Linear, second: Linear, c: np.ndarray, z: np.ndarray, shape: tuple[int, ...], limit: int
) -> tuple[Series, Series]:
    """Return the sum of the power series in z, and its derivative in z."""
    term = np.zeros((*shape, len(z)))
    term[0, 0, 0] = 1
    total, slope = term.copy(), np.zeros_like(term)
    least = float(np.max(np.abs(np.stack([first[0], second[0], c])), initial=0))
    for n in range(limit):
        term = _over_c(
            _times(_times(term, (first[0] + n, first[1])), (second[0] + n, second[1])), c + n
        )
        slope += term
        term = term * (z / (n + 1))
        total += term
        if n > least and np.all(np.abs(term) * (n + 1) <= UNIT * (np.abs(total) + 1e-300)):
            break
    return total, slope


def _continued(
    value: Series,
    slope: Series,
    first: Linear,
    second: Linear,
    c: np.ndarray,
    far: float,
    rest: np.ndarray,
) -> tuple[Series, Series]:
    """Compute the value and slope of F at 1 - rest from the value and slope at 1 - far, by a Taylor series.

    `far` and `rest` are distances to 1 with far / 2 <= rest <= far.
    """
    near, step = 1 - far, far - rest
    both = first[0] + second[0]
    slopes = tuple(x + y for x, y in zip(first[1], second[1], strict=True))
    bend = (c - both - 1) + (both + 1) * far
    bends = tuple((axis == 2) - near * slope for axis, slope in enumerate(slopes))
    lower, upper = value, slope * step
    total, derivative = lower + upper, upper.copy()
    scale = step / (near * far)
    for n in range(TERMS):
        middle = _times(upper, ((far - near) * n + bend, bends)) * (-scale / (n + 2))
        lowest = _times(_times(lower, (first[0] + n, first[1])), (second[0] + n, second[1]))
        lower, upper = upper, middle + lowest * (scale * step / ((n + 2) * (n + 1)))
        total += upper
        derivative += (n + 2) * upper
        if n > 8 and np.all(
            np.maximum(np.abs(upper), np.abs(lower)) * (n + 2) <= UNIT * (np.abs(total) + 1e-300)
        ):
            break
    # For a step of length 0 the slope is unchanged. Dividing its series by the step would divide by 0.
    with np.errstate(invalid="ignore", divide="ignore"):
        return total, np.where(step > 0, derivative / step, slope)


def _inside(
    first: Linear,
    second: Linear,
    c: np.ndarray,
    z: np.ndarray,
    rest: np.ndarray,
    shape: tuple[int, ...],
) -> Series:
    """Return F, as a power series in the parameters, at 0 <= z < 1, with rest = 1 - z."""

    def part(at: np.ndarray) -> tuple[Linear, Linear, np.ndarray]:
        return (first[0][at], first[1]), (second[0][at], second[1]), c[at]

    result = np.empty((*shape, len(z)))
    low = z <= 0.5
    result[..., low] = _power_series(*part(low), z[low], shape, TERMS)[0]
    at = np.flatnonzero(~low)
    value, slope = _power_series(*part(at), np.full(len(at), 0.5), shape, TERMS)
    far = 0.5
    while len(at):
        value, slope = _continued(value, slope, *part(at), far, np.maximum(rest[at], far / 2))
        far /= 2
        is_there = rest[at] >= far
        result[..., at[is_there]] = value[..., is_there]
        at, value, slope = at[~is_there], value[..., ~is_there], slope[..., ~is_there]
    return result


def _series(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, x: np.ndarray, shape: tuple[int, ...]
) -> Series:
    """Return F, as a power series in the parameters, at finite x < 1."""
    result = np.empty((*shape, len(x)))
    of_a, of_b = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)
    less_a, less_b = (-1.0, 0.0, 1.0), (0.0, -1.0, 1.0)
    below = x < 0
    rest = np.where(below, 1 / (1 - x), 1 - x)
    z, logarithm = (
        np.where(below, x * -rest, x),
        np.where(below, -np.log1p(-x), np.log1p(-np.abs(x))),
    )
    below_first, above_first = np.minimum(a, c - b), np.minimum(a, b)
    by_first = (below_first >= 0) | (below_first >= np.minimum(c - a, b))
    is_plain = (above_first >= 0) | (above_first >= np.minimum(c - a, c - b))
    # F is transformed to F(first, second; c; z) times a power of 1 / (1 - x) for negative x, or of 1 - x otherwise.
    for mask, first, second, exponent in (
        (below & by_first, (a, of_a), (c - b, less_b), (a, of_a)),
        (below & ~by_first, (c - a, less_a), (b, of_b), (b, of_b)),
        (~below & is_plain, (a, of_a), (b, of_b), None),
        (~below & ~is_plain, (c - a, less_a), (c - b, less_b), (c - a - b, (-1.0, -1.0, 1.0))),
    ):
        at = np.flatnonzero(mask)
        if not len(at):
            continue
        values = _inside(
            (first[0][at], first[1]), (second[0][at], second[1]), c[at], z[at], rest[at], shape
        )
        if exponent is not None:
            values = _times_power(values, logarithm[at], (exponent[0][at], exponent[1]))
        result[..., at] = values
    return result


def _at_one(
    special: Any, a: np.ndarray, b: np.ndarray, c: np.ndarray, shape: tuple[int, ...]
) -> Series:
    """Return F at x = 1, as a power series in the parameters. The arguments of the Gamma functions must be positive.

    F is Gamma(c) Gamma(c - a - b) / (Gamma(c - a) Gamma(c - b)).
    """
    count = sum(shape) - 2
    result = np.zeros((*shape, len(a)))
    result[0, 0, 0] = 1
    parts = (
        (c, (0.0, 0.0, 1.0), 1.0),
        (c - a - b, (-1.0, -1.0, 1.0), 1.0),
        (c - a, (-1.0, 0.0, 1.0), -1.0),
        (c - b, (0.0, -1.0, 1.0), -1.0),
    )
    for argument, slopes, sign in parts:
        value = special.gamma(argument) if sign > 0 else special.rgamma(argument)
        logarithm = [
            sign * special.polygamma(k - 1, argument) / math.factorial(k)
            for k in range(1, count + 1)
        ]
        terms = exponential_series(value, logarithm)
        power, total = result, result * terms[0]
        for term in terms[1:]:
            power = _times(power, (np.zeros_like(a), slopes))
            total = total + power * term
        result = total
    return result


def kernel_of(orders: tuple[int, int, int]) -> Callable[[Any], Callable[..., Any]]:
    """Return the kernel of a derivative of F, whose orders in a, b and c are `orders`.

    The kernel returns NaN where the derivative is not real or does not exist.
    """
    shape = tuple(order + 1 for order in orders)
    factor = math.prod(map(math.factorial, orders))

    def kernel(special: Any, a: np.ndarray, b: np.ndarray, c: np.ndarray, x: np.ndarray) -> Any:
        operands = np.broadcast_arrays(a, b, c, x)
        a, b, c, x = (each.ravel() for each in operands)
        result = np.full(x.shape, math.nan)
        is_finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & np.isfinite(x)
        is_finite &= ~((c <= 0) & (c == np.round(c)))
        length = np.where((a <= 0) & (a == np.round(a)) & (orders[0] == 0), -a, math.inf)
        other = np.where((b <= 0) & (b == np.round(b)) & (orders[1] == 0), -b, math.inf)
        length = np.minimum(length, other)
        is_sum = is_finite & (length < TERMS) & (x >= 1)
        is_limit = is_finite & ~is_sum & (x == 1) & (c > 0) & (c > a + b) & (c > a) & (c > b)
        with np.errstate(all="ignore"):
            at = np.flatnonzero(is_finite & (x < 1))
            result[at] = _series(a[at], b[at], c[at], x[at], shape)[orders]
            at = np.flatnonzero(is_limit)
            if len(at):
                result[at] = _at_one(special, a[at], b[at], c[at], shape)[orders]
            for at in np.flatnonzero(is_sum)[:, None]:
                first, second = (a[at], (1.0, 0.0, 0.0)), (b[at], (0.0, 1.0, 0.0))
                result[at] = _power_series(first, second, c[at], x[at], shape, int(length[at[0]]))[
                    0
                ][orders]
        return (result * factor).reshape(operands[0].shape)

    return lambda special: partial(kernel, special)
