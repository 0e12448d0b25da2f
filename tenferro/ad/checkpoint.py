"""Checkpoints: regions whose values the backward pass recomputes.

A policy selects ops whose results are saved. The recomputation reads these saved results instead of computing them.

A checkpoint has no effect in forward mode. In reverse mode, the tangent of the region is a linear map, which saves
only the inputs of the region. The transpose of this map emits the region a second time, after an optimization
barrier, and differentiates that copy.

Source: Griewank and Walther, "Evaluating Derivatives", 2008, chapter 12.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.linearize import linearize
from tenferro.ad.transpose import transpose
from tenferro.graph import Mark, Opaque
from tenferro.ops import contraction
from tenferro.ops.structural import OptimizationBarrier
from tenferro.program import Subprogram
from tenferro.program.instructions import copy_into
from tenferro.types import TensorSpec

__all__ = ["POLICIES", "Checkpoint"]


POLICIES: Mapping[str, Callable[[Any], bool]] = {
    "nothing_saveable": lambda op: False,
    "everything_saveable": lambda op: True,
    "dots_saveable": lambda op: isinstance(op, contraction.CARDS),
    "dots_with_no_batch_dims_saveable": lambda op: (
        isinstance(op, contraction.DotGeneral) and not op.lhs_batch
    ),
}
"""Policies, named as in `jax.checkpoint_policies`: functions of an op that return whether its results are saved.
"""


class Checkpoint(Mark):
    """Mark of a checkpointed region.

    The operands of the mark are the inputs of the region, its outputs, and the saved values. The mark returns the
    outputs.

    Args:
        saved: the positions of instructions of the region whose results are saved.
    """

    __slots__ = ("region", "saved")

    def __init__(self, region: Subprogram, saved: Sequence[int] = ()) -> None:
        self.saved = tuple(saved)
        count = len(region.input_slots)
        super().__init__(tuple(range(count, count + len(region.output_slots))))
        self.region = region

    @property
    def key(self) -> Any:
        """Key by which equal marks are merged. It omits the region, because the mark's inputs determine it."""
        return (Checkpoint, self.takes, self.saved)

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the positions of the region's inputs in reverse mode, and of its outputs in forward mode."""
        return tuple(range(len(self.region.input_slots))) if mode == "reverse" else self.takes

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Return the tangents of the outputs.

        In forward mode the tangents follow from the ops of the region. In reverse mode one `Recomputed` returns all of
        them.
        """
        if mode != "reverse":
            return super().linearize(emitter, inputs, outputs, tangents, mode)
        count = len(self.region.input_slots)
        active = tuple(i for i in range(count) if tangents[i] is not None)
        extra = inputs[count + len(outputs) :]
        recomputed = Recomputed(
            self.region, active, tuple(y.type for y in outputs), self.saved, len(extra)
        )
        y_dots = emitter.graph.add(
            recomputed,
            (*[x.handle for x in (*inputs[:count], *extra)], *[tangents[i].handle for i in active]),
            emitter.source,
        )
        return emitter.values(y_dots)


class Recomputed(Opaque):
    """Linear map from tangents of a region's inputs to tangents of its outputs. Its transpose recomputes the region.

    The operands of the map are the inputs of the region, the saved values, and the tangents of active inputs.
    """

    __slots__ = ("active", "region", "saved")

    def __init__(
        self,
        region: Subprogram,
        active: tuple[int, ...],
        types: tuple[TensorSpec, ...],
        saved: tuple[int, ...],
        saved_values: int,
    ) -> None:
        refusal = "checkpoint: a tangent linearised for reverse mode was used in forward mode"
        super().__init__(types, len(region.input_slots) + saved_values, refusal)
        self.saved = saved
        self.region = region
        self.active = active

    def transpose(self, emitter: GraphEmitter, inputs: Any, linear: Any, y_bars: Any) -> Any:
        """Emit the region again, then linearize and transpose it."""
        graph, source = emitter.graph, emitter.source
        bars = [(i, y_bar.handle) for i, y_bar in enumerate(y_bars) if y_bar is not None]
        tied = (*[x.handle for x in inputs[: self.first_linear]], *[bar for _, bar in bars])
        fresh = graph.add(OptimizationBarrier(len(tied)), tied, source)
        frontier, fresh_bars = fresh[: self.first_linear], fresh[self.first_linear :]
        start = len(graph)
        count = len(self.region.input_slots)
        outputs = self._emitted(graph, frontier[:count], frontier[count:])
        dots = [graph.add_stand_in(graph.types[frontier[i]]) for i in self.active]
        primals = {frontier[i]: dot for i, dot in zip(self.active, dots, strict=True)}
        y_dots = linearize(emitter, start, outputs, primals, "reverse")
        cotangents = [
            (y_dot, bar)
            for (i, _), bar in zip(bars, fresh_bars, strict=True)
            if (y_dot := y_dots[i]) is not None
        ]
        x_bars = transpose(emitter, start, dots, cotangents)
        emitter.source = source
        values = [None if x_bar is None else emitter.values([x_bar])[0] for x_bar in x_bars]
        return (*([None] * self.first_linear), *values)

    def _emitted(self, graph: Any, inputs: Sequence[int], saved: Sequence[int]) -> list[int]:
        """Emit the region's instructions except those whose results are saved, and return its outputs."""
        if not self.saved:
            return self.region.emit(graph, inputs)
        code, values, left = self.region.instructions, dict(enumerate(inputs)), iter(saved)
        start = 0
        for position in self.saved:
            copy_into(graph, code[start:position], values)
            step = code[position]
            operands = tuple([values[slot] for slot in step.inputs])
            mark = Saved(step.op, len(operands), len(step.outputs))
            results = graph.add(mark, (*operands, *[next(left) for _ in step.outputs]), step.source)
            values.update(zip(step.outputs, results, strict=True))
            start = position + 1
        copy_into(graph, code[start:], values)
        return [values[slot] for slot in self.region.output_slots]


class Saved(Mark):
    """Mark of the results of one op, which a checkpoint saves.

    The operands of the mark are the op's inputs, then the op's results. The mark returns the results.
    """

    __slots__ = ("count", "op")

    def __init__(self, op: Any, inputs: int, outputs: int) -> None:
        super().__init__(tuple(range(inputs, inputs + outputs)))
        self.op = op
        self.count = inputs

    @property
    def key(self) -> Any:
        """Key of the mark: the op whose results are saved."""
        return (Saved, self.op)

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the positions of the op's inputs; the saved results, which follow, need no tangents."""
        return tuple(range(self.count))

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Compute the op's tangents."""
        dots = tangents[: self.count]
        rule = emitter.rules[type(self.op)]
        if rule.jvp is None or all([dot is None for dot in dots]):
            return (None,) * len(outputs)
        return rule.jvp(self.op, tuple(inputs[: self.count]), tuple(outputs), dots)
