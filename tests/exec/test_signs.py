"""Odd functions keep the sign of a zero, and powers do not depend on how the exponent lies."""

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.kernels import KERNELS
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from tenferro.types import DType

ODD = (
    an.Sin, an.Tan, an.Tanh, an.Asin, an.Atan, an.Sinh, an.Asinh, an.Atanh, an.Expm1, an.Log1p, an.Cbrt,
    an.Erf, an.ErfInv, an.Sqrt, el.Negate, el.Sign, el.Floor, el.Ceil, el.RoundNearestEven,
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("card", ODD, ids=lambda card: card.__name__)
def test_the_sign_of_a_zero_stays(card: Any, dtype: str) -> None:
    x = np.array([0.0, -0.0]).astype(DType.of(dtype).dtype)
    y = KERNELS[card](card(), x)
    assert (y == 0).all()
    is_negated = card is el.Negate
    assert np.signbit(y.astype(float)).tolist() == [is_negated, not is_negated]


@pytest.mark.parametrize("size", [3, 90_000])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_power_of_one_half_is_no_square_root(dtype: str, size: int) -> None:
    x = np.resize(np.array([-0.0, -np.inf, 4.0], dtype), (2, size))
    wanted = np.resize(np.array([0.0, np.inf, 2.0], dtype), (2, size))
    half = np.array(0.5, dtype)
    for y in (half, np.full_like(x, half), np.full((2, 1), half), np.full(size, half)):
        program = tnf.compile(lambda x, y: tnf.pow(x, y) * 1.0, x, y)
        for _ in range(2):
            found = program.run(x, y)
            assert np.array_equal(found, wanted)
            assert not np.signbit(found).any()
    number = tnf.compile(lambda x: tnf.pow(x, half), x[0, 0])
    for _ in range(2):
        assert not np.signbit(number.run(x[0, 0]))
