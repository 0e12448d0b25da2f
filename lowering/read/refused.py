"""Operations without a counterpart here, and the alternative to each."""

from __future__ import annotations

from collections.abc import Sequence

from lowering.module_tree import Operation
from lowering.read.reader import Read, Reader, ReadRows
from tenferro.errors import UnsupportedError

__all__ = ["ROWS"]

INSTEAD = {
    "async_done": "compile without asynchronous calls",
    "async_start": "compile without asynchronous calls",
    "infeed": "make what it reads an argument",
    "outfeed": "make what it writes a result",
    "recv": "make what it reads an argument",
    "rng": "its state is nobody's argument; use rng_bit_generator, whose state is",
    "send": "make what it writes a result",
    "set_dimension_size": "an extent that data decide; export with numbers for extents",
}


def refused(instead: str) -> Read:
    def read(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
        raise UnsupportedError(f"{operation.name}: {instead}")

    return read


ROWS: ReadRows = {f"stablehlo.{name}": refused(instead) for name, instead in INSTEAD.items()}
