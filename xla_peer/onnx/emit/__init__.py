"""Table of functions that write the ONNX nodes of each op."""

from typing import Any

from tenferro.ops import ALL_OPS, Column
from xla_peer.onnx.emit import (
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

__all__ = ["NODES"]

NODES: Column[Any] = Column(
    "ONNX node",
    "xla_peer/onnx/emit",
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
"""Functions that write the ONNX nodes of an op, by op class; for an op that ONNX lacks, it raises an error."""
