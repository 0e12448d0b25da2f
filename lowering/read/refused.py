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
    "rng": "its state is nobody's argument; use rng_bit_generator, whose state is",
    "uniform_dequantize": "dequantise before exporting: quantised types are not among ours",
    "uniform_quantize": "export without quantisation: quantised types are not among ours",
}


def refused(instead: str) -> Read:
    def read(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
        raise UnsupportedError(f"{operation.name}: {instead}")

    return read


ROWS: ReadRows = {f"stablehlo.{name}": refused(instead) for name, instead in INSTEAD.items()}
