"""ONNX operators of image models as NumPy functions: interpolation, unpooling, and selection of boxes.

The arguments of each function are the attributes `a` of a node, and the node's operands; see
`xla_peer/onnx/readers.py`.

Source: ONNX operators; each docstring has the name of the operator. For positions outside of an image, the source is
ONNX's reference implementation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

import tenferro as tnf
from lowering.numpy_source import functions
from xla_peer.onnx.layers import keys_kernel
from xla_peer.onnx.readers import cast, concrete, ints, kind_of, numpy_dtype, windows
from xla_peer.onnx.selection import selected

__all__ = ["IMAGES"]


# ---- sampling ------------------------------------------------------------------------------------------


def reflected(x: Any, low: float, high: float) -> Any:
    """Mirror positions at the ends `low` and `high` of a range, repeatedly, until they are inside the range."""
    width = high - low
    if width <= 0:
        return np.full(x.shape, low, numpy_dtype(x))
    distance = np.mod(x - low, 2 * width)
    return low + np.where(distance > width, 2 * width - distance, distance)


def _elements(x: Any, taps: Sequence[Any], rows: Any = None) -> Any:
    """Return the elements of x at integer positions.

    Args:
        x: an array of shape [batch, spatial axes .., features].
        taps: for each spatial axis, the positions along it: an array of shape [batch, points], or arrays of positions
            that broadcast.
        rows: positions along the batch axis, which broadcast with `taps`; by default, those of `taps`.
    """
    spatial = x.shape[1:-1]
    flat: Any = 0
    for tap, extent in zip(taps, spatial, strict=True):
        flat = flat * extent + tap
    rows = np.arange(x.shape[0]).reshape(-1, 1) if rows is None else rows
    x = np.reshape(x, (x.shape[0], math.prod(spatial), x.shape[-1]))
    return functions.indexable(x, flat)[rows, flat]


def sampled(
    x: Any, places: Sequence[Any], mode: str, padding: str, borders: Sequence[tuple[float, float]]
) -> Any:
    """Interpolate x at positions between elements.

    Args:
        x: an array of shape [batch, spatial axes .., features].
        places: for each spatial axis, the positions along it, in units of elements: an array of shape [batch, points].
        mode: "nearest", "linear" or "cubic"; cubic weights are those of Keys with the coefficient -0.75.
        padding: how to treat positions outside of the image: "zeros", "border" or "reflection".
        borders: for each spatial axis, the ends of the image, at which reflection mirrors.
    """
    axes: list[
        list[tuple[Any, Any]]
    ] = []  # for each axis, the positions of elements to read, and their weights
    for place, extent, (low, high) in zip(places, x.shape[1:-1], borders, strict=True):
        if mode == "nearest":
            place = np.rint(place)
        is_outside = (place < low) | (place > high)
        if padding == "border":
            place = np.where(is_outside, np.clip(place, 0, extent - 1), place)
        elif padding == "reflection":
            place = np.where(is_outside, reflected(place, low, high), place)
        first = np.floor(place)
        reach = {"nearest": (0, 1), "linear": (0, 2), "cubic": (-1, 3)}[mode]
        taps: list[tuple[Any, Any]] = []
        for step in range(*reach):
            tap = first + step
            weight = (
                np.ones_like(place)
                if mode == "nearest"
                else keys_kernel({"mode": mode}, place - tap)
            )
            if padding == "reflection":
                tap = np.where((tap < low) | (tap > high), np.trunc(reflected(tap, low, high)), tap)
            elif padding == "zeros":
                weight = np.where((tap >= 0) & (tap <= extent - 1), weight, 0)
            taps.append((np.clip(tap, 0, extent - 1).astype(np.int64), weight))
        axes.append(taps)
    y: Any = 0
    for corner in product(*axes):
        weight: Any = math.prod([each for _, each in corner])
        y = y + _elements(x, [tap for tap, _ in corner]) * weight[..., None]
    return y


def grid_sample(a: Any, x: Any, grid: Any) -> Any:
    """Read GridSample: interpolate the image x at the positions in `grid`.

    Along each axis the image extends from -1 to 1. A position is a vector of coordinates with x before y.
    """
    spatial, is_aligned = x.shape[2:], bool(a.get("align_corners"))
    mode = str(a.get("mode", "linear")).removeprefix(
        "bi"
    )  # before opset 20 the names are "bilinear" and "bicubic"
    borders = [(0.0, n - 1.0) if is_aligned else (-0.5, n - 0.5) for n in spatial]
    points = np.reshape(grid, (grid.shape[0], -1, len(spatial)))[..., ::-1]
    places = [
        (points[..., i] + 1) / 2 * (n - 1) if is_aligned else ((points[..., i] + 1) * n - 1) / 2
        for i, n in enumerate(spatial)
    ]
    y = sampled(np.moveaxis(x, 1, -1), places, mode, a.get("padding_mode", "zeros"), borders)
    y = np.reshape(np.moveaxis(y, -1, 1), (*x.shape[:2], *grid.shape[1:-1]))
    return cast(y, numpy_dtype(x))


def affine_grid(a: Any, theta: Any, size: Any) -> Any:
    """Read AffineGrid: multiply the vector (x, y, .., 1) of each element's center by the matrix theta.

    Coordinates along each axis extend from -1 to 1.
    """
    _, _, *spatial = ints(size, "a size")
    lines = [
        np.linspace(-1, 1, n) if a.get("align_corners") else (2 * np.arange(n) + 1) / n - 1
        for n in spatial
    ]
    axes = np.meshgrid(*lines, indexing="ij")[::-1]
    points = np.stack([*axes, np.ones(spatial)], axis=-1).astype(numpy_dtype(theta))
    y = np.reshape(points, (-1, len(spatial) + 1)) @ np.swapaxes(theta, 1, 2)
    return np.reshape(y, (theta.shape[0], *spatial, len(spatial)))


def deform_conv(
    a: Any, x: Any, kernel: Any, offset: Any, bias: Any = None, mask: Any = None
) -> Any:
    """Read DeformConv, a convolution with deformed windows.

    Each kernel element is multiplied by the input at a position that is shifted by an offset. A mask weights the
    products.

    Source: Dai and others, Deformable convolutional networks (2017).
    """
    spatial, shape, out = x.shape[2:], kernel.shape[2:], offset.shape[2:]
    count, taps, points = len(spatial), math.prod(shape), math.prod(out)
    strides, dilations = (a.get(name, [1] * count) for name in ("strides", "dilations"))
    pads, groups, parts = (
        a.get("pads", [0] * 2 * count),
        a.get("group", 1),
        a.get("offset_group", 1),
    )
    batch, channels = x.shape[:2]
    moves = np.reshape(offset, (batch, parts, taps, count, points))
    origin = np.stack(
        [
            (np.arange(n) * s - p).reshape([-1 if j == i else 1 for j in range(count)])
            + np.zeros(out)
            for i, (n, s, p) in enumerate(zip(out, strides, pads, strict=False))
        ]
    ).reshape(count, points)
    steps = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij")).reshape(count, taps)
    fixed = origin[:, None, :] + (steps * np.reshape(dilations, (count, 1)))[:, :, None]
    kind = numpy_dtype(x)
    columns: list[Any] = []
    for part, features in enumerate(np.split(x, parts, axis=1)):
        places = [
            np.reshape(moves[:, part, :, i] + fixed[i].astype(kind), (batch, -1))
            for i in range(count)
        ]
        y = sampled(
            np.moveaxis(features, 1, -1),
            places,
            "linear",
            "zeros",
            [(-1.0, float(n)) for n in spatial],
        )
        y = np.reshape(np.moveaxis(y, -1, 1), (batch, channels // parts, taps, points))
        if mask is not None:
            y = y * np.reshape(mask, (batch, parts, 1, taps, points))[:, part]
        columns.append(y)
    together = np.concatenate(columns, axis=1) if parts > 1 else columns[0]
    together = np.reshape(together, (batch, groups, channels // groups * taps, points))
    weights = np.reshape(kernel, (groups, kernel.shape[0] // groups, -1))
    y = np.reshape(weights @ together, (batch, kernel.shape[0], *out))
    return y if bias is None else y + np.reshape(bias, (1, -1, *[1] * count))


def roi_align(a: Any, x: Any, regions: Any, batch: Any) -> Any:
    """Read RoiAlign: divide each region into bins, and return the mean or the maximum of samples in each bin.

    If the attribute `sampling_ratio` is 0, the number of samples depends on the regions, which must then be constants.

    Source: He and others, Mask R-CNN (2017).
    """
    height, width = a.get("output_height", 1), a.get("output_width", 1)
    ratio, is_half = (
        a.get("sampling_ratio", 0),
        a.get("coordinate_transformation_mode", "half_pixel") == "half_pixel",
    )
    corners = regions * a.get("spatial_scale", 1.0) - (0.5 if is_half else 0.0)
    start = corners[:, 1::-1]  # y and x
    size = corners[:, :1:-1] - start
    size = size if is_half else np.maximum(size, 1.0)
    bins = size / np.array([height, width], numpy_dtype(regions))
    if ratio:
        return _pooled(a, x, batch, start, bins, (height, width), (ratio, ratio))
    counts = np.ceil(
        concrete(bins, "RoiAlign without sampling_ratio: the number of samples")
    ).astype(int)
    rows = [
        _pooled(
            a, x, batch[i : i + 1], start[i : i + 1], bins[i : i + 1], (height, width), tuple(each)
        )
        for i, each in enumerate(np.maximum(counts, 1).tolist())
    ]
    return np.concatenate(rows, axis=0)


def _pooled(
    a: Any, x: Any, batch: Any, start: Any, bins: Any, shape: Sequence[int], samples: Sequence[int]
) -> Any:
    """Compute the mean or maximum of the samples in each bin.

    Args:
        batch: the index of the image to which each region belongs.
        start: the corner of each region.
        bins: the size of a bin of each region.
        shape: the number of bins of a region along each axis.
        samples: the number of samples in a bin along each axis.
    """
    low: list[Any] = []
    high: list[Any] = []
    part: list[Any] = []
    inside: list[Any] = []
    for i, (n, m, count) in enumerate(zip(shape, x.shape[2:], samples, strict=True)):
        steps = ((np.arange(n * count) + 0.5) / count).astype(numpy_dtype(start))
        place = start[:, i : i + 1] + steps * bins[:, i : i + 1]
        inside.append((place >= -1) & (place <= m))
        place = np.clip(place, 0, m - 1)
        first = np.floor(place)
        part.append(place - first)
        low.append(first.astype(np.int64))
        high.append(np.minimum(low[-1] + 1, m - 1))
    is_inside = inside[0][:, :, None] & inside[1][:, None, :]
    image, rows = np.moveaxis(x, 1, -1), np.reshape(batch, (-1, 1, 1))
    taps: list[Any] = []
    for (y_tap, y_weight), (x_tap, x_weight) in product(
        [(low[0], 1 - part[0]), (high[0], part[0])], [(low[1], 1 - part[1]), (high[1], part[1])]
    ):
        values = _elements(image, (y_tap[:, :, None], x_tap[:, None, :]), rows)
        weight = np.where(is_inside, y_weight[:, :, None] * x_weight[:, None, :], 0)
        taps.append(values * weight[..., None])
    stacked = np.reshape(
        np.stack(taps), (4, -1, shape[0], samples[0], shape[1], samples[1], x.shape[1])
    )
    y = (
        np.max(stacked, axis=(0, 3, 5))
        if a.get("mode", "avg") == "max"
        else np.sum(stacked, axis=(0, 3, 5)) / (samples[0] * samples[1])
    )
    return cast(np.moveaxis(y, -1, 1), numpy_dtype(x))


# ---- columns and pools -----------------------------------------------------------------------------------


def col2im(a: Any, x: Any, image: Any, block: Any) -> Any:
    """Read Col2Im: add the elements of overlapping blocks at their positions in an image."""
    sizes, kernel = ints(image, "an image's shape"), ints(block, "a block's shape")
    count = len(sizes)
    strides, dilations = (a.get(name, [1] * count) for name in ("strides", "dilations"))
    pads = a.get("pads", [0] * 2 * count)
    blocks = [
        (n + pads[i] + pads[i + count] - (k - 1) * d - 1) // s + 1
        for i, (n, k, s, d) in enumerate(zip(sizes, kernel, strides, dilations, strict=True))
    ]
    parts = np.reshape(x, (x.shape[0], -1, math.prod(kernel), *blocks))
    zero = np.zeros((), numpy_dtype(x))
    y: Any = 0
    for number, tap in enumerate(np.ndindex(*kernel)):
        edges = [(0, 0, 0), (0, 0, 0)]
        for i in range(count):
            first = tap[i] * dilations[i] - pads[i]
            last = first + (blocks[i] - 1) * strides[i]
            edges.append((first, sizes[i] - 1 - last, strides[i] - 1))
        y = y + tnf.lax.pad(parts[:, :, number], zero, edges)
    return y


def max_pool(a: Any, x: Any) -> Any:
    """Read MaxPool: compute the largest element of each window and, for two outputs, its index in x."""
    least = -np.inf if kind_of(x) == "f" else np.iinfo(numpy_dtype(x)).min
    taps = windows(a, x, least)[0]
    if a["outputs"] == 1:
        return np.max(taps, axis=0)
    spatial = x.shape[2:]
    order = "F" if a.get("storage_order") else "C"
    places = np.arange(math.prod(spatial)).reshape((1, 1, *spatial), order=order)
    within = windows(a, places, 0)[0].reshape(taps.shape[0], *[1] * 2, *taps.shape[3:])
    best = np.expand_dims(np.argmax(taps, axis=0), 0)
    counted = np.arange(taps.shape[0]).reshape(-1, *[1] * np.ndim(x))
    index = np.sum(np.where(counted == best, within, 0), axis=0)
    images = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * len(spatial))
    return [np.max(taps, axis=0), index + images * math.prod(spatial)]


def max_unpool(a: Any, x: Any, indices: Any, shape: Any = None) -> Any:
    """Read MaxUnpool: write the elements of x at `indices` into an array of zeros."""
    kernel = a["kernel_shape"]
    count = len(kernel)
    strides, pads = a.get("strides", [1] * count), a.get("pads", [0] * 2 * count)
    sizes = [
        (n - 1) * s - pads[i] - pads[i + count] + k
        for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
    ]
    whole = (*x.shape[:2], *sizes)
    zeros = tnf.zeros(math.prod(whole), dtype=numpy_dtype(x))
    y = np.reshape(tnf.at(zeros)[np.ravel(indices)].set(np.ravel(x)), whole)
    if shape is None:
        return y
    edges = [(0, m - n) for n, m in zip(whole, ints(shape, "a shape"), strict=True)]
    return np.pad(y, edges)


# ---- boxes -------------------------------------------------------------------------------------------------


def _overlaps(boxes: Any, is_centered: bool) -> tuple[Any, Any]:
    """Return the areas of intersection and of union of all pairs of boxes, as arrays of shape [batch, boxes, boxes].

    The intersection with an empty box is 0. A box has the coordinates of two corners or, if `is_centered`, those of its
    center and its sides.
    """
    if is_centered:
        middle, half = boxes[..., :2], boxes[..., 2:] / 2
        low, high = middle - half, middle + half
    else:
        low = np.minimum(boxes[..., :2], boxes[..., 2:])
        high = np.maximum(boxes[..., :2], boxes[..., 2:])
    sides = np.minimum(high[:, :, None], high[:, None]) - np.maximum(low[:, :, None], low[:, None])
    sides = np.maximum(sides, 0)
    common = sides[..., 0] * sides[..., 1]
    areas = (high[..., 0] - low[..., 0]) * (high[..., 1] - low[..., 1])
    union = areas[:, :, None] + areas[:, None] - common
    has_area = (areas[:, :, None] > 0) & (areas[:, None] > 0) & (union > 0)
    return np.where(has_area, common, 0), union


def non_max_suppression(
    a: Any, boxes: Any, scores: Any, largest: Any = None, overlap: Any = None, threshold: Any = None
) -> Any:
    """Read NonMaxSuppression: select boxes in descending order of scores, without boxes that overlap a selected box.

    The number of selected boxes depends on the data; see `selected`.
    """
    batches, classes, n = scores.shape
    limit: Any = 0 if largest is None else np.reshape(largest, ())
    most: Any = np.zeros((), numpy_dtype(boxes)) if overlap is None else np.reshape(overlap, ())
    common, union = _overlaps(boxes, bool(a.get("center_point_box")))
    order = np.argsort(-scores, axis=-1, stable=True)
    ranked = np.take_along_axis(scores, order, axis=-1)
    is_candidate: Any = np.ones(scores.shape, bool)
    if threshold is not None:
        is_candidate = ranked > np.reshape(threshold, ())
    is_common = (common > 0) & (common > most * union)
    rows = np.arange(batches).reshape(-1, 1, 1, 1)
    excludes: Any = functions.indexable(is_common, order)[
        rows, order[..., :, None], order[..., None, :]
    ]

    def step(is_taken: Any, i: Any) -> Any:
        column = tnf.take(excludes, i, axis=-1)
        is_free = ~np.any(is_taken & column, axis=-1)
        has_place = np.sum(is_taken, axis=-1) < limit
        is_new = is_free & has_place & tnf.take(is_candidate, i, axis=-1)
        return is_taken | (np.expand_dims(is_new, -1) & (np.arange(n) == i)), None

    nothing = np.zeros((batches, classes, n), bool)
    is_taken = tnf.scan(step, nothing, np.arange(n))[0]
    places = [
        np.arange(m).reshape([-1 if j == i else 1 for j in range(3)])
        for i, m in enumerate((batches, classes))
    ]
    table = np.stack(
        [*[np.broadcast_to(place, (batches, classes, n)) for place in places], order], axis=-1
    )
    return selected(np.reshape(table, (-1, 3)), np.reshape(is_taken, -1))


IMAGES: Mapping[str, Callable[..., Any]] = {
    "AffineGrid": affine_grid,
    "Col2Im": col2im,
    "DeformConv": deform_conv,
    "GridSample": grid_sample,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
    "NonMaxSuppression": non_max_suppression,
    "RoiAlign": roi_align,
}
"""Functions that compute an ONNX operator, by the name of the operator."""
