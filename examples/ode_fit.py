"""Fit the rates of the Lotka-Volterra equations to measured numbers of predators and prey, by the gradient.

The classical Runge-Kutta method, written as a `scan`, solves x' = a x - b x y and y' = d x y - c y. Reverse mode runs
back through its steps to the gradient of the misfit. The data are solutions with random errors of 5 %.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf

TRUTH = {"a": 1.0, "b": 0.1, "c": 1.5, "d": 0.075}
START = np.array([10.0, 5.0])
STEP, STEPS, EVERY = 0.05, 300, 10


def rate(rates: Any, state: Any) -> Any:
    """Return the time derivatives of x and y, the right-hand sides of the equations."""
    x, y = state[0], state[1]
    return tnf.stack([rates["a"] * x - rates["b"] * x * y, rates["d"] * x * y - rates["c"] * y])


def solution(rates: Any) -> Any:
    """Return the state after each step, from the initial state."""

    def step(state: Any, _: None) -> tuple[Any, Any]:
        k1 = rate(rates, state)
        k2 = rate(rates, state + STEP / 2 * k1)
        k3 = rate(rates, state + STEP / 2 * k2)
        k4 = rate(rates, state + STEP * k3)
        following = state + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return following, following

    return tnf.scan(step, tnf.asarray(START), None, length=STEPS)[1]


def measured() -> np.ndarray:
    """Return every tenth state of the true solution, with random errors."""
    rng = np.random.default_rng(0)
    exact = np.asarray(tnf.jit(solution)(TRUTH))[EVERY - 1 :: EVERY]
    return exact * (1 + 0.05 * rng.standard_normal(exact.shape))


def fitted(data: np.ndarray) -> dict[str, float]:
    """Return the rates of the least-squares fit, starting from a guess that is 20 % too small."""

    def misfit(logarithms: Any) -> Any:
        states = solution({name: tnf.exp(value) for name, value in logarithms.items()})
        return tnf.sum(((states[EVERY - 1 :: EVERY] - data) / data) ** 2)

    guess = {name: np.log(0.8 * value) for name, value in TRUTH.items()}
    result = tnf.optimize.minimize(misfit, guess, method="BFGS")
    return {name: float(np.exp(value)) for name, value in result.x.items()}


def main() -> None:
    """Fit the rates, and print them beside the true rates."""
    rates = fitted(measured())
    for name, value in rates.items():
        print(f"{name}: {value:.4f}, in truth {TRUTH[name]}")
        assert abs(value / TRUTH[name] - 1) < 0.05


if __name__ == "__main__":
    main()
