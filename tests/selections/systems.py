"""Tests that need Linux or a POSIX system. tests/selections/systems.toml has the reasons."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.selections.selection import file_of, function_of

__all__ = ["missing", "needs"]

FILE = Path(__file__).with_name("systems.toml")


def needs() -> dict[str, dict[str, str]]:
    """Return the tests that need Linux and those that need a POSIX system, each with the reason."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def missing(
    test: str, requirements: Mapping[str, Mapping[str, str]], platform: str = sys.platform
) -> str | None:
    """Return why a test is skipped on a platform; None if the test runs there.

    >>> requirements = {"linux": {"tests/test_a.py": "it reads /proc"}, "posix": {"tests/test_b.py::f": "it forks"}}
    >>> missing("tests/test_a.py::f", requirements, "darwin")
    'needs Linux: it reads /proc'
    >>> missing("tests/test_b.py::f[x]", requirements, "win32")
    'needs POSIX: it forks'
    >>> missing("tests/test_b.py::f[x]", requirements, "darwin")
    """
    for kind, name, has_it in (
        ("linux", "Linux", platform == "linux"),
        ("posix", "POSIX", platform != "win32"),
    ):
        for prefix in () if has_it else (test, function_of(test), file_of(test)):
            if reason := requirements.get(kind, {}).get(prefix):
                return f"needs {name}: {reason}"
    return None
