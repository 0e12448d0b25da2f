"""Test functions with many similar cases, of which an ordinary run includes only some.

thinned.toml has a number n for each of these functions. An ordinary run includes the cases in the core selection,
which run lines that no other test runs, and one in n of all other cases. The sweep runs the remaining cases, and
`--every-case` runs all.
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
    """Return the tables of thinned.toml.

    They map each test function to its number n: one in n of its cases runs.
    """
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def left_to_the_sweep(
    tests: Iterable[str], tables: Mapping[str, Mapping[str, int]], core: Collection[str]
) -> set[str]:
    """Return the tests that run only in the sweep.

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
            # Use the upper bits of the hash: the lower bits decide in which part of the suite (`--part`) a test runs.
            digest = zlib.crc32(test.encode()) >> 16
            if digest % shares[function] and not is_first and test not in core:
                left.add(test)
    return left
