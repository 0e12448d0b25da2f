"""`Pool`: the values of a random program under construction, with random choices of operands and new values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.graph import Graph
from tenferro.ops.source import Constant
from tenferro.types import DType, TensorSpec

__all__ = ["Pool", "in_order", "random_elements"]

EXTENTS = (1, 2, 3, 4, 5)
REUSE = 0.7
"""Probability that an operand is an existing value, not a new one."""


class Pool:
    """The values of a random program under construction.

    Attributes:
        rng: the generator of all random choices.
        graph: the graph to which values are added.
        parameters: the arrays for the graph's inputs.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.graph = Graph()
        self.parameters: list[tuple[int, Any]] = []
        self.values: list[int] = []

    def spec(self, value: int) -> TensorSpec:
        """Return the type of a value."""
        return self.graph.types[value]

    def chance(self, probability: float) -> bool:
        """Draw a bool that is True with this probability."""
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """Draw an integer from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def choice(self, items: Iterable[Any]) -> Any:
        """Choose one of the items."""
        candidates = list(items)
        return candidates[int(self.rng.integers(len(candidates)))]

    def some(self, items: Iterable[int], least: int = 0) -> tuple[int, ...]:
        """Choose a random subset of at least `least` items, in ascending order."""
        candidates = list(items)
        count = self.integer(min(least, len(candidates)), len(candidates))
        return tuple(sorted(self.rng.permutation(candidates)[:count].tolist()))

    def shape(self, least_rank: int = 0, most_rank: int = 3) -> tuple[int, ...]:
        """Draw a shape with extents from 1 to 5, and seldom 0."""
        rank = self.integer(least_rank, max(least_rank, most_rank))
        return tuple([0 if self.chance(0.02) else self.choice(EXTENTS) for _ in range(rank)])

    def operand(
        self, dtypes: Iterable[DType], fits: Callable[[TensorSpec], bool] = lambda spec: True
    ) -> int:
        """Choose an existing value that has one of the dtypes and satisfies `fits`, or add a new value."""
        accepted = in_order(dtypes)
        there = [v for v in self.values if self.spec(v).dtype in accepted and fits(self.spec(v))]
        if there and self.chance(REUSE):
            return self.choice(there[-6:])
        dtype = self.choice(accepted)
        for _ in range(50):
            spec = TensorSpec.of(self.shape(), dtype)
            if fits(spec):
                return self.leaf(spec)
        raise LookupError("no random shape fits")

    def like(self, spec: TensorSpec) -> int:
        """Choose an existing value of the type `spec`, or add a new value of this type."""
        there = [v for v in self.values if self.spec(v) == spec]
        return self.choice(there) if there and self.chance(REUSE) else self.leaf(spec)

    def of(self, shape: Sequence[int], dtype: DType) -> int:
        """Choose an existing value of this shape and dtype, or add a new value."""
        return self.like(TensorSpec.of(tuple(shape), dtype))

    def leaf(self, spec: TensorSpec) -> int:
        """Add a parameter or a constant of the given type, with random elements."""
        return self.leaf_of(random_elements(spec, self.rng))

    def leaf_of(self, array: Any) -> int:
        """Add a parameter or a constant with the elements of an array."""
        if self.chance(0.35):
            (value,) = self.graph.add(Constant.of(array), ())
        else:
            value = self.graph.add_input(TensorSpec.of(array.shape, DType.of(array.dtype)))
            self.parameters.append((value, array))
        return value

    def indices(self, shape: Sequence[int], beyond: int) -> int:
        """Add a leaf of small integers for use as indices, some of which are out of bounds."""
        dtype = self.choice([DType.I32, DType.I64])
        low, high = (-2, beyond + 2) if self.chance(0.3) else (0, max(beyond - 1, 0))
        return self.leaf_of(np.asarray(self.rng.integers(low, high + 1, tuple(shape)), dtype.dtype))


def in_order(dtypes: Iterable[DType]) -> list[DType]:
    """Return dtypes in the order of the enum `DType`, without narrow dtypes.

    The order of a set would differ between processes, and with it the random programs.
    """
    wanted = set(dtypes)
    return [dtype for dtype in DType if dtype in wanted and not dtype.is_narrow]


def random_elements(spec: TensorSpec, rng: np.random.Generator) -> Any:
    """Draw an array of small random numbers.

    In some arrays, some or all elements are special values, such as NaN and the extreme values of the dtype. Some
    float arrays consist of small whole numbers.
    """
    dtype, shape = spec.dtype, spec.shape
    if dtype.is_bool:
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    mode = rng.random()
    if dtype.is_complex:
        parts = [_floats(shape, dtype.real, mode, rng).astype(np.float64) for _ in range(2)]
        values = np.empty(shape, dtype.dtype)
        values.real, values.imag = parts
        return values
    if dtype.is_integer:
        info = np.iinfo(dtype.dtype)
        low = -9 if dtype.kind == "i" else 0
        ordinary = np.asarray(rng.integers(low, 10, shape)).astype(dtype.dtype)
        special = np.array([0, 1, info.max, info.min, info.max - 1], dtype.dtype)
        return _mixed(ordinary, special, mode, rng)
    return _floats(shape, dtype, mode, rng)


def _floats(shape: Any, dtype: DType, mode: float, rng: np.random.Generator) -> Any:
    info = ml_dtypes.finfo(dtype.dtype)
    ordinary = np.asarray(rng.uniform(-3, 3, shape)).astype(dtype.dtype)
    if mode > 0.9:
        return np.asarray(rng.integers(-3, 4, shape)).astype(dtype.dtype)
    large, tiny = float(info.max), float(info.smallest_normal)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, large, -large, tiny, tiny / 2]
    return _mixed(ordinary, np.array(special).astype(dtype.dtype), mode, rng)


def _mixed(ordinary: Any, special: Any, mode: float, rng: np.random.Generator) -> Any:
    share = 0.0 if mode < 0.65 else 0.3 if mode < 0.8 else 1.0
    chosen = special[rng.integers(0, len(special), ordinary.shape)]
    return np.where(rng.random(ordinary.shape) < share, chosen, ordinary)
