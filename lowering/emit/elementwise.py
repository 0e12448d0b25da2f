"""Emitters of the elementwise family."""

from __future__ import annotations

from collections.abc import Callable

from lowering.emit.emitter import Emitter, EmitterRows
from lowering.writer import Value
from tenferro.ops.elementwise import Add, Convert, Multiply, Negate

__all__ = ["ROWS"]


def direct(name: str) -> Emitter:
    """The op of that name, one to one."""
    return lambda op, w, *operands: w.op(name, *operands)


def on_bool(name: str, otherwise: Callable[..., Value]) -> Emitter:
    """The op `name` on bool, `otherwise` on numbers."""

    def emit(op: object, w: object, *operands: Value) -> Value:
        return (direct(name) if operands[0].dtype.is_bool else otherwise)(op, w, *operands)

    return emit


ROWS: EmitterRows = {
    Add: on_bool("or", direct("add")),
    Multiply: on_bool("and", direct("multiply")),
    Negate: direct("negate"),
    Convert: lambda op, w, x: w.convert(x, op.to),
}
