"""How far results may be apart when every op rounds a little differently.

The program is run op by op, natively, a few times over; each time every op's operands and results are
moved by as many units in the last place as its row of `ROUNDING` allows, up or down at random. How far the
outputs move is what rounding may do to them: cancellation, ill conditioning and comparisons that tip over
are all in it. Where a run meets subnormal numbers, one more run flushes them to zero, as XLA does on CPU;
and where ops tell zeros apart by their sign, one more turns the zeros that sums have made, because a sum
may give either. It is a first-order estimate from samples, and not a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.exec.kernels import KERNELS
from tenferro.ops import StdTensorOp
from tenferro.ops import analytic as an
from tenferro.ops import contraction as co
from tenferro.ops import elementwise as el
from tenferro.ops import indexing as ix
from tenferro.ops import reduction as re
from tenferro.ops.control import ControlOp
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram, native_executor
from tenferro.types import DType, TensorSpec
from xla_peer.parity.rounding import ROUNDING

__all__ = ["RUNS", "moved_outputs", "subnormal"]

RUNS = 4
TELLS_ZEROS_APART = (*an.CARDS, el.Divide, el.Power, el.BitcastConvert)
GIVES_EITHER_ZERO = (
    el.Add, el.Subtract, el.Sign, re.ReduceSum, re.CumSum, co.DotGeneral, co.Convolution, ix.Scatter,
)  # fmt: skip


def moved_outputs(
    program: GraphProgram, leaves: Sequence[Any], runs: int = RUNS
) -> list[list[Any]]:
    """The outputs of a run as it is, of so many that round in ways of their own, of one that flushes
    subnormal numbers and one that turns zeros, where there are any; always the same.
    """
    shapes = [leaf.shape for leaf in leaves]
    static = program.specialize(program.bind(shapes))
    plain = Plain()
    changes: list[Plain] = [plain, *[Moved(np.random.default_rng(seed)) for seed in range(runs)]]
    with np.errstate(all="ignore"):
        found = [_run(static, leaves, change) for change in changes]
        if plain.met_subnormals:
            found.append(_run(static, leaves, Flushed()))
        if any(isinstance(step.op, TELLS_ZEROS_APART) for step in static.instructions):
            found.append(_run(static, leaves, Turned()))
        return found


class Plain:
    """Values as they are; remembers whether any were subnormal."""

    met_subnormals = False

    def leaf(self, x: Any) -> Any:
        """An argument or a constant, in place of x."""
        self.met_subnormals = self.met_subnormals or bool(subnormal(x).any())
        return x

    def operand(self, x: Any, ulps: float) -> Any:
        """What an op gets in place of x."""
        return x

    def result(self, op: StdTensorOp, x: Any, ulps: float) -> Any:
        """What stands for the op's result x."""
        return self.leaf(x)


class Moved(Plain):
    """Values up or down by so many ulps at random."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def leaf(self, x: Any) -> Any:
        return x

    def operand(self, x: Any, ulps: float) -> Any:
        if not ulps or x.dtype.kind in "biu" or not x.size:
            return x
        wide = x if x.dtype.itemsize > 2 else x.astype(np.float32)
        step = ulps * float(ml_dtypes.finfo(x.real.dtype if x.dtype.kind == "c" else x.dtype).eps)
        signs = self.generator.integers(0, 2, x.shape, np.int8).astype(wide.real.dtype)
        signs *= 2 * step
        signs += 1 - step
        return (wide * signs).astype(x.dtype, copy=False)

    def result(self, op: StdTensorOp, x: Any, ulps: float) -> Any:
        return self.operand(x, ulps)


class Flushed(Plain):
    """Subnormal values to zeros of their sign."""

    def leaf(self, x: Any) -> Any:
        return _by_part(lambda a: np.where(subnormal(a), np.copysign(0 * a, a), a), x)


class Turned(Plain):
    """Zeros that a sum has made to zeros of the other sign."""

    def leaf(self, x: Any) -> Any:
        return x

    def result(self, op: StdTensorOp, x: Any, ulps: float) -> Any:
        if not isinstance(op, GIVES_EITHER_ZERO):
            return x
        return _by_part(lambda a: np.where(a == 0, -a, a), x)


def subnormal(x: Any) -> Any:
    """Which elements are subnormal; of complex numbers, in either part."""
    if x.dtype.kind in "biu":
        return np.zeros((), bool)
    if x.dtype.kind == "c":
        return subnormal(x.real) | subnormal(x.imag)
    return (np.abs(x) < ml_dtypes.finfo(x.dtype).smallest_normal) & (x != 0)


def _by_part(change: Callable[[Any], Any], x: Any) -> Any:
    """The change on floats, and on each part of complex numbers."""
    if x.dtype.kind in "biu":
        return x
    if x.dtype.kind != "c":
        return change(x).astype(x.dtype, copy=False)
    found = np.empty_like(x)
    found.real, found.imag = change(x.real), change(x.imag)
    return found


def _kernel(op: StdTensorOp, change: Plain) -> Any:
    """What runs an op; a loop's body is changed at every turn."""
    if isinstance(op, ControlOp):
        runs = [partial(_run, part.program, change=change) for part in op.parts]
        return KERNELS[type(op)].over(runs)  # pyright: ignore[reportFunctionMemberAccess]  # because all of that family are ControlKernels
    return native_executor().kernel(op)


def _run(program: GraphProgram, leaves: Sequence[Any], change: Plain) -> list[Any]:
    values: list[Any] = [None] * program.n_slots
    for slot, leaf in zip(program.input_slots, leaves, strict=True):
        values[slot] = np.asarray(change.leaf(leaf))
    for step in program.instructions:
        op, rounding = step.op, ROUNDING[type(step.op)]
        operands = [values[slot] for slot in step.inputs]
        if rounding.terms is not None:
            specs = tuple([TensorSpec.of(x.shape, DType.of(x.dtype)) for x in operands])
            ulps = rounding.inputs(op, specs)
            operands = [np.asarray(change.operand(x, ulps)) for x in operands]
        found = _kernel(op, change)(op, *operands)
        made = (found,) if len(step.outputs) == 1 else found
        for slot, y in zip(step.outputs, map(np.asarray, made), strict=True):
            is_given = isinstance(op, Constant)
            ulps = rounding.output(y.dtype.kind == "c")
            values[slot] = np.asarray(change.leaf(y) if is_given else change.result(op, y, ulps))
        for slot, last in zip(step.inputs, step.last_use, strict=True):
            if last:
                values[slot] = None
    return [values[slot] for slot in program.output_slots]
