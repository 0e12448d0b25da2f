"""`ProgramBuilder`: programs written op by op, by who does not trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.graph import Graph, SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.source import Constant
from tenferro.program.program import GraphProgram
from tenferro.types import TensorSpec

__all__ = ["ProgramBuilder"]


class ProgramBuilder:
    """Values are numbers; the same op on the same values gives the same values.

    >>> from tenferro.ops.elementwise import Add
    >>> builder = ProgramBuilder()
    >>> x = builder.input(TensorSpec((2,), "float64"))
    >>> (y,) = builder.add(Add(), x, x)
    >>> builder.finish([y]).run(np.array([1.0, 2.0]))
    (array([2., 4.]),)
    """

    def __init__(self) -> None:
        self._graph = Graph()
        self._constants: dict[int, Any] = {}

    def input(self, spec: TensorSpec) -> int:
        """A value that whoever runs the program gives."""
        return self._graph.add_input(spec)

    def constant(self, array: Any, source: SourceLine | None = None) -> int:
        """A value that the program holds."""
        array = np.asarray(array)
        (value,) = self._graph.add(Constant.of(array), (), source)
        self._constants[value] = array
        return value

    def known(self, value: int) -> Any:
        """The array of a constant; None of what is computed."""
        return self._constants.get(value)

    def add(
        self, op: StdTensorOp, *values: int, source: SourceLine | None = None
    ) -> tuple[int, ...]:
        """The outputs of an op.

        Raises:
            ArityError, ShapeError, DTypeError: what the op's card refuses.
        """
        return self._graph.add(op, values, source)

    def type_of(self, value: int) -> TensorSpec:
        """Shape and dtype."""
        return self._graph.types[value]

    def __len__(self) -> int:
        """How many ops there are."""
        return len(self._graph.nodes)

    def finish(self, outputs: Sequence[int], **options: Any) -> GraphProgram:
        """The program that computes these values; options are those of `GraphProgram.from_graph`."""
        return GraphProgram.from_graph(self._graph, outputs, **options)
