"""Modules in large files: large constants are decoded directly into the memory of the program's constants.

MLIR would copy large constants several times. In text, each large constant is replaced by the name of a resource before
MLIR parses the text. Bytecode is parsed by `lowering.syntax`, which slices the mapped file. Pages of this file are
released once they have been read.
"""

from __future__ import annotations

import binascii
import mmap
import os
import re
from typing import Any, overload

import numpy as np

from lowering.mlir_bindings import MAGIC, MlirDiagnosticError
from tenferro.aligned import aligned_bytes
from tenferro.files import reading
from tenferro.ops.elements import LARGE, adopted_elements

__all__ = ["LARGE_FILE", "MappedBytes", "contains", "is_large", "read_large"]

LARGE_FILE = 1 << 24
"""Size in bytes above which a file is read in pieces."""
PIECE = 1 << 20
"""Number of bytes that are read at once from a file; a multiple of the page size."""
NEAR = 4096
"""Number of bytes before a hexadecimal literal that are searched for the operation or resource that it belongs to."""

_NAMED = re.compile(rb'("[^"]*"|[\w$.]+)\s*:\s*\Z')
"""Pattern that matches a resource's name and colon directly before its hexadecimal literal."""


class MappedBytes:
    """Bytes of a memory-mapped file.

    A slice of at least `LARGE` bytes is copied to aligned memory, so that a constant of the program can use it without
    another copy.
    """

    __slots__ = ("_content", "_start", "_stop")

    def __init__(self, content: mmap.mmap, start: int, stop: int) -> None:
        self._content = content
        self._start = start
        self._stop = stop

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, key: int) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> Any: ...
    def __getitem__(self, key: int | slice) -> Any:
        if isinstance(key, int):
            return self._content[self._start + key]
        first, last, _ = key.indices(len(self))
        start, stop = self._start + first, self._start + last
        return (
            self._content[start:stop]
            if stop - start < LARGE
            else _elements(self._content, start, stop)
        )

    def find(self, what: bytes, start: int, stop: int) -> int:
        """Return the first position of the bytes `what` from `start` to `stop`; -1 if they do not occur."""
        position = _find(self._content, what, self._start + start, self._start + stop)
        return position if position < 0 else position - self._start


def is_large(path: Any) -> bool:
    """Return whether a file is so large that `read_large` must read it; the worker process reads smaller files."""
    return hasattr(os, "fork") and os.path.isfile(path) and os.path.getsize(path) > LARGE_FILE


def contains(path: Any, what: bytes) -> bool:
    """Return whether a file contains these bytes.

    Raises:
        InvalidConfigError, OSError: the errors of `tenferro.files.reading`.

    >>> contains(__file__, b"whether a file"), contains(__file__, bytes([7, 7]))
    (True, False)
    """
    with reading(path) as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _find(content, what, 0, size) >= 0


def read_large(path: Any) -> tuple[str | MappedBytes, dict[str, memoryview]]:
    """Read a text without its large constants, or map a file of bytecode.

    Return the text or the mapped bytes, and the elements of the text's large constants by resource name.

    Raises:
        MlirDiagnosticError: the file contains neither text nor bytecode.
        InvalidConfigError, OSError: the errors of `tenferro.files.reading`.
    """
    with reading(path) as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    size = len(content)
    start = _find(content, MAGIC, 0, size)
    if start == 0:
        return MappedBytes(content, 0, size), {}
    if start >= 4:  # in a serialised `jax.export`, the bytecode follows four bytes with its length
        length = int.from_bytes(content[start - 4 : start], "little")
        if 0 < length <= size - start:
            return MappedBytes(content, start, start + length), {}
    text, elements = _without_elements(content)
    try:
        return text.decode(), elements
    except UnicodeDecodeError as error:
        raise MlirDiagnosticError([(f"neither text nor bytecode: {error}", "bytes")]) from None


def _without_elements(content: mmap.mmap) -> tuple[bytes, dict[str, memoryview]]:
    """Replace the large literals of constants in a text by resources.

    Return the new text, and the elements of these constants by resource name.
    """
    pieces: list[bytes] = []
    elements: dict[str, memoryview] = {}
    copied, size = 0, len(content)
    end = -1
    while (start := _find(content, b'"0x', end + 1, size)) >= 0:
        end = _find(content, b'"', start + 3, size)
        if end < 0:
            break
        if end - start < 2 * LARGE:
            continue
        before = content[max(copied, start - NEAR) : start]
        line = before.rpartition(b"\n")[2]
        named = _NAMED.search(before)
        try:
            if line.endswith(b"dense<") and b"stablehlo.constant" in line:
                name = f"tenferro.elements.{start}"
                elements[name] = _hexadecimal(content, start + 3, end)
                pieces += [
                    content[copied : start - len("dense<")],
                    f"dense_resource<{name}".encode(),
                ]
            elif named is not None:
                alignment = (
                    start + 11
                )  # the end of `"0x` and of eight digits, the resource's alignment
                elements[named[1].decode().strip('"')] = _hexadecimal(content, alignment, end)
                pieces += [content[copied:alignment], b'"']
            else:
                continue
        except (
            binascii.Error
        ):  # the malformed literal stays in the text, where MLIR will report it with its position
            continue
        copied = end + 1
    return b"".join([*pieces, content[copied:]]), elements


def _elements(content: mmap.mmap, start: int, stop: int) -> memoryview:
    """Copy the bytes from `start` to `stop` of a file into new memory for a constant."""
    memory = aligned_bytes(stop - start)
    for at in range(start, stop, PIECE):
        piece = content[at : min(at + PIECE, stop)]
        memory[at - start : at - start + len(piece)] = np.frombuffer(piece, np.uint8)
        _give_back(content, at, stop)
    return adopted_elements(memory)


def _hexadecimal(content: mmap.mmap, start: int, stop: int) -> memoryview:
    """Decode the hexadecimal digits from `start` to `stop` of a file into new memory for a constant.

    Raises:
        binascii.Error: a character is no hexadecimal digit, or the number of digits is odd.
    """
    memory = aligned_bytes((stop - start) // 2)
    filled = 0
    for at in range(start, stop, PIECE):
        piece = binascii.a2b_hex(content[at : min(at + PIECE, stop)])
        memory[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
        filled += len(piece)
        _give_back(content, at, stop)
    return adopted_elements(memory)


def _find(content: mmap.mmap, what: bytes, start: int, stop: int) -> int:
    """Return the first position of the bytes `what` from `start` to `stop` of a file; -1 if they do not occur."""
    for at in range(start, stop, PIECE):
        position = content.find(what, at, min(at + PIECE + len(what) - 1, stop))
        if position >= 0:
            return position
        _give_back(content, at, stop)
    return -1


def _give_back(content: mmap.mmap, start: int, stop: int) -> None:
    """Release the memory of mapped pages that have been read; the operating system reads a page again on access."""
    if hasattr(mmap, "MADV_DONTNEED"):
        start -= start % mmap.PAGESIZE
        content.madvise(mmap.MADV_DONTNEED, start, min(PIECE + mmap.PAGESIZE, stop - start))
