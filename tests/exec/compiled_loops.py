"""Functions of arrays by loops that are compiled whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tenferro as tnf
from tenferro.ops.control import ControlOp

__all__ = ["in_a_loop"]


def in_a_loop(function: Callable[..., Any], *arrays: Any) -> list[Any]:
    """What a compiled loop gives of the rows of arrays."""
    program = tnf.compile(
        lambda *xs: tnf.scan(lambda n, x: (n + 1, function(*x)), 0, xs)[1], *arrays
    )
    executor = tnf.GraphExecutor("K", compiled=True)
    steps = executor.compile(program, *arrays).instructions
    (remark,) = [step.remark for step in steps if isinstance(step.op, ControlOp)]
    assert remark == "compiled"
    return executor.run(program, *arrays)
