"""Choose the tests of `make test`: within a time limit, the cheapest tests that together cover most lines.

    python -m tools.core record     runs all tests, and records the lines and seconds of each in build/core
    python -m tools.core choose     writes tests/selections/core.txt from this record

Recording needs Python 3.12, because it uses `sys.monitoring`. Tests are chosen in this order until the time is used
up:

- first, tests of the values and derivatives of every op and every extension family, and one test of every file;
- the tests that run the most new lines per second, until no test runs a new line;
- one set of parameters of every remaining test function, if it takes less than a second;
- further sets of parameters of these functions, the cheapest first.
"""

from __future__ import annotations

import argparse
import base64
import heapq
import json
import os
import subprocess
import sys
import zlib
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest

from tests.selections import selection

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "core"
PACKAGES = tuple(f"{ROOT / name}{os.sep}" for name in ("tenferro", "lowering", "xla_peer"))
COMMAND = "make core"
SECONDS = 360.0
"""Limit of the processor time of all chosen tests, in seconds. Two workers need about half of it."""
REQUIRED = (
    "tests/ops/test_samples.py",
    "tests/ad/test_rules.py::test_jvp_is_the_central_difference",
    "tests/ad/test_rules.py::test_vjp_is_the_adjoint",
    "tests/ext/test_families.py::test_values",
    "tests/ext/test_families.py::test_tangents",
    "tests/ext/test_families.py::test_cotangents_are_the_adjoint",
)
"""Tests that are always chosen. They test every op and every extension family."""
COSTLY = 1.0
"""Processor time in seconds above which a test is chosen only if it runs lines that no chosen test runs."""


# ---- recording, as a plugin of pytest -----------------------------------------------------------------


class Lines:
    """Pytest plugin that records the lines that each test runs, and the processor time of the test."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w")
        self.lines: set[tuple[CodeType, int]] = set()
        self.outcome = ""
        monitoring = sys.monitoring
        self.events, self.tool = monitoring.events, monitoring.COVERAGE_ID
        monitoring.use_tool_id(self.tool, "tenferro_core")
        monitoring.register_callback(self.tool, self.events.PY_START, self._start)
        monitoring.register_callback(self.tool, self.events.LINE, self._line)
        monitoring.set_events(self.tool, self.events.PY_START)

    def _start(self, code: CodeType, offset: int) -> Any:
        # While the interpreter exits, `sys` may already be None.
        if sys and str(code.co_filename).startswith(PACKAGES):
            sys.monitoring.set_local_events(self.tool, code, self.events.LINE)
        return sys.monitoring.DISABLE

    def _line(self, code: CodeType, line: int) -> Any:
        self.lines.add((code, line))
        return sys.monitoring.DISABLE

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.outcome = report.outcome

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.lines, self.outcome = set(), ""
        sys.monitoring.restart_events()
        begin = sum(os.times()[:4])
        result = yield
        seconds = round(sum(os.times()[:4]) - begin, 3)
        by_file: defaultdict[str, set[int]] = defaultdict(set)
        for code, line in self.lines:
            by_file[code.co_filename].add(line)
        lines = {str(Path(name).relative_to(ROOT)): bits(of) for name, of in by_file.items()}
        self.file.write(json.dumps([item.nodeid, self.outcome, seconds, lines]) + "\n")
        self.file.flush()
        return result


def bits(lines: Iterable[int]) -> str:
    """Encode a set of line numbers as compressed text. The set is stored as one bit per line."""
    number = sum(1 << line for line in lines)
    data = number.to_bytes(number.bit_length() // 8 + 1, "little")
    return base64.b85encode(zlib.compress(data, 1)).decode()


def pytest_configure(config: pytest.Config) -> None:
    """Register the recorder of lines in each process that runs tests.

    These are the workers of xdist or, without workers, pytest itself.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Lines(FOLDER / f"{worker or 'alone'}.jsonl"), "core-lines")


def record(arguments: list[str]) -> int:
    """Run all tests with this file as a pytest plugin, which records the lines; return pytest's exit status."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.glob("*.jsonl"):
        path.unlink()
    command = [sys.executable, "-m", "pytest", "-p", "tools.core", "--every-case", *arguments]
    return subprocess.run(command, cwd=ROOT).returncode


# ---- choosing -----------------------------------------------------------------------------------------


class Recorded:
    """Passed tests. Each has its processor time in seconds, and a bit array of the lines that it runs."""

    def __init__(self, folder: Path) -> None:
        self.tests: list[str] = []
        self.ran: list[str] = []
        self.seconds: list[float] = []
        rows: list[dict[str, Any]] = []
        sizes: dict[str, int] = {}
        for path in sorted(folder.glob("*.jsonl")):
            for text in path.open():
                test, outcome, seconds, lines = json.loads(text)
                self.ran.append(test)
                if outcome != "passed":
                    continue
                row = {name: zlib.decompress(base64.b85decode(of)) for name, of in lines.items()}
                for name, of in row.items():
                    sizes[name] = max(sizes.get(name, 0), len(of))
                self.tests.append(test)
                self.seconds.append(max(seconds, 0.002))
                rows.append(row)
        offsets = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
        self.bits = np.zeros((len(rows), sum(sizes.values())), np.uint8)
        for bits_of, row in zip(self.bits, rows, strict=True):
            for name, of in row.items():
                bits_of[offsets[name] : offsets[name] + len(of)] = np.frombuffer(of, np.uint8)


def chosen_of(recorded: Recorded) -> list[int]:
    """Return the indices of the chosen tests in `recorded.tests`."""
    tests, seconds = recorded.tests, recorded.seconds
    covered = np.zeros(recorded.bits.shape[1], np.uint8)
    chosen: dict[int, None] = {}

    def choose(number: int) -> None:
        np.bitwise_or(covered, recorded.bits[number], out=covered)
        chosen[number] = None

    def new_lines(number: int) -> int:
        return int(np.bitwise_count(recorded.bits[number] & ~covered).sum())

    groups: defaultdict[str, list[int]] = defaultdict(list)
    for number, test in enumerate(tests):
        groups[selection.file_of(test)].append(number)
        if selection.has(REQUIRED, test):
            choose(number)
    for group in groups.values():
        if not chosen.keys() & set(group):
            choose(max(group, key=lambda number: new_lines(number) / seconds[number]))
    required = len(chosen)
    queue = [(-new_lines(n) / seconds[n], n) for n in range(len(tests))]
    heapq.heapify(queue)
    while queue:
        _, number = heapq.heappop(queue)
        rate = new_lines(number) / seconds[number]
        if rate <= 0:
            continue
        if queue and rate < -queue[0][0]:
            heapq.heappush(queue, (-rate, number))
        else:
            choose(number)
    covering = len(chosen)
    functions: defaultdict[str, list[int]] = defaultdict(list)
    for number in sorted(range(len(tests)), key=lambda number: seconds[number]):
        functions[selection.function_of(tests[number])].append(number)
    firsts = [
        group[:1]
        for group in functions.values()
        if not chosen.keys() & set(group) and seconds[group[0]] < COSTLY
    ]
    rests = [[n for n in group if seconds[n] < COSTLY] for group in functions.values()]
    left = SECONDS - sum(seconds[number] for number in chosen)
    for groups in (firsts, rests):
        for group in sorted(groups, key=lambda group: sum(seconds[n] for n in group)):
            new = [number for number in group if number not in chosen]
            if (cost := sum(seconds[number] for number in new)) > left:
                break
            left -= cost
            for number in new:
                choose(number)
    print(
        f"{len(tests)} tests passed in {sum(seconds):.0f} s, and ran {int(np.bitwise_count(covered).sum())} lines; "
        f"chosen for files, ops and families: {required}, for lines: {covering - required}, in all: {len(chosen)}, of "
        f"{len({selection.function_of(tests[n]) for n in chosen})} of {len(functions)} functions, in "
        f"{sum(seconds[n] for n in chosen):.0f} s"
    )
    return list(chosen)


def choose() -> int:
    """Choose the tests that `make test` runs, and write their names to tests/selections/core.txt."""
    recorded = Recorded(FOLDER)
    tests = {recorded.tests[number] for number in chosen_of(recorded)}
    selected = selection.named(tests, recorded.ran, share=1.0)
    # Add test files of which no test passed: their tests were skipped here because a dependency is missing.
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    selected |= files - {selection.file_of(test) for test in selected}
    (selection.FOLDER / "core.txt").write_text(selection.text_of(selected, COMMAND))
    return 0


def main() -> int:
    """Run the subcommand `record` or `choose`."""
    parser = argparse.ArgumentParser(prog="python -m tools.core", description=__doc__.splitlines()[0])  # fmt: skip
    parser.add_argument("what", choices=("record", "choose"))
    what, arguments = parser.parse_known_args()
    return record(arguments) if what.what == "record" else choose()


if __name__ == "__main__":
    sys.exit(main())
