"""Dispatch of ops: `apply` applies an op to tensors or arrays of any class."""

from tenferro.dispatch.application import apply, apply_one
from tenferro.dispatch.operands import (
    PYTHON_SCALARS,
    as_constant_of,
    as_operand,
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
    "as_constant_of",
    "as_operand",
    "copied",
    "elements",
    "first_tensor",
    "is_traced",
    "is_weak",
    "spec_of",
    "stop_gradient",
    "strong",
]
