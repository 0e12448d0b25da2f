"""A result of a fused group may overwrite an operand only at the operand's last use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import tenferro as tnf
from tenferro import costs
from tenferro.exec.interpreter import interpret
from tenferro.exec.kernels import copying
from tenferro.exec.llvm.link import is_installed
from tenferro.exec.plan import Binder, fold, group, place, tiling
from tenferro.exec.plan.finish import finish
from tenferro.exec.plan.tiling import tile_groups
from tenferro.exec.planned import Fused
from tenferro.exec.schedule import ExecProgram, InPlace

needs_llvmlite = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
RNG = np.random.default_rng(5)


def uniform(*shape: int) -> Any:
    return RNG.uniform(0.5, 1.5, shape)


def middle(x: Any) -> Any:
    """Return an array and its total, which a first group computes, and which a second group needs."""
    w = x * x + x
    return w, tnf.sum(w)


def normalised(x: Any) -> Any:
    w, total = middle(x)
    return w / total * 2.0


def twice(x: Any) -> Any:
    """Apply two groups that may overwrite their operands. The second group computes a result of the program."""
    w, total = middle(normalised(x))
    return w / total * 2.0, total


def inside(x: Any) -> Any:
    """Let a group overwrite its operand with an intermediate value, which is no result of the program."""
    return tnf.sum(normalised(x) @ tnf.matrix_transpose(x), axis=0)


def kept(x: Any) -> Any:
    """Return the operand of the second group as a result, too, so that it must not be overwritten."""
    w, total = middle(x)
    return w, w / total * 2.0


def viewed(x: Any) -> Any:
    """Read a view of the group's operand after the group, so that the operand must not be overwritten."""
    w, total = middle(x)
    view = tnf.matrix_transpose(w)
    y = w / total * 2.0
    return y, view @ y


def seen(x: Any) -> Any:
    """Pass the group's operand to a runtime, which may keep a reference, so that it must not be overwritten."""
    w, total = middle(x)
    values = tnf.linalg.svdvals(w)
    return w / (total + values[0]) * 2.0, values


def of_another_type(x: Any) -> Any:
    w, total = middle(x)
    return tnf.astype(w / total * 2.0, np.float32)


def read_again(x: Any) -> Any:
    """Read the operand after the first of two results is written, so that only the second result may overwrite it."""
    w, total = middle(x)
    y = w / total
    return y * 2.0, w * y + 1.0


def by_rows(x: Any) -> Any:
    """Reduce the result of a group along its rows, in another group."""
    w, total = middle(x)
    y = w / total
    return y / tnf.max(y, axis=1, keepdims=True)


def several(x: Any) -> Any:
    """Compute two results from two operands. Each result may overwrite one of the operands."""
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
    """Return the slots of the operands that are overwritten by results of groups."""
    return [
        place.slot
        for step in program.instructions
        if isinstance(step.inner_op, Fused)
        for place in step.places
        if isinstance(place, InPlace)
    ]


@needs_llvmlite
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("order", ["K", "F", "C"])
def test_results_in_place_of_operands_at_their_last_use(
    name: str, order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 1)
    fn, count = CASES[name]
    shape = 200, 200
    program = tnf.compile(fn, uniform(*shape))
    executor = tnf.GraphExecutor(order, compiled=True)
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
    # Results are checked after the last run, because a run might overwrite an earlier result.
    for x, results in held:
        expected = tnf.types.flatten(fn(x))[0]
        alone = tnf.types.flatten(plain.run(program, x))[0]
        for y, other, by_itself in zip(results, expected, alone, strict=True):
            # A group adds totals in another order, so a float32 result may be rounded differently.
            rtol = 1e-12 if y.dtype == np.float64 else 2 * float(np.finfo(y.dtype).eps)
            np.testing.assert_allclose(y, np.asarray(other), rtol=rtol, atol=1e-12)
            np.testing.assert_allclose(y, by_itself, rtol=rtol, atol=1e-12)


@needs_llvmlite
def test_no_result_is_in_place_of_a_copied_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    """No result may overwrite the copy of a strided operand, because the copy may be read again."""
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 1)
    monkeypatch.setattr(place, "MIN_PLACED_BYTES", 64)
    for module, name, size in (
        (copying, "MIN_TILED_BYTES", 1),
        (copying, "MIN_STREAMED_BYTES", 64), (costs, "MIN_PARALLEL_COST", 0.0), (tiling, "TILE_BYTES", 256),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, size)
    x, y = np.asfortranarray(uniform(3, 64)), uniform(3, 64)

    def fn(x: Any, y: Any) -> Any:
        w, total = y * y + y, tnf.sum(y)
        return w / total * 2.0, tnf.sum(x)

    result, _ = tnf.GraphExecutor("K", compiled=True).run(tnf.compile(fn, x, y), x, y)
    np.testing.assert_allclose(result, (y * y + y) / y.sum() * 2.0, rtol=1e-12)


@needs_llvmlite
def test_operands_of_another_layout_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operand whose layout differs from the results' must be copied, and a result must overwrite the copy."""
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 1)
    x, y, z = np.asfortranarray(uniform(200, 200)), uniform(200, 200), uniform(200, 200)

    def fn(x: Any, y: Any, z: Any) -> Any:
        w, total = middle(x)
        return w / total * y * z

    program = tnf.compile(fn, x, y, z)
    executor = tnf.GraphExecutor("K", compiled=True)
    assert len(overwritten(executor.compile(program))) == 1
    w = x * x + x
    for _ in range(3):
        result = executor.run(program, x, y, z)
        assert result.flags.c_contiguous
        np.testing.assert_allclose(result, w / w.sum() * y * z, rtol=1e-12)


@needs_llvmlite
def test_each_buffer_has_one_pointer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer must be passed as only one pointer, because the function declares that its pointers do not alias."""
    from tenferro.exec.llvm.group import CompiledGroup  # imports llvmlite
    from tenferro.exec.llvm.link import Linker

    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 1)
    x = uniform(200, 200)
    executor = tnf.GraphExecutor("K", compiled=True)
    *_, step = executor.compile(tnf.compile(normalised, x)).instructions
    own = CompiledGroup(step.replaced(op=step.inner_op, places=()), lambda _: [], Linker())
    over, apart = (each.module.text.partition("define i64 @f(")[0] for each in (step.function, own))
    assert apart.count("%a2") > 1
    assert over.count("%a2") == 1
    assert over.replace("%a0", "%a2").count("%a2") == apart.replace("%a0", "%a2").count("%a2")


@needs_llvmlite
def test_in_place_results_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 1)
    x = uniform(160, 160)
    executor = tnf.GraphExecutor("K", compiled=True)
    program = executor.compile(tnf.compile(normalised, x))
    first, second = [step for step in program.instructions if isinstance(step.inner_op, Fused)]
    (slot,) = overwritten(program)
    assert slot == first.output_slots[0]
    assert f"into %{slot}" in str(second)
    assert "into pool[204800]" in str(first)


@needs_llvmlite
def test_a_ufunc_does_not_overwrite_the_buffer_of_another_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A result that overwrites its operand must be in the operand's buffer, also in later runs."""
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 1)
    x = uniform(200, 200)

    def fn(x: Any) -> Any:
        y = normalised(x)
        product = y @ x
        return tnf.sqrt(y), product

    def last_group_alone(program: ExecProgram) -> ExecProgram:
        *steps, last = program.instructions
        assert isinstance(last.inner_op, Fused)
        return replace(program, instructions=(*steps, *last.op.body.instructions))

    compiler = tnf.GraphExecutor(compiled=True).compiler
    assert compiler is not None
    groups = partial(group.group, compiler=compiler)
    plan = (fold.fold, groups, last_group_alone, tile_groups, place.place)
    schedule = finish(Binder(plan=plan).schedule(tnf.compile(fn, x)), "K")
    *_, second, _, root = schedule.instructions
    assert isinstance(second.places[0], InPlace)
    assert root.is_ufunc
    assert not root.places
    for block in schedule.memory.blocks:
        assert block.slot == second.places[0].slot
    y = x * x + x
    np.testing.assert_allclose(interpret(schedule, [x])[0], np.sqrt(y / y.sum() * 2.0), rtol=1e-12)
