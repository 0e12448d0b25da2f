"""Rows of the reduction family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm import sorting
from tenferro.exec.llvm.code import Code, Element, Flat, Index, llvm_type
from tenferro.exec.llvm.folding import Combine, Fold, Indices, cell_of
from tenferro.exec.llvm.rows import Row, Rows
from tenferro.exec.llvm.tensor import Body, Tensor, by_axes, in_float32
from tenferro.ops import reduction as re
from tenferro.types import DType, TensorSpec

__all__ = ["LONG_ROW", "ROWS", "TOTALS", "identity"]

LONG_ROW = 8
"""Elements of a row that is worth combining with others element by element."""
FEW_VECTORS = 4
"""Of a row whose results stay in registers while one row after the other is combined with them."""


def identity(name: str, dtype: DType) -> Any:
    """The identity of a reduction, where it starts."""
    kind = dtype.dtype
    if name == "sum":
        return 0
    if name == "prod":
        return 1
    largest = name in ("min", "and")
    if dtype.is_bool:
        return largest
    if name == "and":
        return -1 if kind.kind == "i" else np.iinfo(kind).max
    if name == "or":
        return 0
    if not dtype.is_inexact:
        return np.iinfo(kind).max if largest else np.iinfo(kind).min
    return np.inf if largest else -np.inf


def reduction(name: str, combine: Combine, is_exact: bool = True) -> Row:
    """Over axes: each element of the result by a loop of its own."""

    def write(
        body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
    ) -> Sequence[Tensor]:
        (x,), (y,), code = operands, types, body.code
        if not op.axes:
            return [x]
        if name == "sum" and y.dtype.is_bool:
            raise NotCompiledError(f"{op.name}: bool is not compiled")
        axes = op.axes
        inner = [x.spec.shape[axis] for axis in axes]
        start = identity(name, y.dtype)
        free_axes = [axis for axis in range(x.spec.rank) if axis not in op.axes]
        # Numbers of elements go on from axis to axis.
        is_flat = x.is_flat and [*free_axes, *axes] == [*range(x.spec.rank)]

        def term(index: Indices, numbers: Indices) -> Element:
            return body.at(x, by_axes((*free_axes, *axes), (*index, *numbers)))

        def flat_term(index: Indices, number: Index) -> Element:
            first = code.scaled(code.linear(index, y.shape), prod(inner))
            return body.at(x, Flat((code.add(first, number),)))

        if _is_by_rows(x.spec, op.axes):
            memory = body.result(y)
            body.write(body.filled(y, start), memory)

            def one(number: Index, index: Indices) -> None:
                at = code.linear(index, y.shape)
                total = code.load(memory.pointer, at, y.dtype)
                value = term(index, code.position(number, inner))
                total = combine(code, op, y.dtype, [total, value])
                code.store(total, memory.pointer, at, y.dtype)

            _by_rows(code, prod(inner), y.shape, one, y.dtype.itemsize)
            return [body.stored(memory)]

        def element(index: Indices) -> Element:
            fold = Fold(code, op, y.dtype, combine, start)
            if is_flat:
                return fold.of([prod(inner)], lambda i: flat_term(index, *i))
            return fold.of(inner, lambda i: term(index, i))

        return [body.settled(Tensor(y, element, x.reads))]

    return Row(in_float32(write), moves=True, is_exact=is_exact)


def _is_by_rows(x: TensorSpec, axes: Sequence[int]) -> bool:
    """Whether rows are combined, element by element, because the last axis stays."""
    return bool(x.shape) and x.rank - 1 not in axes and x.shape[-1] >= LONG_ROW


def _by_rows(
    code: Code,
    count: int,
    shape: Sequence[int],
    one: Callable[[Index, Indices], None],
    itemsize: int,
) -> None:
    """`one` of each term and each element of a result: row after row, and term after term within it.

    LLVM writes a row of a few vectors without a loop, and then keeps the results in registers, where each row would
    wait for what the one before has stored.
    """
    *outer, width = shape
    vectors = width * itemsize // (8 * max(code.lanes, default=1))
    chains = vectors if 1 < vectors <= FEW_VECTORS else 1

    def row(index: Indices) -> None:
        code.loop(count, lambda k: code.loop(width, lambda j: one(k, (*index, j)), chains=chains))

    code.loops(outer, row)


def arg_reduction(name: str, combine: Combine) -> Row:
    """The first place of the extreme value, which is NaN where there is one."""
    extremes, first = reduction(name, combine), reduction("min", el.minimum)
    beats = "gt" if name == "max" else "lt"

    def write(
        body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
    ) -> Sequence[Tensor]:
        (x,), (y,), code, axis = operands, types, body.code, op.axis
        dtype, count = x.spec.dtype, x.spec.shape[axis]
        if dtype.is_complex:
            raise NotCompiledError(f"{op.name}: {dtype.value} is not compiled")
        if not count:
            raise NotCompiledError(f"{op.name}: an empty axis is not compiled")
        if _is_by_rows(x.spec, (axis,)) and dtype.accumulator is dtype:
            return [_leaders(body, x, axis, y, beats)]
        along = re.ReduceMin((axis,))
        (extreme,) = extremes.write(body, along, [x], [TensorSpec(y.shape, dtype)])

        def place(index: Indices) -> Element:
            value = body.at(x, index)
            wins = _is_same(
                code, dtype, value, body.at(extreme, (*index[:axis], *index[axis + 1 :]))
            )
            return code.value(f"select i1 {wins}, i64 {index[axis]}, i64 {count}")

        places = Tensor(TensorSpec(x.spec.shape, y.dtype), place, x.reads | extreme.reads)
        return first.write(body, along, [places], [y])

    return Row(write, moves=True, settles=True)


def _leaders(body: Body, x: Tensor, axis: int, y: TensorSpec, beats: str) -> Tensor:
    """The places of extreme values, by rows: values that lead and their places change together, row after row."""
    code, dtype = body.code, x.spec.dtype
    spec = TensorSpec(y.shape, dtype)
    leaders, places = body.memory(spec), body.result(y)

    def value_of(row: Index, index: Indices) -> Element:
        return body.at(x, (*index[:axis], row, *index[axis:]))

    body.write(Tensor(spec, lambda index: value_of(0, index), x.reads), leaders)
    body.write(body.filled(y, 0), places)

    def one(number: Index, index: Indices) -> None:
        at, row = code.linear(index, y.shape), code.add(number, 1)
        value, leader = value_of(row, index), code.load(leaders.pointer, at, dtype)
        wins = _wins(code, dtype, value, leader, beats)
        type_, place = llvm_type(dtype), code.load(places.pointer, at, y.dtype)
        value = code.value(f"select i1 {wins}, {type_} {value}, {type_} {leader}")
        place = code.value(f"select i1 {wins}, i64 {row}, i64 {place}")
        code.store(value, leaders.pointer, at, dtype)
        code.store(place, places.pointer, at, y.dtype)

    _by_rows(code, x.spec.shape[axis] - 1, y.shape, one, max(dtype.itemsize, y.dtype.itemsize))
    return body.stored(places)


def _wins(code: Code, dtype: DType, value: Element, leader: Element, beats: str) -> str:
    """Whether a value takes the lead: it is farther out, or the first NaN."""
    kind = llvm_type(dtype)
    if not dtype.is_inexact:
        sign = "s" if dtype.dtype.kind == "i" else "u"
        return code.value(f"icmp {sign}{beats} {kind} {value}, {leader}")
    is_farther = code.value(f"fcmp u{beats} {kind} {value}, {leader}")
    is_number = code.value(f"fcmp ord {kind} {leader}, {leader}")
    return code.value(f"and i1 {is_farther}, {is_number}")


def _is_same(code: Code, dtype: DType, x: Element, extreme: Element) -> str:
    """Whether an element is the extreme one, or NaN, which is extreme then."""
    kind = llvm_type(dtype)
    if not dtype.is_inexact:
        return code.value(f"icmp eq {kind} {x}, {extreme}")
    is_equal = code.value(f"fcmp oeq {kind} {x}, {extreme}")
    is_nan = code.value(f"fcmp uno {kind} {x}, {x}")
    return code.value(f"or i1 {is_equal}, {is_nan}")


def cumulative(combine: Combine, is_exact: bool = True) -> Row:
    """The running result along an axis."""

    def write(
        body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
    ) -> Sequence[Tensor]:
        (x,), (y,), code = operands, types, body.code
        if y.dtype.is_bool:
            raise NotCompiledError(f"{op.name}: {y.dtype.value} is not compiled")
        memory = body.result(y)
        length = y.shape[op.axis]
        others = [n for axis, n in enumerate(y.shape) if axis != op.axis]
        cell = cell_of(code, y.dtype)

        def line(index: Indices) -> None:
            def at(i: Index) -> Indices:
                i = code.add(code.scaled(i, -1), length - 1) if op.reverse else i
                return (*index[: op.axis], i, *index[op.axis :])

            def put(i: Index, value: Element) -> None:
                code.store(value, cell, 0, y.dtype)
                code.store(value, memory.pointer, code.linear(at(i), y.shape), y.dtype)

            def turn(i: Index) -> None:
                following = code.add(i, 1)
                total = code.load(cell, 0, y.dtype)
                put(following, combine(code, op, y.dtype, [total, body.at(x, at(following))]))

            if length:
                put(0, body.at(x, at(0)))
                code.loop(length - 1, turn)

        code.loops(others, line)
        return [body.stored(memory)]

    return Row(in_float32(write), moves=True, is_exact=is_exact)


TOTALS: dict[type, tuple[str, Combine]] = {
    re.ReduceSum: ("sum", el.add),
    re.ReduceProd: ("prod", el.multiply),
    re.ReduceMax: ("max", el.maximum),
    re.ReduceMin: ("min", el.minimum),
    re.ReduceAnd: ("and", el.logical("and")),
    re.ReduceOr: ("or", el.logical("or")),
}
"""The name of a reduction over rows, and what combines two parts of it."""
ROWS: Rows = {
    re.ReduceSum: reduction("sum", el.add, is_exact=False),
    re.ReduceProd: reduction("prod", el.multiply, is_exact=False),
    re.ReduceMax: reduction("max", el.maximum),
    re.ReduceMin: reduction("min", el.minimum),
    re.ReduceAnd: reduction("and", el.logical("and")),
    re.ReduceOr: reduction("or", el.logical("or")),
    re.ArgMax: arg_reduction("max", el.maximum),
    re.ArgMin: arg_reduction("min", el.minimum),
    re.CumSum: cumulative(el.add, is_exact=False),
    re.CumProd: cumulative(el.multiply, is_exact=False),
    re.CumMax: cumulative(el.maximum),
    re.CumMin: cumulative(el.minimum),
    re.Sort: sorting.SORT,
    re.TopK: sorting.TOP_K,
}
