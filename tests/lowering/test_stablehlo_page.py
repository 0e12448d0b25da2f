"""The page of supported operations must agree with the readers' tables, and with what the readers accept."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import lowering
from lowering.read import READERS
from lowering.syntax.definitions import DEFINITIONS
from lowering.types import element_type
from tenferro.types import DType

TOOL = Path(__file__).resolve().parents[2] / "tools" / "stablehlo_page.py"


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("stablehlo_page", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_as_the_tables_are(tool: Any) -> None:
    assert tool.PAGE.read_text() == tool.page()


def test_every_operation_has_one_status_and_few_reasons_refuse(tool: Any) -> None:
    status = tool.statuses()
    assert status.keys() == DEFINITIONS.keys()
    assert status["stablehlo.add"] == status["chlo.scan"] == status["chlo.broadcast_add"] == "read"
    assert len(tool.rows(status, "refused")) <= 10
    assert not set(tool.REWRITTEN) & READERS.keys()


def test_every_element_type_is_an_argument_and_a_result() -> None:
    for dtype in DType:
        kind = f"tensor<2x{element_type(dtype)}>"
        text = f"func.func @main(%x: {kind}) -> {kind} {{\n  return %x : {kind}\n}}"
        (spec,) = lowering.import_stablehlo(text, trusted=True).input_specs
        assert spec.dtype is dtype
