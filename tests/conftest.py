"""Options of pytest for this suite.

`--ledger FILE` runs the tests that fill the ledger of checks, and writes the file if all of them pass.

`--part I/N` runs part I of N; a hash of a test's name determines its part.

`--every-case` also runs the cases that tests/selections/thinned.toml omits from ordinary runs.

`--write-processors` writes which tests of the files that run have the markers `processor` and `compiled`.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.recording import PROPERTY, Passes
from tests.selections import selection
from tests.selections.entry_points import MARKERS, EntryPoints, is_long
from tests.selections.systems import missing, needs
from tests.selections.thinned import left_to_the_sweep, thinned

collect_ignore = ["typing"]  # because only type checkers read it


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ledger", metavar="FILE", help="write what passed")
    parser.addoption("--part", default="1/1", metavar="I/N", help="run one of N parts of the tests")
    parser.addoption("--every-case", action="store_true", help="run all cases of thinned functions")
    parser.addoption("--write-processors", action="store_true", help="write which tests are marked")


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("TENFERRO_NOTICES", "off")  # child processes inherit the variable
    # Check parity in this process, not in a child process, which only test_isolated.py tests.
    os.environ.setdefault("TENFERRO_ISOLATED", "off")
    # Make a failed optimisation raise an error, even in child processes. A silent fallback to uncompiled code would
    # hide faults.
    os.environ.setdefault("TENFERRO_FAILED_ATTEMPTS", "raise")
    os.environ.setdefault("TENFERRO_VERIFY_SCHEDULES", "1")
    if config.getoption("--ledger"):
        config.pluginmanager.register(Collector(config), "ledger-collector")
    # The plugin everything_large makes more tests run fused groups, which would then get the markers, so no test is
    # marked under it.
    if not config.pluginmanager.has_plugin("tests.exec.everything_large"):
        entry_points = EntryPoints(config.getoption("--write-processors"))
        config.pluginmanager.register(entry_points, "entry-points")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    core = selection.read("core")
    tables = {} if config.getoption("--every-case") else thinned()
    left = left_to_the_sweep([item.nodeid for item in items], tables, core)
    for item in items:
        if item.nodeid in left:
            item.add_marker("sweep")
    for marker in ("core", *MARKERS):
        selected = selection.read(marker)
        for item in items:
            if selection.has(selected, item.nodeid) and not is_long(item):
                item.add_marker(marker)
    requirements = needs()
    for item in items:
        if reason := missing(item.nodeid, requirements):
            item.add_marker(pytest.mark.skip(reason=reason))
    part, parts = map(int, config.getoption("--part").split("/"))
    others = [item for item in items if zlib.crc32(item.nodeid.encode()) % parts != part % parts]
    if others:
        items[:] = [item for item in items if item not in set(others)]
        config.hook.pytest_deselected(items=others)


@pytest.fixture
def ledger(request: pytest.FixtureRequest) -> Passes:
    """Return the object with which a test records the checks that it has passed."""
    wanted = request.config.getoption("--ledger")
    return Passes(request.node.user_properties if wanted else None)


class Collector:
    """Pytest plugin that collects the passed checks.

    If several processes run tests, it runs in the process that controls them.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.said: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        others = [item for item in items if "ledger" not in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if item not in others]
        self.config.hook.pytest_deselected(items=others)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.said |= {str(said) for name, said in report.user_properties if name == PROPERTY}

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus == 0 and not hasattr(self.config, "workerinput"):
            from tests.ledger.writing import as_text, document

            Path(self.config.getoption("--ledger")).write_text(as_text(document(self.said)))
