"""Derivative rules of all ops. The rule of an op without a derivative states the reason."""

from tenferro.ad.rule import AdRule
from tenferro.ad.rules import (
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
from tenferro.ops import ALL_OPS, Column

__all__ = ["AD_RULES"]

AD_RULES: Column[AdRule] = Column(
    "derivative rule",
    "tenferro/ad/rules",
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
