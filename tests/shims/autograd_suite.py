"""Run autograd's test suite on tenferro: `make autograd-suite`.

python -m tests.shims.autograd_suite TESTS            counts the outcomes, and compares them with the stored list
python -m tests.shims.autograd_suite TESTS --write    stores the list of tests that fail

TESTS is the folder `tests` of autograd's source distribution. It is not copied here. The stored list has a reason for
each failing test: a name that tenferro lacks, or an entry of `REASONS`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.shims import autograd_names

KEPT = Path(__file__).with_name("autograd_failures.txt")
MISSING = "AttributeError: tenferro has no "
INTERNAL = (
    "test_builtins", "test_core", "test_dict", "test_list", "test_logic", "test_misc", "test_performance", "test_tests",
    "test_tuple", "test_vspaces", "test_graphs",
)  # fmt: skip
"""Test files that are skipped.

They test internal parts of autograd: its boxes, graphs, containers and vector spaces.
"""

OWN = "about autograd's own types and wrappers"
REASONS = {
    "test_fft.py::test_rfftn_odd_not_implemented": "asks that odd extents are refused, which are implemented here",
    "test_wrappers.py::test_dtypes": "float128, which StableHLO does not have",
    "test_wrappers.py::test_wrapped_name_and_docs": OWN,
    **dict.fromkeys(
        (
            *(f"test_wrappers.py::test_deprecated_{name}_wrapper" for name in
              ("defgrad", "defvjp", "defvjp_is_zero", "quick_grad_check")),
        ),
        OWN,
    ),
}  # fmt: skip
"""Reasons for failures that are not caused by a missing name."""


class Outcomes:
    """Pytest plugin that records which tests passed, and why the other tests failed."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record the outcome of one phase of a test. The phases are setup, call and teardown."""
        name = report.nodeid.split("/")[-1]
        if report.failed:
            self.failed[name] = _reason(report)
        elif report.when == "call" and report.passed:
            self.passed.add(name)

    def pytest_collectreport(self, report: Any) -> None:
        """Record a test file that could not be imported."""
        if report.failed:
            self.failed[report.nodeid.split("/")[-1]] = _reason(report)


def _reason(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr).strip().splitlines()[-1]
    return " ".join(text.splitlines()[0].split())[:140]


def run(tests: Path) -> Outcomes:
    """Run the test suite in the folder `tests`, and return the outcomes."""
    autograd_names.install()
    files = sorted(path for path in tests.glob("test_*.py") if path.stem not in INTERNAL)
    if not files:
        raise SystemExit(f"{tests} has no tests; give the folder of autograd's source distribution")
    outcomes = Outcomes()
    sys.path.insert(0, str(tests))
    options = [
        "-c",
        os.devnull,
        "--rootdir",
        str(tests),
        "-p",
        "no:cacheprovider",
        "-q",
        "--tb=no",
        "-W",
        "ignore",
        "--continue-on-collection-errors",
    ]
    pytest.main([*options, *map(str, files)], plugins=[outcomes])
    return outcomes


def _told(failed: dict[str, str]) -> dict[str, str]:
    """Return the reason why each failed test fails.

    The reason is that of `REASONS`, else the message of the failure.

    Raises:
        SystemExit: a failure that is not a missing name has no entry in `REASONS`.
    """
    reasons = {name: REASONS.get(name, message) for name, message in failed.items()}
    unknown = [n for n, reason in reasons.items() if n not in REASONS and MISSING not in reason]
    if unknown:
        raise SystemExit(f"fails for no reason in REASONS: {', '.join(sorted(unknown))}")
    return reasons


def kept() -> dict[str, str]:
    """Return the stored list of failing tests, each with its reason."""
    lines = [line for line in KEPT.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("  ", 1) for line in lines)


def main() -> int:
    """Run the suite; return 1 if the outcome of a test differs from the stored list."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # pyright: ignore[reportOptionalMemberAccess]  # there is one
    parser.add_argument("tests", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    outcomes = run(options.tests)
    total = len(outcomes.passed) + len(outcomes.failed)
    print(f"{len(outcomes.passed)} of {total} passed, {len(outcomes.failed)} failed")
    if options.write:
        lines = [f"{name}  {reason}" for name, reason in sorted(_told(outcomes.failed).items())]
        passed = f"{len(outcomes.passed)} of {total} tests of autograd's suite pass on tenferro"
        head = f"# {passed}. These fail, for the reason given. Made by --write.\n"
        KEPT.write_text(head + "\n".join(lines) + "\n")
        return 0
    known = kept()
    for name in sorted(outcomes.failed.keys() - known.keys()):
        print(f"fails, and is not in {KEPT.name}: {name}: {outcomes.failed[name]}")
    for name in sorted(known.keys() - outcomes.failed.keys()):
        print(f"passes, and is in {KEPT.name}: {name}")
    return int(outcomes.failed.keys() != known.keys())


if __name__ == "__main__":
    raise SystemExit(main())
