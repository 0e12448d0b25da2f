"""Statements of the extension contract. Each is written next to the test that checks it.

`make specification` writes the pages of the statements. Statements are numbered within a chapter. The number of a
statement never changes, and is not used again if the statement is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

__all__ = ["CHAPTERS", "DIFFERS", "WORKS", "Chapter", "Row", "Statement"]

CHAPTERS = (
    "identity",
    "types",
    "execution",
    "derivatives",
    "expansion",
    "registration",
    "files",
    "caches",
    "failures",
    "schedule",
    "backends",
    "primitives",
    "surface",
)
"""Names of the chapters, in the order of the pages.

The module `test_<name>.py` has the variable `chapter`.
"""
WORKS, DIFFERS = "works", "differs on purpose"
Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Statement:
    """A statement of the contract, and whether the implementation satisfies it.

    Attributes:
        because: the reason, if the implementation differs from the statement on purpose.
        test: the name of the test function that checks the statement.
    """

    number: int
    text: str
    verdict: str
    because: str
    test: str


class Row:
    """A statement that shares a test with other statements. `values` are the values of the test's parameters for it."""

    def __init__(self, text: str, *values: Any, because: str = "") -> None:
        self.text, self.values, self.because = text, values, because


class Chapter:
    """The statements of one test module."""

    def __init__(self, name: str, title: str, introduction: str) -> None:
        self.name, self.title, self.introduction = name, title, introduction
        self.statements: dict[int, Statement] = {}

    def works(self, number: int, text: str) -> Callable[[Test], Test]:
        """Return a decorator that registers a test of a statement that the implementation satisfies."""
        return self._of_function(number, text, WORKS, "")

    def differs(self, number: int, text: str, because: str) -> Callable[[Test], Test]:
        """Return a decorator that registers a test of a statement that the implementation violates.

        `because` is the reason for the difference.
        """
        return self._of_function(number, text, DIFFERS, because)

    def table(self, names: str, rows: Mapping[int, Row]) -> Callable[[Test], Test]:
        """Return a decorator that registers one test for several statements.

        The test runs once for each row, with the values of the row.
        """

        def decorate(test: Test) -> Test:
            for number, row in rows.items():
                verdict = DIFFERS if row.because else WORKS
                self._add(number, row.text, verdict, row.because, test)
            arguments = [
                pytest.param(*row.values, id=f"{self.name}.{number}")
                for number, row in rows.items()
            ]
            return pytest.mark.parametrize(names, arguments)(test)

        return decorate

    def _of_function(
        self, number: int, text: str, verdict: str, because: str
    ) -> Callable[[Test], Test]:
        def decorate(test: Test) -> Test:
            self._add(number, text, verdict, because, test)
            return test

        return decorate

    def _add(self, number: int, text: str, verdict: str, because: str, test: Any) -> None:
        assert number not in self.statements, f"{self.name}.{number} is stated twice"
        self.statements[number] = Statement(number, text, verdict, because, test.__name__)
