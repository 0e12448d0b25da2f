"""LLVM lowerings of factorizations of small matrices by LAPACK, with the conventions of NumPy and SciPy."""

from __future__ import annotations

from math import prod

from tenferro.exec.llvm import column_major as cm
from tenferro.exec.llvm.code import Element, Index, literal
from tenferro.exec.llvm.elementwise import select
from tenferro.exec.llvm.structural import triangle
from tenferro.exec.llvm.tensor import Body, Memory, Specs, Tensor, Tensors
from tenferro.ops.structural import Triu
from tenferro.program import Routine
from tenferro.types import DType, TensorSpec

__all__ = ["eigh", "geqrf", "householder_product", "qr", "svd"]

BLOCK = 32
"""Number of columns per block for which LAPACK's Householder routines get a workspace."""


def geqrf(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return a matrix with R and, below R, the Householder vectors; and the factors of the reflections."""
    (a,), (y, spec) = operands, types
    packed, factors = _householder_qr(body, a, spec)
    return [body.copied(cm.from_column_major(body, packed, y)), body.stored(factors)]


def householder_product(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return the product of Householder reflections, computed by orgqr or ungqr."""
    (packed, factors), (y,) = operands, types
    q = cm.to_column_major(body, packed)
    _form_q(body, q, body.dense(factors))
    return [body.copied(cm.from_column_major(body, q, y))]


def qr(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return Q and R, computed by geqrf, and by orgqr or ungqr; only R unless `op.vectors`."""
    (a,), code = operands, body.code
    *batch, m, n = a.spec.shape
    packed, factors = _householder_qr(body, a, TensorSpec.of((*batch, min(m, n)), a.spec.dtype))
    factored = cm.from_column_major(body, packed, a.spec)
    (upper,) = triangle(lower=False).write(body, Triu(), [factored], types[-1:])
    r = body.copied(upper)
    if not op.vectors:
        return [r]
    y = types[0]
    columns = y.shape[-1]

    def householder_vectors(index: tuple[Index, ...]) -> Element:
        number, j, i = index
        is_packed = code.icmp("ult", j, n)
        column = code.intrinsic("umin", j, n - 1)
        offset = code.ravel_index((number, column, i), packed.spec.shape)
        value = code.load(packed.pointer, offset, y.dtype)
        return select(code, y.dtype, is_packed, value, literal(0, y.dtype))

    spec = TensorSpec.of((prod(batch), columns, m), y.dtype)
    q = body.copy(Tensor(spec, householder_vectors, frozenset([packed])))
    _form_q(body, q, factors)
    return [body.copied(cm.from_column_major(body, q, y)), r]


def eigh(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return eigenvalues and eigenvectors of the Hermitian part, computed by syevd or heevd; NaN if LAPACK fails."""
    (a,), code, dtype = operands, body.code, operands[0].spec.dtype
    n = a.spec.shape[-1]
    matrices = cm.to_column_major(
        body, Tensor(a.spec, lambda index: cm.hermitian_part(body, a, index), a.reads)
    )
    values, info = body.memory(types[0]), code.alloca("i32")
    jobz = "V" if op.vectors else "N"
    work = _workspace(body, dtype, 1 + 6 * n + 2 * n * n)
    rwork = _workspace(body, dtype.real, 1 + 5 * n + 2 * n * n) if dtype.is_complex else []
    iwork = _workspace(body, DType.I32, 3 + 5 * n)
    arguments = jobz, "L", n, matrices, n, values, *work, *rwork, *iwork, info
    name, results = "heevd" if dtype.is_complex else "syevd", [values, matrices][: len(types)]
    cm.call_each(body, name, matrices, arguments, 10 * n**3, results, needs_finite=True)
    vectors = [body.copied(cm.from_column_major(body, matrices, y)) for y in types[1:]]
    return [body.stored(values), *vectors]


def svd(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return the singular value decomposition, computed by gesdd; NaN if LAPACK fails."""
    (a,), code, dtype = operands, body.code, operands[0].spec.dtype
    *batch, m, n = a.spec.shape
    small, large = sorted((m, n))
    matrices, info = cm.to_column_major(body, a), code.alloca("i32")
    values = body.memory(types[1] if op.vectors else types[0])
    u_columns, v_rows = (m, n) if op.full else (small, small)
    count = prod(batch)
    u, v = (
        body.memory(TensorSpec.of((count, *shape) if op.vectors else (1, 1, 1), dtype))
        for shape in ((u_columns, m), (n, v_rows))
    )
    jobz = "N" if not op.vectors else "A" if op.full else "S"
    work = _workspace(body, dtype, 4 * small * small + 8 * small + large)
    rwork = _workspace(
        body,
        dtype.real,
        max(5 * small * small + 5 * small, 2 * large * small + 2 * small * small + small),
    )
    iwork = _workspace(body, DType.I32, 8 * small)

    left, right = (u, v) if op.vectors else (u.pointer, v.pointer)
    works = *work, *(rwork[:1] if dtype.is_complex else []), iwork[0]
    arguments = jobz, m, n, matrices, m, values, left, m, right, v_rows, *works, info
    work, results = 20 * small * small * large, [values, u, v][: len(types)]
    cm.call_each(body, "gesdd", matrices, arguments, work, results, needs_finite=True)
    if not op.vectors:
        return [body.stored(values)]
    factors = [
        body.copied(cm.from_column_major(body, x, y)) for x, y in ((u, types[0]), (v, types[2]))
    ]
    return [factors[0], body.stored(values), factors[1]]


def _householder_qr(body: Body, a: Tensor, spec: TensorSpec) -> tuple[Memory, Memory]:
    """Return the column-major results of geqrf, and the factors of the reflections."""
    code, dtype = body.code, a.spec.dtype
    *_, m, n = a.spec.shape
    packed, factors = cm.to_column_major(body, a), body.memory(spec)
    arguments = m, n, packed, m, factors, *_workspace(body, dtype, BLOCK * n), code.alloca("i32")
    cm.call_each(body, "geqrf", packed, arguments, 2 * m * n * n)
    return packed, factors


def _form_q(body: Body, q: Memory, factors: Memory) -> None:
    """Write a call that overwrites the Householder vectors in q with the product of the reflections."""
    code, dtype = body.code, q.spec.dtype
    _, columns, m = q.spec.shape
    k, work = factors.spec.shape[-1], _workspace(body, dtype, BLOCK * columns)
    arguments = m, columns, k, q, m, factors, *work, code.alloca("i32")
    name = "ungqr" if dtype.is_complex else "orgqr"
    cm.call_each(body, name, q, arguments, 4 * m * columns * k)


def _workspace(body: Body, dtype: DType, size: int) -> list[int | str]:
    """Return the pointer to a new workspace of `size` elements, and its size."""
    return [body.memory(TensorSpec.of((size,), dtype)).pointer, size]
