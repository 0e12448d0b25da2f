"""A module is compared before and after compiler passes.

The check must name the first value that differs, and its line.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import xla_peer
from tenferro.errors import ArityError, ShapeError
from xla_peer.cli import app

BEFORE = """func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
  %0 = stablehlo.add %x, %y : tensor<3xf64>
  %1 = stablehlo.exponential %0 : tensor<3xf64>
  %2 = stablehlo.multiply %1, %x : tensor<3xf64>
  %3 = stablehlo.negate %2 : tensor<3xf64>
  return %1, %3 : tensor<3xf64>, tensor<3xf64>
}
"""
AFTER = """func.func @main(%a: tensor<3xf64>, %b: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
  %p = stablehlo.exponential %a : tensor<3xf64>
  %q = stablehlo.exponential %b : tensor<3xf64>
  %r = stablehlo.multiply %p, %q : tensor<3xf64>
  %s = stablehlo.multiply %r, OPERAND : tensor<3xf64>
  %t = stablehlo.negate %s : tensor<3xf64>
  return %r, %t : tensor<3xf64>, tensor<3xf64>
}
"""
INPUTS = [np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25, -1.0])]


def test_a_rewrite_that_rounds_otherwise_is_accepted() -> None:
    change = xla_peer.check_transformation(
        BEFORE, AFTER.replace("OPERAND", "%a"), INPUTS, interpreter=False
    )
    assert change.ok
    assert (change.before, change.after) == (None, None)


def test_the_first_value_that_differs() -> None:
    change = xla_peer.check_transformation(
        BEFORE, AFTER.replace("OPERAND", "%b"), INPUTS, interpreter=False
    )
    assert not change.ok
    assert [output.verdict for output in change.parity.outputs][1] == "wrong: module"
    assert change.before is not None
    assert change.after is not None
    assert (change.before.name, change.before.line) == ("%2", 4)
    assert (change.after.name, change.after.line) == ("%s", 5)
    assert "before: %2 at line 4: %2 = stablehlo.multiply %1, %x" in str(change)
    assert change.to_dict()["before"]["name"] == "%2"


def test_exchanged_results_are_named_on_both_sides() -> None:
    change = xla_peer.check_transformation(
        BEFORE, BEFORE.replace("return %1, %3", "return %3, %1"), INPUTS, interpreter=False
    )
    assert change.before is not None
    assert change.after is not None
    assert (change.before.name, change.after.name) == ("%1", "%3")


def test_an_argument_that_is_returned_has_no_name() -> None:
    text = """func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
  return %x, %y : tensor<3xf64>, tensor<3xf64>
}
"""
    change = xla_peer.check_transformation(BEFORE, text, INPUTS, interpreter=False)
    assert not change.ok
    assert change.before is None


def test_modules_of_other_types() -> None:
    with pytest.raises(ShapeError):
        xla_peer.check_transformation(BEFORE, AFTER, [*INPUTS[:1], np.ones(4)])
    with pytest.raises(ArityError):
        xla_peer.check_transformation(BEFORE, AFTER, INPUTS[:1])


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.mlir").write_text(BEFORE)
    Path("b.mlir").write_text(AFTER.replace("OPERAND", "%b"))
    words = ["parity", "--before", "a.mlir", "--after", "b.mlir", "--in-process"]
    done = CliRunner().invoke(app, [*words, "3xf64", "3xf64"])
    assert done.exit_code == 1, done.output
    assert "before: %2 at line 4" in done.output
    done = CliRunner().invoke(app, [*words, "--json", "3xf64", "3xf64"])
    assert json.loads(done.output)["after"]["name"] == "%s"
    for wrong in (["parity"], words[:3], [*words, "--grad"]):
        assert CliRunner().invoke(app, wrong).exit_code == 2
