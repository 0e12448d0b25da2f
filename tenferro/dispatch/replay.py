"""`applied`: apply instructions to tensors or arrays in order, without a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, NamedTuple

from tenferro.dispatch.application import apply
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
    """Apply each instruction, and yield it with its operands and results before the next instruction is applied.

    Args:
        values: maps the number of each slot to its value; results are added to the map.
        like: for instructions without operands, a tensor of the trace or runtime, as in `apply`.

    Raises:
        TenferroError: the errors of `apply`, with the instruction's source line.
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
