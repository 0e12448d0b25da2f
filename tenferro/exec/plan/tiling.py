"""Tile groups: plan layouts, tiles and threads of fused groups.

The layout of every value follows from those of the arguments and from the kernels. A wrong expectation costs a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from tenferro import costs
from tenferro.exec.kernels import Kernel
from tenferro.exec.kernels.copying import has_planned_order
from tenferro.exec.layout import Layout, common_axes, dense, layout_of, row_major
from tenferro.exec.planned import Block, Fused, Tiling
from tenferro.exec.schedule import ExecInstruction, ExecProgram

__all__ = ["read_in_order", "tile_groups", "tiled"]

TILE_BYTES = 2 * costs.CACHE
"""Maximum number of bytes of one array's tile. In smaller tiles calls cost more than computation, and threads wait for
each other between calls."""
ROW_TILE_BYTES = 4 * costs.CACHE
"""Maximum number of bytes of a tile of whole rows: sums and repeated values gain less from a near cache."""
REDUCED_TILE_BYTES = 16 * costs.CACHE
"""Maximum number of bytes of a tile of a single reduction, which reads each element once."""
SERIAL_TILE_BYTES = costs.CACHE
"""Maximum number of bytes of a tile if one thread runs all of them."""
MIN_SHARED_ELEMENTS = 2 * costs.SMALL
"""Minimum number of elements of a value that threads share."""


def tile_groups(program: ExecProgram, is_compiled: Any = lambda op: False) -> ExecProgram:
    """Return the schedule with a tiling of each fused group.

    Args:
        is_compiled: returns whether a group is worth compiling.
    """
    if not any([step.fused is not None for step in program.instructions]):
        return program
    layouts = _Layouts(program)
    steps: list[ExecInstruction] = []
    for step in program.instructions:
        if step.fused is not None:
            operands = [layouts.layout(slot) for slot in step.input_slots]
            step = step.replaced(op=tiled(step.fused, operands, is_compiled(step.fused)))
        layouts.add(step)
        steps.append(step)
    return replace(program, instructions=tuple(steps))


class _Layouts:
    """Expected layout of each value, row-major if nothing else is known."""

    def __init__(self, program: ExecProgram) -> None:
        self.types = program.types
        self.known: dict[int, Layout] = {
            slot: dense(self.types[slot].shape, axes) for slot, axes in program.axes.items()
        }
        for slot, value in program.constants.items():
            layout = layout_of(value) if hasattr(value, "strides") else None
            if layout is not None:
                self.known[slot] = layout

    def layout(self, slot: int) -> Layout:
        """Return the layout of a value of static shape."""
        return self.known.get(slot) or row_major(self.types[slot].shape)

    def add(self, step: ExecInstruction) -> None:
        """Add the layouts of a step's results."""
        op = step.inner_op
        if step.fused is not None:
            tiling = step.fused.require_tiling()
            for slot, spec in zip(step.output_slots, step.fused.results, strict=False):
                self.known[slot] = dense(spec.shape, tiling.axes(spec.rank))
        elif isinstance(op, Block):
            for slot, inner in zip(step.output_slots, op.body.output_slots, strict=True):
                if inner in op.axes:
                    self.known[slot] = dense(self.types[slot].shape, op.axes[inner])
        elif step.planned is not None or len(step.output_slots) != 1:
            return
        elif isinstance(step.kernel, Kernel):
            slots = (*step.input_slots, *step.output_slots)
            if all([self.types[slot].is_static for slot in slots]):
                operands = [self.layout(slot) for slot in step.input_slots]
                (slot,) = step.output_slots
                self.known[slot] = step.kernel.layout(step.op, operands, self.types[slot].shape)


def tiled(op: Fused, operands: Sequence[Layout], is_compiled: bool) -> Fused:
    """Return a fused group with its tiling for operands of these layouts."""
    lead, rank = op.lead, len(op.shape)
    rows = tuple(range(rank))
    axes = common_axes(operands, rank)
    by_columns = lead < rank and axes != rows and axes == rows[::-1]
    is_compiled = is_compiled and not by_columns
    perm = () if axes == rows or lead < rank else axes
    views = [each.transposed(perm) if perm else each for each in operands]
    is_merged = not by_columns and all([view.merges(lead) for view in views])
    tiling = Tiling(
        operands=tuple(operands),
        lead=1 if is_merged else lead,
        perm=perm,
        merged=lead if is_merged else 1,
        order="F" if by_columns else "C",
        rows=0,
        height=0,
        is_parallel=False,
    )
    extents = tiling.view_shape(op.shape)
    cost = op.cost * op.widest / 8 * (costs.COMPILED if is_compiled else 1.0)
    tiling = replace(
        tiling,
        rows=extents[0],
        height=_tile_height(op, operands, extents),
        is_parallel=cost >= costs.MIN_PARALLEL_COST,
    )
    op = replace(op, tiling=tiling, tiles={tiling.lead: op.tiles[tiling.lead]})
    # Compiled code reads strided operands in strips, unless the order of elements is that of sums.
    return op if is_compiled and not op.totals else read_in_order(op)


def read_in_order(op: Fused) -> Fused:
    """Return a group with dense layouts for operands whose strides load a cache line for each element."""
    tiling = op.require_tiling()
    if tiling.order == "F":
        return op
    operands = [
        _read_in_order(tiling, layout, spec.dtype.itemsize)
        for layout, spec in zip(tiling.operands, op.operands, strict=True)
    ]
    return replace(op, tiling=replace(tiling, operands=tuple(operands)))


def _read_in_order(tiling: Tiling, layout: Layout, itemsize: int) -> Layout:
    view = tiling.view_layout(layout)
    if len(view.shape) < 2 or view.repeats or not has_planned_order(view.outline(itemsize)):
        return layout
    return dense(layout.shape, tiling.axes(len(layout.shape)))


def _tile_height(op: Fused, operands: Sequence[Layout], extents: Sequence[int]) -> int:
    """Return the number of rows of a tile."""
    written = sum([2 * spec.size > prod(op.shape) for spec in op.results])
    in_use = len([each for each in operands if not each.repeats]) + written + len(op.scratch)
    if prod(extents) < MIN_SHARED_ELEMENTS:
        size = SERIAL_TILE_BYTES
    elif len(op.members) == 1 and not written:
        size = REDUCED_TILE_BYTES
    elif op.lead < len(op.shape) or not (written or op.scratch):
        size = ROW_TILE_BYTES
    else:
        size = min(TILE_BYTES, max(TILE_BYTES // 2, 3 * costs.CACHE // in_use))
    return max(1, size // (op.widest * max(prod(extents[1:]), 1)))
