"""Laws of passes.

A rewritten program must have the same types and values, and fewer ops.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenferro as tnf
from tenferro import passes
from tenferro.dispatch import apply_one
from tenferro.graph import Graph
from tenferro.ops import StdTensorOp
from tenferro.ops.analytic import Cos, Sin
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.control import Alternatives
from tenferro.ops.elementwise import (
    Add,
    And,
    Compare,
    Convert,
    Maximum,
    Minimum,
    Multiply,
    Negate,
    Subtract,
)
from tenferro.ops.reduction import ReduceAnd
from tenferro.ops.source import Constant, Iota
from tenferro.ops.structural import (
    BroadcastInDim,
    Concatenate,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from tenferro.program import GraphProgram, Subprogram
from tenferro.types import TensorSpec
from tests.samples.sample import COMMON

UNTOUCHED = tnf.GraphExecutor(passes=(), order="K")


def ops_of(program: GraphProgram) -> list[str]:
    return [instruction.op.name for instruction in program.instructions]


def same_bits(before: GraphProgram, after: GraphProgram, *arrays: Any) -> None:
    assert after.input_specs == before.input_specs
    assert after.output_specs == before.output_specs
    with np.errstate(all="ignore"):
        first, second = UNTOUCHED.run(before, *arrays), UNTOUCHED.run(after, *arrays)
    assert np.asarray(first).tobytes() == np.asarray(second).tobytes()


CORNERS = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5], "f8")


def splat(value: float, like: Any) -> Any:
    return tnf.full(like.shape, value, dtype=like.dtype, like=like)


def indices(x: Any) -> Any:
    return apply_one(Iota(x.shape, 0, tnf.DType.I64), like=x)


SIMPLER: dict[str, tuple[Callable[[Any], Any], Any, list[str]]] = {
    "transposes cancel": (
        lambda x: apply_one(Transpose((1, 2, 0)), apply_one(Transpose((2, 0, 1)), x)),
        np.arange(24.0).reshape(2, 3, 4),
        [],
    ),
    "transposes compose": (
        lambda x: apply_one(Transpose((2, 0, 1)), apply_one(Transpose((2, 0, 1)), x)),
        np.arange(24.0).reshape(2, 3, 4),
        ["Transpose"],
    ),
    "reshapes compose": (
        lambda x: apply_one(Reshape((3, 2)), apply_one(Reshape((6,)), x)),
        np.arange(6.0).reshape(2, 3),
        ["Reshape"],
    ),
    "reshapes cancel": (
        lambda x: apply_one(Reshape((2, 3)), apply_one(Reshape((6,)), x)),
        np.arange(6.0).reshape(2, 3),
        [],
    ),
    "reverses cancel": (
        lambda x: apply_one(Reverse((0,)), apply_one(Reverse((0,)), x)),
        CORNERS,
        [],
    ),
    "a broadcast to its own shape": (
        lambda x: apply_one(BroadcastInDim((6,), (0,)), x),
        CORNERS,
        [],
    ),
    "a whole slice": (lambda x: apply_one(Slice((0,), (6,), (1,)), x), CORNERS, []),
    "times one": (lambda x: apply_one(Multiply(), x, splat(1.0, x)), CORNERS, []),
    "plus minus zero": (lambda x: apply_one(Add(), x, splat(-0.0, x)), CORNERS, []),
    "minus zero": (lambda x: apply_one(Subtract(), x, splat(0.0, x)), CORNERS, []),
    "twice negated": (lambda x: apply_one(Negate(), apply_one(Negate(), x)), CORNERS, []),
    "through a wider dtype": (
        lambda x: apply_one(Convert(tnf.DType.F16), apply_one(Convert(tnf.DType.F64), x)),
        CORNERS.astype("f4"),
        ["Convert"],
    ),
    "arithmetic of splats": (lambda x: x * (splat(2.5, x) - splat(1.5, x)), CORNERS, []),
    "a product of splats": (lambda x: x * (splat(0.5, x) * splat(2.0, x)), CORNERS, []),
    "plus the complex zero": (
        lambda x: apply_one(Add(), x, splat(complex(-0.0, -0.0), x)),
        CORNERS + 0j,
        [],
    ),
    "a choice by a constant": (
        lambda x: tnf.where(splat(2.5, x) == splat(0.0, x), splat(7.0, x), x),
        CORNERS,
        [],
    ),
    "a predicate beside a constant one": (
        lambda x: tnf.where(
            tnf.logical_or(x > 1.0, tnf.logical_and(x < 3.0, splat(0.0, x) > splat(1.0, x))), x, -x
        ),
        CORNERS,
        ["Constant", "BroadcastInDim", "Compare", "Negate", "Select"],
    ),
    "less, and not equal": (
        lambda x: tnf.where(tnf.logical_and(x != splat(0.0, x), x < splat(0.0, x)), x, -x),
        CORNERS,
        ["Constant", "BroadcastInDim", "Compare", "Negate", "Select"],
    ),
    "greater, and not equal": (
        lambda x: tnf.where(tnf.logical_and(x > splat(0.0, x), x != splat(0.0, x)), x, -x),
        CORNERS,
        ["Constant", "BroadcastInDim", "Compare", "Negate", "Select"],
    ),
    "a remainder by a positive constant": (
        lambda x: x % 3,
        np.arange(-7, 7),
        [
            "Constant",
            "BroadcastInDim",
            "Remainder",
            "Constant",
            "BroadcastInDim",
            "Compare",
            "Add",
            "Select",
        ],
    ),
    "a quotient of splats": (lambda x: x * (splat(1.0, x) / splat(1.0, x)), CORNERS, []),
    "a converted splat": (
        lambda x: x * tnf.astype(splat(1.0, tnf.astype(x, "float32")), "float64"),
        CORNERS,
        [],
    ),
    "the maximum with -inf": (lambda x: apply_one(Maximum(), splat(-np.inf, x), x), CORNERS, []),
    "the minimum with inf": (lambda x: apply_one(Minimum(), x, splat(np.inf, x)), CORNERS, []),
    "a pad by nothing": (lambda x: apply_one(Pad((0,), (0,), (0,)), x, x[0]), CORNERS, []),
    "a choice between equal values": (lambda x: tnf.where(x > 0.0, x, x), CORNERS, []),
    "a choice between true and false": (
        lambda x: tnf.where(x, splat(True, x), splat(False, x)),
        CORNERS > 0,
        [],
    ),
    "negative indices": (lambda x: tnf.where(indices(x) < 0, x + 1.0, x), CORNERS, []),
    "there and back": (
        lambda x: apply_one(Convert(tnf.DType.F32), apply_one(Convert(tnf.DType.F64), x)),
        CORNERS.astype("f4"),
        [],
    ),
}

KEPT: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "plus zero turns -0.0 into 0.0": (lambda x: apply_one(Add(), x, splat(0.0, x)), CORNERS),
    "plus a complex number that is none": (
        lambda x: apply_one(Add(), x, splat(complex(-1.0, -0.0), x)),
        CORNERS + 0j,
    ),
    "minus -0.0 likewise": (lambda x: apply_one(Subtract(), x, splat(-0.0, x)), CORNERS),
    "complex times one spoils infinities": (
        lambda x: apply_one(Multiply(), x, splat(1.0, x)),
        CORNERS + 0j,
    ),
    "the maximum with zero": (lambda x: apply_one(Maximum(), x, splat(0.0, x)), CORNERS),
    "a quotient that is infinite": (lambda x: x * (splat(1.0, x) / splat(0.0, x)), CORNERS),
    "through a narrower dtype": (
        lambda x: apply_one(Convert(tnf.DType.F64), apply_one(Convert(tnf.DType.F16), x)),
        np.array([1.0, 1e-9, 1e9]),
    ),
    "float through a wider integer": (
        lambda x: apply_one(Convert(tnf.DType.F32), apply_one(Convert(tnf.DType.I64), x)),
        np.array([1.5, -2.5], "f4"),
    ),
    "integer through bool": (
        lambda x: apply_one(Convert(tnf.DType.I8), apply_one(Convert(tnf.DType.Bool), x)),
        np.array([0, 3, -2], "i1"),
    ),
    "float through integer": (
        lambda x: apply_one(Convert(tnf.DType.F64), apply_one(Convert(tnf.DType.I32), x)),
        np.array([1.5, -2.5]),
    ),
    "not less, or not equal, is not an order": (
        lambda x: tnf.where(tnf.logical_and(x != splat(0.0, x), x <= splat(0.0, x)), x, -x),
        CORNERS,
    ),
    "less than another number": (
        lambda x: tnf.where(tnf.logical_and(x != splat(0.0, x), x < splat(1.0, x)), x, -x),
        CORNERS,
    ),
    "times zero is NaN for infinities": (
        lambda x: apply_one(Multiply(), x, splat(0.0, x)),
        CORNERS,
    ),
}


FEW: dict[str, tuple[StdTensorOp, list[Any], Any]] = {
    "a comparison": (Compare("LT"), [[1, 5], [2, 2]], np.array([True, False])),
    "both": (And(), [[6, 5], [3, 1]], np.array([2, 1])),
    "all of a row": (ReduceAnd((1,)), [[[True, False], [True, True]]], np.array([False, True])),
    "common bits": (ReduceAnd((0,)), [[7, 13]], np.array(5)),
    "column-major": (Reshape((4,)), [[[1, 2], [3, 4]]], np.array([1, 3, 2, 4])),
    "an index vector": (Concatenate(0, 2), [[1], [2, 3]], np.array([1, 2, 3])),
}


@pytest.mark.parametrize("case", FEW.values(), ids=FEW)
def test_clean_up_computes_a_few_integers_once(case: Any) -> None:
    op, arrays, expected = case
    graph = Graph()
    inputs = [graph.add(Constant.of(np.array(array)), ())[0] for array in arrays]
    program = passes.clean_up(Subprogram.of(graph, [], graph.add(op, tuple(inputs))))
    (instruction,) = program.instructions
    assert isinstance(instruction.op, Constant)
    assert instruction.op.array.dtype == expected.dtype
    np.testing.assert_array_equal(instruction.op.array, expected)


@pytest.mark.parametrize("case", SIMPLER.values(), ids=SIMPLER)
def test_clean_up_drops_what_changes_no_bit(case: Any) -> None:
    fn, x, left = case
    program = tnf.compile(fn, x)
    clean = passes.clean_up(program)
    assert ops_of(clean) == left
    same_bits(program, clean, x)


@pytest.mark.parametrize("case", KEPT.values(), ids=KEPT)
def test_clean_up_keeps_what_changes_a_bit(case: Any) -> None:
    fn, x = case
    program = tnf.compile(fn, x)
    clean = passes.clean_up(program)
    assert ops_of(clean) == ops_of(program)
    same_bits(program, clean, x)


def dot(x: Any, y: Any, **payload: Any) -> Any:
    return apply_one(DotGeneral(**payload), x, y)


def random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).integers(-9, 9, shape).astype("f8")


def repeated(x: Any, shape: tuple[int, ...], *dims: int) -> Any:
    return apply_one(BroadcastInDim(shape, dims), x)


DOTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str], int]] = {
    "rows of lhs": (
        lambda x, y: dot(repeated(x, (7, 3), 1), y, lhs_contracting=(1,), rhs_contracting=(0,)),
        (random(3), random(3, 4)),
        ["BroadcastInDim", "DotGeneral", "BroadcastInDim"],
        4,
    ),
    "columns of both, in batches": (
        lambda x, y: dot(
            repeated(x, (5, 3, 2, 6), 2, 1),
            repeated(y, (4, 3, 2), 2, 1),
            lhs_contracting=(1,), rhs_contracting=(1,), lhs_batch=(2,), rhs_batch=(2,),
        ),
        (random(2, 3), random(2, 3)),
        ["BroadcastInDim", "BroadcastInDim", "DotGeneral", "BroadcastInDim"],
        2,
    ),
    "a chain": (
        lambda x, y: dot(
            dot(repeated(x, (7, 3), 1), y, lhs_contracting=(1,), rhs_contracting=(0,)),
            y, lhs_contracting=(1,), rhs_contracting=(1,),
        ),
        (random(3), random(3, 4)),
        ["BroadcastInDim", "DotGeneral", "BroadcastInDim", "DotGeneral", "BroadcastInDim"],
        3,
    ),
    "ones": (
        lambda x: dot(splat(1.0, random(4, 3)), x, lhs_contracting=(1,), rhs_contracting=(1,)),
        (random(2, 3, 5),),
        ["ReduceSum", "BroadcastInDim"],
        0,
    ),
    "ones in batches": (
        lambda x: dot(
            x, np.ones((6, 5, 3)),
            lhs_contracting=(1,), rhs_contracting=(2,), lhs_batch=(2,), rhs_batch=(1,),
        ),
        (random(2, 3, 5),),
        ["ReduceSum", "BroadcastInDim"],
        0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DOTS.values(), ids=DOTS)
def test_dots_of_what_repeats_itself_shrink(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fn, arrays, left, size = case
    program = tnf.compile(fn, *arrays)
    assert ops_of(passes.shrink_dots(program)) == ops_of(program)
    monkeypatch.setattr(sys.modules[passes.shrink_dots.__module__], "MIN_MULTIPLICATIONS", 1)
    result = passes.shrink_dots(program)
    assert [name for name in ops_of(result) if name != "Constant"] == left
    made = [i.outputs[0] for i in result.instructions if i.op.name == "DotGeneral"]
    assert not made or result.types[made[-1]].size == size
    same_bits(program, result, *arrays)


@pytest.mark.parametrize("value", [2.0, np.inf, 1 + 0j])
def test_dots_of_other_numbers_are_kept(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[passes.shrink_dots.__module__], "MIN_MULTIPLICATIONS", 1)
    x = np.array([[1.0, np.inf, 3.0]]).astype(np.asarray(value).dtype)
    program = tnf.compile(
        lambda x: dot(np.full((3, 1), value), x, lhs_contracting=(0,), rhs_contracting=(1,)), x
    )
    assert "DotGeneral" in ops_of(passes.shrink_dots(program))


def test_contracting_axes_are_sorted_on_both_sides_alike() -> None:
    x, y = random(2, 3, 4, 5), random(5, 4, 3)
    program = tnf.compile(
        lambda x, y: dot(x, y, lhs_contracting=(3, 1, 2), rhs_contracting=(0, 2, 1)), x, y
    )
    result = passes.sort_dot_dimensions(program)
    (op,) = [instruction.op for instruction in result.instructions]
    assert isinstance(op, DotGeneral)
    assert (op.lhs_contracting, op.rhs_contracting) == ((1, 2, 3), (2, 1, 0))
    same_bits(program, result, x, y)


def test_a_transpose_that_keeps_the_free_order_folds() -> None:
    x, y = random(3, 2), random(3, 4)
    program = tnf.compile(
        lambda x, y: dot(
            apply_one(Transpose((1, 0)), x), y, lhs_contracting=(1,), rhs_contracting=(0,)
        ),
        x,
        y,
    )
    result = passes.fold_transposes(program)
    assert ops_of(result) == ["DotGeneral"]
    same_bits(program, result, x, y)


def test_a_transpose_that_reorders_free_axes_stays() -> None:
    x, y = random(2, 3, 4), random(2, 5)
    program = tnf.compile(
        lambda x, y: dot(
            apply_one(Transpose((2, 1, 0)), x), y, lhs_contracting=(2,), rhs_contracting=(0,)
        ),
        x,
        y,
    )
    result = passes.fold_transposes(program)
    assert ops_of(result) == ["Transpose", "DotGeneral"]
    same_bits(program, result, x, y)


def batched_dot(x: Any, y: Any) -> Any:
    return dot(x, y, lhs_contracting=(2,), rhs_contracting=(1,), lhs_batch=(1,), rhs_batch=(0,))


def integers(*shape: int) -> Any:
    """Return random integers as floats. Sums of their products are exact in any order."""
    return np.random.default_rng(sum(shape)).integers(-9, 9, shape).astype("f8")


def test_a_transpose_of_a_dot_exchanges_its_operands() -> None:
    x, y = integers(2, 3, 4), integers(3, 4, 5, 6)
    program = tnf.compile(lambda x, y: apply_one(Transpose((0, 2, 3, 1)), batched_dot(x, y)), x, y)
    result = passes.fold_transposes(program)
    assert ops_of(result) == ["DotGeneral"]
    assert result.instructions[0].inputs == program.instructions[0].inputs[::-1]
    same_bits(program, result, x, y)


@pytest.mark.parametrize("perm", [(1, 0, 2, 3), (0, 1, 3, 2), (0, 3, 2, 1), (0, 3, 1, 2)])
def test_other_transposes_of_a_dot_stay(perm: tuple[int, ...]) -> None:
    x, y = integers(2, 3, 4), integers(3, 4, 5, 6)
    program = tnf.compile(lambda x, y: apply_one(Transpose(perm), batched_dot(x, y)), x, y)
    assert passes.fold_transposes(program) is program


def test_a_dot_with_two_readers_is_computed_once() -> None:
    x, y = integers(2, 3), integers(3, 5)
    for fn in (lambda x, y: (x @ y, (x @ y).T), lambda x, y: ((x @ y).T, tnf.sin(x @ y))):
        program = tnf.compile(fn, x, y)
        assert passes.fold_transposes(program) is program


@pytest.mark.parametrize("perm", list(itertools.permutations(range(4))), ids=str)
def test_every_permutation_and_every_axis_through_all_passes(perm: tuple[int, ...]) -> None:
    x, y = random(2, 3, 4, 5), random(2, 3, 4, 5)
    by_axis = np.transpose(x, perm).shape
    for batch, contracted in itertools.permutations(range(4), 2):
        match_batch, match_contracted = perm[batch], perm[contracted]

        def fn(x: Any, y: Any, b: int = batch, c: int = contracted) -> Any:
            return dot(
                apply_one(Transpose(perm), x),
                y,
                lhs_contracting=(c,),
                rhs_contracting=(perm[c],),
                lhs_batch=(b,),
                rhs_batch=(perm[b],),
            )

        program = tnf.compile(fn, x, y)
        assert by_axis[batch] == y.shape[match_batch]
        assert by_axis[contracted] == y.shape[match_contracted]
        result: GraphProgram = program
        for native_pass in passes.NATIVE_PASSES:
            result = native_pass(result)
            same_bits(program, result, x, y)


def test_a_decomposed_dot_is_a_batched_matrix_product() -> None:
    x, y = random(3, 2, 4), random(4, 2, 5)
    program = tnf.compile(
        lambda x, y: dot(
            x, y, lhs_contracting=(2,), rhs_contracting=(0,), lhs_batch=(1,), rhs_batch=(1,)
        ),
        x,
        y,
    )
    result = passes.decompose_dots(program)
    (op,) = [i.op for i in result.instructions if isinstance(i.op, DotGeneral)]
    assert (op.lhs_batch, op.rhs_batch) == ((0,), (0,))
    assert (op.lhs_contracting, op.rhs_contracting) == ((2,), (1,))
    same_bits(program, result, x, y)


@pytest.mark.parametrize("native_pass", passes.NATIVE_PASSES, ids=lambda p: p.__name__)
def test_passes_are_idempotent(native_pass: Callable[[GraphProgram], GraphProgram]) -> None:
    def fn(x: Any) -> Any:
        y = tnf.matrix_transpose(x) @ x
        return tnf.sum(tnf.exp(y.T * 1.0) @ y, axis=0) + 0.0

    once = native_pass(tnf.compile(fn, np.ones((3, 4))))
    assert native_pass(once).instructions == once.instructions


def test_the_card_of_every_rule_is_an_op() -> None:
    from tenferro.passes.clean_up import RULES

    assert all(issubclass(card, StdTensorOp) for card in RULES)


@pytest.mark.parametrize("extent", [3, 300])
@pytest.mark.parametrize("each", passes.NATIVE_PASSES)
def test_a_program_with_nothing_to_change_is_its_own_result(each: Any, extent: int) -> None:
    program = tnf.compile(lambda x: tnf.transpose(x) + tnf.sin(x) @ x + 0.0, np.eye(extent))
    assert each(program) is program


def test_every_pass_is_native_but_those_that_an_executor_chooses() -> None:
    folder = Path(passes.__file__).parent
    names = {file.stem for file in folder.glob("*.py")} & set(passes.__all__)
    assert len(names) >= 5
    assert {one.__name__ for one in passes.NATIVE_PASSES} == {"prune_outputs"} | names - {
        "choose_alternatives",
        "decompose_dots",
        "widen_narrow",
    }


@pytest.mark.parametrize("name", ["sequential", "parallel"])
def test_alternatives_inside_of_alternatives_are_chosen(name: str) -> None:
    def part(op: StdTensorOp, x: np.ndarray) -> Subprogram:
        graph = Graph()
        value = graph.add_input(TensorSpec(x.shape, "float64"))
        return Subprogram.of(graph, [value], graph.add(op, (value,)))

    x = np.array([0.5, -2.0])
    inner = Alternatives(part(Sin(), x), part(Cos(), x))
    outer = Alternatives(part(inner, x), part(inner, x))
    chosen = passes.choose_alternatives(part(outer, x).program, lambda op: getattr(op, name))
    assert [step.op for step in chosen.instructions] == [Sin() if name == "sequential" else Cos()]


def mantissa_and_range(dtype: tnf.DType) -> tuple[int, int, int]:
    info = ml_dtypes.finfo(dtype.dtype)
    return info.nmant, int(info.maxexp), -int(info.minexp)


def holds(wide: tnf.DType, narrow: tnf.DType) -> bool:
    """Return, by the limits of the formats, whether the first dtype represents every value of the second one."""
    if wide.kind != narrow.kind or wide.is_bool:
        return False
    if wide.is_integer:
        limits = [np.iinfo(dtype.dtype) for dtype in (wide, narrow)]
        return limits[0].min <= limits[1].min and limits[0].max >= limits[1].max
    pairs = zip(mantissa_and_range(wide), mantissa_and_range(narrow), strict=True)
    return all(ours >= theirs for ours, theirs in pairs)


@pytest.mark.parametrize("origin", COMMON, ids=str)
def test_conversions_through_what_holds_every_value_are_direct(origin: tnf.DType) -> None:
    for between in COMMON:
        for to in COMMON:
            graph = Graph()
            x = graph.add_input(tnf.TensorSpec((2,), origin))
            (y,) = graph.add(Convert(between), (x,))
            (z,) = graph.add(Convert(to), (y,))
            program = passes.clean_up(Subprogram.of(graph, [x], [z]).program)
            path = [to] if holds(between, origin) else [between, to]
            steps = [
                now for before, now in itertools.pairwise([origin, *path]) if before is not now
            ]
            assert [i.op.to for i in program.instructions if isinstance(i.op, Convert)] == steps


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize(("parts", "is_computed"), [((64,), True), ((65,), False), ((32, 32), True), ((32, 33), False)])  # fmt: skip
def test_constants_of_few_elements_are_computed(
    parts: tuple[int, ...], is_computed: bool, repeats: bool
) -> None:
    """A concatenation or reshape of constants must be computed only if it is small.

    The result and each operand must have at most 64 elements.
    """
    graph = Graph()
    inputs: list[int] = []
    for size in parts:
        array = np.asarray(7) if repeats else np.arange(size)
        (x,) = graph.add(Constant.of(array), ())
        inputs.append(graph.add(BroadcastInDim((size,), ()), (x,))[0] if repeats else x)
    op = Concatenate(0, 2) if len(parts) == 2 else Reshape((1, *parts))
    program = passes.clean_up(Subprogram.of(graph, [], graph.add(op, tuple(inputs))))
    assert (program.instructions[-1].op.name == "Constant") == is_computed
    (y,) = UNTOUCHED.run(program)
    elements = [np.full(size, 7) if repeats else np.arange(size) for size in parts]
    np.testing.assert_array_equal(y.ravel(), np.concatenate(elements))


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 8192, 10_000])
def test_a_constant_of_ones_but_for_one_element_is_no_factor_of_one(size: int) -> None:
    x = np.zeros(size)
    for place in {0, size // 2, min(4095, size - 1), min(4096, size - 1), size - 1, None}:
        factor = np.ones(size)
        if place is not None:
            factor[place] = np.nextafter(1.0, 2.0)
        clean = passes.clean_up(tnf.compile(lambda x, w=factor: x * w, x))
        assert ops_of(clean) == ([] if place is None else ["Constant", "Multiply"])


@pytest.mark.parametrize("is_smaller", [True, False])
def test_dots_of_many_products_shrink(is_smaller: bool) -> None:
    least = sys.modules[passes.shrink_dots.__module__].MIN_MULTIPLICATIONS
    rows = 128
    columns = -(-least // (16 * 8 * rows)) - (not is_smaller)
    x, y = np.ones((16, 8)), np.ones((8, 16, columns))
    program = tnf.compile(
        lambda x, y: dot(
            repeated(x, (rows, 16, 8), 1, 2), y, lhs_contracting=(2, 1), rhs_contracting=(0, 1)
        ),
        x,
        y,
    )
    assert (passes.shrink_dots(program) is not program) == is_smaller


def turned(w: Any, x: Any) -> Any:
    """Run a scan with a loop-invariant product, and then a second scan over its stacked results."""

    def body(c: Any, _: Any) -> Any:
        c = tnf.tanh((w @ w) @ c)
        return c, c

    _, stack = tnf.scan(body, x, None, length=100)
    return tnf.scan(lambda n, y: (n + tnf.sum(y * y), None), 0.0, stack)[0]


def chosen(w: Any, x: Any) -> Any:
    halved = tnf.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1] * 0.5), (0, x))[1]
    return tnf.cond(tnf.sum(x) > 1.0, tnf.sin, tnf.cos, halved @ w)


def added(w: Any, x: Any) -> Any:
    """Add matrix products in a scan. A pass replaces them by one product after the scan."""
    return tnf.scan(lambda c, y: (c + tnf.einsum("i,j->ij", y, y), tnf.sin(y)), w, x)


@pytest.mark.parametrize("fn", [turned, tnf.grad(turned), chosen, added])
def test_what_is_of_unknown_origin_stays_so_in_every_body(fn: Any, tmp_path: Path) -> None:
    """A body may be marked as one from an unknown source.

    Passes that rewrite loops and conditionals must keep this mark.
    """

    def parts_of(program: GraphProgram) -> list[Subprogram]:
        parts = [part for step in program.instructions for part in step.op.parts]
        return [each for part in parts for each in (part, *parts_of(part.program))]

    w, x = np.eye(70), np.ones((70, 70))
    tnf.save(tnf.compile(fn, w, x), tmp_path / "program.tnf")
    program = tnf.load(tmp_path / "program.tnf")
    for each in passes.NATIVE_PASSES:
        program = each(program)
        assert not program.trusted
        assert parts_of(program)
        assert not any(part.trusted for part in parts_of(program)), each.__name__
