"""Kernels of loops and conditionals, whose sub-programs the executor compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from tenferro import TensorSpec
from tenferro.ops.control import Cond, Scan, While
from tenferro_torch.memory import allocate

__all__ = ["ROWS", "ControlKernel"]

Tensor = torch.Tensor
Run = Callable[[Sequence[Tensor]], list[Tensor]]
"""Compiled sub-program of an op: a function from tensors to tensors."""


class ControlKernel:
    """Kernel of an op with sub-programs; the executor passes the compiled sub-programs to `bind_programs`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def bind_programs(self, runs: Sequence[Run]) -> Callable[..., Any]:
        """Return the kernel with these compiled sub-programs, which have the order of the op's sub-programs."""
        return partial(self.function, runs)


def cond(runs: Sequence[Run], op: Cond, index: Tensor, *operands: Tensor) -> Any:
    """Run one branch and return its outputs; an index out of range selects the last branch."""
    number = int(index)
    return outputs(runs[number if 0 <= number < len(runs) else -1](operands))


def while_(runs: Sequence[Run], op: While, *tensors: Tensor) -> Any:
    """Run the body until the condition is false, and return the last carry."""
    goes_on, body = runs
    consts, carry = tensors[: op.num_consts], tensors[op.num_consts :]
    while goes_on((*consts, *carry))[0]:
        carry = body((*consts, *carry))
    return outputs(carry)


def scan(runs: Sequence[Run], op: Scan, *tensors: Tensor) -> Any:
    """Run the body for each step, and return the last carry and the stacked results of all steps."""
    (body,) = runs
    n, first, m = op.num_consts, op.first_xs, op.num_carry
    consts, carry, xs = tensors[:n], tensors[n:first], tensors[first:]
    ys = [
        allocate(TensorSpec((op.length, *spec.shape), spec.dtype))
        for spec in op.body.output_specs[m:]
    ]
    steps = range(op.length)
    for t in reversed(steps) if op.reverse else steps:
        step = body((*consts, *carry, *[x[t] for x in xs]))
        carry = step[:m]
        for y, part in zip(ys, step[m:], strict=True):
            y[t] = part
    return outputs([*carry, *ys])


def outputs(tensors: Sequence[Tensor]) -> Any:
    """Return a single output as a tensor, several outputs as a tuple."""
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


ROWS = {Cond: ControlKernel(cond), While: ControlKernel(while_), Scan: ControlKernel(scan)}
