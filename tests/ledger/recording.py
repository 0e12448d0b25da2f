"""How a test tells what it saw pass."""

from __future__ import annotations

from typing import Any

from tests.ledger.ledger import COLUMNS

PROPERTY = "ledger"


class Passes:
    """Checks that one test passed, among the properties of its report; nothing without a ledger."""

    def __init__(self, properties: list[tuple[str, object]] | None) -> None:
        self.properties = properties

    def passed(self, column: str, sample: Any) -> None:
        """The sample passed the check of that column."""
        assert column in COLUMNS, column
        if self.properties is not None:
            from tests.ledger.writing import NUMBERS

            said = f"{column} {sample.name} {sample.dtype.short} {NUMBERS[id(sample)]}"
            self.properties.append((PROPERTY, said))
