"""`pad`: a tensor with elements added around it, by NumPy's modes.

Modes that repeat elements gather them by index, axis by axis. The derivative with respect to an element is therefore
the sum over all its copies.

Source: NumPy 2.4, reference, numpy.pad.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Unpack

import numpy as np

from tenferro.api import reductions
from tenferro.api.axes import normalize_axis
from tenferro.api.creation import linspace
from tenferro.api.elementwise import floor, multiply, subtract
from tenferro.api.elementwise import round as nearest
from tenferro.api.indexing import take
from tenferro.api.manipulation import concat, flip, slice_axis
from tenferro.api.promotion import broadcast_to, convert
from tenferro.api.statistics import median
from tenferro.dims import is_static
from tenferro.dispatch import apply_one, as_operand, spec_of
from tenferro.errors import InvalidConfigError, NonStaticShapeError, ShapeError
from tenferro.ops.structural import Pad
from tenferro.types import ArrayLike, Tensor, UfuncOptions

__all__ = ["pad"]

_OPTIONS: Mapping[str, str | None] = {
    "constant": "constant_values", "empty": None, "edge": None, "reflect": "reflect_type",
    "symmetric": "reflect_type", "wrap": None, "linear_ramp": "end_values", "maximum": "stat_length",
    "mean": "stat_length", "median": "stat_length", "minimum": "stat_length",
}  # fmt: skip
"""Maps each mode to the name of its only option, or to None."""


def pad(
    array: ArrayLike,
    pad_width: ArrayLike | Mapping[int, Any],
    mode: str = "constant",
    **options: Unpack[UfuncOptions],
) -> Any:
    """Add elements before and after each axis of array, one axis after another; `pad_width` has their numbers.

    Args:
        pad_width: one width, a pair of widths (before, after), a pair for each axis, or a dict from axes to widths or
            pairs.
        mode: the kind of elements that are added. "constant" adds `constant_values`, by default 0. "edge" adds the
            outermost element. "reflect" and "symmetric" add the mirrored elements, without and with the outermost
            element; with `reflect_type` "odd" they are subtracted from twice the outermost element. "wrap" adds elements from the other end. "linear_ramp" adds a line from the outermost element to
            `end_values`, by default 0. "maximum", "mean", "median" and "minimum" add this statistic of the
            `stat_length` outermost elements, by default all. "empty" adds zeros.
        options: the option of the mode. Its values for each axis and end are written like `pad_width`.

    Raises:
        InvalidConfigError: the mode is unknown, or has no such option.
        ShapeError: the widths do not match the axes, or the mode needs elements of an empty axis.
        NonStaticShapeError: the extent of a padded axis is not a number, and the mode is not "constant".

    >>> pad([1, 2], 1), pad([1, 2, 3], (2, 0), "reflect"), pad([1.0, 2.0], (0, 2), "linear_ramp")
    (array([0, 1, 2, 0]), array([3, 2, 1, 2, 3]), array([1., 2., 1., 0.]))
    """
    if mode not in _OPTIONS:
        modes = ", ".join(f'"{name}"' for name in _OPTIONS)
        raise InvalidConfigError(f"pad: mode must be one of {modes}, got {mode!r}")
    for option in options:
        if option != _OPTIONS[mode]:
            raise InvalidConfigError(f'pad: mode "{mode}" takes no {option}=')
    x = as_operand(array)
    rank = len(x.shape)
    widths = [
        _width(x, pad_width, pair) for pair in _pairs("pad_width", _by_axis(pad_width, rank), x)
    ][:rank]
    if mode == "empty" or (
        mode == "constant" and not _is_nested(options.get("constant_values", 0))
    ):
        return _surrounded(x, widths, options.get("constant_values", 0))
    option = _OPTIONS[mode]
    default = {"constant_values": 0, "end_values": 0}.get(option or "")
    settings = _pairs(option or "", options.get(option or "", default), x)[:rank]
    for axis, (width, setting) in enumerate(zip(widths, settings, strict=True)):
        if width != (0, 0):
            x = _MODES[mode](mode, x, axis, width, setting)
    return x


def _is_nested(value: ArrayLike) -> bool:
    return isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _by_axis(pad_width: ArrayLike | Mapping[int, Any], rank: int) -> Any:
    """Convert a dict from axes to widths to a list with a pair for every axis. Other forms are returned unchanged."""
    if not isinstance(pad_width, dict):
        return pad_width
    widths: list[Any] = [(0, 0)] * max(rank, 1)
    for axis, width in pad_width.items():
        widths[normalize_axis("pad", axis, rank)] = (
            tuple(width) if _is_nested(width) else (width, width)
        )
    return widths


def _pairs(name: str, value: Any, x: Tensor) -> list[tuple[Any, Any]]:
    """Return a setting as a list with one pair (before, after) for each axis.

    `value` is one value or one pair for all axes, or it contains a value or a pair for each axis.
    """
    rank = max(len(x.shape), 1)
    if not _is_nested(value):
        return [(value, value)] * rank
    entries = list(value)
    if not any(map(_is_nested, entries)):
        entries = [entries]
    pairs: list[Any] = [tuple(entry) if _is_nested(entry) else (entry,) for entry in entries]
    pairs = [pair * 2 if len(pair) == 1 else pair for pair in pairs]
    pairs = pairs * rank if len(pairs) == 1 else pairs
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        raise ShapeError(f"pad: {name} {value} must give two numbers for each axis of {spec_of(x)}")
    return pairs


def _width(
    x: Tensor, pad_width: ArrayLike | Mapping[int, Any], pair: tuple[Any, Any]
) -> tuple[int, int]:
    try:
        low, high = map(operator.index, pair)
    except TypeError:
        raise InvalidConfigError(f"pad: pad_width must be integers, got {pad_width!r}") from None
    if min(low, high) < 0:
        raise ShapeError(
            f"pad: pad_width {pad_width} must give two widths for each axis of {spec_of(x)}, and none is negative"
        )
    return low, high


def _surrounded(x: Tensor, widths: list[tuple[int, int]], value: Tensor) -> Any:
    low, high = zip(*widths, strict=True) if widths else ((), ())
    return apply_one(
        Pad(tuple(low), tuple(high), (0,) * len(widths)), x, convert(value, spec_of(x).dtype)
    )


def _extent(mode: str, x: Tensor, axis: int) -> int:
    """Return the extent of an axis.

    Raises:
        NonStaticShapeError: the extent is not a number.
        ShapeError: the extent is 0.
    """
    extent = x.shape[axis]
    if not is_static(extent):
        raise NonStaticShapeError(
            f'pad: mode "{mode}" needs the extent of axis {axis} of {spec_of(x)}, which is not known'
        )
    if extent == 0:
        raise ShapeError(
            f'pad: mode "{mode}" has no element to take from axis {axis} of {spec_of(x)}'
        )
    return extent


def _by_places(
    mode: str, x: Tensor, axis: int, width: tuple[int, int], setting: tuple[Any, Any]
) -> Any:
    """Pad along one axis by a gather; the indices are computed by `numpy.pad` of 0, 1, .. in the same mode."""
    if setting[0] not in (None, "even", "odd"):
        raise InvalidConfigError(f'pad: reflect_type must be "even" or "odd", got {setting[0]!r}')
    extent = _extent(mode, x, axis)
    if setting[0] == "odd" and extent > 1:
        return _by_odd_reflections(mode, x, axis, width)
    indices = np.pad(np.arange(extent), width, mode)  # pyright: ignore[reportCallIssue, reportArgumentType]  # because mode is one of NumPy's
    return take(x, indices, axis=axis)


def _by_odd_reflections(mode: str, x: Tensor, axis: int, width: tuple[int, int]) -> Any:
    """Pad along one axis by reflections at both ends, which map elements to twice the end minus the element.

    As in NumPy, each step reflects whole periods of the result of the previous step.
    """
    skipped = 0 if mode == "symmetric" else 1
    (low, high), period = width, x.shape[axis] - skipped
    while low or high:
        extent = x.shape[axis]
        length = (extent - skipped) // period * period
        before, after = min(length, low), min(length, high)
        first, last = slice_axis(x, axis, 0, 1), slice_axis(x, axis, extent - 1, extent)
        left = slice_axis(x, axis, skipped, skipped + before)
        right = slice_axis(x, axis, extent - skipped - after, extent - skipped)
        sides = [
            subtract(multiply(edge, 2), flip(part, axis=axis))
            for edge, part in ((first, left), (last, right))
        ]
        x = concat([sides[0], x, sides[1]], axis=axis)
        low, high = low - before, high - after
    return x


def _by_constants(
    mode: str, x: Tensor, axis: int, width: tuple[int, int], values: tuple[Any, Any]
) -> Any:
    dtype = spec_of(x).dtype
    sides = [
        broadcast_to(convert(value, dtype), _shape_with(x, axis, count))
        for value, count in zip(values, width, strict=True)
    ]
    return concat([sides[0], x, sides[1]], axis=axis)


def _shape_with(x: Tensor, axis: int, extent: int) -> tuple[Any, ...]:
    return (*x.shape[:axis], extent, *x.shape[axis + 1 :])


def _by_ramps(
    mode: str, x: Tensor, axis: int, width: tuple[int, int], ends: tuple[Any, Any]
) -> Any:
    extent, dtype = _extent(mode, x, axis), spec_of(x).dtype
    first, last = slice_axis(x, axis, 0, 1), slice_axis(x, axis, extent - 1, extent)
    for end in ends:
        if isinstance(end, int):
            convert(end, dtype)
    low, high = (
        linspace(end, take(edge, 0, axis=axis), count, endpoint=False, axis=axis)
        for edge, end, count in zip((first, last), ends, width, strict=True)
    )
    low, high = (ramp if dtype.is_inexact else floor(ramp) for ramp in (low, high))
    high = take(high, np.arange(width[1])[::-1], axis=axis)
    return concat([convert(low, dtype), x, convert(high, dtype)], axis=axis)


_STATISTICS: Mapping[str, Callable[..., Any]] = {
    "maximum": reductions.max, "minimum": reductions.min, "mean": reductions.mean, "median": median,
}  # fmt: skip


def _by_statistics(
    mode: str, x: Tensor, axis: int, width: tuple[int, int], lengths: tuple[Any, Any]
) -> Any:
    extent, dtype = _extent(mode, x, axis), spec_of(x).dtype
    low, high = (
        extent if length is None else min(operator.index(length), extent) for length in lengths
    )
    if min(low, high) < 1:
        raise InvalidConfigError(f"pad: stat_length must be at least 1, got {lengths}")
    sides: list[Any] = []
    for start, stop, count in ((0, low, width[0]), (extent - high, extent, width[1])):
        value = _STATISTICS[mode](slice_axis(x, axis, start, stop), axis=axis, keepdims=True)
        value = value if dtype.is_inexact else nearest(value)
        sides.append(broadcast_to(convert(value, dtype), _shape_with(x, axis, count)))
    return concat([sides[0], x, sides[1]], axis=axis)


_MODES: Mapping[str, Callable[..., Any]] = {
    "constant": _by_constants, "edge": _by_places, "reflect": _by_places, "symmetric": _by_places,
    "wrap": _by_places, "linear_ramp": _by_ramps, "maximum": _by_statistics, "mean": _by_statistics,
    "median": _by_statistics, "minimum": _by_statistics,
}  # fmt: skip
