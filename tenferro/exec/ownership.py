"""Ownership of the inputs and outputs of extensions.

An extension must not write its inputs. The caller owns the outputs, which share no memory with inputs, other outputs or
workspaces. Therefore an output to which the extension still refers is copied.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from tenferro.exec.runtime.memory import is_pooled

__all__ = ["read_only", "take_ownership"]

_PROBE = [object()]
SOLE_REFCOUNT = getrefcount(_PROBE[0])
"""Result of `getrefcount` for an entry of a list to which there is no other reference."""


def read_only(x: Any) -> Any:
    """Return a read-only view of an array.

    >>> read_only(np.ones(2)).flags.writeable
    False
    """
    view = x.view()
    view.flags.writeable = False
    return view


def take_ownership(arrays: list[Any]) -> None:
    """Replace each array by a copy if other objects refer to it or share memory with it.

    The caller must have no other references to the arrays.

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
    """Return whether the entry of the list is the only reference to the array and to its memory.

    The array is not assigned to a local variable, which would be another reference.
    """
    if getrefcount(arrays[index]) != SOLE_REFCOUNT or not arrays[index].flags.writeable:
        return False
    if arrays[index].base is None:
        return arrays[index].flags.owndata
    if (
        getrefcount(arrays[index].base) != SOLE_REFCOUNT
        or type(arrays[index].base) is not np.ndarray
    ):
        return False
    return arrays[index].base.flags.owndata or is_pooled(arrays[index].base)
