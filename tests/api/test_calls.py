"""The number of Python calls from an operator to the node that it adds to the graph must stay small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.api import promotion
from tests.counting import calls


@pytest.mark.parametrize("other", [2, 2.0, True])
@pytest.mark.parametrize("function", [tnf.add, tnf.divide, tnf.less])
def test_a_number_is_promoted_once(function: Any, other: Any) -> None:
    def traced(x: Any) -> Any:
        assert calls(lambda: function(x, other))[promotion.promote_number.__name__] == 1
        assert calls(lambda: function(other, x))[promotion.promote_number.__name__] == 1
        assert calls(lambda: function(x, x))[promotion.promote_number.__name__] == 0
        return x

    tnf.compile(traced, np.ones(3))
