"""Test functions with many similar cases, of which an ordinary run includes only some: thinned.toml.

An ordinary run includes the cases in the core selection, which cover further lines, and one in n of the others; the
file has n for each function. The sweep runs the other cases, and `--every-case` runs all cases.
"""

from __future__ import annotations

import tomllib
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from tests.selections.selection import function_of

__all__ = ["left_to_the_sweep", "thinned"]

FILE = Path(__file__).with_name("thinned.toml")


def thinned() -> dict[str, dict[str, int]]:
    """Return the tables of thinned.toml: for each test function the number n, of which one in n cases runs."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def left_to_the_sweep(
    tests: Iterable[str], tables: Mapping[str, Mapping[str, int]], core: Collection[str]
) -> set[str]:
    """Return the tests that run in the sweep only.

    >>> tests = [f"tests/a.py::f[{name}]" for name in ("Add-1", "Add-2", "Add-3", "Sine-1")]
    >>> left = left_to_the_sweep(tests, {"each": {"tests/a.py::f": 999}}, core={tests[2]})
    >>> sorted(left) == [tests[1]]
    True
    >>> left = left_to_the_sweep(tests, {"all": {"tests/a.py::f": 999}}, core={tests[2]})
    >>> sorted(left) == [tests[0], tests[1], tests[3]]
    True
    """
    left: set[str] = set()
    seen: set[str] = set()
    for test in tests:
        function, first = function_of(test), test.partition("-")[0]
        for table, shares in tables.items():
            if function not in shares:
                continue
            is_first = table == "each" and first not in seen
            seen.add(first)
            # Use the upper bits, because the lower bits decide in which part of the suite the test runs.
            digest = zlib.crc32(test.encode()) >> 16
            if digest % shares[function] and not is_first and test not in core:
                left.add(test)
    return left
