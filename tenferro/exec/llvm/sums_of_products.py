"""Compiled sums of products of two strided arrays; a tile of results is in vector registers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import TypeAlias

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.code import Code, Index, llvm_type
from tenferro.exec.llvm.ir import Module, Value, VectorType
from tenferro.exec.llvm.link import LinkedFunction, Linker, Processor
from tenferro.exec.llvm.python_calls import define_function
from tenferro.exec.runtime.sum_of_products import CompiledSum, SumOfProducts
from tenferro.program import BoundedCache

__all__ = ["MAX_MATRIX_BYTES", "CompiledSums", "module_of", "tile_of", "write_sums"]

KIND = "sum of products"
"""Name of sums of products in the executor's compile statistics."""
REGISTERS = 32, 15
"""Number of vector registers for totals and a row of b, with and without vectors of 512 bits."""
MAX_TILE_COLUMNS = 4, 2
"""Maximum number of vectors in a row of a tile, with and without vectors of 512 bits."""
MIN_MULTIPLICATIONS = 1 << 16
"""Minimum number of multiplications of a sum that is compiled."""
CACHE_ENTRIES = 64
"""Maximum number of modules cached by one compiler."""
DOT_TILE = 4
"""Number of positions, and of outputs, of a tile whose totals are vectors of terms; it needs vectors of 512 bits."""
MIN_DOT_VECTORS = 4
"""Minimum number of vectors of terms for which the products take longer than the final sums of lanes."""
MAX_MATRIX_BYTES = 1 << 20, 1 << 18
"""Maximum size in bytes of a matrix b, with and without vectors of 512 bits; BLAS is faster for a larger matrix.

The matrix is not packed and is read for each tile, so it has to fit in the second-level cache.
"""
MAX_NARROW_MULTIPLICATIONS = 1 << 20
"""Number of multiplications from which BLAS is faster if compiled code does not use the widest vectors."""


class CompiledSums:
    """Compiler of sums of products, with a cache of modules; with `always`, it compiles small sums, too."""

    def __init__(self, linker: Linker, always: bool) -> None:
        self.linker, self.min_multiplications = linker, 1 if always else MIN_MULTIPLICATIONS
        # Without vectors of 512 bits, a call of a product from Python takes longer than a call of BLAS.
        is_faster = always or linker.processor.lanes >= 8
        self.max_matrix_bytes = MAX_MATRIX_BYTES[0] if is_faster else 0
        self.functions: BoundedCache[tuple[LinkedFunction, bool, int] | None] = BoundedCache(
            CACHE_ENTRIES
        )

    def function(self, sums: SumOfProducts, multiplications: int) -> CompiledSum | None:
        """Return a function of pointers to a, b and y and a range of tasks, and the number of tasks of a row.

        Return None if BLAS is faster, or if the outputs do not fill a vector.
        """
        if multiplications < self.min_multiplications:
            return None
        written = self.functions.get(sums, lambda: self._written(sums))
        if written is None:
            return None
        code, is_narrow, tasks = written
        if is_narrow and multiplications >= MAX_NARROW_MULTIPLICATIONS:
            return None
        function = code.linked()
        return function and (function, tasks)

    def _written(self, sums: SumOfProducts) -> tuple[LinkedFunction, bool, int] | None:
        """Return the function, whether the processor has wider vectors, and the number of tasks of a row."""
        with suppress(NotCompiledError), self.linker.log.attempt(KIND):
            processor = self.linker.processor
            if sums.matrix_bytes > self.max_matrix_bytes:
                return None
            height, _, lanes = tile_of(sums, processor.code())
            is_narrow = lanes < processor.lanes * 8 // sums.dtype.itemsize
            code = LinkedFunction(KIND, module_of(sums, processor), self.linker)
            return code, is_narrow, -(-sums.places[0] // height)
        return None


def tile_of(sums: SumOfProducts, code: Code) -> tuple[int, int, int]:
    """Return the number of positions of a tile, its number of vectors of outputs, and the elements per vector.

    If the terms are contiguous in b, the vectors are of terms, and the second number is the number of outputs.

    Raises:
        NotCompiledError: the processor has no multiply-adds, or the outputs or terms do not fill a vector.
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
    # If the outputs are not a multiple of the columns, the last wide vectors of a row overlap the previous vectors.
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
        # If the number of positions is not a multiple of the height, the last tile overlaps the previous tile.
        return -(-positions // height) * (height + columns), -height

    return min(range(max(1, most // 2), most + 1), key=loads), columns, lanes


def module_of(sums: SumOfProducts, processor: Processor) -> Module:
    """Return the module of a function of pointers to a, b and y and a range of tasks; see `write_sums`."""
    code = processor.code()
    count = code.value("sub", "%stop", "%start", type="i64")
    write_sums(code, sums, ("%a", "%b", "%y"), "%start", count)
    code.ret(0)
    define_function(code, ("%a", "%b", "%y"), ("%start", "%stop"), "sums")
    return replace(code.module(), is_vectorised=True)


def write_sums(
    code: Code, sums: SumOfProducts, pointers: tuple[str, str, str], start: Index, count: Index
) -> None:
    """Write the loops over `count` tasks from `start` on; a task is a range of positions of a row, with all outputs.

    Args:
        pointers: the addresses of a, b and y.

    Raises:
        NotCompiledError: see `tile_of`.
    """
    tiles = _Tiles(code, sums, pointers)
    code.is_wide = True
    code.loop(count, lambda number: tiles.write_task(code.add(number, start)))


Offsets: TypeAlias = tuple[Index, Index, Index]
"""Offsets in a, b and y, in elements."""


class _Tiles:
    """Writer of the tiles of a sum of products, whose totals are vectors in registers.

    Attributes:
        vector, align: the LLVM type of a vector, and the alignment of its memory.
        places: position and vector, or position and output, of each total.
        totals: pointers to the totals on the stack; LLVM moves the totals to registers.
        cell: pointer to a copy of the totals if outputs are not contiguous in y; else empty.
    """

    def __init__(self, code: Code, sums: SumOfProducts, pointers: tuple[str, str, str]) -> None:
        self.code, self.sums = code, sums
        self.a, self.b, self.y = pointers
        self.height, self.columns, self.lanes = tile_of(sums, code)
        element = llvm_type(sums.dtype)
        self.vector, self.align = (
            VectorType(self.lanes, element),
            f", align {sums.dtype.itemsize}",
        )
        self.places = [(m, v) for m in range(self.height) for v in range(self.columns)]
        self.totals = [code.alloca(self.vector) for _ in self.places]
        size = len(self.places) * self.lanes
        self.cell = "" if sums.outputs[2] == 1 else code.alloca(element, size)

    def write_task(self, number: Index) -> None:
        code, sums = self.code, self.sums
        positions, *strides = sums.places
        row, tile = code.divmod(number, -(-positions // self.height))
        first = code.scaled(tile, self.height)
        if positions % self.height:
            first = code.intrinsic("smin", first, positions - self.height)
        a, y = (code.scaled(first, stride) for stride in strides)
        b: Index = 0
        rows, *image_strides = sums.images
        if rows:
            image, row = code.divmod(row, rows)
            a, b, y = self._moved((a, 0, y), image, image_strides)
        a = code.add(code.scaled(row, sums.rows[0]), a)
        y = code.add(code.scaled(row, sums.rows[1]), y)
        outputs, _, _ = sums.outputs
        width = self.columns * (1 if self.is_dot else self.lanes)

        def block(number: Index) -> None:
            o = code.scaled(number, width)
            if outputs % width:
                o = code.intrinsic("smin", o, outputs - width)
            self._write_tile((a, b, y), o)

        code.loop(-(-outputs // width), block)

    @property
    def is_dot(self) -> bool:
        """Whether vectors contain terms, not outputs, because the terms are contiguous in b."""
        return self.sums.outputs[1] != 1

    def _moved(self, offsets: Offsets, number: Index, strides: Sequence[int]) -> Offsets:
        """Return the offsets plus a number times each stride."""
        code, pairs = self.code, zip(offsets, strides, strict=True)
        a, b, y = (code.add(offset, code.scaled(number, stride)) for offset, stride in pairs)
        return a, b, y

    def _write_tile(self, offsets: Offsets, output: Index) -> None:
        code, sums = self.code, self.sums
        for total in self.totals:
            code.store_value(Value("zeroinitializer", self.vector), total)
        a, b, y = self._moved(offsets, output, (0, *sums.outputs[1:]))
        if self.is_dot:
            vectors = sums.terms[0][0] // self.lanes
            code.loop(vectors, lambda i: self._multiply_vectors(a, b, code.scaled(i, self.lanes)))
            self._store_dots(y)
            return
        self._sum_along(0, a, b)
        if not self.cell:
            self._store_totals(self.y, y, sums.places[2])
            return
        width = self.columns * self.lanes
        self._store_totals(self.cell, 0, width)
        code.invalidate()
        stride = sums.outputs[2]
        code.loop(width, lambda i: self._store_output(code.add(y, code.scaled(i, stride)), i))

    def _address(self, pointer: str, *offset: Index) -> Value:
        """Return the address of the element at a sum of offsets."""
        return self.code.address(pointer, reduce(self.code.add, offset), self.sums.dtype)

    def _load(self, pointer: str, *offset: Index) -> Value:
        """Write a load of a vector at a sum of offsets."""
        return self.code.load_value(self.vector, self._address(pointer, *offset), self.align)

    def _sum_along(self, axis: int, a: Index, b: Index) -> None:
        """Write the loops over the terms of this axis and of later axes."""
        code, terms = self.code, self.sums.terms
        if axis == len(terms):
            self._multiply_add(a, b)
            return
        count, step_a, step_b = terms[axis]

        def term(i: Index) -> None:
            next_a = code.add(a, code.scaled(i, step_a))
            self._sum_along(axis + 1, next_a, code.add(b, code.scaled(i, step_b)))

        code.loop(count, term)

    def _multiply_add(self, a: Index, b: Index) -> None:
        """Add the outer product of a column of a and a row of b to the totals."""
        code, dtype = self.code, self.sums.dtype
        row = [self._load(self.b, b, v * self.lanes) for v in range(self.columns)]
        strides = [m * self.sums.places[1] for m in range(self.height)]
        column = [code.load(self.a, code.add(a, stride), dtype) for stride in strides]
        self._add_products([_broadcast(code, x, self.lanes) for x in column], row)

    def _multiply_vectors(self, a: Index, b: Index, term: Index) -> None:
        """Add the products of vectors of terms, for each position and output, to the totals."""
        sums = self.sums
        left = [self._load(self.a, a, m * sums.places[1], term) for m in range(self.height)]
        right = [self._load(self.b, b, n * sums.outputs[1], term) for n in range(self.columns)]
        self._add_products(left, right)

    def _add_products(self, left: Sequence[Value], right: Sequence[Value]) -> None:
        code = self.code
        for (m, n), total in zip(self.places, self.totals, strict=True):
            old = code.load_value(self.vector, total)
            code.store_value(code.intrinsic("fma", left[m], right[n], old), total)

    def _store_totals(self, pointer: str, offset: Index, step: int) -> None:
        """Store all totals; `step` is the stride of positions."""
        code = self.code
        for (m, v), total in zip(self.places, self.totals, strict=True):
            address = self._address(pointer, offset, m * step + v * self.lanes)
            code.store_value(code.load_value(self.vector, total), address, suffix=self.align)

    def _store_output(self, y: Index, output: Index) -> None:
        """Store one output at each position."""
        code, dtype = self.code, self.sums.dtype
        for m in range(self.height):
            total = code.load(self.cell, code.add(output, m * self.columns * self.lanes), dtype)
            code.store(total, self.y, code.add(y, m * self.sums.places[2]), dtype)

    def _store_dots(self, y: Index) -> None:
        """Store the sums of the elements of each total."""
        code, lanes = self.code, self.lanes
        vectors = [code.load_value(self.vector, total) for total in self.totals]
        even, odd = (range(first, 2 * lanes, 2) for first in (0, 1))
        while len(vectors) > len(self.places) // lanes:
            # The sums of neighbouring lanes of two vectors are one vector.
            vectors = [
                code.value("fadd", *[code.shuffle(x, z, half) for half in (even, odd)])
                for x, z in zip(vectors[::2], vectors[1::2], strict=True)
            ]
        for number, sums_of_rows in enumerate(vectors):
            for first in range(0, lanes, self.columns):
                row = code.shuffle(sums_of_rows, "poison", range(first, first + self.columns))
                m = (number * lanes + first) // self.columns
                address = self._address(self.y, y, m * self.sums.places[2])
                code.store_value(row, address, suffix=self.align)


def _broadcast(code: Code, x: Value, lanes: int) -> Value:
    poison = Value("poison", VectorType(lanes, x.type))
    return code.shuffle(code.insert(poison, x, 0), "poison", (0,) * lanes)
