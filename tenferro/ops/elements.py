"""The bytes of constants: large ones are kept once in a process, whoever holds them.

They are found by their digest, which one reading gives. A function and its gradient, a program and each
copy of it that comes out of a pickle have the same memory.
"""

from __future__ import annotations

import hashlib
import weakref
from typing import Any

import numpy as np

__all__ = ["LARGE", "digest_of", "shared_elements"]

LARGE = 1 << 16
"""Bytes from which elements are shared."""
ALIGNMENT = 64
"""Bytes: XLA takes memory over without a copy that begins at a multiple of it."""

_SHARED: weakref.WeakValueDictionary[bytes, memoryview] = weakref.WeakValueDictionary()
"""By digest, as long as somebody holds them; it keeps nothing alive, so that it has no bound of its own."""


def digest_of(data: Any) -> bytes:
    """SHA-256 of contiguous bytes."""
    return hashlib.sha256(data).digest()


def shared_elements(data: Any) -> tuple[memoryview, bytes]:
    """Read-only memory with these bytes, the same for the same bytes, and its digest.

    Args:
        data: contiguous bytes, which are copied unless they are known.

    >>> first, digest = shared_elements(bytes(100_000))
    >>> again, _ = shared_elements(bytearray(100_000))
    >>> again is first, first.readonly, digest == digest_of(bytes(100_000))
    (True, True, True)
    """
    view = memoryview(data).cast("B")
    digest = digest_of(view)
    known = _SHARED.get(digest)
    if known is None:
        memory = np.empty(view.nbytes + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        memory = memory[start : start + view.nbytes]
        memory[:] = np.frombuffer(view, np.uint8)
        memory.flags.writeable = False
        known = _SHARED.setdefault(digest, memory.data)
    return known, digest
