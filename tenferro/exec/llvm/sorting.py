"""Sorts along short axes, by counting: the place of an element is the number of those that come before it.

That takes n^2 comparisons, without a branch and along the lanes of a vector; elements that are equal keep their order,
as the interpreter's do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenferro.exec.llvm.code import Code, Element, Index, llvm_type
from tenferro.exec.llvm.rows import Row
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.ops import reduction as re
from tenferro.types import DType, TensorSpec

__all__ = ["SORT", "TOP_K"]

LONGEST = 128
"""Extent up to which counting costs less than a call of NumPy's sort from compiled code."""
Indices = tuple[Index, ...]
Before = Callable[[Element, Element], str]


def ascending(code: Code, dtype: DType) -> Before:
    """Whether an element is less than another; NaN is larger than all others."""
    kind = llvm_type(dtype)
    if dtype.is_inexact:

        def is_less(x: Element, y: Element) -> str:
            is_above = code.value(f"fcmp ugt {kind} {y}, {x}")  # or one of both is NaN
            return code.value(f"and i1 {is_above}, {code.value(f'fcmp ord {kind} {x}, {x}')}")

    else:
        predicate = "slt" if dtype.dtype.kind == "i" else "ult"

        def is_less(x: Element, y: Element) -> str:
            return code.value(f"icmp {predicate} {kind} {x}, {y}")

    return is_less


def descending(code: Code, dtype: DType) -> Before:
    """The same the other way round."""
    is_less = ascending(code, dtype)
    return lambda x, y: is_less(y, x)


def ordered(
    body: Body, key: Tensor, axis: int, before: Before, values: Memory, places: Memory | None
) -> None:
    """Write the first elements along an axis, as many as there is memory for, and where they were.

    Args:
        before: whether an element has to come before another.
    """
    code, shape, dtype = body.code, key.spec.shape, key.spec.dtype
    length, count = shape[axis], values.spec.shape[axis]
    integer = "i64" if dtype.itemsize == 8 else "i32"
    rank = code.cell(integer)

    def line(index: Indices) -> None:
        def at(i: Index) -> Indices:
            return (*index[:axis], i, *index[axis:])

        def element(i: Index) -> None:
            x = body.at(key, at(i))

            def counted(start: Index, number: Index, comes_first: Callable[[Element], str]) -> None:
                def one(j: Index) -> None:
                    y = body.at(key, at(code.add(j, start)))
                    more = code.value(f"zext i1 {comes_first(y)} to {integer}")
                    total = code.value(f"load {integer}, ptr {rank}")
                    code.line(
                        f"store {integer} {code.value(f'add {integer} {total}, {more}')}, ptr {rank}"
                    )

                code.loop(number, one)

            code.line(f"store {integer} 0, ptr {rank}")
            # Elements that are equal to x come first where they stand before it.
            counted(0, i, lambda y: code.value(f"xor i1 {before(x, y)}, true"))
            following = code.add(i, 1)
            rest = code.add(code.scaled(following, -1), length)
            counted(following, rest, lambda y: before(y, x))
            position = code.value(f"load {integer}, ptr {rank}")
            if integer != "i64":
                position = code.value(f"zext {integer} {position} to i64")

            def put() -> None:
                offset = code.linear(at(position), values.spec.shape)
                code.store(x, values.pointer, offset, dtype)
                if places is not None:
                    code.store(str(i), places.pointer, offset, DType.I64)

            if count == length:
                put()
            else:
                code.branch(code.value(f"icmp ult i64 {position}, {count}"), put, lambda: None)

        code.loop(length, element)

    code.loops([n for number, n in enumerate(shape) if number != axis], line)


def sort(
    body: Body, op: re.Sort, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """The key in order, and the other operands taken along."""
    key, code, axis = operands[0], body.code, op.axis
    values = body.memory(types[0])
    if op.count == 1:
        ordered(body, key, axis, ascending(code, key.spec.dtype), values, None)
        return [body.stored(values)]
    places = body.memory(TensorSpec(key.spec.shape, DType.I64))
    ordered(body, key, axis, ascending(code, key.spec.dtype), values, places)

    def taken(x: Tensor, y: TensorSpec) -> Tensor:
        def element(index: Indices) -> Element:
            offset = code.linear(index, y.shape)
            position = code.load(places.pointer, offset, DType.I64)
            return body.at(x, (*index[:axis], position, *index[axis + 1 :]))

        return Tensor(y, element, x.reads | {places})

    others = zip(operands[1:], types[1:], strict=True)
    return [body.stored(values), *[taken(x, y) for x, y in others]]


def top_k(
    body: Body, op: re.TopK, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """The largest elements and their places; of equal ones the first."""
    (key,) = operands
    values, places = (body.memory(spec) for spec in types)
    before = descending(body.code, key.spec.dtype)
    ordered(body, key, key.spec.rank - 1, before, values, places)
    return [body.stored(values), body.stored(places)]


def _refusal(op: re.Sort | re.TopK, operands: Sequence[TensorSpec]) -> str:
    key = operands[0]
    if key.dtype.is_complex:
        return f"an order of {key.dtype.value} is not compiled"
    extent = key.shape[op.axis if isinstance(op, re.Sort) else -1]
    return f"{extent} elements are more than {LONGEST}" if extent > LONGEST else ""


SORT = Row(sort, moves=True, settles=(0,), refusal=_refusal)
TOP_K = Row(top_k, moves=True, settles=(0,), refusal=_refusal)
