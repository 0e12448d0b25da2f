"""Native execution of the families of LAPACK's raw results, by LAPACK's routines through SciPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenferro.ext.lapack import families as fam
from tenferro.ext.linalg.routines import blas_threads_for, nan_like, routine, with_told_workspace
from tenferro.ext.linalg.runtime import finite_or_nan
from tenferro.extension import ExtensionCaches, ExtensionRuntime, Routine
from tenferro.types import DType

__all__ = ["LapackRuntime"]

Array = np.ndarray[Any, Any]


def with_workspace(function: Any, *arguments: Any, **options: Any) -> Any:
    """Call a LAPACK routine with a workspace of the size that the routine requests, and return all its results."""
    wanted = function(*arguments, lwork=-1, **options)[-2][0]
    return function(*arguments, lwork=int(wanted.real), **options)


def getrf(op: fam.Getrf, a: Array) -> Any:
    packed, pivots, info = routine("getrf", a)(a)
    return packed, (pivots + 1).astype(np.int32), np.int32(info)


def pivots_to_permutation(op: fam.PivotsToPermutation, pivots: Array) -> Any:
    perm = np.arange(op.size, dtype=pivots.dtype)
    for i, pivot in enumerate(pivots):
        perm[i], perm[pivot] = perm[pivot], perm[i]
    return (perm,)


def geqrf(op: fam.Geqrf, a: Array) -> Any:
    packed, factors, _, _ = with_workspace(routine("geqrf", a), a)
    return packed, factors


def geqp3(op: fam.Geqp3, a: Array) -> Any:
    if not len(a):  # LAPACK returns no permutation for a matrix without rows
        return a, np.arange(1, a.shape[1] + 1, dtype=np.int32), np.zeros(0, a.dtype)
    packed, order, factors, _, _ = with_workspace(routine("geqp3", a), a)
    return packed, order.astype(np.int32), factors


def householder_product(op: fam.HouseholderProduct, packed: Array, factors: Array) -> Any:
    if not len(factors):
        return (np.eye(*packed.shape, dtype=packed.dtype),)
    name = "ungqr" if packed.dtype.kind == "c" else "orgqr"
    return (with_workspace(routine(name, packed), packed, factors)[0],)


def unpacked(imaginary: Array, vectors: Array) -> Array:
    """Return complex eigenvectors. LAPACK returns the real and imaginary parts of a conjugate pair in two columns."""
    unpacked_vectors = vectors.astype(np.result_type(vectors.dtype, np.complex64))
    for j in np.flatnonzero(imaginary > 0):
        unpacked_vectors[:, j] = vectors[:, j] + 1j * vectors[:, j + 1]
        unpacked_vectors[:, j + 1] = unpacked_vectors[:, j].conj()
    return unpacked_vectors


def geev(op: fam.Geev, a: Array) -> Any:
    """Compute eigenvalues and eigenvectors; NaN if the iteration fails or the matrix is not finite."""
    return finite_or_nan(_geev, a)


def _geev(a: Array) -> tuple[Array, ...]:
    """Compute the eigenvalues and eigenvectors of a finite matrix."""
    scale = _scale(a)
    *values, left, right, info = routine("geev", a)(a / scale)
    if a.dtype.kind == "c":
        outputs = (values[0] * scale, left, right)
    else:
        re, im = values
        kind = np.result_type(a.dtype, np.complex64)
        outputs = ((re + 1j * im).astype(kind) * scale, unpacked(im, left), unpacked(im, right))
    return nan_like(outputs) if info else outputs


def _scale(a: Array) -> Any:
    """Return a power of two near the largest magnitude in `a` if that is far from 1, otherwise return 1.

    Callers divide the matrix by this number. If OpenBLAS's geev has to scale a matrix itself, it returns the
    eigenvalues of the scaled matrix.
    """
    largest = np.abs(a).max(initial=0)
    info = np.finfo(a.dtype)
    exponent = int(np.frexp(largest)[1]) if largest else 0
    is_near = abs(exponent) < info.maxexp // 8
    most = info.maxexp - 8
    return a.real.dtype.type(1 if is_near else 2.0 ** min(max(exponent, -most), most))


def gtsv(op: fam.Gtsv, below: Array, diagonal: Array, above: Array, b: Array) -> Any:
    if len(b) == 1:  # SciPy's wrapper rejects an empty off-diagonal
        with np.errstate(all="ignore"):
            return b / diagonal, np.int32(diagonal[0] == 0)
    *_, x, info = routine("gtsv", b)(below[1:], diagonal, above[:-1], b)
    return x, np.int32(info)


def sytrd(op: fam.Sytrd, a: Array) -> Any:
    name = "hetrd" if a.dtype.kind == "c" else "sytrd"
    packed, diagonal, off_diagonal, factors, _ = with_told_workspace(
        name, a, len(a), lower=op.lower
    )
    return packed, diagonal, off_diagonal, factors


def gehrd(op: fam.Gehrd, a: Array) -> Any:
    packed, factors, _ = with_told_workspace("gehrd", a, len(a))
    return packed, factors


def gees(op: fam.Gees, a: Array) -> Any:
    """Compute the Schur form, the Schur vectors, the eigenvalues and `info`.

    The results are NaN, and `info` is not 0, if the iteration fails or the matrix is not finite.
    """
    is_finite = bool(np.isfinite(a).all())
    schur = routine("gees", a)
    form, _, *values, vectors, _, info = schur(
        lambda *_: False, a if is_finite else np.zeros_like(a)
    )
    whole = values[0] if len(values) == 1 else values[0] + 1j * values[1]
    outputs = form, vectors, whole.astype(np.result_type(a.dtype, np.complex64))
    if info or not is_finite:
        return *nan_like(outputs), np.int32(info or 1)
    return *outputs, np.int32(info)


KERNELS: dict[type[Any], tuple[Callable[..., Any], tuple[int, ...]]] = {
    fam.Getrf: (getrf, (2,)),
    fam.PivotsToPermutation: (pivots_to_permutation, (1,)),
    fam.Geqrf: (geqrf, (2,)),
    fam.Geqp3: (geqp3, (2,)),
    fam.HouseholderProduct: (householder_product, (2, 1)),
    fam.Geev: (geev, (2,)),
    fam.Gtsv: (gtsv, (1, 1, 1, 2)),
    fam.Sytrd: (sytrd, (2,)),
    fam.Gehrd: (gehrd, (2,)),
    fam.Gees: (gees, (2,)),
}
"""Kernel for one matrix, and the ranks of the kernel's inputs, by family."""


ROUTINES: dict[type[Any], str] = {
    fam.Getrf: "getrf",
    fam.Geqrf: "geqrf",
    fam.HouseholderProduct: "householder_product",
}


class LapackRuntime(ExtensionRuntime):
    """Runtime of one of LAPACK's families. It calls a kernel for each matrix of a batch."""

    order = "K"

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    def compiled_routine(self, op: Any) -> Routine | None:
        """Return the LAPACK routine that compiled loops call for the op; None if there is none."""
        name = ROUTINES.get(type(op))
        return None if name is None else Routine(name, is_exact=True)

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Run the kernel on each matrix. If all results except `info` are empty, return zeros without running it."""
        dtypes = [DType.of(x.dtype) for x in inputs]
        declared = op.infer_output_meta(dtypes, [x.shape for x in inputs])
        outputs = [np.zeros(shape, dtype.dtype) for dtype, shape in declared]
        kernel, ranks = KERNELS[type(op)]
        batch = inputs[0].shape[: inputs[0].ndim - ranks[0]]
        if not any(y.size for y in outputs if y.ndim > len(batch)):
            return outputs
        with blas_threads_for(inputs[0], by_scipy=True):
            for index in np.ndindex(*batch):
                results = kernel(op, *[x[index] for x in inputs])
                for output, y in zip(outputs, results, strict=True):
                    output[index] = y
        return outputs
