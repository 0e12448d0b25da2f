"""`applied`: instructions on tensors or arrays, one after the other; the one loop that does so without a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, NamedTuple

from tenferro.door.application import apply
from tenferro.errors import TenferroError
from tenferro.graph import Instruction

__all__ = ["Application", "applied"]


class Application(NamedTuple):
    """An instruction that has been applied, on what, and what it gave."""

    instruction: Instruction
    operands: list[Any]
    results: tuple[Any, ...]


def applied(
    instructions: Iterable[Instruction], values: MutableMapping[int, Any], like: Any = None
) -> Iterator[Application]:
    """Apply each instruction, and give it before the next is applied.

    Args:
        values: what stands for each slot; results are added.
        like: as of `apply`, for instructions without operands.

    Raises:
        TenferroError: what `apply` raises, with the instruction's line.
    """
    for instruction in instructions:
        op, inputs, outputs, _, source = instruction
        operands = [values[slot] for slot in inputs]
        try:
            results = apply(op, *operands, like=None if inputs else like)
        except TenferroError as error:
            error.at(str(source) if source else None)
            raise
        values.update(zip(outputs, results, strict=True))
        yield Application(instruction, operands, results)
