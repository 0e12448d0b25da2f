"""Readers of operations with shapes as operands, which are computed from extents.

An integer that is computed from extents of the arguments is an extent itself: a number or a `SymDim`. The
shape operand of an operation must be of such extents; one that depends on the elements of an argument is
refused.

Source: StableHLO spec #dynamic_broadcast_in_dim, #dynamic_gather, #dynamic_iota, #dynamic_pad,
#dynamic_reshape, #get_dimension_size, #real_dynamic_slice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lowering.module_tree import Operation
from lowering.read.indexing import gather
from lowering.read.reader import Reader, ReadRows
from lowering.read.reduction import reduce_window
from tenferro.dims import SymDim, at_least, dim_max, dim_min
from tenferro.errors import UnsupportedError
from tenferro.ops import structural as st
from tenferro.ops.source import Iota, ShapeOf

__all__ = ["ROWS", "dynamic_reduce_window", "extents_of", "note_extents"]


def dimension_size(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    axis = operation.attributes["dimension"]
    extent = r.spec(operands[0]).shape[axis]
    if isinstance(extent, int):
        return r.constant(extent, operation.spec.dtype)
    size = r.convert(r.apply_one(ShapeOf(axis), operands[0]), operation.spec.dtype)
    r.extents[size] = _array([extent], ())
    return size


def broadcast_in_dim(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    shape = _shape(r, operation, operands[1])
    dims = tuple(operation.attributes["broadcast_dimensions"])
    return r.apply_one(st.BroadcastInDim(shape, dims), operands[0])


def dynamic_reshape(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    return r.reshape(operands[0], _shape(r, operation, operands[1]))


def dynamic_iota(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    shape = _shape(r, operation, operands[0])
    return r.apply_one(Iota(shape, operation.attributes["iota_dimension"], operation.spec.dtype))


def dynamic_slice(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    starts, limits, strides = [_shape(r, operation, value) for value in operands[1:]]
    return r.apply_one(st.Slice(starts, limits, strides), operands[0])


def dynamic_pad(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    low, high, interior = [_shape(r, operation, value) for value in operands[2:]]
    return r.apply_one(st.Pad(low, high, interior), *operands[:2])


def dynamic_gather(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    sizes = _shape(r, operation, operands[2])
    attributes = operation.attributes | {"slice_sizes": sizes}
    return gather(r, replace(operation, attributes=attributes), operands[:2])


def dynamic_reduce_window(
    r: Reader, operation: Operation, operands: Sequence[int]
) -> Sequence[int]:
    """jax's call for windows with sizes as operands: sizes, strides, both dilations, and edges."""
    *arrays, sizes, strides, base, dilations, edges = operands
    name = operation.attributes["called_computations"][0]
    region = r.tree.functions[name.removeprefix("@")].body
    attributes = {
        "window_dimensions": _shape(r, operation, sizes),
        "window_strides": _shape(r, operation, strides),
        "base_dilations": _shape(r, operation, base),
        "window_dilations": _shape(r, operation, dilations),
        "padding": _array(_shape(r, operation, edges), (len(r.spec(arrays[0]).shape), 2)),
    }
    return reduce_window(r, replace(operation, attributes=attributes, regions=(region,)), arrays)


def _shape(r: Reader, operation: Operation, value: int) -> tuple[Any, ...]:
    """The elements of a vector of extents.

    Raises:
        UnsupportedError: an element is no extent.
    """
    extents = extents_of(r, value)
    if extents is None:
        raise UnsupportedError(
            f"{operation.name}: its shapes and bounds must be constants or made of the arguments' extents "
            "by +, -, * and division without a rest, and an argument's elements, or another operation, "
            "decide one of them"
        )
    return tuple(extents.ravel().tolist())


# ---- what is known of integers ---------------------------------------------------------------


def extents_of(r: Reader, value: int) -> Any:
    """The elements of an integer or bool tensor as numbers, symbolic extents and truth values; None where they
    are not known.
    """
    extents = r.extents.get(value)
    if extents is not None:
        return extents
    array = r.known(value)
    if array is None:
        array = r.evaluated(value)
    if array is None or np.asarray(array).dtype.kind not in "iub":
        return None
    return _array(np.asarray(array).ravel().tolist(), np.shape(array))


def note_extents(
    r: Reader, operation: Operation, operands: Sequence[int], results: Sequence[int]
) -> None:
    """Remember the result of an operation on extents, if it is one."""
    rule = RULES.get(operation.name)
    if rule is None or len(results) != 1 or r.extents.keys().isdisjoint(operands):
        return
    spec = r.spec(results[0])
    if spec.dtype.is_inexact or spec.rank > 2 or not spec.is_static:
        return
    extents = rule(r, operation, *[extents_of(r, value) for value in operands])
    if extents is not None:
        r.extents[results[0]] = extents
    elif operation.name == "stablehlo.compare" and not spec.rank:
        _note_claim(r, operation, operands, results[0])


def _note_claim(r: Reader, operation: Operation, operands: Sequence[int], result: int) -> None:
    """Remember a comparison of two numbers that only a run decides."""
    sides = [extents_of(r, value) for value in operands]
    if any([side is None for side in sides]):
        return
    lhs, rhs = [side.flat[0] for side in sides]
    match operation.attributes["comparison_direction"]:
        case "EQ":
            r.claims[result] = (lhs, "==", rhs)
        case "GE":
            r.claims[result] = (lhs, ">=", rhs)
        case "GT":
            r.claims[result] = (lhs, ">=", rhs + 1)
        case "LE":
            r.claims[result] = (rhs, ">=", lhs)
        case "LT":
            r.claims[result] = (rhs, ">=", lhs + 1)
        case _:
            pass


def _at_least(r: Reader, lhs: Any, rhs: Any) -> bool | None:
    """Whether lhs >= rhs, for symbols bounded below by the module's assertions."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return lhs >= rhs
    shifted: dict[Any, Any] = {
        symbol: SymDim(symbol.name) + low for symbol, low in r.lowest.items()
    }
    sides = [x if isinstance(x, int) else x.evaluate(shifted) for x in (lhs, rhs)]
    return at_least(*sides)


def _array(elements: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """An array of objects, because NumPy would ask a `SymDim` for its number."""
    array = np.empty(len(elements), object)
    for i, element in enumerate(elements):
        array[i] = element
    return array.reshape(shape)


def _each(function: Callable[..., Any], partly: bool = False) -> Callable[..., Any]:
    """A rule that applies `function(r, *elements)` elementwise; an unknown element is None.

    Args:
        partly: the function also takes None for unknown operands.
    """

    def rule(r: Reader, operation: Operation, *operands: Any) -> Any:
        present = [x for x in operands if x is not None]
        if len(present) < len(operands) and not partly:
            return None
        rows = [[None] * present[0].size if x is None else x.ravel().tolist() for x in operands]
        if len({len(row) for row in rows}) > 1:
            return None
        elements = [function(r, *row) for row in zip(*rows, strict=True)]
        unknown = any([element is None for element in elements])
        return None if unknown else _array(elements, present[0].shape)

    return rule


def _quotient(r: Reader, lhs: Any, rhs: Any) -> Any:
    """StableHLO's truncates and an extent's floors: the same above zero."""
    if isinstance(rhs, SymDim) or rhs <= 0 or not _at_least(r, lhs, 0):
        return None
    return lhs // rhs


def _remainder(r: Reader, lhs: Any, rhs: Any) -> Any:
    if isinstance(rhs, SymDim) or rhs <= 0 or not _at_least(r, lhs, 0):
        return None
    return lhs % rhs


def _sign(r: Reader, x: Any) -> Any:
    if isinstance(x, int):
        return (x > 0) - (x < 0)
    return 1 if _at_least(r, x, 1) else None


def _and(r: Reader, lhs: Any, rhs: Any) -> Any:
    if lhs is False or rhs is False:
        return False
    return None if lhs is None or rhs is None or lhs is not True else rhs


def _or(r: Reader, lhs: Any, rhs: Any) -> Any:
    if lhs is True or rhs is True:
        return True
    return None if lhs is None or rhs is None or lhs is not False else rhs


def _not(r: Reader, x: Any) -> Any:
    return not x if isinstance(x, bool) else None


def _select(r: Reader, pred: Any, on_true: Any, on_false: Any) -> Any:
    return None if pred is None else on_true if pred else on_false


def _compare(r: Reader, operation: Operation, lhs: Any, rhs: Any) -> Any:
    """The comparison, where it has the same result for all extents."""
    if lhs is None or rhs is None:
        return None
    direction = operation.attributes["comparison_direction"]
    return _each(lambda r, a, b: _decided(r, direction, a, b))(r, operation, lhs, rhs)


def _decided(r: Reader, direction: str, lhs: Any, rhs: Any) -> bool | None:
    if isinstance(lhs, bool) or isinstance(rhs, bool):
        return None
    match direction:
        case "GE":
            return _at_least(r, lhs, rhs)
        case "LE":
            return _at_least(r, rhs, lhs)
        case "GT":
            return _not(r, _at_least(r, rhs, lhs))
        case "LT":
            return _not(r, _at_least(r, lhs, rhs))
        case _:
            apart = _at_least(r, lhs, rhs + 1) or _at_least(r, rhs, lhs + 1)
            equal = True if lhs == rhs else False if apart else None
            return equal if direction == "EQ" or equal is None else not equal


def _repeated(r: Reader, operation: Operation, x: Any) -> Any:
    shape = operation.spec.shape
    if x is None or (x.size != 1 and x.shape != shape):
        return None
    return _array(x.ravel().tolist() * (math.prod(shape) // x.size), shape)


def _joined(r: Reader, operation: Operation, *xs: Any) -> Any:
    is_known = not any([x is None for x in xs])
    return np.concatenate(xs, operation.attributes["dimension"]) if is_known else None


def _sliced(r: Reader, operation: Operation, x: Any) -> Any:
    if x is None:
        return None
    a = operation.attributes
    edges = zip(a["start_indices"], a["limit_indices"], a["strides"], strict=True)
    return x[tuple([slice(*edge) for edge in edges])]


RULES: Mapping[str, Callable[..., Any]] = {
    "stablehlo.add": _each(lambda r, x, y: x + y),
    "stablehlo.and": _each(_and, partly=True),
    "stablehlo.broadcast_in_dim": _repeated,
    "stablehlo.compare": _compare,
    "stablehlo.concatenate": _joined,
    "stablehlo.convert": lambda r, operation, x: x,
    "stablehlo.divide": _each(_quotient),
    "stablehlo.maximum": _each(lambda r, x, y: dim_max(x, y)),
    "stablehlo.minimum": _each(lambda r, x, y: dim_min(x, y)),
    "stablehlo.multiply": _each(lambda r, x, y: x * y),
    "stablehlo.negate": _each(lambda r, x: -x),
    "stablehlo.not": _each(_not),
    "stablehlo.or": _each(_or, partly=True),
    "stablehlo.remainder": _each(_remainder),
    "stablehlo.reshape": lambda r, operation, x: (
        None if x is None else x.reshape(operation.spec.shape)
    ),
    "stablehlo.select": _each(_select, partly=True),
    "stablehlo.sign": _each(_sign),
    "stablehlo.slice": _sliced,
    "stablehlo.subtract": _each(lambda r, x, y: x - y),
}
"""Rules for integers and truth values computed from extents, by name of operation."""

ROWS: ReadRows = {
    "stablehlo.dynamic_broadcast_in_dim": broadcast_in_dim,
    "stablehlo.dynamic_gather": dynamic_gather,
    "stablehlo.dynamic_iota": dynamic_iota,
    "stablehlo.dynamic_pad": dynamic_pad,
    "stablehlo.dynamic_reshape": dynamic_reshape,
    "stablehlo.get_dimension_size": dimension_size,
    "stablehlo.real_dynamic_slice": dynamic_slice,
}
