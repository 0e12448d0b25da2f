"""`odeint`: solutions must equal closed forms, SciPy's and JAX's, and derivatives must equal central differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate

import tenferro as tnf
from tenferro.api import ode
from tenferro.errors import (
    ADRuleUnsupportedError,
    ArityError,
    DTypeError,
    InvalidConfigError,
    ShapeError,
)
from xla_peer import XlaExecutor

TIMES = np.array([0.0, 0.3, 1.1, 2.0])
WAYS: list[dict[str, Any]] = [{}, {"method": "rodas4", "rtol": 1e-7, "atol": 1e-7}]


def pendulum(y: Any, t: Any, length: Any, push: Any) -> Any:
    return {"angle": y["speed"], "speed": -tnf.sin(y["angle"]) / length + push["a"] * tnf.cos(t)}


START = {"angle": 1.0, "speed": 0.5}


def reference(length: float, a: float, times: Any = TIMES, start: Any = (1.0, 0.5)) -> Any:
    return integrate.solve_ivp(
        lambda t, y: [y[1], -np.sin(y[0]) / length + a * np.cos(t)],
        (times[0], times[-1]),
        start,
        t_eval=times,
        method="DOP853",
        rtol=1e-13,
        atol=1e-13,
    ).y


@pytest.mark.parametrize("method", ode.METHODS)
def test_solutions_on_both_peers(method: str) -> None:
    expected = reference(0.7, 0.3)

    def solve(start: Any, length: Any) -> Any:
        return tnf.odeint(
            pendulum, start, TIMES, length, {"a": 0.3}, method=method, rtol=1e-9, atol=1e-9
        )

    for executor in (None, XlaExecutor()):
        result = tnf.jit(solve, executor=executor)(START, 0.7)
        np.testing.assert_allclose(result["angle"], expected[0], atol=3e-8)
        np.testing.assert_allclose(result["speed"], expected[1], atol=3e-8)


@pytest.mark.parametrize(("name", "order", "dense"), [("dopri5", 6, 5), ("rodas4", 5, 4)])
def test_orders_of_a_step(name: str, order: int, dense: int) -> None:
    """If the step is halved, the error of its end must shrink by 2^order, and that of its interpolant by 2^dense."""

    def slope(y: Any, t: Any) -> Any:
        return tnf.stack([y[1] * t, -y[0] * y[0] + t * t])

    start, t0, h = np.array([0.4, 0.8]), np.asarray(0.5), 0.2
    errors = []
    for size in (h, h / 2):
        after, _, estimate, interpolant = ode.METHODS[name][0](
            slope, start, slope(start, t0), t0, np.asarray(size)
        )
        middle = ode._between(start, interpolant, np.asarray(0.4))
        solution = integrate.solve_ivp(
            lambda t, y: np.asarray(slope(y, t)),
            (0.5, 0.5 + size),
            start,
            "DOP853",
            [0.5 + 0.4 * size, 0.5 + size],
            rtol=1e-13,
            atol=1e-14,
        ).y
        errors.append([np.abs(middle - solution[:, 0]).max(), np.abs(after - solution[:, 1]).max()])
        errors[-1].append(np.abs(estimate).max())
    rates = np.log2(np.divide(*errors))
    assert rates[0] > dense - 0.4
    assert rates[1] > order - 0.4
    assert abs(rates[2] - (5 if name == "dopri5" else 4)) < 0.6


def test_a_stiff_equation() -> None:
    """Robertson's reactions are stiff.

    An explicit method would need millions of steps, so only the implicit method may succeed.
    """

    def parts(y: Any) -> list[Any]:
        a, b, c = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] * y[1]
        return [b - a, a - b - c, c]

    def rates(y: Any, t: Any) -> Any:
        return tnf.stack(parts(y))

    times = np.array([0.0, 0.4, 40.0, 4e5])
    expected = integrate.solve_ivp(
        lambda t, y: parts(y), (0, 4e5), [1, 0, 0], "Radau", times, rtol=1e-10, atol=1e-13
    ).y.T
    options: dict[str, Any] = {"rtol": 1e-7, "atol": 1e-11, "mxstep": 300}
    start = np.array([1.0, 0.0, 0.0])
    result = tnf.odeint(rates, start, times, method="rodas4", **options)
    np.testing.assert_allclose(result, expected, rtol=2e-6, atol=1e-12)
    # The explicit method reaches the first two times. The later states must be NaN, because it exceeds the maximum
    # number of steps.
    explicit = np.asarray(tnf.odeint(rates, start, times, **options))
    np.testing.assert_allclose(explicit[:2], expected[:2], rtol=2e-6)
    assert np.isnan(explicit[2:]).all()


@pytest.mark.parametrize("way", WAYS)
def test_derivatives_in_all_arguments(way: dict[str, Any]) -> None:
    weights = np.array([0.5, -1.0, 2.0, 1.5])

    def loss(start: Any, times: Any, length: Any, a: Any) -> Any:
        # The right-hand side uses `length` from the enclosing function, and receives `push` as an argument of odeint.
        # Both need derivatives.
        moved = tnf.odeint(
            lambda y, t, push: pendulum(y, t, length, push), start, times, {"a": a}, **way
        )
        return tnf.sum(weights * moved["angle"] ** 2) + moved["speed"][2]

    def measured(start: Any, times: Any, length: float, a: float) -> float:
        angle, speed = reference(length, a, times, start)
        return float(np.sum(weights * angle**2) + speed[2])

    executor = None if way else XlaExecutor()
    program = tnf.jit(tnf.grad(loss, argnums=(0, 1, 2, 3)), executor=executor)
    grads = program(START, TIMES, 0.7, 0.3)
    got = np.array([grads[0]["angle"], grads[0]["speed"], *grads[1], *grads[2:]])
    point = np.array([1.0, 0.5, *TIMES, 0.7, 0.3])
    expected = []
    for unit in 1e-4 * np.eye(len(point)):
        ends = [measured(x[:2], x[2:6], x[6], x[7]) for x in (point + unit, point - unit)]
        expected.append((ends[0] - ends[1]) / 2e-4)
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


def test_second_derivatives_and_modes() -> None:
    def last(rate: Any, derivative: str) -> Any:
        return tnf.odeint(
            lambda y, t, r: -r * y, 1.0, np.array([0.0, 2.0]), rate, derivative=derivative
        )[-1]

    second = tnf.grad(tnf.grad(lambda r: last(r, "adjoint")))(0.5)
    np.testing.assert_allclose(second, 4 * math.exp(-1), rtol=1e-6)
    _, tangent = tnf.jvp(lambda r: last(r, "discrete"), (0.5,), (1.0,))
    np.testing.assert_allclose(tangent, -2 * math.exp(-1), rtol=1e-6)
    with pytest.raises(ADRuleUnsupportedError, match="pullback"):
        tnf.jvp(lambda r: last(r, "adjoint"), (0.5,), (1.0,))


def test_complex_states_and_batches() -> None:
    """An imaginary rate rotates a complex state.

    float32 states must remain float32, and a batch of rates must have a batch of solutions.
    """
    rates = np.array([0.5, 1.0], np.float32)

    def turned(rate: Any) -> Any:
        start = {"z": np.complex64(1), "x": np.float32(2)}
        slope = lambda y, t: {"z": 1j * rate * y["z"], "x": -rate * y["x"]}
        return tnf.odeint(slope, start, np.array([0.0, 1.0], np.float32), rtol=1e-6, atol=1e-6)

    result = tnf.vmap(turned)(rates)
    assert (result["z"].dtype, result["x"].dtype) == (np.complex64, np.float32)
    np.testing.assert_allclose(result["z"][:, 1], np.exp(1j * rates), rtol=1e-5)
    np.testing.assert_allclose(result["x"][:, 1], 2 * np.exp(-rates), rtol=1e-5)
    slope = tnf.grad(lambda rate: tnf.real(turned(rate)["z"][1]))(np.float32(0.5))
    np.testing.assert_allclose(slope, -np.sin(0.5), rtol=1e-4)


@pytest.mark.parametrize("method", ode.METHODS)
def test_events(method: str) -> None:
    """A body that falls from the height h lands after the time sqrt(2 h / g), at the speed sqrt(2 h g).

    The event must have this time and state.
    """

    def landing(height: Any, event: Any = lambda y, t, g: y[0]) -> Any:
        return tnf.odeint(
            lambda y, t, g: (y[1], -g),
            (height, 0.0),
            np.array([0.0, 5.0]),
            9.0,
            method=method,
            event=event,
        )

    time, (height, speed) = landing(8.0)
    np.testing.assert_allclose([time, height, speed], [4 / 3, 0, -12], atol=1e-7)
    if method == "rodas4":
        return
    np.testing.assert_allclose(tnf.grad(lambda h: landing(h)[1][1])(8.0), -0.75, rtol=1e-6)
    second = tnf.jvp(lambda h: tnf.jvp(lambda h: landing(h)[0], (h,), (1.0,))[1], (8.0,), (1.0,))
    np.testing.assert_allclose(second, [1 / 12, -1 / 192], rtol=1e-5)
    elsewhere = tnf.jit(lambda h: landing(h)[0], executor=XlaExecutor())
    np.testing.assert_allclose(elsewhere(8.0), 4 / 3, rtol=1e-7)
    # A zero of the event function at the start is no event. If no event occurs, its time must be NaN.
    np.testing.assert_allclose(landing(8.0, lambda y, t, g: t * (t - 1.0))[0], 1.0, atol=1e-7)
    never = tnf.odeint(
        lambda y, t: -y, 1.0, np.array([0.0, 1.0]), event=lambda y, t: y, method=method
    )
    assert np.isnan(never).all()


def test_times_that_do_not_increase() -> None:
    decay = lambda y, t: -y
    with pytest.raises(InvalidConfigError, match="strictly increasing"):
        tnf.odeint(decay, 1.0, np.array([0.0, 1.0, 0.5]))
    result = tnf.jit(lambda t: tnf.odeint(decay, 1.0, t))(np.array([0.0, 1.0, 0.5]))
    assert np.isnan(result[2])
    assert result[0] == 1
    assert tnf.odeint(decay, 1.0, np.array([0.0])) == [1.0]


def test_no_solution_is_nan() -> None:
    """States beyond a pole of the solution must be NaN, and so must states after a slope that is NaN."""
    times = np.array([0.0, 0.5, 2.0])
    result = tnf.odeint(lambda y, t: y * y, 1.0, times)
    np.testing.assert_allclose(result[:2], [1, 2], rtol=1e-6)
    assert np.isnan(result[2])
    assert np.isnan(tnf.odeint(lambda y, t: tnf.sqrt(-y), 1.0, times)[1:]).all()


def test_rejected_steps_outside_of_the_domain() -> None:
    """Steps outside of the domain must be rejected, not fail.

    The water level by Torricelli's law is y = (1 - r t / 2)^2. In a step that is too long, y becomes negative and its
    root NaN.
    """

    def level(rate: Any) -> Any:
        return tnf.odeint(
            lambda y, t: -rate * tnf.sqrt(y),
            1.0,
            np.array([0.0, 1.9]),
            rtol=1e-4,
            atol=1e-4,
            derivative="discrete",
        )[1]

    np.testing.assert_allclose(level(1.0), 0.0025, rtol=1e-2)
    np.testing.assert_allclose(tnf.grad(level)(1.0), -0.095, rtol=2e-2)


@pytest.mark.parametrize(
    ("error", "match", "change"),
    [
        (DTypeError, "y0 is i64.*convert it to a float", {"y0": 1}),
        (DTypeError, "make y0 complex", {"func": lambda y, t: 1j * y}),
        (DTypeError, "real and floating", {"t": np.array([0, 1])}),
        (ShapeError, "at least one time", {"t": 0.0}),
        (ShapeError, r"func\(\.\.\) is", {"func": lambda y, t: tnf.stack([y, y])}),
        (ArityError, "structure of y0", {"func": lambda y, t: (y,)}),
        (ArityError, "no elements", {"y0": np.zeros(0)}),
        (InvalidConfigError, "rtol must be a number", {"rtol": -1.0}),
        (InvalidConfigError, "both 0", {"rtol": 0.0, "atol": 0.0}),
        (InvalidConfigError, "one of dopri5, rodas4", {"method": "euler"}),
        (InvalidConfigError, "one of adjoint, discrete", {"derivative": "both"}),
        (InvalidConfigError, "unstable", {"method": "rodas4", "derivative": "adjoint"}),
        (InvalidConfigError, "event", {"event": lambda y, t: y, "derivative": "adjoint"}),
        (ShapeError, r"\[start, end\]", {"event": lambda y, t: y, "t": np.arange(3.0)}),
        (DTypeError, "real scalar", {"event": lambda y, t: y > 0}),
    ],
)
def test_refusals(error: type[Exception], match: str, change: dict[str, Any]) -> None:
    call: dict[str, Any] = {"func": lambda y, t: -y, "y0": 1.0, "t": np.array([0.0, 1.0])}
    with pytest.raises(error, match=match):
        tnf.odeint(**(call | change))
