"""How differently two right implementations may round each op: the column of the parity check.

Units in the last place, between NumPy's kernels and XLA's. `output` is relative to the result; `inputs`
to each operand, for ops that add terms up in an order of their own: there, what is lost is small beside
the terms, and may be large beside a sum in which they cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tenferro.ops import STD_OPS, Column, StdTensorOp
from tenferro.ops import analytic as an
from tenferro.ops import contraction as co
from tenferro.ops import control as cf
from tenferro.ops import dynamic as dy
from tenferro.ops import elementwise as el
from tenferro.ops import indexing as ix
from tenferro.ops import reduction as re
from tenferro.ops import source as so
from tenferro.ops import structural as st
from tenferro.ops.extension import Extension
from tenferro.types import TensorSpec

__all__ = ["ROUNDING", "Rounding"]

Terms = Callable[[Any, tuple[TensorSpec, ...]], int]
"""How many terms an op adds up for one element, given its inputs' types."""


@dataclass(frozen=True)
class Rounding:
    """Ulps of a real and of a complex result, and the number of terms that are added up."""

    real: float = 0
    complex: float = 0
    terms: Terms | None = None

    def output(self, is_complex: bool) -> float:
        """Ulps of the result."""
        return self.complex if is_complex else self.real

    def inputs(self, op: Any, specs: tuple[TensorSpec, ...]) -> float:
        """Ulps of each operand: errors of that many roundings, as they add up at random."""
        return 2 * math.sqrt(max(self.terms(op, specs), 1)) if self.terms is not None else 0


EXACT = Rounding()
ARITHMETIC = Rounding(1, 12)
TRANSCENDENTAL = Rounding(8, 80)
# Sums of terms as large as the argument, which cancel near the zeros of the function.
SPECIAL = Rounding(512, 512, lambda op, specs: 64)


def _reduced(op: Any, specs: tuple[TensorSpec, ...]) -> int:
    return math.prod(specs[0].shape[axis] for axis in op.axes)


def _scanned(op: Any, specs: tuple[TensorSpec, ...]) -> int:
    return specs[0].shape[op.axis]


def _contracted(op: Any, specs: tuple[TensorSpec, ...]) -> int:
    return math.prod(specs[0].shape[axis] for axis in op.lhs_contracting)


def _kernel(op: Any, specs: tuple[TensorSpec, ...]) -> int:
    return math.prod(specs[1].shape)


def _updates(op: Any, specs: tuple[TensorSpec, ...]) -> int:
    return math.prod(specs[2].shape)


def _largest(op: Any, specs: tuple[TensorSpec, ...]) -> int:
    return 64 * max((max(spec.shape, default=1) for spec in specs), default=1)


def _all(
    cards: Iterable[type[StdTensorOp]], rounding: Rounding
) -> dict[type[StdTensorOp], Rounding]:
    return dict.fromkeys(cards, rounding)


def _with(
    rows: Mapping[type[StdTensorOp], Rounding], special: Mapping[type[StdTensorOp], Rounding]
) -> dict[type[StdTensorOp], Rounding]:
    return {**rows, **special}


ROUNDING: Column[Rounding] = Column(
    "rounding",
    [*STD_OPS, Extension],
    _all(so.CARDS, EXACT),
    _with(
        _all(el.CARDS, EXACT),
        {
            el.Add: ARITHMETIC,
            el.Subtract: ARITHMETIC,
            el.Multiply: ARITHMETIC,
            el.Divide: ARITHMETIC,
            el.Power: TRANSCENDENTAL,
            el.Abs: Rounding(0, 12),
            el.Sign: Rounding(0, 12),
            el.Convert: Rounding(1, 1),
        },
    ),
    _with(
        _all(an.CARDS, TRANSCENDENTAL),
        {
            an.Sqrt: Rounding(1, 80),
            an.Lgamma: SPECIAL,
            an.Digamma: SPECIAL,
            an.Polygamma: SPECIAL,
        },
    ),
    _all(st.CARDS, EXACT),
    _with(
        _all(re.CARDS, EXACT),
        {
            re.ReduceSum: Rounding(1, 2, _reduced),
            re.ReduceProd: Rounding(1, 12, _reduced),
            re.CumSum: Rounding(1, 2, _scanned),
            re.CumProd: Rounding(1, 12, _scanned),
        },
    ),
    {
        co.DotGeneral: Rounding(1, 4, _contracted),
        co.Convolution: Rounding(1, 4, _kernel),
    },
    _with(_all(ix.CARDS, EXACT), {ix.Scatter: Rounding(1, 4, _updates)}),
    _all(dy.CARDS, EXACT),
    _all(cf.CARDS, EXACT),  # because their bodies' ops are looked up in turn
    {Extension: Rounding(8, 16, _largest)},
)
