"""Fold: compute steps with constant operands once."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tenferro import costs
from tenferro.exec.plan.place import free
from tenferro.exec.runtime.numpy_state import numpy_state
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.facts import Fact
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim
from tenferro.types import TensorSpec

__all__ = ["fold"]

MAX_FOLDED_ELEMENTS = costs.SMALL
"""Maximum number of elements of a value that is computed when the program is compiled."""
FREE = (Constant, BroadcastInDim)
"""Ops whose results take no memory, however large they are."""


def fold(program: ExecProgram) -> ExecProgram:
    """Return the schedule without steps of constant operands whose results are small or views.

    Values without elements are constants.
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
    # In the end, because functions of strided arrays may have other bits.
    dense = {slot: _dense(x) for slot, x in constants.items()}
    folded = replace(program, instructions=tuple(steps), constants=dense)
    return free(folded) if dense.keys() > program.constants.keys() else folded


def _values(step: ExecInstruction, constants: Mapping[int, Any]) -> list[Any] | None:
    """Return the results of a step with constant operands; None if it is not folded."""
    if step.planned is not None or Fact.EXTERNAL in step.facts:
        return None
    empty = [x for x in map(_empty, step.output_types) if x is not None]
    if len(empty) == len(step.output_types):
        return empty
    if not constants.keys() >= {*step.input_slots}:
        return None
    is_small = all(
        [spec.is_static and spec.size <= MAX_FOLDED_ELEMENTS for spec in step.output_types]
    )
    if not (is_small or isinstance(step.op, FREE)):
        return None
    try:
        result = step.function(*[constants[slot] for slot in step.input_slots])
    except (ValueError, MemoryError):
        return None  # because the run names the line, if it gets there
    values = [np.asarray(y) for y in ((result,) if len(step.output_slots) == 1 else result)]
    for value in values:
        value.flags.writeable = False
    return values


def _dense(x: Any) -> Any:
    """Return a row-major constant, unless it repeats elements or is large."""
    if x.flags.c_contiguous or 0 in x.strides or x.size > MAX_FOLDED_ELEMENTS:
        return x
    y = np.ascontiguousarray(x)
    y.flags.writeable = False
    return y


def _empty(spec: TensorSpec) -> Any:
    """Return the array of a type without elements; None for another type, and for extents beyond NumPy's."""
    if not spec.is_static or spec.size:
        return None
    try:
        x = np.empty(spec.shape, spec.dtype.dtype)
    except ValueError:
        return None  # because the run names the line
    x.flags.writeable = False
    return x
