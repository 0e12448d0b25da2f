"""The kernel column: what each op does to NumPy arrays."""

from tenferro.exec.kernels import (
    analytic,
    contraction,
    control,
    dynamic,
    elementwise,
    extension,
    indexing,
    reduction,
    source,
    structural,
)
from tenferro.exec.kernels.buffered import INTO_A_BUFFER
from tenferro.exec.kernels.kernel import Kernel, bound
from tenferro.ops import ALL_OPS, Column, StdTensorOp
from tenferro.ops import dynamic as dy
from tenferro.ops import elementwise as el
from tenferro.ops import indexing as ix
from tenferro.ops import reduction as re
from tenferro.ops import source as so
from tenferro.ops import structural as st

__all__ = ["INTO_A_BUFFER", "KERNELS", "Kernel", "bound", "may_view"]

KERNELS: Column[Kernel] = Column(
    "kernel",
    ALL_OPS,
    source.ROWS,
    elementwise.ROWS,
    analytic.ROWS,
    structural.ROWS,
    reduction.ROWS,
    contraction.ROWS,
    indexing.ROWS,
    dynamic.ROWS,
    control.ROWS,
    extension.ROWS,
)


def may_view(op: StdTensorOp) -> bool:
    """Whether the kernel may give a view of an operand, or memory that is not to be written.

    All others give memory that is theirs alone. A reduction gives its operand where it has no axes.
    """
    return type(op) in _VIEWS and not (isinstance(op, re.Reduction) and op.axes)


_VIEWS = frozenset({
    so.Constant, so.Iota, el.Conj, el.Real, el.Imag, el.BitcastConvert,
    st.Transpose, st.Reshape, st.BroadcastInDim, st.Slice, st.Reverse, st.ExtractDiag,
    st.OptimizationBarrier,
    re.ReduceSum, re.ReduceProd, re.ReduceMax, re.ReduceMin, re.ReduceAnd, re.ReduceOr,
    ix.Gather, ix.GatherDynamicSliceSizes, ix.DynamicSlice, dy.DynamicTruncate, dy.PadToMatch,
})  # fmt: skip
