"""Readers of LAPACK's custom calls, as JAX writes them for CPUs.

A routine is read as an extension family with the same semantics. This is a factorisation of `tenferro.linalg` if that
computes all results that are used. Otherwise it is a family with LAPACK's own results: packed factors, pivots,
or both kinds of vectors. If a routine fails, `info` is not 0, and its value is unspecified. Operands that a
routine overwrites, and results that it does not compute, are NaN here.

Source: jaxlib's handlers, as JAX calls them; LAPACK Users' Guide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lowering.module_tree import Operation
from lowering.read.contraction import adjoint, extension, mirrored, solved
from lowering.read.reader import Read, Reader, ReadRows
from tenferro.errors import UnsupportedError
from tenferro.ext.lapack import families as lapack
from tenferro.ext.linalg.families import Cholesky, Eig, Eigh, Lu, Svd, TriangularSolve
from tenferro.extension import ExtensionOp
from tenferro.ops import elementwise as el
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.reduction import ReduceOr
from tenferro.ops.source import Iota
from tenferro.ops.structural import BroadcastInDim, EmbedDiag, Tril, Triu
from tenferro.types import DType, TensorSpec

__all__ = ["LAPACK", "TPU"]

Routine = Callable[[Reader, Operation, Sequence[int], dict[str, Any]], Sequence[int]]
"""Function from a routine's operands and flags to its results."""


# ---- layouts and flags -------------------------------------------------------------------------------


def columns_first(kind: str, rank: int) -> tuple[int, ...]:
    """Return a handler's layout, minor to major: column-major for matrices ("m"), else row-major ("v")."""
    order = list(range(rank))[::-1]
    if kind == "m":
        order[:2] = [rank - 2, rank - 1]
    return tuple(order)


def reinterpreted(r: Reader, x: int, source: tuple[int, ...], wanted: tuple[int, ...]) -> int:
    """Reinterpret the memory of x in layout `source` as a tensor in layout `wanted`."""
    if source == wanted:
        return x
    shape = r.spec(x).shape
    outward = list(reversed(source))
    inward = list(reversed(wanted))
    flat = r.reshape(r.transpose(x, outward), [shape[axis] for axis in inward])
    return r.transpose(flat, [inward.index(axis) for axis in range(len(shape))])


def layouts(operation: Operation, name: str, ranks: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the layout of each operand or result, minor to major; row-major if the call has no layouts."""
    declared = operation.attributes.get(name)
    if declared is None:
        return [tuple(range(rank))[::-1] for rank in ranks]
    return [tuple(np.asarray(layout).ravel().tolist()) for layout in declared]


def flags(operation: Operation) -> dict[str, Any]:
    """Return the call's own attributes, with flags converted from bytes to letters."""
    attributes = operation.config if isinstance(operation.config, dict) else {}
    letters = ("uplo", "diag", "side", "trans_x", "mode", "sort", "compute_left", "compute_right")
    return {key: chr(value) if key in letters else value for key, value in attributes.items()}


def handler(operand_kinds: str, result_kinds: str, routine: Routine) -> Read:
    """Return a reader of calls that converts between the declared layouts and the layouts of the routine."""

    def read(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
        operand_layouts = layouts(
            operation, "operand_layouts", [len(r.spec(x).shape) for x in operands]
        )
        inside = [
            reinterpreted(r, x, layout, columns_first(kind, len(layout)))
            for x, layout, kind in zip(operands, operand_layouts, operand_kinds, strict=False)
        ]
        outputs = routine(r, operation, inside, flags(operation))
        # Complex eigenvalues are one result; the eigenvalues of real matrices are two.
        kinds = (
            result_kinds
            if len(outputs) == len(result_kinds)
            else result_kinds.replace("vv", "v", 1)
        )
        left = layouts(operation, "result_layouts", [len(r.spec(y).shape) for y in outputs])
        return [
            reinterpreted(r, y, columns_first(kind, len(layout)), layout)
            for y, layout, kind in zip(outputs, left, kinds, strict=True)
        ]

    return read


# ---- shared by routines ------------------------------------------------------------------------------


def left_over(r: Reader, declared: Any) -> int:
    """Return NaN for a result that the routine leaves undefined."""
    return r.full(np.nan, declared)


def succeeded(r: Reader, batch: Sequence[int]) -> int:
    """Return the `info` of a call that cannot fail: zeros."""
    return r.full(0, TensorSpec.of(tuple(batch), DType.I32))


def failed(r: Reader, x: int, batch: int) -> int:
    """Return the `info` of a call whose results are NaN where it failed."""
    real = r.apply_one(el.Real(), x) if r.spec(x).dtype.is_complex else x
    odd = r.apply_one(el.Compare("NE"), real, real)
    axes = tuple(range(batch, len(r.spec(x).shape)))
    return r.convert(r.apply_one(ReduceOr(axes), odd), DType.I32)


def triangle_of(r: Reader, x: int, lower: bool, rest: int) -> int:
    """Combine one triangle of x, including the diagonal, with the remaining elements of `rest`."""
    shape = r.spec(x).shape
    rank = len(shape)
    rows = r.apply_one(Iota(shape, rank - 2, DType.I64))
    columns = r.apply_one(Iota(shape, rank - 1, DType.I64))
    keep = r.apply_one(el.Compare("GE" if lower else "LE"), rows, columns)
    return r.apply_one(el.Select(), keep, x, rest)


def hermitian(r: Reader, x: int, lower: bool) -> int:
    """Build the Hermitian matrix from one of its triangles."""
    return mirrored(r, x if lower else adjoint(r, x))


def product(r: Reader, x: int, y: int) -> int:
    """Multiply matrices."""
    rank = len(r.spec(x).shape)
    batch = tuple(range(rank - 2))
    return r.apply_one(DotGeneral((rank - 1,), (rank - 2,), batch, batch), x, y)


def only(routine: str, allowed: Sequence[Any], value: Any, flag: str) -> None:
    """Raise an error if a flag has a value without a counterpart."""
    if value not in allowed:
        shown = ", ".join(map(repr, allowed))
        raise UnsupportedError(f"custom_call {routine}: {flag} = {value!r}; read are {shown}")


# ---- factorisations ----------------------------------------------------------------------------------


def potrf(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    """Read potrf; the triangle that is not computed is returned unchanged."""
    (x,) = operands
    lower = flag.get("uplo", "L") == "L"
    (factor,) = extension(r, Cholesky(), hermitian(r, x, lower))
    whole = factor if lower else adjoint(r, factor)
    return triangle_of(r, whole, lower, x), failed(r, factor, len(r.spec(x).shape) - 2)


def getrf(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    return extension(r, lapack.Getrf(), *operands)


def geqrf(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    return extension(r, lapack.Geqrf(), *operands)


def geqp3(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    x, fixed = operands
    columns = r.evaluated(fixed)
    if columns is None or np.any(columns):
        raise UnsupportedError("custom_call geqp3: columns fixed in advance")
    return extension(r, lapack.Geqp3(), x)


def orgqr(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    return extension(r, lapack.HouseholderProduct(), *operands)


def ormqr(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    """Read op(Q) C or C op(Q) with Q = 1 - V T V^H, LAPACK's compact form.

    T = (1 + D S)^-1 D, where D = diag tau, and S is the part of V^H V above the diagonal.
    """
    packed, factors, c = operands
    k = r.spec(factors).shape[-1]
    rank = len(r.spec(packed).shape)
    below = r.apply_one(Tril(-1), r.slice(packed, rank - 1, 0, k))
    v = r.apply_one(el.Add(), below, unit(r, r.spec(below)))
    adjoint_v = adjoint(r, v)
    s = r.apply_one(Triu(1), product(r, adjoint_v, v))
    scaled = r.apply_one(
        el.Multiply(),
        r.apply_one(BroadcastInDim(r.spec(s).shape, tuple(range(rank - 1))), factors),
        s,
    )
    diagonal = r.apply_one(EmbedDiag(rank - 2, rank - 1), factors)
    solve = TriangularSolve(lower=False, unit_diagonal=True)
    (t,) = extension(r, solve, r.apply_one(Triu(0), scaled), diagonal)
    if flag.get("transpose"):
        t = adjoint(r, t)
    if flag.get("left", True):
        change = product(r, v, product(r, t, product(r, adjoint_v, c)))
    else:
        change = product(r, product(r, product(r, c, v), t), adjoint_v)
    return (r.apply_one(el.Subtract(), c, change),)


def unit(r: Reader, spec: TensorSpec) -> int:
    """Create the identity for each matrix."""
    rank = len(spec.shape)
    rows = r.apply_one(Iota(spec.shape, rank - 2, DType.I64))
    columns = r.apply_one(Iota(spec.shape, rank - 1, DType.I64))
    return r.convert(r.apply_one(el.Compare("EQ"), rows, columns), spec.dtype)


def gesdd(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    """Read gesdd: singular values, and vectors if the call requests them."""
    (x,) = operands
    mode = flag.get("mode", "S")
    only("gesdd", ("A", "S", "N"), mode, "mode")
    u, s, vh = extension(r, Svd(full=mode == "A"), x)
    if mode == "N":
        u, vh = (left_over(r, declared) for declared in operation.types[2:4])
    rank = len(r.spec(x).shape)
    return left_over(r, operation.types[0]), s, u, vh, failed(r, s, rank - 2)


def syevd(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    (x,) = operands
    values, vectors = extension(r, Eigh(), hermitian(r, x, flag.get("uplo", "L") == "L"))
    if flag.get("mode", "V") == "N":
        vectors = left_over(r, operation.types[0])
    return vectors, values, failed(r, values, len(r.spec(x).shape) - 2)


def geev(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    """Read geev; left eigenvectors are computed by the family that computes both kinds."""
    (x,) = operands
    *_, left, right, _ = operation.types
    if flag.get("compute_left") == "V":
        values, u, v = extension(r, lapack.Geev(), x)
    else:
        values, v = extension(r, Eig(), x)
        u = left_over(r, left)
    if flag.get("compute_right") != "V":
        v = left_over(r, right)
    info = failed(r, values, len(r.spec(x).shape) - 2)
    return (*in_parts(r, x, values), u, v, info)


def in_parts(r: Reader, x: int, values: int) -> Sequence[int]:
    """Split a real matrix's complex eigenvalues into real and imaginary parts."""
    if r.spec(x).dtype.is_complex:
        return (values,)
    return r.apply_one(el.Real(), values), r.apply_one(el.Imag(), values)


def sytrd(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    op = lapack.Sytrd(lower=flag.get("uplo", "L") == "L")
    return (*extension(r, op, *operands), succeeded(r, r.spec(operands[0]).shape[:-2]))


def gehrd(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    """Read gehrd; raise an error unless `low` and `high`, counted from one, cover the whole matrix."""
    shape = r.spec(operands[0]).shape
    only("gehrd", (1,), flag.get("low", 1), "low")
    only("gehrd", (shape[-1],), flag.get("high", shape[-1]), "high")
    return (*extension(r, lapack.Gehrd(), *operands), succeeded(r, shape[:-2]))


def gees(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    """Read gees: the Schur form, with eigenvalues in the order of the routine and not selected."""
    (x,) = operands
    only("gees", ("N",), flag.get("sort", "N"), "sort")
    form, vectors, values, info = extension(r, lapack.Gees(), x)
    if flag.get("mode", "V") == "N":
        vectors = left_over(r, operation.types[1])
    none = succeeded(r, r.spec(x).shape[:-2])
    return (form, vectors, *in_parts(r, x, values), none, info)


# ---- solves ------------------------------------------------------------------------------------------


def trsm(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    a, b = operands[:2]
    solution = solved(
        r,
        a,
        b,
        lower=flag.get("uplo", "L") == "L",
        unit=flag.get("diag", "N") == "U",
        kind=flag.get("trans_x", "N"),
        left=flag.get("side", "L") == "L",
    )
    return (solution,)


def gtsv(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    """Read gtsv, which overwrites the diagonals."""
    x, info = extension(r, lapack.Gtsv(), *operands)
    return (*[left_over(r, declared) for declared in operation.types[:3]], x, info)


ROUTINES: dict[str, Read] = {
    "gees": handler("m", "mmvvvv", gees),
    "geev": handler("m", "vvmmv", geev),
    "gehrd": handler("m", "mvv", gehrd),
    "geqp3": handler("mv", "mvv", geqp3),
    "geqrf": handler("m", "mv", geqrf),
    "gesdd": handler("m", "mvmmv", gesdd),
    "gesvd": handler("m", "mvmmv", gesdd),
    "getrf": handler("m", "mvv", getrf),
    "gtsv": handler("vvvm", "vvvmv", gtsv),
    "orgqr": handler("mv", "m", orgqr),
    "ormqr": handler("mvm", "m", ormqr),
    "potrf": handler("m", "mv", potrf),
    "syevd": handler("m", "mvv", syevd),
    "sytrd": handler("m", "mvvvv", sytrd),
    "trsm": handler("mm", "m", trsm),
}
COMPLEX_NAMES = {"orgqr": "ungqr", "ormqr": "unmqr", "syevd": "heevd", "sytrd": "hetrd"}

LAPACK: ReadRows = {
    f"lapack_{letter}{COMPLEX_NAMES.get(name, name) if letter in 'cz' else name}_ffi": read
    for name, read in ROUTINES.items()
    for letter in "sdcz"
}
"""Readers by custom-call target."""


def reflected(op: ExtensionOp) -> Read:
    return lambda r, operation, operands: extension(r, op, *operands)


def eigh(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read vectors and ascending values; the first number of the configuration says which triangle is read."""
    (x,) = operands
    is_lower = not str(operation.config or "1").startswith("0")
    values, vectors = extension(r, Eigh(), hermitian(r, x, is_lower))
    return vectors, values


def lu(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read the packed factors, the row swaps, counted from zero, and the permutation."""
    packed, order = extension(r, Lu(), *operands)
    _, swaps, _ = extension(r, lapack.Getrf(), *operands)
    swaps = r.apply_one(el.Subtract(), swaps, r.full(1, r.spec(swaps)))
    return packed, swaps, r.convert(order, DType.I32)


TPU: ReadRows = {
    "Eigh": eigh,
    "LuDecomposition": lu,
    "ProductOfElementaryHouseholderReflectors": reflected(lapack.HouseholderProduct()),
    "Qr": reflected(lapack.Geqrf()),
}
"""Readers of XLA's own targets, whose operands are tensors and not memory; JAX writes them for a TPU."""
