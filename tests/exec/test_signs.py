"""Odd functions must keep the sign of zero, and powers must not depend on the layout of the exponent."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.kernels import KERNELS
from tenferro.exec.kernels.composed import maximum, minimum
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


ALL_OF = {
    "reduction": lambda name, x: getattr(tnf, name)(x, axis=0),
    "running": lambda name, x: getattr(tnf.lax, f"cum{name}")(x)[-1],
    "backwards": lambda name, x: getattr(tnf.lax, f"cum{name}")(x, reverse=True)[0],
    "updates of one element": lambda name, x: getattr(x.at[np.zeros(3, int)], name)(x[1:])[0],
    "turn by turn": lambda name, x: tnf.fori_loop(
        0, 4, lambda i, y: getattr(tnf, f"{name}imum")(y, x[i]), x[0]
    ),
}


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("way", ALL_OF)
def test_the_extreme_of_zeros(way: str, dtype: str, name: str) -> None:
    """0.0 must count as larger than -0.0, in either order, also among other numbers."""
    loser = -1.0 if name == "max" else 1.0
    columns = [*product([0.0, -0.0], repeat=4), *product([0.0, -0.0, loser], repeat=4)][:-1]
    x = np.array(columns).T.astype(DType.of(dtype).dtype)
    program = tnf.compile(lambda x: ALL_OF[way](name, x), x)
    signs = np.signbit(x.astype(float))
    expected = (
        (signs | (x == loser)).all(axis=0) if name == "max" else (signs & (x != loser)).any(axis=0)
    )
    for compiled in (False, "auto"):
        executor = tnf.GraphExecutor("K", compiled=compiled)
        for _ in range(2):
            y = executor.run(program, x)
            assert (y == 0).all()
            np.testing.assert_array_equal(np.signbit(y.astype(float)), expected)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("size", [1, 5, 600, 3000])
def test_one_negative_zero_is_told_apart_among_many_elements(size: int, dtype: DType) -> None:
    """One -0.0 must be found among many elements, even beside a negative NaN, and in a broadcast operand."""
    x = np.full(size, 2.0).astype(dtype.dtype)
    x[0] = -np.nan
    x[-1] = -0.0
    y = np.zeros((), dtype.dtype)
    for other in (np.full_like(x, y), np.broadcast_to(y, x.shape)):
        for first, second in ((x, other), (other, x)):
            for function, is_negative in ((maximum, False), (minimum, True)):
                with np.errstate(all="ignore"):
                    found = function(first, second)
                assert found[-1] == 0
                assert np.signbit(found[-1]) == is_negative
