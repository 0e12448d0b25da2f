"""Slices, pads and updates must be joined.

Each law must agree with NumPy, and random programs must keep their bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import passes
from tenferro.dispatch import apply_one
from tenferro.ops.indexing import DynamicSlice, DynamicUpdateSlice, Gather, Scatter
from tenferro.ops.structural import BroadcastInDim, Pad
from tenferro.program import GraphProgram

UNTOUCHED = tnf.GraphExecutor(passes=(), order="K")
CORNERS = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.25, 1e-310])


def moved(program: GraphProgram) -> list[str]:
    """Return the names of the ops that move elements.

    All ops count, except constants, broadcasts and sums.
    """
    names = [instruction.op.name for instruction in program.instructions]
    return [name for name in names if name not in ("Constant", "BroadcastInDim", "Add")]


def joined(program: GraphProgram) -> GraphProgram:
    return passes.join_pieces(passes.clean_up(program))


def assert_same_bits(actual: Any, expected: Any) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
    if actual.dtype.kind in "fc":
        for part in ("real", "imag"):
            a, b = getattr(actual, part), getattr(expected, part)
            number = ~np.isnan(b)
            np.testing.assert_array_equal(np.signbit(a)[number], np.signbit(b)[number])


def padded(x: Any, low: Any, high: Any, interior: Any = None, fill: float = 0.0) -> Any:
    return apply_one(Pad(low, high, interior or (0,) * len(low)), x, np.asarray(fill, x.dtype))


ROW = CORNERS
GRID = np.resize(CORNERS, (4, 5))


def gathered(x: Any, numbers: Any, axis: int, place: int) -> Any:
    rank = len(x.shape)
    return apply_one(
        Gather(
            offset_dims=tuple([i for i in range(rank) if i != place]),
            collapsed_slice_dims=(axis,),
            operand_batching_dims=(),
            start_indices_batching_dims=(),
            start_index_map=(axis,),
            index_vector_dim=1,
            slice_sizes=tuple([1 if i == axis else n for i, n in enumerate(x.shape)]),
        ),
        x,
        np.asarray(numbers)[:, None],
    )


def scattered(x: Any, numbers: Any, axis: int, shape: tuple[int, ...]) -> Any:
    rank = len(shape)
    op = Scatter(
        update_window_dims=tuple([i for i in range(rank) if i != axis]),
        inserted_window_dims=(axis,),
        input_batching_dims=(),
        scatter_indices_batching_dims=(),
        scatter_dims_to_operand_dims=(axis,),
        index_vector_dim=1,
    )
    return apply_one(op, tnf.zeros(shape), np.asarray(numbers)[:, None], x)


def scattered_by_numpy(x: Any, numbers: Any, axis: int, shape: tuple[int, ...]) -> Any:
    y = np.zeros(shape)
    for place, number in enumerate(numbers):
        if 0 <= number < shape[axis]:
            y[(slice(None),) * axis + (number,)] += np.take(x, place, axis)
    return y


def rolled(x: Any) -> Any:
    """Compute the adjoint of a roll as a sum of two pads. Derivative rules write it in this form."""
    return padded(x[:1], (7,), (0,)) + padded(x[1:], (0,), (1,))


LAWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Any, list[str]]] = {
    "slice of slice": (lambda x: x[1:7][1:6:2], lambda x: x[2:7:2], ROW, ["Slice"]),
    "one element of a slice with steps": (lambda x: x[1:8:3][1:2], lambda x: x[4:5], ROW, ["Slice"]),
    "slice in a pad": (lambda x: padded(x, (2,), (3,))[3:9], lambda x: x[1:7], ROW, ["Slice"]),
    "all of a pad's operand": (lambda x: padded(x, (2,), (3,))[2:10], lambda x: x, ROW, []),
    "slice beside a pad": (
        lambda x: padded(x, (2, 0), (3, 1), fill=-0.0)[:2], lambda x: np.full((2, 6), -0.0), GRID, [],
    ),
    "slice that undoes an interior": (
        lambda x: padded(x, (1,), (2,), (2,))[1:23:3], lambda x: x, ROW, [],
    ),
    "every other of an interior": (
        lambda x: padded(x, (1,), (0,), (2,))[4:23:6], lambda x: x[1::2], ROW, ["Slice"],
    ),
    "slice between the elements of an interior": (
        lambda x: padded(x, (1,), (2,), (2,))[2:23:3], lambda x: np.zeros(7), ROW, [],
    ),
    "slice of one part": (
        lambda x: tnf.concat([x, -x], axis=1)[:, 6:9], lambda x: -x[:, 1:4], GRID, ["Negate", "Slice"],
    ),
    "slice of what repeats": (
        lambda x: apply_one(BroadcastInDim((9, 8), (1,)), x)[2:5],
        lambda x: np.broadcast_to(x, (3, 8)), ROW, [],
    ),
    "slice of the window": (
        lambda x: x.at[1:4, 1:4].set(x[:3, :3])[2:4, 2:3], lambda x: x[1:3, 1:2], GRID, ["Slice"],
    ),
    "slice beside the window": (
        lambda x: x.at[1:4, 1:4].set(x[:3, :3])[:, 4:], lambda x: x[:, 4:], GRID, ["Slice"],
    ),
    "no edges": (lambda x: padded(x, (0,), (0,)), lambda x: x, ROW, []),
    "cut edges": (lambda x: padded(x, (-1, 0), (-1, -2)), lambda x: x[1:3, :3], GRID, ["Slice"]),
    "pad of pad": (
        lambda x: padded(padded(x, (1,), (2,)), (3,), (-1,)),
        lambda x: np.pad(x, (4, 1)), ROW, ["Pad"],
    ),
    "pad of zeros": (
        lambda x: padded(tnf.zeros(3), (1,), (2,)) + x[:6], lambda x: x[:6] + 0.0, ROW, ["Slice"],
    ),
    "concatenation of neighbours": (
        lambda x: tnf.concat([x[:2], x[2:5], x[5:]]), lambda x: x, ROW, [],
    ),
    "concatenation of concatenations": (
        lambda x: tnf.concat([tnf.concat([x, -x]), x[:0], x]),
        lambda x: np.concatenate([x, -x, x]), ROW, ["Negate", "Concatenate"],
    ),
    "disjoint pads": (rolled, lambda x: np.roll(x, -1) + 0.0, ROW, ["Slice", "Slice", "Concatenate"]),
    "disjoint pads with a gap": (
        lambda x: padded(x[:, :1], (0, 4), (0, 0)) + padded(x[:, 3:5], (0, 1), (0, 2)),
        lambda x: np.stack([0 * np.ones(4), x[:, 3], x[:, 4], np.zeros(4), x[:, 0]], 1) + 0.0,
        GRID, ["Slice", "Slice", "Concatenate"],
    ),
    "a sum and disjoint pads": (
        lambda x: (-x + padded(x[:1], (7,), (0,))) + padded(x[1:], (0,), (1,)),
        lambda x: (-x + np.roll(x, -1)) + 0.0, ROW, ["Negate", "Slice", "Slice", "Concatenate"],
    ),
    "pads by the same edges": (
        lambda x: padded(x, (1, 2), (0, 1), (1, 0)) + padded(-x, (1, 2), (0, 1), (1, 0)),
        lambda x: padded_by_numpy(x + -x), GRID, ["Negate", "Pad"],
    ),
    "pads of one operand": (
        lambda x: padded(x, (2,), (0,)) + padded(x, (1,), (1,)) + padded(x, (0,), (2,)),
        lambda x: np.pad(x, (2, 0)) + np.pad(x, 1) + np.pad(x, (0, 2)),
        ROW, ["Pad", "Slice", "Slice", "Slice"],
    ),
    "a dynamic slice at a constant place": (
        lambda x: apply_one(DynamicSlice((2, 3)), x, np.int64(9), np.int64(-4)),
        lambda x: x[2:, :3], GRID, ["Slice"],
    ),
    "an update over zeros": (
        lambda x: apply_one(DynamicUpdateSlice(1), tnf.zeros(9), x, np.int64(1)),
        lambda x: np.pad(x, (1, 0)), ROW, ["Pad"],
    ),
    "an update of everything": (
        lambda x: apply_one(DynamicUpdateSlice(1), -x, x, np.int64(1)), lambda x: x, ROW, [],
    ),
    "an update of an update": (
        lambda x: x.at[2:4].set(x[:2]).at[2:4].set(x[4:6])[1:5],
        lambda x: x[[1, 4, 5, 4]], ROW, ["Slice", "DynamicUpdateSlice", "Slice"],
    ),
    "a window at a constant place": (
        lambda x: x.at[1, 2:4].get() + x.at[(1, 2)].get(), lambda x: x[1, 2:4] + x[1, 2], GRID, None,
    ),
    "rows at a distance": (lambda x: gathered(x, [0, 2, 4], 1, 1), lambda x: x[:, ::2], GRID, ["Slice"]),
    "rows at a distance, in front": (
        lambda x: gathered(x, [0, 2, 4], 1, 0), lambda x: x[:, ::2].T, GRID, ["Slice", "Transpose"],
    ),
    "rows backwards": (
        lambda x: gathered(x, [4, 3, 2, 1], 1, 1), lambda x: x[:, :0:-1], GRID, ["Slice", "Reverse"],
    ),
    "one row again and again": (
        lambda x: gathered(x, [2, 2, 2], 0, 0), lambda x: x[[2, 2, 2]], GRID, ["Slice"],
    ),
    "rows beyond the end": (
        lambda x: gathered(x, [1, 3, 5], 0, 0), lambda x: x[[1, 3, 3]], GRID, ["Gather"],
    ),
    "rows into zeros": (
        lambda x: scattered(x, [1, 3, 5, 7, 9], 1, (4, 10)),
        lambda x: scattered_by_numpy(x, [1, 3, 5, 7, 9], 1, (4, 10)), GRID, ["Pad"],
    ),
    "rows into zeros, backwards": (
        lambda x: scattered(x, [8, 6, 4, 2, 0], 1, (4, 10)),
        lambda x: scattered_by_numpy(x, [8, 6, 4, 2, 0], 1, (4, 10)), GRID, ["Reverse", "Pad"],
    ),
    "rows that do not fit into zeros": (
        lambda x: scattered(x, [2, 4, 6, 8, 10], 1, (4, 10)),
        lambda x: scattered_by_numpy(x, [2, 4, 6, 8, 10], 1, (4, 10)), GRID, ["Scatter"],
    ),
    "one row into zeros, again and again": (
        lambda x: scattered(x, [1, 1, 1, 1], 0, (2, 5)),
        lambda x: scattered_by_numpy(x, [1, 1, 1, 1], 0, (2, 5)), GRID, ["Scatter"],
    ),
}  # fmt: skip


def placed(x: Any, updates: Any, at: int) -> Any:
    """Set a window of elements from the index `at` on. A window that is out of bounds must be dropped."""
    op = Scatter(
        update_window_dims=(0,),
        inserted_window_dims=(),
        input_batching_dims=(),
        scatter_indices_batching_dims=(),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=0,
        combiner="set",
    )
    return apply_one(op, x, np.asarray([at]), updates)


@pytest.mark.parametrize("at", range(-2, 9))
def test_a_window_at_every_place(at: int) -> None:
    """A scatter of a window that is out of bounds must be dropped.

    For a slice or an update, the start would be clamped instead.
    """
    program = tnf.compile(lambda x: placed(x, -x[:3], at), ROW)
    expected = ROW.copy()
    if 0 <= at <= 5:
        expected[at : at + 3] = -ROW[:3]
    assert ("Scatter" in moved(joined(program))) is False
    assert_same_bits(UNTOUCHED.run(joined(program), ROW), expected)
    first = min(max(at, 0), 5)
    program = tnf.compile(lambda x: apply_one(DynamicSlice((3,)), x, np.int64(at)), ROW)
    assert moved(joined(program)) == ["Slice"]
    assert_same_bits(UNTOUCHED.run(joined(program), ROW), ROW[first : first + 3])
    fill = np.asarray(2.0)
    program = tnf.compile(
        lambda x: apply_one(DynamicUpdateSlice(1), tnf.full((8,), fill), x[:3], np.int64(at)), ROW
    )
    assert moved(joined(program)) == ["Slice", "Pad"]
    expected = np.full(8, 2.0)
    expected[first : first + 3] = ROW[:3]
    assert_same_bits(UNTOUCHED.run(joined(program), ROW), expected)
    numbers = [at, at + 2, at + 4]
    program = tnf.compile(lambda x: gathered(x, numbers, 0, 0), ROW)
    assert_same_bits(UNTOUCHED.run(joined(program), ROW), ROW[np.clip(numbers, 0, 7)])
    assert moved(joined(program)) == (["Slice"] if -1 < at < 4 or at > 6 else ["Gather"])
    program = tnf.compile(lambda x: scattered(x[:3], numbers, 0, (8,)), ROW)
    assert_same_bits(UNTOUCHED.run(joined(program), ROW), scattered_by_numpy(ROW[:3], numbers, 0, (8,)))  # fmt: skip
    assert moved(joined(program)) == ["Slice", "Pad" if 0 <= at <= 3 else "Scatter"]


@pytest.mark.parametrize("low", range(5))
@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_every_slice_of_pads_concatenations_and_updates(low: int, length: int, stride: int) -> None:
    """A slice of a padded array must equal NumPy's, for each start of the slice."""
    x = np.arange(1.0, 6.0)
    for interior in (0, 1, 2):
        size = low + 5 + 4 * interior + 2
        whole = np.zeros(size)
        whole[low : size - 2 : interior + 1] = x
        for start in range(size - (length - 1) * stride):
            part = slice(start, start + (length - 1) * stride + 1, stride)
            program = tnf.compile(lambda x, p=part, i=interior: padded(x, (low,), (2,), (i,))[p], x)
            assert_same_bits(UNTOUCHED.run(joined(program), x), whole[part])
            if not interior:
                program = tnf.compile(
                    lambda x, p=part: tnf.concat([tnf.ones(low), x, -x[:2]])[p], x
                )
                wanted = np.concatenate([np.ones(low), x, -x[:2]])[part]
                assert_same_bits(UNTOUCHED.run(joined(program), x), wanted)


@pytest.mark.parametrize(("rows", "columns", "is_one"), [(4, 5, False), (4, 4, True), (5, 4, False), (2, 9, True), (2, 10, False)])  # fmt: skip
def test_pads_are_slices_of_one_that_is_smaller_than_both(
    rows: int, columns: int, is_one: bool
) -> None:
    """Two pads of a 4x5 grid must be joined if the common pad is smaller than both together.

    This is the case if (4 + a) (5 + b) < 5 (4 + a) + 4 (5 + b).
    """
    program = tnf.compile(
        lambda x: (padded(x, (rows, 0), (0, 0)), padded(x, (0, columns), (0, 0))), GRID
    )
    names = moved(joined(program))
    assert names.count("Pad") == (1 if is_one else 2)
    for y, wanted in zip(
        UNTOUCHED.run(joined(program), GRID),
        (np.pad(GRID, ((rows, 0), (0, 0))), np.pad(GRID, ((0, 0), (columns, 0)))),
        strict=True,
    ):
        assert_same_bits(y, wanted)


def padded_by_numpy(x: Any) -> Any:
    y = np.zeros((1 + 2 * x.shape[0] - 1, x.shape[1] + 3), x.dtype)
    y[1::2, 2:-1] = x
    return y


@pytest.mark.parametrize("case", LAWS.values(), ids=LAWS)
def test_a_law_gives_what_numpy_gives(case: Any) -> None:
    fn, by_numpy, x, left = case
    program = tnf.compile(fn, x)
    result = joined(program)
    if left is not None:
        assert moved(result) == left
    assert_same_bits(UNTOUCHED.run(result, x), UNTOUCHED.run(program, x))
    with np.errstate(all="ignore"):
        assert_same_bits(UNTOUCHED.run(result, x), by_numpy(x))


KEPT: dict[str, Callable[[Any], Any]] = {
    "pads that overlap": lambda x: padded(x, (1,), (0,)) + padded(-x, (0,), (1,)),
    "pads with ones": lambda x: (
        padded(x[:1], (7,), (0,), fill=1.0) + padded(x[1:], (0,), (1,), fill=1.0)
    ),
    "pads with ones by the same edges": lambda x: (
        padded(x, (1,), (2,), fill=1.0) + padded(-x, (1,), (2,), fill=1.0)
    ),
    "pads with ones and zeros by the same edges": lambda x: (
        padded(x, (1,), (2,), fill=0.0) + padded(-x, (1,), (2,), fill=1.0)
    ),
    "pads with -0.0": lambda x: (
        padded(x[:1], (7,), (0,), fill=-0.0) + padded(x[1:], (0,), (1,), fill=-0.0)
    ),
    "pads of different axes": lambda x: (
        padded(x[None], (1, 0), (0, 0)) + padded(x[None, :4] * 2, (1, 4), (0, 0))
    ),
    "a pad that restores what was cut": lambda x: padded(padded(x, (-2,), (0,)), (2,), (0,)),
    "pads far apart": lambda x: padded(x, (90,), (0,)) + padded(x, (0,), (90,)) * 2,
    "a slice at both sides of an edge": lambda x: padded(x, (2,), (0,))[1:4],
    "a slice of two parts": lambda x: tnf.concat([x, -x])[6:10],
}


@pytest.mark.parametrize("fn", KEPT.values(), ids=KEPT)
def test_what_is_no_law_keeps_its_values(fn: Any) -> None:
    program = tnf.compile(fn, ROW)
    assert_same_bits(UNTOUCHED.run(joined(program), ROW), UNTOUCHED.run(program, ROW))


class Walk:
    """A random program that is built with tenferro and with NumPy at the same time."""

    def __init__(self, seed: int, dtype: Any) -> None:
        self.random = np.random.default_rng(seed)
        self.shape = tuple(self.random.integers(0, 6, self.random.integers(1, 3)))
        size = int(np.prod(self.shape))
        numbers = self.random.choice(CORNERS, (2, size)) if dtype != "i4" else np.ones((2, size))
        self.x = np.asarray(numbers[0], dtype).reshape(self.shape)
        if np.dtype(dtype).kind == "c":
            self.x.imag = numbers[1].reshape(self.shape)
        self.choices = self.random.integers(0, 1 << 30, 400)

    def __call__(self, x: Any, by_numpy: bool) -> list[Any]:
        choices = iter(self.choices.tolist())
        pick = lambda n: next(choices) % n
        values = [x]
        for _ in range(14):
            kind, y = pick(7), values[pick(len(values))]
            rank = len(y.shape)
            axis = pick(rank)
            extent = int(y.shape[axis])
            if kind == 0:
                start = pick(extent + 1)
                limit = start + pick(extent - start + 1)
                step = 1 + pick(2)
                index = (slice(None),) * axis + (slice(start, limit, step),)
                values.append(y[index])
            elif kind in (1, 2):
                low, high = [0] * rank, [0] * rank
                low[axis], high[axis] = pick(4), pick(4)
                interior = [pick(2) if kind == 2 and i == axis else 0 for i in range(rank)]
                values.append((pad_by_numpy if by_numpy else padded)(
                    y, tuple(low), tuple(high), tuple(interior)
                ))  # fmt: skip
            elif kind == 3:
                ends = [y[(slice(None),) * axis + (part,)] for part in (slice(1, None), slice(1))]
                values.append((np.concatenate if by_numpy else tnf.concat)(ends, axis=axis))
            elif kind == 4:
                alike = [z for z in values if z.shape == y.shape]
                values.append(y + alike[pick(len(alike))])
            elif kind == 5:
                grown = (np.concatenate if by_numpy else tnf.concat)([y, y], axis=axis)
                back = (slice(None),) * axis + (slice(extent // 2, extent // 2 + extent),)
                values.append(grown[back] + y)
            else:
                start = pick(extent + 1)
                index = (slice(None),) * axis + (slice(start, start + extent // 2),)
                if by_numpy:
                    z = y.copy()
                    z[index] = z[index] * 2
                    values.append(z)
                else:
                    values.append(y.at[index].set(y[index] * 2))
        return values


def pad_by_numpy(x: Any, low: Any, high: Any, interior: Any) -> Any:
    for axis, (a, b, k) in enumerate(zip(low, high, interior, strict=True)):
        extent = x.shape[axis]
        shape = list(x.shape)
        shape[axis] = a + extent + max(extent - 1, 0) * k + b
        y = np.zeros(shape, x.dtype)
        y[(slice(None),) * axis + (slice(a, a + extent * (k + 1), k + 1),)][
            (slice(None),) * axis + (slice(extent),)
        ] = x
        x = y
    return x


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i4"])
@pytest.mark.parametrize("part", range(4))
def test_random_programs_keep_their_bits(part: int, dtype: str) -> None:
    changed = 0
    for seed in range(12 * part, 12 * part + 12):
        walk = Walk(seed, dtype)
        program = tnf.compile(lambda x, walk=walk: walk(x, by_numpy=False), walk.x)
        result = joined(program)
        changed += result is not program
        with np.errstate(all="ignore"):
            expected = walk(walk.x, by_numpy=True)
            for run in (program, result):
                for actual, wanted in zip(UNTOUCHED.run(run, walk.x), expected, strict=True):
                    assert_same_bits(actual, wanted)
    assert changed > 6


def two_rolls(x: Any) -> Any:
    return x + 0.1 * (tnf.roll(x, 1) - 2 * x + tnf.roll(x, -1))


def jacobi(x: Any) -> Any:
    inner = 0.2 * (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1])
    return x.at[1:-1, 1:-1].set(inner)


@pytest.mark.parametrize(
    ("stencil", "shape", "left"),
    [
        (two_rolls, (7,), {"Concatenate": 2, "Add": 4}),
        (jacobi, (6, 5), {"DynamicUpdateSlice": 1, "Pad": 1, "Add": 5, "Slice": 6}),
    ],
    ids=["two rolls", "jacobi"],
)
def test_the_adjoint_of_a_stencil_is_a_stencil(stencil: Any, shape: Any, left: Any) -> None:
    x, y_bar = np.random.default_rng(0).standard_normal((2, *shape))
    program = tnf.compile(lambda x, y_bar: tnf.vjp(stencil, x)[1](y_bar)[0], x, y_bar)
    names = [instruction.op.name for instruction in joined(program).instructions]
    assert {name: names.count(name) for name in left} == left
    assert not {"Pad", "Scatter", "Gather", "Select"}.difference(left) & set(names)
    matrix = np.stack([stencil_of(stencil, e) for e in np.eye(x.size).reshape(-1, *shape)])
    np.testing.assert_allclose(
        program.run(x, y_bar), (matrix.reshape(x.size, -1) @ y_bar.reshape(-1)).reshape(shape),
        rtol=1e-13, atol=1e-14,
    )  # fmt: skip


def stencil_of(stencil: Any, x: Any) -> Any:
    """Compute a stencil of this test by NumPy. There are two stencils."""
    if stencil is two_rolls:
        return x + 0.1 * (np.roll(x, 1) - 2 * x + np.roll(x, -1))
    y = x.copy()
    y[1:-1, 1:-1] = 0.2 * (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1])
    return y


@pytest.mark.parametrize(("start", "rows"), [((2, 1), [2]), ((9, 9), [3]), ((-4, 0), [0])])
def test_one_window_without_its_axis_of_one_is_a_slice(start: Any, rows: Any) -> None:
    """A gather of one window at a constant index must become a slice, whose start is the clamped index."""
    x = np.arange(28.0).reshape(4, 7)
    op = Gather((0,), (0,), (), (), (0, 1), 0, (1, 3))
    program = tnf.compile(lambda x: apply_one(op, x, np.array(start)), x)
    joined = passes.join_pieces(program)
    assert "Gather" not in [step.op.name for step in joined.instructions]
    first = min(max(start[1], 0), 4)
    np.testing.assert_array_equal(joined.run(x), x[rows[0], first : first + 3])


def test_broadcasts_of_one_scalar_are_one() -> None:
    def fn(x: Any, s: Any, other: Any) -> Any:
        parts = [
            tnf.broadcast_to(s, (2,)),
            tnf.broadcast_to(s, (3,)),
            tnf.broadcast_to(other, (1,)),
            x,
        ]
        return tnf.concatenate(parts)

    program = tnf.compile(fn, ROW, 2.5, -1.0)
    after = joined(program)
    (op,) = [step.op for step in after.instructions if step.op.name == "Concatenate"]
    assert op.count == 3
    assert_same_bits(UNTOUCHED.run(after, ROW, 2.5, -1.0), UNTOUCHED.run(program, ROW, 2.5, -1.0))
