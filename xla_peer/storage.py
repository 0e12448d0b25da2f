"""Where the files of an artifact lie, and how arrays are kept in them."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import tenferro
from tenferro.errors import InvalidConfigError
from tenferro.types import DType
from xla_peer import pjrt

__all__ = [
    "SUFFIXES",
    "archived",
    "constants_path",
    "digest_of",
    "gradient_path",
    "installed_versions",
    "restored",
    "stored",
    "suffix_of",
]

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


def restored(array: Any, dtype: DType) -> Any:
    """What `stored` took: bits as the bfloat16 they are."""
    is_bits = dtype is DType.BF16 and array.dtype == np.uint16
    return array.view(dtype.dtype) if is_bits else array


@contextmanager
def archived(source: Any, largest: int, what: str) -> Generator[Any]:
    """The arrays of an archive that unpacks to no more than `largest` bytes; nothing is unpickled.

    Raises:
        InvalidConfigError: it would unpack to more.
        whatever zipfile and NumPy raise over a file that is no archive.
    """
    with zipfile.ZipFile(source) as archive:
        total = sum(member.file_size for member in archive.infolist())
    if total > largest:
        raise InvalidConfigError(f"{what} unpacks to {total} bytes, at most {largest}")
    with np.load(source, allow_pickle=False) as file:
        yield file


def installed_versions() -> dict[str, str]:
    """Of what computes: tenferro, jaxlib and NumPy."""
    return {
        "tenferro": tenferro.__version__,
        "jaxlib": pjrt.jaxlib_version(),
        "numpy": np.__version__,
    }


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
