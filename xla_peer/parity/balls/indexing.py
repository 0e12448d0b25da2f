"""Error bounds (radii) of gathers, scatters and dynamic slices.

If the radius of an index is not 0, the bound allows that any element is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tenferro.ops import StdTensorOp
from tenferro.ops import indexing as ix
from xla_peer.parity.balls.operands import Ball, Operands, Rule, outward, rounded, tiny
from xla_peer.parity.balls.reduction import integer_sum_radius
from xla_peer.parity.pending import unit
from xla_peer.parity.ulps import modulus

__all__ = ["ROWS", "hits"]


def _read(operands: Operands) -> Sequence[Any]:
    """Bound a gather or dynamic slice by the radii of the elements that are read."""
    source, *starts = operands.balls
    if any(start.radius.any() for start in starts):
        return (_any_element(operands.results[0], source),)
    return (operands.run(operands.op, source.radius, *[start.value for start in starts]),)


def _any_element(result: Any, source: Ball) -> Any:
    """Bound the distance of each element of the result from every element of the source, for undecided indices."""
    x, radius = source.value, source.radius
    if not x.size:
        return np.zeros(result.shape)
    if not np.isfinite(modulus(x)).all():
        return np.full(result.shape, np.inf)
    if x.dtype.kind == "c":
        return outward(modulus(result) + float(np.max(modulus(x) + radius)))
    x, y = x.astype(np.float64), result.astype(np.float64)
    return outward(np.maximum(float(np.max(x + radius)) - y, y - float(np.min(x - radius))))


def _updated(operands: Operands) -> Sequence[Any]:
    """Bound a dynamic update slice: replace the radii of x by those of the update, at the same indices."""
    x, update, *starts = operands.balls
    (result,) = operands.results
    if any(start.radius.any() for start in starts):
        stays = outward(modulus(_wide(result) - _wide(x.value)) + x.radius)
        stays = np.where(np.isnan(stays), np.inf, stays)
        return (np.maximum(stays, _any_element(result, update)),)
    centres = [start.value for start in starts]
    return (operands.run(operands.op, x.radius, update.radius, *centres),)


def _wide(x: Any) -> Any:
    return x if x.dtype.kind == "c" else x.astype(np.float64)


def _scattered(operands: Operands) -> Sequence[Any]:
    op, (x, indices, updates), (result,) = operands.op, operands.balls, operands.results
    if indices.radius.any():
        return (np.full(result.shape, np.inf),)
    if operands.dtype.is_bool:
        moved = operands.run(replace(op, combiner="max"), x.radius, indices.value, updates.radius)
        return (np.where(moved > 0, 1.0, 0.0),)
    return (COMBINED[op.combiner](operands),)


def _with(operands: Operands, combiner: str, x: Any, updates: Any) -> Any:
    """Apply the scatter with the given combiner to x and `updates`, at the indices of the operands."""
    op = replace(operands.op, combiner=combiner)
    return operands.run(op, x, operands.values[1], updates)


def hits(operands: Operands) -> Any:
    """Return the number of updates of each element of a scatter."""
    x, _, updates = operands.values
    return _with(operands, "add", np.zeros(x.shape), np.ones(updates.shape))


def _added(operands: Operands) -> Any:
    (x, _, updates), (result,) = operands.balls, operands.results
    counts = hits(operands)
    terms = 16.0 + float(np.max(counts, initial=0.0))
    spread = outward(_with(operands, "add", x.radius, updates.radius), terms)
    if not operands.dtype.is_inexact:
        return integer_sum_radius(operands, spread)
    size = _with(operands, "add", _finite_size(x.value), _finite_size(updates.value))
    chain = (
        2.0 * counts * unit(operands.dtype) / np.maximum(1.0 - counts * unit(operands.dtype), 0.5)
    )
    error = chain * outward(size + spread, terms)
    error = np.where(counts > 0, error + 2.0 * counts * tiny(operands.dtype), 0.0)
    return rounded(operands, result, spread, np.where(size + spread > 0, error, 0.0), False)


def _multiplied(operands: Operands) -> Any:
    (x, _, updates), (result,) = operands.balls, operands.results
    counts = hits(operands)
    if not operands.dtype.is_inexact:
        moved = _with(operands, "max", x.radius, updates.radius)
        return np.where(moved > 0, np.inf, 0.0)
    sizes = modulus(x.value), modulus(updates.value)
    most = _with(operands, "multiply", sizes[0] + x.radius, sizes[1] + updates.radius)
    moved = _with(operands, "max", x.radius, updates.radius) > 0
    spread = (
        most - _with(operands, "multiply", *sizes) + outward(most, 4 * counts.max(initial=0)) - most
    )
    own = (
        2.0 * np.expm1(counts * unit(operands.dtype) * (4.0 if operands.is_complex else 1.0)) * most
    )
    own = np.where(
        counts > 0, own + 2.0 * counts * tiny(operands.dtype) * np.maximum(most, 1.0), 0.0
    )
    return rounded(operands, result, np.where(moved, spread, 0.0), own, False)


def _extreme(operands: Operands) -> Any:
    """Return, for each element, the largest radius of it and its updates, which bounds their minimum or maximum."""
    return _with(operands, "max", operands.radii[0], operands.radii[2])


def _put(operands: Operands) -> Any:
    """Bound a scatter that sets elements. If several updates set an element, any of them may be the last."""
    (x, _, updates), (result,) = operands.balls, operands.results
    radius = _with(operands, "set", x.radius, updates.radius)
    several = hits(operands) > 1
    if not several.any() or operands.op.unique_indices:
        return radius
    return np.where(several, _any_element(result, updates), radius)


def _finite_size(x: Any) -> Any:
    size = modulus(x)
    return np.where(np.isfinite(size), size, 0.0)


COMBINED = {"add": _added, "multiply": _multiplied, "min": _extreme, "max": _extreme, "set": _put}
ROWS: Mapping[type[StdTensorOp], Rule] = {
    ix.Gather: _read,
    ix.GatherDynamicSliceSizes: _read,
    ix.Scatter: _scattered,
    ix.DynamicSlice: _read,
    ix.DynamicUpdateSlice: _updated,
}
