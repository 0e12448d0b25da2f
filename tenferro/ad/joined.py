"""Merge the pads and sums that transposing slices has produced, so that cotangents need fewer copies.

The transpose rules act on one op at a time. Therefore the gradient of a stencil is a sum of padded tensors, one for
each neighbour. The passes of native programs would also merge these pads, but XLA would not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

from tenferro.graph import Graph, Mark, Opaque
from tenferro.ops.control import ControlOp
from tenferro.ops.indexing import DynamicUpdateSlice, Scatter
from tenferro.ops.structural import Pad
from tenferro.passes import join_pieces
from tenferro.program import Subprogram, needed

__all__ = ["joined"]

PIECES = (Pad, DynamicUpdateSlice, Scatter)
"""Ops that are merged. They are the transposes of slices, of window reads, and of gathers of rows."""


def joined(graph: Graph, start: int, cotangents: Sequence[int | None]) -> list[int | None]:
    """Merge the pads that compute the cotangents, and return the new cotangents.

    The merged form computes every result to the same bits.

    Args:
        start: the number of instructions in the graph before the first cotangent was created.
    """
    if not any([isinstance(node.op, PIECES) for node in islice(graph.instructions, start, None)]):
        return list(cotangents)
    values = list(dict.fromkeys([bar for bar in cotangents if bar is not None]))
    nodes = list(needed(graph.instructions, values, start=start).values())
    slots = chain.from_iterable([(*node.inputs, *node.outputs) for node in nodes])
    has_pieces = any([isinstance(node.op, PIECES) for node in nodes])
    is_static = all([graph.types[slot].is_static for slot in slots])
    if not has_pieces or not is_static or any([_has_rules_of_its_own(node.op) for node in nodes]):
        return list(cotangents)
    computed = {slot for node in nodes for slot in node.outputs}
    read = dict.fromkeys([slot for node in nodes for slot in node.inputs if slot not in computed])
    operands = list(dict.fromkeys([*read, *[bar for bar in values if bar not in computed]]))
    program = Subprogram.of(graph, operands, values).program
    rewritten = join_pieces(program)
    if rewritten is program:
        return list(cotangents)
    outputs = Subprogram.of_program(rewritten).emit(graph, operands)
    replacement = dict(zip(values, outputs, strict=True))
    return [None if bar is None else replacement[bar] for bar in cotangents]


def _has_rules_of_its_own(op: Any) -> bool:
    """Return whether an op, or an op in its bodies, is a mark of a custom derivative. A merge would lose the mark."""
    if isinstance(op, ControlOp):
        return any([_has_rules_of_its_own(i.op) for part in op.parts for i in part.instructions])
    return isinstance(op, Mark | Opaque)
