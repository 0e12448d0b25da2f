"""Option `check_finite`: an error at the first NaN or infinity that an op computes from finite operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenferro.errors import NonFiniteError
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.ops.source import Constant

__all__ = ["finite_or_raise", "strange"]


def finite_or_raise(
    _: ExecProgram, step: ExecInstruction, operands: Sequence[Any], call: Callable[..., Any]
) -> Sequence[Any]:
    """Run a step by `call(operands)`, and return its results.

    Constants are not checked. Neither are loops and conditionals, because the steps of their bodies are checked.

    Raises:
        NonFiniteError: the step computed NaN or infinity from finite operands.
    """
    results = call(operands)
    if step.bodies or isinstance(step.op, Constant):
        return results
    for y in results:
        words = strange(y, operands)
        if words is not None:
            raise NonFiniteError(f"{step.op.name}: {words}")
    return results


def strange(y: Any, operands: Sequence[Any]) -> str | None:
    """Return a message if y has NaN and no operand has, or y is not finite and all operands are; else None.

    >>> strange(np.array([0.0, -np.inf]), [np.array([1.0, 0.0])])
    'made -inf at [1] of 0.0; 1 of 2 elements'
    """
    if y.dtype.kind in "biu" or np.isfinite(y).all():
        return None
    floats = [x for x in operands if x.dtype.kind not in "biu"]
    bad = ~np.isfinite(y)
    if not all(np.isfinite(x).all() for x in floats):
        bad = np.isnan(y)
        if not bad.any() or any(np.isnan(x).any() for x in floats):
            return None
    index = tuple(map(int, np.unravel_index(int(np.argmax(bad)), y.shape)))
    elements = [str(x[index]) for x in operands if x.shape == y.shape]
    of = f" of {', '.join(elements)}" if elements else ""
    count = f"{np.count_nonzero(bad)} of {y.size} elements"
    return f"made {y[index]} at {list(index)}{of}; {count}"
