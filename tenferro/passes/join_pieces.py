"""Merge slices, pads and concatenations.

Law: the bits of results do not change.

The derivative of a slice is a pad, and the derivative of a pad is a slice. Cotangents of one tensor are added, so the
gradient of a stencil is a sum of pads, one per neighbour. The pass merges consecutive ops that move data. It rewrites
several pads of one operand as slices of one wide pad. It rewrites a sum of pads that do not overlap as a concatenation.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenferro.graph import SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.elementwise import Add
from tenferro.ops.indexing import DynamicSlice, DynamicUpdateSlice, Gather, Scatter
from tenferro.ops.structural import Concatenate, Pad, Slice
from tenferro.passes.clean_up import first_of
from tenferro.passes.pieces.concatenations import concatenate, pad
from tenferro.passes.pieces.slices import (
    slice_of_concatenation,
    slice_of_pad,
    slice_of_repeated,
    slice_of_slice,
    slice_of_update,
)
from tenferro.passes.pieces.sums import SUM, sum_with_zero
from tenferro.passes.pieces.wide_pads import widen_pads
from tenferro.passes.pieces.windows import (
    dynamic_slice,
    dynamic_update_slice,
    gather_of_rows,
    gather_of_window,
    scatter_of_rows,
    scatter_of_window,
)
from tenferro.program import GraphProgram
from tenferro.program.rewrite import Producers, Rule, Values, rewrite

__all__ = ["join_pieces"]


def join_pieces(program: GraphProgram) -> GraphProgram:
    """Return the program in which consecutive ops that move data are merged.

    Several pads of one operand become slices of one wide pad.
    """
    return widen_pads(rewrite(program, RULES))


ONCE: Mapping[type[StdTensorOp], Rule] = {
    Slice: first_of(
        slice_of_slice, slice_of_pad, slice_of_concatenation, slice_of_repeated, slice_of_update
    ),
    DynamicSlice: dynamic_slice,
    DynamicUpdateSlice: dynamic_update_slice,
    Gather: first_of(gather_of_window, gather_of_rows),
    Scatter: first_of(scatter_of_window, scatter_of_rows),
    Pad: pad,
    Concatenate: concatenate,
    Add: first_of(sum_with_zero, SUM),
}


def to_fixed_point(
    producers: Producers, op: StdTensorOp, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Apply the rules for `op`, then those for the op that computes the result, and so on, until no rule matches."""
    outputs = ONCE[type(op)](producers, op, inputs, source)
    after = outputs
    while after is not None:
        outputs = after
        node = producers.maker(outputs[0])
        rule = None if node is None else ONCE.get(type(node.op))
        after = (
            None if node is None or rule is None else rule(producers, node.op, node.inputs, source)
        )
        if after == outputs:
            break
    return outputs


RULES: Mapping[type[StdTensorOp], Rule] = dict.fromkeys(ONCE, to_fixed_point)
