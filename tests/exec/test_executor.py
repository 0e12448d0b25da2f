"""The executor's options and counters, and the stages of a run."""

from __future__ import annotations

import inspect
import pickle
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.compile_cache import CACHE_VARIABLE
from tenferro.exec.backend import Backend
from tenferro.exec.finite import strange
from tenferro.exec.interpreter import results_of
from tenferro.exec.latest import Latest
from tenferro.exec.llvm.link import is_installed
from tenferro.exec.printer import Names
from tenferro.extension import ExtensionCacheKey, HostReferenceRuntime
from tenferro.ops.analytic import Exp
from tenferro.ops.elementwise import Add, Multiply
from tenferro.ops.reduction import TopK
from tenferro.types import DType

X = np.array([0.5, -1.0, 2.0])
OTHER = Backend("other", {Multiply: lambda op, x, y: x * y})
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "order": ({"order": "A"}, "order must be "), "no threads": ({"threads": 0}, "threads must be an integer from 1, got 0"),
    "threads": ({"threads": True}, "threads must be an integer from 1, got True"), "compiled": ({"compiled": "no"}, "compiled must be "),
    "a list": ({"compiled": []}, "compiled must be "),
    "finite": ({"check_finite": True, "backend": OTHER}, "check_finite looks at NumPy's arrays only"),
    "backend": ({"compiled": True, "backend": OTHER}, "not those of backend 'other'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_options_that_mean_nothing(name: str) -> None:
    options, message = WRONG[name]
    with pytest.raises(errors.InvalidConfigError, match=f"GraphExecutor: .*{message}"):
        tnf.GraphExecutor(**options)


def test_options_that_are_left_out() -> None:
    defaults = {name: p.default for name, p in inspect.signature(tnf.GraphExecutor).parameters.items()}  # fmt: skip
    options = {"order": "F", "threads": None, "segmented": True, "check_finite": False, "passes": None,
               "cache_size": 256, "cache_bytes": 2**30, "memory_bytes": 2**30, "compiled": "auto",
               "cache_dir": None, "runtimes": ()}  # fmt: skip
    assert {name: defaults[name] for name in options} == options
    executor = tnf.GraphExecutor()
    assert executor.memory.stats().capacity == 2**30
    assert executor.cache_stats().capacity == 256
    assert repr(executor) == "<GraphExecutor order='F', threads=None: 0 programs>"


def test_options_are_kept_by_pickling() -> None:
    runtime = HostReferenceRuntime("tenferro-tests.kept.v1")
    executor = tnf.GraphExecutor(
        "C", 3, segmented=False, cache_size=7, memory_bytes=100, compiled=False, check_finite=True, runtimes=[runtime]
    )  # fmt: skip
    again = pickle.loads(pickle.dumps(executor))
    for one in (executor, again):
        assert (one.order, one.threads, one.segmented, one.check_finite) == ("C", 3, False, True)
        assert (one.memory.stats().capacity, one.cache_stats().capacity) == (100, 7)
        key = ExtensionCacheKey("tenferro-tests.kept.v1", "plans")
        assert one.extensions.caches.store(key).capacity == 7
        assert one.compiler is None
        assert [each.family_id for each in one.extensions.registered] == ["tenferro-tests.kept.v1"]
    assert pickle.loads(pickle.dumps(tnf.GraphExecutor(threads=2))).threads == 2


@pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
def test_who_compiles_and_where_machine_code_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for options in ({"compiled": False}, {"check_finite": True}, {"backend": OTHER}):
        executor = tnf.GraphExecutor(cache_dir=tmp_path, **options)
        assert (executor.compiler, executor.compile_cache) == (None, None)
        assert executor.compile_cache_stats() is None
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    assert tnf.GraphExecutor().compiler is not None
    assert tnf.GraphExecutor().compile_cache is None
    assert tnf.GraphExecutor(cache_dir=tmp_path).compile_cache is not None
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    assert tnf.GraphExecutor().compile_cache is not None
    assert tnf.GraphExecutor(cache_dir="").compile_cache is None


def test_each_run_with_known_shapes_is_a_hit() -> None:
    executor, program = tnf.GraphExecutor(), tnf.compile(lambda x: x * 2.0, tnf.TensorSpec(("n",), "f8"))  # fmt: skip
    counts: list[tuple[int, int, int]] = []
    for x in (X, X, X[:2], X[:2], X):
        executor.run(program, x)
        stats = executor.cache_stats()
        counts.append((stats.hits, stats.misses, stats.entries))
    assert counts == [(0, 1, 1), (1, 1, 1), (1, 2, 2), (2, 2, 2), (3, 2, 2)]
    executor.run_leaves(program, [X])
    assert executor.cache_stats().hits == 4
    assert repr(executor).endswith(": 2 programs>")
    executor.cache_clear()
    stats = executor.cache_stats()
    assert (stats.hits, stats.misses, stats.entries) == (0, 0, 0)


def test_what_is_asked_for_of_a_program() -> None:
    executor, program = tnf.GraphExecutor(), tnf.compile(lambda x: x * 2.0, X)
    for runs in (0, True):
        with pytest.raises(errors.InvalidConfigError, match=f"runs must be at least 1, got {runs}"):
            executor.profile(program, X, runs=runs)
    assert executor.profile(program, X, runs=1).runs == 1
    with pytest.raises(errors.InvalidConfigError, match="not those of backend 'other'"):
        tnf.GraphExecutor(backend=OTHER).profile(program, X)
    with pytest.raises(errors.InvalidConfigError, match=r"source: of .*llvm.*, got 'c'"):
        executor.source(program, "c")
    assert executor.source(program) == executor.source(program, X)


def test_an_op_by_itself() -> None:
    executor = tnf.GraphExecutor()
    (y,) = executor.apply(Add(), [X, X])
    np.testing.assert_array_equal(y, 2 * X)
    values, places = executor.apply(TopK(2), [X])
    assert (values.tolist(), places.tolist()) == ([2.0, 0.5], [2, 0])
    (y,) = tnf.GraphExecutor(backend=OTHER).apply(Multiply(), [X, X])
    np.testing.assert_array_equal(y, X * X)
    broken = Backend("broken", {Multiply: lambda op, x, y: 1 // 0})
    with pytest.raises(errors.BackendFailureError, match=r"Multiply: the kernel for f64\[3\] failed: ZeroDivision"):  # fmt: skip
        tnf.GraphExecutor(backend=broken).apply(Multiply(), [X, X])


def test_why_an_op_or_a_family_is_refused() -> None:
    executor = tnf.GraphExecutor(runtimes=[HostReferenceRuntime("tenferro-tests.here.v1")])
    for family in ("tenferro-tests.here.v1", "tenferro.cholesky.v1"):
        assert executor.refusal(family, DType.F64, "cpu") is None
    words = "extension: tenferro-tests.absent.v1: not registered on this executor"
    assert executor.refusal("tenferro-tests.absent.v1", DType.F64, "cpu") == words
    assert executor.refusal(Add, DType.F64, "cpu") is None
    other = tnf.GraphExecutor(backend=OTHER)
    assert other.refusal(Multiply, DType.F64, "cpu") is None
    assert "backend 'other' has no kernel" in str(other.refusal(Add, DType.F64, "cpu"))


# ---- stages of a run ---------------------------------------------------------------------------------

INF, NAN = np.inf, np.nan
STRANGE: dict[str, tuple[Any, list[Any], str | None]] = {
    "finite": ([1.0, 2.0], [[1.0, 2.0]], None),
    "infinity of finite": ([1.0, INF], [[1.0, 3.0]], "made inf at [1] of 3.0; 1 of 2 elements"),
    "two operands": ([INF, -INF], [[1.0, 3.0], [4.0, 5.0]], "made inf at [0] of 1.0, 4.0; 2 of 2 elements"),
    "infinity of infinity": ([INF, INF], [[INF, 1.0]], None),
    "infinity of NaN": ([INF, 1.0], [[1.0, NAN]], None),
    "NaN of finite": ([NAN, 1.0], [[1.0, 3.0]], "made nan at [0] of 1.0; 1 of 2 elements"),
    "NaN of infinity": ([INF, NAN], [[INF, INF]], "made nan at [1] of inf; 1 of 2 elements"),
    "NaN of NaN": ([NAN, 1.0], [[1.0, NAN]], None),
    "NaN beside NaN of one operand": ([NAN, 1.0], [[1.0, INF], [NAN, 1.0]], None),
    "of integers": ([INF, 1.0], [[0, 1]], "made inf at [0] of 0; 1 of 2 elements"),
    "integers": ([1, 2], [[INF, NAN]], None),
    "truth": ([True, False], [[INF, NAN]], None),
    "another shape": ([INF, 1.0], [[[1.0, 2.0]]], "made inf at [0]; 1 of 2 elements"),
    "a matrix": ([[1.0, 2.0], [3.0, -INF]], [[[5.0, 6.0], [7.0, 8.0]]], "made -inf at [1, 1] of 8.0; 1 of 4 elements"),
}  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_what_is_strange(name: str) -> None:
    y, operands, words = STRANGE[name]
    assert strange(np.array(y), [np.array(x) for x in operands]) == words


@pytest.mark.parametrize(
    ("result", "count", "error"),
    [
        (X, 1, ""), ([X, X], 2, ""), (None, 0, ""), ((), 0, ""), (None, 1, "gives None in place of an array"),
        (None, 2, "gives 0 results, the op has 2"), ([X], 2, "gives 1 results, the op has 2"),
        ([X, X, X], 2, "gives 3 results"), ([X, None], 2, "gives None in place of an array"), ([X], 0, "gives 1 results"),
    ],
)  # fmt: skip
def test_results_of_a_kernel(result: Any, count: int, error: str) -> None:
    if error:
        with pytest.raises(errors.BackendFailureError, match=f"Exp: the kernel {error}"):
            results_of(Exp(), result, count)
    else:
        results = results_of(Exp(), result, count)
        assert [y is X for y in results] == [True] * count


def test_arguments_as_they_were_last_time() -> None:
    program, compiled = tnf.compile(lambda x: x, X), SimpleNamespace()
    latest = Latest.from_arguments(program, [X, np.float32(1)], compiled, False)
    assert latest is not None
    assert latest.has_scalars
    leaves = latest.leaves([X, np.float32(3)])
    assert leaves is not None
    assert (leaves[0] is X, type(leaves[1]), leaves[1].dtype, leaves[1].shape, leaves[1][()]) == (True, np.ndarray, np.float32, (), 3)  # fmt: skip
    for others in (
        [X], [X, np.float32(1), X], [X[:2], np.float32(1)], [X.astype("f4"), np.float32(1)],
        [X, np.float64(1)], [X, np.array(1, "f4")], [[0.5, -1.0, 2.0], np.float32(1)], [np.float32(1), X],
    ):  # fmt: skip
        assert latest.leaves(others) is None
    arrays = Latest.from_arguments(program, [X, X], compiled, False)
    assert arrays is not None
    assert not arrays.has_scalars
    same = [X, X]
    assert arrays.leaves(same) is same
    for others in ([X, 1.0], [[1.0], X], [np.float32(1), None]):
        assert Latest.from_arguments(program, others, compiled, False) is None


def test_values_are_deleted_after_their_last_use() -> None:
    def fn(x: Any, y: Any) -> Any:
        z = tnf.sin(x) + y
        return z * tnf.asarray(2.0), tnf.sort(z)

    program = tnf.compile(fn, X, X)
    lines = tnf.GraphExecutor("K", compiled=False, passes=()).source(program).splitlines()
    names = [re.findall(r"v\d+", line) for line in lines]
    for number, line in enumerate(lines[1:], 1):
        deleted = line.partition("; del ")[2].split(", ") if "; del " in line else []
        later = {name for each in names[number + 1 :] for name in each}
        assert not later.intersection(deleted)
        assert set(names[number]) <= {*later, *deleted} or line.startswith("    return")


def test_values_that_a_text_names_have_one_name_each() -> None:
    program: Any = SimpleNamespace(resources=SimpleNamespace(as_array=np.asarray))
    names = Names(program)
    one, two = object(), object()
    assert [names.value("c", one), names.value("c", two), names.value("d", one)] == ["c", "c_1", "c"]  # fmt: skip
    assert {"asarray", "c", "c_1"} == set(names.values)
    assert names.values["c_1"] is two
    step: Any = SimpleNamespace(is_ufunc=True, function=np.add, op=SimpleNamespace(name="Sum(1)"))
    call: Any = SimpleNamespace(is_ufunc=False, function=len, op=SimpleNamespace(name="a.b-c.v1(k=2)"))  # fmt: skip
    assert [names.function(step), names.function(call), names.function(step)] == ["add", "a_b_c_v1", "add"]  # fmt: skip
