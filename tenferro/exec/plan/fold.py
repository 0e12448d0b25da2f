"""Fold: computes steps with constant operands when the program is compiled."""

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
"""Maximum number of elements of a folded result, unless it is a view."""
FREE = (Constant, BroadcastInDim)
"""Ops whose results take no memory, however many elements they have."""


def fold(program: ExecProgram) -> ExecProgram:
    """Return the schedule with steps on constants replaced by their results, if these are small or views.

    Results without elements are constants too.
    """
    constants: dict[int, Any] = dict(program.constants)
    steps: list[ExecInstruction] = []
    with numpy_state():
        for step in program.instructions:
            values = _values(step, constants)
            if values is None:
                steps.append(step)
            else:
                constants.update(zip(step.output_slots, values, strict=True))
    # Made dense last, because kernels may give other bits for strided arrays.
    dense = {slot: _dense(x) for slot, x in constants.items()}
    folded = replace(program, instructions=tuple(steps), constants=dense)
    return free(folded) if dense.keys() > program.constants.keys() else folded


def _values(step: ExecInstruction, constants: Mapping[int, Any]) -> list[Any] | None:
    """Return the results of a step with constant operands; None if it is not folded."""
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
        return None  # because the run raises the error again, with the user's line
    for value in values:
        value.flags.writeable = False
    return values


def _dense(x: Any) -> Any:
    """Return a row-major copy of a constant; one that repeats elements or is large is returned unchanged."""
    if x.flags.c_contiguous or 0 in x.strides or x.size > MAX_FOLDED_ELEMENTS:
        return x
    y = np.ascontiguousarray(x)
    y.flags.writeable = False
    return y
