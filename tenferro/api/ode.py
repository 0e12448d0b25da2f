"""Initial value problems: `odeint`, by adaptive Runge-Kutta and Rosenbrock steps in a loop of the program.

The state is one real vector: the concatenation of its leaves, where the real parts of a complex leaf precede its
imaginary parts. A step computes the next state, an estimate of its error, and the interpolant, which consists of
coefficients of a polynomial for states within the step. Differentiation treats the next step size as a constant.

Source: Hairer, Norsett and Wanner, "Solving Ordinary Differential Equations" I and II, 1993 and 1996.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tenferro.api import tree
from tenferro.api.autodiff import jacfwd, jvp, vjp
from tenferro.api.compile import output_value
from tenferro.api.control import cond, fori_loop, scan, while_loop
from tenferro.api.creation import asarray, eye, ones, zeros
from tenferro.api.custom import custom_jvp, custom_vjp
from tenferro.api.elementwise import abs, isfinite, logical_not, maximum, minimum, sign, sqrt, where
from tenferro.api.implicit import custom_root
from tenferro.api.linalg.matrices import permuted_factors, solve_permuted
from tenferro.api.manipulation import astype, concat, reshape, stack
from tenferro.api.real_vector import RealVector
from tenferro.api.reductions import mean
from tenferro.api.reductions import sum as sum_over
from tenferro.api.tensor import TracedTensor, tracing, value_in
from tenferro.dispatch import as_operand, is_traced, spec_of, stop_gradient
from tenferro.dispatch.tracing import current_builder
from tenferro.errors import ArityError, DTypeError, InvalidConfigError, ShapeError
from tenferro.graph import BodyBuilder
from tenferro.program import Subprogram
from tenferro.types import (
    ArrayLike,
    PyTree,
    Tensor,
    TensorSpec,
    agree,
    difference,
    flatten,
    unflatten,
)

__all__ = ["odeint"]

DERIVATIVES = ("adjoint", "discrete")
RightHandSide = Callable[[Any, Any], Any]
Step = Callable[[Any, Any, Any, Any], tuple[Any, ...]]


# ---- methods -------------------------------------------------------------------------------------


NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
WEIGHTS = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERRORS = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
BETWEEN = (
    -12715105075 / 11282082432,
    0.0,
    87487479700 / 32700410799,
    -10690763975 / 1880347072,
    701980252875 / 199316789632,
    -1453857185 / 822651844,
    69997945 / 29380423,
)


def _combination(weights: Sequence[float], terms: Sequence[Any]) -> Any:
    products = [w * x for w, x in zip(weights, terms, strict=False) if w]
    result = products[0]
    for product in products[1:]:
        result = result + product
    return result


def _dopri5(f: RightHandSide, y: Tensor, slope: Tensor, t: Tensor, h: Tensor) -> tuple[Any, ...]:
    """Make a step of size h from y at t by Dormand and Prince's pair of methods of orders 5 and 4.

    Returns:
        The next state, its slope, the error and the interpolant.

    Source: Hairer, Norsett and Wanner I, table II.5.2 and section II.6.
    """
    size = astype(h, spec_of(y).dtype, copy=False)
    stages, after = [slope], y
    for node, weights in zip(NODES, WEIGHTS, strict=True):
        after = y + size * _combination(weights, stages)
        stages.append(f(after, t + node * h))
    change = after - y
    first = size * slope - change
    second = change - size * stages[-1] - first
    third = size * _combination(BETWEEN, stages)
    error = size * _combination(ERRORS, stages)
    return after, stages[-1], error, stack([change, first, second, third])


GAMMA = 0.25
ROSENBROCK_NODES = (0.0, 0.386, 0.21, 0.63, 1.0, 1.0)
TIME_WEIGHTS = (0.25, -0.1043, 0.1035, -0.0362, 0.0, 0.0)
STATE_WEIGHTS = (
    (1.544,),
    (0.9466785280815826, 0.2557011698983284),
    (3.314825187068521, 2.896124015972201, 0.9986419139977817),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950),
)
STAGE_WEIGHTS = (
    (-5.6688,),
    (-2.430093356833875, -0.2063599157091915),
    (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
    (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
    (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054),
)  # fmt: skip
FIRST_BETWEEN = (
    10.12623508344586,
    -7.487995877610167,
    -34.80091861555747,
    -7.992771707568823,
    1.025137723295662,
)
SECOND_BETWEEN = (
    -0.6762803392801253,
    6.087714651680015,
    16.43084320892478,
    24.76722511418386,
    -6.594389125716872,
)


def _rodas4(f: RightHandSide, y: Tensor, slope: Tensor, t: Tensor, h: Tensor) -> tuple[Any, ...]:
    """Make a step of size h from y at t by a pair of Rosenbrock methods of orders 4 and 3.

    Each of the six stages solves one linear system with the matrix I / (gamma h) - f_y.

    Returns:
        The next state, its slope, the error and the interpolant.

    Source: Hairer and Wanner II, section IV.7: RODAS.
    """
    dtype = spec_of(y).dtype
    size = astype(h, dtype, copy=False)
    jacobian = jacfwd(lambda y: f(y, t))(y)
    _, in_time = jvp(lambda t: f(y, t), (t,), (np.asarray(1, spec_of(t).dtype.dtype),))
    factors = permuted_factors("odeint", eye(y.shape[0], dtype=dtype) / (GAMMA * size) - jacobian)

    def solved(value: Tensor, weight: float, stages: Sequence[Any]) -> Any:
        rhs = value + (size * weight) * in_time if weight else value
        if stages:
            rhs = rhs + _combination(STAGE_WEIGHTS[len(stages) - 1], stages) / size
        return solve_permuted(*factors, rhs)

    stages = [solved(slope, TIME_WEIGHTS[0], [])]
    after = y
    for i, weights in enumerate(STATE_WEIGHTS, 1):
        after = y + _combination(weights, stages)
        stages.append(solved(f(after, t + ROSENBROCK_NODES[i] * h), TIME_WEIGHTS[i], stages))
    after = after + stages[-1]
    error = solved(f(after, t + h), 0.0, stages)
    first, second = [_combination(weights, stages) for weights in (FIRST_BETWEEN, SECOND_BETWEEN)]
    after = after + error
    interpolant = stack([after - y, first, second, zeros(y.shape, dtype=dtype)])
    return after, f(after, t + h), error, interpolant


def _between(y: Tensor, interpolant: Tensor, fraction: Tensor) -> Any:
    """Return the state at a fraction of a step, by the interpolant; y is the state at the start of the step."""
    x = astype(fraction, spec_of(y).dtype, copy=False)
    change, first, second, third = [interpolant[i] for i in range(4)]
    return y + x * (change + (1 - x) * (first + x * (second + (1 - x) * third)))


METHODS = {"dopri5": (_dopri5, 5), "rodas4": (_rodas4, 4)}
"""Maps the name of a method to the function that computes a step, and the order of its error estimate."""


# ---- the state as a vector -----------------------------------------------------------------------


class _State(RealVector):
    """Conversion between the state of an equation, which is a tree, and a real vector."""

    def vector(self, slope: PyTree) -> Any:
        """Return a slope, which is a tree like the state, as a vector. Leaves are converted to the dtypes of the state.

        Raises:
            ArityError, ShapeError: the structure or a shape differs from the state.
            DTypeError: a leaf is complex, and the state's leaf is real.
        """
        leaves, structure = flatten(slope)
        if not agree(structure, self.tree):
            parting = difference(self.tree, structure, ("y0", "func(..)"))
            raise ArityError(f"odeint: func must return the structure of y0; {parting}")
        converted: list[Any] = []
        for leaf, spec, path in zip(leaves, self.specs, self.paths, strict=True):
            operand = as_operand(asarray(leaf))
            actual = spec_of(operand)
            if actual.shape != spec.shape:
                raise ShapeError(f"odeint: func(..){path} is {actual}, and y0{path} {spec}")
            if actual.dtype.is_complex and not spec.dtype.is_complex:
                raise DTypeError(
                    f"odeint: func(..){path} is {actual}, and y0{path} {spec}; make y0{path} complex"
                )
            converted.append(astype(operand, spec.dtype, copy=False))
        return astype(tree.ravel(self.parts(converted))[0], self.dtype, copy=False)


class _Closed:
    """Function of (y, t, *args) that is traced once. Tensors that it captures become additional operands.

    Attributes:
        operands: the captured tensors, followed by the leaves of args.
    """

    def __init__(
        self, fn: Callable[..., Any], state: _State, t: Tensor, args: tuple[Any, ...]
    ) -> None:
        leaves, structure = flatten(args)
        actual = [as_operand(asarray(leaf)) for leaf in leaves]
        self.fn, self.structure = fn, structure
        builder = BodyBuilder(current_builder())
        graph = builder.graph
        vector = TensorSpec.of(state.start.shape, state.dtype)
        specs = [vector, TensorSpec.of((), spec_of(t).dtype), *[spec_of(x) for x in actual]]
        inputs = [graph.add_input(spec) for spec in specs]
        y, time, *rest = [TracedTensor(builder, value) for value in inputs]
        with tracing(builder):
            result = output_value(builder, fn(y, time, *unflatten(structure, rest)), "")
        captured = [operand for _, operand in builder.captured.values()]
        consts = [
            builder.capture(key, operand, spec_of(operand))
            for key, (_, operand) in builder.captured.items()
        ]
        self.type = builder.type_of(result)
        self.part = Subprogram.of(graph, [*consts, *inputs], graph.after_effects([result]))
        self.count = len(captured)
        self.operands = [*captured, *actual]
        self._is_active = [spec_of(x).dtype.is_inexact for x in self.operands]

    def __call__(self, y: Tensor, t: Tensor, operands: Sequence[Any]) -> Any:
        """Evaluate the function at y and t, with `operands` in place of `self.operands`."""
        consts, leaves = operands[: self.count], operands[self.count :]
        builder = current_builder() or next(
            (x.builder for x in (y, t, *operands) if isinstance(x, TracedTensor)), None
        )
        if builder is None:
            return self.fn(y, t, *unflatten(self.structure, leaves))
        values = [value_in(builder, x) for x in (*consts, y, t, *leaves)]
        return TracedTensor(builder, self.part.emit(builder.graph, values)[0])

    def bound(self, operands: Sequence[Any]) -> RightHandSide:
        """Return the function with fixed operands, as a function of (y, t)."""
        return lambda y, t: self(y, t, operands)

    def split(self, operands: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the operands that have derivatives, and the operands that have none."""
        pairs = list(zip(operands, self._is_active, strict=True))
        return [x for x, active in pairs if active], [x for x, active in pairs if not active]

    def joined(self, active: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        """Return the operands in their original order, from the two lists that `split` returns."""
        first, second = iter(active), iter(others)
        return [next(first if is_active else second) for is_active in self._is_active]


# ---- integration ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Options:
    """Options of `odeint`: the method, tolerances, and limits of the number and size of steps."""

    rtol: float
    atol: float
    mxstep: float
    hmax: float
    method: str

    @classmethod
    def checked(cls, rtol: Any, atol: Any, mxstep: Any, hmax: Any, method: Any) -> _Options:
        """Check the options of a call of `odeint`, and return them.

        Raises:
            InvalidConfigError: an option is not a number or is out of its range, or the method is unknown.
        """
        numbers = {"rtol": rtol, "atol": atol, "mxstep": mxstep, "hmax": hmax}
        for name, value in numbers.items():
            is_number = isinstance(value, int | float | np.floating | np.integer)
            if not is_number or not (value > 0 if name in ("mxstep", "hmax") else value >= 0):
                raise InvalidConfigError(
                    f"odeint: {name} must be a number, not a tensor, and not negative, got {value!r:.60}"
                )
        if not rtol and not atol:
            raise InvalidConfigError("odeint: rtol and atol are both 0; one has to be positive")
        if method not in METHODS:
            raise InvalidConfigError(
                f"odeint: method must be one of {', '.join(METHODS)}, got {method!r:.60}"
            )
        return cls(float(rtol), float(atol), float(mxstep), float(hmax), method)


def _norm(x: Tensor) -> Any:
    return sqrt(mean(x * x))


def _first_step(
    f: RightHandSide, y: Tensor, slope: Tensor, t: Tensor, room: Tensor, options: _Options
) -> Any:
    """Choose the size of the first step, from y, its slope, and an estimate of the second derivative.

    Args:
        room: the largest step that is allowed, which is the time that remains until the final time.

    Source: Hairer, Norsett and Wanner I, section II.4.
    """
    y, slope, t, room = [stop_gradient(x) for x in (y, slope, t, room)]
    order = METHODS[options.method][1]
    scale = options.atol + options.rtol * abs(y)
    d0, d1 = _norm(y / scale), _norm(slope / scale)
    h0 = where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / where(d1 == 0, 1, d1))
    h0 = minimum(astype(h0, spec_of(t).dtype, copy=False), room)
    size = astype(h0, spec_of(y).dtype, copy=False)
    d2 = _norm((f(y + size * slope, t + h0) - slope) / scale) / size
    largest = maximum(d1, d2)
    h1 = where(
        largest <= 1e-15,
        maximum(1e-6, size * 1e-3),
        (0.01 / where(largest <= 1e-15, 1, largest)) ** (1 / order),
    )
    h = minimum(100.0 * h0, astype(h1, spec_of(t).dtype, copy=False))
    # If a slope is not finite, h is not finite either. Then h0 is tried, and the first step has an error that is not
    # finite.
    h = where(isfinite(h), h, h0)
    return stop_gradient(minimum(minimum(h, options.hmax), room))


def _start(
    f: RightHandSide, y: Tensor, t: Tensor, end: Tensor, options: _Options
) -> tuple[Any, ...]:
    """Return the state of the loop before the first step.

    It is a tuple: the state vector, its slope, the time, the next step size, and the error ratio of the last step. Then
    follow the start, time, step size and interpolant of the last accepted step.
    """
    slope = f(y, t)
    h = _first_step(f, y, slope, t, end - t, options)
    interpolant = zeros((4, *y.shape), dtype=spec_of(y).dtype)
    past = np.asarray(1, spec_of(y).dtype.dtype)
    return (y, slope, t, h, past, y, t, h, interpolant)


def _continues(state: tuple[Any, ...], count: Tensor, target: Tensor, options: _Options) -> Any:
    """Return whether the loop continues: the time is before `target`, t + h differs from t, and steps are left."""
    t, h = state[2], state[3]
    continues = (t < target) & (t + h > t)
    return continues if options.mxstep == math.inf else continues & (count < options.mxstep)


def _ratio(y: Tensor, after: Tensor, error: Tensor, options: _Options) -> Any:
    """Return the error of a step relative to the tolerances. A step is accepted if the ratio is at most 1."""
    scale = options.atol + options.rtol * maximum(abs(y), abs(after))
    ratio = stop_gradient(_norm(error / scale))
    return where(isfinite(ratio), ratio, math.inf)


def _plain(f: RightHandSide, options: _Options) -> Step:
    """Return the step of a method as a function of (y, slope, t, h)."""
    step = METHODS[options.method][0]
    return lambda y, slope, t, h: step(f, y, slope, t, h)


def _guarded(closed: _Closed, options: _Options) -> Step:
    """Return a function that computes a step. Derivatives of a rejected step are zero, and are not computed.

    A rejected step may leave the domain of the right-hand side, where derivatives may be infinite. Multiplied by a
    cotangent of zero, they would be NaN.
    """
    active, others = closed.split(closed.operands)

    def plain(y: Tensor, slope: Tensor, t: Tensor, h: Tensor, active: Sequence[Any]) -> Any:
        return _plain(closed.bound(closed.joined(active, others)), options)(y, slope, t, h)

    guarded = custom_jvp(plain)

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        results = guarded(*primals)
        after, _, error, _ = results
        pushed = cond(
            _ratio(primals[0], after, error, options) <= 1,
            lambda primals, tangents: jvp(plain, primals, tangents)[1],
            lambda primals, tangents: tuple([_zeros_like(y) for y in results]),
            primals,
            tangents,
        )
        return results, pushed

    guarded.defjvp(rule)
    return lambda y, slope, t, h: guarded(y, slope, t, h, active)


def _advanced(
    step: Step, state: tuple[Any, ...], end: Tensor, options: _Options
) -> tuple[Any, ...]:
    """Return the state of the loop after one step.

    If the error is too large, return the old state with a smaller step size.
    """
    y, slope, t, h, past, *_ = state
    is_last = t + h >= end
    h = where(is_last, end - t, h)
    order = METHODS[options.method][1]
    after, slope_after, error, interpolant = step(y, slope, t, h)
    ratio = _ratio(y, after, error, options)
    accepted = ratio <= 1
    bounded = maximum(ratio, 1e-10)
    smooth = 0.9 * bounded ** (-0.7 / order) * past ** (0.4 / order)
    factor = where(accepted, smooth, minimum(0.9 * bounded ** (-1 / order), 1.0))
    factor = astype(minimum(maximum(factor, 0.2), 10.0), spec_of(h).dtype, copy=False)
    next_h = minimum(stop_gradient(h) * factor, options.hmax)
    new = (
        after,
        slope_after,
        where(is_last, end, t + h),
        next_h,
        maximum(ratio, 1e-4),
        y,
        t,
        h,
        interpolant,
    )
    old = (y, slope, t, next_h, *state[4:])
    return tuple([where(accepted, a, b) for a, b in zip(new, old, strict=True)])


def _solution(f: RightHandSide, step: Step, y0: Tensor, ts: Tensor, options: _Options) -> Any:
    """Return the states at the times `ts` as rows. A row is NaN if the integration did not reach its time."""
    end = ts[-1]

    def until(state: Sequence[Any], target: Tensor) -> Any:
        _, state = while_loop(
            lambda carry: _continues(carry[1], carry[0], target, options),
            lambda carry: (carry[0] + 1, _advanced(step, carry[1], end, options)),
            (0, state),
        )
        t, start, last_t, last_h, interpolant = state[2], *state[5:]
        y = _between(start, interpolant, (target - last_t) / last_h)
        return state, where(t >= target, y, math.nan)

    first = reshape(y0, (1, -1))
    if ts.shape[0] == 1:
        return first
    _, ys = scan(until, _start(f, y0, ts[0], end, options), ts[1:])
    # Traced times cannot be checked in advance. Where they do not increase, the solution is NaN.
    ys = where(reshape(ts[1:] > ts[:-1], (-1, 1)), ys, math.nan)
    return concat([first, ys])


def _adjoint(closed: _Closed, options: _Options) -> Any:
    """Return the solution as a function of the initial state, the times and the operands.

    Reverse mode integrates backward.

    This is the continuous adjoint: the state, its cotangent and the cotangents of the operands are integrated backward
    together. At each time in `ts`, the state is replaced by the solution. The operands are two lists: operands that
    have derivatives, and operands that have none.

    Source: Chen et al., "Neural ordinary differential equations", 2018, appendix C; jax.experimental.ode.
    """

    def solve(y0: Tensor, ts: Tensor, active: Sequence[Any], others: Sequence[Any]) -> Any:
        f = closed.bound(closed.joined(active, others))
        return _solution(f, _plain(f, options), y0, ts, options)

    def forward(y0: Tensor, ts: Tensor, active: Sequence[Any], others: Sequence[Any]) -> Any:
        ys = solution(y0, ts, active, others)
        return ys, (ys, ts, active, others)

    def backward(residuals: Sequence[Any], bars: Sequence[Any]) -> Any:
        ys, ts, active, others = residuals

        def value(y: Tensor, t: Tensor, active: Sequence[Any]) -> Any:
            return closed(y, t, closed.joined(active, others))

        def reversed_slope(state: Sequence[Any], minus_t: Tensor, active: Sequence[Any]) -> Any:
            y, y_bar, _, _ = state
            slope, pull = vjp(value, y, -minus_t, active)
            return (-slope, *pull(y_bar))

        def interval(carry: Sequence[Any], row: Sequence[Any]) -> Any:
            y_bar, t0_bar, active_bar = carry
            y, slope_bar, t, before, bar_before = row
            t_bar = astype(sum_over(value(y, t, active) * slope_bar), spec_of(t).dtype, copy=False)
            state = (y, y_bar, t0_bar - t_bar, active_bar)
            _, *bars = tree.map(
                lambda x: x[1],
                odeint(reversed_slope, state, stack([-t, -before]), active, **asdict(options)),
            )
            return (bars[0] + bar_before, *bars[1:]), t_bar

        start = (bars[-1], zeros((), dtype=spec_of(ts).dtype), tree.map(_zeros_like, active))
        if ts.shape[0] == 1:
            return bars[0], tree.map(_zeros_like, ts), start[2], None
        rows = (ys[1:], bars[1:], ts[1:], ts[:-1], bars[:-1])
        (y_bar, t0_bar, active_bar), t_bars = scan(interval, start, rows, reverse=True)
        return y_bar, concat([reshape(t0_bar, (1,)), t_bars]), active_bar, None

    solution = custom_vjp(solve)
    solution.defvjp(forward, backward)
    return solution


def _zeros_like(x: Tensor) -> Any:
    spec = spec_of(x)
    return zeros(spec.shape, dtype=spec.dtype)


def odeint(
    func: Callable[..., Any],
    y0: PyTree,
    t: ArrayLike,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = math.inf,
    hmax: float = math.inf,
    method: str = "dopri5",
    derivative: str | None = None,
    event: Callable[..., Any] | None = None,
) -> Any:
    """Integrate dy/dt = func(y, t, *args) from y0 at t[0], and return y at all times t.

    The step size is chosen so that |error| <= atol + rtol |y| in the root mean square over the elements of y. States at
    times within a step are interpolated; func is never called beyond t[-1].

    Shapes:  leaves of y0 of any shape S, t [n] -> [n, *S]
    Dtypes:  those of y0, real or complex; t is real

    Args:
        func: a function of a tree like y0, a time and args, which returns a tree like y0. It may capture tensors.
        y0: the initial state, a tree.
        t: the times, strictly increasing.
        args: trees of tensors.
        rtol, atol: the relative and absolute tolerance, as numbers.
        mxstep: the maximum number of steps from one time to the next, including rejected steps.
        hmax: the maximum size of a step.
        method: "dopri5" is explicit, of order 5. "rodas4" is of order 4, for stiff equations, and uses a dense
            Jacobian.
        derivative: how to differentiate. "adjoint" integrates the adjoint equation backward and stores no steps; it
            supports only reverse mode. "discrete" differentiates the accepted steps, in all modes. The default is
            "adjoint" for "dopri5" without an event, otherwise "discrete".
        event: a function event(y, t, *args) with a real result. The integration from t[0] to t[1] stops where the
            result first changes its sign from one step to the next. A zero at t[0] is not an event.

    Returns:
        The states at the times t. With an event: the time of the event, and the state at that time. Both are
        differentiable.

    A state is NaN if its time is not reached: after mxstep steps, if no step is small enough, or after traced times
    that do not increase. If the event does not happen, its time and state are also NaN.

    Raises:
        DTypeError: y0 or t has integers, t is complex, or the slope of a real state is complex.
        ArityError, ShapeError: the result of func or event has a different structure or shape, t is not a vector, or y0
            is empty.
        InvalidConfigError: the times decrease, a tolerance is negative, or `method` or `derivative` is unknown; or
            `derivative` is "adjoint" with rodas4, whose backward integration is unstable, or with an event.

    >>> import numpy as np, tenferro as tnf
    >>> decay = lambda y, t, rate: -rate * y
    >>> tnf.odeint(decay, 1.0, np.array([0.0, 1.0, 2.0]), 0.5)
    array([1.        , 0.60653066, 0.36787944])
    >>> tnf.grad(lambda rate: tnf.odeint(decay, 1.0, np.array([0.0, 2.0]), rate)[-1])(0.5).round(6)
    np.float64(-0.735759)
    >>> fall = lambda y, t: (y[1], -9.81)
    >>> time, (height, speed) = tnf.odeint(fall, (10.0, 0.0), np.array([0.0, 5.0]), event=lambda y, t: y[0])
    >>> time, speed
    (array(1.42784312), array(-14.00714104))

    Source: jax.experimental.ode.odeint; scipy.integrate.solve_ivp's events.
    """
    options = _Options.checked(rtol, atol, mxstep, hmax, method)
    kind = _derivative(derivative, method, event is not None)
    if not callable(func):
        raise InvalidConfigError(f"odeint: expected a function, got {func!r:.60}")
    state, times = _State("odeint", "y0", y0), _times(t)

    def slope(y: Tensor, time: Tensor, *args: Any) -> Any:
        return state.vector(func(state.tree_of(y), time, *args))

    closed = _Closed(slope, state, times, args)
    if event is not None:
        time, y = _until_event(closed, _event(event, state, times, args), state, times, options)
        return time, state.tree_of(y)
    if kind == "adjoint":
        ys = _adjoint(closed, options)(state.start, times, *closed.split(closed.operands))
    else:
        f, step = closed.bound(closed.operands), _guarded(closed, options)
        ys = _solution(f, step, state.start, times, options)
    return state.tree_of(ys, times.shape)


def _derivative(derivative: str | None, method: str, has_event: bool) -> str:
    """Return the caller's argument `derivative` after checking it; if it is None, return the default.

    Raises:
        InvalidConfigError: the argument is unknown, or is "adjoint" for an unsuitable method or with an event.
    """
    if derivative is None:
        return "adjoint" if method == "dopri5" and not has_event else "discrete"
    if derivative not in DERIVATIVES:
        raise InvalidConfigError(
            f"odeint: derivative must be one of {', '.join(DERIVATIVES)}, got {derivative!r:.60}"
        )
    if derivative == "adjoint" and method != "dopri5":
        raise InvalidConfigError(
            f"odeint: derivative='adjoint' integrates the state backward, which is unstable for the stiff equations "
            f"that method={method!r} is for; use derivative='discrete'"
        )
    if derivative == "adjoint" and has_event:
        raise InvalidConfigError(
            "odeint: the time of an event has no derivative='adjoint'; use derivative='discrete'"
        )
    return derivative


def _times(t: ArrayLike) -> Any:
    """Return the times as a tensor.

    Raises:
        DTypeError, ShapeError, InvalidConfigError: the times are not an increasing real vector.
    """
    times = as_operand(asarray(t))
    spec = spec_of(times)
    if not spec.dtype.is_float:
        raise DTypeError(f"odeint: t must be real and floating-point, got {spec}")
    if spec.rank != 1 or not isinstance(spec.shape[0], int) or not spec.shape[0]:
        raise ShapeError(f"odeint: t must be a vector of at least one time, got {spec}")
    if not is_traced(times) and not (np.diff(np.asarray(times)) > 0).all():
        raise InvalidConfigError(
            "odeint: the times t must be strictly increasing; for a solution backward in time, integrate "
            "-func(y, -s, *args) over s = -t"
        )
    return times


def _event(
    event: Callable[..., Any], state: _State, times: Tensor, args: tuple[Any, ...]
) -> _Closed:
    """Trace the event function, as a function of the state vector.

    Raises:
        ShapeError, DTypeError: there are not two times, or the result of the event function is not a real scalar.
        InvalidConfigError: the event is not a function.
    """
    if times.shape != (2,):
        raise ShapeError(
            f"odeint: with an event, t must be [start, end], got {spec_of(times)}; for states before the event, "
            "integrate to its time without one"
        )
    if not callable(event):
        raise InvalidConfigError(f"odeint: event must be a function, got {event!r:.60}")
    closed = _Closed(
        lambda y, time, *args: event(state.tree_of(y), time, *args), state, times, args
    )
    if closed.type.rank or not closed.type.dtype.is_float:
        kind = ShapeError if closed.type.rank else DTypeError
        raise kind(f"odeint: event must return a real scalar, got {closed.type}")
    return closed


def _until_event(
    closed: _Closed, event: _Closed, state: _State, times: Tensor, options: _Options
) -> tuple[Any, Any]:
    """Return the time of the event, and the state vector at that time.

    The time is a root of event(y(t), t), and its derivatives follow from the implicit function theorem.
    """
    f, g = closed.bound(closed.operands), event.bound(event.operands)
    y0, t0, guarded = state.start, times[0], _guarded(closed, options)

    def at(time: Tensor) -> Any:
        return _solution(f, guarded, y0, stack([t0, time]), options)[1]

    time = custom_root(
        lambda time: astype(g(at(time), time), spec_of(time).dtype, copy=False),
        times[1],
        lambda _, end: _first_crossing(f, g, y0, t0, end, options),
        lambda slope, y: y / slope(np.asarray(1, spec_of(y).dtype.dtype)),
    )
    return time, at(time)


def _first_crossing(
    f: RightHandSide, g: RightHandSide, y0: Tensor, t0: Tensor, end: Tensor, options: _Options
) -> Any:
    """Return the time of the first sign change of g, found by bisection within a step.

    Without a sign change it is NaN.
    """

    def has_crossed(before: Any, after: Any) -> Any:
        return (sign(before) * sign(after) < 0) | ((after == 0) & (before != 0))

    def is_running(carry: Sequence[Any]) -> Any:
        count, state, before, after = carry
        return _continues(state, count, end, options) & logical_not(has_crossed(before, after))

    def step(carry: Sequence[Any]) -> Any:
        count, state, before, after = carry
        new = _advanced(_plain(f, options), state, end, options)
        moved = new[2] > state[2]
        return count + 1, new, where(moved, after, before), where(moved, g(new[0], new[2]), after)

    first = g(y0, t0)
    _, state, before, after = while_loop(
        is_running, step, (0, _start(f, y0, t0, end, options), first, first)
    )
    start, last_t, last_h, interpolant = state[5:]

    def halved(_: Any, ends: Sequence[Any]) -> Any:
        low, high = ends
        middle = 0.5 * (low + high)
        value = g(_between(start, interpolant, middle), last_t + middle * last_h)
        is_before = sign(value) == sign(before)
        return where(is_before, middle, low), where(is_before, high, middle)

    dtype = spec_of(t0).dtype
    bits = np.finfo(dtype.dtype).nmant + 2
    _, fraction = fori_loop(0, bits, halved, (zeros((), dtype=dtype), ones((), dtype=dtype)))
    return where(has_crossed(before, after), last_t + fraction * last_h, math.nan)
