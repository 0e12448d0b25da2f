"""Operations along axes whose sizes depend on data must compute what they compute along axes of these sizes.

The definitions are the specification's formulas, evaluated by NumPy on the elements that an axis has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro import errors

ROWS = "tensor<?x3xf64, #stablehlo.bounds<4, ?>>"
REGION = """({ ^bb0(%p: tensor<f64>, %q: tensor<f64>): %o = stablehlo.add %p, %q : tensor<f64>
  stablehlo.return %o : tensor<f64> })"""

PRODUCT = """%s = stablehlo.add %p, %q : tensor<f64>
  %u = stablehlo.multiply %p, %q : tensor<f64>
  %v = stablehlo.multiply %u, %eighth : tensor<f64>
  %o = stablehlo.subtract %s, %v : tensor<f64>
  stablehlo.return %o : tensor<f64>"""
"""Region of the associative operation 8 * (1 - (1 - p / 8) * (1 - q / 8))."""


def windows(x: Any, edge: float, high: int) -> Any:
    """Sum two neighbouring rows of x with a stride of 2; padding has one row before and `high` rows after."""
    rows = np.full((len(x) + 1 + high, 3), edge)
    rows[1 : 1 + len(x)] = x
    count = max((len(rows) - 2) // 2 + 1, 0)
    return np.array([rows[2 * i] + rows[2 * i + 1] + edge for i in range(count)]).reshape(count, 3)


def convolved(x: Any) -> Any:
    """Convolve the first column of x, with a zero between neighbouring elements, with the kernel (1, 2)."""
    spaced = np.zeros(max(2 * len(x) - 1, 0) + 1)
    spaced[1::2] = x[:, 0]
    return spaced[:-1] + 2 * spaced[1:]


def updated(x: Any, y: Any, i: int) -> Any:
    i = min(max(i, 0), len(x) - 2)
    return np.concatenate([x[:i], y, x[i + 2 :]])


CASES: dict[str, tuple[str, str, int, Callable[..., Any]]] = {
    "#reshape to a vector": (
        "tensor<?xf64, #stablehlo.bounds<12>>",
        f"stablehlo.reshape %a : ({ROWS}) -> TYPE",
        0,
        lambda x, y, i: x.reshape(-1),
    ),
    "#reshape of columns to rows": (
        "tensor<3x?xf64, #stablehlo.bounds<?, 4>>",
        f"stablehlo.reshape %a : ({ROWS}) -> TYPE",
        0,
        lambda x, y, i: x.reshape(3, len(x)),
    ),
    "#reshape by an axis of one": (
        "tensor<?x1x3xf64, #stablehlo.bounds<4, ?, ?>>",
        f"stablehlo.reshape %a : ({ROWS}) -> TYPE",
        0,
        lambda x, y, i: x[:, None],
    ),
    "#slice of columns": (
        "tensor<?x2xf64, #stablehlo.bounds<4, ?>>",
        f"stablehlo.slice %a [0:4, 1:3] : ({ROWS}) -> TYPE",
        0,
        lambda x, y, i: x[:, 1:],
    ),
    "#slice of rows": (
        "tensor<2x?xf64, #stablehlo.bounds<?, 4>>",
        "stablehlo.slice %t [0:3:2, 0:4] : (tensor<3x?xf64, #stablehlo.bounds<?, 4>>) -> TYPE",
        0,
        lambda x, y, i: x.T[::2],
    ),
    "#slice of a part of the rows": (
        "tensor<3x3xf64>",
        f"stablehlo.slice %a [1:4, 0:3] : ({ROWS}) -> TYPE",
        0,
        lambda x, y, i: np.concatenate([x, np.zeros((4 - len(x), 3))])[1:],
    ),
    "#dynamic_slice": (
        "tensor<2x3xf64>",
        f"stablehlo.dynamic_slice %a, %i, %i, sizes = [2, 3] : ({ROWS}, tensor<i32>, tensor<i32>) -> TYPE",
        2,
        lambda x, y, i: x[min(max(i, 0), len(x) - 2) :][:2],
    ),
    "#dynamic_update_slice": (
        ROWS,
        f"stablehlo.dynamic_update_slice %a, %y, %i, %i : ({ROWS}, tensor<2x3xf64>, tensor<i32>, tensor<i32>) -> TYPE",
        2,
        updated,
    ),
    "chlo.top_k, rows": (
        "tensor<?x2xf64, #stablehlo.bounds<4, ?>>",
        f"chlo.top_k(%a, k = 2) : {ROWS} -> (TYPE, tensor<?x2xi32, #stablehlo.bounds<4, ?>>)",
        0,
        lambda x, y, i: -np.sort(-x, 1)[:, :2],
    ),
    "chlo.top_k, columns": (
        "tensor<3x2xf64>",
        "chlo.top_k(%t, k = 2) : tensor<3x?xf64, #stablehlo.bounds<?, 4>> -> (TYPE, tensor<3x2xi32>)",
        2,
        lambda x, y, i: -np.sort(-x.T, 1)[:, :2],
    ),
    "#reduce_window": (
        "tensor<?x3xf64>",
        f"""stablehlo.reduce_window"(%a, %one) {REGION} {{window_dimensions = array<i64: 2, 1>,
          window_strides = array<i64: 2, 1>, padding = dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>}}
          : ({ROWS}, tensor<f64>) -> TYPE""",
        0,
        lambda x, y, i: windows(x, 1.0, 1),
    ),
    "#reduce_window, negative padding": (
        "tensor<?x3xf64>",
        f"""stablehlo.reduce_window"(%a, %one) {REGION} {{window_dimensions = array<i64: 2, 1>,
          window_strides = array<i64: 2, 1>, padding = dense<[[1, -1], [0, 0]]> : tensor<2x2xi64>}}
          : ({ROWS}, tensor<f64>) -> TYPE""",
        0,
        lambda x, y, i: windows(x[:-1], 1.0, 0) if len(x) else windows(x, 1.0, -1),
    ),
    "#convolution, spatial": (
        "tensor<1x?x1xf64>",
        """stablehlo.convolution(%image, %kernel) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
          window = {lhs_dilate = [2], pad = [[1, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<1x?x1xf64, #stablehlo.bounds<?, 4, ?>>, tensor<2x1x1xf64>) -> TYPE""",
        0,
        lambda x, y, i: convolved(x)[None, :, None],
    ),
    "#convolution, batch": (
        "tensor<?x2x1xf64>",
        """stablehlo.convolution(%batch, %kernel) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
          window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<?x3x1xf64, #stablehlo.bounds<4, ?, ?>>, tensor<2x1x1xf64>) -> TYPE""",
        0,
        lambda x, y, i: (x[:, :-1] + 2 * x[:, 1:])[..., None],
    ),
    "#clamp": (
        ROWS,
        f"stablehlo.clamp %one, %a, %four : (tensor<f64>, {ROWS}, tensor<f64>) -> TYPE",
        0,
        lambda x, y, i: np.clip(x, 1, 4),
    ),
    "#reduce of some axes": (
        "tensor<?xf64, #stablehlo.bounds<4>>",
        f"stablehlo.reduce(%a init: %one) applies stablehlo.add across dimensions = [1] : ({ROWS}, tensor<f64>) -> TYPE",
        0,
        lambda x, y, i: 1 + x.sum(1),
    ),
    "#reduce by a region of four operations": (
        "tensor<f64>",
        f"""stablehlo.reduce(%a init: %four) across dimensions = [0, 1] : ({ROWS}, tensor<f64>) -> TYPE
          reducer(%p: tensor<f64>, %q: tensor<f64>) {{ {PRODUCT} }}""",
        0,
        lambda x, y, i: 8 - 4 * (1 - x / 8).prod(),
    ),
    "#reduce of columns by a region of four operations": (
        "tensor<?xf64, #stablehlo.bounds<4>>",
        f"""stablehlo.reduce(%a init: %four) across dimensions = [1] : ({ROWS}, tensor<f64>) -> TYPE
          reducer(%p: tensor<f64>, %q: tensor<f64>) {{ {PRODUCT} }}""",
        0,
        lambda x, y, i: 8 - 4 * (1 - x / 8).prod(1),
    ),
    "#concatenate": (
        "tensor<?x3xf64, #stablehlo.bounds<10, ?>>",
        f"stablehlo.concatenate %a, %y, %a, dim = 0 : ({ROWS}, tensor<2x3xf64>, {ROWS}) -> TYPE",
        0,
        lambda x, y, i: np.concatenate([x, y, x]),
    ),
    "#concatenate along an exact axis": (
        "tensor<?x6xf64, #stablehlo.bounds<4, ?>>",
        f"stablehlo.concatenate %a, %a, dim = 1 : ({ROWS}, {ROWS}) -> TYPE",
        0,
        lambda x, y, i: np.concatenate([x, x], 1),
    ),
}


def program_of(kind: str, apply: str) -> tnf.GraphProgram:
    first = "%c, %d" if "top_k" in apply else "%c"
    apply = f'"{apply}' if apply.startswith('stablehlo.reduce_window"') else apply
    return lowering.import_stablehlo(
        f"""func.func @main(%x: tensor<4x3xf64>, %size: tensor<f64>, %y: tensor<2x3xf64>, %i: tensor<i32>) -> {kind} {{
      %n = stablehlo.convert %size : (tensor<f64>) -> tensor<i32>
      %one = stablehlo.constant dense<1.0> : tensor<f64>
      %four = stablehlo.constant dense<4.0> : tensor<f64>
      %eighth = stablehlo.constant dense<0.125> : tensor<f64>
      %kernel = stablehlo.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf64>
      %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4x3xf64>, tensor<i32>) -> {ROWS}
      %t = stablehlo.transpose %a, dims = [1, 0] : ({ROWS}) -> tensor<3x?xf64, #stablehlo.bounds<?, 4>>
      %first = stablehlo.slice %x [0:4, 0:1] : (tensor<4x3xf64>) -> tensor<4x1xf64>
      %whole = stablehlo.reshape %first : (tensor<4x1xf64>) -> tensor<1x4x1xf64>
      %image = stablehlo.set_dimension_size %whole, %n, dim = 1
        : (tensor<1x4x1xf64>, tensor<i32>) -> tensor<1x?x1xf64, #stablehlo.bounds<?, 4, ?>>
      %rows = stablehlo.reshape %x : (tensor<4x3xf64>) -> tensor<4x3x1xf64>
      %batch = stablehlo.set_dimension_size %rows, %n, dim = 0
        : (tensor<4x3x1xf64>, tensor<i32>) -> tensor<?x3x1xf64, #stablehlo.bounds<4, ?, ?>>
      {first} = {apply.replace("TYPE", kind)}
      return %c : {kind}
    }}"""
    )


@pytest.mark.parametrize("name", CASES)
def test_sizes_that_depend_on_data(name: str) -> None:
    """Values and derivatives are those of the elements within the sizes; a size that is too small is an error."""
    kind, apply, least, definition = CASES[name]
    program = program_of(kind, apply)
    x = np.array([[3.0, 1.5, 8.0], [2.5, 5.0, 0.5], [7.0, 6.5, 2.0], [1.2, 4.5, 9.0]])
    y = -np.arange(1.0, 7).reshape(2, 3)
    for size in range(5):
        for i in (-1, 0, 1, 3):
            arguments = float(size), y, np.int32(i)
            if size < least:
                with pytest.raises(errors.ShapeError, match="longer"):
                    program.run(x, *arguments)
                continue
            wanted = definition(x[:size], y, i)
            result = program.run(x, *arguments)
            assert result.shape == wanted.shape
            np.testing.assert_allclose(result, wanted, rtol=1e-14)
        if size < least:
            continue
        slope = tnf.grad(lambda x, s=size: tnf.sum(tnf.sin(program(x, float(s), y, np.int32(1)))))(
            x
        )
        for place in np.ndindex(4, 3):
            step = np.zeros_like(x)
            step[place] = 1e-6
            high, low = [
                np.sin(definition((x + sign * step)[:size], y, 1)).sum() for sign in (1, -1)
            ]
            np.testing.assert_allclose(slope[place], (high - low) / 2e-6, atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_batches_of_gradients_and_second_derivatives(name: str) -> None:
    """A batched gradient is that of each slice; second derivatives are the differences of the gradient."""
    kind, apply, least, _ = CASES[name]
    program = program_of(kind, apply)
    x = np.array([[3.0, 1.5, 8.0], [2.5, 5.0, 0.5], [7.0, 6.5, 2.0], [1.2, 4.5, 9.0]])
    y = -np.arange(1.0, 7).reshape(2, 3)
    for size in {least, 3}:

        def f(x: Any, size: int = size) -> Any:
            return tnf.sum(tnf.sin(program(x, float(size), y, np.int32(1))))

        slope = tnf.grad(f)
        slopes = tnf.vmap(slope)(np.stack([x, 1.1 * x]))
        np.testing.assert_allclose(slopes, [slope(x), slope(1.1 * x)], rtol=1e-13, atol=1e-13)
        second = tnf.hessian(f)(x)
        for place in np.ndindex(4, 3):
            step = np.zeros_like(x)
            step[place] = 1e-5
            wanted = (slope(x + step) - slope(x - step)) / 2e-5
            np.testing.assert_allclose(second[(..., *place)], wanted, atol=1e-7)


def test_a_region_of_several_operations_needs_numbers_for_the_extents() -> None:
    """A symbolic extent is refused by name, and with a number the module is read."""
    text = f"""func.func @main(%x: tensor<?xf64>) -> tensor<f64> {{
      %zero = stablehlo.constant dense<0.0> : tensor<f64>
      %eighth = stablehlo.constant dense<0.125> : tensor<f64>
      %c = stablehlo.reduce(%x init: %zero) across dimensions = [0] : (tensor<?xf64>, tensor<f64>) -> tensor<f64>
        reducer(%p: tensor<f64>, %q: tensor<f64>) {{ {PRODUCT} }}
      return %c : tensor<f64>
    }}"""
    with pytest.raises(errors.UnsupportedError, match=r"reduce: .* along \(0,\) .*pass specs"):
        lowering.import_stablehlo(text)
    x = np.array([3.0, 1.5, 2.0])
    program = lowering.import_stablehlo(text, [tnf.TensorSpec.parse("f64[3]")])
    np.testing.assert_allclose(program.run(x), 8 - 8 * (1 - x / 8).prod(), rtol=1e-15)


@pytest.mark.parametrize("kind", ["tensor<?x3xf64>", ROWS])
def test_gradients_of_gathers_with_clamped_indices(kind: str) -> None:
    """A window that is moved into bounds gets its cotangent there, whether extents are symbolic or depend on data."""
    size = ", %size: tensor<i32>" if kind == ROWS else ""
    first = f"%a = stablehlo.set_dimension_size %x, %size, dim = 0 : (tensor<4x3xf64>, tensor<i32>) -> {kind}"
    program = lowering.import_stablehlo(f"""
      func.func @main({"%x: tensor<4x3xf64>" if size else f"%a: {kind}"}{size}) -> tensor<3x2xf64> {{
      {first if size else ""}
      %i = stablehlo.constant dense<[[1, 0], [9, 7], [-4, 1]]> : tensor<3x2xi8>
      %y = "stablehlo.gather"(%a, %i) {{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0, 1], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 2>}} : ({kind}, tensor<3x2xi8>) -> tensor<3x2xf64>
      return %y : tensor<3x2xf64>
    }}""")
    for n in (1, 2, 3):
        x = np.arange(1.0, 13).reshape(4, 3)[: None if size else n]
        arguments = (np.int32(n),) if size else ()
        starts = [(min(max(i, 0), n - 1), min(j, 1)) for i, j in ((1, 0), (9, 7), (-4, 1))]
        wanted = np.zeros_like(x)
        for i, j in starts:
            wanted[i, j : j + 2] += 2 * x[i, j : j + 2]
        np.testing.assert_array_equal(
            program.run(x, *arguments), [x[i, j : j + 2] for i, j in starts]
        )

        def f(x: Any, arguments: Any = arguments) -> Any:
            return tnf.sum(program(x, *arguments) ** 2)

        np.testing.assert_array_equal(tnf.grad(f)(x), wanted)
        slopes = tnf.vmap(tnf.grad(f))(np.stack([x, 3 * x]))
        np.testing.assert_array_equal(slopes, [wanted, 3 * wanted])


def test_gradients_of_updates_that_a_scatter_drops() -> None:
    """An update out of bounds is dropped, so its derivative is zero."""
    kind = "tensor<?xf64, #stablehlo.bounds<4>>"
    program = lowering.import_stablehlo(f"""
      func.func @main(%x: tensor<4xf64>, %u: tensor<3xf64>, %n: tensor<i32>) -> {kind} {{
      %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf64>, tensor<i32>) -> {kind}
      %i = stablehlo.constant dense<[[1], [9], [0]]> : tensor<3x1xi32>
      %y = "stablehlo.scatter"(%a, %i, %u) {REGION} {{scatter_dimension_numbers =
        #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
        : ({kind}, tensor<3x1xi32>, tensor<3xf64>) -> {kind}
      return %y : {kind}
    }}""")
    u = np.array([10.0, 20.0, 30.0])
    for n in (1, 2, 3):
        slope = tnf.grad(lambda u, n=n: tnf.sum(program(np.ones(4), u, np.int32(n))))(u)
        np.testing.assert_array_equal(slope, [float(n > 1), 0.0, 1.0])
