"""Runs of chosen tests in a copy of the tree.

Each run is a child process, forked from a process that has already imported the libraries.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Trial", "preload", "tried"]

LIBRARIES = (
    "numpy", "scipy.linalg", "scipy.special", "scipy.fft", "ml_dtypes", "optree", "opt_einsum", "mpmath", "jax",
    "jax.numpy", "array_api_strict",
)  # fmt: skip
"""Modules to import before forking: many tests import them, and no mutant changes them.

Modules that pytest rewrites, and modules that read the source tree, must not be among them.
"""
MEMORY = 12 << 30
"""Address space, in bytes, that a child process may use in addition to the space that the libraries occupy."""


class Trial(NamedTuple):
    """Outcome of a run of the chosen tests.

    outcome:    passed, failed, import, time or signal
    test:       the first test that failed; for other outcomes a message
    tests:      the seconds of each test that passed
    seconds:    processor time in seconds, child processes included
    """

    outcome: str
    test: str
    tests: dict[str, float]
    seconds: float


class Choice:
    """Pytest plugin that runs only the chosen tests, in the given order.

    It records passed tests and the first failure.
    """

    def __init__(self, chosen: Sequence[str] | None, coverage: Any) -> None:
        self.chosen = chosen
        self.coverage = coverage
        self.passed: dict[str, float] = {}
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.chosen is not None:
            by_name = {item.nodeid: item for item in items}
            items[:] = [by_name[name] for name in self.chosen if name in by_name]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self.coverage is not None:
            self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid
            self.passed.pop(report.nodeid, None)
        elif report.when == "call" and report.passed:
            self.passed[report.nodeid] = round(report.duration, 4)


def preload() -> None:
    """Import the modules that every child process needs."""
    for name in LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)


def tried(
    tree: Path,
    files: Sequence[str],
    chosen: Sequence[str] | None = None,
    *,
    seconds: float,
    coverage: Any = None,
) -> Trial:
    """Run tests in a child process until one fails.

    Args:
        tree:       the folder that is tested
        files:      the files and folders that pytest collects
        chosen:     names of tests, in the order of execution; if None, all tests of the files run
        seconds:    maximum processor time; the run may last four times as long, because other processes use the
            processor, too
        coverage:   a `coverage.Coverage` that records which lines each test runs
    """
    begin = time.monotonic()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _child(tree, files, chosen, seconds, coverage, writer)
    os.close(writer)
    content = bytearray()
    until = begin + 30 + 4 * seconds
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
            part = pipe.read(1 << 16)
            if not part:
                break
            content += part
        else:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    with suppress(ProcessLookupError):  # the tests may have left processes running
        os.killpg(child, signal.SIGKILL)
    used = round(usage.ru_utime + usage.ru_stime, 2)
    if not content:
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        by_time = number in (signal.SIGXCPU, signal.SIGKILL)
        words = (
            signal.Signals(number).name if number else f"status {os.waitstatus_to_exitcode(status)}"
        )
        return Trial("time" if by_time else "signal", words, {}, used)
    code, failed, passed = json.loads(content)
    if code == 0 or (code == 5 and not failed):
        return Trial("passed", "", passed, used)
    return Trial(
        "failed" if failed else "import", failed or f"pytest's status {code}", passed, used
    )


def _child(
    tree: Path,
    files: Sequence[str],
    chosen: Sequence[str] | None,
    seconds: float,
    coverage: Any,
    writer: int,
) -> None:
    """Run the tests in the forked child process, write the result to `writer`, and end the process."""
    answer: tuple[int, str, dict[str, float]] = (3, "", {})
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, in_use + MEMORY))
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        os.chdir(tree)
        os.environ["PYTHONPATH"] = str(tree)
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tools", "tests")]:
            del sys.modules[name]
        sys.path[:] = [str(tree), *(x for x in sys.path if x not in ("", str(tree)))]
        choice = Choice(chosen, coverage)
        if coverage is not None:
            coverage.start()
        import pytest

        stop = ["-x"] if chosen is not None else []
        # Disable pytest plugins that would add, skip or distribute tests.
        without = [f"-pno:{plugin}" for plugin in ("xdist", "cacheprovider", "entry-points")]
        code = pytest.main([*files, "-q", *without, *stop], plugins=[choice])
        if coverage is not None:
            coverage.stop()
            coverage.save()
        answer = (int(code), choice.failed, choice.passed)
    except BaseException:  # because importing a mutant may raise any exception
        pass
    with suppress(BaseException):
        content = json.dumps(answer).encode()
        while content:
            content = content[os.write(writer, content) :]
    os._exit(0)
