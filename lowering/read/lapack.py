"""Readers of custom calls of LAPACK's routines, as JAX writes them for CPUs.

A call is read as an extension op with the same semantics. The op is a factorisation of `tenferro.linalg` if it computes
all results of the call. Otherwise it is an op of `tenferro.ext.lapack`, with LAPACK's own results: packed factors,
pivots, or left and right eigenvectors. If a routine fails, the result `info` is nonzero, but may differ from LAPACK's
value. Results for overwritten operands, and results that the call does not request, are NaN.

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
"""Function that reads a routine: it maps a reader, the call, the operands and the flags to the results."""


# ---- layouts and flags -------------------------------------------------------------------------------


def columns_first(kind: str, rank: int) -> tuple[int, ...]:
    """Return the layout that a routine requires, from minor to major: column-major for "m", row-major for "v"."""
    order = list(range(rank))[::-1]
    if kind == "m":
        order[:2] = [rank - 2, rank - 1]
    return tuple(order)


def reinterpreted(r: Reader, x: int, source: tuple[int, ...], wanted: tuple[int, ...]) -> int:
    """Return the tensor that has, in the layout `wanted`, the same memory as x in the layout `source`."""
    if source == wanted:
        return x
    shape = r.spec(x).shape
    outward = list(reversed(source))
    inward = list(reversed(wanted))
    flat = r.reshape(r.transpose(x, outward), [shape[axis] for axis in inward])
    return r.transpose(flat, [inward.index(axis) for axis in range(len(shape))])


def layouts(operation: Operation, name: str, ranks: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the layout of each operand or result that the attribute `name` declares, as axes from minor to major.

    Without the attribute, all layouts are row-major.
    """
    declared = operation.attributes.get(name)
    if declared is None:
        return [tuple(range(rank))[::-1] for rank in ranks]
    return [tuple(np.asarray(layout).ravel().tolist()) for layout in declared]


def flags(operation: Operation) -> dict[str, Any]:
    """Return the call's configuration by name, with LAPACK's flags, which are bytes, converted to letters."""
    attributes = operation.config if isinstance(operation.config, dict) else {}
    letters = ("uplo", "diag", "side", "trans_x", "mode", "sort", "compute_left", "compute_right")
    return {key: chr(value) if key in letters else value for key, value in attributes.items()}


def handler(operand_kinds: str, result_kinds: str, routine: Routine) -> Read:
    """Return a reader of calls, which converts between the declared layouts and the routine's layouts.

    Args:
        operand_kinds, result_kinds: a letter per operand or result, "m" for a column-major matrix, else "v".
        routine: reads the call for operands in the required layouts.
    """

    def read(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
        operand_layouts = layouts(
            operation, "operand_layouts", [len(r.spec(x).shape) for x in operands]
        )
        inside = [
            reinterpreted(r, x, layout, columns_first(kind, len(layout)))
            for x, layout, kind in zip(operands, operand_layouts, operand_kinds, strict=False)
        ]
        outputs = routine(r, operation, inside, flags(operation))
        # Eigenvalues of complex matrices are one result, but of real matrices two: real and imaginary parts.
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
    """Return NaN as a result of the type `declared` that the routine leaves undefined."""
    return r.full(np.nan, declared)


def succeeded(r: Reader, batch: Sequence[int]) -> int:
    """Return the result `info` of a call that cannot fail: a zero for each matrix of the batch."""
    return r.full(0, TensorSpec.of(tuple(batch), DType.I32))


def failed(r: Reader, x: int, batch: int) -> int:
    """Return the result `info` of a call: 1 for each matrix whose result x contains NaN, else 0.

    Args:
        batch: the number of batch axes.
    """
    real = r.apply_one(el.Real(), x) if r.spec(x).dtype.is_complex else x
    odd = r.apply_one(el.Compare("NE"), real, real)
    axes = tuple(range(batch, len(r.spec(x).shape)))
    return r.convert(r.apply_one(ReduceOr(axes), odd), DType.I32)


def triangle_of(r: Reader, x: int, lower: bool, rest: int) -> int:
    """Return the lower or upper triangle of x, including the diagonal, with the other elements taken from `rest`."""
    shape = r.spec(x).shape
    rank = len(shape)
    rows = r.apply_one(Iota(shape, rank - 2, DType.I64))
    columns = r.apply_one(Iota(shape, rank - 1, DType.I64))
    keep = r.apply_one(el.Compare("GE" if lower else "LE"), rows, columns)
    return r.apply_one(el.Select(), keep, x, rest)


def hermitian(r: Reader, x: int, lower: bool) -> int:
    """Build the Hermitian matrix whose lower or upper triangle is that of x."""
    return mirrored(r, x if lower else adjoint(r, x))


def product(r: Reader, x: int, y: int) -> int:
    """Multiply the matrices of x and y."""
    rank = len(r.spec(x).shape)
    batch = tuple(range(rank - 2))
    return r.apply_one(DotGeneral((rank - 1,), (rank - 2,), batch, batch), x, y)


def only(routine: str, allowed: Sequence[Any], value: Any, flag: str) -> None:
    """Raise `UnsupportedError` unless the value of a routine's flag is one of `allowed`."""
    if value not in allowed:
        shown = ", ".join(map(repr, allowed))
        raise UnsupportedError(f"custom_call {routine}: {flag} = {value!r}; read are {shown}")


# ---- factorisations ----------------------------------------------------------------------------------


def potrf(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    """Read potrf; as in LAPACK, the triangle that does not contain the factor is that of the operand."""
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
    """Read ormqr: a product of a matrix C and an orthogonal Q, or its adjoint, where Q is given by reflectors.

    The product is computed by LAPACK's compact form Q = 1 - V T V^H, where the columns of V are the vectors of the
    reflections. T = (1 + D S)^-1 D, where D = diag(tau), and S is the part of V^H V above the diagonal.
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
    """Create a tensor of the type `spec`, each matrix of which has ones on its diagonal and zeros elsewhere."""
    rank = len(spec.shape)
    rows = r.apply_one(Iota(spec.shape, rank - 2, DType.I64))
    columns = r.apply_one(Iota(spec.shape, rank - 1, DType.I64))
    return r.convert(r.apply_one(el.Compare("EQ"), rows, columns), spec.dtype)


def gesdd(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    """Read gesdd or gesvd: singular values, and singular vectors if the call requests them."""
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
    """Read geev as `Eig`, or as `Geev` if the call requests left eigenvectors, which `Eig` does not compute."""
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
    """Return the eigenvalues of x as the call's results: two, real and imaginary parts, if x is real, else one."""
    if r.spec(x).dtype.is_complex:
        return (values,)
    return r.apply_one(el.Real(), values), r.apply_one(el.Imag(), values)


def sytrd(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    op = lapack.Sytrd(lower=flag.get("uplo", "L") == "L")
    return (*extension(r, op, *operands), succeeded(r, r.spec(operands[0]).shape[:-2]))


def gehrd(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    """Read gehrd; raise an error unless the flags `low` and `high`, which count from one, select the whole matrix."""
    shape = r.spec(operands[0]).shape
    only("gehrd", (1,), flag.get("low", 1), "low")
    only("gehrd", (shape[-1],), flag.get("high", shape[-1]), "high")
    return (*extension(r, lapack.Gehrd(), *operands), succeeded(r, shape[:-2]))


def gees(r: Reader, operation: Operation, operands: Sequence[int], flag: Any) -> Sequence[int]:
    """Read gees, the Schur form; a call that sorts eigenvalues raises an error."""
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
    """Read gtsv; its results for the overwritten diagonals are NaN."""
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
"""Readers of custom calls of LAPACK's routines, by target."""


def reflected(op: ExtensionOp) -> Read:
    return lambda r, operation, operands: extension(r, op, *operands)


def eigh(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read "Eigh": return eigenvectors, and eigenvalues in ascending order.

    The first number of the call's configuration is 0 if the upper triangle of the operand is used, else the lower.
    """
    (x,) = operands
    is_lower = not str(operation.config or "1").startswith("0")
    values, vectors = extension(r, Eigh(), hermitian(r, x, is_lower))
    return vectors, values


def lu(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read "LuDecomposition": return the packed factors, the row swaps, which count from zero, and the permutation."""
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
"""Readers of custom calls that the TPU compiler implements, by target; they have no layouts, unlike LAPACK's."""
