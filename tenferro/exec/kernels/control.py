"""Kernels of the control family: they run programs, which an executor compiles for them.

Results are memory of their own, so that what called them may write into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tenferro.exec.claims import own
from tenferro.exec.kernels.kernel import Array, Kernel, KernelRows
from tenferro.ops.control import Cond, Scan, While
from tenferro.program.native import native_executor

__all__ = ["ROWS", "ControlKernel"]

Run = Callable[[Sequence[Array]], list[Array]]
"""A sub-program, compiled: arrays in, arrays out."""


class ControlKernel(Kernel):
    """A kernel that needs its sub-programs compiled; by the native executor, unless another gives them."""

    __slots__ = ("_loop",)

    def __init__(self, loop: Callable[..., Any]) -> None:
        super().__init__()
        self._loop = loop

    def __call__(self, op: Any, *arrays: Any) -> Any:
        return native_executor().kernel(op)(op, *arrays)

    def over(self, runs: Sequence[Run]) -> Callable[..., Any]:
        """The kernel over compiled sub-programs, in the order of the op's parts."""
        return partial(self._loop, runs)


def cond(runs: Sequence[Run], op: Cond, index: Array, *operands: Array) -> Any:
    """The outputs of one branch."""
    chosen = int(index)
    if not 0 <= chosen < len(runs):
        chosen = len(runs) - 1
    return _given(own(runs[chosen](operands), (index, *operands)))


def while_(runs: Sequence[Run], op: While, *arrays: Array) -> Any:
    """The carry that the condition refuses."""
    goes_on, body = runs
    consts, carry = arrays[: op.num_consts], arrays[op.num_consts :]
    while goes_on((*consts, *carry))[0]:
        carry = body((*consts, *carry))
    return _given(own(carry, arrays))


def scan(runs: Sequence[Run], op: Scan, *arrays: Array) -> Any:
    """The last carry, and what each step gave, written where it belongs."""
    (body,) = runs
    n, first, m = op.num_consts, op.first_xs, op.num_carry
    consts, carry, xs = arrays[:n], arrays[n:first], arrays[first:]
    ys = [np.empty((0, *spec.shape), spec.dtype.dtype) for spec in op.body.output_specs[m:]]
    places = range(op.length)[:: -1 if op.reverse else 1]
    for turn, t in enumerate(places):
        made = body((*consts, *carry, *[x[t, ...] for x in xs]))
        carry = made[:m]
        if not turn:  # because a body may be run in other dtypes than it was traced in
            ys = [np.empty((op.length, *part.shape), part.dtype) for part in made[m:]]
        for y, part in zip(ys, made[m:], strict=True):
            y[t] = part
    return _given([*own(carry, arrays), *ys])


def _given(outputs: list[Array]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


ROWS: KernelRows = {
    Cond: ControlKernel(cond),
    While: ControlKernel(while_),
    Scan: ControlKernel(scan),
}
