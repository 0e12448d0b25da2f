"""The tape: the operations that were run, in order, and the derivative of their composition.

A tensor refers to the record of the operation that computed it. A record refers to the operation and its operands. A
record is therefore freed with the last tensor that depends on it. `backward` writes the records into a graph,
differentiates the graph by the same rules as traces, and runs the program on the arrays in the records.
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
    """Operand of a recorded operation.

    Attributes:
        array: the elements at the time of recording. The tensor may be assigned other elements later.
        record: the record that computed the operand; None for a constant or a variable.
        position: the index of the operand among the results of that record.
        variable: the tensor, if it is a variable.
    """

    array: Any
    record: Record | None
    position: int
    variable: EagerTensor | None


class Record:
    """Record of one operation that has at least one tracked operand.

    Attributes:
        number: a number that is larger than the numbers of all records on which this record depends.
        source: the line of the user's code that called the operation.
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
    """Program that computes the cotangents of the variables.

    Attributes:
        takes: for each input of the program, its position among the values of the tape.
    """

    program: GraphProgram
    takes: tuple[int, ...]


class Tape:
    """Records on which a tensor depends, in the order of execution.

    Attributes:
        records: the records, oldest first.
        values: the arrays of the constants and variables, and of the results of each record.
        variables: the positions of the variables in `values`.
        leaves: the variables as tensors, in the same order.
    """

    def __init__(self, result: EagerTensor) -> None:
        self.records = _records(result)
        self.values: list[Any] = []
        self.variables: list[int] = []
        self.leaves: list[EagerTensor] = []
        index: dict[Any, int] = {}
        lines: list[Any] = []
        for record in self.records:
            operand_indices: list[int] = []
            for x in record.operands:
                # A variable may be assigned to between two records, so the key includes the array that it had in this
                # record.
                key: Any = (id(x.record), x.position)
                if x.record is None:
                    key = (id(x.variable), id(x.array)) if x.variable is not None else id(x.array)
                if key not in index:
                    index[key] = len(self.values)
                    self.values.append(x.array)
                    if x.variable is not None:
                        self.variables.append(index[key])
                        self.leaves.append(x.variable)
                operand_indices.append(index[key])
            first = len(self.values)
            for position, array in enumerate(record.outputs):
                index[id(record), position] = first + position
                self.values.append(array)
            lines.append((record.plan.key, tuple(operand_indices), first, len(record.outputs)))
        self.result = index[id(result.record), result.position]
        self.specs = [TensorSpec(value.shape, value.dtype) for value in self.values]
        self.lines = tuple(lines)

    @property
    def key(self) -> Any:
        """Key that is equal for tapes with the same ops, types and backward program; None if an op has no key."""
        if any([line[0] is None for line in self.lines]):
            return None
        return (self.lines, tuple(self.specs), tuple(self.variables), self.result)

    def derivative(self, context: AdContext) -> _Derivative:
        """Return a program that computes the cotangents of the variables, by the derivative rules of `context`."""
        graph = Graph()
        graph_values: list[int] = [-1] * len(self.values)
        computed = {i for *_, first, count in self.lines for i in range(first, first + count)}
        for index, spec in enumerate(self.specs):
            if index not in computed:
                graph_values[index] = graph.add_input(spec)
        for record, (_, operand_indices, first, count) in zip(
            self.records, self.lines, strict=True
        ):
            inputs = [graph_values[index] for index in operand_indices]
            graph_values[first : first + count] = record.plan.write(graph, inputs, record.source)
        y = graph_values[self.result]
        y_bar = graph.add_stand_in(graph.types[y])
        emitter = context.emitter(graph)
        dots = {graph_values[i]: graph.add_stand_in(self.specs[i]) for i in self.variables}
        start = len(graph)
        (y_dot,) = linearize(emitter, 0, [y], dots, "reverse")
        cotangent_pairs = [] if y_dot is None else [(y_dot, y_bar)]
        bars = transpose(emitter, start, list(dots.values()), cotangent_pairs)
        outputs = [
            zeros(Value(emitter, graph_values[i])).handle if bar is None else bar
            for i, bar in zip(self.variables, bars, strict=True)
        ]
        return _without_unread(graph, outputs, y_bar, graph_values)


def _without_unread(
    graph: Graph, outputs: Sequence[int], y_bar: int, graph_values: Sequence[int]
) -> _Derivative:
    """Return the program of `outputs`. Its inputs are `y_bar`, and only those values of the tape that it reads."""
    tape_indices: dict[int, int] = {}
    for index, value in enumerate(graph_values):
        tape_indices.setdefault(value, index)
    everything = [*tape_indices, y_bar]
    whole = GraphProgram.from_graph(graph, outputs, inputs=everything)
    read = {slot for step in whole.instructions for slot in step.inputs} | {*whole.output_slots}
    inputs = [value for slot, value in enumerate(everything[:-1]) if slot in read]
    program = GraphProgram.from_graph(graph, outputs, inputs=[*inputs, y_bar], name="backward")
    return _Derivative(program, tuple([tape_indices[value] for value in inputs]))


def _records(result: EagerTensor) -> list[Record]:
    """Return the records of all operations on which a tensor depends, oldest first."""
    by_number: dict[int, Record] = {}
    waiting = [result.record]
    while waiting:
        record = waiting.pop()
        if record is None or record.number in by_number:
            continue
        by_number[record.number] = record
        waiting += [x.record for x in record.operands]
    return [by_number[number] for number in sorted(by_number)]
