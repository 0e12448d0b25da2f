"""Fold: replaces steps on constants by their results."""

from __future__ import annotations

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

__all__ = ["fold"]

MAX_FOLDED_ELEMENTS = costs.SMALL
"""Maximum number of elements of a result that replaces a step, unless the op is in `FREE`."""
FREE = (Constant, BroadcastInDim)
"""Ops whose results of any size take no additional memory."""


def fold(program: ExecProgram) -> ExecProgram:
    """Return the schedule in which small results of steps on constants, and empty results, are constants."""
    constants: dict[int, Any] = dict(program.constants)
    steps: list[ExecInstruction] = []
    with numpy_state():
        for step in program.instructions:
            values = _values(step, constants)
            if values is None:
                steps.append(step)
            else:
                constants.update(zip(step.output_slots, values, strict=True))
    # The kernels above got operands with the strides of a run, on which the bits of results may depend.
    # Only now constants become row-major.
    dense = {slot: _dense(x) for slot, x in constants.items()}
    folded = replace(program, instructions=tuple(steps), constants=dense)
    return free(folded) if dense.keys() > program.constants.keys() else folded


def _values(step: ExecInstruction, constants: Mapping[int, Any]) -> list[Any] | None:
    """Return the results of a step on constants; None if the step is not replaced."""
    if step.planned is not None or Fact.EXTERNAL in step.facts:
        return None
    specs = step.output_types
    is_empty = all([spec.is_static and not spec.size for spec in specs])
    is_small = all([spec.is_static and spec.size <= MAX_FOLDED_ELEMENTS for spec in specs])
    is_known = constants.keys() >= {*step.input_slots}
    if not (is_empty or (is_known and (is_small or isinstance(step.op, FREE)))):
        return None
    try:
        if is_empty:
            values = [np.empty(spec.shape, spec.dtype.dtype) for spec in specs]
        else:
            result = step.function(*[constants[slot] for slot in step.input_slots])
            values = [np.asarray(y) for y in ((result,) if len(specs) == 1 else result)]
    except (ValueError, MemoryError):
        return None  # the run raises the error again, with the user's line
    for value in values:
        value.flags.writeable = False
    return values


def _dense(x: Any) -> Any:
    """Return a row-major copy of a constant, or the constant itself if it is row-major, broadcast or large."""
    if x.flags.c_contiguous or 0 in x.strides or x.size > MAX_FOLDED_ELEMENTS:
        return x
    y = np.ascontiguousarray(x)
    y.flags.writeable = False
    return y
