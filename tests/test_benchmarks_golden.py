"""The benchmark of reference values must compare runs of the same function, with equal results."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def golden(monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    spec = importlib.util.spec_from_file_location("benchmarks_golden", folder / "golden.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "benchmarks_golden", module)
    spec.loader.exec_module(module)
    return module


def test_a_case_is_timed_where_results_agree(golden: Any) -> None:
    product, *others = golden.cases()
    assert min(golden.measured(product, 0.0)) > 0
    assert golden.interpreted(others[1]) > 1


def test_a_row_of_the_table(golden: Any) -> None:
    case = golden.Case("a product", None, (), ())
    assert (
        golden.row(case, 0.001, 0.002, 1234.4)
        == "| a product | 1 | 2 | 0.50 | 1,234 times native |"
    )
