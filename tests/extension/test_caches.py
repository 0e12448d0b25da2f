"""Caches of extensions must be bounded in entries and bytes, count their use, and be cleared with their owner."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.ext.einsum import Einsum
from tenferro.extension import (
    ExtensionCacheKey,
    ExtensionCaches,
    ExtensionOp,
    ExtensionRuntime,
    apply,
    extension_family,
)
from tenferro.program.cache import bytes_held_by

X = np.array([1.0, 2.0, 3.0])


class Plan:
    """A plan as authors of extensions write it. Its workspace is nested inside an attribute."""

    def __init__(self, size: int) -> None:
        self.parts = {"workspace": (np.zeros(size), [np.zeros(size)])}


class Slotted:
    __slots__ = ("table",)

    def __init__(self) -> None:
        self.table = np.zeros(1000)


class Planning(ExtensionRuntime):
    """Runtime that caches a plan, and runs a program by an executor of its own."""

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    def execute(self, op: Any, inputs: Any, caches: ExtensionCaches) -> Any:
        caches.store(ExtensionCacheKey(self.family_id, "plans")).get(0, lambda: Plan(1000))
        double = tnf.compile(lambda x: x + x, inputs[0])
        return caches.owner.run(double, inputs[0])


@extension_family("tenferro-tests", "planning", version=1, runtime=Planning)
@dataclass(frozen=True)
class Planned(ExtensionOp):
    """y = 2 x."""

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]


KEY = ExtensionCacheKey("tenferro-tests.planning.v1", "plans")


@pytest.mark.parametrize("entry", [Plan(500), (np.zeros(1000),), {"a": np.zeros(1000)}, Slotted()])
def test_bytes_are_those_that_entries_hold(entry: Any) -> None:
    caches = ExtensionCaches()
    caches.store(KEY).get(0, lambda: entry)
    assert 8000 <= caches.retained_bytes < 10000
    assert 8000 <= caches.stats()[KEY].nbytes < 10000


def test_bytes_are_those_of_now() -> None:
    caches = ExtensionCaches()
    plan = caches.store(KEY).get(0, lambda: Plan(10))
    plan.parts["grown"] = (np.zeros(100_000), [])
    assert caches.retained_bytes > 800_000
    caches.clear()
    assert caches.retained_bytes == 0
    assert caches.stats()[KEY].nbytes == 0


def test_counts_and_bytes_are_bounded() -> None:
    caches = ExtensionCaches(capacity=4, max_bytes=50_000)
    for number in range(1000):
        key = ExtensionCacheKey("tenferro-tests.planning.v1", f"store {number}")
        caches.store(key).get(0, lambda: 0)
    assert len(caches.stats()) == 4
    store = caches.store(KEY)
    for number in range(4):
        store.get(number, lambda: Plan(1000))
    assert store.stats().entries == 3
    assert store.stats().nbytes <= 50_000


def test_an_owner_clears_its_plans_and_a_runtime_gets_it() -> None:
    executor = tnf.GraphExecutor(cache_size=7)
    program = tnf.compile(lambda x: apply(Planned(), x), X)
    np.testing.assert_array_equal(executor.run(program, X), X + X)
    assert executor.extensions.caches.owner is executor
    assert executor.extensions.caches.store(KEY).capacity == 7
    # The entries are the test's program, and the program `double` that `Planning.execute` runs by this executor.
    assert executor.cache_stats().entries == 2
    assert executor.extensions.caches.retained_bytes > 16_000
    executor.cache_clear()
    assert executor.extensions.caches.retained_bytes == 0
    runtime = tnf.EagerRuntime()
    apply(Planned(), runtime.constant(X))
    assert runtime.executor.extensions.caches.retained_bytes
    runtime.cache_clear()
    assert runtime.executor.extensions.caches.retained_bytes == 0
    context = tnf.AdContext(cache_size=3)
    context.extension_caches.store(KEY).get(0, lambda: Plan(10))
    context.cache_clear()
    assert len(context.extension_caches) == 0
    assert context.extension_caches.store(KEY).capacity == 3


def test_einsum_s_plans_are_counted() -> None:
    executor = tnf.GraphExecutor()
    op = Einsum(("ij", "jk", "kl"), "il")
    matrix = np.eye(3)
    program = tnf.compile(lambda x: apply(op, x, x, x), matrix)
    executor.run(program, matrix)
    stats = executor.extensions.caches.stats()
    assert {key.name for key in stats} == {"plans", "programs"}
    assert all(store.nbytes > 0 for store in stats.values())


def test_who_owned_the_stores_may_be_gone() -> None:
    owner = tnf.GraphExecutor()
    caches = ExtensionCaches(owner=owner)
    assert caches.owner is owner
    del owner
    gc.collect()
    assert caches.owner is None
    assert ExtensionCaches().owner is None


class Told:
    """An object that reports its size by attributes such as `nbytes`."""

    def __init__(self, **told: int) -> None:
        self.__dict__.update(told)
        self.array = np.zeros(1000)


class Slotted:
    __slots__ = ("array", "unset")

    def __init__(self) -> None:
        self.array = np.zeros(5)


ARRAY = np.zeros(10)
OWN = sys.getsizeof


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ARRAY, 80),
        ((ARRAY, ARRAY), OWN((ARRAY, ARRAY)) + 80),  # the array occurs twice and counts once
        ({"a": ARRAY}, OWN({"a": ARRAY}) + OWN("a") + 80),
        (Told(nbytes=7), 7),
        (Slotted(), OWN(Slotted()) + 40),
        (lambda: 0, 0),
        (Told, 0),
        (np, 0),
    ],
)
def test_what_an_entry_holds(value: Any, expected: int) -> None:
    assert bytes_held_by(value) == expected


def test_a_program_counts_as_its_constants() -> None:
    value = Told(constant_bytes=7)
    assert bytes_held_by(value) == OWN(value) + 7
    program = tnf.compile(lambda x: x + np.arange(100.0), np.ones(100))
    assert bytes_held_by(program) == OWN(program) + 800
