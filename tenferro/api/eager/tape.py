"""The tape: what ran, in order, and the derivative of what ran.

A record knows the op and its operands; tensors know the record that made them, so that what nothing needs
is forgotten with the last tensor. For `backward` the records are written into a graph, differentiated by
the rules that traces use, and the program is run on the values that the tape still holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tenferro.ad import AdContext, linearize, transpose
from tenferro.ad.algebra import Value, zeros
from tenferro.api.eager.plan import Plan
from tenferro.graph import Graph, SourceLine
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.api.eager.tensor import EagerTensor

__all__ = ["Operand", "Record", "Tape"]


class Operand(NamedTuple):
    """What an op took: the tensor itself may be assigned to afterwards.

    Attributes:
        record, position: what made it, and which of the results it is; None for what was given.
        variable: the tensor, where derivatives are wanted of it.
    """

    array: Any
    record: Record | None
    position: int
    variable: EagerTensor | None


class Record:
    """One operation that ran on tensors of which at least one is tracked.

    Attributes:
        number: larger than that of every record whose results are operands here.
        source: the user's line.
    """

    __slots__ = ("number", "operands", "outputs", "plan", "source")

    def __init__(
        self,
        number: int,
        plan: Plan,
        operands: tuple[Operand, ...],
        outputs: tuple[Any, ...],
        source: SourceLine | None,
    ) -> None:
        self.number = number
        self.plan = plan
        self.operands = operands
        self.outputs = outputs
        self.source = source


class _Derivative(NamedTuple):
    """A program for cotangents, and which of the tape's values it is run on."""

    program: GraphProgram
    takes: tuple[int, ...]


class Tape:
    """The records that led to a tensor, in the order in which they ran.

    Attributes:
        records: oldest first.
        values: arrays: of what no record made, then the results of each record.
        variables: places in `values` of the tensors that cotangents are wanted of.
    """

    def __init__(self, result: EagerTensor) -> None:
        self.records = _records(result)
        self.values: list[Any] = []
        self.variables: list[int] = []
        self.leaves: list[EagerTensor] = []
        place: dict[Any, int] = {}
        lines: list[Any] = []
        for record in self.records:
            taken: list[int] = []
            for x in record.operands:
                # A variable may have changed between two records, which hold the array of their time.
                key: Any = (id(x.record), x.position)
                if x.record is None:
                    key = (id(x.variable), id(x.array)) if x.variable is not None else id(x.array)
                if key not in place:
                    place[key] = len(self.values)
                    self.values.append(x.array)
                    if x.variable is not None:
                        self.variables.append(place[key])
                        self.leaves.append(x.variable)
                taken.append(place[key])
            first = len(self.values)
            for position, array in enumerate(record.outputs):
                place[id(record), position] = first + position
                self.values.append(array)
            lines.append((record.plan.key, tuple(taken), first, len(record.outputs)))
        self.result = place[id(result.record), result.position]
        self.specs = [TensorSpec(value.shape, value.dtype) for value in self.values]
        self.lines = tuple(lines)

    @property
    def key(self) -> Any:
        """What decides the derivative: ops and types, not the values; None where that cannot be said."""
        if any([line[0] is None for line in self.lines]):
            return None
        return (self.lines, tuple(self.specs), tuple(self.variables), self.result)

    def derivative(self, context: AdContext) -> _Derivative:
        """The program that gives the variables' cotangents, made by the context's rules."""
        graph = Graph()
        found: list[int] = [-1] * len(self.values)
        made = {place for *_, first, count in self.lines for place in range(first, first + count)}
        for place, spec in enumerate(self.specs):
            if place not in made:
                found[place] = graph.add_input(spec)
        for record, (_, taken, first, count) in zip(self.records, self.lines, strict=True):
            inputs = [found[place] for place in taken]
            found[first : first + count] = record.plan.write(graph, inputs, record.source)
        y = found[self.result]
        y_bar = graph.add_stand_in(graph.types[y])
        emitter = context.emitter(graph)
        dots = {found[place]: graph.add_stand_in(self.specs[place]) for place in self.variables}
        start = len(graph)
        (y_dot,) = linearize(emitter, 0, [y], dots, "reverse")
        given = [] if y_dot is None else [(y_dot, y_bar)]
        bars = transpose(emitter, start, list(dots.values()), given)
        outputs = [
            zeros(Value(emitter, found[place])).handle if bar is None else bar
            for place, bar in zip(self.variables, bars, strict=True)
        ]
        return _without_unread(graph, outputs, y_bar, found)


def _without_unread(
    graph: Graph, outputs: Sequence[int], y_bar: int, found: Sequence[int]
) -> _Derivative:
    """The program on those values of the tape that it reads, and on the cotangent."""
    places: dict[int, int] = {}
    for place, value in enumerate(found):
        places.setdefault(value, place)
    everything = [*places, y_bar]
    whole = GraphProgram.from_graph(graph, outputs, inputs=everything)
    read = {slot for step in whole.instructions for slot in step.inputs} | {*whole.output_slots}
    inputs = [value for slot, value in enumerate(everything[:-1]) if slot in read]
    program = GraphProgram.from_graph(graph, outputs, inputs=[*inputs, y_bar], name="backward")
    return _Derivative(program, tuple([places[value] for value in inputs]))


def _records(result: EagerTensor) -> list[Record]:
    """Everything that led to a tensor, oldest first."""
    found: dict[int, Record] = {}
    waiting = [result.record]
    while waiting:
        record = waiting.pop()
        if record is None or record.number in found:
            continue
        found[record.number] = record
        waiting += [x.record for x in record.operands]
    return [found[number] for number in sorted(found)]
