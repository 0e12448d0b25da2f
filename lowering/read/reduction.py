"""Readers of reductions, windows and sorts.

A reduction whose region is a single operation, such as an addition, is read as a reduction op. A reduction whose region
selects one of two pairs of value and index is read as `ArgMax` or `ArgMin`. The region of any other reduction must be
elementwise and associative. It is applied to whole tensors: first to neighbouring elements, then to neighbouring
results, in log2(n) steps for n elements. The reduction of a window of w elements is combined from those of windows of
1, 2, 4, .. elements. The order of elements is preserved, so the region need not be commutative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lowering.emit.reduction import identity
from lowering.module_tree import Block, Operation
from lowering.read import total_order
from lowering.read.arg_reductions import arg_reduction
from lowering.read.bounded import filled, spread_like, together_at_bounds, truncated, window_counts
from lowering.read.comparators import sorted_by
from lowering.read.promotion import promoted
from lowering.read.reader import Reader, ReadRows
from lowering.read.regions import ON_BOOL, combiner_operation, scatter_combiner
from lowering.read.scatters import Numbers, scattered
from tenferro.dims import dim_max, is_static, product
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.ops import StdTensorOp
from tenferro.ops import elementwise as el
from tenferro.ops import reduction as re
from tenferro.ops import structural as st
from tenferro.ops.source import Iota
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS", "top_k"]

Values = Sequence[int]
Combine = Callable[[Values, Values], Values]

REDUCTIONS: dict[str, type[re.Reduction]] = {
    card.combiner.__name__.lower(): card for card in re.CARDS if issubclass(card, re.Reduction)
}
SCANS: dict[str, type[re.Scan]] = {
    card.combiner.__name__.lower(): card for card in re.CARDS if issubclass(card, re.Scan)
}
SCANS_OF_TRUTH: dict[str, Any] = {"or": re.CumMax, "and": re.CumMin}
PAIRS: dict[str, StdTensorOp] = {
    **{name: card.combiner() for name, card in REDUCTIONS.items()}, "xor": el.Xor()
}  # fmt: skip


def is_identity(name: str, value: Any) -> bool:
    """Return whether a value is a scalar that equals the identity of the operation `name`, for example 0 for "add"."""
    if value is None or value.size != 1:
        return False
    return bool(value.flat[0] == identity(name, DType.of(value.dtype)))


def _name_of(r: Reader, block: Block, values: Sequence[int]) -> str | None:
    """Return the name of the operation if a region consists of one operation on a pair of elements; else None."""
    names = combiner_operation(block) if len(values) == 1 else None
    if names is None or names[0] == "set":
        return None
    is_bool = r.spec(values[0]).dtype.is_bool
    return ON_BOOL.get(names[0], names[0]) if is_bool else names[0]


def _combine(r: Reader, block: Block, values: Sequence[int]) -> Combine:
    """Return a function that applies the region elementwise to two lists of tensors."""
    name = _name_of(r, block, values)
    if name is not None:
        return lambda xs, ys: [r.apply_one(PAIRS[name], xs[0], ys[0])]
    return lambda xs, ys: r.lifted(block, [*xs, *ys])


def reduce(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    count = len(operands) // 2
    xs, starts = operands[:count], operands[count:]
    axes = tuple(operation.attributes["dimensions"])
    block = operation.regions[0]
    if any([isinstance(spec, TensorSpec) and spec.rank for spec in block.types]):
        raise InvalidConfigError(
            f"stablehlo.reduce: its region takes scalars, got {block.types[0]}"
        )
    name = _name_of(r, block, xs)
    if name is not None:
        card = REDUCTIONS.get(name)
        if card is not None:
            y = r.apply_one(card(axes), xs[0]) if axes else xs[0]
            return [_started(r, name, starts[0], y)]
    arg_results = arg_reduction(r, block, operands, axes)
    if arg_results is not None:
        return arg_results
    combine = _combine(r, block, xs)
    if all([r.spec(x).is_exact for x in xs]):
        return _reduced(r, xs, starts, axes, combine)
    return _reduced_at_bounds(r, xs, starts, axes, combine)


def _started(r: Reader, name: str, start: int, y: int) -> int:
    """Combine the result y of a reduction with the initial value `start`, unless that is the identity."""
    if is_identity(name, r.constant_array(start)):
        return y
    return r.apply_one(PAIRS[name], spread_like(r, start, y), y)


def _reduced(
    r: Reader, xs: Values, starts: Values, axes: tuple[int, ...], combine: Combine
) -> Values:
    shape = r.spec(xs[0]).shape
    remaining = [axis for axis in range(len(shape)) if axis not in axes]
    rest = tuple([shape[axis] for axis in remaining])
    length = product([shape[axis] for axis in axes])
    if not is_static(length):
        raise UnsupportedError(
            f"stablehlo.reduce: its region has several operations, which needs numbers for the extents along {axes} of "
            f"{r.spec(xs[0])}; pass specs with numbers"
        )
    flat = [r.reshape(r.transpose(x, (*remaining, *axes)), (*rest, length)) for x in xs]
    initial = [r.spread(start, rest) for start in starts]
    if not length:
        return initial
    axis = len(rest)
    while length > 1:
        even = [r.slice(x, axis, 0, length - length % 2, 2) for x in flat]
        odd = [r.slice(x, axis, 1, length - length % 2, 2) for x in flat]
        paired = combine(even, odd)
        if length % 2:
            last = [r.slice(x, axis, length - 1, length) for x in flat]
            join = st.Concatenate(axis, 2)
            paired = [r.apply_one(join, a, b) for a, b in zip(paired, last, strict=True)]
        flat, length = paired, (length + 1) // 2
    return combine(initial, [r.reshape(x, rest) for x in flat])


def _reduced_at_bounds(
    r: Reader, xs: Values, starts: Values, axes: tuple[int, ...], combine: Combine
) -> Values:
    """Reduce along axes whose sizes depend on data.

    A mask says which values contain an element within the sizes; a value without one leaves the other unchanged.
    """

    def masked(a: Values, b: Values) -> Values:
        (*first, p), (*second, q) = a, b
        both = r.apply_one(el.And(), p, q)
        only = [r.apply_one(el.Select(), p, *pair) for pair in zip(first, second, strict=True)]
        pairs = zip(combine(first, second), only, strict=True)
        ys = [r.apply_one(el.Select(), both, *pair) for pair in pairs]
        return [*ys, r.apply_one(el.Or(), p, q)]

    xs, sizes = together_at_bounds(r, xs)
    xs = [filled(r, x, sizes, start) for x, start in zip(xs, starts, strict=True)]
    true, false = r.constant(True), r.constant(False)
    mask = filled(r, r.spread(true, r.spec(xs[0]).shape), sizes, false)
    *ys, _ = _reduced(r, [*xs, mask], [*starts, true], axes, masked)
    remaining = [axis for axis in range(r.spec(mask).rank) if axis not in axes]
    cuts = {k: sizes[axis] for k, axis in enumerate(remaining) if axis in sizes}
    return [truncated(r, y, cuts) for y in ys]


# ---- windows -----------------------------------------------------------------------------------------


class Windows:
    """Sizes, strides, dilations and padding of a window operation, with their defaults."""

    def __init__(self, operation: Operation) -> None:
        a = operation.attributes
        self.sizes = tuple(a["window_dimensions"])
        ones = (1,) * len(self.sizes)
        self.strides = tuple(a.get("window_strides") or ones)
        self.base = tuple(a.get("base_dilations") or ones)
        self.dilations = tuple(a.get("window_dilations") or ones)
        padding = a.get("padding")
        pairs = (
            [(0, 0)] * len(ones) if padding is None else np.asarray(padding).reshape(-1, 2).tolist()
        )
        self.low = tuple([low for low, _ in pairs])
        self.high = tuple([high for _, high in pairs])

    def padded(self, r: Reader, x: int, start: int) -> int:
        """Pad x with the initial value `start`, around and between its elements, as padding and base dilation say."""
        interior = tuple([dilation - 1 for dilation in self.base])
        if all([edge == 0 for edge in (*self.low, *self.high, *interior)]):
            return x
        return r.apply_one(st.Pad(self.low, self.high, interior), x, start)

    def scan(self, shape: tuple[int, ...]) -> tuple[int, bool] | None:
        """Return the axis, and whether the direction is reverse, if the windows are those of a cumulative reduction.

        Each window then contains all elements up to a position along the axis, or from it on. Return None for any other
        windows.
        """
        wide = [axis for axis, size in enumerate(self.sizes) if size != 1]
        ones = (1,) * len(shape)
        if len(wide) != 1 or not self.strides == self.base == self.dilations == ones:
            return None
        (axis,) = wide
        extent = shape[axis]
        for reverse in (False, True):
            low, high = (0, extent - 1) if reverse else (extent - 1, 0)
            wanted = tuple([(low, high) if i == axis else (0, 0) for i in range(len(shape))])
            if (
                self.sizes[axis] == extent
                and tuple(zip(self.low, self.high, strict=True)) == wanted
            ):
                return axis, reverse
        return None


def reduce_window(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    xs, block = operands[: len(operands) // 2], operation.regions[0]
    if not all([r.spec(x).is_exact for x in xs]):
        return _reduce_window_at_bounds(r, operation, operands)
    name = _name_of(r, block, xs)
    dtype = r.spec(xs[0]).dtype
    scans = SCANS_OF_TRUTH if dtype.is_bool else SCANS
    if name is not None and name in scans:
        scan = Windows(operation).scan(r.spec(xs[0]).shape)
        if scan is not None and is_identity(name, r.evaluated(operands[-1])):
            return [r.apply_one(scans[name](*scan), xs[0])]
    if name in ("add", "multiply") and dtype.accumulator is not dtype:
        wide = [r.convert(value, dtype.accumulator) for value in operands]
        return [r.convert(y, dtype) for y in _window(r, operation, wide, name)]
    return _window(r, operation, operands, name)


def _reduce_window_at_bounds(
    r: Reader, operation: Operation, operands: Sequence[int]
) -> Sequence[int]:
    """Read a reduction of windows along axes whose sizes depend on data.

    Beyond an axis are initial values, as in the padding of the operation.
    """
    count = len(operands) // 2
    xs, sizes = together_at_bounds(r, operands[:count])
    starts = operands[count:]
    xs = [filled(r, x, sizes, start) for x, start in zip(xs, starts, strict=True)]
    w = Windows(operation)
    windows = zip(w.sizes, w.strides, w.low, w.high, w.base, w.dilations, strict=True)
    counts = window_counts(r, sizes, dict(enumerate(windows)))
    return [truncated(r, y, counts) for y in reduce_window(r, operation, [*xs, *starts])]


def _window(
    r: Reader, operation: Operation, operands: Sequence[int], name: str | None
) -> Sequence[int]:
    count = len(operands) // 2
    xs, starts = operands[:count], operands[count:]
    windows, block = Windows(operation), operation.regions[0]
    combine = _combine(r, block, xs)
    outputs = _windowed(
        r, [windows.padded(r, x, s) for x, s in zip(xs, starts, strict=True)], windows, combine
    )
    if name is not None:
        return [_started(r, name, starts[0], outputs[0])]
    initial = [r.spread(start, r.spec(outputs[0]).shape) for start in starts]
    return combine(initial, outputs)


def _windowed(r: Reader, xs: Values, windows: Windows, combine: Combine) -> Values:
    """Combine the elements of each window, in row-major order: along the last axis first, then along the others."""
    for axis, size in reversed(list(enumerate(windows.sizes))):
        xs = _along(r, xs, axis, size, windows.strides[axis], windows.dilations[axis], combine)
    return xs


def _along(
    r: Reader, xs: Values, axis: int, size: Any, stride: int, dilation: int, combine: Combine
) -> Values:
    extent = r.spec(xs[0]).shape[axis]
    if not isinstance(size, int):
        raise UnsupportedError(
            f"a window of {size} elements, which is not a running sum, needs a number for the extent"
        )
    count = dim_max(0, (extent - (size - 1) * dilation - 1) // stride + 1)
    if size == 0 or count == 0:
        return [r.slice(x, axis, 0, 0) for x in xs]
    reach = (count - 1) * stride + 1
    if size <= 2 * size.bit_length():
        # Small windows: combine strided slices of x, one for each element of a window.
        parts = [
            [r.slice(x, axis, k * dilation, k * dilation + reach, stride) for x in xs]
            for k in range(size)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = combine(total, part)
        return total
    # Large windows: compute the reductions of windows of 1, 2, 4, .. elements at every position. Combine them as the
    # binary digits of the size require; windows of fewer elements are on the right.
    power, length, done = list(xs), 1, 0
    total: Values | None = None
    for bit in range(size.bit_length()):
        if size >> bit & 1:
            offset = (size - done - length) * dilation
            part = [r.slice(x, axis, offset, offset + reach, stride) for x in power]
            total = part if total is None else combine(part, total)
            done += length
        if size >> (bit + 1):
            n = r.spec(power[0]).shape[axis]
            shift = length * dilation
            first = [r.slice(x, axis, 0, n - shift) for x in power]
            second = [r.slice(x, axis, shift, n) for x in power]
            power, length = combine(first, second), 2 * length
    assert total is not None
    return total


def select_and_scatter(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read `select_and_scatter`.

    The first region selects one element of each window. The source operand contains a value for each window, which is
    scattered to the selected element. The second region combines the values that are scattered to the same element.
    """
    x, source, start = operands
    windows = Windows(operation)
    select, scatter = operation.regions
    spec = r.spec(x)
    size = product(spec.shape)
    places = r.reshape(r.apply_one(Iota((size,), 0, DType.I64)), spec.shape)
    nowhere = r.constant(np.int64(-1))
    filled = r.constant(np.zeros((), spec.dtype.dtype))

    def combine(a: Values, b: Values) -> Values:
        (keeps,) = r.lifted(select, [a[0], b[0]])
        outside = r.full(-1, r.spec(a[1]))
        first, second = (r.apply_one(el.Compare("NE"), v[1], outside) for v in (a, b))
        keeps = r.apply_one(
            el.And(), first, r.apply_one(el.Or(), keeps, r.apply_one(el.Not(), second))
        )
        return [r.apply_one(el.Select(), keeps, p, q) for p, q in zip(a, b, strict=True)]

    padded = [windows.padded(r, x, filled), windows.padded(r, places, nowhere)]
    _, chosen = _windowed(r, padded, windows, combine)
    flat = r.reshape(r.spread(start, spec.shape), (size,))
    count = product(r.spec(source).shape)
    numbers = Numbers((), (0,), (), (), (0,), 1)
    indices, update = r.reshape(chosen, (count, 1)), r.reshape(source, (count,))
    names = combiner_operation(scatter)
    combiner = None if names is None else scatter_combiner(names[0], spec.dtype)
    if combiner is not None:
        updated = r.apply_one(numbers.scatter(combiner), flat, indices, update)
    else:
        (updated,) = scattered(r, scatter, numbers, [flat], indices, [update], False)
    return r.reshape(updated, spec.shape)


# ---- order -------------------------------------------------------------------------------------------


def sort(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    rank = len(r.spec(operands[0]).shape)
    axis = int(operation.attributes.get("dimension", -1)) % max(rank, 1)
    stable = bool(operation.attributes.get("is_stable", False))
    if not rank or 0 in r.spec(operands[0]).shape:
        return list(operands)
    return sorted_by(r, operation.regions[0], list(operands), axis, stable)


def top_k(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read an operation or a call for the k largest elements in the total order, and their indices.

    k is the extent of the result. An attribute `largest` that is false selects the smallest elements instead.
    """
    largest = bool((operation.attributes.get("mhlo.attributes") or {}).get("largest", True))
    values, places = total_order.top_k(r, operands[0], operation.spec.shape[-1], largest)
    return [values, r.convert(places, DType.I32)]


ROWS: ReadRows = {
    "chlo.top_k": top_k,
    "stablehlo.reduce": promoted(reduce, range),
    "stablehlo.reduce_window": promoted(reduce_window, range),
    "stablehlo.select_and_scatter": select_and_scatter,
    "stablehlo.sort": sort,
}
