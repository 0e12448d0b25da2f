"""LLVM lowerings of sorts along short axes: an element's position is the number of elements that precede it.

A sort of n elements takes n^2 comparisons, but LLVM vectorises it, because it has no branches. It is stable.
"""

from __future__ import annotations

from collections.abc import Callable

from tenferro.exec.llvm.code import Code, Element, Index
from tenferro.exec.llvm.rows import Row
from tenferro.exec.llvm.tensor import Body, Memory, Specs, Tensor, Tensors
from tenferro.ops import reduction as re
from tenferro.types import DType, TensorSpec

__all__ = ["SORT", "TOP_K"]

MAX_EXTENT = 128
"""Maximum extent of the axis of a compiled sort; NumPy's sort is faster along longer axes."""
Indices = tuple[Index, ...]


def precedes(code: Code, dtype: DType, x: Element, y: Element) -> str:
    """Write whether x < y, where NaN is larger than all numbers."""
    if not dtype.is_inexact:
        return code.icmp("slt" if dtype.dtype.kind == "i" else "ult", x, y)
    is_above = code.fcmp("ugt", y, x)  # true if x or y is NaN
    return code.value("and", is_above, code.fcmp("ord", x, x))


def rank_sort(
    body: Body, key: Tensor, axis: int, values: Memory, positions: Memory, falls: bool = False
) -> None:
    """Write the first elements in sorted order, and their positions before the sort.

    Args:
        values, positions: the memory of the results; its extent along the axis is the number of elements to write.
        falls: whether the largest element comes first.
    """
    code, shape, dtype = body.code, key.spec.shape, key.spec.dtype
    length, count = shape[axis], values.spec.shape[axis]
    integer = "i64" if dtype.itemsize == 8 else "i32"

    def before(x: Element, y: Element) -> str:
        return precedes(code, dtype, y, x) if falls else precedes(code, dtype, x, y)

    rank = code.alloca(integer)

    def line(index: Indices) -> None:
        def at(i: Index) -> Indices:
            return (*index[:axis], i, *index[axis:])

        def element(i: Index) -> None:
            x = body.at(key, at(i))

            def count_before(
                start: Index, number: Index, precedes: Callable[[Element], str]
            ) -> None:
                def other(j: Index) -> None:
                    y = body.at(key, at(code.add(j, start)))
                    more = code.cast("zext", precedes(y), integer)
                    total = code.load_value(integer, rank)
                    total = code.value("add", total, more)
                    code.store_value(total, rank, integer)

                code.loop(number, other)

            code.store_value(0, rank, integer)
            # Equal elements at smaller indices precede x.
            count_before(0, i, lambda y: code.value("xor", before(x, y), "true"))
            following = code.add(i, 1)
            rest = code.add(code.scaled(following, -1), length)
            count_before(following, rest, lambda y: before(y, x))
            position = code.load_value(integer, rank)
            if integer != "i64":
                position = code.cast("zext", position, "i64")

            def store() -> None:
                offset = code.ravel_index(at(position), values.spec.shape)
                code.store(x, values.pointer, offset, dtype)
                code.store(i, positions.pointer, offset, DType.I64)

            if count == length:
                store()
            else:
                code.branch(code.icmp("ult", position, count), store, lambda: None)

        code.loop(length, element)

    code.loops([n for number, n in enumerate(shape) if number != axis], line)


def sort(body: Body, op: re.Sort, operands: Tensors, types: Specs) -> Tensors:
    """Write the sorted first operand, and the other operands in the same order."""
    key, axis = operands[0], op.axis
    values, positions = body.memory(types[0]), body.memory(TensorSpec(key.spec.shape, DType.I64))
    rank_sort(body, key, axis, values, positions)
    order = body.stored(positions)

    def permuted(x: Tensor, y: TensorSpec) -> Tensor:
        def element(index: Indices) -> Element:
            return body.at(x, (*index[:axis], body.at(order, index), *index[axis + 1 :]))

        return Tensor(y, element, x.reads | order.reads)

    others = zip(operands[1:], types[1:], strict=True)
    return [body.stored(values), *[permuted(x, y) for x, y in others]]


def top_k(body: Body, op: re.TopK, operands: Tensors, types: Specs) -> Tensors:
    """Write the largest elements and their positions; equal elements are in the order of their positions."""
    (key,) = operands
    values, positions = (body.memory(spec) for spec in types)
    rank_sort(body, key, key.spec.rank - 1, values, positions, falls=True)
    return [body.stored(values), body.stored(positions)]


def _refusal(op: re.Sort | re.TopK, operands: Specs) -> str:
    key = operands[0]
    if key.dtype.is_complex:
        return f"an order of {key.dtype.value} is not compiled"
    extent = key.shape[op.axis if isinstance(op, re.Sort) else -1]
    return f"{extent} elements are more than {MAX_EXTENT}" if extent > MAX_EXTENT else ""


SORT = Row(sort, moves=True, materialises=(0,), refusal=_refusal)
TOP_K = Row(top_k, moves=True, materialises=(0,), refusal=_refusal)
