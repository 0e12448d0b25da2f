"""`pytest --ledger FILE`: the tests that fill the ledger, and the file once all of them have passed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ledger.recording import PROPERTY, Passes


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ledger", metavar="FILE", help="write what passed for `tenferro coverage`")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--ledger"):
        config.pluginmanager.register(Collector(config), "ledger-collector")


@pytest.fixture
def ledger(request: pytest.FixtureRequest) -> Passes:
    """What this test saw pass."""
    wanted = request.config.getoption("--ledger")
    return Passes(request.node.user_properties if wanted else None)


class Collector:
    """Collects what passed; with several processes, in the one that hears from all."""

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
