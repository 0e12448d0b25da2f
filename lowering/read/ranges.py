"""Ranges of integers that depend on the data.

A size that depends on the data often has an upper bound: the number of true elements, a minimum with a constant, the
size of a truncated axis. With this bound, the result of a dynamic operation is computed, and truncated when the
program runs. The bound also is the reason why such a result has a derivative, which is padded up to the bound.

Source: R. E. Moore, Interval Analysis, 1966.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lowering.module_tree import Operation
from lowering.read.reader import Reader
from lowering.read.regions import combiner_operation
from tenferro.dims import UpperBound, at_least, dim_max, dim_min, is_exact
from tenferro.types import DType

__all__ = ["Range", "note_range", "piece_of", "range_of"]


class Range(NamedTuple):
    """Bounds of all elements of an integer tensor; a bound is an extent, or None if there is none."""

    low: Any
    high: Any


def range_of(r: Reader, value: int) -> Range:
    """Return the range of the elements of a tensor of integers or bools, at least the range of its dtype."""
    recorded = r.ranges.get(value)
    if recorded is not None:
        return recorded
    extents = r.extents.get(value)
    array = r.constant_array(value) if extents is None else extents
    if array is not None and array.size and (extents is not None or array.dtype.kind in "iub"):
        elements = (
            array.ravel().tolist() if extents is not None else [int(array.min()), int(array.max())]
        )
        numbers = [int(x) if isinstance(x, bool) else x for x in elements]
        return Range(_least(numbers), _greatest(numbers))
    return _range_of_dtype(r.spec(value).dtype)


def _range_of_dtype(dtype: DType) -> Range:
    """Return the range of a dtype.

    >>> _range_of_dtype(DType.Bool), _range_of_dtype(DType.I8), _range_of_dtype(DType.F32)
    (Range(low=0, high=1), Range(low=-128, high=127), Range(low=None, high=None))
    """
    if not (dtype.is_bool or dtype.is_integer):
        return Range(None, None)
    low, high = dtype.extremes
    return Range(int(low), int(high))


def note_range(
    r: Reader, operation: Operation, operands: Sequence[int], results: Sequence[int]
) -> None:
    """Record the range of an operation's result, if a rule supports the operation."""
    _note_pieces(r, operation, operands, results)
    rule = RULES.get(operation.name)
    if rule is None or len(results) != 1 or not r.spec(results[0]).dtype.is_integer:
        return
    computed = rule(r, operation, operands)
    if _is_within(computed, _range_of_dtype(r.spec(results[0]).dtype)):
        r.ranges[results[0]] = computed


def _note_pieces(
    r: Reader, operation: Operation, operands: Sequence[int], results: Sequence[int]
) -> None:
    """Record the operands of a concatenation of vectors; a conversion to 32 bits or more has those of its operand."""
    is_wide = operation.name == "stablehlo.convert" and r.spec(results[0]).dtype.bits >= 32
    if is_wide and operands[0] in r.pieces:
        r.pieces[results[0]] = r.pieces[operands[0]]
    is_joined = operation.name == "stablehlo.concatenate" and r.spec(results[0]).rank == 1
    if is_joined and all([r.spec(value).is_static for value in operands]):
        r.pieces[results[0]] = tuple(operands)


def piece_of(r: Reader, vector: int, index: int) -> tuple[int, int]:
    """Return the vector from which an element was concatenated, and the element's index in it."""
    while vector in r.pieces:
        for piece in r.pieces[vector]:
            extent = r.spec(piece).shape[0]
            if index < extent:
                vector = piece
                break
            index -= extent
    return vector, index


def _is_within(inner: Range, outer: Range) -> bool:
    """Return whether no element overflows; bounds that are extents of arguments are assumed not to overflow."""
    if inner.low is None or inner.high is None:
        return False
    return (
        at_least(inner.low, outer.low) is not False
        and at_least(outer.high, inner.high) is not False
    )


def _least(numbers: Sequence[Any]) -> Any:
    return None if any([x is None for x in numbers]) else _folded(dim_min, numbers)


def _greatest(numbers: Sequence[Any]) -> Any:
    return None if any([x is None for x in numbers]) else _folded(dim_max, numbers)


def _folded(combine: Callable[[Any, Any], Any], numbers: Sequence[Any]) -> Any:
    total = numbers[0]
    for x in numbers[1:]:
        total = combine(total, x)
    return total


def _sum(*numbers: Any) -> Any:
    return None if any([x is None for x in numbers]) else sum(numbers)


def _is_positive(x: Any, least: int = 0) -> bool:
    return x is not None and at_least(x, least) is True


def _arithmetic(function: Callable[..., Range]) -> Callable[..., Range]:
    """Return a rule that computes the result's range from the ranges of the operands."""

    def rule(r: Reader, operation: Operation, operands: Sequence[int]) -> Range:
        return function(*[range_of(r, value) for value in operands])

    return rule


def _difference(x: Range, y: Range) -> Range:
    low = None if x.low is None or y.high is None else x.low - y.high
    return Range(low, None if x.high is None or y.low is None else x.high - y.low)


def _product(x: Range, y: Range) -> Range:
    if not (_is_positive(x.low) and _is_positive(y.low)):
        return Range(None, None)
    return Range(0, None if x.high is None or y.high is None else x.high * y.high)


def _quotient(x: Range, y: Range) -> Range:
    if not (_is_positive(x.low) and _is_positive(y.low, 1)):
        return Range(None, None)
    return Range(0, None if x.high is None else x.high // y.low)


def _remainder(x: Range, y: Range) -> Range:
    if y.high is None or not (_is_positive(x.low) and _is_positive(y.low, 1)):
        return Range(None, None)
    return Range(0, y.high - 1)


def _minimum(x: Range, y: Range) -> Range:
    highs = [high for high in (x.high, y.high) if high is not None]
    return Range(_least([x.low, y.low]), _least(highs) if highs else None)


def _maximum(x: Range, y: Range) -> Range:
    lows = [low for low in (x.low, y.low) if low is not None]
    return Range(_greatest(lows) if lows else None, _greatest([x.high, y.high]))


def _clamped(low: Range, x: Range, high: Range) -> Range:
    return _minimum(_maximum(low, x), high)


def _union(*ranges: Range) -> Range:
    return Range(_least([x.low for x in ranges]), _greatest([x.high for x in ranges]))


def _converted(r: Reader, operation: Operation, operands: Sequence[int]) -> Range:
    """Return the range of an operand of integers, which `note_range` rejects if the result's dtype is too small."""
    return range_of(r, operands[0])


def _measured(r: Reader, operation: Operation, operands: Sequence[int]) -> Range:
    extent = r.spec(operands[0]).shape[operation.attributes["dimension"]]
    bound = extent.dim if isinstance(extent, UpperBound) else extent if is_exact(extent) else None
    return Range(0, bound)


def _reduced(r: Reader, operation: Operation, operands: Sequence[int]) -> Range:
    """Return the range of a sum, maximum or minimum; a sum of n elements is at most n times the greatest."""
    names = combiner_operation(operation.regions[0])
    x, initial = [range_of(r, value) for value in operands]
    match names:
        case ("add",):
            shape = r.spec(operands[0]).shape
            count: Any = 1
            for axis in operation.attributes["dimensions"]:
                extent = shape[axis]
                count = count * (extent.dim if isinstance(extent, UpperBound) else extent)
            if not is_exact(count):
                return Range(None, None)
            total = _product(x, Range(0, count))
            return Range(_sum(total.low, initial.low), _sum(total.high, initial.high))
        case ("maximum",):
            return _union(x, initial, _maximum(x, initial))  # the initial value if an axis is empty
        case ("minimum",):
            return _union(x, initial, _minimum(x, initial))
        case _:
            return Range(None, None)


def _first(r: Reader, operation: Operation, operands: Sequence[int]) -> Range:
    return range_of(r, operands[0])


def _selected(r: Reader, operation: Operation, operands: Sequence[int]) -> Range:
    return _union(*[range_of(r, value) for value in operands[1:]])


RULES: Mapping[str, Callable[[Reader, Operation, Sequence[int]], Range]] = {
    "stablehlo.add": _arithmetic(lambda x, y: Range(_sum(x.low, y.low), _sum(x.high, y.high))),
    "stablehlo.broadcast_in_dim": _first,
    "stablehlo.clamp": _arithmetic(_clamped),
    "stablehlo.concatenate": _arithmetic(_union),
    "stablehlo.convert": _converted,
    "stablehlo.divide": _arithmetic(_quotient),
    "stablehlo.dynamic_slice": _first,
    "stablehlo.gather": _first,
    "stablehlo.get_dimension_size": _measured,
    "stablehlo.maximum": _arithmetic(_maximum),
    "stablehlo.minimum": _arithmetic(_minimum),
    "stablehlo.multiply": _arithmetic(_product),
    "stablehlo.reduce": _reduced,
    "stablehlo.remainder": _arithmetic(_remainder),
    "stablehlo.reshape": _first,
    "stablehlo.select": _selected,
    "stablehlo.slice": _first,
    "stablehlo.subtract": _arithmetic(_difference),
    "stablehlo.transpose": _first,
}
"""Rules that compute the range of an operation's result, by operation name."""
