"""`stablehlo.convert` must follow the specification for every pair of dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering import import_stablehlo
from lowering.types import element_type
from tenferro.types import DType

DTYPES = [
    DType.of(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
    )
]  # fmt: skip
FLOATS = [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.0, np.nan, np.inf, -np.inf, 1e30, -300.7]


def samples(dtype: DType) -> Any:
    kind = dtype.dtype
    if dtype.is_bool:
        return np.array([False, True] * 6)
    if dtype.is_integer:
        limits = np.iinfo(kind)
        least, most = limits.min, limits.max
        return np.array(
            [least, least + 1, 0, 1, 2, 3, 7, 100, most // 3, most // 2, most - 1, most], kind
        )
    parts = np.array([FLOATS, FLOATS[::-1]]).T.copy()
    numbers = parts.view(complex).reshape(-1) if dtype.is_complex else parts[:, 0]
    with np.errstate(over="ignore"):
        return numbers.astype(kind)


def converted(x: Any, to: DType) -> Any:
    """Convert an array to another dtype element by element, by arithmetic on Python's numbers."""
    return np.array([converted_element(value, to) for value in x], to.dtype)


def converted_element(value: Any, to: DType) -> Any:
    real = value.real if np.iscomplexobj(value) else value
    if to.is_bool:
        return bool(real != 0)
    if to.is_integer:
        limits = np.iinfo(to.dtype)
        if isinstance(real, np.integer | np.bool_):
            span = int(limits.max) - int(limits.min) + 1
            return to.dtype.type((int(real) - int(limits.min)) % span + int(limits.min))
        number = float(real)
        if number != number:
            return 0
        return int(max(limits.min, min(limits.max, np.trunc(number))))
    with np.errstate(over="ignore"):
        if to.is_complex and np.iscomplexobj(value):
            return to.dtype.type(value)
        return np.asarray(real).astype(to.dtype)


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_every_pair(source: DType) -> None:
    """A complex number must be converted to its real part.

    As on XLA, floats that overflow an integer saturate, NaN becomes 0, and integers wrap.
    """
    x = samples(source)
    given = f"tensor<{len(x)}x{element_type(source)}>"
    types = [f"tensor<{len(x)}x{element_type(to)}>" for to in DTYPES]
    lines = [f"%{n} = stablehlo.convert %x : ({given}) -> {kind}" for n, kind in enumerate(types)]
    names = ", ".join(f"%{n}" for n in range(len(types)))
    text = (
        f"func.func @main(%x: {given}) -> ({', '.join(types)}) {{\n"
        + "\n".join(lines)
        + f"\nreturn {names} : {', '.join(types)}\n}}"
    )
    for to, found in zip(DTYPES, import_stablehlo(text).run(x), strict=True):
        assert found.dtype == to.dtype
        wanted = converted(x, to)
        if to is DType.BF16:  # because NumPy's comparison does not recognise NaN of bfloat16
            found, wanted = found.astype("f4"), wanted.astype("f4")
        np.testing.assert_array_equal(found, wanted, f"{source} to {to}")
