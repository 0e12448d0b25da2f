"""Statements of the contract, each beside the test that shows it; `make specification` writes them as pages.

Statements are numbered within a chapter. The number of a statement never changes and is never reused.
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
"""Modules of this package, in the order of the pages: `test_<name>.py` has a `chapter`."""
WORKS, DIFFERS = "works", "differs on purpose"
Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Statement:
    """One statement of the contract, with its verdict.

    Attributes:
        because: the reason, if the implementation differs on purpose.
        test: the test function that shows it.
    """

    number: int
    text: str
    verdict: str
    because: str
    test: str


class Row:
    """Statement in a table of statements, with the arguments of the test."""

    def __init__(self, text: str, *values: Any, because: str = "") -> None:
        self.text, self.values, self.because = text, values, because


class Chapter:
    """The statements of one module."""

    def __init__(self, name: str, title: str, introduction: str) -> None:
        self.name, self.title, self.introduction = name, title, introduction
        self.statements: dict[int, Statement] = {}

    def works(self, number: int, text: str) -> Callable[[Test], Test]:
        """Register a test which shows that the statement holds."""
        return self._of_function(number, text, WORKS, "")

    def differs(self, number: int, text: str, because: str) -> Callable[[Test], Test]:
        """Register a test of a statement that differs from the design documents, with the reason."""
        return self._of_function(number, text, DIFFERS, because)

    def table(self, names: str, rows: Mapping[int, Row]) -> Callable[[Test], Test]:
        """Register one test for several statements; it receives the values of each row."""

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
