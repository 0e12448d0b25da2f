"""Error bounds (radii) of transforms and decompositions: by linearity, or by perturbation theory.

The result of an implementation is the exact result for slightly different operands; the difference is its backward
error. So the change of the exact result is bounded for operands within their balls, enlarged by the backward error.
The bound is computed in float64 from the centres. Factors whose signs or vectors are not unique have no bound.

Sources: N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., theorems 8.5, 9.4, 10.4 and 24.2;
S. M. Rump, Verification methods, Acta Numerica 19, 2010, section 10; J.-G. Sun, Componentwise perturbation bounds for
some matrix decompositions, BIT 32, 1992.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tenferro.ext.fft import families as ff
from tenferro.ext.linalg import families as fam
from xla_peer.parity.balls.operands import EPSILON, Operands, Rule, outward, rounded, tiny, wide
from xla_peer.parity.pending import unit
from xla_peer.parity.ulps import modulus

__all__ = ["FAMILIES", "extension_radii"]


def extension_radii(operands: Operands) -> Sequence[Any]:
    """Compute radii by the rule of the extension's family. If there is no rule, floats have no bound.

    Integers then have a bound, 0, only if all operands are exact and none of them is a float.
    """
    rule = FAMILIES.get(type(operands.op.op))
    if rule is not None and all(np.isfinite(wide(x)).all() for x in operands.values):
        return rule(operands)
    rounds = any(spec.dtype.is_inexact for spec in operands.specs) or not operands.are_exact
    return [
        _unbounded(y) if rounds or y.dtype.kind not in "biu" else np.zeros(y.shape)
        for y in operands.results
    ]


def _unbounded(result: Any) -> Any:
    return np.full(result.shape, np.inf)


def _transformed(operands: Operands) -> Sequence[Any]:
    """Bound a Fourier transform of n elements.

    The coefficients are sums with weights of modulus 1, so they change by at most the sum of the radii. The rounding
    error is proportional to u log(n) times the norm of the elements, where u is the unit roundoff.
    """
    op, (x,), (radius,), (result,) = (
        operands.op.op, operands.values, operands.radii, operands.results,
    )  # fmt: skip
    axes, count = tuple(range(-len(op.lengths), 0)), math.prod(op.lengths_of(x.shape))
    scale = 1.0 / count if op.kind in ("ifft", "irfft") else 1.0
    if op.kind == "irfft":
        scale *= 2.0  # each given coefficient also stands for its conjugate in the other half of the spectrum
    spread = scale * np.sum(radius, axis=axes, keepdims=True)
    norm = np.sqrt(np.sum(modulus(x) ** 2, axis=axes, keepdims=True)) + np.sqrt(
        np.sum(radius**2, axis=axes, keepdims=True)
    )
    share = 32.0 * (math.log2(max(count, 2)) + 4.0) * unit(operands.dtype)
    error = np.where(
        norm > 0, share * scale * math.sqrt(count) * norm + 2 * count * tiny(operands.dtype), 0.0
    )
    spread, error = (np.broadcast_to(outward(z, count), result.shape) for z in (spread, error))
    return (rounded(operands, result, spread, error, elementwise=False),)


# ---- linear systems ------------------------------------------------------------------------------


def _solved(operands: Operands) -> Sequence[Any]:
    """Bound a solution by elimination with pivoting, whose backward error is relative to the largest element."""
    (a, b), (moved, of_b) = operands.values, operands.radii
    order = a.shape[-1]
    largest = np.max(modulus(a), axis=(-2, -1), keepdims=True, initial=0.0)
    most = largest + np.max(moved, axis=(-2, -1), keepdims=True, initial=0.0)
    backward = np.broadcast_to(8.0 * order**2 * unit(operands.dtype) * most, moved.shape)
    return _solution(operands, operands.op.op.transpose, wide(a), moved, backward, wide(b), of_b)


def _substituted(operands: Operands) -> Sequence[Any]:
    """Bound a solution by substitution, whose backward error is relative to each element of the triangle."""
    op, (a, b), (moved, of_b) = operands.op.op, operands.values, operands.radii
    a = np.tril(wide(a)) if op.lower else np.triu(wide(a))
    moved = np.tril(moved) if op.lower else np.triu(moved)
    diagonal = np.eye(a.shape[-1], dtype=bool)
    if op.unit_diagonal:
        a, moved = np.where(diagonal, 1.0, a), np.where(diagonal, 0.0, moved)
    backward = 4.0 * (a.shape[-1] + 2.0) * unit(operands.dtype) * (modulus(a) + moved)
    return _solution(operands, op.transpose, a, moved, backward, wide(b), of_b)


def _solution(
    operands: Operands, transpose: str, a: Any, moved: Any, backward: Any, b: Any, of_b: Any
) -> Sequence[Any]:
    """Bound the change of the solution x of A x = b: |x' - x| <= (I - G)^-1 |R| (s + E |x| + |b - A x|).

    R is an approximate inverse of A, and G bounds |I - R A'| for all matrices A' in the ball. E and s bound the change
    of the matrix and of the right-hand side, including the backward error of an implementation. The error of an
    implementation is the resulting change of a solution x', where |x'| <= |x| + |x' - x|, plus the residual of the
    native solution.

    Args:
        moved, backward: the radii of A, and the bound on the backward error of A.
        of_b: the radii of b.
    """
    (result,) = operands.results
    if transpose != "N":
        a, moved, backward = (np.swapaxes(x, -1, -2) for x in (a, moved, backward))
        a = a.conj() if transpose == "C" else a
    inverse = _inverse(a)
    if inverse is None or not result.size:
        return (_unbounded(result),)
    x, size, of_inverse = wide(result), modulus(a), modulus(inverse)
    gamma = 8.0 * (a.shape[-1] + 2.0) * EPSILON
    distance = modulus(np.eye(a.shape[-1]) - inverse @ a)
    moved = moved + backward
    distance = distance + gamma * (of_inverse @ size) + of_inverse @ moved
    norm = outward(np.max(np.sum(distance, -1), -1), 64)[..., None, None]
    residual = modulus(b - a @ x) + gamma * (size @ modulus(x) + modulus(b))

    def solved(right: Any) -> Any:
        error = of_inverse @ right
        most = np.max(error, axis=-2, keepdims=True)
        rest = np.where(norm < 1, norm / np.where(norm < 1, 1.0 - norm, 1.0), np.inf)
        return outward(error + most * rest, 64.0 * a.shape[-1])

    error = solved(of_b + moved @ modulus(x) + residual)
    own = 2.0 * unit(operands.dtype) * (modulus(result) + error)
    if operands.is_local:
        own = own + solved(backward @ (modulus(x) + error) + residual)
    return (rounded(operands, result, error, own, elementwise=False),)


def _inverse(a: Any) -> Any:
    """Return an approximate inverse; None if the matrix is singular or the inverse is not finite."""
    try:
        inverse = np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return None
    return inverse if np.isfinite(inverse).all() else None


def _inverse_sizes(inverse: Any, a: Any) -> Any:
    """Bound |A^-1| elementwise by an approximate inverse R: (I - |I - R A|)^-1 |R|."""
    order, size = a.shape[-1], modulus(inverse)
    distance = modulus(np.eye(order) - inverse @ a)
    distance = distance + 8.0 * (order + 2.0) * EPSILON * (size @ modulus(a))
    norm = outward(np.max(np.sum(distance, -1), -1), 64)[..., None, None]
    rest = np.where(norm < 1, norm / np.where(norm < 1, 1.0 - norm, 1.0), np.inf)
    return size + rest * np.max(size, axis=-2, keepdims=True)


# ---- factors and spectra -------------------------------------------------------------------------


def _factored(operands: Operands) -> Sequence[Any]:
    """Bound the Cholesky factor L of a matrix that changes by E.

    The factor of the changed matrix is L C, where C C^H = I + L^-1 E L^-H. If e is the Frobenius norm of L^-1 E L^-H,
    then |C - I| <= sqrt(2) e / (1 + sqrt(1 - 2 e)) in this norm.
    """
    (a,), (moved,), (result,) = operands.values, operands.radii, operands.results
    if not np.isfinite(result).all() or not result.size:
        return (_unbounded(result),)
    low, order = wide(result), result.shape[-1]
    inverse = _inverse(low)
    if inverse is None:
        return (_unbounded(result),)
    size, upper = modulus(low), np.swapaxes(modulus(low), -1, -2)
    a = (wide(a) + np.swapaxes(wide(a), -1, -2).conj()) / 2.0
    moved = (moved + np.swapaxes(moved, -1, -2)) / 2.0
    product = size @ upper
    residual = modulus(a - low @ np.swapaxes(low, -1, -2).conj())
    moved = moved + residual + 4.0 * (order + 2.0) * (unit(operands.dtype) + 4 * EPSILON) * product
    of_inverse = _inverse_sizes(inverse, low)
    relative = of_inverse @ moved @ np.swapaxes(of_inverse, -1, -2)
    share = outward(np.sqrt(np.sum(relative**2, axis=(-2, -1), keepdims=True)), 64.0 * order)
    root = np.sqrt(np.where(share < 0.5, 1.0 - 2.0 * share, 0.0))
    eta = np.where(share < 0.5, math.sqrt(2.0) * share / (1.0 + root), np.inf)
    rows = np.sqrt(np.sum(size**2, axis=-1, keepdims=True))
    spread = outward(np.tril(np.broadcast_to(rows * eta, low.shape)), 64.0 * order)
    own = 2.0 * unit(operands.dtype) * (size + spread)
    return (rounded(operands, result, spread, np.tril(own), elementwise=False),)


def _eigenvalues(operands: Operands) -> Sequence[Any]:
    """Bound the eigenvalues of a Hermitian matrix by Weyl's theorem; eigenvectors have no bound."""
    values, *vectors = operands.results
    return (_spectral(operands, values), *map(_unbounded, vectors))


def _singular_values(operands: Operands) -> Sequence[Any]:
    if not operands.op.op.vectors:
        return (_spectral(operands, operands.results[0]),)
    left, values, right = operands.results
    return (_unbounded(left), _spectral(operands, values), _unbounded(right))


def _spectral(operands: Operands, values: Any) -> Any:
    (a,), (moved,) = operands.values, operands.radii
    norm, away = (np.sqrt(np.sum(x**2, axis=(-2, -1)))[..., None] for x in (modulus(a), moved))
    error = 16.0 * (max(a.shape[-2:]) + 4.0) * unit(operands.dtype) * (norm + away)
    spread, error = (np.broadcast_to(outward(x, a.size), values.shape) for x in (away, error))
    return rounded(operands, values, spread, error, elementwise=False)


FAMILIES: Mapping[type[Any], Rule] = {
    ff.Fft: _transformed,
    fam.Cholesky: _factored,
    fam.TriangularSolve: _substituted,
    fam.Solve: _solved,
    fam.Eigh: _eigenvalues,
    fam.Svd: _singular_values,
}
"""Rules by class of extension op. QR, LU, general eigenvalues and families of other packages have no rule."""
