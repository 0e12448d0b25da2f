"""The number of runs of a rounding estimate must have the promised confidence. Sampling checks this."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import InvalidConfigError
from xla_peer import check_parity
from xla_peer.parity import paths
from xla_peer.parity.confidence import SAFETY, decision_runs, rounding_runs

LEVELS = [0.5, 0.9, 0.95, 0.99, 0.999]
TRIALS = 100_000


@pytest.mark.parametrize("confidence", LEVELS)
def test_the_largest_movement_of_that_many_runs_bounds_other_implementations(
    confidence: float,
) -> None:
    """The bound is `SAFETY` times the largest of N normal deviations.

    It must hold for new differences with at least the given confidence.
    """
    rng = np.random.default_rng(3)
    count = rounding_runs(confidence)
    bound = SAFETY * np.abs(rng.standard_normal((TRIALS, count))).max(axis=1)
    differences = np.sort(np.abs(rng.standard_normal(TRIALS) - rng.standard_normal(TRIALS)))
    covered = np.searchsorted(differences, bound) / TRIALS
    noise = 4 * np.sqrt(confidence * (1 - confidence) / TRIALS)
    assert np.mean(covered >= 0.999) >= confidence - noise - 0.002
    if count > 1:
        fewer = SAFETY * np.abs(rng.standard_normal((TRIALS, count - 1))).max(axis=1)
        assert np.mean(np.searchsorted(differences, fewer) / TRIALS >= 0.999) < confidence


@pytest.mark.parametrize("confidence", LEVELS)
def test_that_many_runs_have_both_sides_of_a_decision(confidence: float) -> None:
    rng = np.random.default_rng(4)
    count = decision_runs(confidence)
    seen = (rng.random((TRIALS // 10, count)) < 0.09).any(axis=1)
    assert seen.mean() >= confidence - 4 * np.sqrt(confidence * (1 - confidence) / (TRIALS // 10))


def test_the_report_says_how_many_runs_and_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.linspace(0.1, 0.9, 5)
    counts: list[int] = []

    def counted(program: Any, leaves: Any, runs: int, platform: str, record: Any = None) -> Any:
        counts.append(runs)
        return moved_outputs(program, leaves, runs, platform, record)

    moved_outputs = paths.moved_outputs
    monkeypatch.setattr(paths, "moved_outputs", counted)
    fn = lambda x: tnf.exp(x) * x
    for confidence, runs in ((0.95, 4), (0.999, 9)):
        counts.clear()
        report = check_parity(fn, x, confidence=confidence)
        assert counts == [runs]
        assert f"from {runs} runs" in str(report)
        assert str(confidence) in report.to_dict()["bound"]
    assert check_parity(fn, x, bound="proven").bound == "proven"
    assert not check_parity(fn, x, ulps=4).bound


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1, 2.0, float("nan")])
def test_a_confidence_is_between_0_and_1(confidence: float) -> None:
    with pytest.raises(InvalidConfigError, match=r"between 0 and 1, such as 0\.999"):
        check_parity(lambda x: x, np.ones(2), confidence=confidence)
