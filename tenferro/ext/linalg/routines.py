"""Calls of LAPACK's routines through SciPy, with the workspace that they request, and one BLAS thread if faster."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from tenferro.extension import one_blas_thread

if TYPE_CHECKING:
    from tenferro.extension import Dense

__all__ = [
    "LARGE",
    "blas_threads_for",
    "columns",
    "nan_like",
    "nan_of",
    "routine",
    "with_told_workspace",
]

Array = np.ndarray[Any, Any]

LARGE = 64
"""Minimum number of rows of a matrix from which limiting the BLAS threads is worthwhile."""
LARGEST_ALONE = 768
"""Maximum number of rows of a matrix for which LAPACK is faster with one BLAS thread than with two."""


def blas_threads_for(a: Array, by_scipy: bool) -> AbstractContextManager[None]:
    """Return a context that limits BLAS to one thread, if one thread factorises a matrix of this size faster than two.

    Args:
        by_scipy: whether SciPy's BLAS is called. That BLAS is loaded before the limit is set. A BLAS that is loaded
      later would keep its threads, and the first run would be rounded differently from later runs.
    """
    if not (a.ndim > 1 and LARGE <= a.shape[-2] <= LARGEST_ALONE):
        return nullcontext()
    if by_scipy:
        import_module("scipy.linalg")
    return one_blas_thread()


def columns(rows: Dense, a: Array) -> Array:
    """Copy each matrix of a batch to column-major layout, for a routine that overwrites its operand.

    Args:
        rows: function that returns a row-major copy. It is applied to the transpose: the transpose of the copy is
      column-major.
    """
    copy: Array = rows(np.swapaxes(a, -1, -2))
    return np.swapaxes(copy, -1, -2)


def routine(name: str, *arrays: Array) -> Any:
    """Return LAPACK's routine `name` for the dtype of these arrays."""
    from scipy.linalg import lapack

    return lapack.get_lapack_funcs((name,), arrays)[0]


def with_told_workspace(
    name: str, a: Array, *extents: int, overwrite_a: bool = False, **options: Any
) -> Any:
    """Call a routine with a workspace of the size that its query routine returns for these extents and options."""
    wanted = routine(f"{name}_lwork", a)(*extents, **options)[0]
    size = max(int(wanted.real), 1)
    return routine(name, a)(a, lwork=size, overwrite_a=overwrite_a, **options)


def nan_like(arrays: Iterable[Array]) -> tuple[Array, ...]:
    """Return, for each array, an array of NaN of the same shape and dtype. Complex numbers have NaN in both parts."""
    return tuple([np.full_like(x, nan_of(x)) for x in arrays])


def nan_of(x: Array) -> complex:
    """Return the NaN with which an array like x is filled; for a complex array, both parts are NaN."""
    return complex(np.nan, np.nan) if np.iscomplexobj(x) else np.nan
