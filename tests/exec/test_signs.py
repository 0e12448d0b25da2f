"""Odd functions keep the sign of a zero."""

from typing import Any

import numpy as np
import pytest

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
