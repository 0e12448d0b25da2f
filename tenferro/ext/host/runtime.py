"""Native execution of checks and callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.extension import ExtensionCaches, ExtensionRuntime

__all__ = ["CallbackRuntime", "CheckRuntime"]


class CheckRuntime(ExtensionRuntime):
    """Runtime of `Check`. It raises an error if the condition is false."""

    order = "K"

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Return False, the result of the effect, if all elements of the condition are true.

        Raises:
            CheckFailedError: the condition is false.
        """
        error = op.failure(inputs)
        if error is not None:
            raise error
        return (np.zeros((), bool),)


class CallbackRuntime(ExtensionRuntime):
    """Runtime of `Callback`. It calls the function with read-only arrays."""

    order = "K"

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Call the function, and copy its results to new arrays."""
        return tuple([np.array(y) for y in op.function(*inputs)])
