"""NumPy's products of vectors and matrices: dot, inner, Kronecker and cross products.

Source: NumPy 2.4, reference, "Linear algebra".
"""

from __future__ import annotations

from typing import Any, Unpack

from tenferro.api.arguments import refuse, refuse_options
from tenferro.api.elementwise import conj, multiply, subtract
from tenferro.api.linear import matmul, tensordot
from tenferro.api.manipulation import expand_dims, moveaxis, ravel, reshape, squeeze, stack
from tenferro.api.precision import PrecisionLike
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import ShapeError
from tenferro.types import ArrayLike, DTypeLike, UfuncOptions

__all__ = ["cross", "dot", "inner", "kron", "matvec", "vdot", "vecmat"]


def dot(
    a: ArrayLike, b: ArrayLike, out: None = None, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None
) -> Any:  # fmt: skip
    """Multiply a and b, and sum over the last axis of a and the second to last axis of b.

    If b is a vector, the sum is over the only axis of b. If an operand has rank 0, there is no sum.

    `matmul` describes `precision` and `preferred_element_type`.

    Raises:
        ShapeError: the extents of the two axes differ.

    >>> dot([1, 2], [3, 4]), dot([[1, 2], [3, 4]], [1, 1])
    (array(11), array([3, 7]))
    """
    refuse("dot", "out", out)
    lhs, rhs = as_operand(a), as_operand(b)
    axes = ([-1], [-2 if len(rhs.shape) > 1 else -1])
    return _product(lhs, rhs, axes, precision, preferred_element_type)


def inner(
    a: ArrayLike, b: ArrayLike, /, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None
) -> Any:  # fmt: skip
    """Multiply a and b, and sum over the last axis of both. If an operand has rank 0, there is no sum.

    `matmul` describes `precision` and `preferred_element_type`.

    Raises:
        ShapeError: the extents of the last axes differ.

    >>> inner([[1, 2], [3, 4]], [1, 1])
    array([3, 7])
    """
    lhs, rhs = as_operand(a), as_operand(b)
    return _product(lhs, rhs, ([-1], [-1]), precision, preferred_element_type)


def _product(
    lhs: Any, rhs: Any, axes: Any, precision: PrecisionLike, preferred: DTypeLike | None
) -> Any:
    """Multiply two tensors, and sum over `axes`, unless an operand has rank 0."""
    if not lhs.shape or not rhs.shape:
        if preferred is None:
            return multiply(lhs, rhs)
        axes = 0
    return tensordot(lhs, rhs, axes, precision=precision, preferred_element_type=preferred)


def vdot(
    a: ArrayLike, b: ArrayLike, /, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None
) -> Any:  # fmt: skip
    """Flatten a and b, and sum conj(a) b over all elements.

    `matmul` describes `precision` and `preferred_element_type`.

    Raises:
        ShapeError: the numbers of elements differ.

    >>> vdot([1j, 2], [1, 1])
    array(2.-1.j)
    """
    lhs, rhs = conj(ravel(a)), ravel(b)
    return tensordot(
        lhs, rhs, 1, precision=precision, preferred_element_type=preferred_element_type
    )


def matvec(
    x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]
) -> Any:
    """Return y[.., i] = sum_j x1[.., i, j] x2[.., j]. Leading axes broadcast.

    Shapes: (.., m, n), (.., n) -> (.., m).

    Raises:
        ShapeError: x1 is not a matrix, x2 is not a vector, or the extents n differ.

    >>> matvec([[1, 2], [3, 4]], [1, 1])
    array([3, 7])
    """
    refuse_options("matvec", options, out)
    lhs, rhs = as_operand(x1), as_operand(x2)
    if len(lhs.shape) < 2 or not rhs.shape:
        raise ShapeError(
            f"matvec: takes matrices and vectors, got {spec_of(lhs)} and {spec_of(rhs)}"
        )
    return squeeze(matmul(lhs, expand_dims(rhs, axis=-1)), axis=-1)


def vecmat(
    x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]
) -> Any:
    """Return y[.., j] = sum_i conj(x1[.., i]) x2[.., i, j]. Leading axes broadcast.

    Shapes: (.., n), (.., n, m) -> (.., m).

    Raises:
        ShapeError: x1 is not a vector, x2 is not a matrix, or the extents n differ.

    >>> vecmat([1, 1], [[1, 2], [3, 4]])
    array([4, 6])
    """
    refuse_options("vecmat", options, out)
    lhs, rhs = as_operand(x1), as_operand(x2)
    if not lhs.shape or len(rhs.shape) < 2:
        raise ShapeError(
            f"vecmat: takes vectors and matrices, got {spec_of(lhs)} and {spec_of(rhs)}"
        )
    return squeeze(matmul(expand_dims(conj(lhs), axis=-2), rhs), axis=-2)


def kron(a: ArrayLike, b: ArrayLike) -> Any:
    """Compute the Kronecker product, which replaces every element of a by its product with b.

    >>> kron([1, 10], [1, 2])
    array([ 1,  2, 10, 20])
    """
    lhs, rhs = as_operand(a), as_operand(b)
    rank = max(len(lhs.shape), len(rhs.shape))
    left = (1,) * (rank - len(lhs.shape)) + tuple(lhs.shape)
    right = (1,) * (rank - len(rhs.shape)) + tuple(rhs.shape)
    rows = tuple([part for extent in left for part in (extent, 1)])
    columns = tuple([part for extent in right for part in (1, extent)])
    products = multiply(reshape(lhs, rows), reshape(rhs, columns))
    return reshape(products, tuple([m * n for m, n in zip(left, right, strict=True)]))


def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:  # fmt: skip
    """Compute the cross product of vectors of three elements.

    Args:
        axisa, axisb, axisc: the axis of `a`, of `b` and of the result along which the vectors are.
        axis: if passed, the axis of the vectors in `a`, `b` and the result; `axisa`, `axisb` and `axisc` are then
            ignored.

    Raises:
        ShapeError: the vectors do not have three elements. NumPy also requires three since version 2.

    >>> cross([1, 0, 0], [0, 1, 0])
    array([0, 0, 1])
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = as_operand(a), as_operand(b)
    if x.shape[axisa] != 3 or y.shape[axisb] != 3:
        raise ShapeError(
            f"cross: takes vectors of 3 elements, got {spec_of(x)} along axis {axisa}, {spec_of(y)} along axis {axisb}"
        )
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    parts = [
        subtract(
            multiply(x[..., (i + 1) % 3], y[..., (i + 2) % 3]),
            multiply(x[..., (i + 2) % 3], y[..., (i + 1) % 3]),
        )
        for i in range(3)
    ]
    return stack(parts, axis=axisc)
