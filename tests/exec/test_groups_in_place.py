"""Results of groups over operands that die: which they are, and that nobody sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec import copying, tiles
from tenferro.exec.interpreter import interpret
from tenferro.exec.llvm.link import is_installed
from tenferro.exec.plan import compile_std_to_exec, fold, group, place
from tenferro.exec.schedule import ExecProgram, Over, Tiles

needs_llvmlite = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
RNG = np.random.default_rng(5)


def uniform(*shape: int) -> Any:
    return RNG.uniform(0.5, 1.5, shape)


def middle(x: Any) -> Any:
    """A group whose total the next one needs, so that they are two."""
    w = x * x + x
    return w, tnf.sum(w)


def normalised(x: Any) -> Any:
    w, total = middle(x)
    return w / total * 2.0


def twice(x: Any) -> Any:
    """A group over a group, of which the last one leaves."""
    w, total = middle(normalised(x))
    return w / total * 2.0, total


def inside(x: Any) -> Any:
    """What is written over an operand does not leave."""
    return tnf.sum(normalised(x) @ tnf.matrix_transpose(x), axis=0)


def kept(x: Any) -> Any:
    """The operand leaves, too."""
    w, total = middle(x)
    return w, w / total * 2.0


def viewed(x: Any) -> Any:
    """A view of the operand lives on."""
    w, total = middle(x)
    view = tnf.matrix_transpose(w)
    y = w / total * 2.0
    return y, view @ y


def seen(x: Any) -> Any:
    """A runtime has seen the operand, and may keep it."""
    w, total = middle(x)
    values = tnf.linalg.svdvals(w)
    return w / (total + values[0]) * 2.0, values


def of_another_type(x: Any) -> Any:
    w, total = middle(x)
    return tnf.astype(w / total * 2.0, np.float32)


def read_again(x: Any) -> Any:
    """One of two results comes first, and the operand is read after it."""
    w, total = middle(x)
    y = w / total
    return y * 2.0, w * y + 1.0


def by_rows(x: Any) -> Any:
    """Rows as wholes."""
    w, total = middle(x)
    y = w / total
    return y / tnf.max(y, axis=1, keepdims=True)


def several(x: Any) -> Any:
    """As many results as operands that die."""
    w, total = middle(x)
    v, other = middle(x + 1.0)
    return w / other * 2.0, v / total * 2.0


class Case(NamedTuple):
    fn: Callable[..., Any]
    count: int


CASES = {
    "normalised": Case(normalised, 1),
    "twice": Case(twice, 2),
    "inside": Case(inside, 1),
    "kept": Case(kept, 0),
    "viewed": Case(viewed, 0),
    "seen": Case(seen, 0),
    "of another type": Case(of_another_type, 0),
    "read again": Case(read_again, 1),
    "by rows": Case(by_rows, 0),
    "several": Case(several, 2),
}
IN_MEMORY = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "every other": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
}


def overwritten(program: Any) -> list[int]:
    """Operands of groups that results are written over."""
    return [
        place.slot
        for step in program.instructions
        if isinstance(step.op, Tiles)
        for place in step.places
        if isinstance(place, Over)
    ]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("order", ["K", "F", "C"])
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_llvmlite)])
def test_results_over_operands_that_die(
    name: str, order: Any, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "SMALLEST", 1)
    fn, count = CASES[name]
    shape = 200, 200
    program = tnf.compile(fn, uniform(*shape))
    executor = tnf.GraphExecutor(order, compiled=compiled)
    plain = tnf.GraphExecutor(order, compiled=False, passes=(), memory_bytes=0)
    assert len(overwritten(executor.compile(program))) == count
    held: list[tuple[Any, Any]] = []
    for arrange in IN_MEMORY.values():
        for _ in range(3):
            x = arrange(uniform(*shape))
            before = x.copy()
            results, _ = tnf.types.flatten(executor.run(program, x))
            np.testing.assert_array_equal(x, before)
            held.append((before, results))
    # Of all runs, after all of them: nothing was written over what somebody holds.
    for x, results in held:
        expected = tnf.types.flatten(fn(x))[0]
        alone = tnf.types.flatten(plain.run(program, x))[0]
        for y, other, by_itself in zip(results, expected, alone, strict=True):
            # One of float32 may be rounded the other way, where totals were added in another order.
            rtol = 1e-12 if y.dtype == np.float64 else 2 * float(np.finfo(y.dtype).eps)
            np.testing.assert_allclose(y, np.asarray(other), rtol=rtol, atol=1e-12)
            np.testing.assert_allclose(y, by_itself, rtol=rtol, atol=1e-12)


@needs_llvmlite
def test_results_that_become_column_major_are_not_written_over_operands() -> None:
    """Large ones, which code turns row by row once it has run often."""
    x, row = uniform(1200, 640), uniform(640)

    def fn(x: Any, row: Any) -> Any:
        w, total = middle(x)
        return w / total * row

    program = tnf.compile(fn, x, row)
    executor = tnf.GraphExecutor("F", compiled=True)
    schedule = executor.compile(program)
    assert len(overwritten(schedule)) == 1
    (step,) = [step for step in schedule.instructions if Over(step.input_slots[0]) in step.places]
    assert step.function.columns.numbers == (0,)
    w = x * x + x
    results = [executor.run(program, x, row) for _ in range(16)]
    for y in results:
        assert y.flags.f_contiguous
        np.testing.assert_allclose(y, w / w.sum() * row, rtol=1e-12)


@needs_llvmlite
@pytest.mark.parametrize("compiled", ["auto", True])
@pytest.mark.parametrize("shape", [(1000, 300), (1016, 640)])
def test_no_result_is_written_over_an_operand_where_another_becomes_column_major(
    shape: tuple[int, int], compiled: Any
) -> None:
    """The code that turns rows computes the last ones together with some before them, which are no operands then."""
    x, row = uniform(*shape), uniform(shape[1])

    def fn(np: Any, x: Any, row: Any) -> Any:
        w, v = x * x + x, x * 3.0 + 1.0
        total = np.sum(w)
        return w / total * row, (v / total * row) @ np.ones((shape[1], 2))

    program = tnf.compile(lambda x, row: fn(tnf, x, row), x, row)
    executor = tnf.GraphExecutor("F", compiled=compiled)
    if compiled is True:
        assert overwritten(executor.compile(program))
    for _ in range(24):
        for y, expected in zip(executor.run(program, x, row), fn(np, x, row), strict=True):
            np.testing.assert_allclose(y, expected, rtol=1e-12)


@needs_llvmlite
def test_no_result_is_written_over_an_operand_that_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that lies across is read from a copy, and the result would go there."""
    monkeypatch.setattr(group, "SMALLEST", 1)
    monkeypatch.setattr(place, "SMALLEST_BLOCK", 64)
    for module, name, size in (
        (copying, "TURNED", 1), (copying, "COLLIDING", 8), (copying, "SHORT", 2), (copying, "TILE", 4),
        (copying, "STREAMED", 64), (tiles, "LARGE", 0), (tiles, "WORTH", 0.0), (tiles, "TILE_BYTES", 256),
        (tiles, "ROW_TILE_BYTES", 256), (tiles, "ALONE_TILE_BYTES", 256),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, size)
    x, y = np.asfortranarray(uniform(3, 64)), uniform(3, 64)

    def fn(x: Any, y: Any) -> Any:
        w, total = y * y + y, tnf.sum(y)
        return w / total * 2.0, tnf.sum(x)

    result, _ = tnf.GraphExecutor("K", compiled=True).run(tnf.compile(fn, x, y), x, y)
    np.testing.assert_allclose(result, (y * y + y) / y.sum() * 2.0, rtol=1e-12)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_llvmlite)])
def test_operands_that_lie_otherwise_are_not_written_over(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk is in the order of most operands, and so are its results."""
    monkeypatch.setattr(group, "SMALLEST", 1)
    x, y, z = np.asfortranarray(uniform(200, 200)), uniform(200, 200), uniform(200, 200)

    def fn(x: Any, y: Any, z: Any) -> Any:
        w, total = middle(x)
        return w / total * y * z

    program = tnf.compile(fn, x, y, z)
    executor = tnf.GraphExecutor("K", compiled=compiled)
    assert len(overwritten(executor.compile(program))) == 1
    w = x * x + x
    for _ in range(3):
        result = executor.run(program, x, y, z)
        assert result.flags.c_contiguous
        np.testing.assert_allclose(result, w / w.sum() * y * z, rtol=1e-12)


@needs_llvmlite
def test_one_memory_has_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM is told that pointers of different names lead to memory that lies apart."""
    from tenferro.exec.llvm.group import CompiledGroup, Walk  # because it needs llvmlite

    monkeypatch.setattr(group, "SMALLEST", 1)
    x = uniform(200, 200)
    executor = tnf.GraphExecutor("K", compiled=True)
    steps = executor.compile(tnf.compile(normalised, x)).instructions
    machines = [getattr(step.function, "machine", None) for step in steps]
    *_, machine = [machine for machine in machines if isinstance(machine, CompiledGroup)]
    w, total, y = Walk((40_000,), (1,)), Walk((40_000,), (0,)), Walk((40_000,), (1,))
    apart, _, _ = machine.text_of((w, total, y), 1)
    over, _, _ = machine.text_of((w, total, y), 1, ((0, 0),))
    assert apart.count("%a2") > 1
    assert over.count("%a2") == 1
    assert over.replace("%a0", "%a2").count("%a2") == apart.replace("%a0", "%a2").count("%a2")


def test_a_result_over_its_operand_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "SMALLEST", 1)
    x = uniform(160, 160)
    executor = tnf.GraphExecutor("K", compiled=False)
    program = executor.compile(tnf.compile(normalised, x))
    first, second = [step for step in program.instructions if isinstance(step.op, Tiles)]
    (slot,) = overwritten(program)
    assert slot == first.output_slots[0]
    assert f"into over %{slot}" in str(second)
    assert "into lent[204800]" in str(first)


def test_a_ufunc_writes_over_no_place_of_another_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result over an operand lies in the operand's place, which is the next run's too."""
    monkeypatch.setattr(group, "SMALLEST", 1)
    x = uniform(200, 200)

    def fn(x: Any) -> Any:
        y = normalised(x)
        product = y @ x
        return tnf.sqrt(y), product

    def last_group_alone(program: ExecProgram) -> ExecProgram:
        *steps, last = program.instructions
        assert isinstance(last.op, Tiles)
        return replace(program, instructions=(*steps, *last.op.members))

    plan = (fold.fold, fold.keep_numbers, group.group, last_group_alone, place.place)
    schedule = compile_std_to_exec(tnf.compile(fn, x), plan=plan)
    *_, second, _, root = schedule.instructions
    assert isinstance(second.places[0], Over)
    assert root.is_ufunc
    assert not root.places
    for block in schedule.memory.blocks:
        assert block.slot == second.places[0].slot
    y = x * x + x
    np.testing.assert_allclose(interpret(schedule, [x])[0], np.sqrt(y / y.sum() * 2.0), rtol=1e-12)
