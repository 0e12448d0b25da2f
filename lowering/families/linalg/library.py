"""Matrix functions by the platform's library: LAPACK on the CPU, cuSOLVER or hipSOLVER on a GPU.

The library's routines are called by custom calls of XLA's typed FFI. Each custom call declares its matrices as
column-major, with batch axes in front. A routine reports failure in its result `info`; the other results are then set
to NaN.

Source: jaxlib's handlers, `lapack_<type><routine>_ffi` and `cusolver_<routine>_ffi`, with the flags that JAX passes
to them; StableHLO spec #custom_call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowering.families.linalg.inline import pivots_to_permutation
from lowering.families.linalg.matrix import (
    COMPLEX,
    REAL,
    adjoint,
    cut,
    hermitian,
    is_finite,
    or_nan,
    parts,
    qr_by,
    solve_by,
    spec,
    triangle,
    triangular,
    unit,
)
from lowering.inference import result_types
from lowering.operations import Dense, Integer, Struct
from lowering.writer import Value, Writer
from tenferro.errors import NonStaticShapeError
from tenferro.types import DType, TensorSpec

__all__ = ["RULES", "VENDOR", "call", "call_of_finite", "custom_call", "triangular_solve"]

PREFIX = {DType.F32: "s", DType.F64: "d", DType.C32: "c", DType.C64: "z"}
VENDOR = {"cuda": "cu", "rocm": "hip"}
INFO = DType.I32

LAPACK_FLAGS = {
    "potrf": {"uplo": "L"},
    "syevd": {"mode": "V", "uplo": "L"},
    "syevd_values": {"mode": "N", "uplo": "L"},
    "gesdd": {"mode": "S"},
    "gesdd_full": {"mode": "A"},
    "gesdd_values": {"mode": "N"},
    "geev": {"compute_left": "N", "compute_right": "V"},
    "geev_values": {"compute_left": "N", "compute_right": "N"},
    "geev_both": {"compute_left": "V", "compute_right": "V"},
    "gees": {"mode": "V", "sort": "N"},
    "sytrd_lower": {"uplo": "L"},
    "sytrd_upper": {"uplo": "U"},
}
SYEVD = {"algorithm": Integer(0, "ui8"), "lower": True}


def svd_flags(vectors: bool, full: bool, **more: bool) -> dict[str, Any]:
    """Return the attributes, by name, that select the results of an SVD routine on a GPU.

    Args:
        vectors: whether singular vectors are computed.
        full: whether the matrices of singular vectors are square.
        more: attributes that only one of the routines has.
    """
    return {"compute_uv": vectors, "full_matrices": full, **more}


GPU_FLAGS: dict[str, dict[str, Any]] = {
    "potrf": {"lower": True},
    "syevd": SYEVD,
    "syevd_values": SYEVD,
    "gesvdj": svd_flags(True, False),
    "gesvdj_values": svd_flags(False, False),
    "gesvdj_full": svd_flags(True, True),
    "gesvdj_full_values": svd_flags(False, True),
    "gesvd": svd_flags(True, False, transposed=False),
    "gesvd_full": svd_flags(True, True, transposed=False),
    "gesvd_values": svd_flags(False, False, transposed=False),
    "gesvd_values_wide": svd_flags(False, False, transposed=True),
    "gesvd_wide": svd_flags(True, False, transposed=True),
    "gesvd_full_wide": svd_flags(True, True, transposed=True),
    "geev": {"left": False, "magma": "auto", "right": True},
    "geev_values": {"left": False, "magma": "auto", "right": False},
}


# ---- custom calls ----------------------------------------------------------------------------------


def layout(kind: str, rank: int) -> Dense:
    """Return the layout attribute of an array: its axes in the order of memory, the fastest-varying axis first.

    For the kind "m", matrices are column-major and batch axes precede them. For "v", the array is row-major.
    """
    order = list(range(rank - 1, -1, -1))
    if kind == "m":
        order = [rank - 2, rank - 1, *range(rank - 3, -1, -1)]
    return Dense(order if rank else [], "index")


def target(w: Writer, routine: str, dtype: DType) -> tuple[str, dict[str, Any]]:
    """Return the name of the handler that calls `routine` on the writer's platform, and its flags.

    `routine` may have a suffix that selects the flags. For example, "gesdd_full" calls gesdd with the flags for full
    matrices.
    """
    name = routine.partition("_")[0]
    if w.platform in VENDOR:
        vendor = VENDOR[w.platform]
        handler = f"{vendor}solver_{name}_ffi"
        if name == "geev":
            handler = f"{vendor}hybrid_eig_{'comp' if dtype.is_complex else 'real'}"
        return handler, GPU_FLAGS.get(routine, {})
    if dtype.is_complex:
        name = {"orgqr": "ungqr", "syevd": "heevd", "sytrd": "hetrd"}.get(name, name)
    flags = LAPACK_FLAGS.get(routine, {})
    letters = {key: Integer(ord(flag), "ui8") for key, flag in flags.items()}
    return f"lapack_{PREFIX[dtype]}{name}_ffi", letters


def call(
    w: Writer,
    routine: str,
    operands: Sequence[Value],
    operand_kinds: str,
    results: Sequence[TensorSpec],
    result_kinds: str,
    in_place: bool = True,
    flags: Mapping[str, Any] | None = None,
) -> tuple[Value, ...]:
    """Emit a custom call of a library routine, and return its results.

    Args:
        routine: the routine's name without the type prefix, such as "potrf".
        operand_kinds, result_kinds: a letter per operand or result, "m" for column-major matrices, else "v".
        in_place: whether the first result overwrites the memory of the first operand.
        flags: by default the flags that `target` returns.
    """
    name, default_flags = target(w, routine, operands[0].dtype)
    return custom_call(
        w, name, flags or default_flags, operands, operand_kinds, results, result_kinds, in_place
    )


def call_of_finite(
    w: Writer,
    routine: str,
    a: Value,
    kind: str,
    results: Sequence[TensorSpec],
    result_kinds: str,
    in_place: bool = True,
) -> tuple[Value, ...]:
    """Emit a custom call of a routine that receives zeros in place of each matrix that is not finite.

    The last result, `info`, is 1 for a matrix that is not finite. The routine's iteration might not terminate on such a
    matrix.
    """
    batch, _, _ = parts(a)
    finite = is_finite(w, a)
    everywhere = w.broadcast(finite, a.shape, tuple(range(len(batch))))
    a = w.select(everywhere, a, w.full(0, a.spec))
    *outputs, info = call(w, routine, (a,), kind, results, result_kinds, in_place)
    return *outputs, w.select(finite, info, w.full(1, info.spec))


def custom_call(
    w: Writer,
    name: str,
    flags: Mapping[str, Any],
    operands: Sequence[Value],
    operand_kinds: str,
    results: Sequence[TensorSpec],
    result_kinds: str,
    in_place: bool,
) -> tuple[Value, ...]:
    """Emit a custom call of the FFI handler `name`, with the attributes `flags`; see `call` for the other arguments.

    Raises:
        NonStaticShapeError: an operand or result has a symbolic extent.
    """
    symbolic = [one for one in (*[x.spec for x in operands], *results) if not one.is_static]
    if symbolic:
        raise NonStaticShapeError(
            f"{name}: a library's routine needs numbers for extents, here of "
            f"{', '.join(map(str, dict.fromkeys(symbolic)))}; give concrete specs"
        )
    attributes: dict[str, Any] = {
        "call_target_name": name,
        "api_version": Integer(4, "i32"),
        "backend_config": flags,
        "operand_layouts": [
            layout(kind, x.rank) for kind, x in zip(operand_kinds, operands, strict=True)
        ],
        "result_layouts": [
            layout(kind, len(y.shape)) for kind, y in zip(result_kinds, results, strict=True)
        ],
    }
    if in_place:
        alias = {
            "output_tuple_indices": [0] if len(results) > 1 else [],
            "operand_index": 0,
            "operand_tuple_indices": [],
        }
        attributes["output_operand_aliases"] = [Struct("output_operand_alias", alias)]
    return w.operation("stablehlo.custom_call", operands, results, attributes)


# ---- factorisations ----------------------------------------------------------------------------------


def cholesky(op: Any, w: Writer, a: Value) -> Value:
    """Call potrf; return the lower Cholesky factor of each matrix, or NaN if the matrix is not positive definite."""
    batch, _, _ = parts(a)
    a = hermitian(w, a)
    low, info = call(w, "potrf", (a,), "m", (a.spec, spec(INFO, *batch)), "mv")
    return triangle(w, or_nan(w, info, low), lower=True)


def reflectors(w: Writer, a: Value, tau: TensorSpec) -> tuple[Value, ...]:
    """Call geqrf, which returns R and the Householder reflectors packed in one matrix, and their factors tau."""
    return call(w, "geqrf", (a,), "m", (a.spec, tau), "mv")


def product(w: Writer, packed: Value, tau: Value) -> Value:
    """Call orgqr, or ungqr for complex matrices: multiply the Householder reflectors that geqrf returned."""
    (q,) = call(w, "orgqr", (packed, tau), "mv", (packed.spec,), "m")
    return q


MOST_BY_JACOBI = 1024
"""Maximum number of rows or columns for which cuSOLVER's Jacobi iteration computes an SVD, as in JAX.

Larger matrices are passed to gesvd, which uses QR iterations.
"""
LARGEST_OF_A_BATCH = 32
"""Maximum number of rows or columns for cuSOLVER's batched Jacobi routine, which returns only full unitary matrices."""


def svd(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
    """Call LAPACK's gesdd on CPUs, and gesvdj or gesvd on GPUs.

    A matrix with more columns than rows is transposed for gesvd. For an empty matrix no call is emitted, because LAPACK
    rejects it: the singular vectors are unit matrices.
    """
    batch, m, n = parts(a)
    if 0 in (m, n):
        types = result_types(op, (a,))
        return tuple([unit(w, x) if x.rank == a.rank else w.full(0, x) for x in types])
    if w.platform == "cuda" and max(m, n) <= MOST_BY_JACOBI:
        return jacobi(op, w, a)
    k = min(m, n)
    rows, columns = (m, n) if op.full and op.vectors else (k, k)
    left, right = spec(a.dtype, *batch, m, rows), spec(a.dtype, *batch, columns, n)
    s, info = spec(REAL.get(a.dtype, a.dtype), *batch, k), spec(INFO, *batch)
    form = "_values" if not op.vectors else "_full" if op.full else ""
    if w.platform not in VENDOR:
        results = (a.spec, s, left, right, info)
        _, s, u, vh, info = call_of_finite(w, f"gesdd{form}", a, "m", results, "mvmmv")
    elif m >= n:
        results = (a.spec, s, left, right, info)
        _, s, u, vh, info = call_of_finite(w, f"gesvd{form}", a, "m", results, "mvmmv")
    else:
        # gesvd receives the transpose: it reads the row-major matrix (kind "v") as column-major.
        results = (a.spec, s, right, left, info)
        _, s, vh, u, info = call_of_finite(w, f"gesvd{form}_wide", a, "v", results, "vvvvv")
    if not op.vectors:
        return (or_nan(w, info, s),)
    return or_nan(w, info, u), or_nan(w, info, s), or_nan(w, info, vh)


def jacobi(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
    """Call gesvdj, cuSOLVER's Jacobi iteration for an SVD, and convert its result V to V^H."""
    batch, m, n = parts(a)
    k = min(m, n)
    cuts = not (op.full and op.vectors)
    economical = cuts and k > LARGEST_OF_A_BATCH
    rows, columns = (k, k) if economical else (m, n)
    s, info = spec(REAL.get(a.dtype, a.dtype), *batch, k), spec(INFO, *batch)
    results = (a.spec, s, spec(a.dtype, *batch, m, rows), spec(a.dtype, *batch, n, columns), info)
    routine = f"gesvdj{'' if economical else '_full'}{'' if op.vectors else '_values'}"
    _, s, u, v, info = call_of_finite(w, routine, a, "m", results, "mvmmv")
    if not op.vectors:
        return (or_nan(w, info, s),)
    if cuts:
        u, v = cut(w, u, m, k), cut(w, v, n, k)
    return or_nan(w, info, u), or_nan(w, info, s), or_nan(w, info, adjoint(w, v))


def eigh(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
    """Call syevd, or heevd for complex matrices; return eigenvalues and, if `op.vectors`, eigenvectors."""
    batch, n, _ = parts(a)
    a = hermitian(w, a)
    results = (a.spec, spec(REAL.get(a.dtype, a.dtype), *batch, n), spec(INFO, *batch))
    routine = "syevd" if op.vectors else "syevd_values"
    v, values, info = call_of_finite(w, routine, a, "m", results, "mvv")
    if not op.vectors:
        return (or_nan(w, info, values),)
    return or_nan(w, info, values), or_nan(w, info, v)


def eig(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
    """Call geev; for a real matrix, combine the arrays of real and imaginary parts of eigenvalues that geev returns."""
    batch, n, _ = parts(a)
    wide = COMPLEX.get(a.dtype, a.dtype)
    vectors, value, info = spec(wide, *batch, n, n), spec(a.dtype, *batch, n), spec(INFO, *batch)
    routine = "geev" if op.vectors else "geev_values"
    if a.dtype.is_complex:
        results = (value, vectors, vectors, info)
        values, _, v, info = call_of_finite(w, routine, a, "m", results, "vmmv", in_place=False)
    else:
        results = (value, value, vectors, vectors, info)
        re, im, _, v, info = call_of_finite(w, routine, a, "m", results, "vvmmv", in_place=False)
        values = w.op("complex", re, im)
    if not op.vectors:
        return (or_nan(w, info, values),)
    return or_nan(w, info, values), or_nan(w, info, v)


def lu(op: Any, w: Writer, a: Value) -> tuple[Value, Value]:
    """Call getrf, and convert its row swaps to a permutation."""
    batch, m, n = parts(a)
    results = (a.spec, spec(INFO, *batch, min(m, n)), spec(INFO, *batch))
    packed, pivots, _ = call(w, "getrf", (a,), "m", results, "mvv")
    swaps = w.op("subtract", pivots, w.full(1, pivots.spec))
    if w.platform in VENDOR:
        name = f"{VENDOR[w.platform]}_lu_pivots_to_permutation"
        result = (spec(INFO, *batch, m),)
        (perm,) = custom_call(w, name, {}, (swaps,), "v", result, "v", in_place=False)
        return packed, w.convert(perm, DType.I64)
    return packed, pivots_to_permutation(w, w.convert(swaps, DType.I64), m)


# ---- solves ------------------------------------------------------------------------------------------


def triangular_solve(op: Any, w: Writer, a: Value, b: Value) -> Value:
    """Emit `stablehlo.triangular_solve`, which every platform supports."""
    return triangular(w, a, b, op.lower, op.unit_diagonal, op.transpose)


RULES = {
    "tenferro.cholesky.v1": cholesky,
    "tenferro.qr.v1": qr_by(reflectors, product),
    "tenferro.svd.v1": svd,
    "tenferro.eigh.v1": eigh,
    "tenferro.eig.v1": eig,
    "tenferro.lu.v1": lu,
    "tenferro.solve.v1": solve_by(lu),
}
