"""`Budget`, the time that the search for the first op that differs may take."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Generator
from contextvars import ContextVar

__all__ = ["LOCATE_SECONDS", "Budget", "SearchTimeoutError", "spend_time"]

LOCATE_SECONDS = 60.0
"""Default time of the searches of one check, in seconds."""


class SearchTimeoutError(BaseException):
    """Signal that the time of a search is over. The search catches it, and returns what it found.

    It is no `Exception`, because it may be raised between two ops of a run, whose exceptions are errors of an op.
    """


class Budget:
    """Time that the searches of one check may take together. It is measured from the first step of the first search.

    Attributes:
        seconds: the time in seconds.
        is_exhausted: whether a search ended because the time was over.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self.seconds, self.is_exhausted = seconds, False
        self._until: float | None = None

    def spend(self) -> None:
        """Begin a step of a search.

        Raises:
            SearchTimeoutError: the time is over.
        """
        if self._until is None:
            self._until = time.monotonic() + self.seconds
        if time.monotonic() >= self._until:
            self.is_exhausted = True
            raise SearchTimeoutError

    @contextlib.contextmanager
    def step(self) -> Generator[None]:
        """Begin a step of a search, during which each op of a perturbed run may end the search.

        Raises:
            SearchTimeoutError: the time is over.
        """
        self.spend()
        token = _SPENT.set(self)
        try:
            yield
        finally:
            _SPENT.reset(token)

    @property
    def notes(self) -> tuple[str, ...]:
        """A note for the report if a search ended early; otherwise empty."""
        if not self.is_exhausted:
            return ()
        return (
            f"the search for the first op that differs ended after {self.seconds:g} seconds, so the fault may be in an "
            "earlier op or inside the op that is named; locate_seconds= allows more time",
        )


_SPENT: ContextVar[Budget | None] = ContextVar("spent", default=None)
"""The budget of the step of a search that is running."""


def spend_time() -> None:
    """End the search that is running if its time is over.

    Raises:
        SearchTimeoutError: the time is over.
    """
    budget = _SPENT.get()
    if budget is not None:
        budget.spend()
