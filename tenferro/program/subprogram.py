"""`Subprogram`: the body or the condition of a loop, or a branch of a conditional.

A sub-program reads only its inputs. Its marks are removed when it is converted to a program. Until then it keeps them,
so that custom derivatives and checkpoints also work inside loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.graph import Graph, Instruction, Mark, Opaque, SourceLine
from tenferro.ops.control import ControlOp
from tenferro.program.instructions import copy_into, instructions_between, needed, renumber
from tenferro.program.program import GraphProgram, flat_tree
from tenferro.types import TensorSpec

__all__ = ["KeptMark", "Subprogram", "require_depth"]

_NUMBERS = count()

MAX_DEPTH = 50
"""Maximum depth of nested loops, branches and calls of transformed functions.

Each level needs up to ten frames of Python's stack. Python allows 1000 frames by default, of which callers use some.
"""


def require_depth(depth: int) -> None:
    """Check that nested loops, branches and calls of transformed functions are not nested too deeply.

    Raises:
        UnsupportedError: the depth exceeds `MAX_DEPTH`.

    >>> require_depth(51)
    Traceback (most recent call last):
    tenferro.errors.UnsupportedError: loops, branches and calls of jit, checkpoint and other transforms are nested 51
    deep; the limit is 50; use switch for a choice of many, and a loop for calls
    """
    if depth > MAX_DEPTH:
        raise UnsupportedError(
            f"loops, branches and calls of jit, checkpoint and other transforms are nested {depth} deep; the limit "
            f"is {MAX_DEPTH}; use switch for a choice of many, and a loop for calls"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Subprogram(GraphProgram):
    """Program that may contain marks. Two sub-programs are equal if they compute the same values for the same types.

    Attributes:
        is_plain: whether the sub-program has neither marks nor unused instructions.

    >>> from tenferro.ops.elementwise import Multiply
    >>> from tenferro.types import TensorSpec
    >>> graph = Graph()
    >>> x = graph.add_input(TensorSpec.parse("f64[3]"))
    >>> square = Subprogram.of(graph, [x], graph.add(Multiply(), (x, x)))
    >>> square
    <Subprogram f64[3] -> f64[3]: 1 instructions>
    >>> square == Subprogram.of_program(square.program)
    True

    Raises:
        UnsupportedError: more than `MAX_DEPTH` sub-programs are nested.
    """

    is_plain: bool = False

    def __post_init__(self) -> None:
        require_depth(self.depth)

    @classmethod
    def of(cls, graph: Graph, inputs: Sequence[int], outputs: Sequence[int]) -> Subprogram:
        """Return the sub-program that computes `outputs` from `inputs` in `graph`, including its marks.

        Raises:
            InvalidConfigError: an output depends on a value that is not in `inputs`.
        """
        part = needed(graph.instructions, outputs, available=inputs)
        try:
            code, values, slots = renumber(part.values(), inputs, outputs)
        except KeyError as error:
            raise InvalidConfigError(
                f"a sub-program needs a value of type {graph.types[error.args[0]]} that is none of "
                "its inputs"
            ) from None
        return cls(
            name="body",
            instructions=code,
            types=tuple([graph.types[value] for value in values]),
            input_slots=tuple(range(len(inputs))),
            output_slots=slots,
            in_tree=flat_tree(len(inputs)),
            out_tree=flat_tree(len(outputs)),
            input_names=(),
            output_names=(),
            guards=tuple(graph.guards.guards),
            trusted=graph.trusted,
        )

    @classmethod
    def since(
        cls, graph: Graph, start: int, outputs: Sequence[int]
    ) -> tuple[Subprogram, tuple[int, ...]]:
        """Return the sub-program that computes `outputs` by the instructions from position `start` on.

        Also return the earlier values that the sub-program reads.
        """
        part = needed(graph.instructions, outputs, start=start).values()
        computed = {value for instruction in part for value in instruction.outputs}
        read = {value for instruction in part for value in instruction.inputs}
        frontier = tuple(sorted(read.union(outputs) - computed))
        return cls.of(graph, frontier, outputs), frontier

    @classmethod
    def of_program(cls, program: GraphProgram) -> Subprogram:
        """Return a copy of a program as a sub-program, without its names and trees."""
        return cls(
            name="body",
            instructions=program.instructions,
            types=program.types,
            input_slots=program.input_slots,
            output_slots=program.output_slots,
            in_tree=flat_tree(len(program.input_slots)),
            out_tree=flat_tree(len(program.output_slots)),
            input_names=(),
            output_names=(),
            guards=program.guards,
            trusted=program.trusted,
            is_plain=True,
        )

    @cached_property
    def depth(self) -> int:
        """The maximum depth of nested sub-programs, where this sub-program counts as one."""
        ops = [i.op for i in self.instructions if isinstance(i.op, ControlOp)]
        return 1 + max([part.depth for op in ops for part in op.parts], default=0)

    @cached_property
    def is_marked(self) -> bool:
        """Whether the sub-program, or a sub-program inside it, has marks."""
        return any([
            isinstance(i.op, Mark | Opaque) or (isinstance(i.op, ControlOp) and i.op.is_marked)
            for i in self.instructions
        ])  # fmt: skip

    @cached_property
    def is_kept(self) -> bool:
        """Whether the sub-program, or a sub-program inside it, has marks that programs keep."""
        return any([_is_kept(instruction) for instruction in self.instructions])

    # ---- writing it down ---------------------------------------------------------------------

    def emit(
        self, graph: Graph, inputs: Sequence[int], source: SourceLine | None = None
    ) -> list[int]:
        """Copy the sub-program, applied to `inputs`, into a graph, including its marks. Return its outputs.

        Args:
            source: the source line for instructions that have none.
        """
        graph.trusted = graph.trusted and self.trusted
        values: dict[int, int] = dict(enumerate(inputs))
        types = None if self.guards or self._has_marks else self.types
        copy_into(graph, self.instructions, values, source=source, types=types)
        return [values[slot] for slot in self.output_slots]

    @property
    def program(self) -> GraphProgram:
        """The program that is run and lowered: this sub-program without its marks and without unused instructions.

        Raises:
            ADRuleUnsupportedError: the sub-program contains a linear map that has only a transpose.
        """
        return self._cut(tuple(range(len(self.output_slots))))

    @cached_property
    def _cuts(self) -> dict[tuple[int, ...], GraphProgram]:
        return {}

    @cached_property
    def _restrictions(self) -> dict[tuple[tuple[int, ...], tuple[int, ...]], Subprogram]:
        return {}

    def _cut(self, selected: tuple[int, ...]) -> GraphProgram:
        """Return a program that computes only the outputs with the positions `selected`."""
        cut = self._cuts.get(selected)
        if cut is None:
            cut = self._cuts[selected] = self._selected([self.output_slots[i] for i in selected])
        return cut

    def _selected(self, outputs: Sequence[int]) -> GraphProgram:
        """Return a program that computes the values of the slots `outputs`."""
        if not self._is_shared:
            graph, values = self.to_graph()
            outputs = [values[slot] for slot in outputs]
            return GraphProgram.from_graph(graph, outputs, name="body", guards=self.guards)
        if self.is_plain and tuple(outputs) == self.output_slots:
            count = len(self.input_slots)
            return _body(self, self.instructions, self.types, count, self.output_slots)
        return _between(self, self.input_slots, outputs)

    @cached_property
    def _is_shared(self) -> bool:
        """Whether a copy in a graph would be identical, because there are no marks and no equal instructions."""
        return not self._has_marks and len(
            {(i.op.token, i.inputs) for i in self.instructions}
        ) == len(self.instructions)

    @cached_property
    def _has_marks(self) -> bool:
        """Whether the sub-program has marks, apart from the marks of sub-programs inside it."""
        return any([isinstance(i.op, Mark | Opaque) for i in self.instructions])

    # ---- parts of a program --------------------------------------------------------------------

    def reads(self, outputs: Sequence[int]) -> set[int]:
        """Return the slots of the inputs on which the outputs at the positions `outputs` depend."""
        program = self._cut(tuple(outputs))
        read = {slot for step in program.instructions for slot in step.inputs}
        return {
            slot for slot in program.input_slots if slot in read or slot in program.output_slots
        }

    @classmethod
    def kept_part(
        cls, graph: Graph, inputs: Sequence[int], outputs: Sequence[int]
    ) -> Subprogram | None:
        """Return the sub-program that computes `outputs` from `inputs`, with its marks; None if it has no mark to keep.

        The result is also None if a mark reads a value that precedes the inputs, which happens in parts of derivatives.
        """
        try:
            part = cls.of(graph, inputs, outputs)
        except InvalidConfigError:
            return None
        return part if part.is_kept else None

    def restricted(self, inputs: Sequence[int], outputs: Sequence[int]) -> Subprogram:
        """Return a sub-program without marks that has only the inputs and outputs at the given positions."""
        key = tuple(inputs), tuple(outputs)
        if self.is_plain and key == (self.input_slots, tuple(range(len(self.output_slots)))):
            return self
        if key not in self._restrictions:
            program = self._cut(key[1])
            if key[0] != self.input_slots:
                program = _between(program, inputs, program.output_slots)
            self._restrictions[key] = Subprogram.of_program(program)
        return self._restrictions[key]

    def specialize(self, bindings: Mapping[Any, int]) -> Subprogram:
        """Return the sub-program with each symbol replaced by its number in `bindings`."""
        program = self.program
        if program.is_static and not program.guards and self.is_plain:
            return self
        if self.is_kept:
            return self.with_extents(bindings)
        return Subprogram.of_program(program.specialize(bindings))

    def with_extents(self, bindings: Mapping[Any, int]) -> Subprogram:
        """Return the sub-program with each symbol replaced by its number in `bindings`, and with its marks."""
        specialized = GraphProgram.specialize(self, bindings)
        assert isinstance(specialized, Subprogram)
        return specialized

    # ---- identity ------------------------------------------------------------------------------

    @cached_property
    def _key(self) -> Any:
        steps = [(getattr(i.op, "key", None) or i.op, i.inputs) for i in self.instructions]
        return self.input_specs, self.output_slots, tuple(steps)

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Subprogram) and self._hash == other._hash and self._key == other._key
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def fingerprint(self) -> str:
        """Digest of what the sub-program computes. It is equal in every process."""
        return self.program.fingerprint

    @cached_property
    def identity(self) -> tuple[Any, ...]:
        """The identity of the sub-program without its marks.

        If it has marks, a number is added that occurs only once, because
        rules of marks cannot be hashed.
        """
        identity = self.program.identity
        return (*identity, next(_NUMBERS)) if self._has_marks else identity

    def __repr__(self) -> str:
        takes = ", ".join(map(str, self.input_specs))
        gives = ", ".join(map(str, self.output_specs))
        return f"<Subprogram {takes} -> {gives}: {len(self.instructions)} instructions>"


class KeptMark(Mark):
    """Mark that defines derivatives of values, also if a trace calls a program that computes these values.

    The instructions of a program omit all marks. Because of this mark, `GraphProgram.marked` also contains the same
    computation with its marks. If a trace calls the program, the mark therefore defines the derivative.
    """

    __slots__ = ()
    is_kept = True

    def kept_part(
        self, graph: Graph, inputs: Sequence[int], outputs: Sequence[int]
    ) -> Subprogram | None:
        """Return the sub-program from `inputs` to `outputs` with its marks, as `Subprogram.kept_part` does."""
        return Subprogram.kept_part(graph, inputs, outputs)


def _is_kept(instruction: Instruction) -> bool:
    """Return whether an instruction is a mark that programs keep, or contains such a mark in a sub-program."""
    return getattr(instruction.op, "is_kept", False)


def _between(program: GraphProgram, inputs: Sequence[int], outputs: Sequence[int]) -> GraphProgram:
    """Return the part of `program` from the slots `inputs` to the slots `outputs`.

    The program must have no marks and no equal instructions.
    """
    types = program.types
    code, values, slots = instructions_between(program.instructions, types, inputs, outputs)
    return _body(program, code, tuple([types[value] for value in values]), len(inputs), slots)


def _body(
    source: GraphProgram,
    instructions: tuple[Instruction, ...],
    types: tuple[TensorSpec, ...],
    input_count: int,
    output_slots: tuple[int, ...],
) -> GraphProgram:
    """Return a program of `instructions`, with the guards and the origin of the program `source`."""
    return GraphProgram(
        name="body",
        instructions=instructions,
        types=types,
        input_slots=tuple(range(input_count)),
        output_slots=output_slots,
        in_tree=flat_tree(input_count),
        out_tree=flat_tree(len(output_slots)),
        input_names=tuple([f"x{number}" for number in range(input_count)]),
        output_names=tuple([f"y{number}" for number in range(len(output_slots))]),
        guards=source.guards,
        trusted=source.trusted,
    )
