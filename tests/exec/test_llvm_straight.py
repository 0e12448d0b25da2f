"""Straight lines of few elements: compiled after some runs, with the bits, orders and errors of the steps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.door import apply_one
from tenferro.errors import BackendFailureError
from tenferro.exec.interpreter import interpret
from tenferro.exec.kernels import KERNELS
from tenferro.exec.kernels.indexing import SMALLEST_SUMS
from tenferro.exec.llvm import array_function, link, numpy_sums
from tenferro.exec.llvm.straight import VIEWS, StraightFunction, loop_of_step
from tenferro.exec.plan import lines
from tenferro.exec.plan.layouts import layouts_of
from tenferro.exec.plan.line_needs import LARGEST, MOVES
from tenferro.exec.plan.lines import lines_of, period_of
from tenferro.exec.plan.straight import Straightener
from tenferro.exec.schedule import ExecProgram, Straight
from tenferro.extension import HostReferenceRuntime, apply
from tenferro.graph import GraphBuilder
from tenferro.ops.elementwise import Complex
from tenferro.ops.structural import Reshape
from tenferro.program import GraphProgram
from tenferro.types import flatten
from tests.samples import SAMPLES
from tests.samples.each import each_card
from tests.test_straight_line import WornOut
from xla_peer.fuzz.program import random_case

pytestmark = pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")
RNG = np.random.default_rng(3)
X = np.linspace(0.1, 1.0, 12).reshape(3, 4)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are compiled at the third run, however short they are."""
    monkeypatch.setattr(lines, "CALL", 20.0)
    for price in ("PRICE", "PRICE_OF_PASSES"):
        monkeypatch.setattr(lines, price, (0.0, 0.0))


def later(executor: tnf.GraphExecutor, program: GraphProgram, *arrays: Any) -> ExecProgram:
    """The schedule after more runs."""
    schedule = executor.compile(program, *arrays)
    assert schedule.later is not None
    return schedule.later.straightened(schedule)


def straight(schedule: ExecProgram) -> list[Straight]:
    """Its lines."""
    return [step.op for step in schedule.instructions if isinstance(step.op, Straight)]


def names(line: Straight) -> list[str]:
    """Of the ops of a line."""
    return [step.op.name for step in line.body.instructions]


def facts(results: Any) -> list[tuple[Any, ...]]:
    """Bits, types and orders; of NaN without their signs."""
    return [
        (y.dtype, y.shape, y.flags.c_contiguous, y.flags.f_contiguous, unsigned(y).tobytes())
        for y in map(np.asarray, flatten(results)[0])
    ]


def unsigned(y: Any) -> Any:
    """NaN as one of them."""
    parts: Any = np.array(y, order="C", ndmin=1)
    parts = parts.view(parts.real.dtype) if parts.dtype.kind == "c" else parts
    is_nan = parts != parts
    if is_nan.any():
        parts[is_nan] = np.nan
    return parts


def require_same(program: GraphProgram, *arrays: Any, orders: Any = ("K", "F")) -> int:
    """That four runs give what the first gives, which is by steps; how many lines the last ones have."""
    count = 0
    for order in orders:
        executor = tnf.GraphExecutor(order)
        wanted = facts(executor.run(program, *arrays))
        for run in range(3):
            assert facts(executor.run(program, *arrays)) == wanted, f"order {order}, run {run + 2}"
        count += len(straight(later(executor, program, *arrays)))
    return count


# ---- bits ------------------------------------------------------------------------------------------


@each_card
@pytest.mark.parametrize(
    ("fast", "orders"), [(0.0, "KFKF"), (1e9, "FKFK")], ids=["with passes", "without passes"]
)
@pytest.mark.usefixtures("soon")
def test_samples(card: Any, fast: float, orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ops that lines hold, each in a line with itself, on arrays that lie in memory in several ways: in either order,
    once with LLVM's passes and once without. Passes take long, most of all for sorts, and are run for some samples.
    """
    if not (KERNELS[card].elementwise or issubclass(card, (*VIEWS, *MOVES))):
        return
    monkeypatch.setattr(lines, "FAST", fast)
    builder, inputs, outputs = GraphBuilder(), list[Any](), list[Any]()
    step = 1 if fast else 9 if issubclass(card, MOVES) else 3
    for sample in SAMPLES[card][::step]:
        for _ in range(2):
            inputs += sample.inputs
            operands = [builder.input(x.shape, x.dtype) for x in sample.inputs]
            outputs += builder.apply(sample.op, *operands)
    program = GraphProgram.from_graph(builder.graph, outputs)
    layouts = np.ascontiguousarray, np.asfortranarray, apart, unaligned
    for turn, order in zip(layouts, orders, strict=True):
        arrays = [turn(x).reshape(x.shape, order="A") for x in inputs]
        require_same(program, *arrays, orders=order)


def apart(x: Any) -> Any:
    """The same with gaps in memory."""
    return np.repeat(x[..., None], 2, axis=-1)[..., 0]


def unaligned(x: Any) -> Any:
    """The same a byte away from where elements of its type lie."""
    memory = np.empty(x.nbytes + 1, np.uint8)[1:]
    y = np.ndarray(x.shape, x.dtype, memory)
    y[...] = x
    return y


@pytest.mark.usefixtures("soon")
def test_results_have_the_order_of_the_steps() -> None:
    """Column-major, as ufuncs have it, but for what is filled part by part."""
    x = np.asfortranarray(X)

    def fn(x: Any) -> Any:
        return -apply_one(Complex(), tnf.sin(x), x)

    schedule = later(tnf.GraphExecutor("K"), tnf.compile(fn, x))
    assert [names(line) for line in straight(schedule)] == [["Sin", "Complex", "Negate"]]
    assert require_same(tnf.compile(fn, x), x)
    assert require_same(tnf.compile(lambda x: tnf.sin(x) * 2.0, x), x)


@pytest.mark.usefixtures("soon")
def test_lines_that_differ_in_a_number() -> None:
    def fn(x: Any) -> Any:
        first = tnf.prod((x + tnf.prod(x)) * 2.0)
        return tnf.prod((x + first) * 3.0)

    program = tnf.compile(fn, X)
    schedule = later(tnf.GraphExecutor("K"), program)
    first, second = straight(schedule)
    assert names(first) == names(second)
    for line in (first, second):
        assert schedule.numbers.isdisjoint((*line.body.input_slots, *line.body.output_slots))
    assert require_same(program, X)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.usefixtures("soon")
def test_nan_keep_their_signs(dtype: str) -> None:
    x = np.array([-np.nan, np.nan, -1.0], tnf.DType.of(dtype).dtype)
    x = np.copysign(x, np.array([-1, 1, -1], x.dtype))
    program, executor = tnf.compile(lambda x: -(x * 2.0), x), tnf.GraphExecutor("K")
    runs = [executor.run(program, x) for _ in range(4)]
    assert len({y.tobytes() for y in runs}) == 1
    assert [bool(np.signbit(y)) for y in runs[0]] == [False, True, False]


@pytest.mark.usefixtures("soon")
def test_random_programs() -> None:
    count = sum([
        require_same(case.program, *case.leaves)
        for case in [random_case(11, number, most_ops=20) for number in range(60)]
    ])  # fmt: skip
    assert count > 60


UNARY = [np.sin, np.cos, np.tan, np.exp, np.log, np.tanh, np.arctan, np.sqrt, np.expm1, np.log1p, np.cbrt]  # fmt: skip


@pytest.mark.parametrize("ufunc", UNARY, ids=lambda ufunc: ufunc.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.usefixtures("soon")
def test_functions_are_numpys_loops(ufunc: np.ufunc, dtype: str) -> None:
    """At any number of elements, of vectors and what is left of them."""
    function = getattr(tnf, {"arctan": "atan"}.get(ufunc.__name__, ufunc.__name__))
    for shape in ((), (1,), (1, 1), (3,), (17,), (64,), (5, 7), (100,)):
        x = (np.abs(RNG.standard_normal(shape)) * 3).astype(dtype)
        program = tnf.compile(lambda x: function(x * 2) + 1, x)
        executor = tnf.GraphExecutor("K")
        assert [names(line) for line in straight(later(executor, program, x))] == [
            ["Multiply", function.__name__.capitalize(), "Add"]
        ]
        (*_, result) = [executor.run(program, x) for _ in range(3)]
        assert result.tobytes() == (ufunc(x * x.dtype.type(2)) + x.dtype.type(1)).tobytes()


# ---- what is a line --------------------------------------------------------------------------------


@pytest.mark.usefixtures("soon")
def test_views_that_repeat_a_value_are_done_again_in_each_line() -> None:
    b = np.arange(4.0)

    def fn(x: Any, b: Any) -> Any:
        row = tnf.broadcast_to(b, (3, 4))
        y = tnf.tanh(x + row) * 2.0
        return tnf.prod(y), tnf.sin(y * row) - 1.0

    program = tnf.compile(fn, X, b)
    schedule = later(tnf.GraphExecutor("K"), program)
    first, second = straight(schedule)
    assert names(first).count("BroadcastInDim") == names(second).count("BroadcastInDim") == 1
    assert "BroadcastInDim" not in [step.op.name for step in schedule.instructions]
    assert require_same(program, X, b)
    # Along rows the elements of column-major arrays lie elsewhere.
    assert require_same(program, np.asfortranarray(X), b)
    assert "BroadcastInDim" in [
        step.op.name
        for step in later(
            tnf.GraphExecutor("K"),
            tnf.compile(lambda x, b: (fn(x, b), tnf.broadcast_to(b, (3, 4))), X, b),
        ).instructions
    ]


@pytest.mark.usefixtures("soon")
def test_what_reads_a_value_afterwards_finds_it() -> None:
    def fn(x: Any) -> Any:
        y = tnf.sin(x)
        tall = tnf.broadcast_to(y, (2, 3, 4))
        row = tnf.broadcast_to(tnf.reshape(tnf.sum(x), (1, 1)), (3, 4))
        z = y + 1.0
        return tall, z * z, row * y, tnf.sum(row), tnf.cumsum(z, axis=0)

    def in_between(x: Any) -> Any:
        y = tnf.sin(x)
        return tnf.broadcast_to(y, (2, 3, 4)), tnf.cos(y) + 1.0, tnf.sum(x, axis=0)

    for each in (fn, in_between):
        for x in (X, np.asfortranarray(X), apart(X)):
            assert require_same(tnf.compile(each, X), x)


def around(view: Any) -> Any:
    """A view of a value, between lines."""

    def fn(x: Any) -> Any:
        y = tnf.sin(x) * 2.0
        seen = view(y)
        return seen, tnf.cos(y) + 1.0, tnf.exp(seen) * 2.0 - 1.0

    return fn


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (
            lambda y: apply_one(Reshape((4, 3)), y),
            ["Sin Multiply Cos Add Reshape Exp Multiply Subtract"],
        ),
        (lambda y: y.T, ["Sin Multiply Cos Add Transpose Exp Multiply Subtract"]),
        (lambda y: tnf.broadcast_to(y, (LARGEST, 3, 4)), ["Sin Multiply", "Cos Add"]),
    ],
    ids=["of another shape", "turned", "large"],
)
@pytest.mark.usefixtures("soon")
def test_views_in_the_middle_of_a_line(view: Any, expected: list[str]) -> None:
    program = tnf.compile(around(view), X)
    schedule = later(tnf.GraphExecutor("K"), program)
    assert [" ".join(names(line)) for line in straight(schedule)] == expected
    assert require_same(program, X)


@pytest.mark.usefixtures("soon")
def test_choices_are_part_of_a_line() -> None:
    program = tnf.compile(lambda x: tnf.where(x > 0.5, tnf.sin(x), x + 1.0) * 2.0, X)
    (line,) = straight(later(tnf.GraphExecutor("K"), program))
    assert sorted(names(line)) == ["Add", "Compare", "Multiply", "Select", "Sin"]
    assert require_same(program, X)


@pytest.mark.usefixtures("soon")
def test_a_function_of_what_repeats_itself_is_a_step_of_its_own() -> None:
    def fn(x: Any) -> Any:
        return tnf.exp(tnf.broadcast_to(x, (2, 12))) * 2.0 + 1.0

    schedule = later(tnf.GraphExecutor("K"), tnf.compile(fn, np.ones(12)))
    assert "Exp" in [step.op.name for step in schedule.instructions]
    assert [names(line) for line in straight(schedule)] == [["Multiply", "Add"]]


@pytest.mark.parametrize("shape", [(0,), (3, 0), (LARGEST + 1,)])
@pytest.mark.usefixtures("soon")
def test_no_elements_and_many_are_steps(shape: tuple[int, ...]) -> None:
    x = np.ones(shape)
    program = tnf.compile(lambda x: tnf.sin(x) * 2.0 + x, x)
    assert not lines_of(tnf.GraphExecutor("K", compiled=False).compile(program))
    np.testing.assert_array_equal(tnf.GraphExecutor("K").run(program, x), np.sin(x) * 2.0 + x)


def test_lines_of_what_repeats_itself_share_a_text() -> None:
    def fn(x: Any) -> Any:
        y = x
        for _ in range(150):
            y = tnf.tanh(y * x) + x - y
        return y

    assert period_of("abcabcabcabcab") == 3
    assert period_of("x" + 20 * "ab") == 2
    assert not period_of("abcdefgh")
    program = tnf.compile(fn, np.ones(8))
    schedule = later(tnf.GraphExecutor("K"), program)
    texts = [
        step.function.text
        for step in schedule.instructions
        if isinstance(step.function, StraightFunction)
    ]
    assert len(set(texts)) < len(texts)
    assert len(schedule.instructions) == len(texts)


def test_a_short_program_is_not_worth_it() -> None:
    schedule = tnf.GraphExecutor("K").compile(tnf.compile(lambda x: x + 1.0, np.ones(3)))
    assert schedule.later is not None
    assert schedule.later.after(schedule) == 0
    assert "compiled" not in str(schedule)


# ---- what is not elementwise -----------------------------------------------------------------------


@pytest.mark.usefixtures("soon")
def test_what_moves_and_sums_elements_is_part_of_a_line() -> None:
    i = np.array([2, 0, 2, 1])

    def fn(x: Any, i: Any) -> Any:
        rows = x[i] * 2.0
        table = tnf.at(tnf.zeros((3, 4)))[i].add(rows[:, ::-1])
        wide = tnf.concatenate([table, tnf.pad(x[:, 1:], ((0, 0), (0, 1)))], axis=1)
        return tnf.sum(tnf.exp(-wide), axis=0), tnf.sort(wide, axis=1).max(axis=0), tnf.tril(x)

    program = tnf.compile(fn, X, i)
    schedule = later(tnf.GraphExecutor("K"), program)
    (line, *others) = straight(schedule)
    assert {"Gather", "Scatter", "Concatenate", "Pad", "ReduceSum", "Sort"} <= {*names(line)} | {
        name for each in others for name in names(each)
    }
    assert require_same(program, X, i)
    assert require_same(program, np.asfortranarray(X), i)
    assert require_same(program, apart(X), i[::-1])


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "complex64", "complex128", "int32", "uint8"]
)
@pytest.mark.usefixtures("soon")
def test_sums_are_numpys(dtype: str) -> None:
    """By rows, by columns and by both, of few terms and of many, of -0.0 alone, and of infinities."""
    for shape, axes in (
        ((1,), (0,)), ((7,), (0,)), ((128,), (0,)), ((129,), (0,)), ((1000,), (0,)), ((6, 128), (1,)),
        ((6, 129), (1,)), ((129, 6), (0,)), ((9, 1), (0,)), ((1, 3, 1), (0,)), ((4, 1, 33), (0, 2)),
        ((3, 40, 5), (0, 2)), ((6, 4, 5, 3), (1, 2)), ((5, 4, 3), (0, 1, 2)), ((4, 3), ()),
    ):  # fmt: skip
        x = RNG.standard_normal((2, *shape)) * 50
        x = (x[0] + 1j * x[1] if dtype.startswith("c") else np.abs(x[0])).astype(dtype)
        program = tnf.compile(lambda x: -tnf.sum(x * 2, axis=axes), x)
        require_same(program, x)
        require_same(program, -np.zeros_like(x))
        if x.dtype.kind == "f":
            x[(-1,) * x.ndim] = np.inf
            require_same(program, x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int32"])
@pytest.mark.usefixtures("soon")
def test_sums_of_one_element_each_are_part_of_a_line_however_they_lie(dtype: str) -> None:
    x = (RNG.standard_normal((3, 4, 1)) * 9).astype(dtype)
    x[0, 0] = -0.0

    def fn(x: Any) -> Any:
        column = (x - x + x)[:, 1:2, :]
        return (
            tnf.sum(column, axis=1),
            tnf.sum(column, axis=(1, 2)) - x[0, 0],
            tnf.sum(x[:, :1], axis=1),
        )

    program = tnf.compile(fn, x)
    (line,) = straight(later(tnf.GraphExecutor("K"), program, x))
    assert names(line).count("ReduceSum") == 3
    for turn in (np.ascontiguousarray, np.asfortranarray, apart):
        assert require_same(program, turn(x))
    (y, _, z) = tnf.GraphExecutor("K").run(program, x)
    np.testing.assert_array_equal(y, x[:, 1])
    assert not np.signbit(z.real).any() or (x[1:] < 0).any()
    assert not np.signbit(z.real[0, 0])


def test_sums_of_another_numpy_are_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def lines_with_sums() -> int:
        program = tnf.compile(lambda x: tnf.sum(x * 2.0 - 1.0, axis=1) * 3.0 + 1.0, X)
        schedule = tnf.GraphExecutor("K", compiled=False).compile(program)
        return sum(["ReduceSum" in [step.op.name for step in line.body] for line in lines_of(schedule)])  # fmt: skip

    assert lines_with_sums() == 1
    monkeypatch.setattr(numpy_sums, "start_of", lambda dtype: 1)
    assert not numpy_sums.is_known.__wrapped__()
    monkeypatch.setattr(numpy_sums, "is_known", lambda: False)
    assert lines_with_sums() == 0


@pytest.mark.usefixtures("soon")
def test_a_function_of_one_number_that_lies_backwards_is_a_step() -> None:
    """NumPy's loop along such a vector may be another one, with other bits."""
    x = np.float32([0.9945045])

    def fn(x: Any) -> Any:
        return tnf.cosh(tnf.lax.cummin(tnf.sin(x) * 2.0, axis=0, reverse=True)) + 1.0

    program = tnf.compile(fn, x)
    lines_with = [names(line) for line in straight(later(tnf.GraphExecutor("K"), program))]
    assert not any(["Cosh" in each for each in lines_with])
    for number in np.linspace(0.1, 3.0, 40, dtype="f4"):
        require_same(program, number[None])


@pytest.mark.usefixtures("soon")
def test_what_may_lie_by_columns_is_not_moved_in_a_line() -> None:
    """LAPACK's results on larger matrices do; so do those of functions of them, which have lines of their own."""
    a = np.cov(RNG.standard_normal((70, 90))) + np.eye(70)

    def fn(a: Any, x: Any, i: Any) -> Any:
        factor = tnf.linalg.cholesky(a * 2.0 + a)
        decay = tnf.exp(factor * 2.0 - 1.0)
        rows = x[i] * 2.0 + 1.0
        return decay * 3.0, rows, tnf.sum(decay, axis=0), decay[::-1] + 1.0

    i = np.array([1, 0])
    program = tnf.compile(fn, a, X, i)
    ops_of_lines = [names(line) for line in straight(later(tnf.GraphExecutor("K"), program))]
    assert not any(["ReduceSum" in each for each in ops_of_lines])
    assert any(["Gather" in each for each in ops_of_lines])
    assert not any([{"Gather", "Exp"} <= {*each} for each in ops_of_lines])
    assert require_same(program, a, X, i)


@pytest.mark.usefixtures("soon")
def test_sums_of_views_are_those_of_memory() -> None:
    """NumPy adds in the order of memory."""
    x = RNG.standard_normal((37, 41)) * 1e3
    for view in (lambda x: x.T, lambda x: x[:, ::-1], lambda x: x[::2, 1:], lambda x: x[:, None]):
        for axis in (0, 1, (0, 1)):
            program = tnf.compile(lambda x, view=view, axis=axis: tnf.sum(view(x * 2.0 + 1.0), axis=axis) * 3.0, x)  # fmt: skip
            assert require_same(program, x)


@pytest.mark.parametrize("size", [SMALLEST_SUMS - 1, SMALLEST_SUMS])
@pytest.mark.usefixtures("soon")
def test_many_additions_are_a_step(size: int) -> None:
    """Because NumPy's kernel adds them up before it adds them."""
    x, i = RNG.standard_normal(size), RNG.integers(0, 7, size)
    program = tnf.compile(lambda x, i: tnf.at(tnf.ones(7))[i].add(x * 2.0 + 1.0) * 3.0 - 1.0, x, i)
    names_of_lines = [names(line) for line in straight(later(tnf.GraphExecutor("K"), program))]
    is_part = any(["Scatter" in each for each in names_of_lines])
    assert is_part == (size < SMALLEST_SUMS)
    assert require_same(program, x, i)


def test_layouts_are_those_of_kernels() -> None:
    x, i = np.zeros((3, 4)), np.array([1, 0])

    def fn(x: Any, i: Any) -> Any:
        return (
            x + 1.0,
            x.T,
            x.T * 2.0,
            x[:, 1:],
            x[:, 1:] * 2.0,
            x[i],
            tnf.lax.cummax(x, 1, reverse=True),
        )

    schedule = tnf.GraphExecutor("K", compiled=False).compile(tnf.compile(fn, x, i))
    layouts = layouts_of(schedule, lambda step: True)
    results = interpret(schedule, [x, i])
    for slot, y in zip(schedule.output_slots, results, strict=True):
        assert (slot in layouts.rows) == y.flags.c_contiguous, schedule.types[slot]
        is_turned = y.flags.f_contiguous and not y.flags.c_contiguous
        assert (layouts.orders.get(slot) == (1, 0)) == is_turned
    untried = layouts_of(schedule, lambda step: False)
    assert untried.rows >= {*schedule.output_slots}
    assert not untried.orders


@pytest.mark.usefixtures("soon")
def test_lines_are_for_arrays_that_lie_as_those_of_the_runs_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Results are column-major, unless something else is asked for, and are arguments of the next run."""

    def step(w: Any, b: Any, x: Any) -> Any:
        def loss(w: Any, b: Any) -> Any:
            return tnf.sum((tnf.tanh(x @ w) + b[:, ::-1] - x[:, :3]) ** 2)

        w_bar, b_bar = tnf.grad(loss, argnums=(0, 1))(w, b)
        return w - 0.01 * w_bar, b - 0.01 * b_bar

    x = RNG.standard_normal((6, 4))
    w, b = RNG.standard_normal((4, 3)), RNG.standard_normal((6, 3))
    program = tnf.compile(step, w, b, x)
    plain, executor = tnf.GraphExecutor(compiled=False), tnf.GraphExecutor()
    calls = list[bool]()
    in_another_order = StraightFunction._in_another_order

    def counted(self: StraightFunction, *arguments: Any) -> Any:
        calls.append(True)
        return in_another_order(self, *arguments)

    monkeypatch.setattr(StraightFunction, "_in_another_order", counted)
    others = w, b
    for _ in range(8):
        w, b = executor.run(program, w, b, x)
        others = plain.run(program, *others, x)
        assert w.flags.f_contiguous
        assert facts([w, b]) == facts(others)
    assert not calls
    assert facts(executor.run(program, *map(np.ascontiguousarray, (w, b)), x)) == facts(
        plain.run(program, *map(np.ascontiguousarray, others), x)
    )
    assert calls
    gaps = apart(w)
    assert facts(executor.run(program, gaps, b, x)) == facts(plain.run(program, gaps, b, x))


# ---- when ------------------------------------------------------------------------------------------


def hundred(x: Any) -> Any:
    """A hundred ops."""
    for _ in range(50):
        x = tnf.sin(x) * 1.01
    return x


def test_it_is_compiled_after_as_many_runs_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "PRICE", (100.0, 1.0))
    x = np.float64(0.5)
    program, executor = tnf.compile(hundred, x), tnf.GraphExecutor()
    schedule = executor.compile(program)
    assert schedule.later is not None
    runs = schedule.later.after(schedule)
    assert runs > 2
    assert f"# the first of 100 steps that are compiled after {runs} runs" in str(schedule)
    assert "define i64 @f(ptr %arguments)" in executor.source(program, "llvm")
    wanted = executor.run(program, x)
    calls, results = list[int](), [wanted]
    call = StraightFunction.__call__

    def counted(self: StraightFunction, *arrays: Any) -> Any:
        calls.append(len(results) + 1)
        return call(self, *arrays)

    monkeypatch.setattr(StraightFunction, "__call__", counted)
    while len(results) < runs + 3:
        results.append(executor.run(program, x))
    assert {y.tobytes() for y in results} == {wanted.tobytes()}
    assert calls == [runs + 1, runs + 2, runs + 3]


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    "options", [{"compiled": False}, {"check_finite": True}, {"segmented": False}], ids=str
)
def test_who_interprets_has_no_lines(options: Any) -> None:
    program = tnf.compile(hundred, np.float64(0.5))
    executor = tnf.GraphExecutor(**options)
    assert executor.compile(program).later is None
    for _ in range(4):
        executor.run(program, np.float64(0.5))


def test_compiled_always_is_compiled_at_once() -> None:
    program, executor = tnf.compile(lambda x: tnf.sin(x) * 2.0, X), tnf.GraphExecutor(compiled=True)
    assert "Straight line of 2 steps" in str(executor.compile(program))
    wanted = facts(executor.run(program, X))
    assert facts(executor.run(program, X)) == wanted == facts(np.asfortranarray(np.sin(X) * 2.0))


@pytest.mark.usefixtures("soon")
def test_branches_have_lines() -> None:
    def fn(x: Any) -> Any:
        return tnf.cond(tnf.sum(x) > 0.0, hundred, lambda x: x, x)

    x = np.full(3, 0.5)
    program, executor = tnf.compile(fn, x), tnf.GraphExecutor("K")
    assert "the first of 100 steps that are compiled" in str(executor.compile(program))
    wanted = executor.run(program, x)
    for _ in range(4):
        assert executor.run(program, x).tobytes() == wanted.tobytes()


# ---- what callers see ------------------------------------------------------------------------------


@pytest.mark.usefixtures("soon")
def test_results_are_nobody_elses() -> None:
    def fn(x: Any, y: Any) -> Any:
        z = x * y + 1.0
        return z, z, tnf.sin(z), x, tnf.broadcast_to(z[:1], (3, 4))

    program, executor = tnf.compile(fn, X, X), tnf.GraphExecutor()
    for _ in range(4):
        results = executor.run(program, X, X)
        for number, y in enumerate(results):
            assert y.flags.writeable
            assert y.flags.f_contiguous
            assert not any(np.may_share_memory(y, other) for other in (X, *results[:number]))


@pytest.mark.usefixtures("soon")
def test_errors_around_a_line_name_their_own() -> None:
    def fn(x: Any) -> Any:
        y = tnf.sin(x) * 2.0
        z = apply(WornOut(), y)[0]  # the line that fails
        return tnf.exp(z) + 1.0

    executor = tnf.GraphExecutor(runtimes=[HostReferenceRuntime(WornOut.family_id)])
    program = tnf.compile(fn, np.ones(2))
    for _ in range(4):
        executor.run(program, np.ones(2))
    assert len(straight(later(executor, program))) == 2
    with pytest.raises(BackendFailureError, match="RuntimeError: worn out") as caught:
        executor.run(program, -np.ones(2))
    place = next(each for each in str(caught.value).splitlines() if "test_llvm_straight" in each)
    number = int(place.rpartition(".py:")[2].split()[0])
    assert "the line that fails" in Path(__file__).read_text().splitlines()[number - 1]


@pytest.mark.usefixtures("soon")
def test_many_threads_pass_the_change() -> None:
    program, executor = tnf.compile(hundred, X), tnf.GraphExecutor("K")
    wanted = tnf.GraphExecutor("K", compiled=False).run(program, X)
    with ThreadPoolExecutor(4) as pool:
        for y in pool.map(lambda _: executor.run(program, X), range(40)):
            np.testing.assert_array_equal(y, wanted)


@pytest.mark.usefixtures("soon")
def test_a_thread_that_others_overtake_finds_the_change_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program, executor = tnf.compile(hundred, X), tnf.GraphExecutor("K")
    wanted, after, calls = executor.run(program, X), Straightener.after, list[ExecProgram]()

    def overtaken(self: Straightener, schedule: ExecProgram, inputs: Any = ()) -> int:
        calls.append(schedule)
        if len(calls) == 1:
            for _ in range(4):
                executor.run(program, X)
        return after(self, schedule, inputs)

    monkeypatch.setattr(Straightener, "after", overtaken)
    for _ in range(4):
        assert executor.run(program, X).tobytes() == wanted.tobytes()
    assert len(calls) == 2


def test_arrays_of_another_layout_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of a future NumPy may be."""
    assert array_function.knows_arrays()
    monkeypatch.setattr(array_function, "knows_arrays", lambda: False)
    program, executor = tnf.compile(hundred, np.float64(0.5)), tnf.GraphExecutor(compiled=True)
    assert not straight(later(executor, program))
    executor.run(program, np.float64(0.5))


def test_a_ufunc_that_would_convert_has_no_loop() -> None:
    program = tnf.compile(lambda x: tnf.sin(x), X)
    (step, *_) = tnf.GraphExecutor("K").compile(program).instructions
    real, integer = tnf.TensorSpec((3,), "float64"), tnf.TensorSpec((3,), "int32")
    loop = loop_of_step(step, [real])
    assert loop is not None
    assert loop.name == "numpy.sin.float64.float64"
    assert loop_of_step(step, [integer]) is None


def test_the_records_of_arrays_are_known() -> None:
    """Otherwise no line is compiled, and nothing else says so."""
    assert array_function.knows_arrays()


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_constant_with_two_axes_beside_arrays_of_any_order(order: str) -> None:
    table = RNG.standard_normal((3, 4))
    program = tnf.compile(lambda x: tnf.exp(x * table) + table - x, X)
    executor = tnf.GraphExecutor("K")
    schedule = later(executor, program, X)
    (line,) = [step for step in schedule.instructions if isinstance(step.op, Straight)]
    x = np.asarray(X, order=order)
    (y,) = [line.function(x)]
    assert y.tobytes() == executor.run(program, x).tobytes()


@pytest.mark.usefixtures("soon")
def test_steps_one_by_one_have_memory_of_their_own() -> None:
    """In place of the part of the whole schedule's that a value within it has, which a line may give to others."""

    def fn(x: Any) -> Any:
        low = tnf.tril(x) + tnf.tril(x * 2.0)
        return tnf.prod(tnf.tril(low), axis=0), tnf.triu(low * 0.5) + 1.0

    x = RNG.standard_normal((130, 130))
    program = tnf.compile(fn, x)
    schedule = later(tnf.GraphExecutor("K"), program)
    assert schedule.memory.size
    assert straight(schedule)
    wanted, executor = tnf.GraphExecutor("K", compiled=False), tnf.GraphExecutor("K")
    for each in (x, x, x, x, np.asfortranarray(x), apart(x), unaligned(x)):
        assert facts(executor.run(program, each)) == facts(wanted.run(program, each))


@pytest.mark.parametrize(("size", "count", "is_optimised"), [(10, 3, False), (60000, 3, True)])
def test_the_time_that_a_line_saves_and_costs(size: int, count: int, is_optimised: bool) -> None:
    """A call of NumPy for each step, and the way to the cache; passes where their absence costs a tenth of that."""

    def fn(x: Any) -> Any:
        for _ in range(count):
            x = x * 2.0
        return x

    program = tnf.GraphExecutor("K", compiled=False).compile(tnf.compile(fn, np.ones(size)))
    (line,) = lines_of(program)
    saved = count * lines.CALL + count * size / lines.WORK - sum(lines.LINE)
    assert line.saves == pytest.approx(saved)
    assert (count * size * lines.UNOPTIMISED > saved * lines.FAST) == is_optimised
    assert line.is_optimised == is_optimised
    prices = [lines.PRICE, lines.PRICE_OF_PASSES][: 1 + is_optimised]
    assert line.price == sum([start + each * count for start, each in prices])
