"""Extensions are expanded before; those without an expansion are refused."""

from __future__ import annotations

from tenferro.ops.extension import Extension
from xla_peer.onnx.emit.elementwise import Rows, missing

__all__ = ["ROWS"]

ROWS: Rows = {Extension: missing("the family has no expansion into standard ops")}
