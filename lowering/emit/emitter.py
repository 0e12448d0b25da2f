"""The type of emitters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tenferro.ops import StdTensorOp

__all__ = ["Emitter", "EmitterRows"]

Emitter = Callable[..., Any]
"""`emit(op, w, *operands)` writes statements through the writer `w` and returns the output value, or a tuple of
output values. `result_types(op, operands)` are the types that they must have; `op`'s payload holds numbers, and
op-local extents that `op.resolved` resolves to numbers.
"""

EmitterRows = Mapping[type[StdTensorOp], Emitter]
