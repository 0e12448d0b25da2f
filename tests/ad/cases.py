"""Samples of ops for the tests of derivatives, each as a function of the operands that can be differentiated."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.dispatch import apply
from tenferro.ops import STD_OPS, StdTensorOp, dynamic, elementwise, source
from tenferro.types import DType
from tests.samples import SAMPLES
from tests.samples.sample import OpSample

SKIPPED: dict[type[StdTensorOp], str] = {
    elementwise.BitcastConvert: "bits are not a number",
    elementwise.RoundNearestEven: "samples sit on the steps",
    elementwise.RoundNearestAfz: "samples sit on the steps",
    source.ShapeOf: "an extent depends on no element",
}

FIRST_ONLY = (dynamic.DynamicTruncate, dynamic.PadToMatch)
"""Ops that can be differentiated only with respect to the first operand; the other operands determine a shape."""


@dataclass(frozen=True)
class Case:
    """A sample of an op.

    `active` has the indices of its differentiable operands, `outputs` those of its differentiable results.
    """

    sample: OpSample
    inputs: tuple[Any, ...]
    active: tuple[int, ...]
    outputs: tuple[int, ...]

    def __str__(self) -> str:
        return str(self.sample)

    @property
    def fn(self) -> Callable[..., Any]:
        """Return the op as a function of its differentiable operands; the other operands are fixed."""

        def fn(*xs: Any) -> Any:
            operands = list(self.inputs)
            for index, x in zip(self.active, xs, strict=True):
                operands[index] = x
            ys = apply(self.sample.op, *operands)
            return tuple(ys[index] for index in self.outputs)

        return fn

    @property
    def epsilon(self) -> float:
        """Return half the spacing of floats at 1, in the least precise dtype of the operands and results."""
        op = self.sample.op
        if isinstance(op, elementwise.ReducePrecision):
            return 2.0 ** -(op.mantissa_bits + 1)
        formats = {np.dtype(x.dtype) for x in (*self.primals, *self.expected)}
        return max(float(ml_dtypes.finfo(dtype).eps) / 2 for dtype in formats)

    @property
    def expected(self) -> tuple[Any, ...]:
        """Return the differentiable results of the sample.

        Tests compare shapes and dtypes of derivatives with theirs.
        """
        return tuple(self.sample.expected[index] for index in self.outputs)

    @property
    def is_smooth(self) -> bool:
        """Return False if the op rounds its results to few digits.

        A finite difference would then measure only the rounding.
        """
        return self.epsilon < 1e-10

    @property
    def primals(self) -> tuple[Any, ...]:
        """Return the values of the differentiable operands."""
        return tuple(self.inputs[index] for index in self.active)


def case_of(sample: OpSample, tamed: bool = False) -> Case | None:
    """Return the case of a sample, or None if the op of the sample has no derivative.

    If `tamed`, elements for which finite differences fail are replaced: infinities, NaN, and numbers that are too
    large or too small.
    """
    card = type(sample.op)
    active = [i for i, x in enumerate(sample.inputs) if DType.of(x.dtype).is_inexact]
    active = active[:1] if card in FIRST_ONLY else active
    outputs = [i for i, y in enumerate(sample.expected) if DType.of(y.dtype).is_inexact]
    if not active or not outputs or card in SKIPPED:
        return None
    inputs = tuple(tame(x, i) if tamed and i in active else x for i, x in enumerate(sample.inputs))
    case = Case(sample, inputs, tuple(active), tuple(outputs))
    tensors = [*case.primals, *case.fn(*case.primals)]
    return case if all(np.isfinite(x).all() for x in tensors) else None


@functools.cache
def case_at(card: type[StdTensorOp], index: int, tamed: bool) -> Case | None:
    """Return the case of one sample of an op. The result is cached, because all files of tests use the same cases."""
    return case_of(SAMPLES[card][index], tamed)


def tame(x: Any, seed: int) -> Any:
    """Replace elements outside of 0.05 < |x| < 20, including infinities and NaN, by random numbers of moderate size."""
    with np.errstate(all="ignore"):
        ordinary = (np.abs(x) > 0.05) & (np.abs(x) < 20)
    replaced = direction_like(x, 7 + seed) * 0.5
    return np.where(ordinary, x, replaced + np.sign(replaced.real) * 0.1).astype(x.dtype)


def cases(dtypes: set[DType], per_op: int) -> list[Case]:
    """Return at most `per_op` cases for each op and dtype."""
    found: list[Case] = []
    for card in STD_OPS:
        seen: Counter[DType] = Counter()
        for tamed in (False, True):
            natural = set(seen)
            for index, sample in enumerate(SAMPLES[card]):
                if not {DType.of(x.dtype) for x in sample.inputs} & dtypes:
                    continue
                case = case_at(card, index, tamed)
                if case is None or not {DType.of(x.dtype) for x in case.primals} <= dtypes:
                    continue
                dtype = DType.of(case.primals[0].dtype)
                if (tamed and dtype in natural) or seen[dtype] >= per_op:
                    continue
                seen[dtype] += 1
                found.append(case)
    return found


def direction_like(x: Any, seed: int) -> Any:
    """Return random numbers with the shape and dtype of x, to be used as a direction or a cotangent."""
    generator = np.random.default_rng([seed, *x.shape])
    values = generator.normal(size=x.shape)
    if x.dtype.kind == "c":
        values = values + 1j * generator.normal(size=x.shape)
    return np.asarray(values).astype(x.dtype)


def inner(x: Any, y: Any) -> float:
    """Return the real inner product of two arrays, the sum of Re(conj(x) y), computed in double precision."""
    wide = [np.asarray(a, np.complex128 if a.dtype.kind == "c" else np.float64) for a in (x, y)]
    return float(np.sum((np.conj(wide[0]) * wide[1]).real))
