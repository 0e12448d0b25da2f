"""Engines that run a function: NumPy kernels, compiled loops, and XLA through PJRT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.errors import TenferroError
from tenferro.exec.llvm.link import is_installed
from tools.accuracy.arguments import CHUNK
from tools.accuracy.function import Function
from xla_peer import XlaExecutor

__all__ = ["ENGINES", "Run", "run_of"]

Run = Callable[[Sequence[np.ndarray]], np.ndarray]
ENGINES = ("NumPy", "compiled", "PJRT")


def run_of(function: Function, engine: str, dtype: str, size: int = CHUNK) -> Run | None:
    """Return the function of arrays of `size` elements; None if the engine cannot run it.

    Compiled code is tested in a loop of one iteration. If loops call NumPy for a function, it has no compiled code.
    """
    specs = [tnf.TensorSpec((size,), dtype)] * function.arity
    try:
        if engine == "compiled":
            return _compiled(function, specs) if is_installed() else None
        program = tnf.compile(function.call, *specs)
        executor = XlaExecutor() if engine == "PJRT" else tnf.GraphExecutor("K", compiled=False)
        run = lambda xs: np.asarray(executor.run(program, *xs))
        run([np.ones(size, specs[0].dtype.dtype)] * function.arity)
    except TenferroError:
        return None
    return run


def _compiled(function: Function, specs: Sequence[Any]) -> Run | None:
    def once(*xs: Any) -> Any:
        turn = lambda _, carry: (function.call(*xs).astype(specs[0].dtype),)
        return tnf.fori_loop(0, 1, turn, (tnf.zeros_like(xs[0]),))[0]

    program = tnf.compile(once, *specs)
    executor = tnf.GraphExecutor("K", compiled=True)
    schedule = executor.compile(program)
    remarks = [step.remark for step in schedule.instructions if step.bodies]
    if remarks != ["compiled"]:
        return None
    return lambda xs: np.asarray(executor.run(program, *xs))
