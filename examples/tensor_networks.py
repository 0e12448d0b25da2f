"""Ground states of the transverse-field Ising model by tensor networks, natively and through PJRT.

The Hamiltonian is H = - sum Z_i Z_(i+1) - g sum X_i, at the critical point g = 1. A matrix-product state of 20 sites
is contracted with the matrix-product operator of H, from left to right. A MERA of 8 sites in a ring is contracted for
one bond at a time, each by a single `einsum` of 27 tensors along a path that opt_einsum plans. The gradients are
exact, even through the QR decomposition that keeps the MERA's tensors isometric.

Exact energies come from free fermions for the open chain (Pfeuty 1970, doi:10.1016/0003-4916(70)90270-8), and from
diagonalisation for the ring. MERA: Vidal 2007, doi:10.1103/PhysRevLett.99.220405.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

import tenferro as tnf
from xla_peer import XlaExecutor

FIELD = 1.0
Z, X, ONE = np.diag([1.0, -1.0]), np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2)

# ---- a matrix-product state ------------------------------------------------------------------------------

SITES, BOND = 20, 6


def operator() -> Any:
    """Return H as a matrix-product operator; each tensor is w[left, right, out, in]."""
    w = np.zeros((3, 3, 2, 2))
    w[0, 0], w[2, 2], w[0, 1], w[1, 2], w[0, 2] = ONE, ONE, -Z, Z, -FIELD * X
    return w


def chain_energy(tensors: list[Any]) -> Any:
    """Return the energy <psi|H|psi> / <psi|psi> of the state with the tensors a[left, site, right]."""
    w = operator()
    energy = np.zeros((1, 3, 1))
    energy[0, 0, 0] = 1.0
    norm: Any = np.ones((1, 1))
    for a in tensors:
        energy = tnf.einsum("awb,apc,wvpq,bqd->cvd", energy, a, w, a)
        norm = tnf.einsum("ab,apc,bpd->cd", norm, a, a)
    return energy[0, 2, 0] / norm[0, 0]


def chain_start() -> list[Any]:
    """Return the tensors of a random state near a product state."""
    generator = np.random.default_rng(0)
    sizes = [1] + [min(BOND, 2 ** min(i, SITES - i)) for i in range(1, SITES)] + [1]
    tensors = []
    for left, right in itertools.pairwise(sizes):
        a = 0.1 * generator.normal(size=(left, 2, right))
        a[0, :, 0] += 0.7
        tensors.append(a)
    return tensors


def chain_exact() -> float:
    """Return the exact energy of the open chain: minus the sum of the energies of free fermions."""
    coupling = FIELD * np.eye(SITES) + np.eye(SITES, k=1)
    return -float(np.sum(np.linalg.svd(coupling, compute_uv=False)))


# ---- a MERA ----------------------------------------------------------------------------------------------

RING = 8
PAIR = -np.kron(Z, Z) - FIELD / 2 * (np.kron(X, ONE) + np.kron(ONE, X))


def isometry(x: Any) -> Any:
    """Return an isometry near x[up, low, low], by a QR decomposition."""
    up = x.shape[0]
    q, _ = tnf.linalg.qr(tnf.reshape(x, (up, 4)).mT)
    return tnf.reshape(q.mT, x.shape)


def network(tensors: dict[str, Any], labels: Any) -> tuple[list[Any], list[int]]:
    """Return the operands of the state's contraction, each tensor followed by its labels, and the labels of its sites."""
    sites = [next(labels), next(labels)]
    operands: list[Any] = [tensors["top"], list(sites)]
    for layer, width in (("coarse", 4), ("fine", 8)):
        lower = [next(labels) for _ in range(width)]
        for i, up in enumerate(sites):
            operands += [tensors[f"{layer} isometry"], [up, lower[2 * i], lower[2 * i + 1]]]
        sites = [next(labels) for _ in range(width)]
        for i in range(1, width, 2):
            j = (i + 1) % width
            operands += [tensors[f"{layer} disentangler"], [lower[i], lower[j], sites[i], sites[j]]]
    return operands, sites


def mera_energy(parameters: dict[str, Any]) -> Any:
    """Return the energy <psi|H|psi> of the MERA, as a sum of contractions, one for each bond of the ring."""
    tensors: dict[str, Any] = {}
    for name, x in parameters.items():
        if name == "top":
            tensors[name] = x / tnf.linalg.vector_norm(x)
        elif "isometry" in name:
            tensors[name] = isometry(x)
        else:
            flat = isometry(tnf.reshape(x, (4, 2, 2)))
            tensors[name] = tnf.reshape(flat, (2, 2, 2, 2))
    energy: Any = 0.0
    pair = PAIR.reshape(2, 2, 2, 2)
    for i in range(RING):
        j = (i + 1) % RING
        labels = iter(range(200))
        ket, below = network(tensors, labels)
        bra, above = network(tensors, labels)
        kept = {k: below[k] for k in range(RING) if k not in (i, j)}
        renamed = {above[k]: kept[k] for k in kept}
        bra = [
            [renamed.get(label, label) for label in x] if isinstance(x, list) else x for x in bra
        ]
        energy += tnf.einsum(*ket, *bra, pair, [above[i], above[j], below[i], below[j]], [])
    return energy


def mera_start() -> dict[str, Any]:
    """Return starting tensors: isometries near the sum and difference of two sites, disentanglers near the identity."""
    generator = np.random.default_rng(0)
    tensors = {"top": np.ones((2, 2)) + 0.1 * generator.normal(size=(2, 2))}
    for layer in ("coarse", "fine"):
        blocks = np.stack([np.full((2, 2), 0.5), np.diag([0.7, -0.7])])
        tensors[f"{layer} isometry"] = blocks + 0.2 * generator.normal(size=(2, 2, 2))
        near = np.eye(4) + 0.1 * generator.normal(size=(4, 4))
        tensors[f"{layer} disentangler"] = near.reshape(2, 2, 2, 2)
    return tensors


def ring_exact() -> float:
    """Return the exact energy of the ring: the lowest eigenvalue of the full matrix of H."""
    total = np.zeros((2**RING, 2**RING))
    for i in range(RING):
        for part, weight in (((Z, Z), -1.0), ((X, ONE), -FIELD)):
            factors = [ONE] * RING
            factors[i], factors[(i + 1) % RING] = part
            term = np.ones((1, 1))
            for factor in factors:
                term = np.kron(term, factor)
            total += weight * term
    return float(np.linalg.eigvalsh(total)[0])


# ---- both networks, natively and through PJRT ----------------------------------------------------------------------


def minimise(
    name: str, energy: Callable[[Any], Any], start: Any, exact: float, steps: int
) -> float:
    """Minimise the energy by L-BFGS natively; compare value and gradient with PJRT's at the start and at the end."""
    program = tnf.compile(tnf.value_and_grad(energy), start)
    leaves, tree = tnf.types.flatten(start)
    sizes = np.cumsum([x.size for x in leaves])[:-1]

    def unpacked(flat: Any) -> Any:
        parts = zip(np.split(flat, sizes), leaves, strict=True)
        return tnf.types.unflatten(tree, [part.reshape(x.shape) for part, x in parts])

    def evaluated(flat: Any) -> tuple[float, Any]:
        value, gradient = program.run(unpacked(flat))
        return float(value), np.concatenate([g.ravel() for g in tnf.types.flatten(gradient)[0]])

    first = np.concatenate([x.ravel() for x in leaves])
    last = minimize(evaluated, first, jac=True, method="L-BFGS-B", options={"maxiter": steps}).x
    peer, apart = XlaExecutor("cpu"), 0.0
    for flat in (first, last):
        value, gradient = peer.run(program, unpacked(flat))
        theirs = np.concatenate([g.ravel() for g in tnf.types.flatten(gradient)[0]])
        ours = evaluated(flat)
        apart = max(apart, abs(float(value) - ours[0]), float(np.max(np.abs(theirs - ours[1]))))
    lowest = evaluated(last)[0]
    print(
        f"{name}: {len(program.instructions)} instructions, energy {lowest:.6f}, exact {exact:.6f}; "
        f"native and PJRT {apart:.0e} apart"
    )
    assert apart < 1e-10
    assert lowest > exact - 1e-9, "a variational energy lies above the exact one"
    return lowest - exact


def main() -> None:
    gap = minimise(
        "matrix-product state, 20 sites", chain_energy, chain_start(), chain_exact(), 150
    )
    assert gap < 1e-3
    gap = minimise("MERA, 8 sites in a ring", mera_energy, mera_start(), ring_exact(), 100)
    assert gap < 0.2


if __name__ == "__main__":
    main()
