"""Native execution of `DebugPrint`, which prints lines on standard output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.extension import ExtensionCaches, ExtensionRuntime

__all__ = ["DebugPrintRuntime"]


class DebugPrintRuntime(ExtensionRuntime):
    """Runtime of `DebugPrint`. It formats NumPy arrays or, for rank 0, their element, as Python does."""

    order = "K"

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Print one line for each index of the batch axes, and return False, the result of the effect."""
        _, *values = inputs
        shape = values[0].shape[: op.batch_rank] if op.batch_rank else ()
        for index in np.ndindex(*shape):
            print(op.template.format(*[value[index] for value in values]))
        return (np.zeros((), bool),)
