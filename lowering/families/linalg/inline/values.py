"""Backend of `tenferro.extension.algebra` that writes StableHLO, and loops and matrix functions for its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lowering import writer
from lowering.writer import Writer
from tenferro.extension.algebra import Value, apply_one, compare, reshape, scalar
from tenferro.extension.ops import DotGeneral, DynamicSlice, Slice
from tenferro.types import DType, TensorSpec

__all__ = ["block", "column", "dot", "loop", "loop_while", "row", "values_of", "written"]


class WriterEmitter:
    """Backend of `tenferro.extension.algebra`: the StableHLO emitter of each op writes it to a writer."""

    def __init__(self, w: Writer) -> None:
        self.writer = w

    def apply(self, op: Any, *inputs: writer.Value) -> tuple[writer.Value, ...]:
        """Emit a standard op on values of the algebra."""
        outputs = self.writer.emitters[type(op)](op, self.writer, *inputs)
        return (outputs,) if isinstance(outputs, writer.Value) else tuple(outputs)

    def type_of(self, value: writer.Value) -> TensorSpec:
        """Return the value's shape and dtype."""
        return value.spec

    def scalar(self, number: Any, dtype: DType) -> writer.Value:
        """Emit a constant of rank 0 with this number and dtype."""
        return self.writer.scalar(number, dtype)

    def witness(self, value: writer.Value) -> writer.Value:
        """Return `value`, which tells the algebra its shape; shapes are static here, so no operation is needed."""
        return value


def values_of(w: Writer, *handles: writer.Value) -> list[Any]:
    """Wrap a writer's values as values of the algebra, whose ops are then written to that writer."""
    emitter = WriterEmitter(w)
    return [Value(emitter, handle) for handle in handles]


def written(values: Sequence[Value]) -> tuple[writer.Value, ...]:
    """Convert values of the algebra to the writer's values."""
    return tuple([value.handle for value in values])


def loop_while(
    name: str, condition: Callable[..., Value], body: Callable[..., Sequence[Value]], *state: Value
) -> list[Any]:
    """Emit a loop: `body(*state)` while `condition(*state)`."""
    w = state[0].emitter.writer
    outputs = w.while_loop(
        name,
        lambda inner, *handles: condition(*values_of(inner, *handles)).handle,
        lambda inner, *handles: written(body(*values_of(inner, *handles))),
        *written(state),
    )
    return values_of(w, *outputs)


def loop(name: str, count: int, body: Callable[..., Sequence[Value]], *state: Value) -> list[Any]:
    """Emit a loop: `body(i, *state)` for i in 0, .., count - 1."""
    start = scalar(state[0], 0, DType.I64)
    _, *outputs = loop_while(
        name,
        lambda i, *values: compare(i, "LT", count),
        lambda i, *values: (i + 1, *body(i, *values)),
        start,
        *state,
    )
    return outputs


# ---- matrices ----------------------------------------------------------------------------------------


def dot(x: Value, y: Value) -> Value:
    """Multiply the matrices of x and y, with the precision "highest"."""
    batch = tuple(range(x.rank - 2))
    return apply_one(DotGeneral((x.rank - 1,), (x.rank - 2,), batch, batch, "highest"), x, y)


def block(x: Value, rows: tuple[int, int], columns: tuple[int, int]) -> Value:
    """Slice a block of each matrix, given half-open ranges of rows and columns."""
    lead = x.shape[:-2]
    starts = (*[0] * len(lead), rows[0], columns[0])
    limits = (*lead, rows[1], columns[1])
    return apply_one(Slice(starts, limits, (1,) * x.rank), x)


def column(x: Value, i: Value) -> Value:
    """Select the i-th column of each matrix."""
    return _slice_at(x, i, x.rank - 1)


def row(x: Value, i: Value) -> Value:
    """Select the i-th row of each matrix."""
    return _slice_at(x, i, x.rank - 2)


def _slice_at(x: Value, i: Value, axis: int) -> Value:
    sizes = [1 if dim == axis else extent for dim, extent in enumerate(x.shape)]
    starts = [i if dim == axis else i * 0 for dim in range(x.rank)]
    piece = apply_one(DynamicSlice(tuple(sizes)), x, *starts)
    return reshape(piece, [extent for dim, extent in enumerate(x.shape) if dim != axis])
