"""Less precise products.

The verdict must be `lower precision`, with the algorithm and the bits, if the module permits them.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors

LAYER = """func.func @main(%x: tensor<16x64xf32>, %w: tensor<64x8xf32>) -> tensor<16x8xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]PRECISION
    : (tensor<16x64xf32>, tensor<64x8xf32>) -> tensor<16x8xf32>
  %y = stablehlo.tanh %h : tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}"""
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(16, 64)).astype("f4")
W = (GENERATOR.normal(size=(64, 8)) / 8).astype("f4")


def bfloat16(x: Any) -> Any:
    return x.astype(ml_dtypes.bfloat16).astype("f4")


def tf32(x: Any) -> Any:
    """Round float32 numbers to 11 significant bits, as the format TF32 does."""
    bits = x.view(np.uint32)
    last = (bits >> np.uint32(13)) & np.uint32(1)
    return ((bits + np.uint32(0xFFF) + last) & np.uint32(0xFFFFE000)).view("f4")


def cut(x: Any) -> Any:
    """Truncate float32 numbers to 11 significant bits."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view("f4")


def three_products(x: Any, y: Any) -> Any:
    x_high, y_high = bfloat16(x), bfloat16(y)
    x_low, y_low = bfloat16(x - x_high), bfloat16(y - y_high)
    return x_high @ y_high + x_high @ y_low + x_low @ y_high


PRODUCTS = {
    "bfloat16": lambda: bfloat16(X) @ bfloat16(W),
    "TF32": lambda: tf32(X) @ tf32(W),
    "cut": lambda: cut(X) @ cut(W),
    "bf16x3": lambda: three_products(X, W),
}


def verdict(config: str, product: Any, **options: Any) -> tuple[bool, str]:
    written = f", precision = [{config}, {config}]" if config else ""
    text = LAYER.replace("PRECISION", written)
    report = xla_peer.judge(text, [X, W], [np.tanh(X @ W)], [np.tanh(product)], **options)
    assert report.to_dict()["outputs"][0]["verdict"] == report.outputs[0].verdict
    return report.ok, report.outputs[0].verdict


@pytest.mark.parametrize(
    ("precision", "way", "said"),
    [
        ("", "bfloat16", "b bfloat16, 8 bits"),
        ("DEFAULT", "TF32", "b TF32, 11 bits"),
        ("DEFAULT", "cut", "b TF32, 10 bits"),
        ("DEFAULT", "bf16x3", "b bf16x3, 17 bits"),
        ("HIGH", "TF32", "b TF32, 11 bits"),
        ("HIGH", "bf16x3", "b bf16x3, 17 bits"),
    ],
)
def test_what_the_module_grants_is_named(precision: str, way: str, said: str) -> None:
    product = PRODUCTS[way]()
    assert verdict(precision, product) == (True, f"lower precision: {said}")
    assert verdict(precision, product, precision="highest") == (False, "wrong: b")


@pytest.mark.parametrize(
    ("precision", "way"), [("HIGH", "bfloat16"), ("HIGHEST", "TF32"), ("HIGHEST", "bf16x3")]
)
def test_what_it_does_not_grant_is_wrong(precision: str, way: str) -> None:
    assert verdict(precision, PRODUCTS[way]()) == (False, "wrong: b")


def test_a_fault_is_no_precision() -> None:
    product = X @ W
    product[3, 4] *= 1.001  # a fault in a single element
    assert verdict("", product) == (False, "wrong: b")
    assert verdict("", 1.1 * (X @ W)) == (False, "wrong: b")
    assert verdict("", X @ W) == (True, "equal")
    with pytest.raises(errors.InvalidConfigError, match="highest"):
        verdict("", product, precision="low")


class Accelerator:
    """Executor that multiplies matrices with the precision of TF32."""

    platform = "abacus"

    def __init__(self, precision: str) -> None:
        self.settings = xla_peer.XlaExecutor(precision=precision).settings

    def run(self, program: Any, x: Any, w: Any) -> Any:
        return program.run(tf32(x), tf32(w))


def test_an_executor_grants_it_too() -> None:
    def layer(x: Any, w: Any) -> Any:
        return tnf.tanh(x @ w)

    report = xla_peer.check_parity(layer, X, W, executor=Accelerator("default"))
    assert report.ok
    assert report.outputs[0].verdict == "lower precision: TF32, 11 bits"
    assert report.first_divergence is None
    strict = xla_peer.check_parity(
        layer, X, W, executor=Accelerator("default"), precision="highest", interpreter=False
    )
    assert strict.outputs[0].verdict.startswith("wrong")
    asked = xla_peer.check_parity(layer, X, W, executor=Accelerator("highest"), interpreter=False)
    assert asked.outputs[0].verdict.startswith("wrong")


QUANTISED = """func.func @main(%x: tensor<32xf32>, %top: tensor<f32>) -> tensor<i32> {
  %m = stablehlo.exponential %x : tensor<32xf32>
  %r = stablehlo.round_nearest_even %m : tensor<32xf32>
  %t = stablehlo.broadcast_in_dim %top, dims = [] : (tensor<f32>) -> tensor<32xf32>
  %q = stablehlo.minimum %r, %t : tensor<32xf32>
  %i = stablehlo.convert %q : (tensor<32xf32>) -> tensor<32xi32>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %sum = stablehlo.reduce(%i init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<32xi32>, tensor<i32>) -> tensor<i32>
  return %sum : tensor<i32>
}"""


def test_roundings_to_integers_flip_only_near_a_tie() -> None:
    far = np.log(np.arange(32) + 1.25).astype("f4")
    near = far.copy()
    near[[3, 9]] = np.log([2.5, 7.5]).astype("f4")
    top = np.float32(25)

    def judged(x: Any, away: int) -> str:
        right = np.minimum(np.rint(np.exp(x)), top).sum().astype("i4")
        report = xla_peer.judge(QUANTISED, [x, top], [right], [right + np.int32(away)])
        return report.outputs[0].verdict

    assert judged(far, 0) == "equal"
    assert judged(far, 1) == "wrong: b"
    assert judged(far, 30) == "wrong: b"
    assert "unstable" in {judged(near, -1), judged(near, 1)}
    assert judged(near, 4) == judged(near, -4) == "wrong: b"
