"""Kernels of loops and conditionals. Their results own their memory, so the caller may overwrite them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tenferro.dims import is_exact
from tenferro.errors import ShapeError
from tenferro.exec.kernels.aliasing import copy_aliases
from tenferro.exec.kernels.kernel import Array, Kernel, KernelRows, unpacked
from tenferro.ops.control import Alternatives, Cond, Scan, While
from tenferro.program.native import native_executor
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS", "ControlKernel"]

Run = Callable[[Sequence[Array]], list[Array]]
"""Function from the inputs of a body to its outputs."""


class ControlKernel(Kernel):
    """Kernel of an op with bodies; the native executor runs the op if `bind_programs` is not called."""

    __slots__ = ("_loop",)

    def __init__(self, loop: Callable[..., Any]) -> None:
        super().__init__(lambda op, *arrays: native_executor().kernel(op)(op, *arrays))
        self._loop = loop

    def bind_programs(self, runs: Sequence[Run]) -> Callable[..., Any]:
        """Return the kernel with functions that run the op's bodies, in the order of `op.parts`."""
        return partial(self._loop, runs)


def cond(runs: Sequence[Run], op: Cond, index: Array, *operands: Array) -> Any:
    """Run the branch with this index, and return its outputs; an index out of range selects the last branch."""
    branch = int(index)
    if not 0 <= branch < len(runs):
        branch = len(runs) - 1
    return unpacked(copy_aliases(runs[branch](operands), (index, *operands)))


def alternatives(runs: Sequence[Run], op: Alternatives, *operands: Array) -> Any:
    """Run the first alternative, and return its outputs."""
    return unpacked(copy_aliases(runs[0](operands), operands))


def while_(runs: Sequence[Run], op: While, *arrays: Array) -> Any:
    """Run the body while the condition is true, and return the final carry."""
    condition, body = runs
    consts, carry = arrays[: op.num_consts], arrays[op.num_consts :]
    while condition((*consts, *carry))[0]:
        carry = body((*consts, *carry))
    return unpacked(copy_aliases(carry, arrays))


def scan(runs: Sequence[Run], op: Scan, *arrays: Array) -> Any:
    """Run the body for each iteration; return the final carry, and the outputs stacked along a leading axis.

    Without iterations, data-dependent extents of the outputs are 0.

    Raises:
        ShapeError: a data-dependent extent of an output differs between iterations.
    """
    (body,) = runs
    n, first, m = op.num_consts, op.first_xs, op.num_carry
    consts, carry, xs = arrays[:n], arrays[n:first], arrays[first:]
    rows = op.body.output_specs[m:]
    shapes = [[extent if is_exact(extent) else 0 for extent in row.shape] for row in rows]
    ys = [np.empty((0, *shape), row.dtype.dtype) for shape, row in zip(shapes, rows, strict=True)]
    may_differ = not all([row.is_exact for row in rows])
    indices = range(op.length)[:: -1 if op.reverse else 1]
    for iteration, t in enumerate(indices):
        results = body((*consts, *carry, *[x[t, ...] for x in xs]))
        carry = results[:m]
        if not iteration:  # because a body may run in dtypes that differ from its trace
            ys = [np.empty((op.length, *part.shape), part.dtype) for part in results[m:]]
        elif may_differ:
            _check_shapes(op, ys, results[m:], iteration)
        for y, part in zip(ys, results[m:], strict=True):
            y[t] = part
    return unpacked([*copy_aliases(carry, arrays), *ys])


def _check_shapes(op: Scan, ys: Sequence[Array], parts: Sequence[Array], iteration: int) -> None:
    for number, (y, part) in enumerate(zip(ys, parts, strict=True)):
        if part.shape != y.shape[1:]:
            raise ShapeError(
                f"{op.name}: y {number} is {_spec(y[0])} in iteration 0 and {_spec(part)} in iteration {iteration}, "
                "and stacked ys have one shape; give it that shape, by tnf.pad_to_match for example"
            )


def _spec(x: Array) -> TensorSpec:
    return TensorSpec.of(x.shape, DType.of(x.dtype))


ROWS: KernelRows = {
    Alternatives: ControlKernel(alternatives),
    Cond: ControlKernel(cond),
    While: ControlKernel(while_),
    Scan: ControlKernel(scan),
}
