"""Python code of extension ops that NumPy, or a function in `functions.py`, implements.

Ops of all other families are expanded into standard ops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lowering.numpy_source.expression import Code, Expression, Level, Rows, call, tuple_of
from tenferro.ops.extension import Extension
from tenferro.types import DType

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["FAMILIES", "ROWS", "is_written"]


def cholesky(op: Any, w: Writer, a: Expression) -> Code:
    """Write a call of `cholesky` in `functions.py`, which returns NaN for an indefinite matrix and does not raise."""
    return call(w.function("cholesky"), a)


def qr(op: Any, w: Writer, a: Expression) -> Any:
    """Write `np.linalg.qr`, with a mode for the full factors, the reduced factors, or R alone."""
    if op.vectors:
        return call("np.linalg.qr", a, *(['"complete"'] if op.full else [])).text
    if op.full:
        return Code(f'np.linalg.qr({a}, "complete")[1]')
    return call("np.linalg.qr", a, '"r"')


def svd(op: Any, w: Writer, a: Expression) -> Any:
    """Write `np.linalg.svd`, with options for the full factors, the reduced factors, or the singular values alone."""
    if not op.vectors:
        return call("np.linalg.svd", a, compute_uv=False)
    return call("np.linalg.svd", a, full_matrices=None if op.full else False).text


def eigh(op: Any, w: Writer, a: Expression) -> Any:
    """Write a call of `np.linalg.eigh` or `np.linalg.eigvalsh` with the Hermitian part of the matrix, (a + a^H) / 2."""
    part = call(w.function("hermitian_part"), a).text
    return call("np.linalg.eigh", part).text if op.vectors else call("np.linalg.eigvalsh", part)


def eig(op: Any, w: Writer, a: Expression) -> Any:
    """Write a call of `eig` in `functions.py`, or of `np.linalg.eigvals` if no eigenvectors are needed.

    The results are converted to a complex dtype: NumPy returns real arrays if all eigenvalues are real.
    """
    kind = w.dtype(a.spec.dtype.complex)
    w.functions.add("eig")
    if op.vectors:
        return f"eig({a}, {kind})"
    return Code(f"np.linalg.eigvals({a}).astype({kind})")


def lu(op: Any, w: Writer, a: Expression) -> str:
    """Write a call of the function `lu`, which the generated file includes."""
    return call(w.function("lu"), a).text


def getrf(op: Any, w: Writer, a: Expression) -> list[Code]:
    """Write calls of `getrf` and `getrf_info`, which the generated file includes.

    The pivots of `getrf` count rows from 0. LAPACK counts from 1, so 1 is added.
    """
    packed = w.fresh("packed")
    pivots = w.fresh("pivots") if w.is_read[1] else "_"
    w.say(f"{packed}, {pivots} = {w.function('getrf')}({a})")
    ones = Code(f"({pivots} + 1).astype(np.int32)")
    return [Code(packed), ones, call(w.function("getrf_info"), packed)]


def pivots_to_permutation(op: Any, w: Writer, pivots: Expression) -> Code:
    """Write a call of the function `pivots_to_permutation`, which the generated file includes."""
    return call(w.function("pivots_to_permutation"), pivots, w.extent(op.size))


def geqrf(op: Any, w: Writer, a: Expression) -> str:
    """Write a call of the function `geqrf`, which the generated file includes."""
    return call(w.function("geqrf"), a).text


def geqp3(op: Any, w: Writer, a: Expression) -> str:
    """Write a call of the function `geqp3`, which the generated file includes."""
    return call(w.function("geqp3"), a).text


def gehrd(op: Any, w: Writer, a: Expression) -> str:
    """Write a call of the function `gehrd`, which the generated file includes."""
    return call(w.function("gehrd"), a).text


def sytrd(op: Any, w: Writer, a: Expression) -> str:
    """Write a call of the function `sytrd`, which the generated file includes."""
    return call(w.function("sytrd"), a, op.lower).text


def gtsv(op: Any, w: Writer, *operands: Expression) -> str:
    """Write a call of the function `gtsv`, which the generated file includes."""
    return call(w.function("gtsv"), *operands).text


def geev(op: Any, w: Writer, a: Expression) -> str:
    """Write a call of the function `geev`, which the generated file includes and which calls `np.linalg.eig`."""
    return call(w.function("geev"), a, w.dtype(a.spec.dtype.complex)).text


def gees(op: Any, w: Writer, a: Expression) -> str:
    """Write a call of the function `gees`, which the generated file includes and which calls `np.linalg.eig`."""
    return call(w.function("gees"), a, w.dtype(a.spec.dtype.complex)).text


def householder_product(op: Any, w: Writer, packed: Expression, factors: Expression) -> Code:
    """Write a call of the function `householder_product`, which the generated file includes."""
    return call(w.function("householder_product"), packed, factors)


def _applied(op: Any, a: Expression) -> str:
    """Return the code of the matrix of a linear system: A, its transpose or its conjugate transpose.

    `op.transpose` is "N", "T" or "C".
    """
    if op.transpose == "N":
        return str(a)
    turned = call("np.swapaxes", a, -1, -2)
    return call("np.conj", turned.text).text if op.transpose == "C" else turned.text


def triangular_solve(op: Any, w: Writer, a: Expression, b: Expression) -> Code:
    """Write a call of the function `triangular_solve`, which the generated file includes."""
    lower = op.lower == (op.transpose == "N")
    return call(
        w.function("triangular_solve"),
        _applied(op, a),
        b,
        lower=lower,
        unit_diagonal=True if op.unit_diagonal else None,
    )


def solve(op: Any, w: Writer, a: Expression, b: Expression) -> Code:
    """Write a call of `solve` in `functions.py`, which returns NaN for a singular matrix and does not raise."""
    return call(w.function("solve"), _applied(op, a), b)


def lu_solve(
    op: Any, w: Writer, a: Expression, packed: Expression, perm: Expression, b: Expression
) -> Code:
    """Write a call of `solve` with the original matrix, because NumPy cannot solve with LU factors."""
    return call(w.function("solve"), _applied(op, a), b)


def distinct(op: Any, w: Writer, values: Expression) -> Code:
    """Write a call of the function `distinct`, which raises an error if two values coincide."""
    return call(w.function("distinct"), values)


def fft(op: Any, w: Writer, x: Expression) -> Code:
    """Write a call of a function in `np.fft` along the last axes, with the op's lengths unless all lengths are None."""
    axes = tuple_of(range(-len(op.lengths), 0))
    shape = x.spec.shape
    lengths = None
    if any(length is not None for length in op.lengths):
        lengths = tuple_of([w.extent(n) for n in op.lengths_of(shape)])
    if len(op.lengths) == 1:
        length = None if lengths is None else w.extent(op.lengths_of(shape)[0])
        return call(f"np.fft.{op.kind}", x, n=length)
    return call(f"np.fft.{op.kind}n", x, s=lengths, axes=axes)


def einsum(op: Any, w: Writer, *operands: Expression) -> Code:
    """Write `np.einsum`; bools are computed in int64, float16 in float32, and the result is converted back."""
    dtype = operands[0].spec.dtype
    through = {DType.Bool: "np.int64", DType.F16: "np.float32"}.get(dtype)
    texts = [str(x) for x in operands]
    if through is not None:
        texts = [f"{x.at(Level.ATOM)}.astype({through})" for x in operands]
    code = call("np.einsum", f'"{",".join(op.inputs)}->{op.output}"', *texts, optimize=True)
    if through is None:
        return code
    return Code(f"{code.text}.astype({w.dtype(dtype)})")


def threefry(op: Any, w: Writer, key: Expression, x0: Expression, x1: Expression) -> str:
    """Write a call of the function `threefry`, which the generated file includes."""
    return call(w.function("threefry"), key, x0, x1).text


def plain_einsum(op: Any) -> bool:
    """Return whether `np.einsum` supports the op: its labels are ASCII letters, and the output repeats no label."""
    labels = "".join([*op.inputs, op.output])
    return len(set(op.output)) == len(op.output) and labels.isascii() and labels.isalpha()


FAMILIES: Mapping[str, tuple[Callable[..., Any], Callable[..., bool]]] = {
    "tenferro.cholesky.v1": (cholesky, lambda op: True),
    "tenferro.qr.v1": (qr, lambda op: True),
    "tenferro.svd.v1": (svd, lambda op: True),
    "tenferro.eigh.v1": (eigh, lambda op: True),
    "tenferro.eig.v1": (eig, lambda op: True),
    "tenferro.lu.v1": (lu, lambda op: True),
    "tenferro.getrf.v1": (getrf, lambda op: True),
    "tenferro.pivots_to_permutation.v1": (pivots_to_permutation, lambda op: True),
    "tenferro.geqrf.v1": (geqrf, lambda op: True),
    "tenferro.geqp3.v1": (geqp3, lambda op: True),
    "tenferro.gehrd.v1": (gehrd, lambda op: True),
    "tenferro.sytrd.v1": (sytrd, lambda op: True),
    "tenferro.gtsv.v1": (gtsv, lambda op: True),
    "tenferro.geev.v1": (geev, lambda op: True),
    "tenferro.gees.v1": (gees, lambda op: True),
    "tenferro.householder_product.v1": (householder_product, lambda op: True),
    "tenferro.triangular_solve.v1": (triangular_solve, lambda op: True),
    "tenferro.solve.v1": (solve, lambda op: True),
    "tenferro.lu_solve.v1": (lu_solve, lambda op: True),
    "tenferro.distinct.v1": (distinct, lambda op: True),
    "tenferro.fft.v1": (fft, lambda op: True),
    "tenferro.einsum.v1": (einsum, plain_einsum),
    "tenferro.threefry2x32.v1": (threefry, lambda op: True),
}
"""Functions that write the ops of a family, by family id, each with a predicate for the ops that it can write."""


def is_written(op: Extension) -> bool:
    """Return whether `FAMILIES` has a function that writes the op; any other op is expanded into standard ops."""
    cell = FAMILIES.get(op.family_id)
    return cell is not None and cell[1](op.op)


def extension(op: Extension, w: Writer, *operands: Expression) -> Any:
    """Write an extension op by the function of its family in `FAMILIES`."""
    for x in operands:
        w.dtype(x.spec.dtype)
    cell, _ = FAMILIES[op.family_id]
    return cell(op.op, w, *operands)


ROWS: Rows = {Extension: extension}
