"""The heat capacity of the Ising model, a second derivative of the free energy, compared with Onsager's solution.

The formula is c = beta^2 d^2 (log Z / N) / d beta^2. The transfer-matrix program of `ising.py` is differentiated
twice, forward over reverse. No finite differences are used.
"""

from __future__ import annotations

import math
from typing import Any

from ising import free_energy
from scipy.special import ellipe, ellipk

import tenferro as tnf

WIDTH, STEPS = 12, 40


def heat_capacity(beta: Any) -> Any:
    """Return the heat capacity per site, in units of Boltzmann's constant."""

    def log_z(beta: Any) -> Any:
        return free_energy(beta, WIDTH, STEPS)

    slope = tnf.grad(log_z)
    return beta * beta * tnf.jvp(slope, (beta,), (1.0,))[1]


def onsager_heat_capacity(beta: float) -> float:
    """Return the exact value for the infinite lattice (Onsager 1944, equation 116)."""
    tanh = math.tanh(2 * beta)
    k = 2 * math.sinh(2 * beta) / math.cosh(2 * beta) ** 2
    first, second = ellipk(k * k), ellipe(k * k)
    rest = (1 - tanh**2) * (math.pi / 2 + (2 * tanh**2 - 1) * first)
    return 4 / math.pi * (beta / tanh) ** 2 * (first - second - rest)


def main() -> None:
    program = tnf.compile(heat_capacity, tnf.TensorSpec((), "float64"))
    print(f"heat capacity: {len(program.instructions)} instructions, strip of width {WIDTH}")
    for beta in (0.1, 0.2, 0.25):
        computed, exact = float(program.run(beta)), onsager_heat_capacity(beta)
        print(f"beta {beta}: {computed:.8f}, exact {exact:.8f}, apart {abs(computed - exact):.1e}")
        assert abs(computed - exact) < 1e-3 * exact


if __name__ == "__main__":
    main()
