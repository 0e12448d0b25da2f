"""Sharing of the bytes of constants: a process stores equal large constants only once.

The bytes are looked up by their digest, which is computed once and stored with the memory. For example, a function and
its gradient share the memory of their constants, and so do a program and its unpickled copies.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from tenferro.aligned import aligned_bytes

__all__ = ["LARGE", "adopted_elements", "digest_of", "held_elements", "shared_elements"]

LARGE = 1 << 16
"""Minimum size in bytes of a constant whose memory is shared."""
_SHARED: weakref.WeakValueDictionary[bytes, memoryview] = weakref.WeakValueDictionary()
"""Weak references to the shared bytes, by digest. An entry disappears when no constant uses the bytes any longer.
"""


class Elements(np.ndarray[Any, Any]):
    """Read-only array of bytes with an attribute `digest`. Each memoryview of the bytes keeps this array alive."""

    digest: bytes


def digest_of(data: Any) -> bytes:
    """Return the SHA-256 digest of contiguous bytes."""
    import hashlib  # because the import takes long, and few constants are large

    return hashlib.sha256(data).digest()


def held_elements(array: np.ndarray[Any, Any]) -> memoryview | None:
    """Return the shared memory that an array views as a whole, as constants do; None for any other array.

    >>> memory, _ = shared_elements(bytes(100_000))
    >>> held_elements(np.frombuffer(memory, np.float32).reshape(2, -1)) == memory
    True
    >>> held_elements(np.frombuffer(memory, np.uint8)[:70_000]) is None
    True
    """
    holder: Any = array
    while holder is not None and not isinstance(holder, Elements):
        holder = holder.obj if isinstance(holder, memoryview) else getattr(holder, "base", None)
    if holder is None or not array.flags.c_contiguous:
        return None
    is_all = holder.nbytes == array.nbytes and holder.ctypes.data == array.ctypes.data
    return holder.data if is_all else None


def shared_elements(data: Any) -> tuple[memoryview, bytes]:
    """Return read-only memory with the bytes of `data`, and its digest. Equal bytes share one memory.

    Args:
        data: contiguous bytes, which are copied unless they are shared already.

    >>> first, digest = shared_elements(bytes(100_000))
    >>> again, _ = shared_elements(bytearray(100_000))
    >>> again is first, first.readonly, digest == digest_of(bytes(100_000))
    (True, True, True)
    """
    view = memoryview(data).cast("B")
    holder = view.obj
    if isinstance(holder, Elements) and holder.nbytes == view.nbytes:
        return _SHARED.setdefault(holder.digest, view), holder.digest
    digest = digest_of(view)
    shared = _SHARED.get(digest)
    if shared is None:
        memory = aligned_bytes(view.nbytes)
        memory[:] = np.frombuffer(view, np.uint8)
        shared = _shared(memory, digest)
    return shared, digest


def adopted_elements(memory: np.ndarray[Any, Any]) -> memoryview:
    """Share bytes as `shared_elements` does, but without a copy: `memory` itself becomes the shared memory.

    Args:
        memory: bytes that `aligned_bytes` returned. The caller must not write to them any longer.

    >>> memory = aligned_bytes(100_000)
    >>> memory[:] = 7
    >>> adopted = adopted_elements(memory)
    >>> shared_elements(adopted)[0] is adopted, np.shares_memory(adopted, memory), memory.flags.writeable
    (True, True, False)
    """
    digest = digest_of(memory)
    shared = _SHARED.get(digest)
    return _shared(memory, digest) if shared is None else shared


def _shared(memory: np.ndarray[Any, Any], digest: bytes) -> memoryview:
    memory.flags.writeable = False
    elements = memory.view(Elements)
    elements.digest = digest
    return _SHARED.setdefault(digest, elements.data)
