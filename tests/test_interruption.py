"""An exception of a signal handler must reach the caller unchanged, wherever the signal arrives."""

from __future__ import annotations

import functools
import signal
import traceback
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import BackendFailureError
from tenferro.exec.printer import failed_step, printed
from tenferro.extension import ExtensionOp, HostReferenceRuntime, apply, extension_family
from tenferro.graph.source_line import line_of
from tenferro.interruption import is_interruption
from tenferro.program import native_executor


class TooLongError(Exception):
    pass


def plain(number: int, frame: Any) -> None:
    raise TooLongError


def starred(*_: Any) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    raise TooLongError


class Limit:
    def __call__(self, number: int, frame: Any) -> None:
        self.stop(number)

    def stop(self, number: int, *_: Any) -> None:
        raise TooLongError


def forgetful(number: int, frame: Any) -> None:
    del frame
    raise TooLongError


HANDLERS: dict[str, Any] = {
    "function": plain,
    "starred, and no longer installed": starred,
    "object": Limit(),
    "method": Limit().stop,
    "partial": functools.partial(Limit().stop),
    "forgets its frame": forgetful,
}


@pytest.fixture(params=HANDLERS)
def handler(request: pytest.FixtureRequest) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, HANDLERS[request.param])
    yield
    signal.signal(signal.SIGUSR1, before)


@extension_family("tests", "striking", 1)
class Striking(ExtensionOp):
    """Op whose runtime sends a signal, or raises an error, while it runs."""

    def __init__(self, strikes: bool = True) -> None:
        self.strikes = strikes

    input_count = output_count = 1

    def payload_hash(self) -> int:
        return hash(self.strikes)

    def payload_eq(self, other: Any) -> bool:
        return self.strikes == other.strikes

    def infer_output_meta(self, dtypes: Any, shapes: Any) -> Any:
        return [(dtypes[0], shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        if self.strikes:
            signal.raise_signal(signal.SIGUSR1)
            [None for _ in range(10)]
        raise ValueError("of the kernel")


def run(strikes: bool, way: str) -> Any:
    executor = tnf.GraphExecutor(
        runtimes=[HostReferenceRuntime("tests.striking.v1")],
        segmented=way != "unsegmented",
        check_finite=way == "checked",
    )
    x = np.ones(3 if way != "large" else 300_000)
    program = tnf.compile(lambda x: tnf.sin(apply(Striking(strikes), x)), x)
    return executor.run(program, x)


@pytest.mark.parametrize("way", ["first", "large", "unsegmented", "checked"])
def test_it_comes_out_of_a_program(handler: None, way: str) -> None:
    with pytest.raises(TooLongError):
        run(True, way)
    with pytest.raises(BackendFailureError, match="of the kernel"):
        run(False, way)


def test_it_comes_out_of_an_eager_operation(handler: None) -> None:
    runtime = tnf.EagerRuntime()
    runtime.register_runtime(HostReferenceRuntime("tests.striking.v1"))
    with pytest.raises(TooLongError):
        apply(Striking(), runtime.constant(np.ones(3)))


def test_a_time_limit_in_a_long_product() -> None:
    x = np.random.default_rng(0).standard_normal((700, 700))
    program = tnf.compile(lambda x: tnf.sort(tnf.sin(x) @ x), x)

    def run_for_long(delay: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, delay)
        for _ in range(1000):
            program.run(x)

    for _ in range(3):  # import all modules first, because pytest's import hook drops exceptions
        program.run(x)
    before = signal.signal(signal.SIGALRM, plain)
    try:
        for delay in (0.001, 0.005, 0.01):
            with pytest.raises(TooLongError):
                run_for_long(delay)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_errors_are_none() -> None:
    def raised(fn: Callable[[], Any]) -> Exception:
        try:
            fn()
        except Exception as error:
            return error
        raise AssertionError

    assert not is_interruption(raised(lambda: 1 // 0))
    assert not is_interruption(raised(lambda: np.linalg.inv(np.zeros((2, 2)))))


def raised_on_entry(file: str) -> TooLongError:
    """Raise an exception on entry to a function of a file, before its first line.

    An exception of a signal handler may be raised there, too.
    """

    def fails() -> None:
        raise TooLongError

    code: CodeType = fails.__code__.replace(co_filename=file, co_linetable=b"")
    with pytest.raises(TooLongError) as caught:
        FunctionType(code, globals())()
    assert caught.tb.tb_next is not None
    assert caught.tb.tb_next.tb_lineno is None
    return caught.value


def test_an_exception_on_the_way_into_a_function() -> None:
    program = tnf.compile(lambda x: tnf.exp(x) + x, 1.0)
    schedule = native_executor().binder.bind(program)
    function: Any = printed(schedule)
    file = function.__code__.co_filename
    assert failed_step(schedule, raised_on_entry(file).__traceback__) is None
    line = line_of(raised_on_entry("/home/user/model.py").__traceback__)
    assert line is not None
    assert line.file == "/home/user/model.py"

    def body(x: Any) -> Any:
        raise raised_on_entry("/home/user/model.py")

    with pytest.raises(TooLongError) as caught:
        tnf.compile(body, 1.0)
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(caught.tb)]
    assert frames[-1] == "/home/user/model.py"
    assert not any("tenferro/api" in file for file in frames)
