"""Readers of CHLO's broadcasting operations, such as `chlo.broadcast_add`.

Such a reader broadcasts the operands explicitly, and then calls the reader of the corresponding operation that does not
broadcast, such as `stablehlo.add`.

Source: CHLO's operation definitions, "broadcast_dimensions".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from lowering.module_tree import Operation
from lowering.read.bounded import bound_of, other_than_one, repeated, size_of, truncated
from lowering.read.reader import Read, Reader, ReadRows
from lowering.syntax.definitions import DEFINITIONS
from tenferro.dims import DimExpr, dim_max, dim_min, is_exact
from tenferro.errors import InvalidConfigError
from tenferro.ops.source import Iota
from tenferro.ops.structural import BroadcastInDim
from tenferro.types import DType, TensorSpec

__all__ = ["PREFIX", "broadcasting_rows"]

PREFIX = "chlo.broadcast_"


def broadcasting_rows(readers: ReadRows) -> ReadRows:
    """Return a dictionary from the names of broadcasting operations to their readers.

    An operation is omitted if `readers` contains no corresponding operation of StableHLO or CHLO that does not
    broadcast.
    """
    rows: dict[str, Read] = {}
    for name in DEFINITIONS:
        plain = name.removeprefix(PREFIX)
        read = readers.get(f"stablehlo.{plain}", readers.get(f"chlo.{plain}"))
        if name.startswith(PREFIX) and read is not None:
            rows[name] = broadcasting(read)
    return rows


def broadcasting(read: Read) -> Read:
    """Return a reader that broadcasts all operands to the shape of the result, and then calls `read`."""

    def read_broadcast(r: Reader, operation: Operation, operands: Sequence[int]) -> Any:
        shapes = [r.spec(value).shape for value in operands]
        ranks = [len(shape) for shape in shapes]
        rank = len(operation.spec.shape)
        given = operation.attributes.get("broadcast_dimensions")
        lesser = min(ranks)
        placed: list[tuple[int, ...]] = []
        for value, own in zip(operands, ranks, strict=True):
            dims = tuple(range(rank - own, rank))
            if given is not None and own == lesser < rank:
                dims = tuple(given)
            if len(dims) != own or any([not 0 <= axis < rank for axis in dims]):
                raise InvalidConfigError(
                    f"{operation.name}: broadcast_dimensions {dims} of {r.spec(value)}"
                )
            placed.append(dims)
        shape = _common_shape(operation, shapes, placed)
        spread = [
            value
            if own == shape and all(map(is_exact, own))
            else _spread(r, value, dims, shape, operands, placed)
            for value, own, dims in zip(operands, shapes, placed, strict=True)
        ]
        types = (TensorSpec.of(shape, operation.spec.dtype),)
        return read(r, replace(operation, types=types), spread)

    return read_broadcast


def _spread(
    r: Reader,
    value: int,
    dims: Sequence[int],
    shape: Sequence[Any],
    operands: Sequence[int],
    placed: Sequence[Sequence[int]],
) -> int:
    """Broadcast an operand to the common shape.

    Along an axis whose extent depends on data, the operand is broadcast to the bound, and truncated to the size that is
    common to all operands. The program raises an error if the operand's own size is neither 1 nor the common size.
    """
    bounds = list(shape)
    cuts: dict[int, int] = {}
    for axis, extent in enumerate(shape):
        sized = [
            (operand, places.index(axis))
            for operand, places in zip(operands, map(tuple, placed), strict=True)
            if axis in places and r.spec(operand).shape[places.index(axis)] != 1
        ]
        place = tuple(dims).index(axis) if axis in dims else None
        own = 1 if place is None else r.spec(value).shape[place]
        if all([is_exact(r.spec(operand).shape[number]) for operand, number in sized]):
            continue
        if own == 1:
            bounds[axis] = bound_of(extent)
            if not is_exact(extent):
                cuts[axis] = _common_size(r, sized)
        elif place is not None and not isinstance(own, int):
            bounds[axis] = DimExpr.input_axis(0, place)
            if len(sized) > 1 or is_exact(extent):
                value = repeated(r, value, place, _line(r, extent, sized))
    return truncated(r, r.apply_one(BroadcastInDim(tuple(bounds), tuple(dims)), value), cuts)


def _line(r: Reader, extent: Any, sized: Sequence[tuple[int, int]]) -> int:
    """Return the vector 0, 1, .. of the size to which axes of values are broadcast; `extent` is its extent."""
    line = r.apply_one(Iota((bound_of(extent),), 0, DType.I64))
    return truncated(r, line, {} if is_exact(extent) else {0: _common_size(r, sized)})


def _common_size(r: Reader, sized: Sequence[tuple[int, int]]) -> int:
    """Return the size to which axes of values are broadcast: the first that is not 1.

    Args:
        sized: pairs of a value and its axis.
    """
    sizes = [size_of(r, value, place) for value, place in sized]
    return reduce(partial(other_than_one, r), sizes)


def _common_shape(
    operation: Operation, shapes: Sequence[Sequence[Any]], placed: Sequence[Sequence[int]]
) -> tuple[Any, ...]:
    """Return the shape to which all operands are broadcast; symbolic extents are computed when the program runs."""
    common: list[Any] = [
        extent if isinstance(extent, int) else 1 for extent in operation.spec.shape
    ]
    for shape, dims in zip(shapes, placed, strict=True):
        for extent, axis in zip(shape, dims, strict=True):
            common[axis] = _common_extent(common[axis], extent)
    return tuple(common)


def _common_extent(a: Any, b: Any) -> Any:
    """Return the extent to which two axes of extents a and b are broadcast.

    A guard of the program checks that the extents of two symbolic axes are equal or 1. If an extent depends on data,
    the operation checks its size.

    >>> _common_extent(3, 1), _common_extent(1, 0), _common_extent(2, 2)
    (3, 0, 2)
    """
    if 1 in (a, b):
        return b if a == 1 else a
    for extent in (a, b):
        if isinstance(extent, int):
            return extent
    if not (is_exact(a) and is_exact(b)):
        return dim_max(a, b)
    return a if a == b else dim_max(a, b) * dim_min(1, dim_min(a, b))
