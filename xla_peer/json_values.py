"""Conversion of values to JSON. NaN and infinity, which JSON lacks, become strings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tenferro.types import DType, TensorSpec

__all__ = ["json_value"]


def json_value(value: Any) -> Any:
    """Convert the value to dicts, lists, numbers, strings and None.

    A float that is not finite becomes the string "nan", "inf" or "-inf". A complex number becomes [re, im], an array
    nested lists, and a type its printed form.

    Raises:
        TypeError: the value is of another class, which the message names.

    >>> json_value({"x": np.float32(0.5), "z": 1 - 2j, "n": np.array([1.0, np.nan]), "t": (DType.F32, None)})
    {'x': 0.5, 'z': [1.0, -2.0], 'n': [1.0, 'nan'], 't': ['float32', None]}
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | str):  # convert subclasses, such as enums, to the plain type
        return int(value) if isinstance(value, int) else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, complex):
        return [json_value(float(value.real)), json_value(float(value.imag))]
    if isinstance(value, np.ndarray | np.generic):
        wide = value if value.dtype.kind in "biufc" else value.astype(np.float64)  # bfloat16
        return json_value(wide.tolist())
    if isinstance(value, Mapping):
        return {str(key): json_value(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(entry) for entry in value]
    if isinstance(value, DType | TensorSpec | Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} {value!r:.60} has no form in JSON")
