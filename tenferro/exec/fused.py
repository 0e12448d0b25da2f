"""Execution of fused groups that are not compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenferro.exec.layout import in_memory
from tenferro.exec.planned import Fused
from tenferro.exec.runtime.resources import Resources

__all__ = ["FusedFunction"]


class FusedFunction:
    """Function of arrays that runs the steps of a fused group, one after the other.

    Args:
        body: the function from a sequence of operands to the list of the group's results and totals.
    """

    accepts_buffers = True

    def __init__(self, op: Fused, body: Callable[..., Any], resources: Resources) -> None:
        self.op, self.body, self.resources = op, body, resources
        self.tiling = op.require_tiling()
        self._forms = [in_memory(spec, self.tiling.axes(spec.rank)) for spec in op.results]

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        """Return the results of the group, then its totals.

        Args:
            into: for each result, the bytes in which it is stored, or the operand that it overwrites, or None for new
                memory.
        """
        # Outputs are copied, because an output may be a view of an operand that another output overwrites below.
        outputs = [np.array(y) for y in self.body(arrays)]
        for number, target in enumerate(into or ()):
            if target is not None:
                is_operand = any([x is target for x in arrays])
                y = target if is_operand else self.empty_result(number, target)
                np.copyto(y, outputs[number])
                outputs[number] = y
        return outputs[0] if len(outputs) == 1 else outputs

    def empty_result(self, number: int, memory: Any) -> Any:
        """Return an uninitialised array for the result `number`, in the bytes `memory`, or in new memory if None."""
        shape, dtype, inverse = self._forms[number]
        return np.ndarray(shape, dtype, memory).transpose(inverse)
