"""Scatters with any region must equal a loop over windows.

Scatters of complex numbers must combine updates in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from lowering import import_stablehlo, lower_to_stablehlo

TEXT = """
func.func @main(%x: tensor<{x}>, %i: tensor<{i}xi32>, %u: tensor<{u}>) -> tensor<{x}> {{
  %0 = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, unique_indices = {unique}}}> ({{
    ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
      {region}
      stablehlo.return %r : tensor<{kind}>
  }}) : (tensor<{x}>, tensor<{i}xi32>, tensor<{u}>) -> tensor<{x}>
  return %0 : tensor<{x}>
}}"""
LAST_MINUS = (
    "%h = stablehlo.constant dense<0.5> : tensor<f64> %p = stablehlo.multiply %a, %h : tensor<f64> "
    "%r = stablehlo.subtract %b, %p : tensor<f64>"
)


def text(
    x: str,
    i: str,
    u: str,
    numbers: str,
    region: str = LAST_MINUS,
    kind: str = "f64",
    unique: str = "false",
) -> str:
    return TEXT.format(
        x=f"{x}x{kind}",
        i=i,
        u=f"{u}x{kind}",
        numbers=numbers,
        region=region,
        kind=kind,
        unique=unique,
    )


def test_windows_that_meet_take_turns() -> None:
    """Windows that overlap must be combined in order.

    The region y = b - a / 2 is neither commutative nor associative, so that another order would show.
    """
    program = import_stablehlo(
        text(
            "5",
            "4x1",
            "4",
            "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1",
        )
    )
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=5), rng.normal(size=4)
    for places in ([1, 1, 3, 1], [0, 7, -1, 4]):
        wanted = x.copy()
        for place, update in zip(places, u, strict=True):
            if 0 <= place < 5:
                wanted[place] = update - wanted[place] / 2
        indices = np.array(places, "i4")[:, None]
        np.testing.assert_allclose(program.run(x, indices, u), wanted)
    weights = rng.normal(size=5)
    tnf.check_grads(
        lambda x, u: tnf.sum(program(x, np.array([[1], [1], [3], [1]], "i4"), u) * weights), (x, u)
    )


def test_rows_as_windows() -> None:
    program = import_stablehlo(
        text(
            "4x3",
            "2x3x1",
            "2x3x2",
            "update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2",
        )
    )
    rng = np.random.default_rng(1)
    x, u = rng.normal(size=(4, 3)), rng.normal(size=(2, 3, 2))
    places = np.array([[0, 0, 3], [3, 9, 0]], "i4")
    wanted = x.copy()
    for at in np.ndindex(2, 3):
        row = places[at]
        if row < 4:
            wanted[row, :2] = u[at] - wanted[row, :2] / 2
    np.testing.assert_allclose(program.run(x, places[..., None], u), wanted)


def test_batches_never_meet() -> None:
    program = import_stablehlo(
        text(
            "2x5",
            "2x3",
            "2x3",
            "inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2",
        )
    )
    rng = np.random.default_rng(2)
    x, u = rng.normal(size=(2, 5)), rng.normal(size=(2, 3))
    places = np.array([[0, 0, 4], [1, 1, 1]], "i4")
    wanted = x.copy()
    for n, k in np.ndindex(2, 3):
        wanted[n, places[n, k]] = u[n, k] - wanted[n, places[n, k]] / 2
    np.testing.assert_allclose(program.run(x, places, u), wanted)


@pytest.mark.parametrize("unique", ["true", "false"])
def test_many_windows(unique: str) -> None:
    numbers = "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
    program = import_stablehlo(text("3000", "2000x1", "2000", numbers, unique=unique))
    assert len(program.instructions) < 20
    rng = np.random.default_rng(3)
    x, u, places = rng.normal(size=3000), rng.normal(size=2000), rng.permutation(3000)[:2000]
    wanted = x.copy()
    wanted[places] = u - x[places] / 2
    np.testing.assert_allclose(program.run(x, places.astype("i4")[:, None], u), wanted)


@pytest.mark.parametrize("unique", ["true", "false"])
@pytest.mark.parametrize("is_sorted", ["true", "false"])
def test_what_a_scatter_says_of_its_places_stays(unique: str, is_sorted: str) -> None:
    numbers = "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
    region = "%r = stablehlo.add %a, %b : tensor<f64>"
    written = text("5", "4x1", "4", numbers, region, unique=unique).replace(
        "unique_indices", f"indices_are_sorted = {is_sorted}, unique_indices"
    )
    program = import_stablehlo(written)
    again = str(lower_to_stablehlo(program))
    assert f"unique_indices = {unique}" in again
    assert f"indices_are_sorted = {is_sorted}" in again
    places = np.array([[0], [1], [3], [4]], "i4")
    np.testing.assert_array_equal(program.run(np.ones(5), places, np.ones(4)), [2, 2, 1, 2, 2])


def test_no_windows() -> None:
    numbers = "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
    program = import_stablehlo(text("5", "0x1", "0", numbers))
    x = np.arange(5.0)
    np.testing.assert_array_equal(program.run(x, np.zeros((0, 1), "i4"), np.zeros(0)), x)


def in_order(a: Any, b: Any, larger: bool) -> Any:
    first = (a.real > b.real) | ((a.real == b.real) & (a.imag > b.imag))
    return np.where(first == larger, a, b)


COMPLEX = np.array([1 + 2j, 1 - 2j, -3 + 1j, 2 + 0j, -3 - 1j, 1 + 2j])


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_complex_numbers_by_their_parts(name: str) -> None:
    program = import_stablehlo(
        f"func.func @main(%x: tensor<6x6xcomplex<f64>>, %y: tensor<6x6xcomplex<f64>>) -> tensor<6x6xcomplex<f64>> {{\n"
        f"%0 = stablehlo.{name} %x, %y : tensor<6x6xcomplex<f64>>\nreturn %0 : tensor<6x6xcomplex<f64>>\n}}"
    )
    x, y = (np.ascontiguousarray(z) for z in np.meshgrid(COMPLEX, COMPLEX))
    np.testing.assert_array_equal(program.run(x, y), in_order(x, y, name == "maximum"))
    region = f"%r = stablehlo.{name} %a, %b : tensor<complex<f64>>"
    numbers = "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
    scattered = import_stablehlo(text("6", "2x1", "2", numbers, region, "complex<f64>"))
    wanted = COMPLEX.copy()
    for place, update in ((2, 1 + 1j), (2, -3 + 0j)):
        wanted[place] = in_order(wanted[place], np.complex128(update), name == "maximum")
    found = scattered.run(COMPLEX, np.array([[2], [2]], "i4"), np.array([1 + 1j, -3 + 0j]))
    np.testing.assert_array_equal(found, wanted)


def test_clamped_complex_numbers() -> None:
    program = import_stablehlo(
        "func.func @main(%x: tensor<6xcomplex<f64>>) -> tensor<6xcomplex<f64>> {\n"
        "%l = stablehlo.constant dense<(-3.0, 0.0)> : tensor<complex<f64>>\n"
        "%h = stablehlo.constant dense<(1.0, 0.5)> : tensor<complex<f64>>\n"
        "%0 = stablehlo.clamp %l, %x, %h : (tensor<complex<f64>>, tensor<6xcomplex<f64>>, tensor<complex<f64>>) -> tensor<6xcomplex<f64>>\n"
        "return %0 : tensor<6xcomplex<f64>>\n}"
    )
    low, high = np.complex128(-3), np.complex128(1 + 0.5j)
    wanted = in_order(in_order(COMPLEX, low, True), high, False)
    np.testing.assert_array_equal(program.run(COMPLEX), wanted)


@pytest.mark.parametrize("name", ["add", "multiply"])
def test_truth_values_in_windows(name: str) -> None:
    """In `select_and_scatter`, too, sums of booleans must be logical or, and products logical and."""
    start = "false" if name == "add" else "true"
    program = import_stablehlo(
        f"""func.func @main(%x: tensor<4xi32>, %s: tensor<2xi1>) -> tensor<4xi1> {{
  %b = stablehlo.convert %x : (tensor<4xi32>) -> tensor<4xi1>
  %i = stablehlo.constant dense<{start}> : tensor<i1>
  %0 = "stablehlo.select_and_scatter"(%b, %s, %i) <{{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}}> ({{
    ^bb0(%p: tensor<i1>, %q: tensor<i1>):
      %c = stablehlo.compare GE, %p, %q : (tensor<i1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }}, {{
    ^bb0(%p: tensor<i1>, %q: tensor<i1>):
      %c = stablehlo.{name} %p, %q : tensor<i1>
      stablehlo.return %c : tensor<i1>
  }}) : (tensor<4xi1>, tensor<2xi1>, tensor<i1>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}}"""
    )
    found = program.run(np.array([0, 1, 1, 1], "i4"), np.array([True, False]))
    wanted = [False, True, False, False] if name == "add" else [True, True, False, True]
    np.testing.assert_array_equal(found, wanted)


def scattered(x: Any, indices: Any, u: Any, numbers: dict[str, Any]) -> Any:
    """Scatter as the specification says, one window after the other.

    An element a and an update b are combined to b - a / 2.
    """
    y = x.copy()
    at = numbers["index_vector_dim"]
    window_dims, inserted = numbers["update_window_dims"], numbers["inserted_window_dims"]
    batching, index_batching = numbers["input_batching_dims"], numbers["scatter_indices_batching_dims"]  # fmt: skip
    others = [axis for axis in range(u.ndim) if axis not in window_dims]
    offsets = [axis for axis in range(x.ndim) if axis not in (*inserted, *batching)]
    for place in sorted(np.ndindex(u.shape), key=lambda place: [place[axis] for axis in others]):
        index = [place[axis] for axis in others]
        full = list(index)
        if at < indices.ndim:
            full.insert(at, slice(None))
        vector = np.atleast_1d(indices[tuple(full)])
        target = [0] * x.ndim
        for axis, start in zip(numbers["scatter_dims_to_operand_dims"], vector, strict=True):
            target[axis] += int(start)
        for axis, of_indices in zip(batching, index_batching, strict=True):
            target[axis] += place[others[of_indices - (of_indices > at)]]
        for axis, of_update in zip(offsets, window_dims, strict=True):
            target[axis] += place[of_update]
        if all(0 <= i < n for i, n in zip(target, x.shape, strict=True)):
            y[tuple(target)] = u[place] - y[tuple(target)] / 2
    return y


# Each entry has the shapes of x and of the updates, the indices, and the dimension numbers. The flag says whether
# windows overlap, so that their order matters.
PLACED: dict[str, tuple[Any, Any, Any, dict[str, Any], bool]] = {
    "all differ": ((5,), (3,), [[1], [4], [0]], {"inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1}, False),
    "two are the same": ((5,), (3,), [[1], [4], [1]], {"inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1}, True),
    "without vectors": ((5,), (3,), [1, 4, 0], {"inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1}, False),
    "without vectors, two are the same": ((5,), (3,), [4, 1, 4], {"inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1}, True),
    "vectors that share numbers": (
        (3, 4), (4,), [[1, 1], [1, 2], [2, 1], [0, 2]],
        {"inserted_window_dims": (0, 1), "scatter_dims_to_operand_dims": (0, 1), "index_vector_dim": 1}, False,
    ),
    "vectors of which two are the same": (
        (3, 4), (4,), [[1, 1], [1, 2], [2, 1], [1, 2]],
        {"inserted_window_dims": (0, 1), "scatter_dims_to_operand_dims": (0, 1), "index_vector_dim": 1}, True,
    ),
    "vectors along the first axis": (
        (3, 4), (3,), [[1, 1, 2], [1, 2, 1]],
        {"inserted_window_dims": (0, 1), "scatter_dims_to_operand_dims": (1, 0), "index_vector_dim": 0}, False,
    ),
    "vectors along the first axis, two the same": (
        (3, 4), (3,), [[1, 2, 1], [1, 2, 1]],
        {"inserted_window_dims": (0, 1), "scatter_dims_to_operand_dims": (1, 0), "index_vector_dim": 0}, True,
    ),
    "windows that overlap": (
        (6,), (2, 3), [[1], [2]],
        {"update_window_dims": (1,), "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1}, True,
    ),
    "windows along the first axis of updates": (
        (6, 2), (3, 2), [[1], [2]],
        {"update_window_dims": (0,), "inserted_window_dims": (1,), "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1}, True,
    ),
    "one window": (
        (6,), (1, 3), [[2]],
        {"update_window_dims": (1,), "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1}, False,
    ),
    "batches": (
        (2, 5), (2, 3), [[[1], [0], [1]], [[4], [4], [2]]],
        {"inserted_window_dims": (1,), "input_batching_dims": (0,), "scatter_indices_batching_dims": (0,),
         "scatter_dims_to_operand_dims": (1,), "index_vector_dim": 2}, True,
    ),
    "batches along the last axis": (
        (5, 2), (3, 2), [[1, 4], [0, 4], [1, 2]],
        {"inserted_window_dims": (0,), "input_batching_dims": (1,), "scatter_indices_batching_dims": (1,),
         "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 2}, True,
    ),
    "batches of one place": (
        (2, 5), (2, 1), [[[1]], [[4]]],
        {"inserted_window_dims": (1,), "input_batching_dims": (0,), "scatter_indices_batching_dims": (0,),
         "scatter_dims_to_operand_dims": (1,), "index_vector_dim": 2}, False,
    ),
    "two axes of places": (
        (6,), (2, 3), [[[0], [1], [2]], [[3], [1], [5]]],
        {"inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 2}, True,
    ),
}  # fmt: skip
NUMBERS = ("update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
           "scatter_dims_to_operand_dims")  # fmt: skip


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("name", PLACED)
def test_windows_take_turns_where_they_may_meet(name: str, is_constant: bool) -> None:
    shape, of_updates, places, given, in_turns = PLACED[name]
    numbers = {**dict.fromkeys(NUMBERS, ()), **given}
    indices = np.array(places, "i4")
    shown = [f"{key} = {list(numbers[key])}" for key in NUMBERS if numbers[key]]
    shown.append(f"index_vector_dim = {numbers['index_vector_dim']}")
    extents = ["x".join(map(str, dims)) for dims in (shape, indices.shape, of_updates)]
    written = text(*extents, ", ".join(shown))
    if is_constant:
        kind = f"tensor<{extents[1]}xi32>"
        constant = f"%k = stablehlo.constant dense<{indices.tolist()}> : {kind}\n  %0 ="
        written = written.replace("%0 =", constant, 1).replace("(%x, %i, %u)", "(%x, %k, %u)")
    program = import_stablehlo(written)
    rng = np.random.default_rng(5)
    x, u = rng.normal(size=shape), rng.normal(size=of_updates)
    found = program.run(x, indices, u)
    np.testing.assert_allclose(found, scattered(x, indices, u, numbers), rtol=1e-13)
    is_scan = "Scan" in [step.op.name for step in program.instructions]
    alone = int(np.prod(of_updates)) == 1 or name in ("one window", "batches of one place")
    assert is_scan == (in_turns if is_constant else not alone)


@pytest.mark.parametrize("unique", ["true", "false"])
def test_two_operands_are_scattered_by_one_region(unique: str) -> None:
    """One region may scatter two operands of different dtypes. Here each result depends on both operands."""
    program = import_stablehlo(
        f"""func.func @main(%x: tensor<5xf64>, %y: tensor<5xf32>, %i: tensor<3x1xi32>, %u: tensor<3xf64>, %v: tensor<3xf32>) -> (tensor<5xf64>, tensor<5xf32>) {{
  %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = {unique}}}> ({{
    ^bb0(%a: tensor<f64>, %b: tensor<f32>, %c: tensor<f64>, %d: tensor<f32>):
      %e = stablehlo.convert %b : (tensor<f32>) -> tensor<f64>
      %f = stablehlo.subtract %e, %c : tensor<f64>
      %g = stablehlo.convert %a : (tensor<f64>) -> tensor<f32>
      %h = stablehlo.subtract %g, %d : tensor<f32>
      stablehlo.return %f, %h : tensor<f64>, tensor<f32>
  }}) : (tensor<5xf64>, tensor<5xf32>, tensor<3x1xi32>, tensor<3xf64>, tensor<3xf32>) -> (tensor<5xf64>, tensor<5xf32>)
  return %0#0, %0#1 : tensor<5xf64>, tensor<5xf32>
}}"""
    )
    x, y = np.arange(5.0), np.arange(10, 15).astype("f4")
    u, v = np.array([0.5, 0.25, 2.0]), np.array([1.5, 1.25, 4.0], "f4")
    places = [3, 0, 4] if unique == "true" else [3, 0, 3]
    found = program.run(x, y, np.array(places, "i4")[:, None], u, v)
    for place, p, q in zip(places, u, v, strict=True):
        x[place], y[place] = y[place] - p, x[place] - q
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], y)
