"""Caches: their owners, contents and bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.extension import ExtensionCacheKey, ExtensionCaches, ExtensionRuntime, apply
from tests.specification.operations import Scale, X, compiled
from tests.specification.statements import Chapter, Row

chapter = Chapter(
    "caches",
    "Caches",
    "Cached data of an operation is separate from the operation. "
    "Plans are cached in stores, each owned by an executor, an eager runtime, a compiler or a context.",
)
KEY = ExtensionCacheKey(Scale.family_id, "plans")


class Planning(ExtensionRuntime):
    """Runtime that caches a plan of eight kilobytes for each value of the factor."""

    family_id = Scale.family_id

    def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
        plan = caches.store(KEY).get(op.factor, lambda: {"table": np.full(1000, op.factor)})
        return plan["table"][:3] * inputs[0]


def planned(executor: Any, *factors: float) -> None:
    for factor in factors:
        np.testing.assert_array_equal(executor.run(compiled(Scale(factor)), X), factor * X)


@chapter.works(1, "A plan is built once per key; later lookups count as hits.")
def test_plans_are_kept() -> None:
    executor = tnf.GraphExecutor(runtimes=[Planning()])
    planned(executor, 1.0, 2.0, 2.0, 2.0)
    stats = executor.extensions.caches.stats()[KEY]
    assert (stats.entries, stats.hits) == (2, 2)


@chapter.works(2, "Each executor has its own caches.")
def test_executors_apart() -> None:
    one, other = (tnf.GraphExecutor(runtimes=[Planning()]) for _ in range(2))
    planned(one, 1.0)
    assert (len(one.extensions.caches), len(other.extensions.caches)) == (1, 0)


@chapter.works(3, "An eager runtime has its own caches, which `cache_clear` empties.")
def test_eager_runtimes() -> None:
    eager = tnf.EagerRuntime(runtimes=[Planning()])
    apply(Scale(), eager.constant(X))
    assert eager.executor.extensions.caches.retained_bytes > 8000
    eager.cache_clear()
    assert eager.executor.extensions.caches.retained_bytes == 0


@chapter.works(4, "`GraphCompiler` has its own caches, in which einsum stores its plans.")
def test_compilers() -> None:
    compiler = tnf.GraphCompiler()
    compiler.compile(lambda x: tnf.einsum("ij,jk->ik", x, x), np.eye(2))
    assert len(compiler.extension_caches) > 0
    compiler.extension_caches.clear()
    assert len(compiler.extension_caches) == 0


@chapter.works(5, "An `AdContext` has its own caches, which `cache_clear` empties.")
def test_contexts() -> None:
    context = tnf.AdContext(cache_size=3)
    store = context.extension_caches.store(KEY)
    store.get(0, lambda: np.zeros(10))
    assert store.capacity == 3
    context.cache_clear()
    assert len(context.extension_caches) == 0


@chapter.works(6, "A store has at most 256 entries unless its owner sets another limit.")
def test_capacities() -> None:
    assert tnf.GraphExecutor().extensions.caches.store(KEY).capacity == 256
    assert tnf.GraphExecutor(cache_size=7).extensions.caches.store(KEY).capacity == 7
    executor = tnf.GraphExecutor(cache_size=2, runtimes=[Planning()])
    planned(executor, 1.0, 2.0, 3.0)
    assert executor.extensions.caches.stats()[KEY].entries == 2


@chapter.works(7, "The least recently used entry is evicted first.")
def test_least_recently_used() -> None:
    store = ExtensionCaches(capacity=2).store(KEY)
    for key in ("a", "b", "a", "c"):
        store.get(key, lambda key=key: key)
    assert [key for key, _ in store.items()] == ["a", "c"]


@chapter.works(8, "The number of stores is bounded, too.")
def test_number_of_stores() -> None:
    caches = ExtensionCaches(capacity=4)
    for number in range(20):
        caches.store(ExtensionCacheKey(Scale.family_id, str(number))).get(0, lambda: 0)
    assert len(caches.stats()) == 4


@chapter.works(9, "The bytes of a store are bounded.")
def test_bounded_bytes() -> None:
    store = ExtensionCaches(max_bytes=20_000).store(KEY)
    for number in range(5):
        store.get(number, lambda: np.zeros(1000))
    assert store.stats().nbytes <= 20_000
    assert store.stats().entries == 2


class Plan:
    def __init__(self) -> None:
        self.workspace = [np.zeros(1000)]


@chapter.table(
    "entry",
    {
        10: Row("`retained_bytes` includes arrays.", np.zeros(1000)),
        11: Row(
            "`retained_bytes` includes the contents of tuples and dicts.", ({"a": np.zeros(1000)},)
        ),
        12: Row("`retained_bytes` includes the attributes of plan objects.", Plan()),
    },
)
def test_retained_bytes(entry: Any) -> None:
    caches = ExtensionCaches()
    caches.store(KEY).get(0, lambda: entry)
    assert 8000 <= caches.retained_bytes < 10_000
    caches.clear()
    assert caches.retained_bytes == 0


@chapter.works(13, "`GraphExecutor.cache_clear` empties the stores of extensions, too.")
def test_executors_clear() -> None:
    executor = tnf.GraphExecutor(runtimes=[Planning()])
    planned(executor, 1.0)
    assert executor.extensions.caches.retained_bytes > 8000
    executor.cache_clear()
    assert executor.extensions.caches.retained_bytes == 0


@chapter.works(14, "Replacing a runtime drops its plans.")
def test_replaced_runtimes() -> None:
    executor = tnf.GraphExecutor(runtimes=[Planning()])
    planned(executor, 1.0)
    executor.register_runtime(Planning(), replace=True)
    assert len(executor.extensions.caches) == 0


@chapter.works(15, "The plans of einsum are counted and bounded like those of any family.")
def test_einsum() -> None:
    from tenferro.ext.einsum import Einsum

    executor, matrix = tnf.GraphExecutor(), np.eye(3)
    program = tnf.compile(lambda x: apply(Einsum(("ij", "jk", "kl"), "il"), x, x, x), matrix)
    np.testing.assert_array_equal(executor.run(program, matrix), matrix)
    stats = executor.extensions.caches.stats().values()
    assert stats
    assert all(store.nbytes > 0 and store.capacity == 256 for store in stats)


@chapter.works(
    16, "The compiled programs of an executor are counted and bounded, and can be cleared."
)
def test_programs() -> None:
    executor = tnf.GraphExecutor(cache_size=2)
    for extent in (1, 2, 3):
        executor.run(tnf.compile(lambda x: x + 1, np.ones(extent)), np.ones(extent))
    assert executor.cache_stats().entries == 2
    executor.cache_clear()
    assert executor.cache_stats().entries == 0


@chapter.differs(
    17,
    "`tnf.einsum` is traced as contractions, so executors cache no plan for it.",
    because="derivatives, fusion and StableHLO work on contractions, and a run needs no lookup",
)
def test_einsum_is_expanded() -> None:
    program = tnf.compile(lambda x: tnf.einsum("ij,jk->ik", x, x), np.eye(2))
    assert program.families == ()
    executor = tnf.GraphExecutor()
    executor.run(program, np.eye(2))
    assert len(executor.extensions.caches) == 0


@chapter.works(18, "Equal programs share compiled code.")
def test_shared_programs() -> None:
    executor = tnf.GraphExecutor()
    planned(executor, 1.0, 1.0)
    assert executor.cache_stats().entries == 1


@chapter.works(19, "The derivatives that a context caches are bounded in number and in bytes.")
def test_bounded_contexts() -> None:
    def power(x: Any, exponent: int) -> Any:
        for _ in range(exponent):
            x = tnf.sin(x)
        return x

    context = tnf.AdContext(cache_bytes=100 * 400)
    for exponent in range(10, 20):
        tnf.grad(lambda x, exponent=exponent: power(x, exponent), context=context)(0.5)
    stats = context.cache_stats()
    assert stats.misses == 10
    assert 0 < stats.entries < 5
    assert stats.nbytes <= 100 * 400
    few = tnf.AdContext(cache_size=2)
    for exponent in range(3):
        tnf.grad(lambda x, exponent=exponent: power(x, exponent), context=few)(0.5)
    assert few.cache_stats().entries == 2
