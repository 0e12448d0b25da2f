"""The object with which a test records the checks that it has passed."""

from __future__ import annotations

from typing import Any

from tests.ledger.ledger import COLUMNS

PROPERTY = "ledger"


class Passes:
    """Passed checks of one test.

    They are stored in the properties of the test's report. If no ledger is written, they are dropped.
    """

    def __init__(self, properties: list[tuple[str, object]] | None) -> None:
        self.properties = properties

    def passed(self, column: str, sample: Any) -> None:
        """Record that the test passed the check `column` for this sample."""
        assert column in COLUMNS, column
        if self.properties is not None:
            from tests.ledger.writing import NUMBERS

            said = f"{column} {sample.name} {sample.dtype.short} {NUMBERS[id(sample)]}"
            self.properties.append((PROPERTY, said))
