"""Groups that are not worth compiling at once: interpreted first, compiled after more runs, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm import link
from tenferro.exec.plan import machine
from tenferro.exec.schedule import ExecInstruction, Tiles

pytestmark = pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")

RNG = np.random.default_rng(5)
SHAPE = 3, 45, 500


@pytest.fixture(autouse=True)
def none_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No group is worth compiling before its first run."""
    monkeypatch.setattr(machine, "WORTH", 1e9)


def special(dtype: Any) -> Any:
    """An array with infinities, NaN, zeros of either sign, and the largest and least numbers."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        x = RNG.integers(0, 100, SHAPE).astype(dtype)
        x.flat[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
        return x
    x = RNG.normal(size=SHAPE).astype(dtype)
    info = np.finfo(dtype)
    x.flat[:8] = 0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal
    return x


def scaled(x: Any, row: Any, y: Any) -> Any:
    return tnf.maximum(x * row - y, row)


def chosen(x: Any, row: Any, y: Any) -> Any:
    return tnf.where(x > row, tnf.minimum(x, y), y * row + x), x * y


def divided(x: Any, row: Any, y: Any) -> Any:
    return (abs(x) + 1) / (y * y + 2) - row


def integers(x: Any, row: Any, y: Any) -> Any:
    return (x + row) * y - (x ^ y)


CASES = [
    *[(fn, dtype) for fn in (scaled, chosen, divided) for dtype in ("f4", "f8")],
    (integers, "i4"), (integers, "i8"), (integers, "u1"),
]  # fmt: skip


def arrays(dtype: str) -> tuple[Any, ...]:
    return special(dtype), special(dtype)[0, 0], special(dtype)


def groups(executor: tnf.GraphExecutor, program: Any, *inputs: Any) -> list[ExecInstruction]:
    """Those of the schedule that is printed."""
    schedule = executor.compile(program, *inputs)
    assert schedule.later is not None
    steps = schedule.later.announced(schedule).instructions
    return [step for step in steps if isinstance(step.op, Tiles)]


def bits(results: Any) -> list[bytes]:
    """Of NaN without their signs."""
    arrays = map(np.array, results if isinstance(results, tuple) else (results,))
    return [np.where(np.isnan(y), np.abs(y), y).tobytes() for y in arrays]


@pytest.mark.parametrize("order", ["K", "F"])
@pytest.mark.parametrize(("fn", "dtype"), CASES)
def test_bits_stay(fn: Callable[..., Any], dtype: str, order: Any) -> None:
    inputs = arrays(dtype)
    program = tnf.compile(fn, *inputs)
    executor = tnf.GraphExecutor(order=order)
    (group,) = groups(executor, program, *inputs)
    _, runs, _ = str(group.remark).rsplit(" ", 2)
    assert group.remark == f"compiled after {int(runs)} runs"
    assert "; Tiles(" in program.source("llvm")
    first = bits(executor.run(program, *inputs))
    with np.errstate(all="ignore"):
        for _ in range(int(runs) + 3):
            assert bits(executor.run(program, *inputs)) == first
    strided = tuple([np.asfortranarray(x) for x in inputs])
    assert bits(executor.run(program, *strided)) == bits(
        tnf.GraphExecutor(compiled=False).run(program, *strided)
    )


@pytest.mark.parametrize(
    "fn", [lambda x, row, y: tnf.exp(x) * row + y, lambda x, row, y: tnf.sum(x * row + y, -1)]
)
def test_what_may_give_other_bits_stays_interpreted(fn: Callable[..., Any]) -> None:
    inputs = arrays("f8")
    program, executor = tnf.compile(fn, *inputs), tnf.GraphExecutor()
    (group,) = groups(executor, program, *inputs)
    assert str(group.remark).startswith("interpreted")


def test_small_groups_stay() -> None:
    """They save less than a change is worth."""
    x = np.ones((3, 3, 500))
    program, executor = tnf.compile(lambda x: (x + 1) * x, x), tnf.GraphExecutor()
    assert not [group for group in groups(executor, program, x) if "compiled" in str(group.remark)]
