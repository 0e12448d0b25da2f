"""Readers of dot products, convolutions, Fourier transforms and solves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lowering.module_tree import Operation
from lowering.read.bounded import padded_to_bounds, truncated, window_counts
from lowering.read.reader import Reader, ReadRows
from tenferro.dims import SymDim
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.ext.einsum import Einsum
from tenferro.ext.einsum import read as read_subscripts
from tenferro.ext.fft.families import Fft
from tenferro.ext.linalg.families import Cholesky, TriangularSolve
from tenferro.extension import ExtensionOp
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.ops.elementwise import And, Compare, Conj, Select
from tenferro.ops.extension import Extension
from tenferro.ops.reduction import CumSum
from tenferro.ops.source import Iota
from tenferro.ops.structural import BroadcastInDim, Concatenate, OptimizationBarrier, Tril, Triu
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS", "adjoint", "extension", "mirrored", "solved", "swapped"]

MOST_GROUPS = 4096
"""Maximum number of groups of `chlo.ragged_dot`, which is read as a separate product for each group."""


def extension(r: Reader, op: ExtensionOp, *operands: int) -> tuple[int, ...]:
    """Apply an extension op, and return its results."""
    return r.apply(Extension(op), *operands)


def _precision(operation: Operation) -> str | None:
    """Return the precision of a product; None if it is not set, or if it differs between the operands."""
    asked = operation.attributes.get("precision_config") or ()
    return str(asked[0]).lower() if asked and len(set(asked)) == 1 else None


def dot_general(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    numbers = operation.attributes["dot_dimension_numbers"]
    return _dot(
        r,
        operation,
        operands,
        numbers["lhs_contracting_dimensions"],
        numbers["rhs_contracting_dimensions"],
        numbers["lhs_batching_dimensions"],
        numbers["rhs_batching_dimensions"],
    )


def dot(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    rank = len(r.spec(operands[0]).shape)
    return _dot(r, operation, operands, (rank - 1,), (0,), (), ())


def _dot(r: Reader, operation: Operation, operands: Sequence[int], *axes: Sequence[int]) -> int:
    contracting, others, batch, others_batch = map(tuple, axes)
    op = DotGeneral(contracting, others, batch, others_batch, _precision(operation))
    return _multiplied(r, op, operands, operation.spec.dtype)


def _multiplied(
    r: Reader, op: DotGeneral | Convolution, operands: Sequence[int], wanted: DType
) -> int:
    """Apply a product op in a dtype that can hold its result, and convert the result to `wanted`.

    A product of bools is computed in int32: it is true if any pair of multiplied elements is true.
    """
    dtypes = [r.spec(x).dtype for x in operands]
    if dtypes[0].is_bool:
        counted = [r.convert(x, DType.I32) for x in operands]
        total = r.apply_one(replace(op, precision=None), *counted)
        return r.convert(r.apply_one(Compare("NE"), total, r.full(0, r.spec(total))), wanted)
    common = _common(dtypes[0], dtypes[1], wanted)
    return r.convert(r.apply_one(op, *[r.convert(x, common) for x in operands]), wanted)


def _common(lhs: DType, rhs: DType, wanted: DType) -> DType:
    """Return the dtype to which the operands of a product are converted before the product is computed.

    If both operands have one dtype, and this is the result's dtype `wanted` or has more bits, it is kept. Otherwise
    return `wanted`, or for a narrow float `wanted` the dtype in which such floats are accumulated.
    """
    if lhs is rhs and (lhs is wanted or lhs.bits > wanted.bits):
        return lhs
    if wanted.is_float and wanted.bits <= max(lhs.bits, rhs.bits):
        return wanted.accumulator
    return wanted


def ragged_dot(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a product in which an axis of `lhs`, the ragged axis, is divided into consecutive groups.

    The third operand contains the sizes of the groups. There are three kinds of ragged axes:

    - An axis of rows: each group is multiplied by its own matrix of `rhs`. Rows outside all groups are zero.
    - A contracting axis: each group is summed separately. The results are stacked along a new first axis.
    - A batch axis: the product does not depend on the groups.

    The sizes of the groups may differ between indices along axes of the same kind that precede the ragged axis.

    Source: CHLO's operation definitions, "ragged_dot".
    """
    lhs, rhs, sizes = operands
    numbers = _ragged_numbers(operation)
    contracting, others, batch, others_batch = numbers[:4]
    shape, given = r.spec(lhs).shape, r.spec(sizes).shape
    free = [n for n in range(len(shape)) if n not in (*batch, *contracting)]
    ragged, group = numbers[4:]
    wanted_groups = int(not {*ragged}.isdisjoint(free))
    if len(ragged) != 1 or max(ragged) >= len(shape) or len(group) != wanted_groups:
        raise InvalidConfigError(
            f"chlo.ragged_dot: ragged dimensions {ragged} and group dimensions {group} of {r.spec(lhs)} and {r.spec(rhs)}; "
            "one axis of lhs is ragged, and rhs has a group dimension if this axis is one of rows"
        )
    (axis,) = ragged
    if group and group[0] >= r.spec(rhs).rank:
        raise InvalidConfigError(
            f"chlo.ragged_dot: {r.spec(rhs)} has no group dimension {group[0]}"
        )
    kind = next(axes for axes in (batch, contracting, free) if axis in axes)
    outer = [*([] if kind is batch else batch), *kind[: kind.index(axis)]]
    rank = len(given)
    if not rank or (rank > 1 and list(given[:-1]) != [shape[n] for n in outer]):
        raise InvalidConfigError(
            f"chlo.ragged_dot: group sizes of {r.spec(sizes)} for the axes {outer} of {r.spec(lhs)}"
        )
    if kind is batch:
        return _dot(r, operation, (lhs, rhs), *numbers[:4])
    outer = outer if rank > 1 else []
    count = given[-1]
    wanted = operation.spec.shape[0] if axis in contracting else r.spec(rhs).shape[group[0]]
    if count != wanted or not 0 <= count <= MOST_GROUPS:
        raise InvalidConfigError(
            f"chlo.ragged_dot: group sizes of {r.spec(sizes)} for {wanted} groups; {MOST_GROUPS} are the most"
        )
    sizes = r.convert(sizes, DType.I64)
    ends = r.apply_one(CumSum(len(outer)), sizes)
    if axis in contracting:
        other = dict(zip((*batch, *contracting), (*others_batch, *others), strict=True))
        places = [(axis, outer), (other[axis], [other[n] for n in outer])]
        zeros = [r.full(0, r.spec(x)) for x in (lhs, rhs)]
        parts = []
        for n in range(count):
            inside = [
                _members(r, r.spec(x), *place, ends, n)
                for x, place in zip((lhs, rhs), places, strict=True)
            ]
            pair = [r.apply_one(Select(), *x) for x in zip(inside, (lhs, rhs), zeros, strict=True)]
            product = _dot(r, operation, pair, *numbers[:4])
            parts.append(r.reshape(product, (1, *r.spec(product).shape)))
        return r.apply_one(Concatenate(0, count), *parts) if count else r.full(0, operation.spec)
    (first,) = group
    if first in (*others, *others_batch):
        raise InvalidConfigError(
            f"chlo.ragged_dot: the axis {first} of groups is contracted or a batch"
        )
    later = [[n - (n > first) for n in axes] for axes in (others, others_batch)]
    in_result = {n: place for place, n in enumerate((*batch, *free))}
    y = r.full(0, operation.spec)
    for n in range(count):
        one = r.slice(rhs, first, n, n + 1)
        rest = [extent for i, extent in enumerate(r.spec(rhs).shape) if i != first]
        product = _dot(
            r, operation, (lhs, r.reshape(one, rest)), contracting, later[0], batch, later[1]
        )
        outside = [in_result[a] for a in outer]
        member = _members(r, operation.spec, in_result[axis], outside, ends, n)
        y = r.apply_one(Select(), member, product, y)
    return y


def _ragged_numbers(operation: Operation) -> list[list[int]]:
    """Return six lists of axes: contracting and batching axes of `lhs` and `rhs`, ragged axes, and group axes."""
    text = str(operation.attributes["ragged_dot_dimension_numbers"])
    names = (
        "lhs_contracting_dimensions", "rhs_contracting_dimensions", "lhs_batching_dimensions",
        "rhs_batching_dimensions", "lhs_ragged_dimensions", "rhs_group_dimensions",
    )  # fmt: skip
    matches = [re.search(rf"{name} = \[([-\d, ]*)\]", text) for name in names]
    numbers = [
        [int(n) for n in match[1].split(",") if n.strip()] if match else [] for match in matches
    ]
    if min([n for axes in numbers for n in axes], default=0) < 0:
        raise InvalidConfigError(f"chlo.ragged_dot: an axis below 0, {text}")
    return numbers


def _members(
    r: Reader, like: TensorSpec, axis: int, outer: Sequence[int], ends: int, group: int
) -> int:
    """Return a mask of the elements that belong to the group number `group` along an axis.

    Args:
        like: the shape of the mask.
        outer: the axes on whose indices the ends of the groups depend.
        ends: the end of each group along the axis, exclusive, with the axes `outer` and an axis of groups.
    """
    place = r.apply_one(Iota(like.shape, axis, DType.I64))
    shape = [like.shape[n] for n in outer]

    def end(n: int) -> int:
        one = r.reshape(r.slice(ends, len(outer), n, n + 1), shape)
        return r.apply_one(BroadcastInDim(like.shape, tuple(outer)), one)

    before = r.apply_one(Compare("LT"), place, end(group))
    return (
        before
        if not group
        else r.apply_one(And(), before, r.apply_one(Compare("GE"), place, end(group - 1)))
    )


def convolution(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    a = operation.attributes
    numbers = a["dimension_numbers"]
    rank = len(numbers["input_spatial_dimensions"])
    ones = (1,) * rank
    padding = a.get("padding")
    pairs = ((0, 0),) * rank if padding is None else np.asarray(padding).reshape(rank, 2).tolist()
    reversal = a.get("window_reversal")
    op = Convolution(
        window_strides=tuple(a.get("window_strides") or ones),
        padding=tuple(map(tuple, pairs)),
        lhs_dilation=tuple(a.get("lhs_dilation") or ones),
        rhs_dilation=tuple(a.get("rhs_dilation") or ones),
        window_reversal=(False,) * rank if reversal is None else tuple(map(bool, reversal)),
        input_batch=numbers["input_batch_dimension"],
        input_feature=numbers["input_feature_dimension"],
        input_spatial=numbers["input_spatial_dimensions"],
        kernel_input_feature=numbers["kernel_input_feature_dimension"],
        kernel_output_feature=numbers["kernel_output_feature_dimension"],
        kernel_spatial=numbers["kernel_spatial_dimensions"],
        output_batch=numbers["output_batch_dimension"],
        output_feature=numbers["output_feature_dimension"],
        output_spatial=numbers["output_spatial_dimensions"],
        feature_group_count=a["feature_group_count"],
        batch_group_count=a["batch_group_count"],
        precision=_precision(operation),
    )
    x, sizes = _without_barrier(r, operands[0]), {}
    if not r.spec(x).is_exact:
        x, sizes = _at_bounds_of_windows(r, op, x, r.spec(operands[1]))
    y = _multiplied(r, op, (x, operands[1]), operation.spec.dtype)
    return truncated(r, y, sizes)


def _at_bounds_of_windows(
    r: Reader, op: Convolution, x: int, kernel: TensorSpec
) -> tuple[int, dict[int, int]]:
    """Pad the batch and spatial axes of x to their bounds; return the sizes of the result's axes, too.

    The zeros beyond an axis are those of the convolution's padding.

    Raises:
        UnsupportedError: the number of features depends on data, or that of batches, which are in groups.
    """
    padded, own = padded_to_bounds(r, x)
    if op.input_feature in own or (op.input_batch in own and op.batch_group_count != 1):
        raise UnsupportedError(
            f"stablehlo.convolution: the data decide the features or the groups of batches of {r.spec(x)}"
        )
    windows = {
        axis: (kernel.shape[op.kernel_spatial[n]], op.window_strides[n], *op.padding[n], op.lhs_dilation[n], op.rhs_dilation[n])
        for n, axis in enumerate(op.input_spatial)
    }  # fmt: skip
    counts = window_counts(r, {axis: n for axis, n in own.items() if axis in windows}, windows)
    sizes = {op.output_spatial[op.input_spatial.index(axis)]: n for axis, n in counts.items()}
    if op.input_batch in own:
        sizes[op.output_batch] = own[op.input_batch]
    return padded, sizes


def _without_barrier(r: Reader, x: int) -> int:
    """Return the operand of the optimization barrier that computes x; return x if no barrier computes it.

    Lowering inserts such a barrier before each integer convolution.
    """
    producer = r.builder.made_by(x)
    is_barrier = producer is not None and producer[0] == OptimizationBarrier(1)
    return producer[1][0] if producer and is_barrier and r.spec(x).dtype.is_integer else x


def einsum(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read `einsum` or `unary_einsum` as the extension op `Einsum`."""
    ranks = [len(r.spec(x).shape) for x in operands]
    notation = read_subscripts(operation.attributes["einsum_config"], ranks)
    (y,) = extension(r, Einsum(notation.inputs, notation.output), *operands)
    return r.convert(y, operation.spec.dtype)


def fft(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a Fourier transform; a guard checks that symbolic extents of transformed axes equal the declared lengths."""
    a, x = operation.attributes, operands[0]
    lengths = tuple(a["fft_length"])
    kind = a["fft_type"].lower()
    last = lengths[-1] // 2 + 1 if kind == "irfft" else lengths[-1]
    wanted = (*lengths[:-1], last)
    shape = r.spec(x).shape
    for axis, length in zip(range(len(shape) - len(wanted), len(shape)), wanted, strict=True):
        if axis >= 0 and isinstance(shape[axis], SymDim):
            reason = f"fft: axis {axis} of the operand has the length that is transformed"
            r.builder.guards.require(shape[axis], "==", length, reason)
            x = r.slice(x, axis, 0, length)
    (y,) = extension(r, Fft(kind, lengths), x)
    return y


def cholesky(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a Cholesky factorisation, which uses one triangle of the operand.

    The op `Cholesky` uses both triangles, so the unused triangle is replaced by the mirror image of the other.
    """
    dtype = r.spec(operands[0]).dtype
    x = r.convert(operands[0], dtype.accumulator)
    is_lower = operation.attributes.get("lower", False)
    (factor,) = extension(r, Cholesky(), mirrored(r, x if is_lower else adjoint(r, x)))
    return r.convert(factor if is_lower else adjoint(r, factor), dtype)


def swapped(r: Reader, x: int) -> int:
    """Swap the last two axes of x."""
    rank = len(r.spec(x).shape)
    return r.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def conjugate(r: Reader, x: int) -> int:
    """Return the complex conjugate of x; x itself if it is real."""
    return r.apply_one(Conj(), x) if r.spec(x).dtype.is_complex else x


def adjoint(r: Reader, x: int) -> int:
    """Return the conjugate transpose of each matrix of x."""
    return conjugate(r, swapped(r, x))


def mirrored(r: Reader, x: int) -> int:
    """Build the Hermitian matrix that has the same lower triangle as x."""
    spec = r.spec(x)
    shape = spec.shape
    rank = len(shape)
    rows = r.apply_one(Iota(shape, rank - 2, DType.I64))
    columns = r.apply_one(Iota(shape, rank - 1, DType.I64))
    below = r.apply_one(Compare("GE"), rows, columns)
    return r.apply_one(Select(), below, x, adjoint(r, x))


def triangular_solve(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    dtype = r.spec(operands[0]).dtype
    a, b = (r.convert(x, dtype.accumulator) for x in operands)
    options = operation.attributes
    solution = solved(
        r,
        a,
        b,
        lower=options["lower"],
        unit=options["unit_diagonal"],
        kind={"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}[options["transpose_a"]],
        left=options["left_side"],
    )
    return r.convert(solution, dtype)


def solved(r: Reader, a: int, b: int, *, lower: bool, unit: bool, kind: str, left: bool) -> int:
    """Solve op(a) x = b for x if `left`, else x op(a) = b, where a is triangular.

    Args:
        lower: whether a is lower triangular.
        unit: whether the diagonal of a is taken to be one.
        kind: the function op: "N" for a itself, "T" for its transpose, "C" for its conjugate transpose.
    """
    triangle: Any = Tril(0) if lower else Triu(0)
    a = r.apply_one(triangle, a)
    if left:
        (x,) = extension(r, TriangularSolve(lower=lower, unit_diagonal=unit, transpose=kind), a, b)
        return x
    # x op(a) = b is equivalent to op(a)^T x^T = b^T.
    turned = {"N": "T", "T": "N", "C": "N"}[kind]
    a = conjugate(r, a) if kind == "C" else a
    op = TriangularSolve(lower=lower, unit_diagonal=unit, transpose=turned)
    (x,) = extension(r, op, a, swapped(r, b))
    return swapped(r, x)


ROWS: ReadRows = {
    "chlo.ragged_dot": ragged_dot,
    "stablehlo.cholesky": cholesky,
    "stablehlo.convolution": convolution,
    "stablehlo.dot": dot,
    "stablehlo.dot_general": dot_general,
    "stablehlo.einsum": einsum,
    "stablehlo.fft": fft,
    "stablehlo.triangular_solve": triangular_solve,
    "stablehlo.unary_einsum": einsum,
}
