"""Write the energy and forces of an interatomic potential as an ONNX model, and run the model without tenferro.

The energy of atoms at positions r follows the embedded-atom method: pairs of atoms repel each other, and each atom is
attracted by the density of its neighbours,

    E(r) = sum_{i != j} A exp(-p (r_ij - 1)) - sum_i sqrt(sum_{j != i} X exp(-2 q (r_ij - 1))),

where lengths are in units of the distance between nearest neighbours. The forces are F = -dE/dr, by reverse mode. The
model maps the positions of any number of atoms to the energy and the forces. Here `onnx.reference` runs it, which
needs only NumPy; any other engine with float64 kernels can run it, too.

Source: F. Cleri, V. Rosato, "Tight-binding potentials for transition metals and alloys", Phys. Rev. B 48, 22 (1993),
with the values for copper.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tenferro as tnf
import xla_peer
import xla_peer.onnx

A, X, P, Q = 0.0855, 1.224**2, 10.960, 2.278
"""Strength of the repulsion (eV) and of the attraction (eV^2), and the rates p, q of their decay with distance."""


def energy(positions: Any) -> Any:
    """Return the energy in eV of atoms at `positions`, an array of shape (n, 3)."""
    apart = positions[:, None, :] - positions[None, :, :]
    squares = tnf.sum(apart**2, axis=2)
    is_self = squares == 0.0
    distances = tnf.sqrt(tnf.where(is_self, 1.0, squares))
    repulsion = tnf.where(is_self, 0.0, A * tnf.exp(-P * (distances - 1.0)))
    density = tnf.where(is_self, 0.0, X * tnf.exp(-2.0 * Q * (distances - 1.0)))
    return tnf.sum(repulsion) - tnf.sum(tnf.sqrt(tnf.sum(density, axis=1)))


def energy_and_forces(positions: Any) -> dict[str, Any]:
    """Return the energy and the forces, in a dictionary."""
    value, gradient = tnf.value_and_grad(energy)(positions)
    return {"energy": value, "forces": -gradient}


def crystal(cells: int) -> np.ndarray:
    """Return the positions of a cube of `cells` face-centred cells along each axis."""
    corners = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    base = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    return np.sqrt(2.0) * (corners[:, None, :] + base).reshape(-1, 3)


def main() -> None:
    import onnx

    path = Path(tempfile.mkdtemp()) / "copper.onnx"
    xla_peer.export(
        energy_and_forces, tnf.TensorSpec(("n", 3), "float64"), format="onnx", path=path
    )
    model = onnx.load(path)
    print(f"{path.name}: {len(model.graph.node)} nodes, for any number of atoms")
    generator = np.random.default_rng(0)
    for cells in (1, 2):
        positions = crystal(cells)
        positions += 0.02 * generator.normal(size=positions.shape)
        value, forces = xla_peer.onnx.run(model, [positions])
        direction = generator.normal(size=positions.shape)
        step = 1e-5 * direction
        slope = (energy(positions + step) - energy(positions - step)) / 2e-5
        power = -np.sum(forces * direction)
        print(
            f"{len(positions):>3} atoms: {value / len(positions):.4f} eV per atom, largest force "
            f"{np.max(np.abs(forces)):.3f} eV / d; along a direction {power:.6f}, by differences {slope:.6f}"
        )
        np.testing.assert_allclose(value, energy(positions), rtol=1e-12)
        np.testing.assert_allclose(power, slope, rtol=1e-7)
        np.testing.assert_allclose(np.sum(forces, axis=0), 0.0, atol=1e-9)


if __name__ == "__main__":
    main()
