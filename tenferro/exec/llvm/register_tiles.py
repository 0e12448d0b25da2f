"""Products of matrices by vector multiply-adds, with tiles of results in registers.

A product of a few thousand to a million multiplications takes less time than BLAS needs to copy its operands into the
order of its kernels. The tile that costs least by `_Tile.cost` is chosen when the code is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from tenferro.exec.llvm.code import Code, Index, llvm_type
from tenferro.exec.llvm.ir import Instruction, Value, VectorType
from tenferro.types import DType

__all__ = ["MAX_CACHED_BYTES", "accumulate", "broadcast", "lanes_for", "product"]

MAX_CACHED_BYTES = 1 << 15
"""Size of the first-level cache, in bytes: a second operand within it may be read by any number of tiles."""
MAX_STREAMED_ROWS = 16
"""Maximum number of rows for which a second operand beyond that size is read again, and not copied as BLAS does."""
MAX_MULTIPLICATIONS = 1 << 21
"""Maximum number of multiplications of a product; BLAS distributes larger ones over threads."""
MIN_ACCUMULATORS = 9
"""Number of independent multiply-adds in flight: latency of one, times the number that begin in a cycle."""
REDUCTION_COST = 8
"""Cost of the sum of the lanes of an accumulator, in multiply-adds."""


class _Tile(NamedTuple):
    """Tile of results: its rows, its vectors (or, for dot products, columns), and the elements of a vector."""

    rows: int
    columns: int
    lanes: int

    def cost(self, extents: tuple[int, int], extra: int) -> int:
        """Return the cost of a product, in multiply-adds per term or vector of terms; `extra` is for a whole tile."""
        rows, columns = extents
        tiles = -(-rows // self.rows) * -(-columns // self.columns)
        size = self.rows * self.columns
        return tiles * (max(size, MIN_ACCUMULATORS, self.rows + self.columns) + extra * size)


def lanes_for(code: Code, dtype: DType) -> list[int]:
    """Return the numbers of elements of vectors, the widest first; none without multiply-adds."""
    if not code.contracts or dtype not in (DType.F32, DType.F64):
        return []
    widest = max(code.lanes, default=2)
    sizes = dict.fromkeys((widest, widest // 2, 2))
    return [size * 8 // dtype.itemsize for size in sizes if size > 1]


def product(
    code: Code, dtype: DType, are_transposed: tuple[bool, bool], extents: tuple[int, int, int]
) -> Callable[[str, str, str], None] | None:
    """Return the writer of `y[i, j] = sum_k lhs[i, k] rhs[k, j]`, or None if a call of BLAS costs less.

    Args:
        are_transposed: whether lhs is `[terms, rows]`, else `[rows, terms]`; whether rhs is `[terms, columns]`, else
            `[columns, terms]`.
        extents: rows, columns and terms.

    Returns:
        a function of the pointers to contiguous lhs, rhs and y, which is row-major and does not overlap them.
    """
    (lhs_transposed, rhs_transposed), (rows, columns, terms) = are_transposed, extents
    size = columns * terms * dtype.itemsize
    is_large = size > MAX_CACHED_BYTES and rows > MAX_STREAMED_ROWS
    if is_large or rows * columns * terms > MAX_MULTIPLICATIONS:
        return None
    widths = lanes_for(code, dtype)
    if rhs_transposed:
        lanes = next((each for each in widths if each <= columns), 0)
        strides = (1, rows) if lhs_transposed else (terms, 1)
        return partial(_write_by_rows, code, dtype, extents, strides, lanes) if lanes else None
    lanes = next((each for each in widths if terms % each == 0), 0)
    if lhs_transposed or not lanes:
        return None
    return partial(_write_by_dots, code, dtype, extents, lanes)


def accumulate(
    code: Code,
    count: int,
    totals: Sequence[Value],
    term: Callable[[Index, Sequence[Value]], Sequence[Value]],
) -> list[Value]:
    """Write a loop over 0, 1, .. count - 1 that carries totals in registers, and return the last ones.

    Args:
        totals: initial values.
        term: writes an iteration, from its index and the totals, and returns the next totals.
    """
    head, inside, end = (code.name(each) for each in ("head", "body", "end"))
    before = code.block
    i, more, following = code.name("i", "i64"), code.name("more", "i1"), code.name("next", "i64")
    code.br(head)
    code.label(head)
    names = [code.name("t", total.type) for total in totals]
    nodes = [code.phi("i64", i), *[code.phi(name.type, name) for name in names]]
    code.append(Instruction("icmp", (i, Value(count, "i64")), more, flags="slt"))
    code.br(inside, end, condition=more)
    code.label(inside)
    with code.scope(), code.times(count):
        updated = term(i, names)
    code.append(Instruction("add", (i, Value(1, "i64")), following, flags="nsw"))
    back = code.block
    code.br(head)
    incoming = zip((Value(0, "i64"), *totals), (following, *updated), strict=True)
    for node, (first, again) in zip(nodes, incoming, strict=True):
        node.operands, node.labels = (first, again), (before, back)
    code.label(end)
    return names


def broadcast(code: Code, x: Value, lanes: int) -> Value:
    """Return a vector with a number in all lanes."""
    poison = Value("poison", VectorType(lanes, x.type))
    return code.shuffle(code.insert(poison, x, 0), "poison", (0,) * lanes)


def _best_tile(code: Code, extents: tuple[int, int], lanes: int, extra: int = 0) -> _Tile:
    """Return the tile of the least cost whose accumulators, columns and one row fit into the registers."""
    registers = 32 if max(code.lanes, default=0) > 4 else 16
    tiles = [
        _Tile(rows, columns, lanes)
        for rows in range(1, 1 + min(extents[0], registers - 2))
        for columns in range(1, 1 + min(extents[1], (registers - 1) // (rows + 1)))
    ]
    return min(tiles, key=lambda tile: tile.cost(extents, extra))


def _tiles(code: Code, extent: int, size: int, write: Callable[[Index], None]) -> None:
    """Write a loop over tiles along an axis; the last one overlaps the one before if the size does not divide."""

    def tile(number: Index) -> None:
        first = code.scaled(number, size)
        write(code.intrinsic("smin", first, extent - size) if extent % size else first)

    code.loop(-(-extent // size), tile)


def _write_by_rows(
    code: Code,
    dtype: DType,
    extents: tuple[int, int, int],
    lhs_strides: tuple[int, int],
    lanes: int,
    lhs: str,
    rhs: str,
    y: str,
) -> None:
    """Write outer products of columns of lhs and rows of rhs, which is `[terms, columns]`."""
    (rows, columns, terms), (row_stride, term_stride) = extents, lhs_strides
    tile = _best_tile(code, (rows, columns // lanes), lanes)
    element = llvm_type(dtype)
    vector, align = VectorType(lanes, element), f", align {dtype.itemsize}"
    places = [(m, v) for m in range(tile.rows) for v in range(tile.columns)]

    def write(m: Index, o: Index) -> None:
        code.mark_call()  # because LLVM has nothing to vectorise
        a = code.scaled(m, row_stride)

        def multiply_add(k: Index, totals: Sequence[Value]) -> list[Value]:
            b = code.add(code.scaled(k, columns), o)
            row = [
                code.load_value(vector, code.address(rhs, code.add(b, v * lanes), dtype), align)
                for v in range(tile.columns)
            ]
            at = code.add(a, code.scaled(k, term_stride))
            column = [
                broadcast(code, code.load(lhs, code.add(at, i * row_stride), dtype), lanes)
                for i in range(tile.rows)
            ]
            return [
                code.intrinsic("fma", column[i], row[v], total)
                for (i, v), total in zip(places, totals, strict=True)
            ]

        totals = accumulate(
            code, terms, [Value("zeroinitializer", vector)] * len(places), multiply_add
        )
        to = code.add(code.scaled(m, columns), o)
        for (i, v), total in zip(places, totals, strict=True):
            address = code.address(y, code.add(to, i * columns + v * lanes), dtype)
            code.store_value(total, address, suffix=align)

    _tiles(
        code,
        columns,
        tile.columns * lanes,
        lambda o: _tiles(code, rows, tile.rows, lambda m: write(m, o)),
    )


def _write_by_dots(
    code: Code,
    dtype: DType,
    extents: tuple[int, int, int],
    lanes: int,
    lhs: str,
    rhs: str,
    y: str,
) -> None:
    """Write dot products of rows of lhs and of rhs, which is `[columns, terms]`."""
    rows, columns, terms = extents
    extra = -(-REDUCTION_COST * lanes // terms)
    tile = _best_tile(code, (rows, columns), lanes, extra)
    vector, align = VectorType(lanes, llvm_type(dtype)), f", align {dtype.itemsize}"
    places = [(i, j) for i in range(tile.rows) for j in range(tile.columns)]

    def write(m: Index, o: Index) -> None:
        code.mark_call()  # because LLVM has nothing to vectorise

        def vectors(pointer: str, first: Index, count: int, k: Index) -> list[Value]:
            start = code.add(code.scaled(first, terms), code.scaled(k, lanes))
            return [
                code.load_value(
                    vector, code.address(pointer, code.add(start, i * terms), dtype), align
                )
                for i in range(count)
            ]

        def multiply_add(k: Index, totals: Sequence[Value]) -> list[Value]:
            left, right = vectors(lhs, m, tile.rows, k), vectors(rhs, o, tile.columns, k)
            return [
                code.intrinsic("fma", left[i], right[j], total)
                for (i, j), total in zip(places, totals, strict=True)
            ]

        zeros = [Value("zeroinitializer", vector)] * len(places)
        totals = accumulate(code, terms // lanes, zeros, multiply_add)
        to = code.add(code.scaled(m, columns), o)
        for (i, j), total in zip(places, totals, strict=True):
            code.store(_sum_of_lanes(code, total), y, code.add(to, i * columns + j), dtype)

    _tiles(
        code,
        columns,
        tile.columns,
        lambda o: _tiles(code, rows, tile.rows, lambda m: write(m, o)),
    )


def _sum_of_lanes(code: Code, x: Value) -> Value:
    """Return the sum of the lanes, halves first."""
    assert isinstance(x.type, VectorType)
    lanes = x.type.lanes
    while lanes > 1:
        lanes //= 2
        low, high = range(lanes), range(lanes, 2 * lanes)
        x = code.value("fadd", code.shuffle(x, "poison", low), code.shuffle(x, "poison", high))
    return code.extract(x, 0)
