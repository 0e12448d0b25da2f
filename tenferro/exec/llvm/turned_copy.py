"""Copies into another order: registers turn blocks of neighbours, and whole lines of large results go around the caches.

A line that is written in parts is read first, and in a result whose columns lie a power of two apart they evict each
other from the caches. A line that is written at once and around them is not read, and takes no place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.code import Code, Index
from tenferro.exec.llvm.link import Linked, Linker, OfPointers, Processor
from tenferro.exec.runtime.turn import LINE, WORTH, Turn, TurnedRows
from tenferro.program import BoundedCache, CacheStats

__all__ = ["TurnedCopies", "text_of"]

KIND = "transposing copy"
"""The name of attempts."""
MOST = 16
"""Elements of a register, at most, because as many registers are turned at once."""
TILE = 256
"""Rows that are read column after column, because a cache holds the addresses of their pages."""
TASKS = 64
"""At least, where there is so much to do, so that threads share them."""
TEXTS = 64
"""Kept for one compiler."""
NARROWEST = 4
"""Float64 of the vectors that are worth it."""


class TurnedCopies:
    """Functions of turns.

    Attributes:
        worth: bytes that a turn has moved before it is worth compiling.
    """

    def __init__(self, linker: Linker, worth: int = WORTH) -> None:
        self.linker, self.worth = linker, worth
        self._functions: BoundedCache[tuple[Callable[..., Any], int] | None] = BoundedCache(TEXTS)

    def function(self, turn: Turn) -> tuple[Callable[..., Any], int] | None:
        """The function of pointers to x and y, and of tasks from where to where; the number of tasks. None on processors
        whose vectors are short, and where LLVM fails.
        """
        return self._functions.get(turn, lambda: self._compiled(turn))

    def by_rows(
        self, rows: TurnedRows, code: Callable[..., Any], operands: int, results: int
    ) -> Callable[..., Any] | None:
        """The function of pointers to operands, results, scratch of the code's and of each turned result, and of rows from
        where to where; one call, because threads would wait for each other's between calls.
        """
        turns = [self.function(result.turn) for result in rows.results]
        if None in turns or not isinstance(code, Linked):
            return None
        linked = [(turn, tasks) for turn, tasks in filter(None, turns) if isinstance(turn, Linked)]
        functions = [code, *[turn for turn, _ in linked]]
        pointers = len(functions) + operands + results + 1 + len(linked)
        try:
            with self.linker.log.attempt(KIND):
                text = rows_text(rows, operands, results, [tasks for _, tasks in linked])
                driver = self.linker.function(KIND, text, OfPointers(pointers, 2))
        except NotCompiledError:
            return None
        addresses = [function.address for function in functions]

        def function(*arguments: int) -> int:
            return driver(*addresses, *arguments)

        function.code = functions  # pyright: ignore[reportFunctionMemberAccess]  # because it lives as long as these
        return function

    def stats(self) -> CacheStats:
        """Hits, misses and functions that are kept."""
        return self._functions.stats()

    def cache_clear(self) -> None:
        """Forget every function."""
        self._functions.clear()

    def _compiled(self, turn: Turn) -> tuple[Callable[..., Any], int] | None:
        with suppress(NotCompiledError), self.linker.log.attempt(KIND):
            processor = self.linker.processor
            if max(processor.lanes) < NARROWEST:
                return None
            counts, own = tasks_of(turn)
            text = text_of(turn, processor)
            return self.linker.function(KIND, text, OfPointers(2, 2)), prod(counts[:own])
        return None


def tasks_of(turn: Turn) -> tuple[list[int], int]:
    """Extents of the loops around columns and rows, the last over tiles of rows; and how many of them are tasks."""
    blocks = prod([n for n, _ in turn.rows]) * turn.itemsize // LINE
    counts = [*[n for n, _, _ in turn.outer], -(-blocks // _tile(turn, blocks))]
    own = 1
    while own < len(counts) and prod(counts[:own]) < TASKS:
        own += 1
    return counts, own


def _tile(turn: Turn, blocks: int) -> int:
    """Blocks of rows in a tile."""
    return min(blocks, max(1, TILE * turn.itemsize // LINE))


def lanes_of(turn: Turn, processor: Processor) -> int:
    """Elements of a register; columns that are no multiple of them are taken twice in part."""
    width = prod([n for n, _ in turn.columns])
    lanes = min(MOST, max(1, 8 * max(processor.lanes) // turn.itemsize))
    while lanes > width or (width % lanes and width % (lanes // 2) == 0 and lanes > NARROWEST):
        lanes //= 2
    return lanes


def text_of(turn: Turn, processor: Processor) -> str:
    """The function of pointers to x and y, and of tasks from where to where."""
    code = processor.code()
    lanes = lanes_of(turn, processor)
    height = LINE // turn.itemsize
    # Elements larger than numbers are several.
    parts = max(1, turn.itemsize // 8)
    number = f"i{8 * turn.itemsize // parts}"
    vector = f"<{lanes * parts} x {number}>"
    rows, columns = prod([n for n, _ in turn.rows]), prod([n for n, _ in turn.columns])
    blocks = rows // height
    tile = _tile(turn, blocks)
    counts, own = tasks_of(turn)
    row_offset, column_offset = (
        _offsets(code, name, axes)
        for name, axes in (("rows", turn.rows), ("columns", turn.columns))
    )

    def pointer(name: str, offset: Index) -> str:
        return code.value(f"getelementptr {number}, ptr {name}, i64 {code.scaled(offset, parts)}")

    def task(number_of_it: Index) -> None:
        index = code.position(code.add(number_of_it, "%start"), counts[:own])
        code.loops(counts[own:], lambda inner: walk((*index, *inner)))

    def walk(index: Sequence[Index]) -> None:
        x: Index = 0
        y: Index = 0
        for i, (_, x_step, y_step) in zip(index[:-1], turn.outer, strict=True):
            x, y = code.add(x, code.scaled(i, x_step)), code.add(y, code.scaled(i, y_step))
        first = _start(code, index[-1], tile, blocks)

        def column(j: Index) -> None:
            start = _start(code, j, lanes, columns)
            code.loop(tile, lambda i: block(x, y, code.scaled(code.add(first, i), height), start))

        code.loop(-(-columns // lanes), column)

    def block(x: Index, y: Index, row: Index, column: Index) -> None:
        x, y = code.add(x, column), code.add(y, row)
        squares: list[list[str]] = []
        for start in range(0, height, lanes):
            loaded: list[str] = []
            for k in range(start, start + lanes):
                at = pointer("%x", code.add(x, row_offset(row, k)))
                loaded.append(code.value(f"load {vector}, ptr {at}, align {min(8, turn.itemsize)}"))
            squares.append(_turned(code, vector, loaded, parts))
        for k in range(lanes):
            at = pointer("%y", code.add(y, column_offset(column, k)))
            for n, square in enumerate(squares):
                to = pointer(at, n * lanes)
                code.line(
                    f"store {vector} {square[k]}, ptr {to}, align {lanes * turn.itemsize}{around}"
                )

    around = ", !nontemporal !0" if turn.is_streamed else ""
    code.loop(code.value("sub i64 %stop, %start"), task)
    if turn.is_streamed:
        code.globals.append("!0 = !{i32 1}")
        # What went around the caches is there for other threads afterwards.
        code.line("fence seq_cst")
    code.line("ret i64 0")
    return code.text("f", ("%x", "%y"), ("%start", "%stop"))


def rows_text(rows: TurnedRows, operands: int, results: int, tasks: Sequence[int]) -> str:
    """The function of functions and pointers that computes rows, as many as go at a time, and turns each of these results.

    The last rows are computed together with some before them, so that they are as many.
    """
    code = Code()
    turns = [f"%turn{k}" for k in range(len(tasks))]
    pieces = [f"%piece{k}" for k in range(len(tasks))]
    pointers = [f"%a{k}" for k in range(operands + results)]
    height = rows.height

    def some(number: Index) -> None:
        begin = code.value(f"add i64 %start, {code.scaled(number, height)}")
        last = code.value(f"sub i64 %stop, {height}")
        i = code.call("llvm.smin.i64", "i64", [("i64", begin), ("i64", last)])
        places = list(pointers)
        for result, piece in zip(rows.results, pieces, strict=True):
            before = code.scaled(i, -result.row_bytes)
            at = code.value(f"getelementptr i8, ptr {piece}, i64 {before}")
            places[operands + result.number] = at
        arguments = ", ".join([f"ptr {each}" for each in (*places, "%rest")])
        code.value(f"call i64 %rows({arguments}, i64 {i}, i64 {code.add(i, height)})")
        for turn, piece, count, result in zip(turns, pieces, tasks, rows.results, strict=True):
            offset = code.scaled(i, result.turn.itemsize)
            out = pointers[operands + result.number]
            at = code.value(f"getelementptr i8, ptr {out}, i64 {offset}")
            code.value(f"call i64 {turn}(ptr {piece}, ptr {at}, i64 0, i64 {count})")

    left = code.value("sub i64 %stop, %start")
    more = code.value(f"add i64 {left}, {height - 1}")
    code.loop(code.value(f"udiv i64 {more}, {height}"), some)
    code.line("ret i64 0")
    names = ("%rows", *turns, *pointers, "%rest", *pieces)
    return code.text("f", names, ("%start", "%stop"))


def _start(code: Code, number: Index, length: int, total: int) -> Index:
    """Where a part begins; the last begins earlier where it would go beyond the end."""
    start = code.scaled(number, length)
    if total % length == 0 or isinstance(start, int):
        return start if isinstance(start, str) else min(start, total - length)
    return code.call("llvm.smin.i64", "i64", [("i64", start), ("i64", str(total - length))])


def _offsets(
    code: Code, name: str, axes: Sequence[tuple[int, int]]
) -> Callable[[Index, int], Index]:
    """The offset of the k-th element after one of a run: by the step of its axis, or from a table of several."""
    if len(axes) == 1:
        ((_, step),) = axes
        return lambda start, k: code.add(code.scaled(start, step), k * step)
    offsets = [0]
    for n, step in axes:
        offsets = [offset + i * step for offset in offsets for i in range(n)]
    table = f"@{name}"
    numbers = ", ".join([f"i64 {offset}" for offset in offsets])
    code.globals.append(f"{table} = private constant [{len(offsets)} x i64] [{numbers}]")

    def offset(start: Index, k: int) -> Index:
        number = code.add(start, k)
        at = code.value(f"getelementptr i64, ptr {table}, i64 {number}")
        return code.value(f"load i64, ptr {at}")

    return offset


def _turned(code: Code, vector: str, rows: Sequence[str], parts: int) -> list[str]:
    """The columns of a square of vectors, as vectors: log2 n times, those of its halves are laid between each other."""
    n = len(rows)
    half = n // 2
    for _ in range(n.bit_length() - 1):
        pairs = [(rows[i], rows[i + half]) for i in range(half)]
        rows = [
            code.value(
                f"shufflevector {vector} {upper}, {vector} {lower}, {_mask(start, half, n, parts)}"
            )
            for upper, lower in pairs
            for start in (0, half)
        ]
    return list(rows)


def _mask(start: int, count: int, n: int, parts: int) -> str:
    """Elements from `start` on, of the one vector and of the other in turn."""
    elements = [element for i in range(start, start + count) for element in (i, n + i)]
    numbers = [parts * element + part for element in elements for part in range(parts)]
    return f"<{len(numbers)} x i32> <{', '.join([f'i32 {each}' for each in numbers])}>"
