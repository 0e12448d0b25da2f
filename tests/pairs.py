"""Pairs of test parameters, of which ordinary runs test only a part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

__all__ = ["in_turn"]


def in_turn(first: str, cases: Iterable[Any], second: str, kinds: Sequence[Any]) -> Any:
    """Parametrise a test by pairs.

    In ordinary runs, each case has one of the kinds, in rotation. The sweep has all pairs.
    """
    pairs = [
        pytest.param(case, kind, marks=[] if (number - k) % len(kinds) == 0 else [pytest.mark.sweep])
        for number, case in enumerate(cases)
        for k, kind in enumerate(kinds)
    ]  # fmt: skip
    return pytest.mark.parametrize((first, second), pairs)
