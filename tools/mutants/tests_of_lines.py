"""Record of the tests that run each line of the sources.

coverage.py makes the record, one test file at a time. The record is not stored in git.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import coverage

from tools.mutants.columns import FOLDERS
from tools.mutants.trials import tried

__all__ = ["Recorded", "digest_of_sources", "recorded_units", "units_of"]

PACKAGES = ("tenferro", "lowering", "xla_peer")
MOST_SECONDS = 1800.0
LEFT_OUT = (
    "tests/xla_peer",
    "tests/test_hostile.py",
    "tests/test_mutants.py",
    "tests/test_documents.py",
)
"""Tests that are not recorded, because they start processes or compilers for each case, or read the sources.

If such a test belongs to a mutated folder, it is recorded nevertheless.
"""


def digest_of_sources(tree: Path) -> str:
    """Return a hash of all sources that the tests import."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((tree / package).rglob("*.py")):
            digest.update(str(path.relative_to(tree)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def units_of(tree: Path) -> list[str]:
    """Return the units of recording.

    A unit is a test file, or the doctests of a folder, and is run by one child process.
    """
    files = [str(path.relative_to(tree)) for path in sorted((tree / "tests").rglob("test_*.py"))]
    columns = {place for places in FOLDERS.values() for place in places}
    recorded = [name for name in files if name in columns or not name.startswith(LEFT_OUT)]
    return [*recorded, *FOLDERS, "tenferro/api"]


def recorded_units(
    tree: Path, folder: Path, units: Sequence[str]
) -> Iterator[tuple[str, int, float]]:
    """Record each unit, unless a record with the present sources and tests exists.

    Yield the unit's name, its number of tests, and the seconds that they took.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sources = digest_of_sources(tree)
    for unit in units:
        path = tree / unit
        digest = sources + (
            hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""
        )
        facts = folder / (unit.replace("/", "+") + ".json")
        if facts.exists() and json.loads(facts.read_text())["digest"] == digest:
            continue
        data = facts.with_suffix(".coverage")
        data.unlink(missing_ok=True)
        recorder: Any = coverage.Coverage(
            data_file=str(data), config_file=False, source=[str(tree / name) for name in FOLDERS]
        )
        trial = tried(tree, [unit], seconds=MOST_SECONDS, coverage=recorder)
        facts.write_text(
            json.dumps({"digest": digest, "sources": sources, "unit": unit, "tests": trial.tests})
        )
        yield unit, len(trial.tests), trial.seconds


class Recorded:
    """Record of all tests in a tree: the lines that each test runs, and the seconds that it takes."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self._tree = tree
        self.seconds: dict[str, float] = {}
        self._sources: set[str] = set()
        self._data: list[coverage.CoverageData] = []
        self._tests: dict[str, dict[int, list[str]]] = {}
        for facts in sorted(folder.glob("*.json")):
            content = json.loads(facts.read_text())
            self._sources.add(content["sources"])
            self.seconds |= content["tests"]
            data = coverage.CoverageData(str(facts.with_suffix(".coverage")))
            data.read()
            self._data.append(data)

    def require(self, tree: Path) -> None:
        """Raise an error unless the record was made with the sources in `tree`.

        Raises:
            ValueError: the sources have changed since the recording, or there is no record.
        """
        if self._sources != {digest_of_sources(tree)}:
            raise ValueError(f"the map is not of the sources in {tree}; run `make mutants-map`")

    def tests(self, path: str, first: int, last: int) -> set[str]:
        """Return the names of the passed tests that run any line of a file from `first` to `last`."""
        if path not in self._tests:
            by_line: dict[int, list[str]] = {}
            for data in self._data:
                for line, names in data.contexts_by_lineno(str(self._tree / path)).items():
                    by_line.setdefault(line, []).extend(names)
            self._tests[path] = by_line
        by_line = self._tests[path]
        return {
            name
            for line in range(first, last + 1)
            for name in by_line.get(line, ())
            if name in self.seconds
        }
