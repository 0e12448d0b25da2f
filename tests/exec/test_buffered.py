"""Functions that write into a buffer return the same bits as without one."""

import warnings
from typing import Any

import numpy as np
import pytest

from tenferro.exec.kernels import KERNELS
from tenferro.exec.kernels.buffered import maximum, minimum
from tenferro.exec.kernels.elementwise import CASTS
from tenferro.types import DType

INTO_A_BUFFER = {f: into for kernel in KERNELS.values() for f, into in kernel.into.items()}
DTYPES = [dtype for dtype in DType if not dtype.is_narrow]
RNG = np.random.default_rng(0)
STRANGE = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1e-40]


def some(dtype: DType, shape: tuple[int, ...]) -> Any:
    """Return an array with many special values."""
    if dtype.is_bool:
        return RNG.random(shape) < 0.5
    if not dtype.is_inexact:
        return RNG.integers(0, 100, shape).astype(dtype.dtype)
    return RNG.choice([*STRANGE, *RNG.standard_normal(8)], shape).astype(dtype.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("to", DTYPES, ids=str)
def test_casts_give_the_same_bits(dtype: DType, to: DType) -> None:
    if dtype.is_inexact and to.is_integer:
        pytest.skip("saturates, and is not a cast of NumPy's")
    x = some(dtype, (7, 11))
    for operand in (x, x.T, x[:, ::2], np.broadcast_to(x[:1], (5, 11))):
        out = np.empty(operand.shape, to.dtype)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of imaginary parts that go
            wanted = CASTS[to](operand)
            assert INTO_A_BUFFER[CASTS[to]](operand, out=out) is out
        assert out.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "function",
    [f for f in INTO_A_BUFFER if f not in CASTS.values()],
    ids=lambda f: f.__name__,
)
def test_the_same_bits(function: Any, dtype: DType) -> None:
    name = function.__name__
    count = {"where": 2, "maximum": 2, "minimum": 2, "float_power": 2, "clamp": 3}.get(name, 1)
    floats_only = count == 1 or name == "float_power"
    if (dtype.is_complex and name in ("maximum", "minimum", "clamp")) or (
        floats_only and dtype not in (DType.F32, DType.F64)
    ):
        pytest.skip("has no such operands")
    for shape in ((7, 11), (300,), (600,), (50, 60), (0, 3), ()):
        values = [some(dtype, shape) for _ in range(count)]
        for number in range(-1, count + 1 if count > 1 else 0):
            scalars = {number} if number < count else set(range(1, count))
            given = [
                v if i not in scalars or not v.size else v.flat[0] for i, v in enumerate(values)
            ]
            if function is np.where:
                given = [RNG.random(shape) < 0.5, *given]
            for order in ("C", "F"):
                out = np.empty(shape, dtype.dtype, order)
                with np.errstate(all="ignore"):
                    wanted = np.asarray(function(*given))
                    found = INTO_A_BUFFER[function](*given, out=out)
                assert found is out
                assert found.tobytes() == np.broadcast_to(wanted, shape).tobytes()


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("size", [1, 5, 600, 3000])
def test_one_negative_zero_is_told_apart_among_many_elements(size: int, dtype: DType) -> None:
    """Including beside a NaN with a sign, whose bits are not the least, and along a broadcast axis."""
    x = np.full(size, 2.0).astype(dtype.dtype)
    x[0] = -np.nan
    x[-1] = -0.0
    y = np.zeros((), dtype.dtype)
    for other in (np.full_like(x, y), np.broadcast_to(y, x.shape)):
        for first, second in ((x, other), (other, x)):
            for function, is_negative in ((maximum, False), (minimum, True)):
                out = np.empty_like(x)
                with np.errstate(all="ignore"):
                    results = (
                        function(first, second), INTO_A_BUFFER[function](first, second, out=out)
                    )  # fmt: skip
                for found in results:
                    assert found[-1] == 0
                    assert np.signbit(found[-1]) == is_negative
