"""Compiled sums of products of two strided arrays; a tile of results is kept in vector registers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.kernels.sums_of_products import SumOfProducts
from tenferro.exec.llvm.code import Code, Index, llvm_type
from tenferro.exec.llvm.ir import Module, Value, VectorType
from tenferro.exec.llvm.link import Linker, Processor
from tenferro.exec.llvm.python_calls import define_function
from tenferro.program import BoundedCache

__all__ = ["CompiledSums", "module_of"]

KIND = "sum of products"
"""Name of the kind of function in the executor's compile statistics."""
REGISTERS = 32, 15
"""Number of vector registers for totals and for a row, with vectors of 512 bits, and without.

Without them, another register contains a factor.
"""
MAX_TILE_COLUMNS = 4, 2
"""Maximum number of vectors in a row of a tile, with vectors of 512 bits, and without."""
CACHE_ENTRIES = 64
"""Maximum number of modules that one compiler caches."""
MAX_NARROW_MULTIPLICATIONS = 1 << 20
"""Number of multiplications from which BLAS is faster, with a copy of the windows, if vectors are not the widest."""


class CompiledSums:
    """Compiler of sums of products, with a cache of the modules.

    Args:
        min_multiplications: the minimum number of multiplications of a sum that is compiled.
    """

    def __init__(self, linker: Linker, min_multiplications: int) -> None:
        self.linker, self.min_multiplications = linker, min_multiplications
        self._codes: BoundedCache[tuple[Module, bool, int] | None] = BoundedCache(CACHE_ENTRIES)

    def function(
        self, sums: SumOfProducts, multiplications: int
    ) -> tuple[Callable[..., Any], int] | None:
        """Return a function of pointers to a, b and y and of a range of tasks, and the number of tasks per row.

        None is returned if there are few multiplications, if the outputs do not fill vectors, or if LLVM fails.
        """
        if multiplications < self.min_multiplications:
            return None
        with suppress(NotCompiledError):
            written = self._codes.get(sums, lambda: self._written(sums))
            if written is None:
                return None
            module, is_narrow, tasks = written
            if is_narrow and multiplications >= MAX_NARROW_MULTIPLICATIONS:
                return None
            # Without LLVM's passes, a vector of multiplications takes about as many instructions as it has elements.
            baseline = self.linker.baseline(KIND, module, multiplications)
            return baseline or self.linker.function(KIND, module), tasks
        return None

    def _written(self, sums: SumOfProducts) -> tuple[Module, bool, int] | None:
        """Return the module, whether the processor has wider vectors than it uses, and the number of tasks per row."""
        with suppress(NotCompiledError), self.linker.log.attempt(KIND):
            processor = self.linker.processor
            height, _, lanes = tile_of(sums, processor)
            is_narrow = lanes < processor.lanes * 8 // sums.dtype.itemsize
            return (module_of(sums, processor), is_narrow, -(-sums.places[0] // height))
        return None


def tile_of(sums: SumOfProducts, processor: Processor) -> tuple[int, int, int]:
    """Return the number of positions of a tile, of vectors in its rows, and of elements per vector.

    Raises:
        NotCompiledError: the processor has no fused multiply-adds, or the outputs do not fill vectors.
    """
    widest = processor.lanes
    outputs, _ = sums.outputs
    all_lanes = [size * 8 // sums.dtype.itemsize for size in (widest, widest // 2, 2) if size > 1]
    lanes = next((each for each in all_lanes if outputs % each == 0), 0)
    if not processor.has_fma or not lanes:
        raise NotCompiledError(f"{outputs} outputs are not whole vectors of multiply-adds")
    is_narrow, vectors = widest < 8, outputs // lanes
    columns = next(n for n in range(MAX_TILE_COLUMNS[is_narrow], 0, -1) if vectors % n == 0)
    positions = sums.places[0]
    most = min(positions, (REGISTERS[is_narrow] - columns) // columns)

    def loads(height: int) -> tuple[int, int]:
        # If the number of positions is not a multiple of the height, the last tile overlaps the previous one.
        return -(-positions // height) * (height + columns), -height

    return min(range(max(1, most // 2), most + 1), key=loads), columns, lanes


def module_of(sums: SumOfProducts, processor: Processor) -> Module:
    """Return the module of a function of pointers to a, b and y and of a range of tasks; a task computes one tile."""
    height, columns, lanes = tile_of(sums, processor)
    positions, position_stride_a, position_stride_y = sums.places
    outputs, output_stride_y = sums.outputs
    tiles = -(-positions // height)
    code = processor.code()
    element = llvm_type(sums.dtype)
    vector, align = VectorType(lanes, element), f", align {sums.dtype.itemsize}"
    places = [(m, v) for m in range(height) for v in range(columns)]
    # LLVM moves the totals from the stack to registers.
    totals = [code.alloca(vector) for _ in places]
    cell = code.alloca(element, height * columns * lanes) if output_stride_y != 1 else ""

    def task(number: Index) -> None:
        row, tile = code.divmod(code.add(number, "%start"), tiles)
        first = code.scaled(tile, height)
        if positions % height:
            first = code.intrinsic("smin", first, positions - height)
        a, y = code.scaled(first, position_stride_a), code.scaled(first, position_stride_y)
        rows, *image_strides = sums.images
        if rows:
            image, row = code.divmod(row, rows)
            a, y = (
                code.add(offset, code.scaled(image, stride))
                for offset, stride in zip((a, y), image_strides, strict=True)
            )
        a = code.add(code.scaled(row, sums.rows[0]), a)
        y = code.add(code.scaled(row, sums.rows[1]), y)
        code.loop(outputs // (columns * lanes), lambda block: write_tile(a, y, block))

    def write_tile(a: Index, y: Index, block: Index) -> None:
        o = code.scaled(block, columns * lanes)
        for total in totals:
            code.store_value(Value("zeroinitializer", vector), total)
        sum_along(0, a, o)
        y = code.add(y, code.scaled(o, output_stride_y))
        pointer, step = (
            ("%y", position_stride_y) if output_stride_y == 1 else (cell, columns * lanes)
        )
        for (m, v), total in zip(places, totals, strict=True):
            offset = code.add(y if output_stride_y == 1 else 0, m * step + v * lanes)
            address = code.address(pointer, offset, sums.dtype)
            code.store_value(code.load_value(vector, total), address, suffix=align)
        if output_stride_y != 1:
            code.invalidate()
            code.loop(
                columns * lanes,
                lambda i: write_output(code.add(y, code.scaled(i, output_stride_y)), i),
            )

    def write_output(y: Index, output: Index) -> None:
        """Write stores of one output at each position, in the order of memory."""
        for m in range(height):
            value = code.load(cell, code.add(output, m * columns * lanes), sums.dtype)
            code.store(value, "%y", code.add(y, m * position_stride_y), sums.dtype)

    def sum_along(axis: int, a: Index, b: Index) -> None:
        """Write the loops over the terms of an axis and of the axes after it."""
        if axis == len(sums.terms):
            multiply_add(a, b)
            return
        count, step_a, step_b = sums.terms[axis]

        def term(i: Index) -> None:
            next_a = code.add(a, code.scaled(i, step_a))
            sum_along(axis + 1, next_a, code.add(b, code.scaled(i, step_b)))

        code.loop(count, term)

    def multiply_add(a: Index, b: Index) -> None:
        """Write the addition of the outer product of a column of a and a row of b to the totals."""
        row = [
            code.load_value(vector, code.address("%b", code.add(b, v * lanes), sums.dtype), align)
            for v in range(columns)
        ]
        column = [
            code.load("%a", code.add(a, m * position_stride_a), sums.dtype) for m in range(height)
        ]
        column = [_broadcast(code, x, lanes) for x in column]
        for (m, v), total in zip(places, totals, strict=True):
            product = code.intrinsic("fma", column[m], row[v], code.load_value(vector, total))
            code.store_value(product, total)

    count = code.value("sub", "%stop", "%start", type="i64")
    code.loop(count, task)
    code.ret(0)
    define_function(code, ("%a", "%b", "%y"), ("%start", "%stop"), "sums")
    return code.module()


def _broadcast(code: Code, x: Value, lanes: int) -> Value:
    """Return a vector with x in all lanes."""
    poison = Value("poison", VectorType(lanes, x.type))
    return code.shuffle(code.insert(poison, x, 0), "poison", (0,) * lanes)
