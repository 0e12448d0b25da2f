"""Kernels of the control family: they run programs, which an executor compiles for them.

Results are memory of their own, so that what called them may write into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tenferro.dims import is_exact
from tenferro.errors import ShapeError
from tenferro.exec.claims import own
from tenferro.exec.kernels.kernel import Array, Kernel, KernelRows
from tenferro.ops.control import Alternatives, Cond, Scan, While
from tenferro.program.native import native_executor
from tenferro.types import DType, TensorSpec

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


def alternatives(runs: Sequence[Run], op: Alternatives, *operands: Array) -> Any:
    """The outputs of the first alternative that there is."""
    return _given(own(runs[0](operands), operands))


def while_(runs: Sequence[Run], op: While, *arrays: Array) -> Any:
    """The carry that the condition refuses."""
    goes_on, body = runs
    consts, carry = arrays[: op.num_consts], arrays[op.num_consts :]
    while goes_on((*consts, *carry))[0]:
        carry = body((*consts, *carry))
    return _given(own(carry, arrays))


def scan(runs: Sequence[Run], op: Scan, *arrays: Array) -> Any:
    """The last carry, and the stacked outputs of each step, each written to its row.

    Raises:
        ShapeError: extents that the data decide differ from turn to turn; without turns they are 0.
    """
    (body,) = runs
    n, first, m = op.num_consts, op.first_xs, op.num_carry
    consts, carry, xs = arrays[:n], arrays[n:first], arrays[first:]
    rows = op.body.output_specs[m:]
    shapes = [[extent if is_exact(extent) else 0 for extent in row.shape] for row in rows]
    ys = [np.empty((0, *shape), row.dtype.dtype) for shape, row in zip(shapes, rows, strict=True)]
    may_differ = not all([row.is_exact for row in rows])
    places = range(op.length)[:: -1 if op.reverse else 1]
    for turn, t in enumerate(places):
        results = body((*consts, *carry, *[x[t, ...] for x in xs]))
        carry = results[:m]
        if not turn:  # because a body may be run in other dtypes than it was traced in
            ys = [np.empty((op.length, *part.shape), part.dtype) for part in results[m:]]
        elif may_differ:
            _same_shapes(op, ys, results[m:], turn)
        for y, part in zip(ys, results[m:], strict=True):
            y[t] = part
    return _given([*own(carry, arrays), *ys])


def _same_shapes(op: Scan, ys: Sequence[Array], parts: Sequence[Array], turn: int) -> None:
    for number, (y, part) in enumerate(zip(ys, parts, strict=True)):
        if part.shape != y.shape[1:]:
            raise ShapeError(
                f"{op.name}: y {number} is {_spec(y[0])} in turn 0 and {_spec(part)} in turn {turn}, and stacked "
                "ys have one shape; give it that shape, by tnf.pad_to_match for example"
            )


def _spec(x: Array) -> TensorSpec:
    return TensorSpec.of(x.shape, DType.of(x.dtype))


def _given(outputs: list[Array]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


ROWS: KernelRows = {
    Alternatives: ControlKernel(alternatives),
    Cond: ControlKernel(cond),
    While: ControlKernel(while_),
    Scan: ControlKernel(scan),
}
