"""Equal programs must share their constants and their compiled code."""

from __future__ import annotations

import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.extension import HostReferenceRuntime
from tenferro.ops.source import Constant
from tenferro.program import BoundedCache, GraphProgram
from tests.extension.test_contract import ID, Scale
from xla_peer import XlaExecutor

W = np.random.default_rng(0).standard_normal((64, 400))
X = np.ones((2, 64))


def of_weights(w: Any, name: str = "x") -> GraphProgram:
    return tnf.compile(lambda x: tnf.sum(tnf.tanh(x @ w)), X)


def constants(program: GraphProgram) -> list[Constant]:
    return [i.op for i in program.instructions if isinstance(i.op, Constant)]


def resident() -> int:
    """Return the resident memory of this process, in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("executor", [tnf.GraphExecutor, XlaExecutor])
def test_copies_of_a_program_are_compiled_once(executor: Any) -> None:
    runs = executor()
    written = pickle.dumps(of_weights(W))
    results = [runs.run(pickle.loads(written), X) for _ in range(12)]
    assert all(result == results[0] for result in results)
    stats = runs.cache_stats()
    assert (stats.misses, stats.entries) == (1, 1)


def test_equal_programs_have_equal_fingerprints_and_others_not() -> None:
    program, same, other = of_weights(W), of_weights(W.copy()), of_weights(W + 1e-9)
    assert program == same
    assert hash(program) == hash(same)
    assert program != other
    assert program != tnf.compile(lambda x: tnf.sum(x), X)
    assert {program: 1}[same] == 1


def test_an_error_tells_the_line_of_the_program_that_ran() -> None:
    """Two functions that compute the same must be different programs in errors.

    An error must name the line of the function that ran.
    """
    runs = tnf.GraphExecutor(check_finite=True)
    x = np.array([-1.0])
    first = tnf.compile(lambda x: tnf.log(x), x)
    second = tnf.compile(lambda x: tnf.log(x), x)
    assert first == second
    lines = []
    for program in (first, second):
        with pytest.raises(tnf.errors.NonFiniteError) as caught:
            runs.run(program, x)
        lines.append(str(caught.value).rpartition("test_identity.py:")[2])
    assert lines[0] != lines[1]


def test_constants_are_kept_once() -> None:
    program = of_weights(W)
    gradient = tnf.compile(tnf.grad(lambda x: tnf.sum(tnf.tanh(x @ W))), X)
    copy = pickle.loads(pickle.dumps(program, protocol=2))
    first, *others = [op for p in (program, gradient, copy) for op in constants(p)
                      if memoryview(op.data).nbytes == W.nbytes]  # fmt: skip
    assert len(others) >= 2
    assert all(op.data is first.data for op in others)
    assert not first.array.flags.writeable
    np.testing.assert_array_equal(first.array, W)


@pytest.mark.parametrize("dtype", [*tnf.DType], ids=str)
def test_constants_on_both_sides_of_the_size_that_is_shared(dtype: tnf.DType) -> None:
    for count in ((1 << 16) // dtype.itemsize + step for step in (-1, 0, 1)):
        array = np.arange(count).astype(dtype.dtype)
        op = Constant.of(array)
        assert op == Constant.of(array.copy())
        assert hash(op) == hash(Constant(dtype, (count,), array.tobytes()))
        changed = array.copy()
        changed[-1] = not changed[-1]
        assert op != Constant.of(changed)
        again = pickle.loads(pickle.dumps(op))
        assert again == op
        assert again.array.tobytes() == array.tobytes()


def test_minus_zero_is_another_constant() -> None:
    zeros = np.zeros(20_000)
    assert Constant.of(zeros) != Constant.of(-zeros)


def test_memory_through_xla() -> None:
    """To compile a program with a large constant for XLA, only one copy of the constant may be allocated."""
    large = np.full((1024, 16384), 0.5)  # 128 MB, so that a second copy would show
    x = np.ones((1, 1024))
    xla = XlaExecutor("cpu")
    xla.run(tnf.compile(lambda x: tnf.sum(x @ x.T), x), x)
    before = resident()
    program = tnf.compile(lambda x: tnf.sum(x @ large), x)
    assert xla.run(program, x) == 512.0 * 16384
    assert resident() - before < 1.3 * large.nbytes
    assert xla.cache_stats().nbytes == large.nbytes


def test_caches_are_bounded_in_bytes() -> None:
    runs = tnf.GraphExecutor(cache_bytes=3 * W.nbytes)
    for shift in range(8):
        runs.run(of_weights(W + shift), X)
    stats = runs.cache_stats()
    assert (stats.entries, stats.evictions, stats.nbytes) == (3, 5, 3 * W.nbytes)
    small = tnf.GraphExecutor(cache_bytes=1)
    small.run(of_weights(W), X)
    assert small.cache_stats().entries == 1


def test_a_bound_in_bytes_keeps_the_last() -> None:
    cache: BoundedCache[int] = BoundedCache(10, max_bytes=5, size=lambda value: value)
    for value in (2, 3, 4, 9, 1):
        cache.get(value, lambda value=value: value)
    assert cache.entries() == [1]
    assert cache.stats().nbytes == 1
    cache.clear()
    assert cache.stats().nbytes == 0


def test_executors_pickle_by_what_made_them() -> None:
    native = pickle.loads(pickle.dumps(tnf.GraphExecutor("C", 1, cache_size=7, check_finite=True)))
    assert (native.order, native.threads, native.cache_stats().capacity) == ("C", 1, 7)
    xla = pickle.loads(pickle.dumps(XlaExecutor("cpu", order="C", cache_size=9)))
    assert (xla.platform, xla.order, xla.cache_stats().capacity) == ("cpu", "C", 9)
    program = of_weights(W)
    assert native.run(program, X) == pytest.approx(float(xla.run(program, X)))


def test_a_class_that_has_an_old_one_s_name_is_another() -> None:
    """Two op classes with the same name must be different.

    If a cell of a notebook runs again, it defines a new class.
    """

    def program_of(factor: float) -> GraphProgram:
        class Scaled(Scale):
            def eager_execute(self, inputs: Any) -> Any:
                return [factor * inputs[0]]

        return tnf.compile(lambda x: tnf.extension.apply(Scaled(1.0), x), X)

    runs = tnf.GraphExecutor(runtimes=[HostReferenceRuntime(ID)])
    assert [runs.run(program_of(factor), X)[0, 0] for factor in (2.0, 3.0)] == [2.0, 3.0]


def test_what_a_cache_drops_is_not_at_hand() -> None:
    """Recently run programs are found by a shortcut.

    The shortcut must not keep a program alive after the cache has evicted it.
    """
    executor = tnf.GraphExecutor(cache_size=1)
    x = np.ones(3)
    dropped = tnf.compile(lambda x: x + 1.0, x)
    executor.run(dropped, x)
    entry = weakref.ref(executor.compile(dropped, x))
    assert executor.run(dropped, x)[0] == 2.0
    executor.run(tnf.compile(lambda x: x + 2.0, x), x)
    gc.collect()
    assert entry() is None
    cache: BoundedCache[int] = BoundedCache()
    for number in range(100):
        cache.keep_at_hand(number, number)
        assert cache.at_hand[number] == number
    assert len(cache.at_hand) < 100
    cache.clear()
    assert not cache.at_hand


def test_fingerprints_tell_trees_apart() -> None:
    def of_result(name: str) -> str:
        return tnf.compile(lambda x: {name: x + 1.0}, X).fingerprint

    def of_argument(name: str) -> str:
        return tnf.compile(lambda xs: xs[name] + 1.0, {name: X}).fingerprint

    assert of_result("a") == of_result("a") != of_result("b")
    assert of_argument("a") == of_argument("a") != of_argument("b")


def test_families_of_loops_and_branches_are_the_programs() -> None:
    def f(x: Any) -> Any:
        y = tnf.fori_loop(0, 3, lambda i, y: tnf.real(tnf.fft.fft(y)), x)
        return tnf.cond(
            tnf.sum(y) > 0, lambda y: tnf.linalg.cholesky(y @ y.T)[0], lambda y: y[0], y[:, :2]
        )

    families = tnf.compile(f, np.ones((2, 3))).families
    assert families == ("tenferro.cholesky.v1", "tenferro.fft.v1")


def test_depth_counts_bodies_within_bodies() -> None:
    def nested(depth: int) -> Any:
        return tnf.compile(lambda x: _loops(depth, x), np.ones(3))

    def _loops(depth: int, x: Any) -> Any:
        return tnf.fori_loop(0, 2, lambda i, y: _loops(depth - 1, y), x) if depth else tnf.sin(x)

    for depth in (1, 2, 5):
        (body,) = [step.op.body for step in nested(depth).instructions if hasattr(step.op, "body")]
        assert body.depth == depth


def test_what_was_asked_for_last_is_kept() -> None:
    cache: BoundedCache[int] = BoundedCache(2)
    for key in "abac":
        cache.get(key, lambda: 0)
    assert [key for key, _ in cache.items()] == ["a", "c"]


def test_a_cleared_cache_keeps_no_key() -> None:
    class Key:
        """A cache key that is equal only to itself."""

    cache: BoundedCache[int] = BoundedCache(2)
    key = Key()
    cache.get(key, lambda: 0)
    seen = weakref.ref(key)
    del key
    gc.collect()
    assert seen() is not None
    cache.clear()
    gc.collect()
    assert seen() is None


def test_bytes_after_a_clear_are_those_of_new_entries() -> None:
    cache: BoundedCache[int] = BoundedCache(10, max_bytes=100, size=lambda value: value)
    for _ in range(2):
        cache.get("a", lambda: 7)
        assert cache.stats().nbytes == 7
        cache.clear()


def test_fingerprints_are_without_the_lines_of_guards() -> None:
    """The source lines of guards must appear in errors, and count for equality of programs.

    They must not count for fingerprints.
    """
    spec = tnf.TensorSpec(("n",), "float64")
    one = tnf.compile(lambda x: tnf.argmin(x), spec)
    other = tnf.compile(lambda x: tnf.argmin(x), spec)
    longer = tnf.compile(lambda x: tnf.argmin(x[1:]), spec)
    assert "test_identity.py" in str(one.guards[0].source)
    assert one.guards == other.guards != longer.guards
    assert one.fingerprint == other.fingerprint != longer.fingerprint
    assert one.identity != other.identity
