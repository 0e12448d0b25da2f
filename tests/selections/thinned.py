"""Test functions with many similar cases, of which a normal run includes only some: tests/selections/thinned.toml.

A run includes the cases that are in the core, because they cover further lines, and one in n of the others; n is in
the file. The sweep runs the rest, and `--every-case` runs all.
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
    """Return for each table the test functions, with n where one in n cases runs."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def left_to_the_sweep(
    tests: Iterable[str], tables: Mapping[str, Mapping[str, int]], core: Collection[str]
) -> set[str]:
    """Return the tests that only the sweep runs.

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
            # Use the upper bits: the lower ones choose the part of the suite that runs the test.
            digest = zlib.crc32(test.encode()) >> 16
            if digest % shares[function] and not is_first and test not in core:
                left.add(test)
    return left
