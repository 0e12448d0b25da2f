"""Matrix factorisations and solves as extension families. Leading axes are batch axes.

Source: LAPACK Users' Guide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tenferro.dims import dim_min, is_exact
from tenferro.errors import DTypeError, ShapeError
from tenferro.extension import ExtensionOp, extension_family, require
from tenferro.extension.fields import as_bool, as_choice
from tenferro.types import DType

__all__ = [
    "DEGENERATE",
    "SAME",
    "Cholesky",
    "Distinct",
    "Eig",
    "Eigh",
    "Lu",
    "LuSolve",
    "Qr",
    "Solve",
    "Svd",
    "TriangularSolve",
]

ACCEPTED = (DType.F32, DType.F64, DType.C32, DType.C64)
REAL = {DType.C32: DType.F32, DType.C64: DType.F64}
COMPLEX = {DType.F32: DType.C32, DType.F64: DType.C64}

DEGENERATE = ("zero", "nan", "raise")
"""Options for the derivative of singular vectors or eigenvectors at equal singular values or eigenvalues; see `Svd`."""
TRANSPOSES = ("N", "T", "C")
"""Options of a solver for the matrix that it uses: A itself, its transpose, or its conjugate transpose."""
SAME = 64
"""Distance below which singular values or eigenvalues count as equal.

The unit is the rounding error of the largest value.
"""


def matrix(
    op: ExtensionOp, dtypes: Sequence[Any], shapes: Sequence[Any]
) -> tuple[Any, Any, Any, Any]:
    """Return the dtype, batch shape, number of rows and number of columns of the first input.

    Raises:
        DTypeError: the dtype is neither float32, float64, complex64 nor complex128.
        ShapeError: there are fewer than two axes.
    """
    name = type(op).__name__
    if dtypes[0] not in ACCEPTED:
        hint = "; convert it to float32" if dtypes[0] in (DType.F16, DType.BF16) else ""
        raise DTypeError(
            f"{name}: x0 is {dtypes[0]}; accepted: float32, float64, complex64, complex128{hint}"
        )
    if len(shapes[0]) < 2:
        raise ShapeError(f"{name}: x0 needs two axes, got shape {tuple(shapes[0])}")
    *batch, rows, columns = shapes[0]
    return dtypes[0], tuple(batch), rows, columns


def square(op: ExtensionOp, dtypes: Sequence[Any], shapes: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Return the dtype, batch shape and order of the first input, which must be a square matrix.

    Raises:
        ShapeError: the input is not square.
    """
    dtype, batch, rows, columns = matrix(op, dtypes, shapes)
    if isinstance(rows, int) and isinstance(columns, int) and rows != columns:
        raise ShapeError(f"{type(op).__name__}: x0 must be square, got shape {tuple(shapes[0])}")
    require(rows, "==", columns, "the rows and columns of a square matrix")
    return dtype, batch, rows if is_exact(rows) else columns


def smaller(rows: Any, columns: Any) -> Any:
    """min(rows, columns), where the numbers may be symbols."""
    return dim_min(rows, columns)


class MatrixOp(ExtensionOp):
    """Operation on the last two axes of its first operand. The leading axes of all operands are batch axes."""

    def independent_axes(self, input_shapes: Sequence[Any]) -> int:
        return len(input_shapes[0]) - 2


@extension_family("tenferro", "cholesky", version=1)
@dataclass(frozen=True)
class Cholesky(MatrixOp):
    """Lower triangular L with A = L L^H, where A is the Hermitian part of the input.

    L is NaN if A is not positive definite.
    """

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, n = square(self, input_dtypes, input_shapes)
        return [(dtype, (*batch, n, n))]


@extension_family("tenferro", "qr", version=1)
@dataclass(frozen=True)
class Qr(MatrixOp):
    """Factors Q and R with A = Q R. With `full`, Q is square. Without `vectors`, R is the only result."""

    full: bool = False
    vectors: bool = True

    def __post_init__(self) -> None:
        as_bool("Qr", "full", self.full)
        as_bool("Qr", "vectors", self.vectors)

    @property
    def output_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it varies
        """The number of outputs: two with `vectors`, otherwise one."""
        return 2 if self.vectors else 1

    def prune_outputs(self, used: Sequence[bool]) -> Qr | None:
        return replace(self, vectors=False) if tuple(used) == (False, True) else None

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, m, n = matrix(self, input_dtypes, input_shapes)
        k = m if self.full else smaller(m, n)
        return [(dtype, (*batch, m, k)), (dtype, (*batch, k, n))][not self.vectors :]


@extension_family("tenferro", "svd", version=1)
@dataclass(frozen=True)
class Svd(MatrixOp):
    """Factors U, s and V^H with A = U diag(s) V^H, where s is in descending order.

    With `full`, U and V^H are square. Without `vectors`, s is the only result. `degenerate` selects the derivative of
    the singular vectors if singular values are equal. "zero" omits the rotation within the subspace of equal values,
    which is right for functions of the values and of projectors on whole subspaces. "nan" keeps the division by zero.
    "raise" raises an error when the program runs.
    """

    full: bool = False
    degenerate: str = "zero"
    vectors: bool = True

    def __post_init__(self) -> None:
        as_bool("Svd", "full", self.full)
        as_choice("Svd", "degenerate", self.degenerate, DEGENERATE)
        as_bool("Svd", "vectors", self.vectors)

    @property
    def output_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it varies
        """The number of outputs: three with `vectors`, otherwise one."""
        return 3 if self.vectors else 1

    def prune_outputs(self, used: Sequence[bool]) -> Svd | None:
        return replace(self, vectors=False) if tuple(used) == (False, True, False) else None

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, m, n = matrix(self, input_dtypes, input_shapes)
        k = smaller(m, n)
        rows, columns = (m, n) if self.full else (k, k)
        values = (REAL.get(dtype, dtype), (*batch, k))
        if not self.vectors:
            return [values]
        return [(dtype, (*batch, m, rows)), values, (dtype, (*batch, columns, n))]


@extension_family("tenferro", "eigh", version=1)
@dataclass(frozen=True)
class Eigh(MatrixOp):
    """Eigenvalues in ascending order, and eigenvectors as columns, of the Hermitian part of a matrix.

    `degenerate` and `vectors` have the same meaning as in `Svd`.
    """

    degenerate: str = "zero"
    vectors: bool = True

    def __post_init__(self) -> None:
        as_choice("Eigh", "degenerate", self.degenerate, DEGENERATE)
        as_bool("Eigh", "vectors", self.vectors)

    @property
    def output_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it varies
        """The number of outputs: two with `vectors`, otherwise one."""
        return 2 if self.vectors else 1

    def prune_outputs(self, used: Sequence[bool]) -> Eigh | None:
        return replace(self, vectors=False) if tuple(used) == (True, False) else None

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, n = square(self, input_dtypes, input_shapes)
        values = (REAL.get(dtype, dtype), (*batch, n))
        return [values, (dtype, (*batch, n, n))] if self.vectors else [values]


@extension_family("tenferro", "eig", version=1)
@dataclass(frozen=True)
class Eig(MatrixOp):
    """Eigenvalues, and eigenvectors of unit length as columns, of a general matrix. Both are complex.

    `vectors` has the same meaning as in `Svd`.
    """

    vectors: bool = True

    def __post_init__(self) -> None:
        as_bool("Eig", "vectors", self.vectors)

    @property
    def output_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it varies
        """The number of outputs: two with `vectors`, otherwise one."""
        return 2 if self.vectors else 1

    def prune_outputs(self, used: Sequence[bool]) -> Eig | None:
        return replace(self, vectors=False) if tuple(used) == (True, False) else None

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, n = square(self, input_dtypes, input_shapes)
        dtype = COMPLEX.get(dtype, dtype)
        values = (dtype, (*batch, n))
        return [values, (dtype, (*batch, n, n))] if self.vectors else [values]


@extension_family("tenferro", "lu", version=1)
@dataclass(frozen=True)
class Lu(MatrixOp):
    """LU factorisation A[perm] = L U: a matrix with L below and U on and above the diagonal, and the permutation."""

    output_count = 2

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, m, _ = matrix(self, input_dtypes, input_shapes)
        return [(dtype, input_shapes[0]), (DType.I64, (*batch, m))]


class Solver(MatrixOp):
    """Solution X of op(A) X = B for equal batch axes; `transpose` selects A, its transpose or its adjoint as op(A)."""

    transpose: str
    input_count = 2

    def __post_init__(self) -> None:
        as_choice(type(self).__name__, "transpose", self.transpose, TRANSPOSES)

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        dtype, batch, n = square(self, input_dtypes, input_shapes)
        name = type(self).__name__
        if input_dtypes[1] is not dtype:
            raise DTypeError(
                f"{name}: x0 and x1 must have one dtype, got {dtype}, {input_dtypes[1]}"
            )
        if len(input_shapes[1]) < 2:
            raise ShapeError(f"{name}: x1 needs two axes, got shape {tuple(input_shapes[1])}")
        extents = list(zip((*batch, n), input_shapes[1][:-1], strict=False))
        if len(input_shapes[1]) != len(input_shapes[0]) or any(
            isinstance(lhs, int) and isinstance(rhs, int) and lhs != rhs for lhs, rhs in extents
        ):
            raise ShapeError(
                f"{name}: x0 {tuple(input_shapes[0])} and x1 {tuple(input_shapes[1])} must have one "
                "batch shape and as many rows"
            )
        for lhs, rhs in extents:
            require(lhs, "==", rhs, "the batch shapes and rows of x0 and x1")
        return [(dtype, input_shapes[1])]


@extension_family("tenferro", "triangular_solve", version=1)
@dataclass(frozen=True)
class TriangularSolve(Solver):
    """Solution X of op(A) X = B for a triangular A. The other triangle of A is not read.

    `transpose` selects op(A): "N" for A, "T" for its transpose, "C" for its conjugate transpose.
    """

    lower: bool = True
    unit_diagonal: bool = False
    transpose: str = "N"

    def __post_init__(self) -> None:
        super().__post_init__()
        as_bool("TriangularSolve", "lower", self.lower)
        as_bool("TriangularSolve", "unit_diagonal", self.unit_diagonal)


@extension_family("tenferro", "solve", version=1)
@dataclass(frozen=True)
class Solve(Solver):
    """Solution X of op(A) X = B, by LU factorisation with partial pivoting. X is infinite or NaN if A is singular.

    `transpose` selects op(A): "N" for A, "T" for its transpose, "C" for its conjugate transpose.
    """

    transpose: str = "N"


@extension_family("tenferro", "lu_solve", version=1)
@dataclass(frozen=True)
class LuSolve(Solver):
    """Solution X of op(A) X = B for operands (A, packed, perm, B), where `Lu` computed `packed` and `perm` from A.

    `transpose` selects op(A): "N" for A, "T" for its transpose, "C" for its conjugate transpose. A itself is not read.
    It is an operand because the derivative depends on A_dot; the derivative is computed with the same factors.
    """

    transpose: str = "N"
    input_count = 4

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        (x,) = super().infer_output_meta(input_dtypes[::3], input_shapes[::3])
        factors = [
            (input_dtypes[0], tuple(input_shapes[0])),
            (DType.I64, tuple(input_shapes[0][:-1])),
        ]
        actual = [(input_dtypes[i], tuple(input_shapes[i])) for i in (1, 2)]
        if actual != factors:
            raise ShapeError(
                f"LuSolve: x1 and x2 must be the factors of x0, {factors[0]} and {factors[1]}; got {actual[0]} "
                f"and {actual[1]}"
            )
        return [x]


@extension_family("tenferro", "distinct", version=1)
@dataclass(frozen=True)
class Distinct(MatrixOp):
    """Identity of a vector that raises an error if two elements are equal. Only the native executor runs it."""

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]
