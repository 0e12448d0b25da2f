"""A sample has one op, its operands, and the expected results.

The results are computed from the definition of the op. A definition is a loop over indices in Python, exact integer
arithmetic, or mpmath. It never calls the tested code. All tests use the same samples. They infer types, run natively,
lower and parse the op, compare with XLA, and differentiate. For XLA, the operands are parameters and constants.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.ops import StdTensorOp
from tenferro.types import DType

Array = np.ndarray[Any, Any]

COMMON = tuple([dtype for dtype in DType if not dtype.is_narrow])
"""Dtypes of the samples of an op. For narrow dtypes, `tests/ops/test_narrow.py` tests all values."""


@dataclass(frozen=True)
class OpSample:
    """One op with its operands and expected results.

    Attributes:
        op: the op, with its payload.
        inputs: NumPy arrays.
        expected: the results by definition, one array per output.
        ulps: the largest allowed error of native results, in units in the last place of the output's dtype.
        xla_ulps: the largest allowed difference between XLA's and native results, in the same units.
        scale: the magnitude to which the errors of each output are relative, such as the sum of absolute values for a
            sum. None stands for the expected result itself.
        because: the reason for errors, if `ulps` or `xla_ulps` is not 0.
        label: the purpose of the sample, if it is not obvious from the op and the types.
        xla: False if StableHLO does not define the result on XLA. `because` then has the reason.
        exempt: checks of the ledger that do not apply to this sample, with reasons.
    """

    op: StdTensorOp
    inputs: tuple[Array, ...]
    expected: tuple[Array, ...]
    ulps: float = 0
    xla_ulps: float = 0
    scale: tuple[Array | None, ...] | None = None
    because: str = ""
    label: str = ""
    xla: bool = True
    exempt: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the op."""
        return self.op.name

    @property
    def dtype(self) -> DType:
        """Dtype to which the sample belongs.

        It is that of the operand which determines the semantics, or of the result if there are no operands.
        """
        deciding = self.inputs or self.expected
        return DType.of(deciding[1 if self.op.name == "Select" else 0].dtype)

    def __str__(self) -> str:
        types = ",".join(f"{DType.of(x.dtype).short}{list(x.shape)}" for x in self.inputs)
        return f"{self.op.name}-{self.label or types or self.dtype.short}".replace(" ", "")


SampleRows = Mapping[type[StdTensorOp], Sequence[OpSample]]


def indices(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield every index of an array of this shape, in row-major order."""
    return itertools.product(*map(range, shape))


def by_index(
    shape: Sequence[int], dtype: DType, element: Callable[[tuple[int, ...]], Any]
) -> Array:
    """Return an array whose element at each index is `element(index)`."""
    result = np.zeros(shape, dtype.dtype)
    for index in indices(shape):
        value = element(index)
        result[index] = (
            value if not isinstance(value, int) or dtype.is_integer else _exact(value, dtype)
        )
    return result


def _exact(value: int, dtype: DType) -> Any:
    """Convert a Python integer to a bool, float or complex number.

    Arrays of bfloat16 do not accept integers.
    """
    return bool(value) if dtype.is_bool else float(value) if dtype.is_float else complex(value)


def each(dtype: DType, function: Callable[..., Any], *arrays: Array) -> Array:
    """Return an array of function values.

    At each index, `function` receives the elements of the arrays as Python numbers, and returns a Python number.
    """
    return by_index(
        arrays[0].shape, dtype, lambda i: function(*(python_number(array[i]) for array in arrays))
    )


def python_number(element: Any) -> Any:
    """Convert a scalar of NumPy or of ml_dtypes to the equal Python number."""
    if isinstance(element, ml_dtypes.bfloat16):
        return float(element)
    return element.item()


def wrap(value: int, dtype: DType) -> int:
    """Wrap an integer to the range of the dtype, as processors do."""
    bits = dtype.bits
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def special_values(dtype: DType) -> Array:
    """Return the values for which implementations may differ.

    They include zeros of both signs, extremes, infinities, and NaN.
    """
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_integer:
        info = np.iinfo(dtype.dtype)
        return np.array([0, 1, 2, 7, info.max, info.min, info.max - 1, info.min + 1], dtype.dtype)
    if dtype.is_complex:
        parts = [0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan]
        return np.array([complex(a, b) for a in parts for b in parts], dtype.dtype)
    info = ml_dtypes.finfo(dtype.dtype)
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.25, np.inf, -np.inf, np.nan]
    return np.array([*values, float(info.max), float(info.smallest_normal)], dtype.dtype)


def ordinary_values(shape: Sequence[int], dtype: DType, seed: int = 0) -> Array:
    """Return random values of moderate size. They are equal in every run."""
    generator = np.random.default_rng([seed, *shape])
    if dtype.is_bool:
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        low = -9 if dtype.kind == "i" else 0
        return generator.integers(low, 10, shape).astype(dtype.dtype)
    values = generator.uniform(-2.0, 2.0, shape)
    if dtype.is_complex:
        values = values + 1j * generator.uniform(-2.0, 2.0, shape)
    return np.asarray(values).astype(dtype.dtype)


def pairs(values: Array) -> tuple[Array, Array]:
    """Return every ordered pair of values, as an array of the first and an array of the second elements."""
    count = len(values)
    return np.repeat(values, count), np.tile(values, count)


def dtypes_of(card: type[StdTensorOp]) -> list[DType]:
    """Return the dtypes that an op supports and for which it has samples."""
    return [dtype for dtype in COMMON if dtype in card.accepts]


def merge(*families: SampleRows) -> dict[type[StdTensorOp], Sequence[OpSample]]:
    """Merge the tables of samples of several families of ops."""
    merged: dict[type[StdTensorOp], Sequence[OpSample]] = {}
    for family in families:
        merged |= family
    return merged
