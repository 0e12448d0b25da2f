"""Planning steps, tested by the schedules that they produce."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro.dispatch import as_constant_of, as_operand
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.exec import ExecProgram
from tenferro.exec.backend import Backend
from tenferro.exec.llvm.link import is_installed
from tenferro.exec.plan import group, place
from tenferro.exec.plan.finish import finish
from tenferro.exec.plan.fold import fold
from tenferro.exec.planned import Copies, Fused
from tenferro.exec.printer import source_of
from tenferro.exec.schedule import Arena, InPlace, Pooled
from tenferro.extension import apply
from tenferro.graph import Graph
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from tenferro.ops.source import Iota
from tenferro.program import GraphProgram
from tenferro.types import DType
from tests.specification.operations import operation

X = np.linspace(0.1, 1.0, 12).reshape(3, 4)


def bound(fn: Any, *args: Any) -> ExecProgram:
    """Return the schedule of a function before any planning step."""
    program = tnf.compile(fn, *args)
    binder = replace(tnf.GraphExecutor().binder, passes=(), plan=())
    return binder.schedule(program.specialize(program.bind([np.shape(x) for x in args])))


def names(schedule: ExecProgram) -> list[str]:
    return [step.op.name for step in schedule.instructions]


def test_bind_keeps_the_programs_own_instructions() -> None:
    schedule = bound(lambda x: tnf.exp(tnf.sin(x)), X)
    assert names(schedule) == ["Sin", "Exp"]
    assert [step.function for step in schedule.instructions] == [np.sin, np.exp]
    assert [step.origin for step in schedule.instructions] == [(0,), (1,)]
    assert [step.frees for step in schedule.instructions] == [(0,), (1,)]
    assert not any(step.places for step in schedule.instructions)
    assert schedule.instructions[1].last_use == (True,)


def test_what_has_no_elements_is_constant() -> None:
    x, y = np.zeros((3, 0)), np.ones(2)

    def fn(x: Any, y: Any) -> Any:
        return tnf.sin(x) * 2.0, x @ x.T, tnf.sum(x, axis=1), x, x @ tnf.ones((0, 2)) + y

    program = tnf.compile(fn, x, y)
    executor = tnf.GraphExecutor("K")
    schedule = executor.compile(program)
    assert {"Sin", "Multiply"}.isdisjoint(names(schedule))
    wanted = np.sin(x), np.zeros((3, 3)), np.zeros(3), x, np.ones((3, 2))
    for result, other in zip(executor.run(program, x, y), wanted, strict=True):
        np.testing.assert_array_equal(result, other)


def test_constants_have_no_gaps() -> None:
    """Values computed from dense constants must be row-major; broadcast constants must not be expanded in memory."""
    table = np.arange(12.0).reshape(3, 4)

    def fn(x: Any) -> Any:
        fixed = as_constant_of(x, as_operand(table))
        return x + fixed[:, 1:], x + fixed[:, :3].T[:3], x + tnf.broadcast_to(fixed[0, :3], (3, 3))

    schedule = tnf.GraphExecutor("K", compiled=False).compile(tnf.compile(fn, np.ones((3, 3))))
    arrays = [np.asarray(schedule.constants[slot]) for step in schedule.instructions for slot in step.input_slots if slot in schedule.constants]  # fmt: skip
    assert [x.flags.c_contiguous for x in arrays] == [True, True, False]
    assert 0 in arrays[-1].strides


def test_fold_computes_what_constants_decide() -> None:
    schedule = bound(lambda x: x * tnf.sin(tnf.full((3, 4), 2.0)), X)
    folded = fold(schedule)
    assert names(folded) == ["Multiply"]
    (_, slot) = folded.instructions[0].input_slots
    np.testing.assert_array_equal(folded.constants[slot], np.full((3, 4), np.sin(2.0)))
    assert not folded.constants[slot].flags.writeable


@pytest.mark.parametrize("extent", [1 << 16, 1 + (1 << 16)])
def test_what_fills_memory_is_not_folded(extent: int) -> None:
    graph = Graph()
    (iota,) = graph.add(Iota((extent,), 0, DType.F64), ())
    (sine,) = graph.add(an.Sin(), (iota,))
    program = GraphProgram.from_graph(graph, [sine])
    binder = replace(tnf.GraphExecutor().binder, passes=(), plan=())
    folded = fold(binder.schedule(program))
    assert names(folded) == (["Iota", "Sin"] if extent > 1 << 16 else [])


def test_group_gathers_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 4)
    compiler = tnf.GraphExecutor(compiled=True).compiler
    assert compiler is not None
    whole = bound(lambda x: tnf.sum(tnf.exp(x) * x, axis=1) + 1.0, X)
    schedule = group.group(whole, compiler)
    assert any(isinstance(step.inner_op, Fused) for step in schedule.instructions)
    (op,) = [step.op for step in schedule.instructions if isinstance(step.inner_op, Fused)]
    assert op.lead == 1
    assert [step.op.name for step in op.body.instructions][:3] == ["Exp", "Multiply", "ReduceSum"]


def test_place_writes_over_what_dies_alone() -> None:
    placed = place.place(bound(lambda x: tnf.exp(tnf.sin(x)) * 2.0, X))
    assert next(step.places for step in placed.instructions if step.is_ufunc) == ()
    assert all(isinstance(step.places[0], InPlace) for step in placed.instructions if step.places)

    def viewed(x: Any) -> Any:
        y = tnf.sin(x)
        return tnf.exp(y), y.T

    placed = place.place(bound(viewed, X))
    assert not any(step.places for step in placed.instructions)


def test_place_keeps_large_values_in_the_arena_and_lends_what_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(place, "MIN_PLACED_BYTES", 1)
    x = np.ones((200, 200))
    placed = place.place(bound(lambda x: (x @ x) @ x, x))
    first, second = placed.instructions
    assert first.places == (Arena(0, x.nbytes),)
    assert second.places == (Pooled(x.nbytes),)
    assert placed.memory.size >= x.nbytes
    lines = source_of(placed).splitlines()
    assert lines[0] == "def run(arena, v0):"
    assert f", into=[arena[0:{x.nbytes}]])" in lines[1]
    assert f", into=[allocate({x.nbytes})])" in lines[2]


def test_finish_copies_what_is_shared_or_turned() -> None:
    schedule = bound(lambda x: (x.T, tnf.sum(x), tnf.exp(x)), X)
    kept = finish(schedule, "K").instructions[-1]
    assert isinstance(kept.op, Copies)
    assert (kept.op.order, kept.op.count) == ("K", 1)
    assert kept.input_slots[1:] == schedule.input_slots
    *_, alone, shared = finish(schedule, "F").instructions
    assert [(each.op.order, each.op.count) for each in (alone, shared)] == [("F", 1)] * 2
    assert alone.frees == alone.input_slots
    assert shared.input_slots[1:] == schedule.input_slots
    assert finish(bound(tnf.exp, X), "K").instructions[-1].op.name == "Exp"


def test_finish_copies_results_one_by_one() -> None:
    def fn(x: Any) -> Any:
        y = tnf.exp(x)
        return y, tnf.sin(y), tnf.sum(y)

    names = [step.op.name for step in finish(bound(fn, X), "F").instructions]
    assert names == ["Exp", "Sin", "ReduceSum", "Copies", "Copies"]


@pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
def test_the_print_shows_everything() -> None:
    x = np.ones((300, 300))

    def fn(x: Any) -> Any:
        def turn(c: Any, _: Any) -> Any:
            return tnf.exp(c) * 2.0 @ c, None

        small = tnf.scan(turn, x[:4, :4], None, length=2)[0]
        return tnf.where(x > 0.0, tnf.exp(x), x), small

    text = str(tnf.GraphExecutor("F").compile(tnf.compile(fn, x)))
    assert "Fused over [300, 300] by 2 axes" in text
    assert "DotGeneral" in text  # the matrix product in the loop's body
    assert "Copies order=F" in text
    assert "into %" in text


SQUARES = Backend("squares", {el.Multiply: lambda op, x, y: [a * b for a, b in zip(x, y, strict=True)]},
                  upload=list, download=np.array)  # fmt: skip


def test_a_backend_runs_on_arrays_of_its_own() -> None:
    program = tnf.compile(lambda x: x * x * x, tnf.TensorSpec((2,), "float64"))
    executor = tnf.GraphExecutor("K", backend=SQUARES)
    for _ in range(3):
        np.testing.assert_array_equal(executor.run(program, np.array([2.0, 3.0])), [8.0, 27.0])


def test_a_kernel_that_a_backend_lacks_is_an_error_with_the_line() -> None:
    program = tnf.compile(lambda x: tnf.sin(x) * x, tnf.TensorSpec((2,), "float64"))
    with pytest.raises(UnsupportedError, match="Sin: backend 'squares' has no kernel") as caught:
        tnf.GraphExecutor(backend=SQUARES).run(program, np.ones(2))
    assert "test_schedule.py" in str(caught.value)
    with pytest.raises(InvalidConfigError, match="check_finite"):
        tnf.GraphExecutor(backend=SQUARES, check_finite=True)
    with pytest.raises(InvalidConfigError, match=r"compiled=True .* backend 'squares'"):
        tnf.GraphExecutor(backend=SQUARES, compiled=True)


def test_a_dtype_that_a_backend_refuses_is_refused_of_results_too() -> None:
    refusing = replace(SQUARES, kernels={el.Convert: lambda op, x: list(map(int, x))},
                       refuses=lambda op, dtype: "too narrow" if dtype.itemsize < 4 else None)  # fmt: skip
    executor = tnf.GraphExecutor(backend=refusing)
    program = tnf.compile(lambda x: tnf.astype(x, "int16"), tnf.TensorSpec((2,), "float64"))
    why = "Convert: backend 'squares' on int16: too narrow"
    with pytest.raises(UnsupportedError, match=why) as caught:
        executor.run(program, np.ones(2))
    assert "test_schedule.py" in str(caught.value)
    with pytest.raises(UnsupportedError, match=why):
        executor.apply(el.Convert(tnf.DType.I16), [np.ones(2)])
    (y,) = executor.apply(el.Convert(tnf.DType.I64), [np.ones(2)])
    np.testing.assert_array_equal(y, [1, 1])


def test_one_op_runs_on_the_backends_arrays() -> None:
    executor = tnf.GraphExecutor(backend=SQUARES)
    (y,) = executor.apply(el.Multiply(), [np.array([2.0, 3.0]), np.array([4.0, 5.0])])
    assert isinstance(y, np.ndarray)
    np.testing.assert_array_equal(y, [8.0, 15.0])
    program = tnf.compile(lambda x: x * x, tnf.TensorSpec((2,), "float64"))
    with pytest.raises(InvalidConfigError, match=r"profile: .* backend 'squares'"):
        executor.profile(program, np.ones(2))


def test_capabilities_are_what_the_tables_say() -> None:
    assert lowering.PLATFORMS  # the import registers the capability tables of lowering
    assert tnf.capabilities(el.Add, "float32")
    assert tnf.capabilities("Sin", "complex128", "cpu")
    assert not tnf.capabilities("Sin", "complex128", "tpu")
    assert "library convolves floats" in tnf.capabilities("Convolution", "int32", "cuda").reason
    assert not tnf.capabilities("Sin", "int32")
    assert not tnf.capabilities("nobody.nothing.v1", "float64")
    assert tnf.capabilities("tenferro.fft.v1", "complex128")
    assert tnf.capabilities("tenferro.solve.v1", "float64", "cpu")
    assert not tnf.capabilities("nobody.nothing.v1", "float64", "cpu")
    wrong: Any
    for wrong in (("Sine", "float64"), ("Sin", "float64", "abacus"), (3, "float64")):
        with pytest.raises(InvalidConfigError):
            tnf.capabilities(*wrong)


def test_why_not_is_a_text() -> None:
    for op, dtype in (("Sin", "int32"), ("nobody.nothing.v1", "float64")):
        assert isinstance(tnf.capabilities(op, dtype).reason, str)


def test_an_executor_that_compiles_nothing_forgets_its_programs() -> None:
    executor = tnf.GraphExecutor(compiled=False)
    program = tnf.compile(lambda x: x + 1.0, np.ones(3))
    executor.run(program, np.ones(3))
    assert executor.cache_stats().entries == 1
    executor.cache_clear()
    assert executor.cache_stats().entries == 0


@pytest.mark.parametrize("n", [3, 50, 300])
def test_a_product_with_itself_is_not_taken_for_one_with_another(n: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, n, n))
    program, executor = tnf.compile(lambda x, y: x @ y.T, x, y), tnf.GraphExecutor("K")
    for lhs, rhs in ((x, x), (x, y), (y, y), (y, x)):
        np.testing.assert_allclose(
            executor.run(program, lhs, rhs), lhs @ rhs.T, rtol=0, atol=1e-12 * n
        )


# ---- bodies of compiled loops --------------------------------------------------------------------


def halved(x: Any) -> Any:
    """Run a scan of 1000 iterations."""
    return tnf.scan(lambda c, _: (0.5 * c + 1.0, None), x, None, length=1000)[0]


@pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
def test_a_compiled_loop_shows_the_steps_of_its_body() -> None:
    program, executor = tnf.compile(halved, 1.0), tnf.GraphExecutor(compiled=True)
    assert executor.run(program, 1.0) == pytest.approx(2.0)
    (loop,) = executor.compile(program).instructions
    assert loop.remark == "compiled"
    (body,) = loop.bodies
    assert [name for name in names(body) if name != "Constant"] == ["Multiply", "Add"]


@pytest.mark.parametrize("compiled", ["auto", False, pytest.param(True, marks=pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed"))])  # fmt: skip
def test_an_extension_without_a_runtime_in_a_loop_is_refused_by_its_line(compiled: Any) -> None:
    absent = operation("absent_in_a_loop", runtime=None)

    def turn(c: Any, _: Any) -> Any:
        return apply(absent, c + 1.0), None

    program = tnf.compile(lambda x: tnf.scan(turn, x, None, length=1000)[0], X)
    with pytest.raises(
        UnsupportedError, match=r"(?s)absent_in_a_loop.v1: not registered.*in turn$"
    ):
        tnf.GraphExecutor(compiled=compiled).compile(program)
