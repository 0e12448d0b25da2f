"""Readers of CHLO's operations that broadcast: both operands are broadcast, and the plain operation is read.

Source: CHLO's operation definitions, "broadcast_dimensions".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.module_tree import Operation
from lowering.read.reader import Read, Reader, ReadRows
from lowering.syntax.definitions import DEFINITIONS
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.ops.structural import BroadcastInDim

__all__ = ["PREFIX", "broadcasting_rows"]

PREFIX = "chlo.broadcast_"


def broadcasting_rows(readers: ReadRows) -> ReadRows:
    """Return a reader for each operation that broadcasts and whose plain form, of StableHLO or CHLO, is read."""
    rows: dict[str, Read] = {}
    for name in DEFINITIONS:
        plain = name.removeprefix(PREFIX)
        read = readers.get(f"stablehlo.{plain}", readers.get(f"chlo.{plain}"))
        if name.startswith(PREFIX) and read is not None:
            rows[name] = broadcasting(read)
    return rows


def broadcasting(read: Read) -> Read:
    """Return the reader of an operation on operands that are broadcast to the shape of its result."""

    def read_broadcast(r: Reader, operation: Operation, operands: Sequence[int]) -> Any:
        shape = operation.spec.shape
        if not operation.spec.is_static:
            raise UnsupportedError(
                f"{operation.name}: its result is {operation.spec}; give numbers for extents"
            )
        ranks = [len(r.spec(value).shape) for value in operands]
        given = operation.attributes.get("broadcast_dimensions")
        lesser = min(ranks)
        spread = []
        for value, rank in zip(operands, ranks, strict=True):
            dims = tuple(range(len(shape) - rank, len(shape)))
            if given is not None and rank == lesser < len(shape):
                dims = tuple(given)
            if len(dims) != rank:
                raise InvalidConfigError(
                    f"{operation.name}: broadcast_dimensions {dims} of {r.spec(value)}"
                )
            same = r.spec(value).shape == shape
            spread.append(value if same else r.apply_one(BroadcastInDim(shape, dims), value))
        return read(r, operation, spread)

    return read_broadcast
