"""Detection of tests that depend on the processor: they run BLAS, LAPACK, compiled loops, fused groups or blocks.

It is a pytest plugin that tests/conftest.py registers. It watches the functions through which such code is called. A
test that calls such a function must have the marker `processor` (listed in processor.txt). If LLVM compiled the code,
the test must also have the marker `compiled` (listed in compiled.txt).

At the end, a run names the tests that lack a marker. It fails only if no test of their file has the marker. The
reason is that executors cache compiled code: the order of the tests determines which test of a file calls the function
first. Child processes of a test are not watched.
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
"""Functions that call machine code compiled by LLVM."""
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
"""Functions for each marker. A test that calls one of them must have the marker."""
SHARE = 0.5
"""Fraction of the cases of a test function.

If at least this fraction calls a watched function, the whole test function is marked.
"""
PROPERTY = "entry points"


class EntryPoints:
    """Plugin that records the watched functions that each test calls. At the end, it compares them with the markers.

    Args:
        writes: whether the lists of markers are written again, for the test files that this run contains.
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
            # Calls in tenferro's own threads do not count. The threads may compile code that another test needs
            # later.
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
        """Attribute the calls in a shared fixture to all tests that use it.

        Otherwise they would count only for the test that runs first.
        """
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
        """Return the tests that lack a marker, each with the watched functions that it called."""
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
        """Return the tests that must have the marker.

        In files of which no test ran, the marked tests remain marked.
        """
        files = {selection.file_of(test) for test in self.ran}
        kept = {test for test in self.marked[marker] if selection.file_of(test) not in files}
        calling = {test for test, calls in self.ran.items() if MARKERS[marker] & {*calls}}
        return kept | selection.named(calling, self.ran, SHARE)


def is_long(item: pytest.Item) -> bool:
    """Return whether the test has a marker of long tests. Separate commands run the long tests."""
    return any(item.get_closest_marker(name) for name in ("sweep", "platforms"))
