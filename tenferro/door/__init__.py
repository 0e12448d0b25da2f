"""Dispatch of ops: `apply` applies an op to tensors or arrays of any class."""

from tenferro.door.application import apply, apply_one
from tenferro.door.operands import (
    PYTHON_SCALARS,
    as_operand,
    beside,
    copied,
    elements,
    first_tensor,
    is_traced,
    is_weak,
    spec_of,
    stop_gradient,
    strong,
)

__all__ = [
    "PYTHON_SCALARS",
    "apply",
    "apply_one",
    "as_operand",
    "beside",
    "copied",
    "elements",
    "first_tensor",
    "is_traced",
    "is_weak",
    "spec_of",
    "stop_gradient",
    "strong",
]
