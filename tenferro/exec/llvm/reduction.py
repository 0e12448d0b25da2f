"""Rows of the reduction family.

A long sum is one of short ones, and these go along as many lanes as the processor adds at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm import sorting
from tenferro.exec.llvm.code import (
    UNROLLED,
    Code,
    Element,
    Index,
    NotCompiledError,
    literal,
    llvm_type,
    memory_type,
)
from tenferro.exec.llvm.rows import Row, Rows
from tenferro.exec.llvm.tensor import Body, Tensor, in_float32
from tenferro.ops import reduction as re
from tenferro.types import DType, TensorSpec

__all__ = ["BLOCK", "LONG_ROW", "ROWS", "TOTALS", "folded", "identity"]

LONG_ROW = 8
"""Elements of a row that is worth combining with others element by element."""
BLOCK = 1024
"""Terms of a short sum."""
Indices = tuple[Index, ...]
Combine = Callable[[Code, Any, DType, Sequence[Element]], Element]


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


def folded(
    body: Body,
    op: Any,
    spec: TensorSpec,
    count: int,
    term: Callable[[Index], Element],
    combine: Combine,
    start: Any,
) -> Element:
    """All of `count` terms combined."""
    code, dtype = body.code, spec.dtype
    first = literal(start, dtype)
    if count <= UNROLLED:
        total = None
        for i in range(count):
            total = term(i) if total is None else combine(code, op, dtype, [total, term(i)])
        return first if total is None else total
    if combine is el.add:
        combine = added

    def short(begin: Index, size: int) -> Element:
        cell = _cell(code, dtype)
        code.store(first, cell, 0, dtype)

        def one(i: Index) -> None:
            total = code.load(cell, 0, dtype)
            total = combine(code, op, dtype, [total, term(code.add(i, begin))])
            code.store(total, cell, 0, dtype)

        code.loop(size, one)
        return code.load(cell, 0, dtype)

    if count < 2 * BLOCK:
        return short(0, count)
    whole = _cell(code, dtype)
    rest = short(count - count % BLOCK, count % BLOCK) if count % BLOCK else first
    code.store(rest, whole, 0, dtype)

    def block(number: Index) -> None:
        part = short(code.scaled(number, BLOCK), BLOCK)
        total = combine(code, op, dtype, [code.load(whole, 0, dtype), part])
        code.store(total, whole, 0, dtype)

    code.loop(count // BLOCK, block)
    return code.load(whole, 0, dtype)


def _cell(code: Code, dtype: DType) -> str:
    """Memory of the function's own for a number."""
    return code.cell(memory_type(dtype), 2 if dtype.is_complex else 1)


def added(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """A sum that may be added along lanes."""
    kind = llvm_type(dtype)
    if not dtype.is_complex:
        name = "fadd reassoc" if dtype.is_inexact else "or" if dtype.is_bool else "add"
        return code.value(f"{name} {kind} {xs[0]}, {xs[1]}")
    return tuple([code.value(f"fadd reassoc {kind} {a}, {b}") for a, b in zip(*xs, strict=True)])


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
        inner = [x.spec.shape[axis] for axis in sorted(op.axes)]
        start = identity(name, y.dtype)
        free_axes = [axis for axis in range(x.spec.rank) if axis not in op.axes]

        def term(index: Indices, number: Index) -> Element:
            position: list[Index] = [0] * x.spec.rank
            for axis, i in zip(free_axes, index, strict=True):
                position[axis] = i
            for axis, n in zip(sorted(op.axes, reverse=True), reversed(inner), strict=True):
                number, position[axis] = code.divided(number, n) if len(inner) > 1 else (0, number)
            return body.at(x, tuple(position))

        if _is_by_rows(x.spec, op.axes):
            memory = body.result(y)
            body.write(body.filled(y, start), memory)

            def one(number: Index, index: Indices) -> None:
                at = code.linear(index, y.shape)
                total = code.load(memory.pointer, at, y.dtype)
                total = combine(code, op, y.dtype, [total, term(index, number)])
                code.store(total, memory.pointer, at, y.dtype)

            _by_rows(code, prod(inner), y.shape, one)
            return [body.stored(memory)]

        def element(index: Indices) -> Element:
            return folded(body, op, y, prod(inner), lambda i: term(index, i), combine, start)

        return [body.settled(Tensor(y, element, x.reads))]

    return Row(in_float32(write), moves=True, is_exact=is_exact)


def _is_by_rows(x: TensorSpec, axes: Sequence[int]) -> bool:
    """Whether rows are combined, element by element, because the last axis stays."""
    return bool(x.shape) and x.rank - 1 not in axes and x.shape[-1] >= LONG_ROW


def _by_rows(
    code: Code, count: int, shape: Sequence[int], one: Callable[[Index, Indices], None]
) -> None:
    """`one` of each term and each element of a result: row after row, and term after term within it."""
    *outer, width = shape

    def row(index: Indices) -> None:
        code.loop(count, lambda k: code.loop(width, lambda j: one(k, (*index, j))))

    code.loops(outer, row)


def arg_reduction(name: str, combine: Combine) -> Row:
    """The first place of the extreme value, which is NaN where there is one."""
    extremes, first = reduction(name, combine), reduction("min", el.minimum)

    def write(
        body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
    ) -> Sequence[Tensor]:
        (x,), (y,), code, axis = operands, types, body.code, op.axis
        dtype, count = x.spec.dtype, x.spec.shape[axis]
        if dtype.is_complex:
            raise NotCompiledError(f"{op.name}: {dtype.value} is not compiled")
        if not count:
            raise NotCompiledError(f"{op.name}: an empty axis is not compiled")
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
        cell = _cell(code, y.dtype)

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
    re.ReduceSum: ("sum", added),
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
