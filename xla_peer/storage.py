"""Paths of the files of an artifact, and conversion of arrays for these files."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import tenferro
from tenferro.archives import Archive, opened_archive
from tenferro.errors import InvalidConfigError
from tenferro.files import reading
from tenferro.types import DType
from xla_peer import pjrt

__all__ = [
    "SUFFIXES",
    "Arrays",
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
    """Return `.mlir` or `.mlirbc`.

    Raises:
        InvalidConfigError: the path has another suffix.
    """
    suffix = next((s for s in SUFFIXES if str(path).endswith(s)), None)
    if suffix is None:
        raise InvalidConfigError(
            f"path: {path} ends neither in .mlir, for text, nor in .mlirbc, for a portable artifact"
        )
    return suffix


def constants_path(path: Any, weights: str = "") -> str:
    """Return the path of the constants of the artifact at `path`.

    >>> constants_path("model.mlirbc"), constants_path("model.mlirbc", "w.safetensors")
    ('model.mlirbc.constants.npz', 'w.safetensors')
    """
    return str(Path(path).with_name(weights)) if weights else f"{path}.constants.npz"


def stored(array: Any) -> Any:
    """Convert an array to a dtype that NumPy's files support: for `ml_dtypes`, to integers with the same bits."""
    bits = DType.of(array.dtype).stored
    return array if bits is None else array.view(bits)


def restored(array: Any, dtype: DType) -> Any:
    """Restore an array that `stored` converted: integers that contain the bits of `dtype` become `dtype` again."""
    # NumPy takes None for float64, so a dtype that files support is not compared.
    is_stored = dtype.stored is not None and array.dtype == dtype.stored
    return array.view(dtype.dtype) if is_stored else array


@contextmanager
def archived(path: Any, largest: int | None, what: str) -> Generator[Arrays]:
    """Open the arrays of an archive, such as an .npz file; nothing is unpickled.

    Args:
        path: the file.
        largest: the largest allowed unpacked size in bytes; None allows a fixed multiple of the file's size.
        what: a description of the file for messages.

    Raises:
        InvalidConfigError: the archive would unpack to more, or is not a regular file.
        zipfile.BadZipFile, or another error of zipfile: the file is not an archive.
    """
    with reading(path) as file, opened_archive(file, what, largest) as archive:
        yield Arrays(archive)


class Arrays:
    """The arrays of an archive by name.

    Attributes:
        names: names of the arrays, in the archive's order.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.names = [name[:-4] for name in archive.names if name.endswith(".npy")]

    def __getitem__(self, name: str) -> Any:
        return self._archive.array(name)


def installed_versions() -> dict[str, str]:
    """Return the versions of the packages that affect results: tenferro, jaxlib and NumPy."""
    return {
        "tenferro": tenferro.__version__,
        "jaxlib": pjrt.jaxlib_version(),
        "numpy": np.__version__,
    }


def digest_of(array: Any) -> str:
    """Return the SHA-256 of an array's elements in row-major order, in hexadecimal digits."""
    return hashlib.sha256(np.asarray(array, order="C").ravel().view(np.uint8).data).hexdigest()


def gradient_path(path: Any) -> Path:
    """Return the path of the gradient of the artifact at `path`.

    >>> print(gradient_path("model.mlirbc"))
    model.gradient.mlirbc
    """
    artifact = Path(path)
    return artifact.with_name(f"{artifact.stem}.gradient{artifact.suffix}")
