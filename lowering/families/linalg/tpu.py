"""Matrix functions on TPU: custom calls in single precision, standard StableHLO operations in double precision.

A complex128 matrix raises an error, because the TPU compiler aborts on complex128.

Source: the calls that JAX writes for TPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.families.linalg import inline
from lowering.families.linalg.matrix import (
    REAL,
    hermitian,
    parts,
    qr_by,
    solve_by,
    spec,
    without_complex128_on_tpu,
)
from lowering.operations import Integer
from lowering.writer import Value, Writer
from tenferro.errors import UnsupportedError
from tenferro.types import DType, TensorSpec

__all__ = ["RULES"]

SINGLE = (DType.F32, DType.C32)


def call(
    w: Writer, name: str, operands: Sequence[Value], results: Sequence[TensorSpec], config: str = ""
) -> tuple[Value, ...]:
    """Emit a custom call that the TPU compiler implements, such as `Qr` or `Eigh`."""
    version = {"api_version": Integer(2, "i32")} if name == "LuDecomposition" else {}
    attributes = {"call_target_name": name, **version, "backend_config": config}
    return w.operation("stablehlo.custom_call", operands, results, attributes)


def reflectors(w: Writer, a: Value, tau: TensorSpec) -> tuple[Value, ...]:
    """Call "Qr", which returns R and the Householder reflectors packed in one matrix, and tau, as LAPACK's geqrf."""
    return call(w, "Qr", (a,), (a.spec, tau))


def product(w: Writer, packed: Value, tau: Value) -> Value:
    """Compute Q, the product of packed Householder reflectors, as LAPACK's orgqr."""
    name = "ProductOfElementaryHouseholderReflectors"
    (q,) = call(w, name, (packed, tau), (packed.spec,))
    return q


def eigh(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
    """Call "Eigh" with at most 100 sweeps and a tolerance of 1e-6.

    In double precision, which "Eigh" does not support, emit the loop of Jacobi sweeps instead.
    """
    if a.dtype not in SINGLE:
        return inline.eigh(op, w, a)
    batch, n, _ = parts(a)
    results = (a.spec, spec(REAL.get(a.dtype, a.dtype), *batch, n))
    v, values = call(w, "Eigh", (hermitian(w, a),), results, "1,1,100,1e-6")
    return (values, v) if op.vectors else (values,)


def lu(op: Any, w: Writer, a: Value) -> tuple[Value, Value]:
    """Call "LuDecomposition"; in double precision, which it does not support, emit the elimination loop instead."""
    if a.dtype not in SINGLE:
        return inline.lu(op, w, a)
    batch, m, n = parts(a)
    results = (a.spec, spec(DType.I32, *batch, min(m, n)), spec(DType.I32, *batch, m))
    packed, _, perm = call(w, "LuDecomposition", (a,), results)
    return packed, w.convert(perm, DType.I64)


def eig(op: Any, w: Writer, a: Value) -> Any:
    """Raise `UnsupportedError`: only CPUs and GPUs have a routine for eigenvalues of general matrices."""
    raise UnsupportedError(
        f"Eig: {a.spec} on tpu: no routine for general matrices there; use eigh for a Hermitian one, or "
        "run it on cpu or cuda"
    )


RULES = {
    family_id: without_complex128_on_tpu(rule)
    for family_id, rule in {
        "tenferro.cholesky.v1": inline.cholesky,
        "tenferro.qr.v1": qr_by(reflectors, product),
        "tenferro.svd.v1": inline.svd,
        "tenferro.eigh.v1": eigh,
        "tenferro.eig.v1": eig,
        "tenferro.lu.v1": lu,
        "tenferro.solve.v1": solve_by(lu),
    }.items()
}
