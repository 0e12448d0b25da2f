"""Number of runs with random rounding that a bound needs for a given confidence.

A movement is the change of an element in a run with random rounding. Movements are assumed to be normally distributed
with mean 0, like sums of many rounding errors. The distance of two right implementations then has a standard deviation
that is larger by sqrt(2). The bound is `SAFETY` times the largest of N movements. If all N movements happen to be
small, the bound covers less than the share `SHARE` of right implementations. The probability of this is

    P(N) = (2 Phi(sqrt(2) z / SAFETY) - 1)^N,  z = Phi^-1((1 + SHARE) / 2)

where Phi is the normal distribution function. An outcome of a decision that has a probability of at least
`LEAST_CHANCE` occurs in none of N runs with a probability of at most (1 - LEAST_CHANCE)^N, for any distribution.

Source: D. Sohier, P. de Oliveira Castro, F. Fevotte, B. Lathuiliere, E. Petit, O. Jamond, Confidence intervals for
stochastic arithmetic, ACM Transactions on Mathematical Software 47(2), 2021: the centred normality hypothesis, and
Bernoulli trials.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from tenferro.errors import InvalidConfigError

__all__ = [
    "CONFIDENCE",
    "SAFETY",
    "decision_runs",
    "in_words",
    "required_confidence",
    "rounding_runs",
]

CONFIDENCE = 0.95
SAFETY = 8.0
"""Ratio of the bound to the largest movement."""
SHARE = 0.999
"""Share of right implementations that the bound covers."""
LEAST_CHANCE = 0.09
"""Smallest probability of an outcome of a decision that the runs must find with the given confidence."""


def rounding_runs(confidence: float) -> int:
    """Return after how many runs `SAFETY` times the largest movement of a result is a bound with this confidence.

    >>> rounding_runs(0.95), rounding_runs(0.999)
    (4, 9)
    """
    normal = NormalDist()
    size = math.sqrt(2.0) * normal.inv_cdf((1.0 + SHARE) / 2.0) / SAFETY
    all_are_small = 2.0 * normal.cdf(size) - 1.0
    return math.ceil(math.log(1.0 - confidence) / math.log(all_are_small))


def decision_runs(confidence: float) -> int:
    """Return the number of runs that find both outcomes of a decision that rounding flips, with this confidence.

    >>> decision_runs(0.95)
    32
    """
    return math.ceil(math.log(1.0 - confidence) / math.log(1.0 - LEAST_CHANCE))


def required_confidence(name: str, confidence: float) -> float:
    """Return the confidence as a float, after checking that it is between 0 and 1.

    Args:
        name: the name of the calling function, for the message.

    Raises:
        InvalidConfigError: the value is not between 0 and 1.
    """
    if not 0.0 < confidence < 1.0:
        raise InvalidConfigError(
            f"{name}: confidence must be a number between 0 and 1, such as 0.999, got {confidence!r}"
        )
    return float(confidence)


def in_words(confidence: float) -> str:
    """Describe for a report how the bound was estimated, and with which confidence."""
    return (
        f"sampled from {rounding_runs(confidence)} runs that round differently, {decision_runs(confidence)} where "
        f"rounding flips a decision: {confidence:.6g} confidence that it holds for {SHARE:.1%} of right implementations"
    )
