"""Facts of ops: properties that hold for every executor, in a table with one entry per op.

Passes, derivatives, gradient checks and the parity check look up facts in the table, and contain no lists of ops.
"""

from __future__ import annotations

from enum import Flag, auto

from tenferro.ops import ALL_OPS, Column, StdTensorOp
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

__all__ = ["FACTS", "Fact", "facts_of", "ops_with"]


class Fact(Flag):
    """Facts of an op, combined by `|`.

    Attributes:
        MOVES: each element of the result is an element of the only operand. The parameters of the op determine which
            element.
        CARRIES: as MOVES, and every element of the operand is in the result.
        COPIES: each element of the result is a copy of an element of an operand, or zero. The kernel computes nothing.
        CHOOSES: each element of the result is the element of one of the operands at the same position.
        KEEPS_SIGN: if no operand has negative elements, no finite element of the result is negative. If no operand has
            positive elements, no finite element of the result is positive.
        KEEPS_NONNEGATIVE: if no operand has negative elements, no finite element of the result is negative.
        NONNEGATIVE: no finite element of the result is negative.
        COMMUTES: the two operands may be exchanged.
        WHOLE: the result consists of integers, so a small rounding error of a real operand does not affect the result.
        JUMPS: after a small change of an operand, the result may jump.
        HIDES_JUMPS: the result may also jump, but only at a branch cut, between bit patterns, or in a body.
        DISTINGUISHES_ZEROS: for operands 0 and -0, the results may differ by more than the sign of a zero.
        EITHER_ZERO: implementations may differ in the sign of a zero in the result, for example by the order of terms.
        HOLOMORPHIC: the result is a holomorphic function of complex operands.
        REDUCES: the result combines all elements along the axes of the op, and does not have these axes.
        ITERATES: the bodies of the op run any number of times.
        EXTERNAL: an extension's runtime computes the result. It may keep references to its operands, and call tenferro.
        CHEAP: computing the result takes no longer than writing and reading it, so the op may be computed twice.
    """

    NONE = 0
    MOVES = auto()
    CARRIES = auto()
    COPIES = auto()
    CHOOSES = auto()
    KEEPS_SIGN = auto()
    KEEPS_NONNEGATIVE = auto()
    NONNEGATIVE = auto()
    COMMUTES = auto()
    WHOLE = auto()
    JUMPS = auto()
    HIDES_JUMPS = auto()
    DISTINGUISHES_ZEROS = auto()
    EITHER_ZERO = auto()
    HOLOMORPHIC = auto()
    CHEAP = auto()
    REDUCES = auto()
    ITERATES = auto()
    EXTERNAL = auto()


NONE, MOVES, CARRIES, CHOOSES = Fact.NONE, Fact.MOVES, Fact.CARRIES, Fact.CHOOSES
COPIES = Fact.COPIES
KEEPS_SIGN, KEEPS_NONNEGATIVE, NONNEGATIVE = (
    Fact.KEEPS_SIGN,
    Fact.KEEPS_NONNEGATIVE,
    Fact.NONNEGATIVE,
)
COMMUTES, WHOLE, JUMPS, HIDES_JUMPS = Fact.COMMUTES, Fact.WHOLE, Fact.JUMPS, Fact.HIDES_JUMPS
DISTINGUISHES_ZEROS, EITHER_ZERO = Fact.DISTINGUISHES_ZEROS, Fact.EITHER_ZERO
HOLOMORPHIC, CHEAP, REDUCES = Fact.HOLOMORPHIC, Fact.CHEAP, Fact.REDUCES

FACTS: Column[Fact] = Column(
    "facts",
    "tenferro/facts.py",
    ALL_OPS,
    {
        so.Constant: COPIES | HOLOMORPHIC,
        so.Iota: HOLOMORPHIC,
        so.ShapeOf: HOLOMORPHIC,
        el.Add: KEEPS_SIGN | COMMUTES | EITHER_ZERO | HOLOMORPHIC | CHEAP,
        el.Subtract: EITHER_ZERO | HOLOMORPHIC | CHEAP,
        el.Multiply: KEEPS_NONNEGATIVE | COMMUTES | HOLOMORPHIC | CHEAP,
        el.Divide: KEEPS_NONNEGATIVE | DISTINGUISHES_ZEROS | HOLOMORPHIC | CHEAP,
        el.Remainder: JUMPS | CHEAP,
        el.Power: DISTINGUISHES_ZEROS | HOLOMORPHIC | CHEAP,
        el.Maximum: CHOOSES | KEEPS_SIGN | COMMUTES | CHEAP,
        el.Minimum: CHOOSES | KEEPS_SIGN | COMMUTES | CHEAP,
        el.Negate: HOLOMORPHIC | CHEAP,
        el.Abs: NONNEGATIVE | CHEAP,
        el.Sign: WHOLE | JUMPS | EITHER_ZERO | CHEAP,
        el.Clamp: CHOOSES | KEEPS_SIGN | CHEAP,
        el.Compare: JUMPS | CHEAP,
        el.Select: COPIES | CHOOSES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        el.And: COMMUTES | CHEAP,
        el.Or: COMMUTES | CHEAP,
        el.Xor: COMMUTES | CHEAP,
        el.Not: CHEAP,
        el.ShiftLeft: CHEAP,
        el.ShiftRightArithmetic: CHEAP,
        el.ShiftRightLogical: CHEAP,
        el.PopulationCount: CHEAP,
        el.CountLeadingZeros: CHEAP,
        el.Floor: WHOLE | JUMPS | CHEAP,
        el.Ceil: WHOLE | JUMPS | CHEAP,
        el.RoundNearestEven: WHOLE | JUMPS | CHEAP,
        el.RoundNearestAfz: WHOLE | JUMPS | CHEAP,
        el.IsFinite: CHEAP,
        el.Convert: CHEAP,
        el.BitcastConvert: HIDES_JUMPS | DISTINGUISHES_ZEROS | CHEAP,
        el.Conj: CHEAP,
        el.Real: CHEAP,
        el.Imag: CHEAP,
        el.Complex: CHEAP,
        el.ReducePrecision: JUMPS | CHEAP,
        an.Exp: NONNEGATIVE | DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Expm1: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Log: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Log1p: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Sqrt: KEEPS_NONNEGATIVE | DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Rsqrt: NONNEGATIVE | DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Cbrt: KEEPS_SIGN | DISTINGUISHES_ZEROS,
        an.Sin: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Cos: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Tan: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Tanh: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Logistic: NONNEGATIVE | DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Atan2: HIDES_JUMPS | DISTINGUISHES_ZEROS,
        an.Asin: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Acos: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Atan: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Sinh: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Cosh: NONNEGATIVE | DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Asinh: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Acosh: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Atanh: DISTINGUISHES_ZEROS | HOLOMORPHIC,
        an.Erf: DISTINGUISHES_ZEROS,
        an.Erfc: NONNEGATIVE | DISTINGUISHES_ZEROS,
        an.ErfInv: DISTINGUISHES_ZEROS,
        an.Lgamma: DISTINGUISHES_ZEROS,
        an.Digamma: DISTINGUISHES_ZEROS,
        an.Polygamma: DISTINGUISHES_ZEROS,
        st.Transpose: CARRIES | COPIES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        st.Reshape: CARRIES | COPIES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        st.BroadcastInDim: CARRIES | COPIES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        st.Slice: MOVES | COPIES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        st.Pad: COPIES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        st.Concatenate: COPIES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        st.Reverse: CARRIES | COPIES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        st.ExtractDiag: MOVES | COPIES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        st.EmbedDiag: COPIES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        st.Tril: COPIES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        st.Triu: COPIES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        st.OptimizationBarrier: MOVES | COPIES | KEEPS_SIGN | HOLOMORPHIC,
        re.ReduceSum: REDUCES | KEEPS_SIGN | EITHER_ZERO | HOLOMORPHIC,
        re.ReduceProd: REDUCES | KEEPS_NONNEGATIVE | HOLOMORPHIC,
        re.ReduceMax: REDUCES | KEEPS_SIGN,
        re.ReduceMin: REDUCES | KEEPS_SIGN,
        re.ReduceAnd: REDUCES,
        re.ReduceOr: REDUCES,
        re.ArgMax: JUMPS,
        re.ArgMin: JUMPS,
        re.CumSum: KEEPS_SIGN | EITHER_ZERO | HOLOMORPHIC,
        re.CumProd: KEEPS_NONNEGATIVE | HOLOMORPHIC,
        re.CumMax: KEEPS_SIGN,
        re.CumMin: KEEPS_SIGN,
        re.Sort: JUMPS,
        re.TopK: JUMPS,
        co.DotGeneral: EITHER_ZERO | HOLOMORPHIC,
        co.Convolution: EITHER_ZERO | HOLOMORPHIC,
        ix.Gather: COPIES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        ix.GatherDynamicSliceSizes: COPIES | HOLOMORPHIC,
        ix.Scatter: EITHER_ZERO | HOLOMORPHIC,
        ix.DynamicSlice: COPIES | KEEPS_SIGN | HOLOMORPHIC | CHEAP,
        ix.DynamicUpdateSlice: COPIES | KEEPS_SIGN | HOLOMORPHIC,
        dy.DynamicTruncate: COPIES | HOLOMORPHIC,
        dy.PadToMatch: COPIES | HOLOMORPHIC,
        cf.Cond: HIDES_JUMPS,
        cf.While: HIDES_JUMPS | Fact.ITERATES,
        cf.Scan: HIDES_JUMPS | Fact.ITERATES,
        cf.Alternatives: HIDES_JUMPS,
        Extension: HIDES_JUMPS | Fact.EXTERNAL,
    },
)


def facts_of(op: StdTensorOp) -> Fact:
    """Return the facts of an op. An op that planning introduced has no facts."""
    return FACTS.cells.get(type(op), NONE)


def ops_with(facts: Fact) -> frozenset[type[StdTensorOp]]:
    """Return the ops that have at least one of the given facts.

    >>> sorted(op.__name__ for op in ops_with(Fact.CHOOSES))
    ['Clamp', 'Maximum', 'Minimum', 'Select']
    """
    return frozenset([op for op, own in FACTS.items() if own & facts])
