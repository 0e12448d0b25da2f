"""Ownership of arrays at the boundary to code from outside, which borrows its inputs and gives its outputs away.

An extension borrows its inputs, which are read-only to it, and gives its outputs away: no input, no other
output and no workspace shares their memory. What somebody else still refers to is copied.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from tenferro.exec.runtime.memory import is_lent

__all__ = ["borrowed", "take_ownership"]

_PROBE = [object()]
SOLE = getrefcount(_PROBE[0])
"""What `getrefcount` gives for an entry of a list that nothing else refers to."""


def borrowed(x: Any) -> Any:
    """A read-only view of an array.

    >>> borrowed(np.ones(2)).flags.writeable
    False
    """
    view = x.view()
    view.flags.writeable = False
    return view


def take_ownership(arrays: list[Any]) -> None:
    """Replace by a copy each array that shares memory with an object elsewhere.

    The arrays must be entries of this list and of nothing else that the caller holds.

    >>> workspace = np.zeros(2)
    >>> arrays = [workspace, np.ones(2)]
    >>> fresh = arrays[1].ctypes.data
    >>> take_ownership(arrays)
    >>> arrays[0] is workspace, arrays[1].ctypes.data == fresh
    (False, True)
    """
    for index in range(len(arrays)):
        if not _is_sole(arrays, index):
            arrays[index] = np.array(arrays[index])


def _is_sole(arrays: list[Any], index: int) -> bool:
    """Whether nothing but the list's entry refers to the array and its memory.

    Entries are read again each time, because a local variable would be one more reference.
    """
    if getrefcount(arrays[index]) != SOLE or not arrays[index].flags.writeable:
        return False
    if arrays[index].base is None:
        return arrays[index].flags.owndata
    if getrefcount(arrays[index].base) != SOLE or type(arrays[index].base) is not np.ndarray:
        return False
    return arrays[index].base.flags.owndata or is_lent(arrays[index].base)
