"""Compiled transposing copies: blocks are transposed in vector registers.

Large results are written by non-temporal stores of whole cache lines, which neither read the lines nor occupy the
caches. Ordinary stores first read the lines, which evict each other if the stride of columns is a power of two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.kernels.transposition import LINE, Transposition
from tenferro.exec.llvm.code import Code, Index
from tenferro.exec.llvm.ir import Instruction, Module, Value, VectorType
from tenferro.exec.llvm.link import Linker, Processor
from tenferro.exec.llvm.python_calls import define_function
from tenferro.program import BoundedCache

__all__ = ["TransposingCopies", "module_of"]

KIND = "transposing copy"
"""Name of transposing copies in the executor's compile statistics."""
MAX_LANES = 16
"""Maximum number of elements per vector; a block is transposed in as many registers."""
TILE_ROWS = 256
"""Number of rows of a tile, which is copied column by column; the TLB must have an entry for each row."""
MIN_TASKS = 64
"""Minimum number of tasks into which a copy that is large enough for several threads is divided."""
CACHE_ENTRIES = 64
"""Maximum number of functions that one compiler caches."""
MIN_LANES = 4
"""Minimum number of float64 in the processor's vectors for which transposing copies are compiled."""


class TransposingCopies:
    """Compiler of transposing copies, with a cache of the functions."""

    def __init__(self, linker: Linker) -> None:
        self.linker = linker
        self.functions: BoundedCache[tuple[Callable[..., Any], int] | None] = BoundedCache(
            CACHE_ENTRIES
        )

    def function(self, transposition: Transposition) -> tuple[Callable[..., Any], int] | None:
        """Return a function of pointers to x and y and of a range of tasks, and the number of tasks.

        Return None if the processor has short vectors, or if LLVM fails.
        """
        return self.functions.get(transposition, lambda: self._compiled(transposition))

    def _compiled(self, transposition: Transposition) -> tuple[Callable[..., Any], int] | None:
        with suppress(NotCompiledError), self.linker.log.attempt(KIND):
            processor = self.linker.processor
            if processor.lanes < MIN_LANES:
                return None
            counts, task_axes = tasks_of(transposition)
            module, tasks = module_of(transposition, processor), prod(counts[:task_axes])
            return self.linker.function(KIND, module), tasks
        return None


def tasks_of(transposition: Transposition) -> tuple[list[int], int]:
    """Return the extents of the outer loops and of the loop over tiles, and the number n of loops that form tasks.

    A task is one iteration of the first n loops.
    """
    blocks = prod([n for n, _ in transposition.rows]) * transposition.itemsize // LINE
    tiles = -(-blocks // _tile_blocks(transposition, blocks))
    counts = [*[n for n, _, _ in transposition.outer], tiles]
    task_axes = 1
    while task_axes < len(counts) and prod(counts[:task_axes]) < MIN_TASKS:
        task_axes += 1
    return counts, task_axes


def _tile_blocks(transposition: Transposition, blocks: int) -> int:
    """Return the number of blocks of rows that a tile contains."""
    return min(blocks, max(1, TILE_ROWS * transposition.itemsize // LINE))


def lanes_of(transposition: Transposition, processor: Processor) -> int:
    """Return the number of elements per vector.

    If it does not divide the length of a column, the last vector of a column overlaps the previous vector.
    """
    width = prod([n for n, _ in transposition.columns])
    lanes = min(MAX_LANES, max(1, 8 * processor.lanes // transposition.itemsize))
    while lanes > width or (width % lanes and width % (lanes // 2) == 0 and lanes > MIN_LANES):
        lanes //= 2
    return lanes


def module_of(transposition: Transposition, processor: Processor) -> Module:
    """Return the module of a function of pointers to x and y and of a range of tasks."""
    code, itemsize = processor.code(), transposition.itemsize
    lanes = lanes_of(transposition, processor)
    height = LINE // itemsize
    # Elements of more than 8 bytes are copied as several words.
    words = max(1, itemsize // 8)
    word = f"i{8 * itemsize // words}"
    vector = VectorType(lanes * words, word)
    rows, columns = (
        prod([n for n, _ in axes]) for axes in (transposition.rows, transposition.columns)
    )
    blocks = rows // height
    tile = _tile_blocks(transposition, blocks)
    counts, task_axes = tasks_of(transposition)
    row_offset = _offsets(code, "rows", transposition.rows)
    column_offset = _offsets(code, "columns", transposition.columns)

    def pointer(name: str, offset: Index) -> str:
        return code.gep(word, name, code.scaled(offset, words))

    def task(number: Index) -> None:
        index = code.unravel_index(code.add(number, "%start"), counts[:task_axes])
        code.loops(counts[task_axes:], lambda inner: copy_tile((*index, *inner)))

    def copy_tile(index: Sequence[Index]) -> None:
        x: Index = 0
        y: Index = 0
        for i, (_, x_stride, y_stride) in zip(index[:-1], transposition.outer, strict=True):
            x, y = code.add(x, code.scaled(i, x_stride)), code.add(y, code.scaled(i, y_stride))
        first = _start(code, index[-1], tile, blocks)

        def column(j: Index) -> None:
            start = _start(code, j, lanes, columns)
            code.loop(
                tile, lambda i: copy_block(x, y, code.scaled(code.add(first, i), height), start)
            )

        code.loop(-(-columns // lanes), column)

    def copy_block(x: Index, y: Index, row: Index, column: Index) -> None:
        x, y = code.add(x, column), code.add(y, row)
        squares: list[list[Value]] = []
        for start in range(0, height, lanes):
            loaded: list[Value] = []
            for k in range(start, start + lanes):
                at = pointer("%x", code.add(x, row_offset(row, k)))
                loaded.append(code.load_value(vector, at, f", align {min(8, itemsize)}"))
            squares.append(_transposed(code, loaded, words))
        for k in range(lanes):
            at = pointer("%y", code.add(y, column_offset(column, k)))
            for n, square in enumerate(squares):
                to = pointer(at, n * lanes)
                code.store_value(square[k], to, suffix=f", align {lanes * itemsize}{hint}")

    hint = ", !nontemporal !0" if transposition.is_streamed else ""
    code.loop(code.value("sub", "%stop", "%start", type="i64"), task)
    if transposition.is_streamed:
        code.globals.append("!0 = !{i32 1}")
        # The fence makes the non-temporal stores visible to other threads.
        code.append(Instruction("fence", flags="seq_cst"))
    code.ret(0)
    define_function(code, ("%x", "%y"), ("%start", "%stop"), "transpose")
    return replace(code.module(), is_vectorised=True)


def _start(code: Code, number: Index, length: int, total: int) -> Index:
    """Return the start of the block with this number; the last block is moved so that it ends at `total`."""
    start = code.scaled(number, length)
    if total % length == 0 or isinstance(start, int):
        return start if isinstance(start, str) else min(start, total - length)
    return code.intrinsic("smin", start, total - length)


def _offsets(
    code: Code, name: str, axes: Sequence[tuple[int, int]]
) -> Callable[[Index, int], Index]:
    """Return a function from a position p and an integer k to the offset in memory of position p + k.

    Positions are row-major in the axes. If there are several axes, the offsets are read from a table.
    """
    if len(axes) == 1:
        ((_, stride),) = axes
        return lambda start, k: code.add(code.scaled(start, stride), k * stride)
    offsets = [0]
    for n, stride in axes:
        offsets = [offset + i * stride for offset in offsets for i in range(n)]
    table = f"@{name}"
    numbers = ", ".join([f"i64 {offset}" for offset in offsets])
    code.globals.append(f"{table} = private constant [{len(offsets)} x i64] [{numbers}]")

    def offset(start: Index, k: int) -> Index:
        number = code.add(start, k)
        at = code.gep("i64", table, number)
        return code.load_value("i64", at)

    return offset


def _transposed(code: Code, rows: Sequence[Value], words: int) -> list[Value]:
    """Write the transposition of a square block, and return its columns.

    The upper and the lower half of the n rows are interleaved log2(n) times.
    """
    n = len(rows)
    half = n // 2
    for _ in range(n.bit_length() - 1):
        pairs = [(rows[i], rows[i + half]) for i in range(half)]
        rows = [
            code.shuffle(upper, lower, _mask(start, half, n, words))
            for upper, lower in pairs
            for start in (0, half)
        ]
    return list(rows)


def _mask(start: int, count: int, n: int, words: int) -> list[int]:
    """Return the mask of a shuffle that interleaves `count` elements of two vectors, beginning at `start`."""
    elements = [element for i in range(start, start + count) for element in (i, n + i)]
    return [words * element + word for element in elements for word in range(words)]
