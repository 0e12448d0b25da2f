"""Runs of programs without planning: the kernels of the instructions run one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.exec.interpreter import interpret
from tenferro.exec.plan.finish import finish
from tenferro.exec.runtime.numpy_state import numpy_state

__all__ = ["run_unplanned"]


def run_unplanned(program: tnf.GraphProgram, *arrays: Any, order: Any = "F") -> Any:
    """Run the kernels of a program in order, without folding, groups or planned memory."""
    executor = tnf.GraphExecutor()
    leaves = program.check_arguments(arrays)
    static = program.specialize(program.bind([np.shape(x) for x in leaves]))
    schedule = finish(replace(executor.binder, plan=()).schedule(static), order)
    with numpy_state():
        outputs = interpret(schedule, leaves)
    return program.pack(outputs)
