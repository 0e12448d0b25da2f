"""However a caller holds a result, the result must not change when the program runs again."""

from __future__ import annotations

import ctypes
import gc
import random
from collections.abc import Callable
from typing import Any

import jax
import jax.dlpack
import numpy as np
import pytest

import tenferro as tnf
from tenferro import costs
from tenferro.exec.kernels import dot_general
from tenferro.exec.llvm.link import is_installed
from tenferro.exec.plan import group, place
from tenferro.exec.schedule import Arena
from tenferro.ops.control import Scan
from tenferro.types import flatten
from xla_peer.fuzz.program import random_case


def capsule(y: Any) -> Callable[[], bytes]:
    """Hold the array in JAX, which receives it by DLPack."""
    try:
        held = jax.dlpack.from_dlpack(y)
    except (jax.errors.JaxRuntimeError, BufferError):  # JAX accepts only compact strides
        return by_view(y)
    return lambda: np.asarray(held).tobytes()


def by_ctypes(y: Any) -> Callable[[], bytes]:
    """Hold the array by a ctypes pointer, which keeps the array alive."""
    pointer = np.ascontiguousarray(y).ctypes
    size = y.nbytes
    return lambda: ctypes.string_at(pointer.data, size)


def by_memoryview(y: Any) -> Callable[[], bytes]:
    """Hold the array by a memoryview, which uses Python's buffer protocol."""
    view = memoryview(y)
    return lambda: np.asarray(view).tobytes()


def by_view(y: Any) -> Callable[[], bytes]:
    """Hold the array by a view of a view of it."""
    view = y[...].T.T
    return lambda: view.tobytes()


def by_item(y: Any) -> Callable[[], bytes]:
    """Hold the array by an array that is created from its buffer."""
    view = np.frombuffer(y.data, y.dtype) if y.flags.c_contiguous else y
    return lambda: view.tobytes()


HOLDERS = (by_view, by_memoryview, by_ctypes, by_item, capsule)


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "MIN_PLACED_BYTES", 1)
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 1)
    monkeypatch.setattr(costs, "MIN_PARALLEL_COST", 0.0)
    monkeypatch.setattr(dot_general, "MIN_BUFFERED_ELEMENTS", 0)


def held(y: Any, pick: random.Random) -> Callable[[], bytes]:
    """Hold a result in a randomly chosen way; return a function that reads the bytes of the held result."""
    kinds = (
        HOLDERS if y.dtype.kind in "fiu" and y.dtype.itemsize in (4, 8) and y.size else [by_view]
    )
    return pick.choice(kinds)(y)


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize("order", ["F", "C", "K"])
def test_random_programs(order: Any) -> None:
    pick = random.Random(order)
    executor = tnf.GraphExecutor(order, threads=2)
    kept: list[tuple[Callable[[], bytes], bytes]] = []
    for number in range(20):
        case = random_case(21, number, most_ops=15)
        for _ in range(3):
            results = flatten(executor.run(case.program, *case.leaves))[0]
            for y in results:
                read = held(y, pick)
                kept.append((read, read()))
            del results
        pick.shuffle(kept)
        del kept[40:]
        if not number % 10:
            gc.collect()
        assert all(read() == before for read, before in kept)


COMPILED = [
    False,
    pytest.param(
        True, marks=pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
    ),
]


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize("is_compiled", COMPILED)
def test_writing_to_a_result_changes_no_other_run(is_compiled: bool) -> None:
    executor = tnf.GraphExecutor("K", threads=2, compiled=is_compiled)

    def fn(x: Any) -> Any:
        y = tnf.exp(x) @ x
        total, ys = tnf.scan(lambda c, _: (c @ x * 0.1, c), y, None, length=3)
        return y, y.T, tnf.reshape(y, (-1,))[::2], total, ys, x

    x = np.random.default_rng(0).standard_normal((40, 40)) / 40
    program = tnf.compile(fn, x)
    wanted = [y.copy() for y in executor.run(program, x)]
    for _ in range(4):
        for y, z in zip(executor.run(program, x), wanted, strict=True):
            np.testing.assert_array_equal(y, z)
            y[...] = np.nan
    assert np.isfinite(x).all()


@pytest.mark.parametrize("is_compiled", COMPILED)
def test_tapes_of_loops_are_used_again(is_compiled: bool) -> None:
    executor = tnf.GraphExecutor("K", compiled=is_compiled)

    def loss(x: Any) -> Any:
        return tnf.sum(tnf.scan(lambda c, _: (tnf.sin(c) * x,) * 2, x, None, length=40)[1])

    x = np.linspace(0.0, 1.0, 1000)
    program = tnf.compile(tnf.grad(loss), x)
    first = executor.run(program, x)
    copy = first.copy()
    for _ in range(3):
        other = executor.run(program, x + 1.0)
    steps = executor.compile(program, x).instructions
    places = [
        target for step in steps if isinstance(step.source_op, Scan) for target in step.places
    ]
    assert any([isinstance(target, Arena) for target in places]) == is_compiled
    np.testing.assert_array_equal(first, copy)
    assert not np.array_equal(first, other)
