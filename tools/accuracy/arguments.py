"""Arguments: all there are of 16 bits; of more, structured ones and random ones over all sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tools.accuracy.functions import Function

__all__ = ["CHUNK", "chunks", "dtype_of"]

CHUNK = 1 << 16
"""Arguments of one run: programs are compiled for this shape."""
NEIGHBOURS = 3
"""Of a point, to either side."""


def dtype_of(name: str) -> Any:
    """NumPy's dtype, bfloat16 among them."""
    return np.dtype(getattr(ml_dtypes, name, name))


def chunks(function: Function, name: str, count: int) -> Iterator[list[np.ndarray]]:
    """The arguments in runs of `CHUNK`, at least as many as asked for, or all there are."""
    dtype = dtype_of(name)
    if dtype.itemsize == 2 and function.arity == 1:
        every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
        yield [np.where(_inside(every, function), every, _usual(function, dtype))]
        return
    grid = structured(function, dtype)
    columns = [grid] if function.arity == 1 else list(zip(*_pairs(grid), strict=True))
    yield from _runs([np.array(column, dtype) for column in columns], function, dtype)
    for number in range(-(-count // CHUNK)):
        rng = np.random.default_rng([number, function.arity])
        yield [_random(rng, function, dtype) for _ in range(function.arity)]


def structured(function: Function, dtype: Any) -> np.ndarray:
    """Ends, powers of two, whole numbers, multiples of a quarter of pi and the function's own points, and those next to
    them.
    """
    limits = ml_dtypes.finfo(dtype)
    exponents = np.arange(limits.minexp - limits.nmant, limits.maxexp, dtype=np.float64)
    step = max(1, len(exponents) // 300)
    points = [
        np.exp2(exponents[::step]),
        np.exp2(np.arange(-12.0, 13.0)),
        np.arange(0, 65, dtype=np.float64),
        np.arange(0, 64) * np.pi / 4,
        np.log(2) * (np.arange(0, 64) + 0.5),
        np.sqrt(2.0) * np.exp2(np.arange(-20.0, 20.0)),
        np.abs(np.array([*function.points, *function.domain])),
        np.array([float(limits.max), float(limits.tiny), 88.72, 103.97, 709.78, 745.13]),
    ]
    with np.errstate(all="ignore"):
        x = np.concatenate(points).astype(dtype)
        x = x[np.isfinite(x.astype(np.float64))]
    bits = x.view(f"u{dtype.itemsize}").astype(np.int64)
    near = np.concatenate([bits + k for k in range(-NEIGHBOURS, NEIGHBOURS + 1)])
    near = np.unique(near[(near >= 0)]).astype(f"u{dtype.itemsize}").view(dtype)
    every = np.concatenate([near, -near, np.array([0.0, -0.0]).astype(dtype)])
    return every[_inside(every, function)]


def _pairs(grid: np.ndarray) -> list[tuple[Any, Any]]:
    """Some hundred points with each other."""
    few = grid[:: max(1, len(grid) // 256)]
    return list(itertools.product(few, few))


def _runs(columns: list[np.ndarray], function: Function, dtype: Any) -> Iterator[list[np.ndarray]]:
    """Cut into runs; the last is filled up with a usual argument."""
    for start in range(0, len(columns[0]), CHUNK):
        run = [column[start : start + CHUNK] for column in columns]
        filling = np.full(CHUNK - len(run[0]), _usual(function, dtype), dtype)
        yield [np.concatenate([column, filling]) for column in run]


def _usual(function: Function, dtype: Any) -> Any:
    low, high = np.clip(function.domain, -4.0, 4.0)
    return np.array((low + high) / 2 + 0.125 * (high - low)).astype(dtype)


def _random(rng: np.random.Generator, function: Function, dtype: Any) -> np.ndarray:
    """A half of all sizes of either sign, a quarter near one, and a quarter evenly in the domain."""
    limits = ml_dtypes.finfo(dtype)
    low, high = np.clip(function.domain, -800.0, 800.0)
    half, quarter = CHUNK // 2, CHUNK // 4
    sizes = np.exp2(rng.uniform(limits.minexp - 4, limits.maxexp, half))
    if not np.isinf(function.domain[1]):
        sizes = np.exp2(rng.uniform(limits.minexp - 4, np.log2(high), half))
    near = np.exp2(rng.uniform(-12, 7, quarter))
    signed = np.concatenate([sizes, near]) * rng.choice([-1.0, 1.0], half + quarter)
    with np.errstate(all="ignore"):
        x = np.concatenate([signed, rng.uniform(low, high, CHUNK - half - quarter)]).astype(dtype)
        x = np.where(_inside(x, function), x, -x)
    return np.where(_inside(x, function), x, rng.uniform(low, high, CHUNK).astype(dtype))


def _inside(x: np.ndarray, function: Function) -> np.ndarray:
    low, high = function.domain
    with np.errstate(all="ignore"):  # because some bits are NaN
        wide = x.astype(np.float64)
    return (wide >= low) & (wide <= high) & np.isfinite(wide)
