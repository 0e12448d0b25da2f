"""Logarithms of sums of exponentials, and softmax."""

from __future__ import annotations

from typing import Any

from tenferro.api import logarithms
from tenferro.nn.probabilities import logsumexp
from tenferro.types import ArrayLike, Axis

__all__ = ["log_softmax", "logsumexp", "softmax"]


def softmax(x: ArrayLike, /, *, axis: Axis = None) -> Any:
    """e^x over its sum along `axis`, without overflow; over all elements by default, as in SciPy.

    >>> softmax([[0.0, 0.0], [0.0, 0.0]])
    array([[0.25, 0.25],
           [0.25, 0.25]])
    """
    return logarithms.softmax(x, axis=axis)


def log_softmax(x: ArrayLike, /, *, axis: Axis = None) -> Any:
    """Compute the logarithm of `softmax`, accurate also for small probabilities; over all elements by default.

    >>> log_softmax([0.0, 1000.0])
    array([-1000.,     0.])
    """
    return logarithms.log_softmax(x, axis=axis)
