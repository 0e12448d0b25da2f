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
    """Return a function that runs `function` on arrays of `size` elements; None if the engine cannot run it.

    The engine "compiled" compiles a loop that calls the function once. The result is None if such a loop would be
    interpreted instead.
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
    rows = [tnf.TensorSpec((1, *spec.shape), spec.dtype) for spec in specs]
    program = tnf.compile(lambda *xs: tnf.map(lambda x: function.call(*x), xs), *rows)
    executor = tnf.GraphExecutor("K", compiled=True)
    schedule = executor.compile(program)
    if [step.remark for step in schedule.instructions] != ["compiled"]:
        return None
    return lambda xs: np.ravel(executor.run(program, *[x[None] for x in xs]))
