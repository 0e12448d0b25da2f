"""ONNX nodes of matrix factorisations and solves, which are traced from NumPy functions.

Ops of all other extension families are expanded to standard ops before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import tenferro as tnf
from lowering import import_stablehlo, lower_to_stablehlo
from lowering.numpy_source import functions
from tenferro.errors import UnsupportedError
from tenferro.extension import apply
from tenferro.ops.extension import Extension
from tenferro.program import expand_extensions
from xla_peer.onnx.decomposition import written
from xla_peer.onnx.emit.elementwise import Rows
from xla_peer.onnx.writer import Value, Writer

__all__ = ["ROWS", "is_written"]

LARGEST = 128
"""Maximum number of rows and of columns of a matrix, because the number of nodes grows in proportion to them."""


def _cholesky(op: Any, a: Any) -> Any:
    """Return L with A = L L^T, column by column; NaN for a matrix that is not positive definite."""
    rows = np.arange(a.shape[-1])
    a = functions.hermitian_part(a)
    is_definite = True
    for i in range(a.shape[-1]):
        corner = a[..., i, i, None]
        is_definite = is_definite & (corner > 0)
        column = np.where(rows >= i, a[..., i] / np.sqrt(corner), 0)
        rest = (rows > i)[:, None] & (rows > i)
        outer = column[..., None] * column[..., None, :]
        a = np.where(rows == i, column[..., None], np.where(rest, a - outer, a))
    return np.tril(np.where(np.expand_dims(is_definite, -1), a, np.nan))


def _getrf(op: Any, a: Any) -> Any:
    packed, pivots = functions.getrf(a)
    return packed, (pivots + 1).astype(np.int32), functions.getrf_info(packed)


def _qr(op: Any, a: Any) -> Any:
    m, n = a.shape[-2:]
    packed, factors = functions.geqrf(a)
    count = m if op.full else min(m, n)
    r = np.triu(packed[..., :count, :])
    if not op.vectors:
        return r
    columns = packed[..., : min(n, count)]
    if count > n:
        zeros = np.zeros((*a.shape[:-1], count - n), a.dtype)
        columns = np.concatenate([columns, zeros], -1)
    return functions.householder_product(columns, factors), r


def _transposed(op: Any, a: Any) -> Any:
    return a if op.transpose == "N" else np.swapaxes(a, -1, -2)


def _triangular_solve(op: Any, a: Any, b: Any) -> Any:
    lower = op.lower == (op.transpose == "N")
    return functions.triangular_solve(_transposed(op, a), b, lower, op.unit_diagonal)


def _solve(op: Any, a: Any, b: Any) -> Any:
    packed, order = functions.lu(_transposed(op, a))
    return _solved(packed, order, b)


def _lu_solve(op: Any, a: Any, packed: Any, order: Any, b: Any) -> Any:
    return _solved(packed, order, b) if op.transpose == "N" else _solve(op, a, b)


def _solved(packed: Any, order: Any, b: Any) -> Any:
    y = np.take_along_axis(b, order[..., None], -2)
    y = functions.triangular_solve(packed, y, True, True)
    return functions.triangular_solve(packed, y, False)


FAMILIES: Mapping[str, Callable[..., Any]] = {
    "tenferro.cholesky.v1": _cholesky,
    "tenferro.qr.v1": _qr,
    "tenferro.lu.v1": lambda op, a: functions.lu(a),
    "tenferro.getrf.v1": _getrf,
    "tenferro.pivots_to_permutation.v1": lambda op, pivots: functions.pivots_to_permutation(
        pivots, op.size
    ),
    "tenferro.geqrf.v1": lambda op, a: functions.geqrf(a),
    "tenferro.householder_product.v1": lambda op, a, factors: functions.householder_product(
        a, factors
    ),
    "tenferro.triangular_solve.v1": _triangular_solve,
    "tenferro.solve.v1": _solve,
    "tenferro.lu_solve.v1": _lu_solve,
}
"""NumPy functions by family id. An op of such a family is not expanded; the traced ops of the function become nodes."""


INLINED = ("tenferro.eigh.v1", "tenferro.svd.v1")
"""Families that are lowered to loops of Jacobi rotations in plain StableHLO, which are then written as ONNX loops."""


def _inlined(op: Extension, w: Writer, *xs: Value) -> list[Value]:
    program = tnf.compile(lambda *ys: apply(op.op, *ys), *[x.spec for x in xs])
    module = lower_to_stablehlo(program, linalg="inline")
    return w.program(expand_extensions(import_stablehlo(module, drops_windows=True)), xs)


def extension(op: Extension, w: Writer, *xs: Value) -> list[Value]:
    """Write a factorisation or a solve of matrices without symbolic extents.

    Raises:
        UnsupportedError: the op's family is not supported, an extent is symbolic, or an extent exceeds `LARGEST`.
    """
    function = FAMILIES.get(op.family_id)
    if op.family_id in INLINED and all([x.spec.is_static for x in xs]):
        return _inlined(op, w, *xs)
    if function is None:
        raise UnsupportedError("the family has no expansion into standard ops")
    extents = [extent for x in xs for extent in x.spec.shape[-2:]]
    if not all(isinstance(extent, int) and extent <= LARGEST for extent in extents):
        raise UnsupportedError(
            f"it is written for matrices of known extents of at most {LARGEST}, one step after the other"
        )
    return written(w, partial(function, op.op), *xs)


def is_written(op: Extension) -> bool:
    """Return whether a family is written as nodes; other families are expanded."""
    return op.family_id in FAMILIES or op.family_id in INLINED


ROWS: Rows = {Extension: extension}
