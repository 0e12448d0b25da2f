"""Table of the rounding errors that each op may have in a right implementation, for the parity check.

An op is exact, rounded once, or approximate. Exact ops copy, select or compare. Ops that round the exact value
once have equal results in every implementation. For an approximate op, the table has the allowed difference
between the results of NumPy's kernel and XLA's, in units in the last place. Results of sums and products of many terms
depend on the order of the terms. This effect is measured on the actual terms; see `accumulation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes

from lowering.extensions import GPUS
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
from tenferro.types import DType, TensorSpec

__all__ = ["ROUNDING", "TRANSCENDENTAL", "Rounding", "rounding_of"]

Specs = tuple[TensorSpec, ...]
Terms = Callable[[Any, Specs], int]
"""Function of an op and the types of its inputs that returns the number of terms that one result element combines."""


@dataclass(frozen=True)
class Rounding:
    """Rounding of an op.

    Attributes:
        rounds: whether the op rounds; False if it only copies, selects or compares.
        real: error of a real result in ulps, in addition to one correct rounding.
        complex: error of a complex result in ulps, in addition to one correct rounding.
        combined: a function that returns the number of terms that the op adds or multiplies in an unspecified order.
        intermediate: a function that returns the number of terms that the op adds up internally, each about as large as
            the argument. The rounding errors of these terms are relative to the operands.
        argument: error of each operand in ulps, for functions that first round a sum or product of operands.
    """

    rounds: bool = True
    real: float = 0
    complex: float = 0
    combined: Terms | None = None
    intermediate: Terms | None = None
    argument: float = 0

    def output(self, is_complex: bool) -> float:
        """Return the error of the result, in units in the last place."""
        return self.complex if is_complex else self.real

    def operand(self, op: Any, specs: Specs) -> float:
        """Return the error of each operand, in ulps, that has the same effect as the rounding of intermediate terms.

        Rounding errors have random signs, so the error grows as the square root of the number of terms.
        """
        if self.intermediate is None:
            return 0
        return 2 * math.sqrt(max(self.intermediate(op, specs), 1))


EXACT = Rounding(rounds=False)
CORRECT = Rounding()
ARITHMETIC = Rounding(complex=12)
TRANSCENDENTAL = Rounding(real=8, complex=80)
# XLA computes cosh(x) as e^(x + log(1/2)) + e^(-x + log(1/2)), and sinh(x) likewise where |x| > 1. The sum in the
# exponent is rounded by up to half a unit in the last place of x, which is |x|/2 units of the result.
HYPERBOLIC = Rounding(real=8, complex=80, argument=0.25)
# XLA computes erfinv by a polynomial in log1p(-x x), and the argument x x is rounded before.
ERROR_FUNCTION = Rounding(real=8, complex=80, argument=0.25)
# lgamma, digamma and polygamma are sums of terms that may be as large as the argument and cancel near zeros of the
# result.
GAMMA = Rounding(real=32, complex=512, intermediate=lambda op, specs: 64)
ZETA = Rounding(real=512, complex=512, intermediate=lambda op, specs: 64)
# The error of XLA's polynomial for log(1 + x) in float64 is 119 units near x = -0.41.
LOG1P_OF_FLOAT64 = Rounding(real=60, complex=80)


def _reduced(op: Any, specs: Specs) -> int:
    return math.prod(specs[0].shape[axis] for axis in op.axes)


def _scanned(op: Any, specs: Specs) -> int:
    return specs[0].shape[op.axis]


def _contracted(op: Any, specs: Specs) -> int:
    return math.prod(specs[0].shape[axis] for axis in op.lhs_contracting)


def _kernel(op: Any, specs: Specs) -> int:
    return math.prod([
        extent for axis, extent in enumerate(specs[1].shape) if axis != op.kernel_output_feature
    ])  # fmt: skip


def _updates(op: Any, specs: Specs) -> int:
    """Return the maximum number of terms of an element of a scatter: the operand's element, and one per index."""
    axes = [axis for axis in range(specs[2].rank) if axis not in op.update_window_dims]
    return 1 + math.prod(specs[2].shape[axis] for axis in axes)


def _largest(op: Any, specs: Specs) -> int:
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
    "xla_peer/parity/rounding.py",
    [*STD_OPS, Extension],
    _all(so.CARDS, EXACT),
    _with(
        _all(el.CARDS, EXACT),
        {
            el.Add: CORRECT,
            el.Subtract: CORRECT,
            el.Multiply: ARITHMETIC,
            el.Divide: ARITHMETIC,
            el.Power: TRANSCENDENTAL,
            el.Abs: ARITHMETIC,
            el.Sign: ARITHMETIC,
            el.Convert: CORRECT,
        },
    ),
    _with(
        _all(an.CARDS, TRANSCENDENTAL),
        {
            an.Sqrt: Rounding(complex=80),
            an.Sinh: HYPERBOLIC,
            an.Cosh: HYPERBOLIC,
            an.ErfInv: ERROR_FUNCTION,
            an.Lgamma: GAMMA,
            an.Digamma: GAMMA,
            an.Polygamma: ZETA,
        },
    ),
    _all(st.CARDS, EXACT),
    _with(
        _all(re.CARDS, EXACT),
        {
            re.ReduceSum: Rounding(combined=_reduced),
            re.ReduceProd: Rounding(combined=_reduced),
            re.CumSum: Rounding(combined=_scanned),
            re.CumProd: Rounding(combined=_scanned),
        },
    ),
    {co.DotGeneral: Rounding(combined=_contracted), co.Convolution: Rounding(combined=_kernel)},
    _with(_all(ix.CARDS, EXACT), {ix.Scatter: Rounding(combined=_updates)}),
    _all(dy.CARDS, EXACT),
    _all(
        cf.CARDS, EXACT
    ),  # loops do not round themselves; the ops in their bodies have their own entries
    {Extension: Rounding(real=8, complex=16, intermediate=_largest)},
)


IN_FLOAT32_ON_A_GPU: Mapping[type[StdTensorOp], Rounding] = {
    el.Divide: Rounding(real=2, complex=16),
    an.Sqrt: Rounding(real=1, complex=80),
}
"""Rounding on a GPU of float32 ops that XLA computes without the last correction step.

XLA uses PTX's div.full and sqrt.approx, with errors of up to 2 and 1 ulps (PTX ISA, "Floating Point Instructions").
"""


def rounding_of(op: StdTensorOp, specs: Specs, platform: str = "cpu") -> Rounding:
    """Return the rounding of an op on operands of these types, for native results and results of `platform`.

    The result is `EXACT` if the parameters of the op or the types exclude rounding.
    """
    row = ROUNDING[type(op)]
    if isinstance(op, Extension | el.Convert):
        return EXACT if isinstance(op, el.Convert) and _holds(op.to, specs[0].dtype) else row
    dtypes = [spec.dtype for spec in specs]
    if isinstance(op, co.DotGeneral) and op.accumulate_dtype is not None:
        dtypes = [op.accumulate_dtype]
    if not any(dtype.is_inexact for dtype in dtypes):
        return EXACT
    if isinstance(op, ix.Scatter) and op.combiner in ("set", "min", "max"):
        return EXACT
    if isinstance(op, an.Log1p | an.Atanh) and dtypes[0] is DType.F64:
        return LOG1P_OF_FLOAT64
    if isinstance(op, el.Abs | el.Sign) and not any(dtype.is_complex for dtype in dtypes):
        return EXACT
    if platform in GPUS and dtypes[0].real.accumulator is DType.F32:
        return IN_FLOAT32_ON_A_GPU.get(type(op), row)
    return row


def _holds(wide: DType, narrow: DType) -> bool:
    """Return whether every number of `narrow` is representable in `wide`; conversion to integers does not round."""
    if not wide.is_inexact:
        return True
    info = ml_dtypes.finfo(wide.real.dtype)
    if not narrow.is_inexact:
        return narrow.bits <= info.nmant + 1
    other = ml_dtypes.finfo(narrow.real.dtype)
    return other.nmant <= info.nmant and other.maxexp <= info.maxexp
