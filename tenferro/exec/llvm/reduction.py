"""LLVM lowerings of the reduction ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm import sorting
from tenferro.exec.llvm.code import Code, Element, Index
from tenferro.exec.llvm.folding import Combine, Fold, Indices, alloca_scalar
from tenferro.exec.llvm.rows import Row, Rows
from tenferro.exec.llvm.tensor import Body, Specs, Tensor, Tensors, in_float32, inverse_permute
from tenferro.ops import StdTensorOp, elementwise
from tenferro.ops import reduction as re
from tenferro.types import DType, TensorSpec

__all__ = ["COMBINERS", "LONG_ROW", "ROWS"]

LONG_ROW = 8
"""Minimum extent of the last axis for which a reduction over other axes combines rows elementwise."""
MAX_REGISTER_VECTORS = 4
"""Maximum number of vectors in a row whose partial results are kept in registers."""


COMBINERS: Mapping[type[StdTensorOp], Combine] = {
    elementwise.Add: el.add,
    elementwise.Multiply: el.multiply,
    elementwise.Maximum: el.maximum,
    elementwise.Minimum: el.minimum,
    elementwise.And: el.instruction("", "and"),
    elementwise.Or: el.instruction("", "or"),
}
"""Functions that write the combination of two terms, by elementwise op."""


def reduction() -> Row:
    """Return the lowering of a reduction over axes."""

    def write(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
        (x,), (y,), code = operands, types, body.code
        if not op.axes:
            return [x]
        axes = op.axes
        inner = [x.spec.shape[axis] for axis in axes]
        start, combine = op.identity(y.dtype), COMBINERS[op.combiner]
        free_axes = [axis for axis in range(x.spec.rank) if axis not in op.axes]

        def term(index: Indices, numbers: Indices) -> Element:
            return body.at(x, inverse_permute((*free_axes, *axes), (*index, *numbers)))

        if _combines_rows(x.spec, op.axes):
            memory = body.result(y)
            body.write(body.filled(y, start), memory)

            def element_of_row(number: Index, index: Indices) -> None:
                offset = code.ravel_index(index, y.shape)
                total = code.load(memory.pointer, offset, y.dtype)
                value = term(index, code.unravel_index(number, inner))
                total = combine(code, op, y.dtype, [total, value])
                code.store(total, memory.pointer, offset, y.dtype)

            _loop_over_rows(code, prod(inner), y.shape, element_of_row, y.dtype.itemsize)
            return [body.stored(memory)]

        def element(index: Indices) -> Element:
            fold = Fold(code, op, y.dtype, combine, start)
            return fold.reduce(inner, lambda i: term(index, i))

        return [body.materialised(Tensor(y, element, x.reads))]

    return Row(in_float32(write), moves=True)


def _combines_rows(x: TensorSpec, axes: Sequence[int]) -> bool:
    """Return whether a reduction of x combines rows elementwise, because the last axis is long and not reduced."""
    return bool(x.shape) and x.rank - 1 not in axes and x.shape[-1] >= LONG_ROW


def _loop_over_rows(
    code: Code,
    count: int,
    shape: Sequence[int],
    body: Callable[[Index, Indices], None],
    itemsize: int,
) -> None:
    """Write loops over the rows of the result, over the terms of a row, and over the elements of a term.

    If a row has few vectors, LLVM unrolls its loop and keeps partial results in registers. Otherwise each term would
    wait for the stores of the previous term.

    Args:
        count: the number of terms.
        shape: the shape of the result.
        body: writes the innermost body, for the number of a term and the index of an element.
    """
    *outer, width = shape
    vectors = width * itemsize // (8 * code.lanes)
    chains = vectors if 1 < vectors <= MAX_REGISTER_VECTORS else 1

    def row(index: Indices) -> None:
        code.loop(
            count, lambda k: code.loop(width, lambda j: body(k, (*index, j)), interleave=chains)
        )

    code.loops(outer, row)


def arg_reduction(extreme_of: type[re.Reduction], predicate: str) -> Row:
    """Return the lowering of ArgMax or ArgMin, whose result is the first index of NaN or else of the extreme.

    Args:
        extreme_of: the op that computes the extreme.
        predicate: "gt" for a maximum, "lt" for a minimum.
    """
    reduce = reduction().write

    def write(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
        (x,), (y,), code, axis = operands, types, body.code, op.axis
        dtype, count = x.spec.dtype, x.spec.shape[axis]
        if not count:
            raise NotCompiledError(f"{op.name}: an empty axis is not compiled")
        if _combines_rows(x.spec, (axis,)) and dtype.accumulator is dtype:
            return [_arg_extreme_of_rows(body, x, axis, y, predicate)]
        (extreme,) = reduce(body, extreme_of((axis,)), [x], [TensorSpec(y.shape, dtype)])

        def candidate(index: Indices) -> Element:
            value = body.at(x, index)
            other = body.at(extreme, (*index[:axis], *index[axis + 1 :]))
            is_extreme = _is_extreme(code, dtype, value, other)
            return code.select(is_extreme, index[axis], count)

        spec = TensorSpec(x.spec.shape, y.dtype)
        candidates = Tensor(spec, candidate, x.reads | extreme.reads)
        return reduce(body, re.ReduceMin((axis,)), [candidates], [y])

    return Row(write, moves=True, materialises=True)


def _arg_extreme_of_rows(body: Body, x: Tensor, axis: int, y: TensorSpec, predicate: str) -> Tensor:
    """Write loops that update the extremes and their indices row by row, and return the indices."""
    code, dtype = body.code, x.spec.dtype
    spec = TensorSpec(y.shape, dtype)
    extremes, positions = body.memory(spec), body.result(y)

    def value_of(row: Index, index: Indices) -> Element:
        return body.at(x, (*index[:axis], row, *index[axis:]))

    body.write(Tensor(spec, lambda index: value_of(0, index), x.reads), extremes)
    body.write(body.filled(y, 0), positions)

    def element(number: Index, index: Indices) -> None:
        offset, row = code.ravel_index(index, y.shape), code.add(number, 1)
        value, extreme = value_of(row, index), code.load(extremes.pointer, offset, dtype)
        replaces = _replaces(code, dtype, value, extreme, predicate)
        position = code.load(positions.pointer, offset, y.dtype)
        value = code.select(replaces, value, extreme)
        position = code.select(replaces, row, position)
        code.store(value, extremes.pointer, offset, dtype)
        code.store(position, positions.pointer, offset, y.dtype)

    itemsize = max(dtype.itemsize, y.dtype.itemsize)
    _loop_over_rows(code, x.spec.shape[axis] - 1, y.shape, element, itemsize)
    return body.stored(positions)


def _replaces(code: Code, dtype: DType, value: Element, extreme: Element, predicate: str) -> str:
    """Write whether a value replaces the current extreme: it exceeds the extreme, or is the first NaN."""
    if not dtype.is_inexact:
        sign = "s" if dtype.dtype.kind == "i" else "u"
        return code.icmp(f"{sign}{predicate}", value, extreme)
    is_beyond = code.fcmp(f"u{predicate}", value, extreme)
    is_number = code.fcmp("ord", extreme, extreme)
    return code.value("and", is_beyond, is_number)


def _is_extreme(code: Code, dtype: DType, x: Element, extreme: Element) -> str:
    """Write whether x equals the extreme or is NaN."""
    if not dtype.is_inexact:
        return code.icmp("eq", x, extreme)
    is_equal = code.fcmp("oeq", x, extreme)
    is_nan = code.fcmp("uno", x, x)
    return code.value("or", is_equal, is_nan)


def cumulative() -> Row:
    """Return the lowering of a cumulative reduction along an axis."""

    def write(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
        (x,), (y,), code = operands, types, body.code
        memory, combine = body.result(y), COMBINERS[op.combiner]
        length = y.shape[op.axis]
        others = [n for axis, n in enumerate(y.shape) if axis != op.axis]
        cell = alloca_scalar(code, y.dtype)

        def line(index: Indices) -> None:
            def at(i: Index) -> Indices:
                i = code.add(code.scaled(i, -1), length - 1) if op.reverse else i
                return (*index[: op.axis], i, *index[op.axis :])

            def put(i: Index, value: Element) -> None:
                code.store(value, cell, 0, y.dtype)
                code.store(value, memory.pointer, code.ravel_index(at(i), y.shape), y.dtype)

            def element(i: Index) -> None:
                following = code.add(i, 1)
                total = code.load(cell, 0, y.dtype)
                put(following, combine(code, op, y.dtype, [total, body.at(x, at(following))]))

            if length:
                put(0, body.at(x, at(0)))
                code.loop(length - 1, element)

        code.loops(others, line)
        return [body.stored(memory)]

    return Row(in_float32(write), moves=True)


ROWS: Rows = {
    **dict.fromkeys(
        (re.ReduceSum, re.ReduceProd, re.ReduceMax, re.ReduceMin, re.ReduceAnd, re.ReduceOr),
        reduction(),
    ),
    re.ArgMax: arg_reduction(re.ReduceMax, "gt"),
    re.ArgMin: arg_reduction(re.ReduceMin, "lt"),
    **dict.fromkeys((re.CumSum, re.CumProd, re.CumMax, re.CumMin), cumulative()),
    re.Sort: sorting.SORT,
    re.TopK: sorting.TOP_K,
}
