"""Selections: the tests that have a marker, stored as text files of test files, functions and single cases.

A file without functions below it is selected as a whole, and so is a function without cases below it:

    tests/exec/test_llvm_order.py
    tests/exec/test_signs.py
      test_signs_of_products
      test_signs_of_sums
        float32-3
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

__all__ = ["file_of", "function_of", "has", "named", "read", "text_of"]

FOLDER = Path(__file__).parent


def file_of(test: str) -> str:
    """Return the path of the test file in a pytest name such as `tests/a.py::f[x]`."""
    return test.partition("::")[0]


def function_of(test: str) -> str:
    """Return the pytest name of a test without its parameters, such as `tests/a.py::f`."""
    file, _, name = test.partition("::")
    return f"{file}::{name.partition('[')[0]}"


def read(marker: str) -> frozenset[str]:
    """Read the selection of a marker.

    An element is the name of a file, of a function, or of a single test.
    """
    path = FOLDER / f"{marker}.txt"
    selected: set[str] = set()
    file = function = ""
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith("    "):
            selected.discard(f"{file}::{function}")
            selected.add(f"{file}::{function}[{line[4:]}]")
        elif line.startswith("  "):
            function = line[2:]
            selected.discard(file)
            selected.add(f"{file}::{function}")
        elif not line.startswith("#"):
            file = line
            selected.add(file)
    return frozenset(selected)


def has(selection: Collection[str], test: str) -> bool:
    """Return whether a selection contains a test, its function, or its file."""
    return any(name in selection for name in (test, function_of(test), file_of(test)))


def named(tests: Collection[str], others: Iterable[str], share: float) -> frozenset[str]:
    """Return the shortest selection that contains `tests`.

    Args:
        others: all tests, selected or not.
        share: a fraction. If at least this fraction of a function's tests is in `tests`, the function is selected as
            a whole. If all functions of a file are, the file is selected as a whole.
    """
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for test in others:
        counts[function_of(test)][test in tests] += 1
    whole = {f for f, (left, taken) in counts.items() if taken >= share * (left + taken)}
    files = {file_of(f) for f in counts} - {file_of(f) for f in counts.keys() - whole}
    names = {t: (file_of(t), function_of(t)) for t in tests}
    return frozenset(
        {
            file if file in files else function if function in whole else test
            for test, (file, function) in names.items()
        }
    )


def text_of(selection: Iterable[str], command: str) -> str:
    """Format a selection as text. The first line states the command that writes it."""
    lines, file, function = [f"# Written by `{command}`."], "", ""
    for test in sorted(selection, key=lambda test: (file_of(test), function_of(test), test)):
        if file_of(test) != file:
            file = file_of(test)
            lines.append(file)
        if test != file and function_of(test) != function:
            function = function_of(test)
            lines.append(f"  {function[len(file) + 2 :]}")
        if test not in (file, function):
            lines.append(f"    {test[len(function) + 1 : -1]}")
    return "\n".join(lines) + "\n"
