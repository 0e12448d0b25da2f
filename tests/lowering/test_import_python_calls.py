"""A custom call may be computed by a Python function that a user has registered for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering import import_stablehlo, lower_to_stablehlo, register_custom_call
from lowering.read import python_calls
from tenferro import errors

X = np.arange(6, dtype="f4").reshape(2, 3)
TEXT = """
func.func @main(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2xi32>) {
  %0:2 = stablehlo.custom_call @theirs.turn(%x) {api_version = 4 : i32, backend_config = {factor = 3 : i64}}
    : (tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<2xi32>
}"""


@pytest.fixture(autouse=True)
def _none_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_calls, "_FUNCTIONS", {})


def step(x: Any, factor: int) -> Any:
    return factor * x.T, np.argmax(x, 1).astype("i4")


def test_a_registered_function_is_called_with_operands_and_options() -> None:
    with pytest.raises(errors.UnsupportedError, match=r"theirs\.turn.*register_custom_call"):
        import_stablehlo(TEXT)
    register_custom_call("theirs.turn", step)
    program = import_stablehlo(TEXT)
    y, places = program.run(X)
    np.testing.assert_array_equal(y, 3 * X.T)
    np.testing.assert_array_equal(places, [2, 2])
    with pytest.raises(errors.UnsupportedError, match="pure_callback"):
        lower_to_stablehlo(program)


@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        (lambda x, factor: x.T, errors.ArityError, "returns 1 results, declared are 2"),
        (lambda x, factor: (x, np.zeros(2, "i4")), errors.ShapeError, r"shape \(2, 3\), declared is f32\[3,2\]"),
        (lambda x, factor: (x.T, np.zeros(2)), errors.DTypeError, r"float64, declared is i32\[2\]"),
        (lambda x, factor: (x.T, np.array(["a", "b"])), errors.DTypeError, "U1"),
    ],
)  # fmt: skip
def test_what_it_returns_is_checked(function: Any, error: Any, said: str) -> None:
    register_custom_call("theirs.turn", function)
    with pytest.raises(errors.BackendFailureError, match=said) as caught:
        import_stablehlo(TEXT).run(X)
    assert isinstance(caught.value.__cause__, error)


def test_registering() -> None:
    register_custom_call("theirs.turn", step)
    with pytest.raises(errors.DuplicateFamilyError, match="already have a function"):
        register_custom_call("theirs.turn", step)
    with pytest.raises(errors.DuplicateFamilyError, match="already have a built-in reader"):
        register_custom_call("TopK", step)
    with pytest.raises(errors.InvalidConfigError, match="must be a function, got 3"):
        register_custom_call("theirs.other", 3)  # pyright: ignore[reportArgumentType]
    register_custom_call("theirs.turn", lambda x, factor: step(-x, factor), replace=True)
    np.testing.assert_array_equal(import_stablehlo(TEXT).run(X)[0], -3 * X.T)


def test_calls_that_are_refused() -> None:
    register_custom_call("theirs.make", lambda: np.zeros(2))
    text = """func.func @main() -> tensor<2xf64> {
  %0 = stablehlo.custom_call @theirs.make() : () -> tensor<2xf64>
  return %0 : tensor<2xf64>
}"""
    with pytest.raises(
        errors.UnsupportedError, match=r"theirs\.make: a Python function has operands"
    ):
        import_stablehlo(text)
