"""A reduction of (value, index) pairs must be read as `ArgMax` or `ArgMin` if it is equivalent.

Any other reduction must be read unchanged.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from lowering import import_stablehlo, lower_to_stablehlo
from tenferro.ops.reduction import ArgMax, ArgMin, TopK


def kinds(program: tnf.GraphProgram) -> set[type[Any]]:
    return {type(i.op) for i in program.instructions} & {ArgMax, ArgMin}


NAN, INF = float("nan"), float("inf")
ROWS = [
    [1, 3, 3, 2],
    [NAN, 5, NAN, 1],
    [-INF, -INF, -INF, -INF],
    [-0.0, 0.0, 0.0, -0.0],
    [INF, 1, INF, 0],
]


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int8", "int64", "uint32", "bool"]
)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_what_jax_writes(name: str, dtype: str) -> None:
    x = np.nan_to_num(ROWS, posinf=9, neginf=0) if dtype[0] in "iub" else np.array(ROWS)
    x = np.ascontiguousarray(np.abs(x) if dtype[0] == "u" else x).astype(dtype)
    for axis, op in ((1, name), (0, name)):
        program = xla_peer.from_jax(lambda x, axis=axis: getattr(jnp, name)(x, axis), x)
        assert kinds(program) == {ArgMax if op == "argmax" else ArgMin}
        np.testing.assert_array_equal(program.run(x), getattr(np, name)(x, axis))


@pytest.mark.parametrize("op", [tnf.argmax, tnf.argmin])
def test_what_we_write(op: Any) -> None:
    for dtype in ("float32", "int8", "bool", "uint64"):
        program = tnf.compile(lambda x: op(x, axis=1), tnf.TensorSpec((3, 4), dtype))
        text = lower_to_stablehlo(program).text
        again = import_stablehlo(text)
        assert len(kinds(again)) == 1
        assert lower_to_stablehlo(again).text == text


TEXT = """
func.func @main(%x: tensor<3x4xf32>) -> (tensor<3xf32>, tensor<3xi32>) {{
  %n = stablehlo.iota dim = {along} : tensor<3x4xi32>
  %v = stablehlo.constant dense<{value}> : tensor<f32>
  %p = stablehlo.constant dense<{place}> : tensor<i32>
  %0:2 = stablehlo.reduce(%x init: %v), (%n init: %p) across dimensions = [1]
    : (tensor<3x4xf32>, tensor<3x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
    reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {{
      %more = stablehlo.compare {more}, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %odd = stablehlo.compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %wins = stablehlo.or %more, %odd : tensor<i1>
      %same = stablehlo.compare EQ, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %early = stablehlo.compare {early}, %i, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %tie = stablehlo.and %same, %early : tensor<i1>
      %keeps = stablehlo.or %wins, %tie : tensor<i1>
      %y = stablehlo.select %wins, %a, %b : tensor<i1>, tensor<f32>
      %k = stablehlo.select %keeps, %i, %j : tensor<i1>, tensor<i32>
      stablehlo.return %y, %k : tensor<f32>, tensor<i32>
    }}
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xi32>
}}"""
PLAIN = {"along": 1, "value": "0xFF800000", "place": 0, "more": "GT", "early": "LT"}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, {ArgMax}), ({"place": 7}, {ArgMax}), ({"more": "LT", "value": "0x7F800000"}, {ArgMin}),
        ({"early": "GT"}, set()), ({"value": "0.0"}, set()), ({"along": 0}, set()),
        ({"place": -1}, set()), ({"value": "0x7F800000"}, set()), ({"early": "GE"}, set()),
    ],
)  # fmt: skip
def test_nearly_is_followed_step_by_step(change: dict[str, Any], kind: set[Any]) -> None:
    program = import_stablehlo(TEXT.format(**{**PLAIN, **change}))
    assert kinds(program) == kind
    x = np.array([[1, 3, 3, 2], [-INF, -INF, -INF, -INF], [-1, NAN, -3, NAN]], "f4")
    if change.get("along", 1) == 1:
        for y, z in zip(program.run(x), followed(x, {**PLAIN, **change}), strict=True):
            np.testing.assert_array_equal(y, z)


def followed(x: Any, numbers: dict[str, Any]) -> tuple[Any, Any]:
    """Compute the reduction by its region, which is applied to one element after another, from left to right."""
    compare = {"LT": np.less, "GT": np.greater, "GE": np.greater_equal}
    shown = str(numbers["value"])
    bits = (
        np.array(int(shown, 16), "u4").view("f4") if shown.startswith("0x") else np.float32(shown)
    )
    best, place = np.full(3, bits), np.full(3, numbers["place"], "i4")
    for n in range(4):
        b = x[:, n]
        wins = compare[numbers["more"]](best, b) | (best != best)
        keeps = wins | ((best == b) & compare[numbers["early"]](place, n))
        best, place = np.where(wins, best, b), np.where(keeps, place, n).astype("i4")
    return best, place


@pytest.mark.parametrize(("first", "last"), [(0, 2), (1, 3), (0, 4)])
def test_the_first_of_a_descending_sort_are_the_top(first: int, last: int) -> None:
    """A slice of a descending sort may be read as TopK only if it has the first elements.

    Other slices must remain slices.
    """
    text = f"""
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x{last - first}xi32>, tensor<2x{last - first}xf32>) {{
  %i = stablehlo.iota dim = 1 : tensor<2x4xi64>
  %0:2 = "stablehlo.sort"(%x, %i) <{{dimension = 1 : i64, is_stable = true}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %p: tensor<i64>, %q: tensor<i64>):
      %c = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }}) : (tensor<2x4xf32>, tensor<2x4xi64>) -> (tensor<2x4xf32>, tensor<2x4xi64>)
  %v = stablehlo.slice %0#0 [0:2, {first}:{last}] : (tensor<2x4xf32>) -> tensor<2x{last - first}xf32>
  %k = stablehlo.slice %0#1 [0:2, {first}:{last}] : (tensor<2x4xi64>) -> tensor<2x{last - first}xi64>
  %n = stablehlo.convert %k : (tensor<2x{last - first}xi64>) -> tensor<2x{last - first}xi32>
  return %n, %v : tensor<2x{last - first}xi32>, tensor<2x{last - first}xf32>
}}"""
    program = import_stablehlo(text)
    x = np.array([[3, 9, 3, 1], [2, 2, 5, 2]], "f4")
    order = np.argsort(-x, axis=1, kind="stable")[:, first:last]
    places, values = program.run(x)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))
    tops = [i.op.k for i in program.instructions if isinstance(i.op, TopK)]
    assert set(tops) == {last if first == 0 else 4}
