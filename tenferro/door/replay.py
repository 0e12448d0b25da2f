"""`applied`: the loop that applies instructions to tensors or arrays in order, without a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, NamedTuple

from tenferro.door.application import apply
from tenferro.errors import TenferroError
from tenferro.graph import Instruction

__all__ = ["Application", "applied"]


class Application(NamedTuple):
    """An applied instruction, with its operands and results."""

    instruction: Instruction
    operands: list[Any]
    results: tuple[Any, ...]


def applied(
    instructions: Iterable[Instruction], values: MutableMapping[int, Any], like: Any = None
) -> Iterator[Application]:
    """Apply each instruction, and yield it before the next is applied.

    Args:
        values: the value of each slot; results are added.
        like: as of `apply`, for instructions without operands.

    Raises:
        TenferroError: from `apply`, with the instruction's line.
    """
    for instruction in instructions:
        op, inputs, outputs, _, source = instruction
        operands = [values[slot] for slot in inputs]
        try:
            results = apply(op, *operands, like=None if inputs else like)
        except TenferroError as error:
            error.at(source)
            raise
        values.update(zip(outputs, results, strict=True))
        yield Application(instruction, operands, results)
