"""Tracing, programs, the native executor and jit, and their errors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.dispatch import apply_one
from tenferro.graph import Graph
from tenferro.ops.elementwise import Add, Multiply
from tenferro.ops.reduction import TopK
from tenferro.program.builder import ProgramBuilder
from tenferro.program.hoist import hoist_constants
from tenferro.program.instructions import copy_into, readers

F8 = "float64"


def test_pytrees_go_in_and_come_out() -> None:
    spec = tnf.TensorSpec((2,), F8)
    program = tnf.compile(lambda p, x: {"y": p["w"] * x, "z": (x, 1.0)}, {"w": spec}, spec)
    result = program.run({"w": np.array([1.0, 2.0])}, np.array([3.0, 4.0]))
    np.testing.assert_array_equal(result["y"], [3.0, 8.0])
    assert result["z"][1] == 1.0
    assert program.input_names == ("p['w']", "x")


def test_guards_are_checked_when_the_program_runs() -> None:
    program = tnf.compile(
        lambda x, y: x + y, tnf.TensorSpec(("n",), F8), tnf.TensorSpec(("m",), F8)
    )
    np.testing.assert_array_equal(program.run(np.ones(3), np.ones(3)), 2 * np.ones(3))
    with pytest.raises(tnf.errors.GuardError, match="n == m, got 3 and 4"):
        program.run(np.ones(3), np.ones(4))


@pytest.mark.parametrize(
    ("arrays", "error", "words"),
    [
        ((np.ones(3, "f4"),), tnf.errors.DTypeError, "astype"),
        ((np.ones((3, 1)),), tnf.errors.ShapeError, "expected f64"),
        ((np.ones(4),), tnf.errors.ShapeError, "axis 0 must have extent 3, got 4"),
        ((), tnf.errors.ArityError, "takes 1 arrays"),
        (("word",), tnf.errors.DTypeError, "x"),
    ],
)
def test_arguments_that_do_not_fit_are_named(arrays: tuple, error: type, words: str) -> None:
    program = tnf.compile(lambda x: x + x, tnf.TensorSpec((3,), F8))
    with pytest.raises(error, match=words):
        program.run(*arrays)


def test_an_error_while_tracing_names_the_users_line() -> None:
    with pytest.raises(tnf.errors.ShapeError, match=r"test_program.py:\d+"):
        tnf.compile(
            lambda x, y: apply_one(Add(), x, y), tnf.TensorSpec((3,), F8), tnf.TensorSpec((4,), F8)
        )


def test_values_are_not_known_while_tracing() -> None:
    with pytest.raises(tnf.errors.ConcretizationError, match="where"):
        tnf.compile(lambda x: x if x[0] > 0 else -x, tnf.TensorSpec((3,), F8))
    with pytest.raises(tnf.errors.ConcretizationError):
        tnf.compile(lambda x: np.asarray(x), tnf.TensorSpec((3,), F8))


def test_numpy_functions_on_traced_tensors_trace() -> None:
    program = tnf.compile(lambda x: np.sum(np.exp(x) + np.ones(3), 0), tnf.TensorSpec((3,), F8))
    np.testing.assert_allclose(program.run(np.zeros(3)), 6.0)


def test_results_share_no_memory_with_arguments_or_each_other() -> None:
    program = tnf.compile(lambda x: (x, x, x.T), tnf.TensorSpec((2, 2), F8))
    for order in "FCK":
        x = np.ones((2, 2))
        results = tnf.GraphExecutor(order=order).run(program, x)
        for i, a in enumerate(results):
            assert not np.shares_memory(a, x)
            assert not any(np.shares_memory(a, b) for b in results[i + 1 :])


def test_an_executors_results_are_column_major_by_default() -> None:
    program = tnf.compile(lambda x: x + x, tnf.TensorSpec((2, 3), F8))
    assert tnf.GraphExecutor().run(program, np.ones((2, 3))).flags.f_contiguous
    # Results have the layout of the arguments.
    assert program.run(np.ones((2, 3))).flags.c_contiguous
    assert tnf.jit(lambda x: x + x)(np.ones((2, 3))).flags.c_contiguous


def test_segmented_and_unsegmented_execution_agree() -> None:
    x = np.random.default_rng(0).normal(size=(4, 4))
    program = tnf.compile(lambda x: tnf.softmax(x @ x.T) @ tnf.exp(x), x)
    one = tnf.GraphExecutor(segmented=True).run(program, x)
    two = tnf.GraphExecutor(segmented=False).run(program, x)
    three = tnf.GraphExecutor(passes=()).run(program, x)
    assert one.tobytes() == two.tobytes()
    np.testing.assert_allclose(one, three, rtol=1e-14)


def test_equal_subexpressions_are_one() -> None:
    program = tnf.compile(lambda x: tnf.exp(x) + tnf.exp(x), tnf.TensorSpec((3,), F8))
    assert len(program.instructions) == 2


def test_equal_subexpressions_under_two_names_are_one() -> None:
    """Differentiation copies values.

    The copies must be merged with the originals, whichever of them comes first.
    """

    def f(x: Any) -> Any:
        return tnf.sum(tnf.exp(tnf.sin(x)))

    functions = [lambda x: f(x) * tnf.grad(f)(x), lambda x: tnf.grad(f)(x) * f(x)]
    functions += [lambda x: tnf.grad(f)(x) + tnf.grad(f)(x), lambda x: tnf.grad(tnf.grad(f))(x[0])]
    for fn in functions:
        program = tnf.compile(fn, np.arange(3.0))
        applied = [(i.op, i.inputs) for i in program.instructions]
        assert len(set(applied)) == len(applied)
        assert_last_uses(program)
        x = np.array([0.5, 1.5, 2.5])
        inner = np.exp(np.sin(x))
        first = np.cos(x) * inner
    np.testing.assert_allclose(functions[0](x), inner.sum() * first)
    np.testing.assert_allclose(functions[2](x), 2 * first)


def assert_last_uses(program: Any) -> None:
    """Require that the flags `last_use` are right.

    A slot is read for the last time if no later instruction reads it and it is no output.
    """
    for position, instruction in enumerate(program.instructions):
        later = {slot for i in program.instructions[position + 1 :] for slot in i.inputs}
        later |= set(program.output_slots)
        expected = tuple(slot not in later for slot in instruction.inputs)
        assert instruction.last_use == expected


def test_last_uses() -> None:
    def fn(x: Any, y: Any) -> Any:
        z = x * x
        top, index = tnf.sort(z), tnf.argsort(y)
        return top, z + z * y, tnf.grad(lambda x: tnf.sum(x * y) + tnf.sum(z))(x), index

    assert_last_uses(tnf.compile(fn, np.arange(3.0), np.arange(3.0)))
    assert_last_uses(tnf.compile(lambda x: (x, x * x), np.arange(3.0)))


def test_what_nothing_needs_is_dropped() -> None:
    def fn(x: tnf.TracedTensor) -> tnf.TracedTensor:
        tnf.exp(x)
        return x + x

    assert len(tnf.compile(fn, tnf.TensorSpec((3,), F8)).instructions) == 1


def test_jit_traces_once_per_shape_and_dtype() -> None:
    calls = []

    @tnf.jit
    def double(x: tnf.TracedTensor) -> tnf.TracedTensor:
        calls.append(x)
        return x + x

    for x in (np.ones(2), np.zeros(2), np.ones(3), np.ones(2, "f4")):
        np.testing.assert_array_equal(double(x), 2 * x)
    assert len(calls) == 3
    assert double.cache_stats().hits == 1


def under_a_small_recursion_limit(attempt: Callable[[], Any]) -> Any:
    limit = sys.getrecursionlimit()
    depth = 0
    frame: Any = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(depth + 60)
    try:
        return attempt()
    finally:
        sys.setrecursionlimit(limit)


def chain(length: int) -> Callable[[Any], Any]:
    def fn(x: Any) -> Any:
        for _ in range(length // 2):
            x = apply_one(Add(), apply_one(Multiply(), x, x), x)
        return x

    return fn


@pytest.mark.parametrize("length", [20_000, pytest.param(100_000, marks=pytest.mark.sweep)])
def test_many_ops_under_a_small_recursion_limit(length: int) -> None:
    def attempt() -> Any:
        program = tnf.compile(chain(length), tnf.TensorSpec((2,), F8))
        assert len(program.instructions) == length
        return program.run(np.full(2, 1e-9))

    assert np.isfinite(under_a_small_recursion_limit(attempt)).all()


def test_long_chains_are_differentiated_in_linear_size_and_depth() -> None:
    def gradient(length: int) -> tnf.GraphProgram:
        return tnf.compile(tnf.grad(lambda x: tnf.sum(chain(length)(x))), tnf.TensorSpec((2,), F8))

    short, long = gradient(1_000), under_a_small_recursion_limit(lambda: gradient(8_000))
    assert len(long.instructions) < 8.1 * len(short.instructions)
    # At x = 0, which is a fixed point of x + x^2, the derivative 1 + 2 x is 1. The gradient must therefore be 1.
    np.testing.assert_array_equal(long.run(np.zeros(2)), [1.0, 1.0])


def test_another_structure_is_told_by_where_it_parts() -> None:
    program = tnf.compile(lambda p: p["w"] + p["b"], {"w": np.ones(2), "b": np.ones(2)})
    with pytest.raises(tnf.errors.ArityError) as error:
        program.run({"w": np.ones(2), "c": np.ones(2)})
    assert "the arguments have another structure" in str(error.value)
    for word in ("expected", "got", "'b'", "'c'"):
        assert word in str(error.value).partition("structure")[2]


def test_a_reader_of_one_value_twice_is_one_reader() -> None:
    program = tnf.compile(lambda x: x * x + 1.0, np.ones(3))
    step = next(step for step in program.instructions if isinstance(step.op, Multiply))
    assert readers(program.instructions)[step.inputs[0]] == [step]


def test_copied_instructions_keep_their_lines() -> None:
    """A copy by `copy_into` must have the source line of the instruction.

    If the instruction has none, the copy must have the line `source`.
    """
    program = tnf.compile(lambda x: x * x, np.ones(3))
    (step,) = program.instructions
    line = step.source
    assert line is not None
    other = line._replace(line=line.line + 7)
    for source, expected in ((line, line), (None, other)):
        graph = Graph()
        values = {program.input_slots[0]: graph.add_input(program.input_specs[0])}
        copy_into(graph, [step._replace(source=source)], values, source=other)
        assert graph.instructions[0].source == expected


def test_runs_of_a_program_at_hand_are_hits() -> None:
    """Runs of a recently run program must count as cache hits, both by `run` and by `run_leaves`."""
    executor = tnf.GraphExecutor()
    program = tnf.compile(lambda x: x + 1.0, np.ones(3))
    for runs in range(1, 4):
        executor.run(program, np.ones(3))
        assert executor.cache_stats().hits == runs - 1
    for runs in range(3, 5):
        executor.run_leaves(program, [np.ones(3)])
        assert executor.cache_stats().hits == runs


def test_a_profile_as_a_dictionary_has_every_column() -> None:
    def long(x: Any) -> Any:
        for _ in range(50):
            x = tnf.sin(x) + 1.0
        return x

    profile = tnf.compile(long, np.ones(3)).profile(np.ones(3), runs=1)
    rows = profile.to_dict()["instructions"]
    assert len(rows) == len(profile.instructions) > 72
    names = {
        "op",
        "types",
        "source",
        "seconds",
        "made_bytes",
        "moved_bytes",
        "live_bytes",
        "depth",
        "executions",
    }
    assert all(names <= row.keys() for row in rows)
    assert len(profile.memory_timeline()) == 72
    assert f".. and {len(rows) - 20} faster ones" in str(profile)
    assert "faster" not in profile.table(len(rows))


def test_a_profile_tells_how_fast_bytes_move() -> None:
    """A profile must state the rate of the largest op in gigabytes per second.

    The rate is computed from the bytes and the seconds of the op.
    """
    profile = tnf.compile(lambda x: tnf.sin(x), np.ones(1 << 16)).profile(np.ones(1 << 16), runs=1)
    (row,) = profile.instructions
    speed = row.moved_bytes / row.seconds / 1e9
    assert row.moved_bytes == 2 * 8 * (1 << 16)
    (line,) = [line for line in str(profile).splitlines() if "Sin" in line]
    shown = float(line.split()[3])
    assert shown == pytest.approx(speed, rel=0.06)


def test_values_that_depend_on_no_input_are_evaluated_step_by_step() -> None:
    builder = ProgramBuilder()
    x, three = builder.input(tnf.TensorSpec((2,), F8)), builder.constant(np.array([1.0, 3.0]))
    (twice,) = builder.apply(Add(), three, three)
    np.testing.assert_array_equal(builder.evaluated(twice), [2.0, 6.0])
    (power,) = builder.apply(Multiply(), twice, three)
    highest, places = builder.apply(TopK(1), power)
    (total,) = builder.apply(Add(), highest, highest)
    np.testing.assert_array_equal(builder.evaluated(total), [36.0])
    np.testing.assert_array_equal(builder.evaluated(places), [1])
    np.testing.assert_array_equal(builder.evaluated(three), [1.0, 3.0])
    (changes,) = builder.apply(Add(), x, three)
    assert builder.evaluated(changes) is None


# ---- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in tnf.DType if not d.is_narrow], ids=str)
def test_a_python_number_is_taken_where_numpy_would_keep_the_dtype(dtype: tnf.DType) -> None:
    program = tnf.compile(lambda x: (x, x), tnf.TensorSpec((), dtype))
    known = np.dtype("float16" if dtype is tnf.DType.BF16 else dtype.dtype)
    for number in (True, 2, 0.5, 1.5j):
        if np.result_type(np.zeros(1, known), number) == known:
            y, _ = program.run(number)
            assert y.dtype == dtype.dtype
            assert y == np.asarray(number, dtype.dtype)
        else:
            with pytest.raises(
                tnf.errors.DTypeError, match=f"x: expected .* {type(number).__name__}"
            ):
                program.run(number)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_a_python_integer_fits_the_dtype(dtype: str) -> None:
    program = tnf.compile(lambda x: (x, x), tnf.TensorSpec((), dtype))
    limits = np.iinfo(dtype)
    for number in (int(limits.min), int(limits.max)):
        assert int(program.run(number)[0]) == number
    for number in (int(limits.min) - 1, int(limits.max) + 1):
        with pytest.raises(tnf.errors.DTypeError, match=f"x: {number} does not fit"):
            program.run(number)


N, M, K = (tnf.SymDim(name) for name in "nmk")
BOUND: dict[str, tuple[list[Any], list[Any], Any]] = {
    "alone": ([(N, M)], [(3, 0)], {"n": 3, "m": 0}),
    "twice": ([(N, N)], [(3, 3)], {"n": 3}),
    "multiple": ([(3 * N,)], [(12,)], {"n": 4}),
    "multiple and more": ([(3 * N + 2,)], [(14,)], {"n": 4}),
    "no whole multiple": ([(3 * N + 2,)], [(13,)], None),
    "from above": ([(10 - N,)], [(7,)], {"n": 3}),
    "twice from above": ([(10 - 2 * N,)], [(4,)], {"n": 3}),
    "from another": ([(N + M,), (M,)], [(7,), (3,)], {"n": 4, "m": 3}),
    "from two others": ([(N + 2 * M - K,), (M + 1,), (K + M,)], [(7,), (4,), (5,)], {"n": 3, "m": 3, "k": 2}),
    "from a product": ([(N * M,), (M,)], [(12,), (4,)], {"n": 3, "m": 4}),
    "from a product of none": ([(N * M,), (M,)], [(0,), (0,)], None),
    "of a square": ([(N * N,)], [(9,)], None),
    "of a square that is known": ([(N * N,), (N,)], [(9,), (3,)], {"n": 3}),
    "of a quotient": ([(N // 2,)], [(2,)], None),
    "of a quotient that is known": ([(N // 2,), (N,)], [(2,), (5,)], {"n": 5}),
    "of two at once": ([(N + M,)], [(7,)], None),
    "contradicted": ([(N, N + 1)], [(3, 5)], None),
    "a number": ([(N, 2)], [(3, 2)], {"n": 3}),
    "another number": ([(N, 2)], [(3, 3)], None),
    "another rank": ([(N, 2)], [(3,)], None),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUND)
def test_symbols_are_read_off_shapes(name: str) -> None:
    """Symbols must be solved one after the other.

    Each equation then has one unknown, for which there must be one integer solution.
    """
    wanted, shapes, expected = BOUND[name]
    specs = [tnf.TensorSpec(shape, F8) for shape in wanted]
    program = tnf.compile(lambda *xs: xs, *specs)
    if expected is None:
        with pytest.raises(tnf.errors.ShapeError):
            program.bind(shapes)
    else:
        bound = program.bind(shapes)
        assert {symbol.name: extent for symbol, extent in bound.items()} == expected


def test_what_is_bounded_by_a_symbol_is_bounded_by_its_number() -> None:
    def fn(x: Any, size: Any) -> Any:
        return tnf.sum(tnf.dynamic_truncate(x * x, size, axis=0))

    program = tnf.compile(fn, tnf.TensorSpec(("n", 3), F8), np.int64(2))
    static = program.specialize_to([np.ones((5, 3)), np.int64(2)])
    text = str(static)
    assert "f64[<=5,3]" in text
    assert "n" not in {str(extent) for spec in static.types for extent in spec.shape}
    assert static.run(np.full((5, 3), 2.0), np.int64(2)) == 24.0


@pytest.mark.parametrize(("above", "hoisted"), [(15, 2), (16, 1), (23, 1), (24, 0)])
def test_constants_of_more_bytes_than_that_become_inputs(above: int, hoisted: int) -> None:
    two, three = np.array([1.0, 2.0]), np.array([3.0, 5.0, 7.0])
    program = tnf.compile(lambda x, y: (x * two, y - three), np.ones(2), np.ones(3))
    rest, constants = hoist_constants(program, above)
    assert len(constants) == hoisted
    assert (rest is program) == (not hoisted)
    assert rest.input_names == ("x", "y", *constants)
    x, y = np.array([2.0, 3.0]), np.array([1.0, 1.0, 2.0])
    for given, expected in zip(
        rest.run(x, y, constants) if hoisted else rest.run(x, y), (x * two, y - three), strict=True
    ):
        np.testing.assert_array_equal(given, expected)
