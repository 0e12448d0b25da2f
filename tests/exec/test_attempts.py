"""If compilation raises an error, the step must be interpreted, and the user must see no error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import tenferro as tnf
from tenferro.compile_cache import CompileCache
from tenferro.errors import CompileWarning
from tenferro.exec import attempts
from tenferro.exec.attempts import FAILED_ATTEMPTS_VARIABLE, CompileLog, NotCompiledError
from tenferro.exec.kernels import copying
from tenferro.exec.llvm import (
    block,
    group,
    link,
    loop,
    strip_loop,
    sums_of_products,
    transposing_copy,
)
from tenferro.exec.plan import block as plan_block
from tenferro.exec.plan import group as plan_group
from tenferro.extension import ExtensionOp, HostReferenceRuntime, apply, extension_family

pytestmark = pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")

X = np.linspace(0.1, 1.0, 7)
LARGE = np.linspace(0.1, 1.0, 300_000).reshape(3, 100_000)
WIDE = np.linspace(0.1, 1.0, 1 << 18).reshape(1024, 256)
A = np.array([[4.0, 1.0, 0.5], [2.0, 3.0, 0.1], [0.3, 0.2, 5.0]])


def looped(x: Any) -> Any:
    """Run a loop that cannot be cut into strips, because a cumulative sum connects the elements."""
    return tnf.fori_loop(0, 50, lambda i, c: tnf.cumsum(tnf.sin(c)) * 0.5 + x, x)


def unbounded(x: Any) -> Any:
    """Run a while loop."""
    return tnf.while_loop(lambda c: tnf.sum(c) < 90.0, lambda c: tnf.cumsum(c) * 0.01 + c + 0.1, x)


def in_strips(x: Any) -> Any:
    """Run a scan that can be cut into strips: each element of the carry depends only on itself."""
    return tnf.scan(lambda c, _: (c * 0.5 + x, None), x, None, length=20)[0]


def fused(x: Any) -> Any:
    """Run a fused group of elementwise ops."""
    return tnf.exp(x) * x + tnf.sin(x)


def softmax(x: Any) -> Any:
    """Run a fused group with reductions along rows."""
    e = tnf.exp(x - tnf.max(x, axis=-1, keepdims=True))
    return e / tnf.sum(e, axis=-1, keepdims=True)


def stepwise(x: Any) -> Any:
    """Run ops on few elements, which are compiled as a block."""
    return tnf.linalg.solve(x + x.T, tnf.sum(x @ x, axis=0)) * 2.0 + 1.0


def convolved(x: Any) -> Any:
    """Run a convolution that is large enough for compilation."""
    kernel = tnf.reshape(x[0, :4608] + 1.0, (3, 3, 16, 32))
    images = tnf.reshape(x[1, :25_600], (1, 40, 40, 16))
    layout = ("NHWC", "HWIO", "NHWC")
    return tnf.lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=layout)


class Place(NamedTuple):
    """Function of the compiler that raises an error in a test, and a program whose compilation calls it."""

    owner: Any
    name: str
    function: Callable[..., Any]
    array: Any
    options: Any = ()


ADDS_PRODUCTS = link.is_installed() and link.processor().has_fma
"""Whether convolutions can be compiled for this processor, which must have fused multiply-adds."""
PLACES = [
    Place(loop, "written_loop", looped, X),
    Place(loop, "written_loop", unbounded, X),
    Place(loop, "estimated_cost", looped, X, (("compiled", "auto"),)),
    Place(loop, "strip_mine", in_strips, LARGE[0]),
    Place(strip_loop, "written_strip", in_strips, LARGE[0]),
    Place(plan_group, "_cost", fused, LARGE, (("compiled", "auto"),)),
    Place(group, "_row_program", fused, LARGE),
    Place(plan_block, "_cost", stepwise, A),
    Place(plan_block, "_fits", stepwise, A),
    Place(plan_block, "program_of", stepwise, A),
    Place(block, "_written", stepwise, A),
    *[Place(sums_of_products, "module_of", convolved, LARGE) for _ in range(ADDS_PRODUCTS)],
    *[
        Place(transposing_copy, "module_of", softmax, WIDE, (("order", "F"),))
        for _ in range(1)
        if link.is_installed() and link.processor().lanes >= transposing_copy.MIN_LANES
    ],
    *[
        Place(link, name, function, array)
        for name in ("processor", "_shared", "_compiled", "_in_memory")
        for function, array in [
            (looped, X),
            (unbounded, X),
            (in_strips, LARGE[0]),
            (fused, LARGE),
            (stepwise, A),
            *[(convolved, LARGE)] * ADDS_PRODUCTS,
        ]
    ],
]
NAMES = [f"{place.name}-{place.function.__name__}" for place in PLACES]


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count failures instead of raising them, as in a user's process that has already shown its warning."""
    monkeypatch.setenv(FAILED_ATTEMPTS_VARIABLE, "")
    monkeypatch.setattr("tenferro.process_warnings._warned", {CompileWarning})


@pytest.fixture(autouse=True)
def small_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile transposing copies also for the small results of these tests."""
    monkeypatch.setattr(copying, "MIN_TILED_BYTES", 0)


def broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("broken by this test")


def executor_at(place: Place) -> tnf.GraphExecutor:
    options: Any = {"order": "K", "compiled": True, "threads": 2} | dict(place.options)
    return tnf.GraphExecutor(**options)


def by_interpreter(place: Place) -> Any:
    executor = tnf.GraphExecutor("K", compiled=False)
    return executor.run(tnf.compile(place.function, place.array), place.array)


@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize("place", PLACES, ids=NAMES)
def test_a_failed_attempt_means_not_compiled(place: Place, monkeypatch: Any) -> None:
    expected = by_interpreter(place)
    monkeypatch.setattr(place.owner, place.name, broken)
    executor, program = executor_at(place), tnf.compile(place.function, place.array)
    for _ in range(4):
        y = executor.run(program, place.array)
        np.testing.assert_allclose(y, expected, rtol=1e-12)
    failures = executor.compile_stats().failures
    assert "RuntimeError: broken by this test" in [each.reason for each in failures]
    assert "# failed to compile: " in str(executor.compile(program))


@pytest.mark.parametrize("place", PLACES, ids=NAMES)
def test_in_this_suite_it_raises(place: Place, monkeypatch: Any) -> None:
    monkeypatch.setattr(place.owner, place.name, broken)
    executor, program = executor_at(place), tnf.compile(place.function, place.array)

    def run() -> None:
        for _ in range(4):
            executor.run(program, place.array)

    with pytest.raises(RuntimeError, match="broken by this test"):
        run()


@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize("name", ["load", "store"])
def test_the_cache_folder(name: str, monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setattr(CompileCache, name, broken)
    executor = tnf.GraphExecutor("K", compiled=True, cache_dir=tmp_path)
    y = executor.run(tnf.compile(looped, X), X)
    np.testing.assert_allclose(y, by_interpreter(Place(loop, "", looped, X)), rtol=1e-12)
    stats = executor.compile_stats()
    assert stats.compiled["loop"] > 0
    assert "cache folder" in stats.failures[0].attempt


@pytest.mark.usefixtures("counting")
def test_remarks_say_what_failed(monkeypatch: Any) -> None:
    monkeypatch.setattr(link, "_compiled", broken)
    for function, array in ((looped, X), (in_strips, LARGE[0]), (fused, LARGE)):
        executor, program = tnf.GraphExecutor("K", compiled=True), tnf.compile(function, array)
        executor.run(program, array)
        assert "interpreted: failed: RuntimeError: broken by this test" in str(
            executor.compile(program)
        )


# ---- exceptions that are not the guard's -----------------------------------------------------------


@extension_family("tenferro-tests", "refusing", version=1)
@dataclass(frozen=True)
class Refusing(ExtensionOp):
    """y = x + 1, an op with a `Runtime`."""

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [inputs[0] + 1.0]


class Runtime(HostReferenceRuntime):
    """Runtime whose method `compiled_routine` raises an error in the call with the number `fault`, counted from 1."""

    def __init__(self, fault: int | None = None) -> None:
        super().__init__(Refusing.family_id)
        self.fault = fault
        self.count = 0

    def compiled_routine(self, op: Any) -> Any:
        self.count += 1
        if self.count == self.fault:
            raise ZeroDivisionError("the user's own")
        return None


@pytest.mark.usefixtures("counting")
def test_exceptions_of_user_code_pass() -> None:
    """Errors of a user's runtime must reach the user, and must not count as failures."""

    def step(_: Any, x: Any) -> Any:
        return tnf.sin(tnf.cos(apply(Refusing(), tnf.sin(x))))

    program = tnf.compile(lambda x: tnf.fori_loop(0, 50, step, x), X)
    unbroken = Runtime()
    executor = tnf.GraphExecutor("K", compiled=True, runtimes=[unbroken])
    executor.run(program, X)
    assert unbroken.count
    for number in range(1, unbroken.count + 1):
        executor = tnf.GraphExecutor("K", compiled=True, runtimes=[Runtime(number)])
        with pytest.raises(ZeroDivisionError, match="the user's own"):
            executor.run(program, X)
        assert executor.compile_stats().failures == ()


@pytest.mark.usefixtures("counting")
def test_exceptions_of_passes_pass() -> None:
    calls = []

    def later_broken(program: Any) -> Any:
        calls.append(program)
        return program if len(calls) == 1 else broken()

    executor = tnf.GraphExecutor("K", compiled=True, passes=[later_broken])
    with pytest.raises(RuntimeError, match="broken by this test"):
        executor.run(tnf.compile(looped, X), X)


# ---- the log ----------------------------------------------------------------------------------------


def test_a_refusal_is_no_failure() -> None:
    log = CompileLog()
    with pytest.raises(NotCompiledError, match="does not pay"), log.attempt("loop"):
        raise NotCompiledError("does not pay")
    assert log.stats().failures == ()


@pytest.mark.usefixtures("counting")
def test_kinds_of_failures_are_bounded() -> None:
    log = CompileLog()
    for number in (*range(100), 3):
        with pytest.raises(NotCompiledError), log.attempt("loop"):
            raise ValueError(f"{number}\nmore")
    failures = log.stats().failures
    assert len(failures) == attempts.MAX_FAILURES
    assert failures[3] == ("loop", "ValueError: 3", 2)
    assert str(failures[3]) == "loop: ValueError: 3 (2 times)"


def test_one_warning_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FAILED_ATTEMPTS_VARIABLE, "")
    monkeypatch.setattr("tenferro.process_warnings._warned", set[type[Warning]]())

    def fail() -> None:
        with pytest.raises(NotCompiledError), CompileLog().attempt("loop"):
            broken()

    with pytest.warns(CompileWarning, match="could not compile a loop, and interprets it"):
        fail()
    fail()  # only the first failure warns: a second warning would be an error here


def test_counts_of_what_was_compiled() -> None:
    executor = tnf.GraphExecutor("K", compiled=True)
    assert executor.compile_stats().compiled == {}
    for function, array in ((looped, X), (in_strips, LARGE[0]), (fused, LARGE), (stepwise, A)):
        executor.run(tnf.compile(function, array), array)
    compiled = executor.compile_stats().compiled
    assert {"loop", "loop of strips", "fused group", "compiled block"} <= compiled.keys()
    executor.cache_clear()
    assert executor.compile_stats().compiled == {}
