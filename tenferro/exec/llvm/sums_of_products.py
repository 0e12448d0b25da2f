"""Sums of products of two arrays that stay where they lie, in tiles of results that registers hold."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.kernels.sums_of_products import SumOfProducts
from tenferro.exec.llvm.code import Index, llvm_type
from tenferro.exec.llvm.first_call import Work
from tenferro.exec.llvm.link import Linker, OfPointers, Processor
from tenferro.program import BoundedCache

__all__ = ["CompiledSums", "text_of"]

KIND = "sum of products"
"""The name of attempts."""
REGISTERS = 32, 16
"""Vectors that a processor holds, with those of 512 bits and without."""
COLUMNS = 4, 2
"""Vectors of a row of a tile, at most."""
TEXTS = 64
"""Kept for one compiler."""
LARGEST_BY_HALVES = 1 << 20
"""Multiplications by vectors that are not the widest, of which BLAS with a copy of the windows is sooner from there on."""
UNOPTIMISED_WORK = 6
"""Instructions that a multiplication of vectors counts as without LLVM's passes, which keep sums in registers."""


class CompiledSums:
    """Functions of sums of products.

    Args:
        fewest: multiplications that are worth compiling.
    """

    def __init__(self, linker: Linker, fewest: int) -> None:
        self.linker, self.fewest = linker, fewest
        self._texts: BoundedCache[_Text | None] = BoundedCache(TEXTS)

    def function(
        self, sums: SumOfProducts, multiplications: int
    ) -> tuple[Callable[..., Any], int] | None:
        """The function of pointers to a, b and y, and of tasks from where to where; the number of tasks of a row. None
        where it does not pay, or vectors do not fit.
        """
        if multiplications < self.fewest:
            return None
        linker = self.linker
        with suppress(NotCompiledError):
            text = self._texts.get(sums, lambda: self._written(sums))
            if text is None or (text.is_narrow and multiplications >= LARGEST_BY_HALVES):
                return None
            work = Work(multiplications // text.lanes * UNOPTIMISED_WORK)
            convention = OfPointers(3, 2)
            function = linker.function_for_one_call(KIND, text.text, work, convention)
            return function or linker.function(KIND, text.text, convention), text.tasks
        return None

    def _written(self, sums: SumOfProducts) -> _Text | None:
        with suppress(NotCompiledError), self.linker.log.attempt(KIND):
            return self._text_of(sums)
        return None

    def _text_of(self, sums: SumOfProducts) -> _Text:
        processor = self.linker.processor
        height, _, lanes = tile_of(sums, processor)
        is_narrow = lanes < max(processor.lanes) * 8 // sums.dtype.itemsize
        return _Text(text_of(sums, processor), lanes, is_narrow, -(-sums.places[0] // height))


class _Text(NamedTuple):
    """LLVM's, the elements of its vectors, whether the processor has wider ones, and the tasks of a row."""

    text: str
    lanes: int
    is_narrow: bool
    tasks: int


def tile_of(sums: SumOfProducts, processor: Processor) -> tuple[int, int, int]:
    """Places and vectors of a tile, and elements of a vector.

    Raises:
        NotCompiledError: a processor or outputs that vectors do not fit.
    """
    widest = max(processor.lanes)
    outputs, _ = sums.outputs
    all_lanes = [size * 8 // sums.dtype.itemsize for size in (widest, widest // 2, 2) if size > 1]
    lanes = next((each for each in all_lanes if outputs % each == 0), 0)
    if not processor.multiplies_and_adds or not lanes:
        raise NotCompiledError(f"{outputs} outputs are no whole vectors of multiply-adds")
    is_narrow, vectors = widest < 8, outputs // lanes
    columns = next(n for n in range(COLUMNS[is_narrow], 0, -1) if vectors % n == 0)
    places = sums.places[0]
    most = min(places, (REGISTERS[is_narrow] - columns) // columns)

    def loads(height: int) -> tuple[int, int]:
        # The last tile begins earlier where they do not fit.
        return -(-places // height) * (height + columns), -height

    return min(range(max(1, most // 2), most + 1), key=loads), columns, lanes


def text_of(sums: SumOfProducts, processor: Processor) -> str:
    """The function of pointers to a, b and y, and of tasks from where to where, which are tiles of a row."""
    height, columns, lanes = tile_of(sums, processor)
    places, place_of_a, place_of_y = sums.places
    outputs, output_of_y = sums.outputs
    tiles = -(-places // height)
    code = processor.code()
    element = llvm_type(sums.dtype)
    vector = f"<{lanes} x {element}>"
    fma = f"llvm.fma.v{lanes}f{8 * sums.dtype.itemsize}"
    code.declared[fma] = f"declare {vector} @{fma}({vector}, {vector}, {vector})"

    cell = code.cell(element, height * columns * lanes) if output_of_y != 1 else ""

    def task(number: Index) -> None:
        row, tile = code.divided(code.add(number, "%start"), tiles)
        first = code.scaled(tile, height)
        if places % height:
            first = code.call(
                "llvm.smin.i64", "i64", [("i64", str(first)), ("i64", str(places - height))]
            )
        a = code.add(code.scaled(row, sums.rows[0]), code.scaled(first, place_of_a))
        y = code.add(code.scaled(row, sums.rows[1]), code.scaled(first, place_of_y))
        code.loop(outputs // (columns * lanes), lambda block: results(a, y, block))

    def results(a: Index, y: Index, block: Index) -> None:
        o = code.scaled(block, columns * lanes)
        totals = [["zeroinitializer"] * columns for _ in range(height)]
        totals = nested(0, a, o, totals)
        y = code.add(y, code.scaled(o, output_of_y))
        pointer, step = ("%y", place_of_y) if output_of_y == 1 else (cell, columns * lanes)
        for m, row in enumerate(totals):
            for v, total in enumerate(row):
                at = code.add(y if output_of_y == 1 else 0, m * step + v * lanes)
                address = code.address(pointer, at, sums.dtype)
                code.line(f"store {vector} {total}, ptr {address}, align {sums.dtype.itemsize}")
        if output_of_y != 1:
            code.forget()
            code.loop(
                columns * lanes, lambda i: turned(code.add(y, code.scaled(i, output_of_y)), i)
            )

    def turned(y: Index, output: Index) -> None:
        """Write one output of each place, which are neighbours in memory or lie near each other."""
        for m in range(height):
            value = code.load(cell, code.add(output, m * columns * lanes), sums.dtype)
            code.store(value, "%y", code.add(y, m * place_of_y), sums.dtype)

    def nested(axis: int, a: Index, b: Index, totals: list[list[str]]) -> list[list[str]]:
        if axis == len(sums.terms):
            return added(a, b, totals)
        count, step_a, step_b = sums.terms[axis]
        head, inside, end = (code.name(each) for each in ("head", "body", "end"))
        before, i, more, following = (
            code.block,
            code.name("i"),
            code.name("more"),
            code.name("next"),
        )
        code.line(f"br label {head}")
        code.label(head)
        line = len(code.lines)
        phis = [[code.name("t") for _ in row] for row in totals]
        code.lines.append("")
        code.line(f"{more} = icmp slt i64 {i}, {count}")
        code.line(f"br i1 {more}, label {inside}, label {end}")
        code.label(inside)
        with code.scope(), code.times(count):
            sums_ = nested(
                axis + 1,
                code.add(a, code.scaled(i, step_a)),
                code.add(b, code.scaled(i, step_b)),
                phis,
            )
        code.line(f"{following} = add nsw i64 {i}, 1")
        back = code.block
        code.line(f"br label {head}")
        lines = [f"  {i} = phi i64 [0, %{before}], [{following}, %{back}]"]
        for old, new, phi in zip(totals, sums_, phis, strict=True):
            lines += [
                f"  {p} = phi {vector} [{x}, %{before}], [{z}, %{back}]"
                for x, z, p in zip(old, new, phi, strict=True)
            ]
        code.lines[line] = "\n".join(lines)
        code.label(end)
        return phis

    def added(a: Index, b: Index, totals: list[list[str]]) -> list[list[str]]:
        columns_of_b = [
            code.value(
                f"load {vector}, ptr {code.address('%b', code.add(b, v * lanes), sums.dtype)}, align {sums.dtype.itemsize}"
            )
            for v in range(columns)
        ]
        result: list[list[str]] = []
        for m, row in enumerate(totals):
            x = code.value(
                f"load {element}, ptr {code.address('%a', code.add(a, m * place_of_a), sums.dtype)}"
            )
            one = code.value(f"insertelement {vector} poison, {element} {x}, i32 0")
            x = code.value(
                f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer"
            )
            result.append(
                [
                    code.value(
                        f"call {vector} @{fma}({vector} {x}, {vector} {c}, {vector} {total})"
                    )
                    for c, total in zip(columns_of_b, row, strict=True)
                ]
            )
        return result

    count = code.value("sub i64 %stop, %start")
    code.loop(count, task)
    code.line("ret i64 0")
    return code.text("f", ("%a", "%b", "%y"), ("%start", "%stop"))
