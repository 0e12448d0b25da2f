"""The tool that finds import cycles. The packages must have none."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("imports", "told"),
    [
        ({"a": ["b", "numpy"], "b": ["c"], "c": []}, []),
        ({"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": [], "e": ["a"]}, [("b", "c", "b")]),
        ({"a": ["b"], "b": ["a", "c"], "c": ["d"], "d": ["c"]}, [("a", "b", "a"), ("c", "d", "c")]),
        ({"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["c"]}, [("c", "d", "c")]),
    ],
)
def test_a_shortest_cycle_of_each_group_is_told(
    imports: dict[str, list[str]], told: list[Any]
) -> None:
    assert list(runpy.run_path(str(ROOT / "tools/cycles.py"))["cycles"](imports)) == told
