"""Fold constants: compute steps of constant operands once, and keep numbers as numbers."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tenferro.exec.plan.place import free
from tenferro.exec.planned import PlannedOp
from tenferro.exec.runtime.numpy_state import numpy_state
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.ops.extension import Extension
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim
from tenferro.types import TensorSpec

__all__ = ["fold", "keep_numbers"]

LARGEST = 1 << 16
"""Elements of a value that is computed once, when the program is compiled."""
FREE = (Constant, BroadcastInDim)
"""Ops that take no memory, however large the result."""


def fold(program: ExecProgram) -> ExecProgram:
    """The schedule with steps of constant operands folded, where the result is small or a view; what has no elements is
    constant.
    """
    constants: dict[int, Any] = dict(program.constants)
    arguments = {slot: _empty(program.types[slot]) for slot in program.input_slots}
    empty = {slot: x for slot, x in arguments.items() if x is not None}
    values_of = ChainMap(constants, empty)
    steps: list[ExecInstruction] = []
    with numpy_state():
        for step in program.instructions:
            values = _values(step, values_of)
            if values is None:
                steps.append(step)
            else:
                constants.update(zip(step.output_slots, values, strict=True))
    # In the end, because functions of what has gaps may have other bits.
    dense = {slot: _dense(x) for slot, x in constants.items()}
    folded = replace(program, instructions=tuple(steps), constants=dense)
    return free(folded) if dense.keys() > program.constants.keys() else folded


def _values(step: ExecInstruction, constants: Mapping[int, Any]) -> list[Any] | None:
    """The outputs of a step that is to be computed now; None for any other."""
    if isinstance(step.op, Extension | PlannedOp):
        return None
    empty = [x for x in map(_empty, step.output_types) if x is not None]
    if len(empty) == len(step.output_types):
        return empty
    if not constants.keys() >= {*step.input_slots}:
        return None
    is_small = all([spec.is_static and spec.size <= LARGEST for spec in step.output_types])
    if not (is_small or isinstance(step.op, FREE)):
        return None
    try:
        result = step.function(*[constants[slot] for slot in step.input_slots])
    except (ValueError, MemoryError):
        return None  # because the run says which line asked for it, if it comes there at all
    values = [np.asarray(y) for y in ((result,) if len(step.output_slots) == 1 else result)]
    for value in values:
        value.flags.writeable = False
    return values


def _dense(x: Any) -> Any:
    """A constant row by row, but for what repeats elements, or has many."""
    if x.flags.c_contiguous or 0 in x.strides or x.size > LARGEST:
        return x
    y = np.ascontiguousarray(x)
    y.flags.writeable = False
    return y


def _empty(spec: TensorSpec) -> Any:
    """The array of a type without elements; None for any other, and where NumPy has no array of the extents."""
    if not spec.is_static or spec.size:
        return None
    try:
        x = np.empty(spec.shape, spec.dtype.dtype)
    except ValueError:
        return None  # because the run says which line asked for it
    x.flags.writeable = False
    return x


def keep_numbers(program: ExecProgram) -> ExecProgram:
    """The schedule with values of rank 0 that nothing but ufuncs reads as NumPy's scalars, which are faster."""
    numbers = {slot for slot, spec in enumerate(program.types) if not spec.shape}
    numbers.difference_update(program.output_slots)
    if numbers:
        for step in program.instructions:
            if not step.is_ufunc:
                numbers.difference_update(step.input_slots)
    constants = {
        slot: value[()] if slot in numbers else value for slot, value in program.constants.items()
    }
    return replace(program, constants=constants, numbers=frozenset(numbers))
