"""Copies of results that alias other arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.exec.kernels.copying import Dense

__all__ = ["copy_aliases"]


def copy_aliases(
    outputs: Sequence[Any], inputs: Sequence[Any], dense: Dense | None = None
) -> list[Any]:
    """Return the outputs, with a copy of each that overlaps an input or another output, or is read-only.

    Args:
        dense: converts arrays to its order; None leaves them in theirs.

    Raises:
        MemoryError: with the number of the output that does not fit.
    """
    results: list[Any] = []
    owned = list(inputs)
    for number, output in enumerate(outputs):
        array = np.asarray(output)
        flags = array.flags
        try:
            if dense is not None and not flags[dense.order]:
                array = dense(array)
            elif not flags.writeable or any([np.may_share_memory(array, x) for x in owned]):
                array = np.array(array, order="K" if dense is None else dense.order, copy=True)
            else:
                owned.append(array)  # no other output overlaps a copy
        except MemoryError as error:
            raise MemoryError(number, str(error)) from error
        results.append(array)
    return results
