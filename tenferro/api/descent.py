"""Minimisers that run as loops of a program: L-BFGS, and the method of Levenberg and Marquardt.

The caller's parameters are a tree, as in `tenferro.optimize`; internally they are one real vector. A minimum is
differentiated as a root of the gradient, by the implicit function theorem. The iteration itself is not differentiated.

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
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.rules.payload import as_int
from tenferro.types import PyTree, Tensor

__all__ = ["Minimum", "lbfgs", "levenberg_marquardt"]


class Minimum(NamedTuple):
    """Result of a minimiser, with tensors as fields; field names and status values are SciPy's.

    Attributes:
        x: the parameters at the minimum.
        fun: the value of the function at x, or, for least squares, the residuals at x.
        jac: the gradient at x, as a tree like x.
        nit: the number of steps.
        status: a number for the reason why the iteration ended; the docstring of the minimiser lists the numbers.
        success: whether the iteration found a minimum.
    """

    x: Any
    fun: Any
    jac: Any
    nit: Any
    status: Any
    success: Any


@custom_jvp
def _if_converged(x: Tensor, success: Tensor) -> Any:
    """Return x. Where `success` is false, its derivatives are NaN."""
    return x


def _nan_unless(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    x, success = primals
    # Multiply by NaN instead of selecting it, because the transpose of a select would be zero.
    factor = where(success, np.asarray(1, spec_of(x).dtype.dtype), np.nan)
    return x, tangents[0] * factor


_if_converged.defjvp(_nan_unless)


def _tolerance(name: str, given: float | None, vector: RealVector) -> float:
    """Return the caller's tolerance, or by default the square root of the dtype's epsilon.

    Raises:
        InvalidConfigError: the tolerance is not a number, or is negative.
    """
    if given is None:
        return float(finfo(vector.dtype).eps) ** 0.5
    if not isinstance(given, int | float) or not given >= 0:  # pyright: ignore[reportUnnecessaryIsInstance]  # because callers may not check
        raise InvalidConfigError(f"{name} must be a number from 0, got {given!r:.60}")
    return float(given)


# ---- L-BFGS --------------------------------------------------------------------------------------


ARMIJO, SHALLOW, CURVATURE, TRIALS = 1e-4, 0.1, 0.9, 40
"""Constants of the line search: ARMIJO, SHALLOW and CURVATURE are factors in three conditions on the step size.

ARMIJO is for the decrease of the value, CURVATURE for the slope, and SHALLOW for the slope near a minimum. TRIALS is
the maximum number of step sizes that are tried.

Source: Nocedal and Wright, section 3.1.
"""


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

    The function may be called in jitted functions, in loops and under `vmap`, and runs natively or through XLA. In
    contrast, `minimize` calls SciPy's methods, which cannot be part of a program.

    The result x is differentiable with respect to `args` and captured tensors, as a root of the gradient. The
    derivative solves a system with the Hessian, by conjugate gradients. It is NaN if `success` is false. There is no
    derivative with respect to x0.

    Args:
        fun: a function of a tree like x0, and of `args`, whose result is a real scalar.
        x0: the initial parameters, real or complex floating-point.
        args: trees of tensors.
        gtol: the iteration ends when no element of the gradient is larger in magnitude; the default is the square root
            of the dtype's epsilon.
        maxiter: the maximum number of steps.
        memory: the number of latest steps from which the Hessian is estimated.

    Returns:
        The minimum. Its status is 0 for success, 1 if the iteration did not end within `maxiter` steps, and 2 if no
        step decreases fun.

    Raises:
        DTypeError, ShapeError: fun does not return a real scalar, or a parameter is an integer.
        ArityError: x0 has no elements.
        InvalidConfigError: an option is not a number, or is out of its range.

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
    """Run L-BFGS from x; return the final x, and (gradient, number of steps, status)."""
    value_and_slope = value_and_grad(value)
    dtype = spec_of(x).dtype

    def is_flat(slope: Tensor) -> Any:
        return largest(abs(slope)) <= gtol

    def is_running(state: Sequence[Any]) -> Any:
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
        is_running, step, (x, height, slope, pairs, 0, np.False_)
    )
    return x, (slope, count, where(is_flat(slope), 0, where(failed, 2, 1)))


def _two_loops(slope: Tensor, pairs: Sequence[Any], count: Tensor) -> Any:
    """Return the product of the estimated inverse Hessian and the gradient `slope`.

    Args:
        pairs: for each of the latest steps the change of x, the change of the gradient, and 1 divided by the dot
            product of these two; stacked along the first axis.
        count: the number of steps so far.

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
    # The first direction is scaled to at most unit length. Later directions are scaled by the curvature of the last
    # step.
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
    """Search along `direction`; return the step size, the new point, and the value and gradient at the new point.

    The size satisfies the weak Wolfe conditions or, near a minimum, the approximate Wolfe conditions. The size is 0 if
    the search finds no such step.

    Source: Hager and Zhang, SIAM Journal on Optimization 16 (2005), 170-192, for the approximate conditions.
    """
    descent = sum_over(slope * direction)
    noise = float(finfo(spec_of(x).dtype).eps) ** 0.5 * abs(height)

    def tried(size: Tensor) -> Any:
        point = x + size * direction
        return point, *value_and_slope(point)

    def is_low(size: Tensor, value: Tensor, new_slope: Tensor) -> Any:
        # Near a minimum the values differ only by rounding errors, so the slopes along the direction are compared.
        is_shallow = sum_over(new_slope * direction) <= (2 * SHALLOW - 1) * descent
        return (value <= height + ARMIJO * size * descent) | (
            (value <= height + noise) & is_shallow
        )

    def is_far(new_slope: Tensor) -> Any:
        return sum_over(new_slope * direction) >= CURVATURE * descent

    def is_running(state: Sequence[Any]) -> Any:
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
        is_running, step, (one, 0 * one, np.inf * one, tried(one), 0)
    )
    has_moved = largest(abs(point - x)) > 0
    is_accepted = is_low(size, value, new_slope) & isfinite(value) & (descent < 0) & has_moved
    return where(is_accepted, size, 0), point, value, new_slope


def _conjugate_gradients(product: Callable[[Any], Any], b: Tensor) -> Any:
    """Solve a positive definite system with right-hand side b; the solution is NaN if the iteration does not converge.

    Args:
        product: a function that multiplies a vector by the matrix of the system.

    Source: Nocedal and Wright, algorithm 5.2.
    """
    bound = 16 * float(finfo(spec_of(b).dtype).eps) * sqrt(sum_over(b * b))
    most = 20 * b.shape[0] + 20

    def is_running(state: Sequence[Any]) -> Any:
        _, _, _, square, count = state
        return (sqrt(square) > bound) & (count < most)

    def step(state: Sequence[Any]) -> Any:
        x, rest, direction, square, count = state
        image = product(direction)
        size = square / sum_over(direction * image)
        rest = rest - size * image
        after = sum_over(rest * rest)
        return x + size * direction, rest, rest + after / square * direction, after, count + 1

    x, _, _, square, _ = while_loop(is_running, step, (0 * b, b, b, sum_over(b * b), 0))
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

    Like `lbfgs`, the function may be called anywhere in a program, whereas `least_squares` calls SciPy's methods, which
    cannot be part of a program. Each step solves a dense system with one unknown per parameter.

    The result x is differentiable with respect to `args` and captured tensors, as a root of J^T r, where r are the
    residuals and J is their Jacobian. The derivative includes the second derivatives of r. It is NaN if `success` is
    false. There is no derivative with respect to x0.

    Args:
        fun: a function of a tree like x0, and of `args`; its result, the residuals, is a tree of real tensors.
        x0: the initial parameters, real or complex floating-point.
        args: trees of tensors.
        ftol: the iteration ends when the relative decrease of the sum of squares is at most `ftol`; the default is the
            dtype's epsilon.
        xtol: the iteration ends when the length of a step relative to x is at most `xtol`; the default is the dtype's
            epsilon.
        gtol: the iteration ends when no element of J^T r is larger in magnitude; the default is the square root of
            the dtype's epsilon.
        maxiter: the maximum number of steps, including rejected steps.

    Returns:
        The minimum. Its status is 1, 2 or 3 if gtol, ftol or xtol ended the iteration, and 0 after `maxiter` steps.

    Raises:
        DTypeError: a residual is not real, or a parameter is an integer.
        ArityError: x0 has no elements.
        InvalidConfigError: an option is not a number, or is out of its range.

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
    """Run the damped iteration from x; return the final x, and (gradient J^T r, number of steps, status)."""
    ftol, xtol, gtol = bounds
    first = residuals(x)
    jacobian = jacfwd(residuals) if first.shape[0] >= x.shape[0] else jacrev(residuals)
    one = np.asarray(1, spec_of(x).dtype.dtype)

    def normal(x: Tensor, values: Tensor) -> tuple[Any, Any]:
        matrix = jacobian(x)
        return matrix.T @ matrix, matrix.T @ values

    def is_running(state: Sequence[Any]) -> Any:
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
    x, _, _, slope, *_, count, status = while_loop(is_running, step, state)
    return x, (slope, count, status)


def _diagonal(x: Tensor) -> Any:
    return reshape(x, (-1, 1)) * np.eye(x.shape[0], dtype=spec_of(x).dtype.dtype)


def _of_diagonal(matrix: Tensor) -> Any:
    return sum_over(matrix * np.eye(matrix.shape[0], dtype=spec_of(matrix).dtype.dtype), axis=0)
