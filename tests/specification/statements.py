"""Statements of the contract, each beside the test that shows it; `make specification` writes them as pages.

A chapter numbers its statements: `identity.3` stays what it is, and a number is not used again.
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
    """One sentence of the contract, and what became of it.

    Attributes:
        because: of one that differs, what a user has of it.
        test: the function that shows it.
    """

    number: int
    text: str
    verdict: str
    because: str
    test: str


class Row:
    """A statement of a table, with what its test is given."""

    def __init__(self, text: str, *values: Any, because: str = "") -> None:
        self.text, self.values, self.because = text, values, because


class Chapter:
    """The statements of one module."""

    def __init__(self, name: str, title: str, introduction: str) -> None:
        self.name, self.title, self.introduction = name, title, introduction
        self.statements: dict[int, Statement] = {}

    def works(self, number: int, text: str) -> Callable[[Test], Test]:
        """The test shows that the statement is kept."""
        return self._of_function(number, text, WORKS, "")

    def differs(self, number: int, text: str, because: str) -> Callable[[Test], Test]:
        """The test shows what is done instead of what the statement's source asked for, and why."""
        return self._of_function(number, text, DIFFERS, because)

    def table(self, names: str, rows: Mapping[int, Row]) -> Callable[[Test], Test]:
        """One test for many statements, given each row's values."""

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
