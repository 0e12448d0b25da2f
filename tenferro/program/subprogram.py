"""`Subprogram`: the body of a loop, the condition it goes on by, a branch of a choice.

It is closed: what it needs is an input. Until a program is made of it, it keeps the marks that
differentiation reads, so that a derivative of the user's own or a checkpoint holds inside a loop too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tenferro.dims import Guard
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.graph import Graph, Mark, Opaque, SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.control import ControlOp
from tenferro.program.program import GraphProgram
from tenferro.types import TensorSpec

__all__ = ["Subprogram", "require_depth"]

DEEPEST = 100
"""Loops and choices inside each other; what is made of them takes a few frames of Python's stack each."""


def require_depth(name: str, depth: int) -> None:
    """Sub-programs are not too deep inside each other.

    Raises:
        UnsupportedError: they are.
    """
    if depth > DEEPEST:
        raise UnsupportedError(
            f"{name}: more than {DEEPEST} loops and choices inside each other; use switch for a choice of "
            "many, or a loop"
        )


class Step(NamedTuple):
    """One op or mark over numbered values; the inputs of the sub-program are the first."""

    op: StdTensorOp | Mark | Opaque
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    source: SourceLine | None


class Subprogram:
    """Steps from inputs to outputs. Two are equal that do the same steps on the same types.

    >>> from tenferro.ops.elementwise import Multiply
    >>> graph = Graph()
    >>> x = graph.add_input(TensorSpec.parse("f64[3]"))
    >>> square = Subprogram.of(graph, [x], graph.add(Multiply(), (x, x)))
    >>> square
    <Subprogram f64[3] -> f64[3]: 1 steps>
    >>> square == Subprogram.of_program(square.program)
    True

    Raises:
        InvalidConfigError: it needs a value that is no input.
        UnsupportedError: more than 100 inside each other.
    """

    __slots__ = ("_cuts", "_hash", "_key", "depth", "guards", "input_specs", "is_plain",
                 "output_specs", "outputs", "steps")  # fmt: skip

    def __init__(
        self,
        input_specs: tuple[TensorSpec, ...],
        output_specs: tuple[TensorSpec, ...],
        steps: tuple[Step, ...],
        outputs: tuple[int, ...],
        guards: tuple[Guard, ...],
        is_plain: bool,
    ) -> None:
        self.input_specs = input_specs
        self.output_specs = output_specs
        self.steps = steps
        self.outputs = outputs
        self.guards = guards
        self.is_plain = is_plain
        parts = [part for step in steps if isinstance(step.op, ControlOp) for part in step.op.parts]
        self.depth = 1 + max([part.depth for part in parts], default=0)
        require_depth("a sub-program", self.depth)
        self._cuts: dict[tuple[int, ...], GraphProgram] = {}
        named = [getattr(step.op, "key", None) or step.op for step in steps]
        self._key = (
            input_specs,
            outputs,
            tuple([(op, step.inputs) for op, step in zip(named, steps, strict=True)]),
        )
        self._hash = hash(self._key)

    @classmethod
    def of(cls, graph: Graph, inputs: Sequence[int], outputs: Sequence[int]) -> Subprogram:
        """The part of a graph that lies between these values."""
        given, needed = set(inputs), set(outputs)
        kept: list[int] = []
        for index in range(len(graph.nodes) - 1, -1, -1):
            node = graph.nodes[index]
            if any([value in needed and value not in given for value in node.outputs]):
                kept.append(index)
                needed.update(node.inputs)
        place = {value: number for number, value in enumerate(inputs)}
        count = len(inputs)
        steps: list[Step] = []
        try:
            for index in reversed(kept):
                op, taken, made = graph.nodes[index]
                numbers = tuple(range(count, count + len(made)))
                read = tuple([place[value] for value in taken])
                steps.append(Step(op, read, numbers, graph.sources[index]))
                for value, number in zip(made, numbers, strict=True):
                    place.setdefault(value, number)
                count += len(made)
            given_back = tuple([place[value] for value in outputs])
        except KeyError as error:
            raise InvalidConfigError(
                f"a sub-program needs a value of type {graph.types[error.args[0]]} that is none of "
                "its inputs"
            ) from None
        return cls(
            tuple([graph.types[value] for value in inputs]),
            tuple([graph.types[value] for value in outputs]),
            tuple(steps),
            given_back,
            tuple(graph.guards.guards),
            False,
        )

    @classmethod
    def of_program(cls, program: GraphProgram) -> Subprogram:
        """What a program does, without its names and trees."""
        steps = [
            Step(step.op, step.inputs, step.outputs, step.source) for step in program.instructions
        ]
        guards = tuple(program.guards)
        outputs = program.output_slots
        return cls(program.input_specs, program.output_specs, tuple(steps), outputs, guards, True)

    # ---- writing it down ---------------------------------------------------------------------

    def emit(self, graph: Graph, inputs: Sequence[int]) -> list[int]:
        """Its outputs on these values, marks and all, written into a graph."""
        place: dict[int, int] = dict(enumerate(inputs))
        for step in self.steps:
            taken = tuple([place[number] for number in step.inputs])
            made = (
                graph.add_mark(step.op, taken, step.source)
                if isinstance(step.op, Mark | Opaque)
                else graph.add(step.op, taken, step.source)
            )
            place.update(zip(step.outputs, made, strict=True))
        return [place[number] for number in self.outputs]

    @property
    def program(self) -> GraphProgram:
        """What runs and is lowered: without marks, and without what no output needs.

        Raises:
            ADRuleUnsupportedError: a linear map of which only the transpose is known.
        """
        return self._cut(tuple(range(len(self.outputs))))

    def _cut(self, kept: tuple[int, ...]) -> GraphProgram:
        """The program of some of the outputs."""
        if kept not in self._cuts:
            graph = Graph()
            inputs = [graph.add_input(spec) for spec in self.input_specs]
            outputs = self.emit(graph, inputs)
            self._cuts[kept] = GraphProgram.from_graph(
                graph, [outputs[i] for i in kept], name="body", guards=self.guards
            )
        return self._cuts[kept]

    # ---- parts of it ---------------------------------------------------------------------------

    def reads(self, outputs: Sequence[int]) -> set[int]:
        """The inputs that these outputs depend on."""
        program = self._cut(tuple(outputs))
        read = {slot for step in program.instructions for slot in step.inputs}
        return {
            slot for slot in program.input_slots if slot in read or slot in program.output_slots
        }

    def restricted(self, inputs: Sequence[int], outputs: Sequence[int]) -> Subprogram:
        """Some of the outputs, as a function of those inputs that they depend on, without marks."""
        everything = list(range(len(self.input_specs))), list(range(len(self.outputs)))
        if self.is_plain and (list(inputs), list(outputs)) == everything:
            return self
        program = self._cut(tuple(outputs))
        graph, values = program.to_graph()
        taken = [values[slot] for slot in inputs]
        given = [values[slot] for slot in program.output_slots]
        return Subprogram.of_program(
            GraphProgram.from_graph(graph, given, inputs=taken, name="body", guards=self.guards)
        )

    def specialize(self, bindings: Mapping[Any, int]) -> Subprogram:
        """With numbers for symbols."""
        program = self.program
        if program.is_static and not program.guards and self.is_plain:
            return self
        return Subprogram.of_program(program.specialize(bindings))

    # ---- identity ------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Subprogram) and self._hash == other._hash and self._key == other._key
        )

    def __hash__(self) -> int:
        return self._hash

    @property
    def fingerprint(self) -> str:
        """A digest of the meaning, equal in every process."""
        return self.program.fingerprint

    def __repr__(self) -> str:
        takes = ", ".join(map(str, self.input_specs))
        gives = ", ".join(map(str, self.output_specs))
        return f"<Subprogram {takes} -> {gives}: {len(self.steps)} steps>"
