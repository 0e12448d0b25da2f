"""The standard ops: one class per op, one file per family.

The set `STD_OPS` is closed: every table of implementations (kernels, derivative rules, emitters, samples) has an entry
for each op in the set.
"""

from tenferro.ops import (
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
from tenferro.ops.column import Column, require_listed
from tenferro.ops.op import StdTensorOp

__all__ = ["ALL_OPS", "STD_OPS", "Column", "StdTensorOp"]

STD_OPS: tuple[type[StdTensorOp], ...] = (
    *source.CARDS,
    *elementwise.CARDS,
    *analytic.CARDS,
    *structural.CARDS,
    *reduction.CARDS,
    *contraction.CARDS,
    *indexing.CARDS,
    *dynamic.CARDS,
    *control.CARDS,
)
"""Every standard op, ordered by family."""

ALL_OPS: tuple[type[StdTensorOp], ...] = (*STD_OPS, *extension.CARDS)
"""The standard ops, and `Extension`, the op that holds an operation from another package."""

require_listed(
    [
        card
        for family in (
            source, elementwise, analytic, structural, reduction, contraction, indexing, dynamic, control,
        )
        for card in vars(family).values()
        if isinstance(card, type)
        and issubclass(card, StdTensorOp)
        and card.__module__ == family.__name__
    ],
    STD_OPS,
)  # fmt: skip
