"""Operations that are not converted to ops: some cannot be, and others are rewritten before the module is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowering.module_tree import Operation
from lowering.read.reader import Read, Reader, ReadRows
from lowering.read.scalars import SCALAR_OPERATIONS
from tenferro.errors import UnsupportedError

__all__ = ["REFUSED", "REWRITTEN", "ROWS"]

SYNCHRONOUS = "compile without asynchronous calls"
REFUSED: Mapping[str, str] = {
    "stablehlo.async_done": SYNCHRONOUS,
    "stablehlo.async_start": SYNCHRONOUS,
    "stablehlo.rng": "its state is nobody's argument; use rng_bit_generator, whose state is",
}
"""Operations that cannot be read, with the alternative that the error suggests."""

REWRITTEN: Mapping[str, str] = {
    **dict.fromkeys(["builtin.module", "func.func", "sdy.mesh"], "holds the functions"),
    **dict.fromkeys(["func.return", "stablehlo.return", "sdy.return"], "ends a block"),
    **SCALAR_OPERATIONS,
    **dict.fromkeys(["stablehlo.tuple", "stablehlo.get_tuple_element"], "replaced by the elements"),
    **dict.fromkeys(
        ["stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"],
        "replaced by the specification's arithmetic on stored integers",
    ),
}
"""Operations without a reader, because they contain other operations or are replaced before reading."""


def refused(instead: str) -> Read:
    def read(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
        raise UnsupportedError(f"{operation.name}: {instead}")

    return read


ROWS: ReadRows = {name: refused(instead) for name, instead in REFUSED.items()}
