"""Minimisers as loops of the program: L-BFGS, and the method of Levenberg and Marquardt.

Parameters are a tree, as in `tenferro.optimize`, and internally one real vector. A minimum is differentiated as the
root of the gradient, by the implicit function theorem; steps are never differentiated.

Source: Nocedal and Wright, "Numerical Optimization", 2006.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tenferro.api import tree
from tenferro.api.autodiff import grad, jacfwd, jacrev, value_and_grad, vjp
from tenferro.api.control import scan, while_loop
from tenferro.api.creation import zeros
from tenferro.api.custom import custom_jvp
from tenferro.api.data_types import finfo
from tenferro.api.elementwise import abs, isfinite, logical_not, maximum, minimum, sqrt, where
from tenferro.api.implicit import custom_linear_solve, custom_root
from tenferro.api.linalg import solve
from tenferro.api.manipulation import astype, concat, reshape
from tenferro.api.real_vector import RealVector
from tenferro.api.reductions import max as largest
from tenferro.api.reductions import sum as sum_over
from tenferro.door import as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.rules.payload import as_int
from tenferro.types import PyTree, Tensor

__all__ = ["Minimum", "lbfgs", "levenberg_marquardt"]


class Minimum(NamedTuple):
    """Result of a minimiser in the program, as tensors; field names and status values are SciPy's.

    Attributes:
        x: the parameters.
        fun: the function there, or the residuals.
        jac: the gradient there, as a tree like x.
        nit: the number of steps.
        status: the reason why it ended.
        success: whether it is a minimum.
    """

    x: Any
    fun: Any
    jac: Any
    nit: Any
    status: Any
    success: Any


@custom_jvp
def _if_converged(x: Tensor, success: Tensor) -> Any:
    """Return x, with derivatives that are NaN unless it is a minimum."""
    return x


def _nan_unless(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    x, success = primals
    # Multiply by NaN instead of selecting it, because the transpose of a select would give zero.
    factor = where(success, np.asarray(1, spec_of(x).dtype.dtype), np.nan)
    return x, tangents[0] * factor


_if_converged.defjvp(_nan_unless)


def _tolerance(name: str, given: float | None, vector: RealVector) -> float:
    """Return a tolerance, or the square root of the dtype's epsilon.

    Raises:
        InvalidConfigError: it is not a number, or negative.
    """
    if given is None:
        return float(finfo(vector.dtype).eps) ** 0.5
    if not isinstance(given, int | float) or not given >= 0:  # pyright: ignore[reportUnnecessaryIsInstance]  # because callers may not check
        raise InvalidConfigError(f"{name} must be a number from 0, got {given!r:.60}")
    return float(given)


# ---- L-BFGS --------------------------------------------------------------------------------------


ARMIJO, SHALLOW, CURVATURE, TRIALS = 1e-4, 0.1, 0.9, 40
"""Constants of the line search; Nocedal and Wright, section 3.1."""


def lbfgs(
    fun: Callable[..., Any],
    x0: PyTree,
    args: Sequence[Any] = (),
    *,
    gtol: float | None = None,
    maxiter: int = 1000,
    memory: int = 10,
) -> Minimum:
    """Minimise a function of a tree by L-BFGS, as one loop of the program.

    It may be called in jitted functions, in loops and under `vmap`, and runs on every peer. `minimize` calls SciPy's
    methods outside of programs.

    Derivatives with respect to args and captured tensors are those of the root of the gradient: a system with the
    Hessian, solved by conjugate gradients. They are NaN where `success` is false; x0 has no derivative.

    Args:
        fun: a function of such a tree and `args`, with a real scalar result.
        x0: the initial parameters, real or complex floating-point.
        args: trees of tensors.
        gtol: the largest element of the gradient at a minimum; the square root of the dtype's epsilon by default.
        maxiter: the largest number of steps.
        memory: the number of steps from which the Hessian is estimated.

    Returns:
        The minimum, with status 0 for success, 1 after maxiter steps, 2 where no step decreases fun.

    Raises:
        DTypeError, ShapeError: fun returns no real scalar; integers among the parameters.
        ArityError: x0 has no elements.
        InvalidConfigError: options that are not numbers, or out of their range.

    >>> import tenferro as tnf
    >>> def rosenbrock(p, a):
    ...     return (a - p["x"]) ** 2 + 100 * (p["y"] - p["x"] ** 2) ** 2
    >>> result = lbfgs(rosenbrock, {"x": -1.2, "y": 1.0}, args=(1.0,))
    >>> {name: round(float(value), 6) for name, value in result.x.items()}, bool(result.success)
    ({'x': 1.0, 'y': 1.0}, True)
    >>> tnf.grad(lambda a: lbfgs(rosenbrock, {"x": 0.0, "y": 0.0}, args=(a,)).x["y"])(1.5).round(5)
    np.float64(3.0)

    Source: Nocedal and Wright, algorithm 7.4, with the line search of Lewis and Overton, "Nonsmooth optimization via
    quasi-Newton methods", 2013, algorithm 2.6.
    """
    vector = RealVector("lbfgs", "x0", x0)
    tolerance = _tolerance("lbfgs: gtol", gtol, vector)
    maxiter = as_int("lbfgs", "maxiter", maxiter, 1)
    memory = as_int("lbfgs", "memory", memory, 1)

    def value(x: Tensor) -> Any:
        result = as_operand(fun(vector.tree_of(x), *args))
        spec = spec_of(result)
        if spec.rank or not spec.dtype.is_float:
            kind = ShapeError if spec.rank else DTypeError
            raise kind(f"lbfgs: fun must return a real scalar, got {spec}")
        return astype(result, vector.dtype, copy=False)

    def descend(_: Any, x: Tensor) -> Any:
        return _descent(value, x, tolerance, maxiter, memory)

    def tangent(hessian: Callable[[Any], Any], y: Tensor) -> Any:
        return custom_linear_solve(hessian, y, _conjugate_gradients, symmetric=True)

    x, (slope, count, status) = custom_root(
        grad(value), vector.start, descend, tangent, has_aux=True
    )
    x = _if_converged(x, status == 0)
    return Minimum(vector.tree_of(x), value(x), vector.tree_of(slope), count, status, status == 0)


def _descent(value: Callable[[Any], Any], x: Tensor, gtol: float, maxiter: int, memory: int) -> Any:
    """Return x and (gradient, number of steps, status)."""
    value_and_slope = value_and_grad(value)
    dtype = spec_of(x).dtype

    def is_flat(slope: Tensor) -> Any:
        return largest(abs(slope)) <= gtol

    def goes_on(state: Sequence[Any]) -> Any:
        _, _, slope, _, count, failed = state
        return logical_not(is_flat(slope) | failed) & (count < maxiter)

    def step(state: Sequence[Any]) -> Any:
        x, height, slope, pairs, count, _ = state
        direction = -_two_loops(slope, pairs, count)
        size, new, new_height, new_slope = _line_search(
            value_and_slope, x, height, slope, direction
        )
        is_accepted = size > 0
        moved, change = new - x, new_slope - slope
        curvature = sum_over(moved * change)
        weight = where(curvature > 0, 1 / where(curvature > 0, curvature, 1), 0)
        latest = (moved, change, weight)
        pairs = tuple(
            [
                concat([old[1:], reshape(row, (1, *old.shape[1:]))])
                for old, row in zip(pairs, latest, strict=True)
            ]
        )
        following = [
            where(is_accepted, a, b)
            for a, b in zip((new, new_height, new_slope), (x, height, slope), strict=True)
        ]
        return (*following, pairs, count + 1, logical_not(is_accepted))

    height, slope = value_and_slope(x)
    pairs = (
        zeros((memory, *x.shape), dtype=dtype),
        zeros((memory, *x.shape), dtype=dtype),
        zeros((memory,), dtype=dtype),
    )
    x, _, slope, _, count, failed = while_loop(
        goes_on, step, (x, height, slope, pairs, 0, np.False_)
    )
    return x, (slope, count, where(is_flat(slope), 0, where(failed, 2, 1)))


def _two_loops(slope: Tensor, pairs: Sequence[Any], count: Tensor) -> Any:
    """Return the product of the estimated inverse Hessian and the gradient.

    Source: Nocedal and Wright, algorithm 7.4.
    """

    def back(q: Tensor, row: Sequence[Any]) -> Any:
        moved, change, weight = row
        part = weight * sum_over(moved * q)
        return q - part * change, part

    def forth(r: Tensor, row: Sequence[Any]) -> Any:
        (moved, change, weight), part = row
        return r + (part - weight * sum_over(change * r)) * moved, None

    q, parts = scan(back, slope, pairs, reverse=True)
    _, change, weight = [x[-1] for x in pairs]
    square = sum_over(change * change)
    # The first direction has at most unit length; later ones have the scale of the last step.
    first = minimum(1.0, 1 / sqrt(sum_over(slope * slope)))
    scale = where(
        weight > 0, 1 / where(weight > 0, weight * square, 1), where(count > 0, 1.0, first)
    )
    return scan(forth, scale * q, (pairs, parts))[0]


def _line_search(
    value_and_slope: Callable[[Any], Any],
    x: Tensor,
    height: Tensor,
    slope: Tensor,
    direction: Tensor,
) -> Any:
    """Return the step size, the new point, and the value and gradient there; size 0 if there is no such step.

    The size satisfies the weak Wolfe conditions, or near a minimum the approximate Wolfe conditions.

    Source: Hager and Zhang, SIAM Journal on Optimization 16 (2005), 170-192, for the approximate conditions.
    """
    descent = sum_over(slope * direction)
    noise = float(finfo(spec_of(x).dtype).eps) ** 0.5 * abs(height)

    def tried(size: Tensor) -> Any:
        point = x + size * direction
        return point, *value_and_slope(point)

    def is_low(size: Tensor, value: Tensor, new_slope: Tensor) -> Any:
        # Near a minimum the values differ only by rounding, so slopes decide.
        is_shallow = sum_over(new_slope * direction) <= (2 * SHALLOW - 1) * descent
        return (value <= height + ARMIJO * size * descent) | (
            (value <= height + noise) & is_shallow
        )

    def is_far(new_slope: Tensor) -> Any:
        return sum_over(new_slope * direction) >= CURVATURE * descent

    def goes_on(state: Sequence[Any]) -> Any:
        size, _, _, (_, value, new_slope), count = state
        is_accepted = is_low(size, value, new_slope) & is_far(new_slope)
        return logical_not(is_accepted) & (count < TRIALS)

    def step(state: Sequence[Any]) -> Any:
        size, low, high, (_, value, new_slope), count = state
        lower = is_low(size, value, new_slope)
        high, low = where(lower, high, size), where(lower, size, low)
        size = where(isfinite(high), 0.5 * (low + high), 2 * size)
        return size, low, high, tried(size), count + 1

    one = np.asarray(1, spec_of(x).dtype.dtype)
    size, _, _, (point, value, new_slope), _ = while_loop(
        goes_on, step, (one, 0 * one, np.inf * one, tried(one), 0)
    )
    has_moved = largest(abs(point - x)) > 0
    is_accepted = is_low(size, value, new_slope) & isfinite(value) & (descent < 0) & has_moved
    return where(is_accepted, size, 0), point, value, new_slope


def _conjugate_gradients(product: Callable[[Any], Any], b: Tensor) -> Any:
    """Return the solution of a positive definite system; NaN where it does not converge.

    Source: Nocedal and Wright, algorithm 5.2.
    """
    bound = 16 * float(finfo(spec_of(b).dtype).eps) * sqrt(sum_over(b * b))
    most = 20 * b.shape[0] + 20

    def goes_on(state: Sequence[Any]) -> Any:
        _, _, _, square, count = state
        return (sqrt(square) > bound) & (count < most)

    def step(state: Sequence[Any]) -> Any:
        x, rest, direction, square, count = state
        image = product(direction)
        size = square / sum_over(direction * image)
        rest = rest - size * image
        after = sum_over(rest * rest)
        return x + size * direction, rest, rest + after / square * direction, after, count + 1

    x, _, _, square, _ = while_loop(goes_on, step, (0 * b, b, b, sum_over(b * b), 0))
    return where(sqrt(square) <= bound, x, np.nan)


# ---- least squares -------------------------------------------------------------------------------


def levenberg_marquardt(
    fun: Callable[..., Any],
    x0: PyTree,
    args: Sequence[Any] = (),
    *,
    ftol: float | None = None,
    xtol: float | None = None,
    gtol: float | None = None,
    maxiter: int = 200,
) -> Minimum:
    """Minimise the sum of the squares of residuals by the method of Levenberg and Marquardt, in the program.

    As `lbfgs` it may be called anywhere in a program; `least_squares` calls SciPy's methods outside of programs.
    Each step solves a dense system with one unknown per parameter.

    Derivatives with respect to args and captured tensors are those of the root of J^T r, with the
    residuals' second derivatives. They are NaN where `success` is false; x0 has no derivative.

    Args:
        fun: a function of such a tree and `args`, with a tree of real tensors, the residuals, as its result.
        x0: the initial parameters, real or complex floating-point.
        args: trees of tensors.
        ftol: relative decrease of the sum of squares; the square root of the dtype's epsilon squared by default.
        xtol: relative length of a step; by default as ftol.
        gtol: the largest element of J^T r; the square root of the dtype's epsilon by default.
        maxiter: the largest number of steps, rejected ones too.

    Returns:
        The minimum. Its status is 1, 2 or 3 where gtol, ftol or xtol ended the iteration, and 0 after maxiter steps.

    Raises:
        DTypeError: residuals that are not real; integers among the parameters.
        ArityError: x0 has no elements.
        InvalidConfigError: options that are not numbers, or out of their range.

    >>> import tenferro as tnf
    >>> t = np.array([0.0, 1.0, 2.0, 3.0])
    >>> decay = lambda p, y: p["a"] * tnf.exp(-p["rate"] * t) - y
    >>> fit = levenberg_marquardt(decay, {"a": 1.0, "rate": 1.0}, args=(2 * np.exp(-0.5 * t),))
    >>> {name: round(float(value), 6) for name, value in fit.x.items()}, bool(fit.success)
    ({'a': 2.0, 'rate': 0.5}, True)

    Source: Marquardt, SIAM Journal on Applied Mathematics 11 (1963), 431-441; damping by Nielsen, report
    IMM-REP-1999-05, with the scaling of More, Lecture Notes in Mathematics 630 (1978), 105-116.
    """
    vector = RealVector("levenberg_marquardt", "x0", x0)
    name = "levenberg_marquardt"
    eps = float(finfo(vector.dtype).eps)
    bounds = (
        _tolerance(f"{name}: ftol", eps if ftol is None else ftol, vector),
        _tolerance(f"{name}: xtol", eps if xtol is None else xtol, vector),
        _tolerance(f"{name}: gtol", gtol, vector),
    )
    maxiter = as_int(name, "maxiter", maxiter, 1)

    def residuals(x: Tensor) -> Any:
        flat, _ = tree.ravel(fun(vector.tree_of(x), *args))
        if not spec_of(flat).dtype.is_float:
            raise DTypeError(
                f"{name}: the residuals must be real and floating-point, got {spec_of(flat)}; "
                "give real and imaginary parts as a pair"
            )
        return astype(flat, vector.dtype, copy=False)

    def slope(x: Tensor) -> Any:
        values, pull = vjp(residuals, x)
        return pull(values)[0]

    def descend(_: Any, x: Tensor) -> Any:
        return _damped_steps(residuals, x, bounds, maxiter)

    x, (gradient, count, status) = custom_root(
        slope, vector.start, descend, lambda g, y: solve(jacfwd(g)(y), y), has_aux=True
    )
    x = _if_converged(x, status > 0)
    return Minimum(
        vector.tree_of(x),
        fun(vector.tree_of(x), *args),
        vector.tree_of(gradient),
        count,
        status,
        status > 0,
    )


def _damped_steps(
    residuals: Callable[[Any], Any], x: Tensor, bounds: tuple[float, float, float], maxiter: int
) -> Any:
    """Return x and (J^T r, number of steps, status)."""
    ftol, xtol, gtol = bounds
    first = residuals(x)
    jacobian = jacfwd(residuals) if first.shape[0] >= x.shape[0] else jacrev(residuals)
    one = np.asarray(1, spec_of(x).dtype.dtype)

    def normal(x: Tensor, values: Tensor) -> tuple[Any, Any]:
        matrix = jacobian(x)
        return matrix.T @ matrix, matrix.T @ values

    def goes_on(state: Sequence[Any]) -> Any:
        return (state[-1] == 0) & (state[-2] < maxiter)

    def step(state: Sequence[Any]) -> Any:
        x, values, matrix, slope, scale, damping, growth, count, _ = state
        move = solve(matrix + damping * _diagonal(scale), -slope)
        new_values = residuals(x + move)
        square, new_square = [0.5 * sum_over(r * r) for r in (values, new_values)]
        predicted = 0.5 * sum_over(move * (damping * scale * move - slope))
        actual = square - new_square
        ratio = actual / where(predicted > 0, predicted, 1)
        accepted = (ratio > 0) & isfinite(new_square)
        small = sqrt(sum_over(move * move)) <= xtol * (xtol + sqrt(sum_over(x * x)))
        flat = (predicted <= ftol * square) & (abs(actual) <= ftol * square)
        x, values = [where(accepted, a, b) for a, b in ((x + move, x), (new_values, values))]
        matrix, slope = normal(x, values)
        scale = maximum(scale, _of_diagonal(matrix))
        shrunk = damping * maximum(1 / 3, 1 - (2 * ratio - 1) ** 3)
        damping = where(accepted, shrunk, damping * growth)
        growth = where(accepted, 2 * one, 2 * growth)
        status = where(largest(abs(slope)) <= gtol, 1, where(flat, 2, where(small, 3, 0)))
        return x, values, matrix, slope, scale, damping, growth, count + 1, status

    matrix, slope = normal(x, first)
    diagonal = _of_diagonal(matrix)
    scale = where(diagonal > 0, diagonal, 1)
    status = where(largest(abs(slope)) <= gtol, 1, 0)
    state = (x, first, matrix, slope, scale, 1e-3 * one, 2 * one, 0, status)
    x, _, _, slope, *_, count, status = while_loop(goes_on, step, state)
    return x, (slope, count, status)


def _diagonal(x: Tensor) -> Any:
    return reshape(x, (-1, 1)) * np.eye(x.shape[0], dtype=spec_of(x).dtype.dtype)


def _of_diagonal(matrix: Tensor) -> Any:
    return sum_over(matrix * np.eye(matrix.shape[0], dtype=spec_of(matrix).dtype.dtype), axis=0)
