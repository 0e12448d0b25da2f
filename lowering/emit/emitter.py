"""The type of emitters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tenferro.ops import StdTensorOp

__all__ = ["Emitter", "EmitterRows"]

Emitter = Callable[..., Any]
"""Function `emit(op, w, *operands)`, which writes operations by the writer `w` and returns one value or a tuple.

The types of the returned values must be `result_types(op, operands)`. The payload of `op` contains numbers, and
op-local extents that `op.resolved` resolves to numbers.
"""

EmitterRows = Mapping[type[StdTensorOp], Emitter]
