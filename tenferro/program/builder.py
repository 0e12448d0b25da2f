"""`ProgramBuilder`: builds programs op by op, without tracing."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any

import numpy as np

from tenferro.dims import GuardLog
from tenferro.graph import Graph, Instruction, Mark, SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.source import Constant
from tenferro.program.instructions import copy_into
from tenferro.program.program import GraphProgram
from tenferro.program.rewrite import Producers
from tenferro.program.subprogram import Subprogram
from tenferro.types import TensorSpec

__all__ = ["ProgramBuilder"]


class ProgramBuilder:
    """Builder of programs. Integers stand for the values of the program.

    Applying an op to the same values a second time returns the outputs of the first application.

    Args:
        trusted: False if an op comes from a file of unknown origin.

    >>> from tenferro.ops.elementwise import Add
    >>> builder = ProgramBuilder()
    >>> x = builder.input(TensorSpec((2,), "float64"))
    >>> (y,) = builder.apply(Add(), x, x)
    >>> builder.finish([y]).run(np.array([1.0, 2.0]))
    (array([2., 4.]),)
    """

    def __init__(self, *, trusted: bool = True) -> None:
        self._graph = Graph(trusted)
        self._constants: dict[int, Any] = {}
        self._producers = Producers(self._graph)

    @property
    def guards(self) -> GuardLog:
        """The conditions on symbolic extents that are checked when the program runs."""
        return self._graph.guards

    def input(self, spec: TensorSpec) -> int:
        """Add an input to the program, and return its value."""
        return self._graph.add_input(spec)

    def constant(self, array: Any, source: SourceLine | None = None) -> int:
        """Add a constant to the program, and return its value."""
        array = np.asarray(array)
        (value,) = self._graph.add(Constant.of(array), (), source)
        self._constants[value] = array
        return value

    def constant_array(self, value: int) -> Any:
        """Return the array of a constant; None for any other value."""
        return self._constants.get(value)

    def made_by(self, value: int) -> tuple[StdTensorOp, tuple[int, ...]] | None:
        """Return the op that computes `value`, and its operands; None for inputs and constants."""
        maker = None if value in self._constants else self._producers.maker(value)
        return None if maker is None else (maker.op, maker.inputs)

    def apply(
        self, op: StdTensorOp, *values: int, source: SourceLine | None = None
    ) -> tuple[int, ...]:
        """Add an op to the program, and return its outputs.

        Raises:
            ArityError, ShapeError, DTypeError: the op does not accept the operands.
        """
        return self._graph.add(op, values, source)

    def mark(self, mark: Mark, *values: int) -> tuple[int, ...]:
        """Apply a mark, which renames some of `values`. The mark defines derivatives with respect to the new names."""
        return self._graph.add(mark, values)

    def copy(self, instructions: Iterable[Instruction], values: MutableMapping[int, int]) -> None:
        """Copy `instructions` into the program, as `copy_into` does."""
        copy_into(self._graph, instructions, values)

    def evaluated(self, value: int) -> Any:
        """Compute the elements of a value natively, and return them; None if the value depends on an input.

        Results are cached. If a loop's counter is evaluated after each iteration, for example, each evaluation computes
        only one instruction.
        """
        part: dict[int, Instruction] = {}
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if one in self._constants or one in part:
                continue
            maker = self._producers.maker(one)
            if maker is None:
                return None
            part.update(dict.fromkeys(maker.outputs, maker))
            waiting += maker.inputs
        if value not in part:
            return self._constants[value]
        graph = Graph()
        values: dict[int, int] = {}
        # Values are numbered in order of creation, so sorting by number keeps the order of the instructions.
        code = [part[one] for one in sorted(part) if part[one].outputs[0] == one]
        for one in {one for maker in code for one in maker.inputs} - part.keys():
            (values[one],) = graph.add(Constant.of(self._constants[one]), ())
        copy_into(graph, code, values)
        arrays = GraphProgram.from_graph(graph, [values[one] for one in part]).run()
        self._constants.update(zip(part, map(np.asarray, arrays), strict=True))
        return self._constants[value]

    def type_of(self, value: int) -> TensorSpec:
        """Return the shape and dtype of a value."""
        return self._graph.types[value]

    def __len__(self) -> int:
        """Return the number of ops."""
        return len(self._graph)

    def apply_effect(
        self, op: StdTensorOp, *values: int, source: SourceLine | None = None
    ) -> tuple[int, ...]:
        """Add an op with effects to the program, and return its outputs.

        The result of the preceding effect is passed as an additional first operand. This keeps the effects in order.
        """
        return self.apply(op, self._graph.awaited(), *values, source=source)

    def part(self, inputs: Sequence[int], outputs: Sequence[int]) -> Subprogram:
        """Return the sub-program that computes `outputs` from `inputs`. Its outputs depend on all effects."""
        return Subprogram.of(self._graph, inputs, self._graph.after_effects(outputs))

    def finish(self, outputs: Sequence[int], **options: Any) -> GraphProgram:
        """Return the program that computes `outputs`, which depend on all effects.

        Args:
            options: further arguments of `GraphProgram.from_graph`.
        """
        return GraphProgram.from_graph(self._graph, self._graph.after_effects(outputs), **options)
