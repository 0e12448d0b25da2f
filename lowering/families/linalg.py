"""The linalg families in StableHLO: LAPACK's handlers on the CPU, triangular solves everywhere.

A handler is a typed-FFI custom call. It wants matrices column-major, which the layouts say; batch axes
lead. Failures come back as `info`, and become NaN.

Source: jaxlib's LAPACK handlers, `lapack_<type><routine>_ffi`; StableHLO spec #custom_call,
#triangular_solve, #while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lowering.extensions import register_extension_lowering
from lowering.types import tensor_type
from lowering.writer import Value, Writer, signature
from tenferro.types import DType, TensorSpec

__all__ = ["register"]

PREFIX = {DType.F32: "s", DType.F64: "d", DType.C32: "c", DType.C64: "z"}
REAL = {DType.C32: DType.F32, DType.C64: DType.F64}
COMPLEX = {DType.F32: DType.C32, DType.F64: DType.C64}
INFO = DType.I32


def spec(dtype: DType, *shape: int) -> TensorSpec:
    """A type."""
    return TensorSpec.of(tuple(shape), dtype)


# ---- custom calls ----------------------------------------------------------------------------------


def layout(kind: str, rank: int) -> str:
    """Minor to major: matrices ("m") column-major behind their batch, all else ("v") row-major."""
    order = list(range(rank - 1, -1, -1))
    if kind == "m":
        order = [rank - 2, rank - 1, *range(rank - 3, -1, -1)]
    return f"dense<{order if rank else ''}> : tensor<{rank}xindex>"


def call(
    w: Writer,
    routine: str,
    operands: Sequence[Value],
    operand_kinds: str,
    results: Sequence[TensorSpec],
    result_kinds: str,
    flags: Mapping[str, str] | None = None,
    in_place: bool = True,
) -> tuple[Value, ...]:
    """One LAPACK handler; `in_place` says that the first result overwrites the first operand."""
    target = f"lapack_{PREFIX[operands[0].dtype]}{routine}_ffi"
    config = ", ".join(f"{key} = {ord(flag)} : ui8" for key, flag in (flags or {}).items())
    places = "[0]" if len(results) > 1 else "[]"
    alias = (
        ", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = "
        f"{places}, operand_index = 0, operand_tuple_indices = []>]"
        if in_place
        else ""
    )
    given = ", ".join(layout(kind, x.rank) for kind, x in zip(operand_kinds, operands, strict=True))
    made = ", ".join(
        layout(kind, len(y.shape)) for kind, y in zip(result_kinds, results, strict=True)
    )
    tail = (
        f") {{api_version = 4 : i32, backend_config = {{{config}}}, operand_layouts = [{given}], "
        f"result_layouts = [{made}]{alias}}} : {signature(operands, results)}"
    )
    return w.statement(f"stablehlo.custom_call @{target}(", operands, tail, results)


def parts(a: Value) -> tuple[tuple[int, ...], int, int]:
    """Batch shape, rows and columns."""
    return a.shape[:-2], a.shape[-2], a.shape[-1]


def cut(w: Writer, x: Value, rows: int, columns: int) -> Value:
    """The upper left corner of each matrix."""
    batch, m, n = parts(x)
    if (m, n) == (rows, columns):
        return x
    bounds = ", ".join([f"0:{k}" for k in (*batch, rows, columns)])
    result = spec(x.dtype, *batch, rows, columns)
    (value,) = w.statement(
        "stablehlo.slice ", (x,), f" [{bounds}] : {signature((x,), (result,))}", (result,)
    )
    return value


def triangle(w: Writer, x: Value, lower: bool) -> Value:
    """One triangle with the diagonal, zeros on the other side."""
    rank = x.rank
    rows, columns = w.iota(x.shape, rank - 2), w.iota(x.shape, rank - 1)
    keep = w.compare("GE" if lower else "LE", rows, columns)
    return w.select(keep, x, w.full(0, x.spec))


def or_nan(w: Writer, info: Value, x: Value) -> Value:
    """X where the routine succeeded, NaN for a matrix where it did not."""
    fine = w.compare("EQ", info, w.full(0, info.spec))
    fine = w.broadcast(fine, x.shape, tuple(range(info.rank)))
    return w.select(fine, x, w.full(np.nan, x.spec))


def hermitian(w: Writer, a: Value) -> Value:
    """(a + a^H) / 2, exactly a where it is Hermitian."""
    total = w.op("add", a, adjoint(w, a), result=a.spec)
    return w.op("multiply", total, w.full(0.5, a.spec), result=a.spec)


def adjoint(w: Writer, a: Value) -> Value:
    """a^H."""
    rank = a.rank
    a = w.transpose(a, (*range(rank - 2), rank - 1, rank - 2))
    return conjugate(w, a) if a.dtype.is_complex else a


# ---- factorisations ----------------------------------------------------------------------------------


def cholesky(op: Any, w: Writer, a: Value) -> Value:
    """Potrf."""
    batch, _, _ = parts(a)
    a = hermitian(w, a)
    low, info = call(w, "potrf", (a,), "m", (a.spec, spec(INFO, *batch)), "mv", {"uplo": "L"})
    return triangle(w, or_nan(w, info, low), lower=True)


def qr(op: Any, w: Writer, a: Value) -> tuple[Value, Value]:
    """geqrf, then orgqr on as many columns as Q has."""
    batch, m, n = parts(a)
    k = min(m, n)
    width = m if op.full else k
    packed, tau = call(w, "geqrf", (a,), "m", (a.spec, spec(a.dtype, *batch, k)), "mv")
    r = triangle(w, cut(w, packed, width, n), lower=False)
    reflectors = cut(w, packed, m, min(n, width))
    if width > n:
        result = spec(a.dtype, *batch, m, width)
        zero = w.scalar(0, a.dtype)
        edges = [0] * len(batch)
        reflectors = w.op(
            "pad",
            reflectors,
            zero,
            result=result,
            low=[*edges, 0, 0],
            high=[*edges, 0, width - n],
            interior=[*edges, 0, 0],
        )
    name = "ungqr" if a.dtype.is_complex else "orgqr"
    (q,) = call(w, name, (reflectors, tau), "mv", (reflectors.spec,), "m")
    return q, r


def svd(op: Any, w: Writer, a: Value) -> tuple[Value, Value, Value]:
    """Gesdd."""
    batch, m, n = parts(a)
    k = min(m, n)
    rows, columns = (m, n) if op.full else (k, k)
    results = (
        a.spec,
        spec(REAL.get(a.dtype, a.dtype), *batch, k),
        spec(a.dtype, *batch, m, rows),
        spec(a.dtype, *batch, columns, n),
        spec(INFO, *batch),
    )
    _, s, u, vh, info = call(
        w, "gesdd", (a,), "m", results, "mvmmv", {"mode": "A" if op.full else "S"}
    )
    return or_nan(w, info, u), or_nan(w, info, s), or_nan(w, info, vh)


def eigh(op: Any, w: Writer, a: Value) -> tuple[Value, Value]:
    """Syevd or heevd."""
    batch, n, _ = parts(a)
    a = hermitian(w, a)
    results = (a.spec, spec(REAL.get(a.dtype, a.dtype), *batch, n), spec(INFO, *batch))
    name = "heevd" if a.dtype.is_complex else "syevd"
    v, values, info = call(w, name, (a,), "m", results, "mvv", {"mode": "V", "uplo": "L"})
    return or_nan(w, info, values), or_nan(w, info, v)


def eig(op: Any, w: Writer, a: Value) -> tuple[Value, Value]:
    """geev; a real matrix's eigenvalues come in two parts."""
    batch, n, _ = parts(a)
    wide = COMPLEX.get(a.dtype, a.dtype)
    vectors = spec(wide, *batch, n, n)
    flags = {"compute_left": "N", "compute_right": "V"}
    value = spec(a.dtype, *batch, n)
    if a.dtype.is_complex:
        values, _, v, info = call(
            w,
            "geev",
            (a,),
            "m",
            (value, vectors, vectors, spec(INFO, *batch)),
            "vmmv",
            flags,
            False,
        )
    else:
        results = (value, value, vectors, vectors, spec(INFO, *batch))
        re, im, _, v, info = call(w, "geev", (a,), "m", results, "vvmmv", flags, False)
        values = w.op("complex", re, im, result=spec(wide, *batch, n))
    return or_nan(w, info, values), or_nan(w, info, v)


def lu(op: Any, w: Writer, a: Value) -> tuple[Value, Value]:
    """getrf, and its row swaps as a permutation."""
    batch, m, n = parts(a)
    results = (a.spec, spec(INFO, *batch, min(m, n)), spec(INFO, *batch))
    packed, pivots, _ = call(w, "getrf", (a,), "m", results, "mvv")
    return packed, permutation(w, pivots, m)


def permutation(w: Writer, pivots: Value, m: int) -> Value:
    """Apply the swaps of rows i and pivots[i] - 1 to 0, .., m - 1, one after the other, in a loop."""
    *batch, k = pivots.shape
    rank = len(batch)
    perm, swaps = spec(DType.I64, *batch, m), spec(DType.I64, *batch, k)
    one = spec(DType.I64, *batch)
    p, v, b = tensor_type(perm), tensor_type(swaps), tensor_type(one)
    pred_p = tensor_type(spec(DType.Bool, *batch, m))
    pred_v = tensor_type(spec(DType.Bool, *batch, k))
    dims = list(range(rank))
    wide = w.convert(pivots, DType.I64)
    wide = w.op("subtract", wide, w.full(1, wide.spec), result=wide.spec)
    arguments = f"^bb0(%i: tensor<i64>, %p: {p}, %v: {v}):"
    condition = (
        f"{{ {arguments} %n = stablehlo.constant dense<{k}> : tensor<i64> "
        "%c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1> "
        "stablehlo.return %c : tensor<i1> }"
    )

    def chosen(mask: str, source: str, kind: str, result: str) -> str:
        """The element of a row that a mask picks, as a sum with zeros."""
        return (
            f"%{result}s = stablehlo.select %{mask}, %{source}, %z{source} : "
            f"{pred_p if source == 'p' else pred_v}, {kind} "
            f"%{result} = stablehlo.reduce(%{result}s init: %zero) applies stablehlo.add across "
            f"dimensions = [{rank}] : ({kind}, tensor<i64>) -> {b} "
        )

    def equals(result: str, index: str, kind: str, pred: str) -> str:
        return (
            f"%{result} = stablehlo.compare EQ, {index}, {(kind == p and '%ip') or '%iv'}, SIGNED : "
            f"({kind}, {kind}) -> {pred} "
        )

    body = (
        f"{{ {arguments} %zero = stablehlo.constant dense<0> : tensor<i64> "
        f"%zp = stablehlo.constant dense<0> : {p} %zv = stablehlo.constant dense<0> : {v} "
        f"%ip = stablehlo.iota dim = {rank} : {p} %iv = stablehlo.iota dim = {rank} : {v} "
        f"%ibv = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<i64>) -> {v} "
        + equals("ev", "%ibv", v, pred_v)
        + chosen("ev", "v", v, "j")
        + f"%ibp = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<i64>) -> {p} "
        + f"%jbp = stablehlo.broadcast_in_dim %j, dims = {dims} : ({b}) -> {p} "
        + equals("ei", "%ibp", p, pred_p)
        + equals("ej", "%jbp", p, pred_p)
        + chosen("ei", "p", p, "x")
        + chosen("ej", "p", p, "y")
        + f"%xb = stablehlo.broadcast_in_dim %x, dims = {dims} : ({b}) -> {p} "
        + f"%yb = stablehlo.broadcast_in_dim %y, dims = {dims} : ({b}) -> {p} "
        + f"%t = stablehlo.select %ej, %xb, %p : {pred_p}, {p} "
        + f"%u = stablehlo.select %ei, %yb, %t : {pred_p}, {p} "
        + "%one = stablehlo.constant dense<1> : tensor<i64> "
        + "%next = stablehlo.add %i, %one : tensor<i64> "
        + f"stablehlo.return %next, %u, %v : tensor<i64>, {p}, {v} }}"
    )
    start = w.scalar(0, DType.I64)
    rows = w.iota(perm.shape, rank)
    _, made, _ = w.generic(
        "while", (start, rows, wide), (start.spec, perm, swaps), {}, condition, body
    )
    return made


# ---- solves ------------------------------------------------------------------------------------------

TRANSPOSE = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


def triangular(
    w: Writer, a: Value, b: Value, lower: bool, unit_diagonal: bool, transpose: str = "N"
) -> Value:
    """`stablehlo.triangular_solve`."""
    attributes = {
        "left_side": "true",
        "lower": str(lower).lower(),
        "transpose_a": f"#stablehlo<transpose {TRANSPOSE[transpose]}>",
        "unit_diagonal": str(unit_diagonal).lower(),
    }
    (value,) = w.generic("triangular_solve", (a, b), (b.spec,), attributes)
    return value


def triangular_solve(op: Any, w: Writer, a: Value, b: Value) -> Value:
    """One statement, on every platform."""
    return triangular(w, a, b, op.lower, op.unit_diagonal, op.transpose)


def solve(op: Any, w: Writer, a: Value, b: Value) -> Value:
    """LU, the permutation as a product with its matrix's rows, and two triangular solves."""
    if op.transpose != "N":
        rank = a.rank
        a = w.transpose(a, (*range(rank - 2), rank - 1, rank - 2))
        if op.transpose == "C" and a.dtype.is_complex:
            a = conjugate(w, a)
    packed, perm = lu(op, w, a)
    right = permuted(w, perm, b)
    right = triangular(w, packed, right, lower=True, unit_diagonal=True)
    return triangular(w, packed, right, lower=False, unit_diagonal=False)


def conjugate(w: Writer, x: Value) -> Value:
    """The complex conjugate."""
    part = TensorSpec.of(x.shape, REAL[x.dtype])
    re, im = w.op("real", x, result=part), w.op("imag", x, result=part)
    return w.op("complex", re, w.op("negate", im, result=part), result=x.spec)


def permuted(w: Writer, perm: Value, b: Value) -> Value:
    """The rows of each matrix in the order of `perm`: a gather."""
    batch, _, columns = parts(b)
    rank = len(batch)
    lead = list(range(rank))
    numbers = (
        f"offset_dims = [{rank + 1}], collapsed_slice_dims = [{rank}], "
        + (
            f"operand_batching_dims = {lead}, start_indices_batching_dims = {lead}, "
            if rank
            else ""
        )
        + f"start_index_map = [{rank}], index_vector_dim = {rank + 1}"
    )
    sizes = ", ".join(map(str, [*([1] * rank), 1, columns]))
    (value,) = w.generic(
        "gather",
        (b, perm),
        (b.spec,),
        {
            "dimension_numbers": f"#stablehlo.gather<{numbers}>",
            "indices_are_sorted": "false",
            "slice_sizes": f"array<i64: {sizes}>",
        },
    )
    return value


def register() -> None:
    """Make the families known to `lower_to_stablehlo`."""
    on_cpu = {
        "tenferro.cholesky.v1": cholesky,
        "tenferro.qr.v1": qr,
        "tenferro.svd.v1": svd,
        "tenferro.eigh.v1": eigh,
        "tenferro.eig.v1": eig,
        "tenferro.lu.v1": lu,
        "tenferro.solve.v1": solve,
    }
    for family_id, rule in on_cpu.items():
        register_extension_lowering(family_id, rule, "cpu")
    register_extension_lowering("tenferro.triangular_solve.v1", triangular_solve)
