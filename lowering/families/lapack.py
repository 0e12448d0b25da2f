"""Lowering of extension ops that are single LAPACK routines to custom calls.

All of these ops are supported on the CPU. On GPUs and TPUs, ops with a corresponding routine of the vendor are.

Source: jaxlib's handlers, as JAX calls them.
"""

from __future__ import annotations

from typing import Any

from lowering.extensions import register_extension_lowering
from lowering.families.linalg import tpu
from lowering.families.linalg.inline import pivots_to_permutation
from lowering.families.linalg.library import VENDOR, call, call_of_finite, custom_call
from lowering.families.linalg.matrix import REAL, or_nan, parts, spec, without_complex128_on_tpu
from lowering.inference import result_types
from lowering.operations import Integer
from lowering.writer import Value, Writer
from tenferro.errors import UnsupportedError
from tenferro.types import DType

__all__ = ["register"]

INFO = DType.I32


def getrf(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
    """Call getrf, which returns the LU factorisation in packed form.

    An empty matrix is returned without a call, because LAPACK rejects it.
    """
    if 0 in a.shape:
        return a, *(w.full(0, declared) for declared in result_types(op, (a,))[1:])
    return call(w, "getrf", (a,), "m", result_types(op, (a,)), "mvv")


def getrf_on_tpu(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
    """Call the TPU compiler's LU routine, and compute LAPACK's `info` from U.

    `info` is the number of the first zero on the diagonal of U, counted from one, or 0 if there is none.

    Raises:
        UnsupportedError: the matrix is float64 or complex128, which the routine does not support.
    """
    if a.dtype not in tpu.SINGLE:
        raise UnsupportedError(f"Getrf: {a.spec} on tpu; use linalg.lu, or float32")
    packed_type, swaps_type, _ = result_types(op, (a,))
    batch, m, n = parts(a)
    types = (packed_type, swaps_type, spec(INFO, *batch, m))
    packed, swaps, _ = tpu.call(w, "LuDecomposition", (a,), types)
    axes = (a.rank - 2, a.rank - 1)
    rows, columns = (w.iota(a.shape, axis, INFO) for axis in axes)
    is_zero = w.compare("EQ", packed, w.full(0, a.spec))
    is_found = w.op("and", w.compare("EQ", rows, columns), is_zero)
    k = min(m, n)
    first = w.reduce(
        "minimum", w.select(is_found, rows, w.full(k, rows.spec)), w.scalar(k, INFO), axes
    )
    after = w.op("add", first, w.full(1, first.spec))
    info = w.op("remainder", after, w.full(k + 1, first.spec))
    return packed, w.op("add", swaps, w.full(1, swaps_type)), info


def permutation(op: Any, w: Writer, pivots: Value) -> Value:
    """Convert the row swaps of an LU factorisation to a permutation, by jaxlib's routine on GPUs, else by a loop."""
    (result,) = result_types(op, (pivots,))
    if w.platform in VENDOR and pivots.dtype is INFO:
        name = f"{VENDOR[w.platform]}_lu_pivots_to_permutation"
        return custom_call(w, name, {}, (pivots,), "v", (result,), "v", in_place=False)[0]
    perm = pivots_to_permutation(w, w.convert(pivots, DType.I64), op.size)
    return w.convert(perm, result.dtype)


def geqrf(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
    return call(w, "geqrf", (a,), "m", result_types(op, (a,)), "mv")


def geqp3(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
    """Call geqp3, a QR factorisation with column pivoting, with no column fixed to a position.

    A matrix without rows is returned without a call, because geqp3 divides by the number of rows.
    """
    if a.shape[-2] == 0:
        _, order, factors = result_types(op, (a,))
        counted = w.iota(order.shape, len(order.shape) - 1, INFO)
        return a, w.op("add", counted, w.full(1, order)), w.full(0, factors)
    free = w.full(0, result_types(op, (a,))[1])
    return call(w, "geqp3", (a, free), "mv", result_types(op, (a,)), "mvv")


def householder_product(op: Any, w: Writer, packed: Value, factors: Value) -> Value:
    (q,) = call(w, "orgqr", (packed, factors), "mv", (packed.spec,), "m")
    return q


def geev(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
    """Call geev; for a real matrix, combine the arrays of real and imaginary parts of eigenvalues that geev returns."""
    batch, n, _ = parts(a)
    values, left, right = result_types(op, (a,))
    info = spec(INFO, *batch)
    if a.dtype.is_complex:
        results = (values, left, right, info)
        eigenvalues, *vectors, info = call_of_finite(
            w, "geev_both", a, "m", results, "vmmv", in_place=False
        )
    else:
        part = spec(a.dtype, *batch, n)
        results = (part, part, left, right, info)
        re, im, *vectors, info = call_of_finite(
            w, "geev_both", a, "m", results, "vvmmv", in_place=False
        )
        eigenvalues = w.op("complex", re, im)
    return tuple([or_nan(w, info, x) for x in (eigenvalues, *vectors)])


def gtsv(op: Any, w: Writer, *operands: Value) -> tuple[Value, ...]:
    """Call gtsv, which solves tridiagonal systems; return the solution and `info` without the overwritten diagonals."""
    x, info = result_types(op, operands)
    diagonal = operands[0].spec
    results = (diagonal, diagonal, diagonal, x, info)
    *_, solution, failed = call(w, "gtsv", operands, "vvvm", results, "vvvmv", in_place=False)
    return solution, failed


def sytrd(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
    """Call sytrd, and return its results without `info`, which is nonzero only if an argument is invalid."""
    batch, _, _ = parts(a)
    results = (*result_types(op, (a,)), spec(INFO, *batch))
    routine = "sytrd_lower" if op.lower else "sytrd_upper"
    return call(w, routine, (a,), "m", results, "mvvvv")[:-1]


def gehrd(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
    """Call gehrd, with flags that select all rows and columns of the matrix."""
    batch, n, _ = parts(a)
    results = (*result_types(op, (a,)), spec(INFO, *batch))
    flags = {"high": Integer(n, "i32"), "low": Integer(1, "i32")}
    return call(w, "gehrd", (a,), "m", results, "mvv", flags=flags)[:-1]


def gees(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
    """Call gees without sorting eigenvalues; results are NaN if the iteration fails or the matrix is not finite."""
    form, vectors, values, info = result_types(op, (a,))
    chosen = spec(INFO, *form.shape[:-2])
    part = spec(REAL.get(values.dtype, values.dtype), *values.shape)
    if a.dtype.is_complex:
        results = (form, vectors, values, chosen, info)
        *outputs, _, info = call_of_finite(w, "gees", a, "m", results, "mmvvv")
    else:
        results = (form, vectors, part, part, chosen, info)
        form, vectors, re, im, _, info = call_of_finite(w, "gees", a, "m", results, "mmvvvv")
        outputs = [form, vectors, w.op("complex", re, im)]
    return *[or_nan(w, info, x) for x in outputs], info


EVERYWHERE = {"tenferro.pivots_to_permutation.v1": permutation}
LIBRARY = {
    "tenferro.getrf.v1": getrf,
    "tenferro.geqrf.v1": geqrf,
    "tenferro.householder_product.v1": householder_product,
}
"""Lowerings for CPUs and GPUs, by family id: to routines that LAPACK, cuSOLVER and hipSOLVER all contain."""
TPU = {
    "tenferro.getrf.v1": getrf_on_tpu,
    "tenferro.geqrf.v1": lambda op, w, a: tpu.reflectors(w, a, result_types(op, (a,))[1]),
    "tenferro.householder_product.v1": lambda op, w, packed, tau: tpu.product(w, packed, tau),
}
"""Lowerings to custom calls that the TPU compiler implements, by family."""
CPU = {
    "tenferro.geqp3.v1": geqp3,
    "tenferro.geev.v1": geev,
    "tenferro.gtsv.v1": gtsv,
    "tenferro.sytrd.v1": sytrd,
    "tenferro.gehrd.v1": gehrd,
    "tenferro.gees.v1": gees,
}


def register() -> None:
    """Register the families' lowerings with `lower_to_stablehlo`."""
    for family_id, rule in EVERYWHERE.items():
        register_extension_lowering(family_id, rule)
    for family_id, rule in LIBRARY.items():
        for platform in ("cpu", "cuda", "rocm"):
            register_extension_lowering(family_id, rule, platform)
    for family_id, rule in TPU.items():
        register_extension_lowering(family_id, without_complex128_on_tpu(rule), "tpu")
    for family_id, rule in CPU.items():
        register_extension_lowering(family_id, rule, "cpu")
