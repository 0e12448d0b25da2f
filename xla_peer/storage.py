"""Where the files of an artifact lie, and how arrays are kept in them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from tenferro.errors import InvalidConfigError
from tenferro.types import DType

__all__ = ["SUFFIXES", "constants_path", "digest_of", "gradient_path", "stored", "suffix_of"]

SUFFIXES = (".mlir", ".mlirbc")


def suffix_of(path: Any) -> str:
    """`.mlir` or `.mlirbc`.

    Raises:
        InvalidConfigError: another one.
    """
    suffix = next((s for s in SUFFIXES if str(path).endswith(s)), None)
    if suffix is None:
        raise InvalidConfigError(
            f"path: {path} ends neither in .mlir, for text, nor in .mlirbc, for a portable artifact"
        )
    return suffix


def constants_path(path: Any) -> str:
    """Where the constants of the artifact at `path` lie.

    >>> constants_path("model.mlirbc")
    'model.mlirbc.constants.npz'
    """
    return f"{path}.constants.npz"


def stored(array: Any) -> Any:
    """The array as NumPy's files can hold it: bfloat16 by its bits."""
    return array.view(np.uint16) if DType.of(array.dtype) is DType.BF16 else array


def digest_of(array: Any) -> str:
    """SHA-256 of the elements, row-major."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def gradient_path(path: Any) -> Path:
    """Where the derivative of the artifact at `path` lies.

    >>> print(gradient_path("model.mlirbc"))
    model.gradient.mlirbc
    """
    place = Path(path)
    return place.with_name(f"{place.stem}.gradient{place.suffix}")
