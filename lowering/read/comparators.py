"""Reader of sorts by a comparator, which is the region of `stablehlo.sort`.

Some comparators only compare values, select, and combine bools. Their results depend only on the order of
arguments and constants, so these comparators are evaluated for every possible order. If the results match a
lexicographic order of the first few operands, the sort is read as the op `Sort`. A sort by any other comparator is read
as a sorting network, which contains the comparator.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lowering.module_tree import Block
from lowering.read import total_order
from lowering.read.reader import Reader
from tenferro.errors import UnsupportedError
from tenferro.ops import elementwise as el
from tenferro.ops import reduction as re
from tenferro.ops import structural as st
from tenferro.ops.source import Iota
from tenferro.types import DType, TensorSpec

__all__ = ["SEES_ONLY_ORDER", "constants_of", "counts_along", "sorted_by", "standings"]

SEES_ONLY_ORDER = frozenset(
    f"stablehlo.{name}"
    for name in ("compare", "select", "and", "or", "not", "xor", "constant", "return")
)
MOST_TRIALS = 300_000
"""Maximum number of combinations of arguments for which a comparator is evaluated."""


class Key(NamedTuple):
    """Order of one sort key.

    Attributes:
        descending: whether larger elements come first.
        total: whether floats are compared in StableHLO's total order. Otherwise NaNs are equal to each other and above
            all numbers, and -0 equals +0.
    """

    descending: bool
    total: bool


def sorted_by(r: Reader, block: Block, operands: list[int], axis: int, stable: bool) -> list[int]:
    """Sort the operands along an axis by the comparator `block`, and return the sorted operands."""
    specs = [r.spec(x) for x in operands]
    order = _lexicographic(r, block, specs)
    if order is None:
        return _by_network(r, block, operands, axis, stable)
    if _is_top_k(r, order, operands, axis):
        x, count = operands[0], specs[0].shape[axis]
        top = total_order.top_k(r, x, count) if order[0].total else r.apply(re.TopK(count), x)
        return [top[0], r.convert(top[1], specs[1].dtype)]
    for i, key in reversed(list(enumerate(order))):
        operands = _sorted(r, operands, i, axis, key)
    return operands


def _is_top_k(r: Reader, order: tuple[Key, ...], operands: list[int], axis: int) -> bool:
    """Return whether the sort is a `TopK`: values with their indices, in descending order, along the last axis."""
    if len(operands) != 2 or len(order) != 1 or not order[0].descending:
        return False
    return axis == len(r.spec(operands[0]).shape) - 1 and counts_along(r, operands[1], axis)


def _sorted(r: Reader, operands: list[int], index: int, axis: int, key: Key) -> list[int]:
    """Sort all operands stably by the operand `index`, in the order that `key` describes."""
    if key.total:
        ordered = total_order.key(r, operands[index], key.descending)
        sort = re.Sort(axis, True, len(operands) + 1)
        _, *rest = r.apply(sort, ordered, *operands)
        return rest
    arranged = [operands[index], *operands[:index], *operands[index + 1 :]]
    turn = st.Reverse((axis,))
    if key.descending:
        arranged = [r.apply_one(turn, x) for x in arranged]
    outputs = list(r.apply(re.Sort(axis, True, len(arranged)), *arranged))
    if key.descending:
        outputs = [r.apply_one(turn, x) for x in outputs]
    first = outputs.pop(0)
    return [*outputs[:index], first, *outputs[index:]]


def counts_along(r: Reader, places: int, axis: int) -> bool:
    """Return whether the tensor `places` is computed by an `Iota`, so that its elements are 0, 1, .. along an axis."""
    producer = r.builder.made_by(places)
    if producer is None:
        return False
    op, inputs = producer
    if isinstance(op, st.BroadcastInDim) and axis in op.dims:
        inner = op.dims.index(axis)
        wide = r.spec(inputs[0]).shape[inner] == r.spec(places).shape[axis]
        return wide and counts_along(r, inputs[0], inner)
    return isinstance(op, Iota) and op.axis == axis


# ---- recognition -------------------------------------------------------------------------------------


def constants_of(r: Reader, block: Block) -> list[Any]:
    """Return the constants that a region uses, including constants that are defined outside the region."""
    constants = []
    inside = {*block.arguments}
    for operation in block.operations:
        if operation.name == "stablehlo.constant" and not isinstance(
            operation.attributes["value"], str
        ):
            constants.append(np.asarray(operation.attributes["value"]).flat[0])
        captured = [value for value in operation.operands if value not in inside]
        values = [r.constant_array(r.surroundings[value]) for value in captured]
        constants += [array.flat[0] for array in values if array is not None]
        inside |= {*operation.results, *captured}
    return constants


def standings(dtype: DType, constants: Sequence[Any]) -> Any:
    """Create numbers of a dtype that represent every possible order relative to each other and to the constants."""
    kind = dtype.dtype
    if dtype.is_bool:
        return np.array([False, True])
    own = [c for c in constants if np.asarray(c).dtype == kind and c == c]
    if dtype.is_integer:
        low, high = dtype.extremes
        around = {int(c) + d for c in own for d in (-2, -1, 0, 1, 2)} | {-2, -1, 0, 1, 2}
        around |= {low, low + 1, high - 1, high}
        return np.array(sorted([n for n in around if low <= n <= high]), kind)
    with np.errstate(all="ignore"):
        # The numbers must contain values below, between and above the constants. The neighbouring floats of each
        # constant are such values, unless two constants are themselves neighbours.
        beside = [np.nextafter(c, kind.type(end)) for c in own for end in (-np.inf, np.inf)]
        near = {float(c) for c in (*own, *beside)} | {-1.5, -1.0, -0.5, 0.5, 1.0, 1.5}
        candidates = [*sorted(near - {0.0}), 0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan]
        return np.array(candidates).astype(kind)


def _lexicographic(r: Reader, block: Block, specs: list[TensorSpec]) -> tuple[Key, ...] | None:
    """Return the keys of the lexicographic order that a comparator defines; None if it defines no such order."""
    if not {operation.name for operation in block.operations} <= SEES_ONLY_ORDER:
        return None
    if any(spec.dtype.is_complex for spec in specs):
        return None
    constants = constants_of(r, block)
    seen = _operands_compared(block)
    for keys in range(1, len(specs) + 1):
        # The operands after the first `keys` operands get two values each, to test that the order does not depend on
        # these operands.
        pools = [standings(spec.dtype, constants) for spec in specs[:keys]]
        pools += [
            np.array([0, 1] if keys + n in seen else [0]).astype(spec.dtype.dtype)
            for n, spec in enumerate(specs[keys:])
        ]
        if np.prod([float(len(pool)) ** 2 for pool in pools]) > MOST_TRIALS:
            return None
        grids = np.meshgrid(*[pool for pool in pools for _ in (0, 1)], indexing="ij")
        pairs = [(grids[2 * k].ravel(), grids[2 * k + 1].ravel()) for k in range(len(specs))]
        answers = _answers(r, block, pairs)
        if answers is None:
            return None
        for order in itertools.product(*[_orders(spec.dtype) for spec in specs[:keys]]):
            if _agrees(answers, pairs[:keys], order):
                return order
    return None


def _orders(dtype: DType) -> list[Key]:
    totals = (False, True) if dtype.is_float else (False,)
    return [Key(descending, total) for total in totals for descending in (False, True)]


def _operands_compared(block: Block) -> set[int]:
    """Return the indices of the sort's operands on which the comparator's result may depend."""
    needed = set(block.operations[-1].operands)
    for operation in reversed(block.operations[:-1]):
        if needed & set(operation.results):
            needed |= set(operation.operands)
    return {n // 2 for n, argument in enumerate(block.arguments) if argument in needed}


def _answers(r: Reader, block: Block, pairs: list[Any]) -> Any:
    """Evaluate the comparator for arrays of pairs of elements, one pair of arrays per operand.

    Return None if it cannot be evaluated.
    """
    scratch = r.scratch()
    arguments = [scratch.constant(values) for pair in pairs for values in pair]
    try:
        (answer,) = scratch.lifted(block, arguments)
    except (KeyError, UnsupportedError):
        return None
    return np.asarray(scratch.builder.finish([answer]).run()[0])


def _agrees(answers: Any, pairs: list[Any], order: tuple[Key, ...]) -> bool:
    """Return whether the comparator's results `answers` match the lexicographic order with these keys."""
    wanted = np.zeros(len(answers), bool)
    tied = np.ones(len(answers), bool)
    for (a, b), key in zip(pairs, order, strict=True):
        low, high = (b, a) if key.descending else (a, b)
        less, same = _in_total_order(low, high) if key.total else _with_nan_last(low, high)
        wanted |= tied & less
        tied &= same
    if np.array_equal(answers, wanted):
        return True
    # Any comparison with NaN may be false, as in IEEE 754. Then the comparator does not define the order of a pair with
    # NaN, so only pairs without NaN must match.
    numbers = np.ones(len(answers), bool)
    for a, b in pairs:
        numbers &= (a == a) & (b == b)
    plain = not answers[~numbers].any() and not numbers.all()
    return bool(plain and np.array_equal(answers[numbers], wanted[numbers]))


def _with_nan_last(low: Any, high: Any) -> tuple[Any, Any]:
    """Return two masks of pairs, for low < high and for low == high, where NaNs are equal and above all numbers."""
    nan_low, nan_high = low != low, high != high
    with np.errstate(all="ignore"):
        return (low < high) | (~nan_low & nan_high), (low == high) | (nan_low & nan_high)


def _in_total_order(low: Any, high: Any) -> tuple[Any, Any]:
    """Return two masks of pairs, for low < high and for low == high, in the total order of floats."""

    def rank(x: Any) -> Any:
        bits = x.view(f"i{x.dtype.itemsize}")
        return np.where(bits < 0, -1 - (bits & np.iinfo(bits.dtype).max), bits)

    return rank(low) < rank(high), rank(low) == rank(high)


# ---- any comparator ----------------------------------------------------------------------------------


def _by_network(r: Reader, block: Block, operands: list[int], axis: int, stable: bool) -> list[int]:
    """Sort by Batcher's merge exchange, a sorting network in which each round compares disjoint pairs of elements.

    Source: Knuth, The Art of Computer Programming 3, section 5.2.2, algorithm M.
    """
    shape = r.spec(operands[0]).shape
    extent = shape[axis]
    if not isinstance(extent, int):
        raise UnsupportedError(
            f"a sort of {extent} elements, whose comparator is not a supported order, needs a number for the extent"
        )
    if extent > MOST_SORTED:
        raise UnsupportedError(
            f"a sort of {extent} elements, whose comparator is not a supported order; at most {MOST_SORTED} are sorted"
        )
    values = [*operands, r.apply_one(Iota(shape, axis, DType.I64))]
    for first, second in _rounds(extent):
        low = [r.take(x, axis, r.constant(np.asarray(first, np.int64))) for x in values]
        high = [r.take(x, axis, r.constant(np.asarray(second, np.int64))) for x in values]
        (swap,) = r.lifted(block, _paired(high[:-1], low[:-1]))
        if stable:
            (keeps,) = r.lifted(block, _paired(low[:-1], high[:-1]))
            later = r.apply_one(el.Compare("LT"), high[-1], low[-1])
            tie = r.apply_one(el.And(), r.apply_one(el.Not(), keeps), later)
            swap = r.apply_one(el.Or(), swap, tie)
        order = np.arange(extent)
        order[first] = extent + np.arange(len(first))
        order[second] = extent + len(first) + np.arange(len(second))
        moved: list[int] = []
        for x, a, b in zip(values, low, high, strict=True):
            new = (r.apply_one(el.Select(), swap, b, a), r.apply_one(el.Select(), swap, a, b))
            joined = r.apply_one(st.Concatenate(axis, 3), x, *new)
            moved.append(r.take(joined, axis, r.constant(np.asarray(order, np.int64))))
        values = moved
    return values[:-1]


MOST_SORTED = 1 << 15
"""Maximum number of elements along the axis of a sorting network, which has a vector of indices in each round."""


def _paired(first: list[int], second: list[int]) -> list[int]:
    return [x for pair in zip(first, second, strict=True) for x in pair]


def _rounds(n: int) -> list[tuple[Any, Any]]:
    rounds = []
    top = p = (1 << (n - 1).bit_length()) >> 1
    while p:
        q, remainder, distance = top, 0, p
        while True:
            places = np.arange(n - distance)
            first = places[(places & p) == remainder]
            rounds.append((first, first + distance))
            if q == p:
                break
            distance, q, remainder = q - p, q >> 1, p
        p >>= 1
    return rounds
