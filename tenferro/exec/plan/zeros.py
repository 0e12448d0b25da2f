"""Zeros: the values that have no -0.0 in them, so that to add 0.0 changes no bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tenferro.exec.kernels import buffered
from tenferro.exec.schedule import ExecProgram
from tenferro.ops.elementwise import Abs, Add, Select
from tenferro.ops.indexing import Gather, Scatter
from tenferro.ops.structural import BroadcastInDim, Concatenate, Reshape, Reverse, Slice, Transpose

__all__ = ["has_negative_zeros", "without_negative_zeros"]

RULES: Mapping[type, Callable[[Any, Sequence[bool]], bool]] = {
    Abs: lambda op, free: True,
    Add: lambda op, free: any(free),
    Scatter: lambda op, free: free[0] and {"add": True, "set": free[2]}.get(op.combiner, False),
    Gather: lambda op, free: free[0],
    Select: lambda op, free: all(free[1:]),
    **dict.fromkeys(
        [BroadcastInDim, Concatenate, Reshape, Reverse, Slice, Transpose],
        lambda op, free: all(free),
    ),
}
"""Whether a result is free of -0.0, of which operands are. A sum of two numbers is -0.0 if both are."""


def has_negative_zeros(value: Any) -> bool:
    """Whether a constant has one, of complex numbers in a part.

    >>> import numpy as np
    >>> has_negative_zeros(np.array([0.0, -1.0])), has_negative_zeros(np.array(-0.0))
    (False, True)
    """
    if value.dtype.kind == "c":
        return has_negative_zeros(value.real) or has_negative_zeros(value.imag)
    return value.dtype.kind not in "biu" and buffered.has_negative_zeros(value)


def without_negative_zeros(program: ExecProgram, inputs: Iterable[int]) -> frozenset[int]:
    """The slots without any -0.0, if there is none in these inputs."""
    free = {slot for slot, spec in enumerate(program.types) if spec.dtype.kind in "biu"}
    free.update(inputs)
    free.update(
        [slot for slot, value in program.constants.items() if not has_negative_zeros(value)]
    )
    for step in program.instructions:
        rule = RULES.get(type(step.op))
        if rule and rule(step.op, [slot in free for slot in step.input_slots]):
            free.update(step.output_slots)
    return frozenset(free)
