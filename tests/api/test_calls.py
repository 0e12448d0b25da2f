"""How often what stands between an operator and its node is called."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.api import promotion


def calls(function: Any) -> Counter[str]:
    """Python calls by name while `function` runs."""
    names: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            names[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return names


@pytest.mark.parametrize("other", [2, 2.0, True])
@pytest.mark.parametrize("function", [tnf.add, tnf.divide, tnf.less])
def test_a_number_is_promoted_once(function: Any, other: Any) -> None:
    def traced(x: Any) -> Any:
        assert calls(lambda: function(x, other))[promotion.number_beside.__name__] == 1
        assert calls(lambda: function(other, x))[promotion.number_beside.__name__] == 1
        assert calls(lambda: function(x, x))[promotion.number_beside.__name__] == 0
        return x

    tnf.compile(traced, np.ones(3))
