"""Factorisations with the results of LAPACK's routines. Leading axes are batch axes.

Imported modules use these families, because they read the raw results of a routine: Householder vectors below R, pivots
that count from one, and `info`. User code calls `tenferro.ext.linalg` instead.

Source: LAPACK Users' Guide, under the names of the routines; jaxlib's handlers for the order of operands and results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenferro.errors import DTypeError, ShapeError
from tenferro.ext.linalg.families import COMPLEX, REAL, matrix, smaller, square
from tenferro.extension import ExtensionOp, extension_family
from tenferro.extension.fields import as_bool, as_dim
from tenferro.types import DType

__all__ = [
    "Gees",
    "Geev",
    "Gehrd",
    "Geqp3",
    "Geqrf",
    "Getrf",
    "Gtsv",
    "HouseholderProduct",
    "PivotsToPermutation",
    "Sytrd",
]

INFO = DType.I32


@extension_family("tenferro", "getrf", version=1)
@dataclass(frozen=True)
class Getrf(ExtensionOp):
    """LU factorisation: L below the diagonal, U on and above the diagonal, the row swaps `pivots`, and `info`.

    Row i is swapped with row `pivots[i] - 1`, for i = 0, 1, ..; `info` is the index, counted from one, of the first
    zero on the diagonal of U. It is 0 if there is no zero.
    """

    output_count = 3

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, m, n = matrix(self, input_dtypes, input_shapes)
        return [(dtype, input_shapes[0]), (INFO, (*batch, smaller(m, n))), (INFO, batch)]


@extension_family("tenferro", "pivots_to_permutation", version=1)
@dataclass(frozen=True)
class PivotsToPermutation(ExtensionOp):
    """Permutation of 0, .., size - 1 that results from swapping entries i and x0[i] for i = 0, 1, ..

    The operand x0 counts rows from zero, whereas the pivots of `Getrf` count from one.
    """

    size: int

    def __post_init__(self) -> None:
        as_dim("PivotsToPermutation", "size", self.size)

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        if not input_dtypes[0].is_integer:
            raise DTypeError(f"PivotsToPermutation: x0 is {input_dtypes[0]}; accepted: integers")
        if not len(input_shapes[0]):
            raise ShapeError("PivotsToPermutation: x0 needs an axis, got a scalar")
        return [(input_dtypes[0], (*input_shapes[0][:-1], self.size))]


@extension_family("tenferro", "geqrf", version=1)
@dataclass(frozen=True)
class Geqrf(ExtensionOp):
    """QR factorisation: R on and above the diagonal, Householder vectors below it, and their factors tau.

    Q = H_1 H_2 .. with H_i = 1 - tau_i v_i v_i^H. The vector v_i is one at position i, and zero above position i.
    """

    output_count = 2

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, m, n = matrix(self, input_dtypes, input_shapes)
        return [(dtype, input_shapes[0]), (dtype, (*batch, smaller(m, n)))]


@extension_family("tenferro", "geqp3", version=1)
@dataclass(frozen=True)
class Geqp3(ExtensionOp):
    """QR factorisation with column pivoting. The results are those of `Geqrf` for A with permuted columns.

    The columns are permuted such that the diagonal of R decreases. The second result is this permutation, counted from
    one.
    """

    output_count = 3

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, m, n = matrix(self, input_dtypes, input_shapes)
        return [(dtype, input_shapes[0]), (INFO, (*batch, n)), (dtype, (*batch, smaller(m, n)))]


@extension_family("tenferro", "householder_product", version=1)
@dataclass(frozen=True)
class HouseholderProduct(ExtensionOp):
    """Leading columns of the product H_1 H_2 .. of Householder reflectors: LAPACK's orgqr and ungqr.

    The operands are the Householder vectors, packed as in the results of `Geqrf`, and their factors tau. The result has
    as many columns as the first operand.
    """

    input_count = 2

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, m, n = matrix(self, input_dtypes, input_shapes)
        if input_dtypes[1] is not dtype:
            raise DTypeError(
                f"HouseholderProduct: x0 and x1 must have one dtype, got {dtype}, {input_dtypes[1]}"
            )
        factors = tuple(input_shapes[1])
        if factors[:-1] != batch or not factors:
            raise ShapeError(
                f"HouseholderProduct: x0 {tuple(input_shapes[0])} and x1 {factors} must have one batch shape"
            )
        extents = (m, n, factors[-1])
        if all(isinstance(extent, int) for extent in extents) and not m >= n >= factors[-1]:
            raise ShapeError(
                f"HouseholderProduct: x0 has {m} rows and {n} columns, and x1 {factors[-1]} factors; "
                "needs rows >= columns >= factors"
            )
        return [(dtype, input_shapes[0])]


@extension_family("tenferro", "geev", version=1)
@dataclass(frozen=True)
class Geev(ExtensionOp):
    """Eigenvalues, and left and right eigenvectors of unit length as columns. All are complex.

    A v = w v for right eigenvectors v, and u^H A = w u^H for left eigenvectors u.
    """

    output_count = 3

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, n = square(self, input_dtypes, input_shapes)
        dtype = COMPLEX.get(dtype, dtype)
        return [(dtype, (*batch, n)), (dtype, input_shapes[0]), (dtype, input_shapes[0])]


@extension_family("tenferro", "gtsv", version=1)
@dataclass(frozen=True)
class Gtsv(ExtensionOp):
    """Solution X of T X = B for a tridiagonal T, and `info`, which is nonzero if T is singular.

    The operands are the lower, main and upper diagonal and B. Each diagonal has n entries. The first entry of the lower
    and the last entry of the upper diagonal are not read.
    """

    input_count = 4
    output_count = 2

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, n, _ = matrix(self, input_dtypes[3:], input_shapes[3:])
        for i in range(3):
            if input_dtypes[i] is not dtype:
                raise DTypeError(
                    f"Gtsv: x{i} and x3 must have one dtype, got {input_dtypes[i]}, {dtype}"
                )
            if tuple(input_shapes[i]) != (*batch, n):
                raise ShapeError(
                    f"Gtsv: x{i} must have shape {(*batch, n)} beside x3 "
                    f"{tuple(input_shapes[3])}, got {tuple(input_shapes[i])}"
                )
        return [(dtype, input_shapes[3]), (INFO, batch)]


@extension_family("tenferro", "sytrd", version=1)
@dataclass(frozen=True)
class Sytrd(ExtensionOp):
    """Real tridiagonal matrix that is unitarily similar to a Hermitian matrix A. Only one triangle of A is read.

    The results are the packed Householder vectors, the diagonal, the off-diagonal, and the factors tau of the vectors.
    """

    lower: bool = True
    output_count = 4

    def __post_init__(self) -> None:
        as_bool("Sytrd", "lower", self.lower)

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, n = square(self, input_dtypes, input_shapes)
        off_diagonal = (*batch, n - 1)
        real = REAL.get(dtype, dtype)
        return [
            (dtype, input_shapes[0]),
            (real, (*batch, n)),
            (real, off_diagonal),
            (dtype, off_diagonal),
        ]


@extension_family("tenferro", "gehrd", version=1)
@dataclass(frozen=True)
class Gehrd(ExtensionOp):
    """Hessenberg matrix that is unitarily similar to A.

    The results are the matrix, with Householder vectors packed below the first subdiagonal, and the factors of the
    vectors.
    """

    output_count = 2

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, n = square(self, input_dtypes, input_shapes)
        return [(dtype, input_shapes[0]), (dtype, (*batch, n - 1))]


@extension_family("tenferro", "gees", version=1)
@dataclass(frozen=True)
class Gees(ExtensionOp):
    """Schur form: T and Z with A = Z T Z^H, the complex eigenvalues, and `info`.

    T is upper triangular. If A is real, a pair of complex eigenvalues is a block of two by two on its diagonal.
    """

    output_count = 4

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, n = square(self, input_dtypes, input_shapes)
        values = COMPLEX.get(dtype, dtype)
        shape = input_shapes[0]
        return [(dtype, shape), (dtype, shape), (values, (*batch, n)), (INFO, batch)]
