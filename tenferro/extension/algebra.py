"""Functions on values with which authors of extensions write derivative rules.

Values also have Python's operators. A Python number takes the shape and dtype of the other operand. Other operands are
not broadcast.
"""

from __future__ import annotations

from tenferro.ad.algebra import (
    Value,
    abs_,
    add,
    apply,
    apply_one,
    broadcast,
    compare,
    complex_,
    conj,
    constant_like,
    convert,
    exp,
    full,
    imag,
    iota,
    iota_along,
    is_zero,
    lead,
    lead_all,
    log,
    logical_and,
    logical_or,
    maximum,
    power,
    real,
    reduce_sum,
    reshape,
    reverse,
    rsqrt,
    scalar,
    select,
    sign,
    slice_along,
    transpose,
    zeros,
)
from tenferro.ad.rules.reduction import take_along
from tenferro.ops.contraction import DotGeneral

__all__ = [
    "Value",
    "abs_",
    "add",
    "apply",
    "apply_one",
    "broadcast",
    "compare",
    "complex_",
    "conj",
    "constant_like",
    "convert",
    "exp",
    "full",
    "imag",
    "iota",
    "iota_along",
    "is_zero",
    "lead",
    "lead_all",
    "log",
    "logical_and",
    "logical_or",
    "matmul",
    "maximum",
    "power",
    "real",
    "reduce_sum",
    "reshape",
    "reverse",
    "rsqrt",
    "scalar",
    "select",
    "sign",
    "slice_along",
    "take_along",
    "transpose",
    "zeros",
]


def matmul(x: Value, y: Value) -> Value:
    """Multiply matrices on the last two axes; leading axes are batch axes, equal for both operands."""
    rank = x.rank
    batch = tuple(range(rank - 2))
    return apply_one(DotGeneral((rank - 1,), (rank - 2,), batch, batch), x, y)
