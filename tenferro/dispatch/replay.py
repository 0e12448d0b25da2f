"""`applied`: applies the instructions of a program one by one to tensors or arrays, without a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, NamedTuple

from tenferro.dispatch.application import apply
from tenferro.errors import TenferroError
from tenferro.graph import Instruction

__all__ = ["Application", "applied"]


class Application(NamedTuple):
    """Instruction that was applied, with its operands and results."""

    instruction: Instruction
    operands: list[Any]
    results: tuple[Any, ...]


def applied(
    instructions: Iterable[Instruction], values: MutableMapping[int, Any], like: Any = None
) -> Iterator[Application]:
    """Apply the instructions in order. Yield each with its operands and results before the next one is applied.

    Args:
        values: a map from slots to their values. The results are added to the map.
        like: for instructions without operands, a tensor of the trace or runtime, as in `apply`.

    Raises:
        TenferroError: as for `apply`; the message also names the source line of the instruction.
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
