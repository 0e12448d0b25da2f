"""Logarithms, powers, signs and trigonometric functions of matrices, computed from square roots and exponentials.

Source: SciPy 1.16, reference, scipy.linalg; Higham, "Functions of Matrices", 2008.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.api.control import while_loop
from tenferro.api.elementwise import abs, add, greater, imag, multiply, real, subtract, where
from tenferro.api.linalg.functions import as_in, in_complex, of_static_order, refuse_estimate, sqrtm
from tenferro.api.linalg.matrices import expm, matrix_power, solve, square
from tenferro.api.linear import matmul
from tenferro.api.promotion import broadcast_to, convert
from tenferro.api.reductions import any as any_
from tenferro.api.reductions import max as max_
from tenferro.api.reductions import sum as sum_
from tenferro.dispatch import spec_of, stop_gradient
from tenferro.types import ArrayLike

__all__ = ["coshm", "cosm", "fractional_matrix_power", "logm", "signm", "sinhm", "sinm", "tanhm", "tanm"]  # fmt: skip

MAX_ROOTS = 48
"""Maximum number of square roots in `logm`. In float64, 12 suffice if the eigenvectors are well-conditioned."""

NEAR = 0.3
"""Bound on the 1-norm of x - 1 below which the quadrature of `logm` has no error beyond rounding."""


def _eye(like: Any) -> Any:
    return np.eye(like.shape[-1], dtype=spec_of(like).dtype.dtype)


def logm(A: ArrayLike, disp: bool = True) -> Any:  # noqa: N803  # because SciPy calls it so
    """Return the principal logarithm x of A: expm(x) = A, and the eigenvalues of x have imaginary parts within +-pi.

    Square roots are taken until the matrix B is near 1. Then Gauss-Legendre quadrature with 8 nodes integrates
    (B - 1) (1 + t (B - 1))^-1 over t from 0 to 1. The result is complex. Leading axes are batch axes.

    Args:
        disp: must be True.

    Raises:
        ShapeError: A is not square. UnsupportedError: `disp` is False.

    >>> logm(np.array([[1.0, 1.0], [0.0, 1.0]])).real.round(12) + 0.0
    array([[0., 1.],
           [0., 0.]])

    Source: Higham, "Functions of Matrices", algorithm 11.10.
    """
    refuse_estimate("logm", disp)
    x = in_complex(of_static_order("logm", A))
    eye = _eye(x)

    def are_far(root: Any) -> Any:
        sums = sum_(abs(subtract(stop_gradient(root), eye)), axis=-2, keepdims=True)
        return greater(max_(sums, axis=-1, keepdims=True), NEAR)

    def halve(state: Any) -> Any:
        root, scale = state
        is_far = are_far(root)
        return where(is_far, sqrtm(root), root), where(is_far, multiply(scale, 2.0), scale)

    if not x.shape[-1]:
        return x
    scale: Any = np.ones((), spec_of(x).dtype.real.dtype)
    scale = broadcast_to(scale, (*x.shape[:-2], 1, 1))
    root, scale = while_loop(
        lambda state: any_(are_far(state[0])), halve, (x, scale), max_steps=MAX_ROOTS
    )
    near = subtract(root, eye)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    total: Any = 0.0
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        total = add(total, multiply(solve(add(eye, multiply(near, node)), near), weight))
    return multiply(total, convert(scale, spec_of(x).dtype))


def fractional_matrix_power(A: ArrayLike, t: float) -> Any:  # noqa: N803  # because SciPy calls it so
    """Return A^t = expm(t logm(A)), which is complex. If t is an integer, return the power in the dtype of A.

    Raises:
        ShapeError: A is not square.

    >>> fractional_matrix_power(np.array([[4.0, 0.0], [0.0, 9.0]]), 0.5).real.round(12)
    array([[2., 0.],
           [0., 3.]])
    """
    if float(t).is_integer():
        return matrix_power(of_static_order("fractional_matrix_power", A), int(t))
    return expm(multiply(logm(A), t))


def signm(A: ArrayLike, disp: bool = True) -> Any:  # noqa: N803  # because SciPy calls it so
    """Return the sign of a matrix, A (A^2)^(-1/2), which replaces each eigenvalue by the sign of its real part.

    Args:
        disp: must be True.

    Raises:
        ShapeError: A is not square. UnsupportedError: `disp` is False.

    >>> signm(np.array([[2.0, 0.0], [0.0, -3.0]]))
    array([[ 1.,  0.],
           [ 0., -1.]])

    Source: Higham, "Functions of Matrices", section 5.1.
    """
    refuse_estimate("signm", disp)
    x = of_static_order("signm", A)
    wide = in_complex(x)
    return as_in(solve(sqrtm(matmul(wide, wide)), wide), x)


def _of_angle(name: str, x: ArrayLike) -> tuple[Any, Any, bool]:
    """Return expm(i x), expm(-i x), and whether the matrices x are real."""
    matrix = square(name, x)
    turned = multiply(in_complex(matrix), 1j)
    return expm(turned), expm(multiply(turned, -1)), not spec_of(matrix).dtype.is_complex


def cosm(A: ArrayLike) -> Any:  # noqa: N803  # because SciPy calls it so
    """Return the cosine of matrices, (e^(i A) + e^(-i A)) / 2.

    Raises:
        ShapeError: A is not square.

    >>> cosm(np.zeros((1, 1)))
    array([[1.]])
    """
    forward, backward, is_real = _of_angle("cosm", A)
    return real(forward) if is_real else multiply(add(forward, backward), 0.5)


def sinm(A: ArrayLike) -> Any:  # noqa: N803  # because SciPy calls it so
    """Return the sine of matrices, (e^(i A) - e^(-i A)) / (2 i).

    Raises:
        ShapeError: A is not square.

    >>> sinm(np.zeros((1, 1)))
    array([[0.]])
    """
    forward, backward, is_real = _of_angle("sinm", A)
    return imag(forward) if is_real else multiply(subtract(forward, backward), -0.5j)


def tanm(A: ArrayLike) -> Any:  # noqa: N803  # because SciPy calls it so
    """Return the tangent of matrices, cosm(A)^-1 sinm(A).

    Raises:
        ShapeError: A is not square.

    >>> tanm(np.zeros((1, 1)))
    array([[0.]])
    """
    return solve(cosm(A), sinm(A))


def coshm(A: ArrayLike) -> Any:  # noqa: N803  # because SciPy calls it so
    """Return the hyperbolic cosine of matrices, (e^A + e^-A) / 2.

    Raises:
        ShapeError: A is not square.

    >>> coshm(np.zeros((1, 1)))
    array([[1.]])
    """
    x = square("coshm", A)
    return multiply(add(expm(x), expm(multiply(x, -1))), 0.5)


def sinhm(A: ArrayLike) -> Any:  # noqa: N803  # because SciPy calls it so
    """Return the hyperbolic sine of matrices, (e^A - e^-A) / 2.

    Raises:
        ShapeError: A is not square.

    >>> sinhm(np.zeros((1, 1)))
    array([[0.]])
    """
    x = square("sinhm", A)
    return multiply(subtract(expm(x), expm(multiply(x, -1))), 0.5)


def tanhm(A: ArrayLike) -> Any:  # noqa: N803  # because SciPy calls it so
    """Return the hyperbolic tangent of matrices, coshm(A)^-1 sinhm(A).

    Raises:
        ShapeError: A is not square.

    >>> tanhm(np.zeros((1, 1)))
    array([[0.]])
    """
    return solve(coshm(A), sinhm(A))
