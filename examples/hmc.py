"""Hamiltonian Monte Carlo samples of a bent normal distribution; the whole Markov chain is one program.

The density is proportional to exp(-(x^2 + (y - x^2)^2 / 0.1) / 2), with the expectations E x = 0, E x^2 = 1, E y = 1.
Each step draws a random momentum, and follows the equations of motion by 20 leapfrog steps, which need the gradient of
the density. Metropolis's rule then accepts or rejects the end point.

Source: Neal, MCMC using Hamiltonian dynamics, 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf

SAMPLES, LEAPS, STEP = 4000, 20, 0.12


def potential(q: Any) -> Any:
    """Return minus the logarithm of the density, up to an additive constant."""
    return (q[0] ** 2 + (q[1] - q[0] ** 2) ** 2 / 0.1) / 2


def chain(key: Any) -> tuple[Any, Any]:
    """Return all samples, and for each whether its proposal was accepted."""
    force = tnf.grad(potential)

    def leap(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        q, p = state
        q = q + STEP * p
        return q, p - STEP * force(q)

    def sample(q: Any, key: Any) -> tuple[Any, Any]:
        for_momentum, for_choice = tnf.random.split(key)
        p = tnf.random.normal(for_momentum, (2,))
        moved, pushed = tnf.fori_loop(0, LEAPS, leap, (q, p - STEP / 2 * force(q)))
        pushed = pushed + STEP / 2 * force(moved)
        before = potential(q) + tnf.sum(p * p) / 2
        after = potential(moved) + tnf.sum(pushed * pushed) / 2
        accepted = tnf.log(tnf.random.uniform(for_choice)) < before - after
        q = tnf.where(accepted, moved, q)
        return q, (q, accepted)

    return tnf.scan(sample, tnf.zeros(2), tnf.random.split(key, SAMPLES))[1]


def main() -> None:
    """Sample the distribution, and compare the moments of the samples with the exact ones."""
    samples, accepted = tnf.jit(chain)(tnf.random.key(0))
    x, y = np.asarray(samples).T
    print(
        f"accepted {np.mean(accepted):.0%}; E x {x.mean():.2f}, E x^2 {np.mean(x * x):.2f}, E y {y.mean():.2f}"
    )
    assert abs(x.mean()) < 0.15
    assert abs(np.mean(x * x) - 1) < 0.2
    assert abs(y.mean() - 1) < 0.2


if __name__ == "__main__":
    main()
