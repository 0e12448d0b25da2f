"""During a compiled loop, signal handlers must run between chunks of iterations, and exceptions must end the loop."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tenferro as tnf

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer's signal")
X = np.ones(2)
FOREVER = 10**12
SECONDS = 0.1


class Interrupted(Exception):
    """Exception of the signal handlers in these tests."""


@contextmanager
def timer(handler: Callable[..., None], interval: float = 0.0) -> Generator[None]:
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, SECONDS, interval)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def endless(x: Any) -> Any:
    return tnf.while_loop(lambda y: y[0] < 2.0, lambda y: y * 0.5, x)


def repeated(body: Callable[[Any], Any], iterations: int = FOREVER) -> Callable[[Any], Any]:
    return lambda x: tnf.scan(lambda y, _: (body(y), None), x, None, length=iterations)[0]


def halved(x: Any) -> Any:
    """Run a while loop of few iterations."""
    return tnf.while_loop(lambda y: y[0] > 0.1, lambda y: y * 0.5, x) + 1.0


CASES = {
    "while": endless,
    "scan": repeated(lambda y: y * 0.999),
    "while in a scan": repeated(endless, 3),
    "while of few iterations in a scan": repeated(halved),
    "scans in a scan": repeated(repeated(lambda y: y * 0.999, 1_000_000), 1_000_000),
    "scan in a while": lambda x: tnf.while_loop(
        lambda y: y[0] < 2.0, repeated(lambda y: y * 0.5, 1000), x
    ),
    "while in a choice": repeated(lambda y: tnf.cond(y[0] < 2.0, endless, lambda z: z * 0.5, y), 3),
    "products": repeated(lambda y: tnf.outer(y, y) @ y * 0.1 + 1.0),
    "kernels that are called": repeated(lambda y: tnf.polygamma(1, y + 2.0) * 0.1 + 1.0),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", CASES)
def test_the_exception_of_a_handler_ends_a_loop(name: str) -> None:
    program = tnf.compile(CASES[name], X)
    executor = tnf.GraphExecutor("K", compiled=True)
    raised: list[float] = []

    def interrupt(*_: object) -> None:
        raised.append(time.perf_counter())
        raise Interrupted

    for _ in range(2):  # because the first run also compiles
        # The signal is repeated, because Python drops the exception of a handler that it calls in a finaliser.
        with timer(interrupt, interval=50 * SECONDS), pytest.raises(Interrupted):
            executor.run(program, X)
        # The time from the handler's exception to the end of the run.
        assert time.perf_counter() - raised[-1] < 10


def test_a_loop_continues_after_a_handler_returns() -> None:
    calls: list[int] = []
    program = tnf.compile(repeated(lambda y: tnf.cos(y), 30_000_000), X)
    executor = tnf.GraphExecutor("K", compiled=True)
    with timer(lambda *_: calls.append(1), interval=SECONDS / 2):
        y = executor.run(program, X)
    assert y == pytest.approx([0.7390851332151607] * 2)
    assert len(calls) > 1


def test_chunks_of_a_loop_are_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenferro.exec.llvm.python_calls.CHUNK_WORK", 50)

    def f(x: Any, xs: Any) -> Any:
        def iteration(carry: Any, row: Any) -> Any:
            y, count = carry
            y = tnf.while_loop(lambda z: z[0] > 0.5, lambda z: z * 0.75, y) + row
            return (y, count + 1), y * 2.0

        return tnf.scan(iteration, (x, 0), xs), tnf.scan(iteration, (x, 0), xs, reverse=True)

    xs = np.random.default_rng(0).random((97, 2))
    program = tnf.compile(f, X, xs)
    expected = tnf.GraphExecutor("K", compiled=False).run(program, X, xs)
    compiled = tnf.GraphExecutor("K", compiled=True).run(program, X, xs)
    assert "define internal i64 @loop" in program.source("llvm")
    for y, wanted in zip(tnf.tree.leaves(compiled), tnf.tree.leaves(expected), strict=True):
        assert np.asarray(y).tobytes() == np.asarray(wanted).tobytes()
