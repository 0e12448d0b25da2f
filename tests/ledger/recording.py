"""The object in which a test records the checks that it passed."""

from __future__ import annotations

from typing import Any

from tests.ledger.ledger import COLUMNS

PROPERTY = "ledger"


class Passes:
    """Passed checks of one test, stored in the properties of its report; they are dropped if no ledger is written."""

    def __init__(self, properties: list[tuple[str, object]] | None) -> None:
        self.properties = properties

    def passed(self, column: str, sample: Any) -> None:
        """Record that `sample` passed the check `column`."""
        assert column in COLUMNS, column
        if self.properties is not None:
            from tests.ledger.writing import NUMBERS

            said = f"{column} {sample.name} {sample.dtype.short} {NUMBERS[id(sample)]}"
            self.properties.append((PROPERTY, said))
