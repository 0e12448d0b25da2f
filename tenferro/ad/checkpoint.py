"""Checkpoints: regions whose values the backward pass recomputes.

A checkpoint has no effect in forward mode. In reverse mode its tangent is a linear map that saves only the region's
inputs. Its transpose emits the region a second time, after an optimization barrier, and differentiates that copy.

Source: Griewank and Walther, "Evaluating Derivatives", 2008, chapter 12.
"""

from __future__ import annotations

from typing import Any

from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.linearize import linearize
from tenferro.ad.transpose import transpose
from tenferro.graph import Mark, Opaque
from tenferro.ops.structural import OptimizationBarrier
from tenferro.program import Subprogram
from tenferro.types import TensorSpec

__all__ = ["Checkpoint"]


class Checkpoint(Mark):
    """The mark of a region: its inputs are the region's inputs, then the outputs, which it returns."""

    __slots__ = ("region",)

    def __init__(self, region: Subprogram) -> None:
        count = len(region.input_slots)
        super().__init__(tuple(range(count, count + len(region.output_slots))))
        self.region = region

    @property
    def key(self) -> Any:
        """The region is between the inputs."""
        return (Checkpoint, self.takes)

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the region's inputs in reverse, its outputs going forward."""
        return tuple(range(len(self.region.input_slots))) if mode == "reverse" else self.takes

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Return the tangents: forward through the region's ops, in reverse by one linear map."""
        if mode != "reverse":
            return super().linearize(emitter, inputs, outputs, tangents, mode)
        count = len(self.region.input_slots)
        active = tuple(i for i in range(count) if tangents[i] is not None)
        if not active:
            return (None,) * len(outputs)
        recomputed = Recomputed(self.region, active, tuple(y.type for y in outputs))
        y_dots = emitter.graph.add(
            recomputed,
            (*[x.handle for x in inputs[:count]], *[tangents[i].handle for i in active]),
            emitter.source,
        )
        return emitter.values(y_dots)


class Recomputed(Opaque):
    """The tangent of a region, from its inputs and the tangents of the active ones."""

    __slots__ = ("active", "region")

    def __init__(
        self, region: Subprogram, active: tuple[int, ...], types: tuple[TensorSpec, ...]
    ) -> None:
        refusal = "checkpoint: a tangent linearised for reverse mode was used going forward"
        super().__init__(types, len(region.input_slots), refusal)
        self.region = region
        self.active = active

    def transpose(self, emitter: GraphEmitter, inputs: Any, linear: Any, y_bars: Any) -> Any:
        """Emit the region again, linearize and transpose it."""
        graph, source = emitter.graph, emitter.source
        bars = [(i, y_bar.handle) for i, y_bar in enumerate(y_bars) if y_bar is not None]
        tied = (*[x.handle for x in inputs[: self.first_linear]], *[bar for _, bar in bars])
        fresh = graph.add(OptimizationBarrier(len(tied)), tied, source)
        frontier, fresh_bars = fresh[: self.first_linear], fresh[self.first_linear :]
        start = len(graph)
        outputs = self.region.emit(graph, frontier)
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
