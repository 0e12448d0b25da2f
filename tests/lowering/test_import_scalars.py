"""Operations of the dialects `arith` and `tensor` on scalars and indices must be read.

Modules with dynamic shapes contain them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering import import_stablehlo, importing
from tenferro import errors

X = np.arange(8, dtype="f4")
FORMS = {
    "constants": (
        "%a = arith.constant 4 : i64  %b = arith.constant 2 : i64 "
        "%s = tensor.from_elements %a, %b : tensor<2xi64>",
        "i64", (4, 2),
    ),
    "indices": (
        "%a = arith.constant 2 : index  %b = arith.constant 4 : index "
        "%s = tensor.from_elements %a, %b : tensor<2xindex>",
        "index", (2, 4),
    ),
    "a cast": (
        "%c = arith.constant dense<[8, 1]> : tensor<2xindex> %s = arith.index_cast %c : tensor<2xindex> to tensor<2xi32>",
        "i32", (8, 1),
    ),
    "a shape": ("%s = shape.const_shape [4, 2] : tensor<2xindex>", "index", (4, 2)),
    "an extent": (
        "%z = arith.constant 0 : index %a = tensor.dim %x, %z : tensor<?xf32> %b = arith.constant 3 : index "
        "%p = arith.muli %a, %b : index %q = arith.subi %p, %a : index %r = arith.subi %q, %a : index "
        "%o = arith.constant 1 : index %s = tensor.from_elements %o, %r : tensor<2xindex>",
        "index", (1, 8),
    ),
}  # fmt: skip


@pytest.fixture(params=[True, False], ids=["with jaxlib", "without"])
def read(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    if not request.param:
        monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: False)
    return import_stablehlo


def text_of(form: str) -> str:
    body, kind, _ = FORMS[form]
    return f"""func.func @main(%x: tensor<?xf32>) -> tensor<?x?xf32> {{
  {body}
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<?xf32>, tensor<2x{kind}>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}}"""


@pytest.mark.parametrize("form", FORMS)
def test_shapes_are_made_of_scalars(read: Any, form: str) -> None:
    y = read(text_of(form)).run(X)
    np.testing.assert_array_equal(y, X.reshape(FORMS[form][2]))


def test_scalars_are_tensors_without_axes(read: Any) -> None:
    """Scalars must become tensors without axes, also booleans and floats.

    `from_elements` has its operands in row-major order.
    """
    text = """func.func @main(%p: f32, %n: index) -> (tensor<2x2xf32>, tensor<i1>, tensor<0xi32>, index) {
  %a = arith.constant 1.5 : f32
  %t = arith.constant true
  %0 = tensor.from_elements %a, %p, %p, %a : tensor<2x2xf32>
  %1 = tensor.from_elements %t : tensor<i1>
  %2 = tensor.from_elements : tensor<0xi32>
  %3 = arith.maxsi %n, %n : index
  return %0, %1, %2, %3 : tensor<2x2xf32>, tensor<i1>, tensor<0xi32>, index
}"""
    y, truth, nothing, number = read(text).run(np.float32(2), np.int64(7))
    np.testing.assert_array_equal(y, np.array([[1.5, 2], [2, 1.5]], "f4"))
    assert (truth, nothing.shape, nothing.dtype, number) == (True, (0,), np.dtype("i4"), 7)


def test_arithmetic_of_floats(read: Any) -> None:
    text = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = arith.constant dense<2.0> : tensor<3xf32>
  %0 = arith.addf %x, %c fastmath<nnan,ninf> : tensor<3xf32>
  %1 = arith.mulf %0, %c : tensor<3xf32>
  %2 = arith.subf %1, %x : tensor<3xf32>
  %3 = arith.divf %2, %c : tensor<3xf32>
  %4 = "arith.negf"(%3) : (tensor<3xf32>) -> tensor<3xf32>
  return %4 : tensor<3xf32>
}"""
    x = np.array([1, 2, 4], "f4")
    np.testing.assert_array_equal(read(text).run(x), -((x + 2) * 2 - x) / 2)


def test_the_axis_of_an_extent_is_a_constant(read: Any) -> None:
    text = """func.func @main(%x: tensor<?x?xf32>, %n: index) -> index {
  %0 = tensor.dim %x, %n : tensor<?x?xf32>
  return %0 : index
}"""
    with pytest.raises(errors.UnsupportedError, match=r"tensor\.dim: its axis must be a constant"):
        read(text)


def test_shapes_and_elements() -> None:
    """`shape.shape_of` must return the vector of extents, and `tensor.extract` an element of any tensor."""
    text = """
      func.func @main(%x: tensor<2x?xf32>, %p: tensor<3xi64>, %k: index) -> (tensor<?x2xf32>, tensor<i64>, tensor<i64>) {
        %s = shape.shape_of %x : tensor<2x?xf32> -> tensor<2xindex>
        %0 = arith.constant 0 : index
        %1 = arith.constant 1 : index
        %a = tensor.extract %s[%0] : tensor<2xindex>
        %b = tensor.extract %s[%1] : tensor<2xindex>
        %t = tensor.from_elements %b, %a : tensor<2xindex>
        %y = stablehlo.dynamic_reshape %x, %t : (tensor<2x?xf32>, tensor<2xindex>) -> tensor<?x2xf32>
        %e = tensor.extract %p[%k] : tensor<3xi64>
        %z = tensor.from_elements %e : tensor<i64>
        %f = tensor.extract %p[%1] : tensor<3xi64>
        %v = tensor.from_elements %f : tensor<i64>
        return %y, %z, %v : tensor<?x2xf32>, tensor<i64>, tensor<i64>
      }"""
    x, p = np.arange(10, dtype="f4").reshape(2, 5), np.array([7, 8, 9])
    y, last, middle = import_stablehlo(text).run(x, p, np.int64(2))
    np.testing.assert_array_equal(y, x.reshape(5, 2))
    assert (last, middle) == (9, 8)
    with pytest.raises(errors.TenferroError):
        import_stablehlo(text.replace("-> tensor<2xindex>", "-> tensor<?xindex>"))
