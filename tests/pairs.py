"""Pairs of cases and kinds that tests run, without running every one of them each time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

__all__ = ["in_turn"]


def in_turn(first: str, cases: Iterable[Any], second: str, kinds: Sequence[Any]) -> Any:
    """Parametrize by each case of two parameters with one of the kinds, which alternate; the sweep has all pairs."""
    pairs = [
        pytest.param(case, kind, marks=[] if (number - k) % len(kinds) == 0 else [pytest.mark.sweep])
        for number, case in enumerate(cases)
        for k, kind in enumerate(kinds)
    ]  # fmt: skip
    return pytest.mark.parametrize((first, second), pairs)
