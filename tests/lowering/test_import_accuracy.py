"""Accuracy requirements of operations must be read, compared with the declared errors, kept, and written again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from lowering import import_stablehlo, lower_to_stablehlo
from lowering.emit.analytic import ACCURATE
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.ext.accuracy.families import ResultAccuracy
from tenferro.ops import analytic
from tenferro.ops.extension import Extension

X = np.linspace(-1, 2, 5)


def text_of(name: str, kind: str, demand: str, mode: str = "TOLERANCE") -> str:
    fields = f"{demand}{', ' if demand else ''}mode = #stablehlo.result_accuracy_mode<{mode}>"
    tensor = f"tensor<5x{kind}>"
    return f"""func.func @main(%x: {tensor}) -> {tensor} {{
  %0 = "stablehlo.{name}"(%x) <{{result_accuracy = #stablehlo.result_accuracy<{fields}>}}> : ({tensor}) -> {tensor}
  return %0 : {tensor}
}}"""


def demands(program: Any) -> list[Any]:
    return [i.op.op for i in program.instructions if isinstance(i.op, Extension)]


@pytest.mark.parametrize("mode", ["TOLERANCE", "HIGHEST", "DEFAULT"])
def test_a_demand_is_kept_in_text_batches_and_files(mode: str, tmp_path: Path) -> None:
    demand = "atol = 1.000000e-06, rtol = 2.500000e-01, ulps = 3" if mode == "TOLERANCE" else ""
    program = import_stablehlo(text_of("exponential", "f64", demand, mode))
    tolerances: list[Any] = [1e-6, 0.25, 3] if demand else []
    kept = [ResultAccuracy(analytic.Exp(), mode, *tolerances)] if mode != "DEFAULT" else []
    assert demands(program) == kept
    text = lower_to_stablehlo(program).text
    assert text.count(f"mode<{mode}>") == len(kept)
    again = import_stablehlo(text)
    assert demands(again) == kept
    assert lower_to_stablehlo(again).text == text
    tnf.save(program, tmp_path / "program.tnf")
    assert demands(tnf.load(tmp_path / "program.tnf")) == kept
    assert demands(tnf.compile(tnf.vmap(program.run), np.ones((2, 5)))) == kept
    np.testing.assert_array_equal(program.run(X), np.exp(X))
    np.testing.assert_allclose(xla_peer.XlaExecutor().run(program, X), np.exp(X), 1e-15)
    np.testing.assert_array_equal(tnf.grad(lambda x: tnf.sum(program(x)))(X), np.exp(X))


@pytest.mark.parametrize(
    ("name", "kind", "demand", "error"),
    [
        ("exponential", "f32", "ulps = 3", ""),
        ("exponential", "f32", "ulps = 2", "asks for 2 units in the last place of float32, .* 2.49 off"),
        ("exponential", "f32", "rtol = 3.000000e-07", ""),
        ("exponential", "f32", "rtol = 2.000000e-07", "asks for 1.68 units"),
        ("exponential", "f32", "atol = 1.000000e+00", "asks for 0 units"),
        ("tanh", "f32", "atol = 3.000000e-07", ""),
        ("exponential", "f16", "ulps = 1", ""),
        ("tanh", "f64", "ulps = 2", "2.28 off"),
        ("tanh", "complex<f32>", "ulps = 100", "complex functions are not tabulated"),
    ],
)  # fmt: skip
def test_a_demand_is_compared_with_native_errors(
    name: str, kind: str, demand: str, error: str
) -> None:
    text = text_of(name, kind, demand)
    if not error:
        assert len(demands(import_stablehlo(text))) == 1
        return
    with pytest.raises(UnsupportedError, match=rf"stablehlo\.{name}: result_accuracy.*{error}"):
        import_stablehlo(text)


def test_the_errors_are_those_of_the_page() -> None:
    """The declared errors must bound those in docs/accuracy.md, which differ a little between processors.

    If interpreted and compiled code differ, the larger error is declared.
    """
    page = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.split("|")] for line in page]
    rows = {row[1]: row for row in cells if len(row) == 15}
    for op, function in ACCURATE.items():
        row = rows[op.__name__.lower()]
        for declared, n in ((function.error_f32, 8), (function.error_f64, 11)):
            measured = max(float(row[n]), float(row[n + 1]))
            assert measured <= declared <= 1.2 * measured, op.__name__


def test_demands_that_are_none() -> None:
    with pytest.raises(InvalidConfigError, match="mode must be one of"):
        ResultAccuracy(analytic.Exp(), "LOWEST")
    with pytest.raises(InvalidConfigError, match="not be negative"):
        ResultAccuracy(analytic.Exp(), "TOLERANCE", atol=-1.0)
