"""Operations on axes whose sizes depend on data: they are computed up to the bounds, and the results are truncated.

Source: StableHLO's document on bounded dynamism.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from lowering.module_tree import Operation
from lowering.read.reader import Read, Reader
from tenferro.dims import at_least, dim_max, is_exact, is_static, product
from tenferro.ops import elementwise as el
from tenferro.ops.dynamic import DynamicTruncate, PadToMatch
from tenferro.ops.source import Iota, ShapeOf
from tenferro.ops.structural import BroadcastInDim, Pad
from tenferro.types import DType, TensorSpec

__all__ = [
    "at_bounds",
    "bound_of",
    "dynamic_slice",
    "dynamic_update_slice",
    "element_of",
    "elements_at",
    "filled",
    "other_than_one",
    "padded_to_bounds",
    "repeated",
    "reshape",
    "size_of",
    "sizes_of",
    "spread_like",
    "steps",
    "together_at_bounds",
    "truncated",
    "window_counts",
]


def bound_of(extent: Any) -> Any:
    """Return an exact extent, or the bound of an extent that depends on data."""
    return extent if is_exact(extent) else extent.dim


def scalar(r: Reader, number: Any) -> int:
    """Return a number as an int64 scalar."""
    return r.constant(number, DType.I64)


def size_of(r: Reader, x: int, axis: int, least: Any = None) -> int:
    """Return the size of an axis; the program raises an error if it is less than `least`."""
    if least is not None:
        shape = [least if i == axis else 1 for i in range(r.spec(x).rank)]
        x = r.apply_one(PadToMatch(axis), r.spread(r.constant(False), shape), x)
    return r.apply_one(ShapeOf(axis), x)


def sizes_of(r: Reader, x: int) -> dict[int, int]:
    """Return the sizes that depend on data, by axis."""
    return {a: size_of(r, x, a) for a, n in enumerate(r.spec(x).shape) if not is_exact(n)}


def padded_to_bounds(r: Reader, x: int) -> tuple[int, dict[int, int]]:
    """Pad axes whose sizes depend on data with zeros up to their bounds; return the sizes by axis, too."""
    sizes = sizes_of(r, x)
    for axis in sizes:
        x = r.at_bound(x, axis)
    return x, sizes


def truncated(r: Reader, x: int, sizes: Mapping[int, int]) -> int:
    """Truncate axes to sizes that depend on data; `sizes` contains the scalar size of each such axis."""
    for axis, size in sizes.items():
        x = r.apply_one(DynamicTruncate(axis), x, size)
    return x


def spread_like(r: Reader, value: int, like: int) -> int:
    """Broadcast a scalar to the shape of `like`."""
    bounds = list(map(bound_of, r.spec(like).shape))
    return truncated(r, r.spread(value, bounds), sizes_of(r, like))


def element_of(r: Reader, vector: int, index: int) -> int:
    """Return an element of a vector as an int64 scalar."""
    return r.convert(r.reshape(r.slice(vector, 0, index, index + 1), ()), DType.I64)


def at_bounds(read: Read) -> Read:
    """Return a reader of an elementwise operation; it computes the operation up to the bounds of the operands.

    The program raises an error if operands have different sizes.
    """

    def read_at_bounds(r: Reader, operation: Operation, operands: Sequence[int]) -> Any:
        if all([r.spec(x).is_exact for x in operands]):
            return read(r, operation, operands)
        tensors = [x for x in operands if r.spec(x).rank]
        padded, sizes = together_at_bounds(r, tensors)
        places = iter(padded)
        xs = [next(places) if r.spec(x).rank else x for x in operands]
        shape = r.spec(padded[0]).shape
        types = tuple([TensorSpec.of(shape, spec.dtype) for spec in operation.types])  # pyright: ignore[reportAttributeAccessIssue]  # because results of elementwise operations are tensors
        y = read(r, replace(operation, types=types), xs)
        (output,) = (y,) if isinstance(y, int) else y
        return truncated(r, output, sizes)

    return read_at_bounds


def together_at_bounds(r: Reader, xs: Sequence[int]) -> tuple[list[int], dict[int, int]]:
    """Pad tensors of one shape to its bounds, and return the sizes by axis; the program compares the sizes.

    A padding to a shorter axis raises an error. So each tensor is padded to the first, and the first to each.
    """
    first, *others = xs
    axes = [
        a for a in range(r.spec(first).rank) if not all(is_exact(r.spec(x).shape[a]) for x in xs)
    ]
    for axis in axes:
        for number, x in enumerate(others):
            own = first
            first = r.apply_one(PadToMatch(axis), r.apply_one(PadToMatch(axis), own, x), own)
            others[number] = r.apply_one(PadToMatch(axis), x, own)
    sizes = {axis: size_of(r, first, axis) for axis in axes}
    return [padded_to_bounds(r, x)[0] for x in (first, *others)], sizes


def elements_at(r: Reader, x: int, axis: int, indices: int) -> int:
    """Return the slices of x at a vector of indices along an axis; indices outside the axis are clamped.

    An axis that may have no elements is padded with a zero at its end, which the caller masks or truncates.
    """
    shape = r.spec(x).shape
    x, sizes = padded_to_bounds(r, x)
    if sizes.pop(axis, None) is not None or at_least(shape[axis], 1) is not True:
        none = (0,) * len(shape)
        edge = tuple([int(i == axis) for i in range(len(shape))])
        x = r.apply_one(Pad(none, edge, none), x, r.constant(0, r.spec(x).dtype))
    return truncated(r, r.take(x, axis, indices), sizes)


def steps(r: Reader, start: int, stride: int, count: Any) -> int:
    """Return the indices start + i * stride for i < count."""
    line = r.apply_one(Iota((count,), 0, DType.I64))
    line = r.apply_one(el.Multiply(), line, r.spread(stride, (count,)))
    return r.apply_one(el.Add(), line, r.spread(start, (count,)))


def repeated(r: Reader, x: int, axis: int, line: int) -> int:
    """Broadcast an axis to the size of the vector `line`, whose elements are 0, 1, ..

    The minimum of two vectors of indices raises an error if the axis has neither one element nor this size.
    """
    extents = r.spec(x).shape[axis], r.spec(line).shape[0]
    bound = dim_max(*map(bound_of, extents))
    own = size_of(r, x, axis)
    reference = [bound if i == axis else 1 for i in range(r.spec(x).rank)]
    if extents[0] != bound:
        x = r.apply_one(PadToMatch(axis), x, r.spread(r.constant(False), reference))
    last = r.apply_one(el.Subtract(), own, scalar(r, 1))
    indices = r.apply_one(Iota((bound,), 0, DType.I64))
    indices = r.apply_one(el.Minimum(), indices, r.spread(last, (bound,)))
    size = other_than_one(r, own, size_of(r, line, 0))
    indices = truncated(r, indices, {0: size})
    return elements_at(r, x, axis, r.apply_one(el.Minimum(), indices, line))


def other_than_one(r: Reader, size: int, other: int) -> int:
    """Return `size`, or `other` if `size` is 1."""
    is_one = r.apply_one(el.Compare("EQ"), size, scalar(r, 1))
    return r.apply_one(el.Select(), is_one, other, size)


# ---- reshapes ----------------------------------------------------------------------------------------


def reshape(r: Reader, x: int, shape: Sequence[Any]) -> int | None:
    """Reshape x in row-major order, if the size of an axis of x depends on data.

    The program computes the position of each element of the result in x, padded to its bounds, and gathers it.

    Args:
        shape: the extents of the result; one that is not exact is computed from the number of elements.

    Returns:
        None if the result has several extents that are not exact, and does not only add or remove axes of extent 1.
    """
    own = r.spec(x).shape
    sizes = [size_of(r, x, axis) for axis in range(len(own))]
    lengths = _lengths(r, own, sizes, shape)
    if lengths is None:
        return None
    wanted, bounds = lengths
    flat, _ = padded_to_bounds(r, x)
    extents = r.spec(flat).shape
    index = r.full(0, TensorSpec.of(bounds, DType.I64))
    for axis, _ in enumerate(bounds):
        step = r.spread(_product(r, wanted[axis + 1 :]), bounds)
        line = r.apply_one(Iota(bounds, axis, DType.I64))
        index = r.apply_one(el.Add(), index, r.apply_one(el.Multiply(), line, step))
    position = r.full(0, TensorSpec.of(bounds, DType.I64))
    for axis in reversed(range(len(own))):
        size = r.spread(r.apply_one(el.Maximum(), sizes[axis], scalar(r, 1)), bounds)
        step = r.spread(_extent(r, product(extents[axis + 1 :])), bounds)
        place = r.apply_one(el.Multiply(), r.apply_one(el.Remainder(), index, size), step)
        position = r.apply_one(el.Add(), position, place)
        index = r.apply_one(el.Divide(), index, size)
    vector = r.reshape(flat, (product(extents),))
    y = r.reshape(elements_at(r, vector, 0, r.reshape(position, (product(bounds),))), bounds)
    cuts = [axis for axis, extent in enumerate(shape) if not is_exact(extent)]
    return truncated(r, y, {axis: wanted[axis] for axis in cuts})


def _lengths(
    r: Reader, own: Sequence[Any], sizes: Sequence[int], shape: Sequence[Any]
) -> tuple[list[int], tuple[Any, ...]] | None:
    """Return the sizes of a reshape's result as scalars, and their bounds; None if they are not determined."""
    wanted = [_extent(r, extent) if is_exact(extent) else 0 for extent in shape]
    bounds = list(shape)
    opened = [axis for axis, extent in enumerate(shape) if not is_exact(extent)]
    sources = [axis for axis, extent in enumerate(own) if extent != 1]
    targets = [axis for axis, extent in enumerate(shape) if extent != 1]
    if len(opened) > 1:
        if len(sources) != len(targets):
            return None
        for source, target in zip(sources, targets, strict=True):
            if target in opened:
                wanted[target], bounds[target] = sizes[source], bound_of(own[source])
    count = _product(r, sizes)
    limit = product(list(map(bound_of, own)))
    if len(opened) == 1:
        (axis,) = opened
        rest = [extent for extent in shape if is_exact(extent)]
        one = r.apply_one(el.Maximum(), _product(r, [_extent(r, n) for n in rest]), scalar(r, 1))
        wanted[axis] = r.apply_one(el.Divide(), count, one)
        bounds[axis] = limit // product(rest) if 0 not in rest else 0
    # The minimum of vectors of these sizes raises an error if the numbers of elements differ.
    limit = dim_max(limit, product(bounds))
    line = r.apply_one(Iota((limit,), 0, DType.I64))
    counts = [truncated(r, line, {0: size}) for size in (count, _product(r, wanted))]
    zero = r.apply_one(el.Subtract(), size_of(r, r.apply_one(el.Minimum(), *counts), 0), count)
    return [r.apply_one(el.Add(), size, zero) for size in wanted], tuple(bounds)


def _extent(r: Reader, extent: Any) -> int:
    """Return an exact extent as a scalar."""
    if is_static(extent):
        return scalar(r, extent)
    return size_of(r, r.spread(r.constant(False), (extent,)), 0)


def _product(r: Reader, sizes: Sequence[int]) -> int:
    return reduce(lambda a, b: r.apply_one(el.Multiply(), a, b), sizes, scalar(r, 1))


# ---- windows -----------------------------------------------------------------------------------------


def dynamic_slice(
    r: Reader, x: int, starts: Sequence[int], sizes: Sequence[Any]
) -> tuple[int, list[int]]:
    """Slice the axes of x whose sizes depend on data; return the result, and the starts along its axes.

    The program raises an error if an axis has fewer elements than the slice.
    """
    remaining = [r.convert(start, DType.I64) for start in starts]
    for axis, extent in enumerate(r.spec(x).shape):
        if not is_exact(extent):
            first = _clamped(
                r, remaining[axis], size_of(r, x, axis, sizes[axis]), scalar(r, sizes[axis])
            )
            x = elements_at(r, x, axis, steps(r, first, scalar(r, 1), sizes[axis]))
            remaining[axis] = scalar(r, 0)
    return x, remaining


def _clamped(r: Reader, start: int, extent: int, size: int) -> int:
    """Clamp the start of a window, so that the window is within bounds."""
    last = r.apply_one(el.Subtract(), extent, size)
    return r.apply_one(el.Clamp(), start, scalar(r, 0), last)


def dynamic_update_slice(r: Reader, x: int, update: int, starts: Sequence[int]) -> int:
    """Write a window into x, if a size of x or of the window depends on data.

    Element k of an axis is element k - start of the window, if that is an index of the window, and else is unchanged.
    The program raises an error if the window has more elements along an axis than x.
    """
    lengths = [size_of(r, update, axis) for axis in range(len(starts))]
    extents: list[int] = []
    for axis, extent in enumerate(r.spec(update).shape):
        fits = update if is_static(extent) else r.apply_one(PadToMatch(axis), update, x)
        extents.append(size_of(r, x, axis, extent) if is_static(extent) else size_of(r, fits, axis))
    padded, cuts = padded_to_bounds(r, x)
    shape = r.spec(padded).shape
    is_written = r.spread(r.constant(True), shape)
    for axis, (start, extent, length) in enumerate(zip(starts, extents, lengths, strict=True)):
        first = _clamped(r, r.convert(start, DType.I64), extent, length)
        places = steps(r, r.apply_one(el.Negate(), first), scalar(r, 1), shape[axis])
        update = elements_at(r, update, axis, places)
        zero, end = [r.spread(edge, (shape[axis],)) for edge in (scalar(r, 0), length)]
        inside = r.apply_one(
            el.And(),
            r.apply_one(el.Compare("GE"), places, zero),
            r.apply_one(el.Compare("LT"), places, end),
        )
        mask = r.apply_one(BroadcastInDim(shape, (axis,)), inside)
        is_written = r.apply_one(el.And(), is_written, mask)
    return truncated(r, r.apply_one(el.Select(), is_written, update, padded), cuts)


def window_counts(
    r: Reader, sizes: Mapping[int, int], parameters: Mapping[int, tuple[Any, ...]]
) -> dict[int, int]:
    """Return the number of windows along each axis whose size depends on data.

    Args:
        sizes: the sizes of these axes.
        parameters: by axis, the size of a window, its stride, its padding before and after, and the dilations of the
            base and of the window.
    """
    counts: dict[int, int] = {}
    for axis, size in sizes.items():
        window, stride, low, high, base, dilation = [int(n) for n in parameters[axis]]
        inner = r.apply_one(el.Subtract(), size, scalar(r, 1))
        inner = r.apply_one(el.Multiply(), inner, scalar(r, base))
        inner = r.apply_one(el.Maximum(), r.apply_one(el.Add(), inner, scalar(r, 1)), scalar(r, 0))
        reach = (window - 1) * dilation + 1 if window else 0
        room = r.apply_one(el.Add(), inner, scalar(r, low + high - reach + stride))
        room = r.apply_one(el.Maximum(), room, scalar(r, 0))
        counts[axis] = r.apply_one(el.Divide(), room, scalar(r, stride))
    return counts


def filled(r: Reader, x: int, sizes: Mapping[int, int], filler: int) -> int:
    """Replace the elements of x beyond the sizes of its axes."""
    shape = r.spec(x).shape
    for axis, size in sizes.items():
        line = r.apply_one(Iota(shape, axis, DType.I64))
        inside = r.apply_one(el.Compare("LT"), line, r.spread(size, shape))
        x = r.apply_one(el.Select(), inside, x, r.spread(filler, shape))
    return x
