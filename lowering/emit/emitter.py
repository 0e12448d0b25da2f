"""Table from op classes to emitters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tenferro.ops import StdTensorOp

__all__ = ["Emitter", "EmitterRows"]

Emitter = Callable[..., Any]
"""Function `emit(op, w, *operands)` that writes an op's operations to the writer `w` and returns the op's results.

It returns one value or a tuple of values, whose types must be `result_types(op, operands)`. Extents in the payload of
`op` are numbers or refer to axes of the operands; `op.resolved` replaces these references by extents.
"""

EmitterRows = Mapping[type[StdTensorOp], Emitter]
