"""How far results may be apart when every op rounds a little differently.

The program is run op by op, natively, a few times over; each time every op's operands and results are
moved by as many units in the last place as its row of `ROUNDING` allows, up or down at random. How far the
outputs move is what rounding may do to them: cancellation, ill conditioning and comparisons that tip over
are all in it. Where a run meets subnormal numbers, one more run flushes them to zero, as XLA does on CPU.
It is a first-order estimate from samples, and not a proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.exec.dispatch import kernel_of
from tenferro.program import GraphProgram
from tenferro.types import DType, TensorSpec
from xla_peer.parity.rounding import ROUNDING

__all__ = ["RUNS", "moved_outputs", "subnormal"]

RUNS = 4


def moved_outputs(program: GraphProgram, leaves: Sequence[Any]) -> list[list[Any]]:
    """The outputs of a run as it is, of `RUNS` that round in ways of their own, and of one that flushes
    subnormal numbers, if there are any; always the same.
    """
    shapes = [leaf.shape for leaf in leaves]
    static = program.specialize(program.bind(shapes))
    generators = [None, *map(np.random.default_rng, range(RUNS))]
    tiny = Subnormals()
    with np.errstate(all="ignore"):
        runs = [_moved_run(static, leaves, _Moving(generator, tiny)) for generator in generators]
        return [*runs, _moved_run(static, leaves, _Flushing())] if tiny.met else runs


class Subnormals:
    """Whether any were met."""

    met = False


class _Moving:
    """Values up or down by so many ulps at random; as they are without a generator."""

    def __init__(self, generator: Any, tiny: Subnormals) -> None:
        self.generator = generator
        self.tiny = tiny

    def __call__(self, x: Any, ulps: float) -> Any:
        if self.generator is None and not self.tiny.met:
            self.tiny.met = bool(subnormal(x).any())
        return _moved(x, ulps, self.generator)


class _Flushing:
    """Subnormal values to zero."""

    def __call__(self, x: Any, ulps: float) -> Any:
        small = subnormal(x)
        return _flushed(x, small) if small.any() else x


def subnormal(x: Any) -> Any:
    """Which elements are subnormal; of complex numbers, in either part."""
    if x.dtype.kind in "biu":
        return np.zeros((), bool)
    if x.dtype.kind == "c":
        return subnormal(x.real) | subnormal(x.imag)
    return (np.abs(x) < ml_dtypes.finfo(x.dtype).smallest_normal) & (x != 0)


def _flushed(x: Any, small: Any) -> Any:
    if x.dtype.kind != "c":
        return np.where(small, np.copysign(np.zeros((), x.dtype), x), x).astype(x.dtype)
    parts = [_flushed(part, subnormal(part)) for part in (x.real, x.imag)]
    found = np.empty_like(x)
    found.real, found.imag = parts
    return found


def _moved_run(program: GraphProgram, leaves: Sequence[Any], change: Any) -> list[Any]:
    taken = [change(leaf, 0) for leaf in leaves]
    values: list[Any] = [*taken, *[None] * (program.n_slots - len(leaves))]
    for instruction in program.instructions:
        op, rounding = instruction.op, ROUNDING[type(instruction.op)]
        operands = [values[slot] for slot in instruction.inputs]
        if rounding.terms is not None:
            specs = tuple([TensorSpec.of(x.shape, DType.of(x.dtype)) for x in operands])
            ulps = rounding.inputs(op, specs)
            operands = [np.asarray(change(x, ulps)) for x in operands]
        result = kernel_of(op)(op, *operands)
        made = (result,) if len(instruction.outputs) == 1 else result
        for slot, y in zip(instruction.outputs, map(np.asarray, made), strict=True):
            values[slot] = np.asarray(change(y, rounding.output(y.dtype.kind == "c")))
        for slot, last in zip(instruction.inputs, instruction.last_use, strict=True):
            if last:
                values[slot] = None
    return [values[slot] for slot in program.output_slots]


def _moved(x: Any, ulps: float, rng: Any) -> Any:
    """X with each element up or down by that many ulps; as it is without `rng`, or of integers."""
    if rng is None or not ulps or x.dtype.kind in "biu" or not x.size:
        return x
    wide = x if x.dtype.itemsize > 2 else x.astype(np.float32)
    step = ulps * float(ml_dtypes.finfo(x.real.dtype if x.dtype.kind == "c" else x.dtype).eps)
    signs = rng.integers(0, 2, x.shape, np.int8).astype(wide.real.dtype)
    signs *= 2 * step
    signs += 1 - step
    return (wide * signs).astype(x.dtype, copy=False)
