"""Tests of all samples of an op as one test.

To schedule thousands of tests of a millisecond each would take minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.ledger.recording import Passes
from tests.samples import SAMPLES
from tests.samples.sample import OpSample

MOST_TOLD = 8

Check = Callable[[OpSample], None]
each_card = pytest.mark.parametrize("card", SAMPLES, ids=lambda card: card.__name__)


def each_sample(check: Check) -> Any:
    """Convert a check of one sample to a test of each op. The test names the samples that fail."""

    @each_card
    def test(card: Any) -> None:
        all_pass(check, SAMPLES[card])

    return _named(test, check)


def each_sample_of(column: str, every: int = 1) -> Callable[[Check], Any]:
    """Return a decorator that converts a check of one sample to a test of each op.

    Samples that pass are recorded in the ledger. Samples that are exempt from the ledger's check `column` are
    skipped. Without a ledger, only one in `every` samples is checked.
    """

    def as_test(check: Check) -> Any:
        @each_card
        def test(card: Any, ledger: Passes) -> None:
            from tests.ledger.writing import exemption

            samples = [sample for sample in SAMPLES[card] if exemption(column, sample) is None]
            all_pass(check, samples if ledger.properties is not None else samples[::every])
            for sample in samples:
                ledger.passed(column, sample)

        return _named(test, check)

    return as_test


def all_pass(check: Check, samples: Sequence[OpSample]) -> None:
    """Run a check on all samples; fail with the names of the samples for which the check fails."""
    failures: list[str] = []
    for sample in samples:
        try:
            check(sample)
        except Exception as error:
            failures.append(f"{sample}: {type(error).__name__}: {error}")
    told = "\n".join(failures[:MOST_TOLD])
    assert not failures, f"{len(failures)} of {len(samples)} samples:\n{told}"


def _named(test: Any, check: Check) -> Any:
    test.__name__, test.__doc__ = check.__name__, check.__doc__
    return test
