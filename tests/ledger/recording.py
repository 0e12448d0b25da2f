"""Recording of passed checks by a test."""

from __future__ import annotations

from typing import Any

from tests.ledger.ledger import COLUMNS

PROPERTY = "ledger"


class Passes:
    """Checks that one test passed, stored in the properties of its report; without a ledger they are dropped."""

    def __init__(self, properties: list[tuple[str, object]] | None) -> None:
        self.properties = properties

    def passed(self, column: str, sample: Any) -> None:
        """Record that the sample passed the check of a column."""
        assert column in COLUMNS, column
        if self.properties is not None:
            from tests.ledger.writing import NUMBERS

            said = f"{column} {sample.name} {sample.dtype.short} {NUMBERS[id(sample)]}"
            self.properties.append((PROPERTY, said))
