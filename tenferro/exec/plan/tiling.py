"""Tile groups: plans the layouts, tiles and threads of fused groups.

The layouts of the arguments and the kernels determine the expected layout of each value. If an operand of a group has
another layout in a run, it is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tenferro import costs
from tenferro.exec.kernels import Kernel
from tenferro.exec.kernels.copying import is_transposing
from tenferro.exec.layout import Layout, common_axes, dense, layout_of, row_major
from tenferro.exec.planned import Fused, Tiling
from tenferro.exec.schedule import ExecInstruction, ExecProgram

__all__ = ["tile_groups", "tiled"]

TILE_BYTES = costs.CACHE
"""Maximum size in bytes of a tile of a value with the widest dtype."""
TOTAL_TILES = 8
"""Factor by which tiles of a group with totals are larger, because there is an additional call for each tile."""
MIN_TILES = 16
"""Minimum number of tiles that threads share, so that as many cores can take part."""


def tile_groups(program: ExecProgram) -> ExecProgram:
    """Return the schedule with a tiling of each fused group."""
    if not any([step.fused is not None for step in program.instructions]):
        return program
    layouts = _Layouts(program)
    steps: list[ExecInstruction] = []
    for step in program.instructions:
        if step.fused is not None:
            step = step.replaced(
                op=tiled(step.fused, [layouts.layout(s) for s in step.input_slots])
            )
        layouts.add(step)
        steps.append(step)
    return replace(program, instructions=tuple(steps))


class _Layouts:
    """Expected layouts of values; a value of unknown layout is assumed to be row-major."""

    def __init__(self, program: ExecProgram) -> None:
        self.types = program.types
        self.known: dict[int, Layout] = {
            slot: dense(self.types[slot].shape, axes) for slot, axes in program.axes.items()
        }
        constants = {slot: layout_of(value) for slot, value in program.constants.items()}
        self.known |= {slot: layout for slot, layout in constants.items() if layout is not None}

    def layout(self, slot: int) -> Layout:
        """Return the expected layout of a value of static shape."""
        return self.known.get(slot) or row_major(self.types[slot].shape)

    def add(self, step: ExecInstruction) -> None:
        if step.fused is not None:
            tiling = step.fused.require_tiling()
            for slot, spec in zip(step.output_slots, step.fused.results, strict=False):
                self.known[slot] = dense(spec.shape, tiling.axes(spec.rank))
        elif step.planned is not None or len(step.output_slots) != 1:
            return
        elif isinstance(step.kernel, Kernel):
            slots = (*step.input_slots, *step.output_slots)
            if all([self.types[slot].is_static for slot in slots]):
                operands = [self.layout(slot) for slot in step.input_slots]
                (slot,) = step.output_slots
                self.known[slot] = step.kernel.layout(step.op, operands, self.types[slot].shape)


def tiled(op: Fused, operands: Sequence[Layout]) -> Fused:
    """Return the fused group with a tiling for operands with these layouts."""
    lead, rank = op.lead, len(op.shape)
    in_order = tuple(range(rank))
    axes = common_axes(operands, rank)
    perm = () if axes == in_order or lead < rank else axes
    views = [each.transposed(perm) if perm else each for each in operands]
    is_merged = all([view.merges(lead) for view in views])
    merged = lead if is_merged else 1
    shape = [op.shape[axis] for axis in perm or in_order]
    rows = prod(shape[:merged])
    is_parallel = op.cost * op.widest / 8 * costs.COMPILED >= costs.MIN_PARALLEL_COST
    size = TILE_BYTES * (TOTAL_TILES if op.totals else 1)
    height = max(1, size // (op.widest * max(prod(shape[merged:]), 1)))
    if (
        is_parallel and not op.totals
    ):  # a thread computes all its tiles in one call, so small tiles cost nothing
        height = min(height, -(-rows // MIN_TILES))
    tiling = Tiling(
        operands=tuple(operands),
        lead=1 if is_merged else lead,
        perm=perm,
        merged=merged,
        rows=rows,
        height=height,
        is_parallel=is_parallel,
    )
    arrays = zip(operands, op.body.input_types, strict=True)
    read = [_read_in_order(tiling, x, spec.dtype.itemsize) for x, spec in arrays]
    return replace(op, tiling=replace(tiling, operands=tuple(read)))


def _read_in_order(tiling: Tiling, layout: Layout, itemsize: int) -> Layout:
    """Return the operand's layout, or a contiguous layout if a loop would read each element from another cache line."""
    view = tiling.view_layout(layout)
    if len(view.shape) < 2 or view.repeats or not is_transposing(view.outline(itemsize)):
        return layout
    return dense(layout.shape, tiling.axes(len(layout.shape)))
