"""Compiled sums of products of two strided arrays; a tile of results is kept in vector registers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.code import Code, Index, llvm_type
from tenferro.exec.llvm.ir import Module, Value, VectorType
from tenferro.exec.llvm.link import LinkedFunction, Linker, Processor
from tenferro.exec.llvm.python_calls import define_function
from tenferro.exec.runtime.sum_of_products import CompiledSum, SumOfProducts
from tenferro.program import BoundedCache

__all__ = ["MAX_MATRIX_BYTES", "CompiledSums", "module_of", "tile_of", "write_sums"]

KIND = "sum of products"
"""Name of the kind of function in the executor's compile statistics."""
REGISTERS = 32, 15
"""Number of vector registers for totals and for a row, with vectors of 512 bits, and without.

Without them, another register contains a factor.
"""
MAX_TILE_COLUMNS = 4, 2
"""Maximum number of vectors in a row of a tile, with and without vectors of 512 bits."""
MIN_MULTIPLICATIONS = 1 << 16
"""Minimum number of multiplications of a sum that is compiled."""
CACHE_ENTRIES = 64
"""Maximum number of modules cached by one compiler."""
DOT_TILE = 4
"""Positions, and outputs, of a tile whose totals are vectors of terms, which need vectors of 512 bits."""
MIN_DOT_VECTORS = 4
"""Minimum number of vectors of terms for which the sums at their end take less time than the products."""
MAX_MATRIX_BYTES = 1 << 20, 1 << 18
"""Break-even against BLAS: maximum size in bytes of a matrix b, with and without vectors of 512 bits.

The matrix is not packed and is read again for each tile, so it has to fit in the second-level cache.
"""
MAX_NARROW_MULTIPLICATIONS = 1 << 20
"""Number of multiplications from which BLAS is faster, with a copy of the windows, if vectors are not the widest."""


class CompiledSums:
    """Compiler of sums of products, with a cache of the modules.

    Args:
        always: whether small sums are compiled, too.
    """

    def __init__(self, linker: Linker, always: bool) -> None:
        self.linker, self.min_multiplications = linker, 1 if always else MIN_MULTIPLICATIONS
        self.functions: BoundedCache[tuple[LinkedFunction, bool, int] | None] = BoundedCache(
            CACHE_ENTRIES
        )

    def function(self, sums: SumOfProducts, multiplications: int) -> CompiledSum | None:
        """Return a function of pointers to a, b and y and a range of tasks, and the number of tasks of a row.

        None if it is not worth compiling, or if the outputs are fewer than the elements of a vector.
        """
        if multiplications < self.min_multiplications:
            return None
        written = self.functions.get(sums, lambda: self._written(sums))
        if written is None:
            return None
        code, is_narrow, tasks = written
        if is_narrow and multiplications >= MAX_NARROW_MULTIPLICATIONS:
            return None
        # Without LLVM's passes, a vector of multiplications takes about as many instructions as it has elements.
        function = code.linked(multiplications)
        return function and (function, tasks)

    def _written(self, sums: SumOfProducts) -> tuple[LinkedFunction, bool, int] | None:
        """Return the function, whether the processor has wider vectors, and the number of tasks of a row."""
        with suppress(NotCompiledError), self.linker.log.attempt(KIND):
            processor = self.linker.processor
            if sums.matrix_bytes > MAX_MATRIX_BYTES[processor.lanes < 8]:
                return None
            height, _, lanes = tile_of(sums, processor.code())
            is_narrow = lanes < processor.lanes * 8 // sums.dtype.itemsize
            code = LinkedFunction(KIND, module_of(sums, processor), self.linker)
            return code, is_narrow, -(-sums.places[0] // height)
        return None


def tile_of(sums: SumOfProducts, code: Code) -> tuple[int, int, int]:
    """Return the positions of a tile, its vectors of outputs, and the elements per vector.

    If the terms are contiguous in b, the vectors are of terms, and the second number is that of outputs.

    Raises:
        NotCompiledError: the processor has no multiply-adds, or the outputs are fewer than the elements of a vector.
    """
    widest = code.lanes
    outputs, stride, _ = sums.outputs
    all_lanes = [size * 8 // sums.dtype.itemsize for size in (widest, widest // 2, 2) if size > 1]
    is_narrow = widest < 8
    if stride != 1:
        lanes, (terms, *_) = all_lanes[0], sums.terms[0]
        is_short = terms % lanes or terms < MIN_DOT_VECTORS * lanes
        if is_narrow or is_short or min(outputs, sums.places[0]) < DOT_TILE:
            raise NotCompiledError(f"{terms} terms are not enough whole vectors of multiply-adds")
        return DOT_TILE, DOT_TILE, lanes
    # Wide vectors at the end of a row overlap those before if the outputs are not a multiple of the columns.
    vectors = [
        (-(-outputs // (columns * lanes)) * columns, -columns, lanes)
        for lanes in all_lanes
        for columns in range(1, MAX_TILE_COLUMNS[is_narrow] + 1)
        if columns * lanes <= outputs and not (is_narrow and outputs % (columns * lanes))
    ]
    if not code.contracts or not vectors:
        raise NotCompiledError(f"{outputs} outputs are no vectors of multiply-adds")
    _, columns, lanes = min(vectors)
    columns = -columns
    positions = sums.places[0]
    most = min(positions, (REGISTERS[is_narrow] - columns) // columns)

    def loads(height: int) -> tuple[int, int]:
        # If the number of positions is not a multiple of the height, the last tile overlaps the previous one.
        return -(-positions // height) * (height + columns), -height

    return min(range(max(1, most // 2), most + 1), key=loads), columns, lanes


def module_of(sums: SumOfProducts, processor: Processor) -> Module:
    """Return the module of a function of pointers to a, b and y and a range of tasks, which are tiles of a row."""
    code = processor.code()
    count = code.value("sub", "%stop", "%start", type="i64")
    write_sums(code, sums, ("%a", "%b", "%y"), "%start", count)
    code.ret(0)
    define_function(code, ("%a", "%b", "%y"), ("%start", "%stop"), "sums")
    return code.module()


def write_sums(
    code: Code, sums: SumOfProducts, pointers: Sequence[str], start: Index, count: Index
) -> None:
    """Write the loops over `count` tasks from `start` on, which are tiles of a row.

    Args:
        pointers: the addresses of a, b and y.

    Raises:
        NotCompiledError: see `tile_of`.
    """
    height, columns, lanes = tile_of(sums, code)
    positions, position_stride_a, position_stride_y = sums.places
    outputs, output_stride_b, output_stride_y = sums.outputs
    is_dot = output_stride_b != 1
    width = columns if is_dot else columns * lanes
    tiles = -(-positions // height)
    a_pointer, b_pointer, y_pointer = pointers
    code.is_wide = True
    element = llvm_type(sums.dtype)
    vector, align = VectorType(lanes, element), f", align {sums.dtype.itemsize}"
    places = [(m, v) for m in range(height) for v in range(columns)]
    # LLVM moves the totals from the stack to registers.
    totals = [code.alloca(vector) for _ in places]
    cell = code.alloca(element, height * columns * lanes) if output_stride_y != 1 else ""

    def task(number: Index) -> None:
        row, tile = code.divmod(code.add(number, start), tiles)
        first = code.scaled(tile, height)
        if positions % height:
            first = code.intrinsic("smin", first, positions - height)
        a, y = code.scaled(first, position_stride_a), code.scaled(first, position_stride_y)
        b: Index = 0
        rows, *image_strides = sums.images
        if rows:
            image, row = code.divmod(row, rows)
            a, b, y = (
                code.add(offset, code.scaled(image, stride))
                for offset, stride in zip((a, 0, y), image_strides, strict=True)
            )
        a = code.add(code.scaled(row, sums.rows[0]), a)
        y = code.add(code.scaled(row, sums.rows[1]), y)
        code.loop(-(-outputs // width), lambda block: write_tile(a, b, y, block))

    def write_tile(a: Index, b: Index, y: Index, block: Index) -> None:
        o = code.scaled(block, width)
        if outputs % width:
            o = code.intrinsic("smin", o, outputs - width)
        for total in totals:
            code.store_value(Value("zeroinitializer", vector), total)
        b, y = (
            code.add(offset, code.scaled(o, stride))
            for offset, stride in ((b, output_stride_b), (y, output_stride_y))
        )
        if is_dot:
            code.loop(sums.terms[0][0] // lanes, lambda i: multiply_vectors(a, b, i))
            store_dots(y)
            return
        sum_along(0, a, b)
        pointer, step = (
            (y_pointer, position_stride_y) if output_stride_y == 1 else (cell, columns * lanes)
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

    def multiply_vectors(a: Index, b: Index, number: Index) -> None:
        """Add the products of vectors of terms, for each position and output, to the totals."""
        term = code.scaled(number, lanes)
        left, right = (
            [
                code.load_value(
                    vector,
                    code.address(pointer, code.add(code.add(offset, n * stride), term), sums.dtype),
                    align,
                )
                for n in range(count)
            ]
            for pointer, offset, stride, count in (
                (a_pointer, a, position_stride_a, height),
                (b_pointer, b, output_stride_b, columns),
            )
        )
        for (m, n), total in zip(places, totals, strict=True):
            product = code.intrinsic("fma", left[m], right[n], code.load_value(vector, total))
            code.store_value(product, total)

    def store_dots(y: Index) -> None:
        """Store the sums of the elements of each total."""
        vectors = [code.load_value(vector, total) for total in totals]
        even, odd = (range(first, 2 * lanes, 2) for first in (0, 1))
        while len(vectors) > len(places) // lanes:
            # Sums of neighbours of two vectors are one vector.
            vectors = [
                code.value("fadd", *[code.shuffle(x, z, half) for half in (even, odd)])
                for x, z in zip(vectors[::2], vectors[1::2], strict=True)
            ]
        for number, sums_of_rows in enumerate(vectors):
            for first in range(0, lanes, columns):
                row = code.shuffle(sums_of_rows, "poison", range(first, first + columns))
                m = (number * lanes + first) // columns
                address = code.address(y_pointer, code.add(y, m * position_stride_y), sums.dtype)
                code.store_value(row, address, suffix=align)

    def write_output(y: Index, output: Index) -> None:
        """Write stores of one output at each position, in the order of memory."""
        for m in range(height):
            value = code.load(cell, code.add(output, m * columns * lanes), sums.dtype)
            code.store(value, y_pointer, code.add(y, m * position_stride_y), sums.dtype)

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
            code.load_value(
                vector, code.address(b_pointer, code.add(b, v * lanes), sums.dtype), align
            )
            for v in range(columns)
        ]
        column = [
            code.load(a_pointer, code.add(a, m * position_stride_a), sums.dtype)
            for m in range(height)
        ]
        column = [_broadcast(code, x, lanes) for x in column]
        for (m, v), total in zip(places, totals, strict=True):
            product = code.intrinsic("fma", column[m], row[v], code.load_value(vector, total))
            code.store_value(product, total)

    code.loop(count, task)


def _broadcast(code: Code, x: Value, lanes: int) -> Value:
    """Return a vector with x in all lanes."""
    poison = Value("poison", VectorType(lanes, x.type))
    return code.shuffle(code.insert(poison, x, 0), "poison", (0,) * lanes)
