"""One test per op over all of its samples: thousands of tests of a millisecond would cost minutes to schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.samples import SAMPLES
from tests.samples.sample import OpSample

MOST_TOLD = 8


def each_sample(check: Callable[[OpSample], None]) -> Any:
    """The check as a test of an op, that names the samples it fails on."""

    @pytest.mark.parametrize("card", SAMPLES, ids=lambda card: card.__name__)
    def test(card: Any) -> None:
        failures: list[str] = []
        for sample in SAMPLES[card]:
            try:
                check(sample)
            except Exception as error:
                failures.append(f"{sample}: {type(error).__name__}: {error}")
        told = "\n".join(failures[:MOST_TOLD])
        assert not failures, f"{len(failures)} of {len(SAMPLES[card])} samples:\n{told}"

    test.__name__, test.__doc__ = check.__name__, check.__doc__
    return test
