"""Arguments at which functions are measured.

A function of one 16-bit argument is measured at every value of the dtype. Other functions are measured at chosen
numbers, such as powers of two, and at random numbers of all magnitudes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tools.accuracy.function import Function

__all__ = ["CHUNK", "all_singles", "chunks", "dtype_of"]

CHUNK = 1 << 16
"""Number of arguments per run. Programs are compiled for arrays of this size."""
NEIGHBOURS = 3
"""Number of neighbouring floats on each side of a chosen point that also become arguments."""


def dtype_of(name: str) -> Any:
    """Return the NumPy dtype with this name; ml_dtypes defines bfloat16."""
    return np.dtype(getattr(ml_dtypes, name, name))


def all_singles() -> Iterator[list[np.ndarray]]:
    """Yield every bit pattern of float32, infinities and NaN among them."""
    bits = np.arange(CHUNK, dtype=np.uint32)
    for _ in range((1 << 32) // CHUNK):
        yield [bits.view(np.float32)]
        bits = bits + np.uint32(CHUNK)


def chunks(function: Function, name: str, count: int) -> Iterator[list[np.ndarray]]:
    """Yield arrays of `CHUNK` arguments: at least `count` arguments in all, or every value of a 16-bit dtype."""
    dtype = dtype_of(name)
    if dtype.itemsize == 2 and function.arity == 1:
        every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
        yield [np.where(_inside(every, function), every, _usual(function, dtype))]
        return
    grid = structured(function, dtype)
    columns = [grid] if function.arity == 1 else list(zip(*_pairs(grid), strict=True))
    yield from _runs([np.array(column, dtype) for column in columns], function, dtype)
    for number in range(-(-count // CHUNK)):
        rng = np.random.Generator(np.random.SFC64([number, function.arity]))
        # Rotate the random numbers of each operand by an eighth of a chunk. Otherwise the operands of one call would
        # always come from the same distribution, and large numbers would never be paired with numbers near one.
        yield [
            np.roll(_random(rng, function, dtype), k * CHUNK // 8) for k in range(function.arity)
        ]


def structured(function: Function, dtype: Any) -> np.ndarray:
    """Return chosen arguments, and the floats next to each of them.

    The chosen arguments are the ends of the function's domain, powers of two, integers, multiples of pi / 4, and the
    numbers in `function.points`.
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
    """Return all pairs of about 256 points of the grid, as arguments of a function of two numbers."""
    few = grid[:: max(1, len(grid) // 256)]
    return list(itertools.product(few, few))


def _runs(columns: list[np.ndarray], function: Function, dtype: Any) -> Iterator[list[np.ndarray]]:
    """Split the columns into arrays of `CHUNK` elements; pad the last one with an argument in the domain."""
    for start in range(0, len(columns[0]), CHUNK):
        run = [column[start : start + CHUNK] for column in columns]
        filling = np.full(CHUNK - len(run[0]), _usual(function, dtype), dtype)
        yield [np.concatenate([column, filling]) for column in run]


def _usual(function: Function, dtype: Any) -> Any:
    low, high = np.clip(function.domain, -4.0, 4.0)
    return np.array((low + high) / 2 + 0.125 * (high - low)).astype(dtype)


def _random(rng: np.random.Generator, function: Function, dtype: Any) -> np.ndarray:
    """Return random arguments from three distributions.

    Half of them have uniformly random bits, so that each interval from one power of two to the next has equally many.
    A quarter is near one, and a quarter is uniform in the domain.
    """
    low, high = function.domain
    largest = min(max(abs(low), abs(high)), float(ml_dtypes.finfo(dtype).max))
    half, quarter = CHUNK // 2, CHUNK // 4
    evenly = rng.uniform(max(low, -800.0), min(high, 800.0), CHUNK).astype(dtype)
    x = np.concatenate(
        [
            _with_bits(rng, 0.0, largest, half, dtype),
            _with_bits(rng, 2.0**-12, min(2.0**7, largest), quarter, dtype),
            evenly[: CHUNK - half - quarter],
        ]
    )
    if low == -np.inf and high == np.inf:
        return x
    is_inside = _inside(x, function)
    if is_inside.all():
        return x
    x = np.where(is_inside, x, -x)
    return np.where(_inside(x, function), x, evenly)


def _with_bits(
    rng: np.random.Generator, low: float, high: float, count: int, dtype: Any
) -> np.ndarray:
    """Draw numbers of either sign with magnitudes from `low` to `high`, uniformly by their bit patterns."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    first, last = [int(end) for end in np.array([low, high]).astype(dtype).view(unsigned)]
    bits = rng.integers(2 * first, 2 * last + 2, count, unsigned)
    sign = bits << unsigned.type(8 * dtype.itemsize - 1)
    return ((bits >> unsigned.type(1)) | sign).view(dtype)


def _inside(x: np.ndarray, function: Function) -> np.ndarray:
    low, high = function.domain
    with np.errstate(all="ignore"):  # because some of the bit patterns are NaN
        wide = x.astype(np.float64)
    return (wide >= low) & (wide <= high) & np.isfinite(wide)
