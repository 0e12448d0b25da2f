"""Detection of tests that depend on the processor: BLAS, LAPACK, compiled loops, fused groups and blocks.

This is a plugin of pytest, which tests/conftest.py registers. It watches the entry points of such code. A test that
calls one has the marker `processor`, by processor.txt, and also `compiled`, by compiled.txt, if LLVM compiled the
code. A run names tests that call one without its markers, and fails if no test of their file has them. The first test
of a file that calls one may depend on the order of the tests, because executors cache compiled code. A child process
that a test starts is not watched.
"""

from __future__ import annotations

import functools
import pkgutil
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.selections import selection

__all__ = ["COMMAND", "ENTRY_POINTS", "MARKERS", "EntryPoints"]

COMMAND = "make processors"
COMPILED = (
    "tenferro.exec.llvm.link:Linker.baseline",
    "tenferro.exec.llvm.link:Linker.function",
    "tenferro.exec.llvm.block:CompiledBlock.__call__",
)
"""Functions that call machine code made by LLVM."""
ENTRY_POINTS = (
    *COMPILED,
    "tenferro.exec.llvm.group:CompiledGroup.__call__",
    "tenferro.exec.kernels.dot_general:Contraction.__init__",
    "tenferro.exec.kernels.convolution:ConvolutionFunction.__call__",
    "tenferro.exec.extensions:ExtensionRegistry.runtime_of",
)
MARKERS = {
    marker: frozenset({name.rpartition(":")[2] for name in names})
    for marker, names in (("processor", ENTRY_POINTS), ("compiled", COMPILED))
}
"""For each marker, the functions that a test must call to get it."""
SHARE = 0.5
"""Share of a test function's cases that must call an entry point for all its cases to be marked."""
PROPERTY = "entry points"


class EntryPoints:
    """Recorder of the entry points that each test calls, which compares them with the markers at the end.

    Args:
        writes: whether the file is written, for the files of tests that ran.
    """

    def __init__(self, writes: bool) -> None:
        self.writes = writes
        self.marked = {marker: selection.read(marker) for marker in MARKERS}
        self.calls: set[str] = set()
        self.of_fixtures: dict[tuple[str, str], set[str]] = {}
        self.ran: dict[str, list[str]] = {}
        for name in ENTRY_POINTS:
            path, _, attribute = name.rpartition(".")
            owner = pkgutil.resolve_name(path)
            setattr(owner, attribute, self._watched(getattr(owner, attribute), name))

    def _watched(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        name = name.rpartition(":")[2]

        @functools.wraps(function)
        def watched(*args: Any, **options: Any) -> Any:
            # Threads may compile ahead during a later test, so their calls are not counted.
            if not threading.current_thread().name.startswith("tenferro_"):
                self.calls.add(name)
            return function(*args, **options)

        return watched

    # ---- in the process of the test --------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        self.calls.clear()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Attribute the calls of a shared fixture to all tests that use it, whichever runs first."""
        if fixturedef.scope == "function":
            return (yield)
        before, self.calls = self.calls, set()
        try:
            return (yield)
        finally:
            if self.calls:
                self.of_fixtures[fixturedef.baseid, fixturedef.argname] = self.calls
            self.calls = before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        if call.when == "teardown" and not is_long(item):
            calls = set(self.calls)
            for (base, name), of_fixture in self.of_fixtures.items():
                if item.nodeid.startswith(base) and name in getattr(item, "fixturenames", ()):
                    calls |= of_fixture
            item.user_properties.append((PROPERTY, " ".join(sorted(calls))))
        return (yield)

    # ---- in the controlling process --------------------------------------------------------------

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, calls in report.user_properties:
            if report.when == "teardown" and name == PROPERTY:
                self.ran[report.nodeid] = str(calls).split()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput") or session.exitstatus != pytest.ExitCode.OK:
            return
        if self.writes:
            self.marked = {marker: self.selected(marker) for marker in MARKERS}
            for marker, tests in self.marked.items():
                path = selection.FOLDER / f"{marker}.txt"
                path.write_text(selection.text_of(tests, COMMAND))
        if any(not self._has_marked(test, marker) for test, marker in self.unmarked()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if unmarked := self.unmarked():
            terminalreporter.section("tests without a marker that they should have")
            for (test, marker), calls in unmarked.items():
                terminalreporter.line(f"{marker}: {test} calls {', '.join(calls)}")
            files = " ".join(sorted({selection.file_of(test) for test, _ in unmarked}))
            terminalreporter.line(f"run `{COMMAND} TESTS='{files}'`, and commit the files")

    def unmarked(self) -> dict[tuple[str, str], list[str]]:
        """Return the tests that call an entry point without its marker, with the entry points."""
        return {
            (test, marker): calls
            for marker, names in MARKERS.items()
            for test, calls in self.ran.items()
            if names & {*calls} and not selection.has(self.marked[marker], test)
        }

    def _has_marked(self, test: str, marker: str) -> bool:
        """Return whether a test of the same file has the marker."""
        file = selection.file_of(test)
        return any(selection.file_of(other) == file for other in self.marked[marker])

    def selected(self, marker: str) -> frozenset[str]:
        """Return the tests to be marked: unchanged for files without a test that ran."""
        files = {selection.file_of(test) for test in self.ran}
        kept = {test for test in self.marked[marker] if selection.file_of(test) not in files}
        calling = {test for test, calls in self.ran.items() if MARKERS[marker] & {*calls}}
        return kept | selection.named(calling, self.ran, SHARE)


def is_long(item: pytest.Item) -> bool:
    """Return whether a separate command runs the test."""
    return any(item.get_closest_marker(name) for name in ("sweep", "platforms"))
