"""Arrays in zip archives of unknown origin. Sizes are checked before unpacking, and nothing is ever unpickled."""

from __future__ import annotations

import math
import mmap
import os
import tokenize
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from tenferro.aligned import ALIGNMENT, aligned_bytes
from tenferro.errors import InvalidConfigError

__all__ = ["DATE", "SMALL", "Archive", "array_in", "opened_archive", "write_array"]

RATIO = 32
"""Default limit of a file's unpacked size, relative to the file's own size."""
SMALL = 64 << 20
"""Unpacked size in bytes that is permitted for every file, even a small one."""
SMALL_DOCUMENT = 4 << 20
"""Maximum unpacked size of a text member in bytes. Parsed text takes much more memory than the text."""
LOCAL_HEADER = 30
"""Bytes before the file name in a zip member's local header."""
PADDING = 0xD935
"""Id of the extra field that pads a member's header. Android's zipalign uses the same id."""
PIECE = 1 << 20
"""Number of bytes to read at once."""
MOST_MEMBERS = 1_000_000
MOST_AXES = 64
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_NO_HEADER = (ValueError, KeyError, TypeError, SyntaxError, MemoryError, RecursionError,
              OverflowError, tokenize.TokenError)  # fmt: skip
"""Exceptions that NumPy raises for a malformed header."""
DATE = (1980, 1, 1, 0, 0, 0)
"""Date of every member. It is constant, so that equal contents result in equal files."""


class Header(NamedTuple):
    """The dtype, shape and order in the header of a `.npy` file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool

    @property
    def nbytes(self) -> int:
        """Number of bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize


class Archive:
    """The members of a zip file whose unpacked size was checked.

    Attributes:
        names: the names of the members.
    """

    def __init__(self, archive: zipfile.ZipFile, limit: int | None) -> None:
        self._archive = archive
        self._limit = limit
        self._mapped: mmap.mmap | None = None
        self.names = archive.namelist()

    def document(self, name: str) -> bytes:
        """Read the bytes of a text member.

        Raises:
            InvalidConfigError: the member unpacks to more than the archive's `limit`. Without a limit, it unpacks to
                more than `RATIO` times its size.
            KeyError: there is no such member.
        """
        member = self._archive.getinfo(name)
        default = max(SMALL_DOCUMENT, RATIO * member.compress_size)
        _require_at_most(name, member.file_size, default if self._limit is None else self._limit)
        return self._archive.read(member)

    def mapped_array(self, name: str) -> np.ndarray[Any, Any] | None:
        """Map the array of a member `<name>.npy` from the file, read-only.

        The result is None if the member is compressed, misaligned or column-major.

        Raises:
            InvalidConfigError, KeyError: as for `array`.
        """
        member = self._archive.getinfo(f"{name}.npy")
        if member.compress_type != zipfile.ZIP_STORED:
            return None
        with self._archive.open(member) as file:
            header = _header(file, member.file_size, name)
            before = file.tell()
        source: Any = self._archive.fp
        source.seek(member.header_offset)
        local = source.read(LOCAL_HEADER)
        lengths = [int.from_bytes(local[at : at + 2], "little") for at in (26, 28)]
        start = member.header_offset + LOCAL_HEADER + sum(lengths) + before
        if header.is_fortran or start % ALIGNMENT:
            return None
        if self._mapped is None:
            self._mapped = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
        if start + header.nbytes > len(self._mapped):
            raise InvalidConfigError(f"{name} is cut short")
        elements = np.frombuffer(self._mapped, np.uint8, header.nbytes, start)
        return elements.view(header.dtype).reshape(header.shape)

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """Read the array of a member `<name>.npy` into new, aligned memory.

        Raises:
            InvalidConfigError: the member is not an array, contains Python objects, or has a wrong length.
            KeyError: the archive has no member of this name.
        """
        member = self._archive.getinfo(f"{name}.npy")
        with self._archive.open(member) as file:
            return array_in(file, member.file_size, name)


@contextmanager
def opened_archive(file: BinaryIO, what: str, limit: int | None = None) -> Generator[Archive]:
    """Open a zip file, and check its unpacked size.

    Args:
        what: the kind of file, for messages.
        limit: the maximum unpacked size in bytes. The default is `RATIO` times the file's size, and at least `SMALL`.

    Raises:
        InvalidConfigError: the members unpack to more than `limit`, overlap, are encrypted, or use a compression that
            NumPy does not write.
        zipfile.BadZipFile: the file is not a zip file.
    """
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) > MOST_MEMBERS:
            raise InvalidConfigError(f"{what} has {len(members)} members, at most {MOST_MEMBERS}")
        for member in members:
            if member.compress_type not in COMPRESSIONS or member.flag_bits & 1:
                raise InvalidConfigError(
                    f"{what}: {member.filename!r:.60} is encrypted, or neither stored nor deflated"
                )
            if (
                member.compress_type == zipfile.ZIP_STORED
                and member.file_size != member.compress_size
            ):
                raise InvalidConfigError(f"{what}: {member.filename!r:.60} has two sizes")
        if sum([member.compress_size for member in members]) > size:
            raise InvalidConfigError(f"{what}: its members overlap")
        unpacked = sum([member.file_size for member in members])
        _require_at_most(what, unpacked, max(SMALL, RATIO * size) if limit is None else limit)
        yield Archive(archive, limit)


def array_in(file: Any, size: int, what: str) -> np.ndarray[Any, Any]:
    """Read the array of an open `.npy` file of `size` bytes into new, aligned memory.

    Raises:
        InvalidConfigError: the file is not an array, contains Python objects, or has a wrong length.
    """
    header = _header(file, size, what)
    return _elements(file, header, what)


def write_array(archive: zipfile.ZipFile, name: str, array: np.ndarray[Any, Any]) -> None:
    """Add a member `<name>.npy` to an archive. It is not compressed, so reading it only copies bytes.

    The array is written in pieces. Its elements are aligned in the file, so that they can be mapped into memory.
    """
    member = zipfile.ZipInfo(f"{name}.npy", DATE)
    member.file_size = array.nbytes + (
        1 << 16
    )  # an upper bound: from it zipfile decides whether sizes need 64 bits
    position = 0 if archive.fp is None else archive.fp.tell()
    is_long = member.file_size * 1.05 > zipfile.ZIP64_LIMIT
    position += LOCAL_HEADER + len(member.filename.encode()) + 4 + (20 if is_long else 0)
    padding = -position % ALIGNMENT
    member.extra = b"".join([
        PADDING.to_bytes(2, "little"), padding.to_bytes(2, "little"), bytes(padding)
    ])  # fmt: skip
    with archive.open(member, "w") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


def _header(file: Any, size: int, what: str) -> Header:
    try:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):  # later formats have headers of up to 4 GiB, for structured dtypes
            raise ValueError(f"its format is {version[0]}.{version[1]}, expected 1.0")
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    except _NO_HEADER as error:
        raise InvalidConfigError(f"{what} is not an array: {error}") from None
    if dtype.hasobject:
        raise InvalidConfigError(f"{what} holds Python objects, by pickle; they are never read")
    if len(shape) > MOST_AXES or any([extent < 0 for extent in shape]) or not dtype.itemsize:
        raise InvalidConfigError(f"{what} is not an array: {dtype} of shape {str(shape)[:80]}")
    header = Header(dtype, tuple(map(int, shape)), bool(is_fortran))
    if header.nbytes != size - file.tell():
        raise InvalidConfigError(
            f"{what}: {dtype}{list(shape)} takes {header.nbytes} bytes, the file has {size - file.tell()}"
        )
    return header


def _elements(file: Any, header: Header, what: str) -> np.ndarray[Any, Any]:
    memory, position = aligned_bytes(header.nbytes), 0
    while position < header.nbytes:
        count = file.readinto(memory.data[position : position + PIECE])
        if not count:
            break
        position += count
    _require_end(file, what, position == header.nbytes)
    array = memory.view(header.dtype)
    return array.reshape(header.shape, order="F" if header.is_fortran else "C")


def _require_end(file: Any, what: str, is_whole: bool) -> None:
    """Require that a member ends here. Reading at its end makes zipfile check its checksum."""
    if not is_whole or file.read(1):
        raise InvalidConfigError(f"{what} has another length than it says")


def _require_at_most(what: str, unpacked: int, limit: int) -> None:
    if unpacked > limit:
        raise InvalidConfigError(
            f"{what} unpacks to {unpacked} bytes, at most {limit}; give a larger limit if you trust it"
        )
