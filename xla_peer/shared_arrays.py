"""Memory that two processes map, to exchange arrays faster than through a pipe."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.types import TensorSpec
from xla_peer.aligned import ALIGNMENT

__all__ = ["SharedArrays", "layout"]


def layout(specs: Sequence[TensorSpec]) -> tuple[list[int], int]:
    """Compute the offsets, aligned to 64 bytes, of consecutive arrays of the given types, and their total size.

    >>> layout([TensorSpec((3,), "float64"), TensorSpec((), "bool")])
    ([0, 64], 128)
    """
    offsets: list[int] = []
    size = 0
    for spec in specs:
        offsets.append(size)
        nbytes = int(np.prod(spec.shape, dtype=np.int64)) * spec.dtype.itemsize
        size += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return offsets, size


class SharedArrays:
    """Anonymous memory that is shared with a child process through a file handle.

    Args:
        handle: the handle of memory that the other process created; None creates new memory.

    Attributes:
        handle: the handle of the memory.
        size: the size of the memory, in bytes.

    >>> memory = SharedArrays()
    >>> memory.resize(4096)
    >>> memory.view(64, TensorSpec((2,), "float64"))[...] = [1.0, 2.0]
    >>> memory.view(64, TensorSpec((2,), "float64"))
    array([1., 2.])
    >>> memory.close()
    """

    def __init__(self, handle: int | None = None) -> None:
        if handle is None:
            handle = _anonymous_file()
        self.handle = handle
        self.size = 0
        self._map: mmap.mmap | None = None

    def resize(self, size: int) -> None:
        """Change the size of the memory; only the process that created the memory may call this method."""
        if size != self.size:
            os.ftruncate(self.handle, size)
            self.remap(size)

    def remap(self, size: int) -> None:
        """Map the memory again, with the size that the other process set with `resize`."""
        if size != self.size:
            # The old mapping is not closed, because views may still use it; the last view releases it.
            self._map = mmap.mmap(self.handle, size) if size else None
            self.size = size

    def view(self, offset: int, spec: TensorSpec) -> np.ndarray[Any, Any]:
        """Return a view of the memory at an offset, as an array of the given type."""
        shape, dtype = tuple(spec.shape), spec.dtype.dtype
        if 0 in shape or self._map is None:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, self._map, offset)

    def write(self, offset: int, content: bytes) -> None:
        """Copy bytes to the memory at an offset."""
        assert self._map is not None
        self._map[offset : offset + len(content)] = content

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of `size` bytes at an offset."""
        assert self._map is not None
        return self._map[offset : offset + size]

    def close(self) -> None:
        """Release the memory once no view of it exists."""
        self._map = None
        os.close(self.handle)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tenferro")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
