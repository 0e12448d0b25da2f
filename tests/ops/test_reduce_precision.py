"""ReducePrecision must be right for every 16-bit number and every format.

The expected values are computed as multiples of a power of two.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from tenferro.dispatch import apply
from tenferro.ops.elementwise import ReducePrecision

FORMATS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


def reduced(x: Any, name: str, e: int, m: int) -> Any:
    """Round to m bits after the leading bit, with ties to even; then apply the range of an exponent of e bits.

    Subnormal numbers are rounded like numbers with the smallest normal exponent.
    """
    exponent_bits, mantissa_bits = FORMATS[name]
    bias = (1 << (exponent_bits - 1)) - 1
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(np.abs(x))[1] - 1, 1 - bias)
        quantum = np.ldexp(1.0, exponent - min(m, mantissa_bits))
        multiple = np.abs(x) / quantum
        # If m is 0, a tie is rounded to the number whose exponent is even.
        down = (m == 0) & (multiple == 1.5) & ((exponent + bias) % 2 == 0)
        y = np.where(down, 1, np.rint(multiple)) * quantum
        reach = (1 << (e - 1)) - 1
        place = np.frexp(y)[1] - 1
        if e < exponent_bits:
            y = np.where(place > reach, np.inf, np.where(place <= -reach, 0.0, y))
        y = np.where(np.frexp(y)[1] - 1 > bias, np.inf, y)
        y = np.where(np.isinf(x), np.inf, y)
    return np.copysign(np.where(np.isnan(x), np.nan, y), x)


def as_float64(x: Any) -> Any:
    with np.errstate(invalid="ignore"):  # bfloat16 has signalling NaN
        return x.astype(np.float64)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_number_to_every_format(name: str) -> None:
    dtype = np.dtype(name if name == "float16" else ml_dtypes.bfloat16)
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    wide = as_float64(x)
    e, m = FORMATS[name]
    for exponent_bits in range(1, e + 2):
        for mantissa_bits in (0, 1, 2, 3, m // 2, m - 1, m, m + 1):
            (y,) = apply(ReducePrecision(exponent_bits, mantissa_bits), x)
            expected = reduced(wide, name, exponent_bits, mantissa_bits)
            np.testing.assert_array_equal(
                as_float64(y), expected, err_msg=f"e{exponent_bits}m{mantissa_bits}"
            )


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_numbers_of_every_size_and_beside_ties(name: str) -> None:
    rng = np.random.default_rng(0)
    tiny = np.finfo(name).smallest_subnormal
    sizes = rng.uniform(-1, 1, 3000) * 2.0 ** rng.integers(
        -1000 if name == "float64" else -140, 120, 3000
    )
    with np.errstate(all="ignore"):
        x = np.concatenate([
            sizes, [1 + 2.0**-9, 1 + 2.0**-9 + 2.0**-20, 1 + 3 * 2.0**-9, 1.5, 2.5, 65520.0, 65519.9, 3e38],
            [0.0, -0.0, np.nan, np.inf, -np.inf, tiny, 3 * tiny, 2.0**-14, 2.0**-15, 1.9999999],
        ]).astype(name)  # fmt: skip
    for e, m in (
        (1, 0),
        (1, 5),
        (2, 1),
        (4, 3),
        (5, 2),
        (5, 10),
        (8, 7),
        (8, 8),
        (8, 23),
        (11, 3),
        (3, 0),
    ):
        (y,) = apply(ReducePrecision(e, m), x)
        np.testing.assert_array_equal(
            y, reduced(x.astype(np.float64), name, e, m).astype(name), err_msg=f"e{e}m{m}"
        )


def test_a_module_has_infinity_for_nan_without_mantissa_bits() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %0 = stablehlo.reduce_precision %x, format = e8m0 : tensor<4xf32>
      %1 = stablehlo.reduce_precision %x, format = e5m2 : tensor<4xf32>
      return %0, %1 : tensor<4xf32>, tensor<4xf32>
    }"""
    x = np.array([np.nan, 3.0, 1.1, -0.0], "f4")
    program = lowering.import_stablehlo(text)
    for y, z in (program.run(x), xla_peer.XlaExecutor("cpu").run(program, x)):
        np.testing.assert_array_equal(y, [np.inf, 2.0, 1.0, -0.0])
        np.testing.assert_array_equal(z, [np.nan, 3.0, 1.0, -0.0])


def test_xla_reduces_halves_likewise() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for e, m in ((5, 3), (4, 3), (2, 0), (8, 2)):
        program = tnf.compile(lambda x, e=e, m=m: apply(ReducePrecision(e, m), x)[0], x)
        native, xla = program.run(x), xla_peer.XlaExecutor("cpu").run(program, x)
        np.testing.assert_array_equal(native, xla, err_msg=f"e{e}m{m}")
