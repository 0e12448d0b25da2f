"""What the comparator of a sort orders by.

A comparator that only compares, selects and combines truth values can see nothing of its arguments but how
they stand to each other and to the constants it holds. So it is tried on every such standing, and if it
gives what a lexicographic order of the first few operands gives, it is that order. Any other is followed
step by step, by a network of comparisons.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from lowering.module_tree import Block
from lowering.read.reader import Reader
from tenferro.errors import UnsupportedError
from tenferro.ops import elementwise as el
from tenferro.ops import reduction as re
from tenferro.ops import structural as st
from tenferro.ops.indexing import Gather
from tenferro.ops.source import Iota
from tenferro.types import DType, TensorSpec

__all__ = ["SEES_ONLY_ORDER", "constants_of", "counts_along", "sorted_by", "standings"]

SEES_ONLY_ORDER = frozenset(
    f"stablehlo.{name}"
    for name in ("compare", "select", "and", "or", "not", "xor", "constant", "return")
)
MOST_TRIALS = 300_000


def sorted_by(r: Reader, block: Block, operands: list[int], axis: int, stable: bool) -> list[int]:
    """The operands in the order of a comparator."""
    specs = [r.spec(x) for x in operands]
    order = _lexicographic(r, block, specs)
    if order is None:
        return _by_network(r, block, operands, axis, stable)
    if order == (True,) and len(operands) == 2 and axis == len(specs[0].shape) - 1:
        x, places = operands
        if counts_along(r, places, axis):
            top, found = r.emit_all(re.TopK(specs[0].shape[axis]), x)
            return [top, r.convert(found, specs[1].dtype)]
    for place, descending in reversed(list(enumerate(order))):
        operands = _sorted(r, operands, place, axis, descending)
    return operands


def _sorted(r: Reader, operands: list[int], key: int, axis: int, descending: bool) -> list[int]:
    """Stably sorted by one of them."""
    arranged = [operands[key], *operands[:key], *operands[key + 1 :]]
    turn = st.Reverse((axis,))
    if descending:
        arranged = [r.emit(turn, x) for x in arranged]
    made = list(r.emit_all(re.Sort(axis, True, len(arranged)), *arranged))
    if descending:
        made = [r.emit(turn, x) for x in made]
    first = made.pop(0)
    return [*made[:key], first, *made[key:]]


def counts_along(r: Reader, places: int, axis: int) -> bool:
    """Whether a tensor holds 0, 1, .. along an axis."""
    made = r.builder.made_by(places)
    if made is None:
        return False
    op, inputs = made
    if isinstance(op, st.BroadcastInDim) and axis in op.dims:
        inner = op.dims.index(axis)
        wide = r.spec(inputs[0]).shape[inner] == r.spec(places).shape[axis]
        return wide and counts_along(r, inputs[0], inner)
    return isinstance(op, Iota) and op.axis == axis


# ---- recognition -------------------------------------------------------------------------------------


def constants_of(block: Block) -> list[Any]:
    """The numbers that a region holds."""
    found = []
    for operation in block.operations:
        if operation.name == "stablehlo.constant" and not isinstance(
            operation.attributes["value"], str
        ):
            found.append(np.asarray(operation.attributes["value"]).reshape(-1)[0])
    return found


def standings(dtype: DType, constants: Sequence[Any]) -> Any:
    """Numbers of which two stand to each other, and to the constants, in every possible way."""
    kind = dtype.dtype
    if dtype.is_bool:
        return np.array([False, True])
    own = [c for c in constants if np.asarray(c).dtype == kind and c == c]
    if dtype.is_integer:
        limits = np.iinfo(kind)
        around = {int(c) + d for c in own for d in (-2, -1, 0, 1, 2)} | {-2, -1, 0, 1, 2}
        around |= {limits.min, limits.min + 1, limits.max - 1, limits.max}
        return np.array(sorted(n for n in around if limits.min <= n <= limits.max), kind)
    with np.errstate(all="ignore"):
        near = [float(c) for c in own] + [0.0, 1.0, -1.0]
        numbers = {n * f for n in near for f in (1.0, 1.5, 0.5)} | {-0.0}
        found = [*sorted(numbers), np.inf, -np.inf, np.nan, -np.nan, -0.0]
        return np.array(found).astype(kind)


def _lexicographic(r: Reader, block: Block, specs: list[TensorSpec]) -> tuple[bool, ...] | None:
    """For each key whether it descends; None for another order."""
    if not {operation.name for operation in block.operations} <= SEES_ONLY_ORDER:
        return None
    if any(spec.dtype.is_complex for spec in specs):
        return None
    constants = constants_of(block)
    for keys in range(1, len(specs) + 1):
        # What follows the keys varies too, because the order must not depend on it.
        pools = [standings(spec.dtype, constants) for spec in specs[:keys]]
        pools += [np.array([0, 1]).astype(spec.dtype.dtype) for spec in specs[keys:]]
        if np.prod([float(len(pool)) ** 2 for pool in pools]) > MOST_TRIALS:
            return None
        grids = np.meshgrid(*[pool for pool in pools for _ in (0, 1)], indexing="ij")
        pairs = [(grids[2 * k].ravel(), grids[2 * k + 1].ravel()) for k in range(len(specs))]
        found = _answers(r, block, pairs)
        if found is None:
            return None
        for order in itertools.product((False, True), repeat=keys):
            if _agrees(found, pairs[:keys], order):
                return order
    return None


def _answers(r: Reader, block: Block, pairs: list[Any]) -> Any:
    """What the comparator says of pairs of every operand."""
    scratch = Reader(r.tree, r.readers)
    arguments = [scratch.constant(values) for pair in pairs for values in pair]
    try:
        (answer,) = scratch.lifted(block, arguments)
    except (KeyError, UnsupportedError):
        return None
    return np.asarray(scratch.builder.finish([answer]).run()[0])


def _agrees(found: Any, pairs: list[Any], order: tuple[bool, ...]) -> bool:
    """Whether the answers are those of a lexicographic order, with NaN last, and zeros equal."""
    wanted = np.zeros(len(found), bool)
    tied = np.ones(len(found), bool)
    for (a, b), descending in zip(pairs, order, strict=True):
        low, high = (b, a) if descending else (a, b)
        nan_low, nan_high = low != low, high != high
        with np.errstate(all="ignore"):
            less = (low < high) | (~nan_low & nan_high)
            same = (low == high) | (nan_low & nan_high)
        wanted |= tied & less
        tied &= same
    if np.array_equal(found, wanted):
        return True
    # A plain comparison orders NaN with nothing: any order is right where one is met.
    numbers = np.ones(len(found), bool)
    for a, b in pairs:
        numbers &= (a == a) & (b == b)
    plain = not found[~numbers].any() and not numbers.all()
    return bool(plain and np.array_equal(found[numbers], wanted[numbers]))


# ---- any comparator ----------------------------------------------------------------------------------


def _by_network(r: Reader, block: Block, operands: list[int], axis: int, stable: bool) -> list[int]:
    """Batcher's merge exchange, each round of which compares disjoint pairs.

    Source: Knuth, The Art of Computer Programming 3, section 5.2.2, algorithm M.
    """
    extent = r.spec(operands[0]).shape[axis]
    shape = r.spec(operands[0]).shape
    values = [*operands, r.emit(Iota(shape, axis, DType.I64))]
    for first, second in _rounds(extent):
        low = [_taken(r, x, first, axis) for x in values]
        high = [_taken(r, x, second, axis) for x in values]
        (swap,) = r.lifted(block, _paired(high[:-1], low[:-1]))
        if stable:
            (keeps,) = r.lifted(block, _paired(low[:-1], high[:-1]))
            later = r.emit(el.Compare("LT"), high[-1], low[-1])
            tie = r.emit(el.And(), r.emit(el.Not(), keeps), later)
            swap = r.emit(el.Or(), swap, tie)
        place = np.arange(extent)
        place[first] = extent + np.arange(len(first))
        place[second] = extent + len(first) + np.arange(len(second))
        moved: list[int] = []
        for x, a, b in zip(values, low, high, strict=True):
            new = (r.emit(el.Select(), swap, b, a), r.emit(el.Select(), swap, a, b))
            joined = r.emit(st.Concatenate(axis, 3), x, *new)
            moved.append(_taken(r, joined, place, axis))
        values = moved
    return values[:-1]


def _paired(first: list[int], second: list[int]) -> list[int]:
    return [x for pair in zip(first, second, strict=True) for x in pair]


def _rounds(n: int) -> list[tuple[Any, Any]]:
    found = []
    top = 1 << max(0, (n - 1).bit_length() - 1)
    p = top
    while n > 1 and p:
        q, remainder, distance = top, 0, p
        while True:
            places = np.arange(n - distance)
            first = places[(places & p) == remainder]
            if len(first):
                found.append((first, first + distance))
            if q == p:
                break
            distance, q, remainder = q - p, q >> 1, p
        p >>= 1
    return found


def _taken(r: Reader, x: int, places: Any, axis: int) -> int:
    """Slices of x at known places."""
    shape = r.spec(x).shape
    rank = len(shape)
    op = Gather(
        offset_dims=tuple([i for i in range(rank) if i != axis]),
        collapsed_slice_dims=(axis,),
        operand_batching_dims=(),
        start_indices_batching_dims=(),
        start_index_map=(axis,),
        index_vector_dim=1,
        slice_sizes=tuple([1 if i == axis else extent for i, extent in enumerate(shape)]),
    )
    return r.emit(op, x, r.constant(np.asarray(places, np.int64).reshape(-1, 1)))
