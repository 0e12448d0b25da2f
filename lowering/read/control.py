"""Readers of calls, composites and custom calls."""

from __future__ import annotations

from collections.abc import Sequence

from lowering.module_tree import Operation
from lowering.read.custom_calls import CUSTOM_CALLS
from lowering.read.reader import Reader, ReadRows
from tenferro.errors import UnsupportedError

__all__ = ["ROWS"]


def call(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    return r.call(operation.attributes["callee"], operands)


def composite(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Its decomposition."""
    return r.call(operation.attributes["decomposition"], operands)


def custom_call(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    target = operation.attributes["call_target_name"]
    read = CUSTOM_CALLS.get(target)
    if read is None:
        raise UnsupportedError(f"custom_call @{target}: its meaning is not known here")
    found = read(r, operation, operands)
    return (found,) if isinstance(found, int) else found


def nothing(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Tokens order effects, and there are none here."""
    return [r.constant(False) for _ in operation.results]


ROWS: ReadRows = {
    "func.call": call,
    "stablehlo.after_all": nothing,
    "stablehlo.composite": composite,
    "stablehlo.create_token": nothing,
    "stablehlo.custom_call": custom_call,
}
