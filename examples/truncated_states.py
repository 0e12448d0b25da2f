"""A matrix-product state of two tensors, truncated to a tolerance, and the derivative through the truncation.

The state has two halves of 4 sites each, and the amplitudes exp(-J (i - j)^2 / 50), where i and j number the values of
the two halves. An SVD truncates the state at the bond between the halves. It keeps the singular values above a
tolerance, so the width of the bond depends on the data. The script differentiates the sum of fourth powers of the
amplitudes with respect to J, through the truncation. It compares the derivative with a finite difference, and with the
derivative for the state without truncation. The same program with masked factors runs through PJRT.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf
from xla_peer import XlaExecutor

SITES, MAX_BOND, TOLERANCE = 8, 16, 1e-10
HALF = 2 ** (SITES // 2)
DISTANCE = (np.arange(HALF)[:, None] - np.arange(HALF)) ** 2 / 50.0


def state(coupling: Any) -> Any:
    """Return the matrix of amplitudes: a row for each value of the left half, a column for each of the right half."""
    return tnf.exp(-coupling * DISTANCE)


def cut_state(coupling: Any, masked: bool = False) -> tuple[Any, Any]:
    """Return the amplitudes after the truncation at the middle bond, and the rank of the bond."""
    u, s, vh, rank = tnf.linalg.truncated_svd(
        state(coupling), max_rank=MAX_BOND, rtol=TOLERANCE, masked=masked
    )
    left = tnf.einsum("ik,k->ik", u, s)
    return tnf.einsum("ik,kj->ij", left, vh), rank


def norm(coupling: Any, masked: bool = False) -> Any:
    """Return the sum of fourth powers of the amplitudes, a function whose gradient depends on all amplitudes."""
    return tnf.sum(cut_state(coupling, masked)[0] ** 4)


def main() -> None:
    program = tnf.compile(cut_state, tnf.TensorSpec((), "float64"))
    slope = tnf.grad(norm)
    for coupling in (0.0, 0.01, 0.3, 3.0):
        amplitudes, rank = program.run(np.float64(coupling))
        error = np.abs(amplitudes - np.exp(-coupling * DISTANCE)).max()
        print(f"J = {coupling:5.2f}: bond {int(rank):2d} of {HALF}, error {error:.1e}")
        assert error < 10 * HALF * TOLERANCE
    point, h = np.float64(0.3), 1e-5
    gradient = slope(point)
    difference = (norm(point + h) - norm(point - h)) / (2 * h)
    whole = tnf.grad(lambda j: tnf.sum(state(j) ** 4))(point)
    masked = tnf.compile(tnf.grad(lambda j: norm(j, masked=True)), point)
    compiled = XlaExecutor().run(masked, point)
    print(f"derivative {gradient:.8f}, difference {difference:.8f}, PJRT {compiled:.8f}")
    np.testing.assert_allclose(gradient, difference, rtol=1e-6)
    np.testing.assert_allclose(gradient, whole, rtol=1e-6)
    np.testing.assert_allclose(compiled, gradient, rtol=1e-6)


if __name__ == "__main__":
    main()
