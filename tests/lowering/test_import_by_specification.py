"""Where implementations differ, what is imported does what StableHLO's text says."""

from __future__ import annotations

import numpy as np
import pytest

import lowering
import tenferro as tnf

X = np.array([1.0, 2.0, 4.0, 8.0, 16.0], "f4")


def windows(body: str, dims: int, options: str) -> str:
    """A function of five numbers and an initial value."""
    return f"""func.func @main(%x: tensor<5xf32>, %c: tensor<f32>) -> tensor<?xf32> {{
  %y = "stablehlo.reduce_window"(%x, %c) <{{window_dimensions = array<i64: {dims}>, {options}}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      {body}
      stablehlo.return %r : tensor<f32>
  }}) : (tensor<5xf32>, tensor<f32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}}"""


def by_text(x: np.ndarray, c: float, dims: int, low: int, high: int, base: int, step: int) -> list:
    """#reduce_window: "padded_input = pad(input, init_value, ..)", then "reduce(window, init_value, ..)" of each."""
    spread = np.full((len(x) - 1) * base + 1, c, "f4")
    spread[::base] = x
    padded = np.concatenate([np.full(low, c, "f4"), spread, np.full(high, c, "f4")])
    reach = (dims - 1) * step + 1
    starts = range(len(padded) - reach + 1)
    return [c + padded[i : i + reach : step].sum(dtype="f4") for i in starts]


CASES = {
    "padded": ("padding = dense<[[1, 1]]> : tensor<1x2xi64>", 2, (1, 1, 1, 1)),
    "dilated operand": ("base_dilations = array<i64: 2>", 3, (0, 0, 2, 1)),
    "dilated and padded window": (
        "window_dilations = array<i64: 2>, padding = dense<[[2, 1]]> : tensor<1x2xi64>",
        3,
        (2, 1, 1, 2),
    ),
}
REGIONS = {
    "addition": "%r = stablehlo.add %a, %b : tensor<f32>",
    "a region of several operations": (
        "%n = stablehlo.negate %b : tensor<f32> %r = stablehlo.subtract %a, %n : tensor<f32>"
    ),
}


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("name", CASES)
def test_windows_with_an_initial_value_that_is_no_identity(name: str, region: str) -> None:
    """The padding has the initial value, and each window begins with it: XLA counts it once in all.

    #reduce: the tree that reduces has the elements "in ascending lexicographic order .., interspersed with an
    implementation-defined amount of init_values"; the reference interpreter begins with one.
    """
    options, dims, edges = CASES[name]
    program = lowering.import_stablehlo(windows(REGIONS[region], dims, options))
    wanted = by_text(X, 3.0, dims, *edges)
    np.testing.assert_array_equal(program.run(X, np.float32(3)), wanted)
    # The sum of the results is linear in the initial value.
    slope = tnf.grad(lambda c: tnf.sum(program.run(X, c)))(np.float32(3))
    count = sum(by_text(np.zeros(5, "f4"), 1.0, dims, *edges))
    assert slope == count


GATHER = """func.func @main(%x: tensor<5xf32>, %i: tensor<3x1xi32>) -> tensor<3xf32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}>
    : (tensor<5xf32>, tensor<3x1xi32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}"""
SCATTER = """func.func @main(%x: tensor<5xf32>, %i: tensor<3x1xi32>, %u: tensor<3xf32>) -> tensor<5xf32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %r = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %r : tensor<f32>
  }) : (tensor<5xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<5xf32>
  return %y : tensor<5xf32>
}"""
INDICES = np.array([[-12], [1], [7]], "i4")


def test_gathers_out_of_bounds_and_their_adjoint() -> None:
    """#gather: "full_start_index .. clamp(0, start_index, shape(operand) - slice_sizes)".

    So x[-12] is x[0], and its cotangent is added there; JAX's gradient drops it, because its transpose is a scatter.
    """
    program = lowering.import_stablehlo(GATHER)
    np.testing.assert_array_equal(program.run(X, INDICES), X[[0, 1, 4]])
    weights = np.array([3.0, 5.0, 7.0], "f4")
    slope = tnf.grad(lambda x: tnf.sum(program.run(x, INDICES) * weights))(X)
    np.testing.assert_array_equal(slope, [3, 5, 0, 0, 7])


def test_scatters_out_of_bounds_and_their_adjoint() -> None:
    """#scatter: an update is left out "if result_index is in bounds for shape(results)" does not hold."""
    program = lowering.import_stablehlo(SCATTER)
    updates = np.array([3.0, 5.0, 7.0], "f4")
    np.testing.assert_array_equal(
        program.run(X, INDICES, updates), X + np.array([0, 5, 0, 0, 0], "f4")
    )
    weights = np.arange(1.0, 6.0, dtype="f4")
    slope = tnf.grad(lambda u: tnf.sum(program.run(X, INDICES, u) * weights))(updates)
    np.testing.assert_array_equal(slope, [0, 2, 0])
