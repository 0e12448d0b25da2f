"""The arena: an append-only, hash-consed list of instructions in topological order.

The instructions that compute the inputs of an instruction precede it, so a pass is a loop over the list, without
recursion. If an op is added twice on the same values, the second call returns the outputs of the first instruction.
Therefore a graph has no common subexpressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.dims import GuardLog
from tenferro.errors import InvalidConfigError, TenferroError
from tenferro.graph.instruction import Instruction
from tenferro.graph.mark import Mark, Opaque
from tenferro.graph.source_line import CallerFinder, SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.control import ControlOp
from tenferro.ops.source import Constant
from tenferro.ops.structural import OptimizationBarrier
from tenferro.types import TensorSpec

__all__ = ["Graph"]

_new: Any = (
    tuple.__new__
)  # faster than `Instruction(..)`, which matters because graphs have many instructions


class Graph:
    """A graph of instructions. Its values are numbered in order of creation; `types[value]` is the type of a value.

    >>> from tenferro.ops.elementwise import Add
    >>> graph = Graph()
    >>> x = graph.add_input(TensorSpec.parse("f64[3]"))
    >>> graph.add(Add(), (x, x)) == graph.add(Add(), (x, x))
    True
    >>> print(graph)
    %0: f64[3]
    %1: f64[3] = Add %0 %0

    Args:
        trusted: whether the origin of all ops is trusted. It is False if an op comes from a file of unknown origin;
            programs made from the graph are then not trusted either.
    """

    __slots__ = (
        "_applied",
        "_find_caller",
        "_inferred",
        "_numbers",
        "effects",
        "guards",
        "inputs",
        "instructions",
        "marked",
        "trusted",
        "types",
    )

    def __init__(self, trusted: bool = True) -> None:
        self.types: list[TensorSpec] = []
        self.inputs: list[int] = []
        self.instructions: list[Instruction] = []
        self.guards = GuardLog()
        self.marked = False
        self.trusted = trusted
        self.effects: list[int] = []
        """Results of ops with effects that no later op uses. Every program of the graph contains these ops."""
        self._numbers: dict[Any, int] = {}
        """Number of each op token, in order of appearance.

        The number is hashed in place of the op, so that each op is hashed only once.
        """
        self._applied: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}
        self._inferred: dict[tuple[int, ...], tuple[TensorSpec, ...]] = {}
        self._find_caller = CallerFinder()

    def add_input(self, spec: TensorSpec) -> int:
        """Return a new input of the graph."""
        value = len(self.types)
        self.types.append(spec)
        self.inputs.append(value)
        return value

    def add_stand_in(self, spec: TensorSpec) -> int:
        """Return a placeholder, such as a tangent that will be transposed. Programs never contain it."""
        value = len(self.types)
        self.types.append(spec)
        return value

    def add(
        self,
        op: StdTensorOp | Mark | Opaque,
        inputs: tuple[int, ...],
        source: SourceLine | None = None,
        specs: tuple[TensorSpec, ...] | None = None,
    ) -> tuple[int, ...]:
        """Return the outputs of `op` on the values `inputs`. Add an instruction unless an equal one exists.

        A mark, and an op with effects, always adds an instruction.

        Args:
            specs: the types of the outputs, if an instruction with inputs of the same types has them already. That
                instruction must belong to a program without guards and marks.

        Raises:
            TenferroError: the op does not accept the inputs; the error names the line of the user's code.
        """
        number = self._numbers.setdefault(op.token, len(self._numbers))
        key = (number, inputs)
        outputs = self._applied.get(key)
        has_effects = op.has_effects
        if outputs is not None and not has_effects:
            return outputs
        if source is None:
            source = self._find_caller()
        types = self.types
        if specs is None:
            # Equal types are one object, so ids of types are compared, not types. The key is a flat tuple: Python
            # hashes nested tuples by recursion in C, which would overflow the stack for an op of 200,000 operands.
            type_key = (number, *map(id, map(types.__getitem__, inputs)))
            specs = self._inferred.get(type_key)
            if specs is None:
                specs = self._infer(op, inputs, source, type_key)
        start = len(types)
        types += specs
        outputs = (start,) if len(specs) == 1 else tuple(range(start, len(types)))
        self.instructions.append(_new(Instruction, (op, inputs, outputs, (), source)))
        self._applied[key] = outputs
        if has_effects:
            self._note_effect(op, inputs, outputs)
        return outputs

    def _note_effect(
        self, op: StdTensorOp | Mark | Opaque, inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> None:
        if not outputs:
            raise InvalidConfigError(
                f"{op.name}: its body prints but has no outputs, so no result can depend on the print; "
                "return something from it, such as a count"
            )
        self.effects = [*[value for value in self.effects if value not in inputs], outputs[0]]

    def awaited(self) -> int:
        """Return the value on which the next effect must depend: the last effect's result, or else constant False."""
        return self.effects[-1] if self.effects else self.add(Constant.of(np.False_), ())[0]

    def after_effects(self, outputs: Sequence[int]) -> list[int]:
        """Return the outputs as values that depend on all effects added so far.

        Raises:
            InvalidConfigError: there is no output that could depend on the effects.
        """
        if not self.effects:
            return list(outputs)
        if not outputs:
            raise InvalidConfigError(
                "debug_print: the function returns no tensor, so no result can depend on the print; "
                "return one"
            )
        tied = (*outputs, *self.effects)
        self.effects = []
        return list(self.add(OptimizationBarrier(len(tied)), tied)[: len(outputs)])

    def find(self, op: StdTensorOp, inputs: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the outputs of the instruction that applies `op` to the values `inputs`; None if there is none."""
        number = self._numbers.get(op.token)
        return None if number is None else self._applied.get((number, inputs))

    def _infer(
        self,
        op: StdTensorOp | Mark | Opaque,
        inputs: tuple[int, ...],
        source: SourceLine | None,
        type_key: tuple[int, ...],
    ) -> tuple[TensorSpec, ...]:
        """Infer the types of the outputs, and cache them.

        The types are not cached if inference adds a guard, because each such instruction must add its own guard.
        """
        specs = map(self.types.__getitem__, inputs)
        if isinstance(op, Mark | Opaque):
            self.marked = True
            return op.infer(*specs)
        if isinstance(op, ControlOp):
            self._inherit_trust(op)
        written = len(self.guards.guards)
        try:
            types = op.infer(*specs, guards=self.guards)
        except TenferroError as error:
            error.at(source)
            raise
        if len(self.guards.guards) != written:
            self._locate_guards(written, source)
        elif inputs:
            self._inferred[type_key] = types
        return types

    def _inherit_trust(self, op: ControlOp) -> None:
        """Mark the graph as not trusted if a body of the control-flow op is not trusted."""
        self.trusted = self.trusted and all([part.trusted for part in op.parts])

    def extend(self, index: int, op: StdTensorOp) -> tuple[int, ...]:
        """Replace the op of an instruction by `op`, which has the same inputs and returns additional outputs.

        Derivative rules call this method if they need additional outputs, so that the op is not computed twice.
        """
        replaced = self.instructions[index]
        key = (self._numbers.setdefault(op.token, len(self._numbers)), replaced.inputs)
        existing = self._applied.get(key)
        if existing is not None:
            return existing
        if isinstance(op, ControlOp):
            self._inherit_trust(op)
        specs = op.infer(*[self.types[value] for value in replaced.inputs], guards=self.guards)
        start = len(self.types)
        self.types.extend(specs[len(replaced.outputs) :])
        outputs = (*replaced.outputs, *range(start, len(self.types)))
        self.instructions[index] = replaced._replace(op=op, outputs=outputs)
        self._applied[key] = outputs
        return outputs

    def _locate_guards(self, written: int, source: SourceLine | None) -> None:
        for guard in list(self.guards.guards)[written:]:
            object.__setattr__(guard, "source", str(source) if source else None)

    def __len__(self) -> int:
        return len(self.instructions)

    def __str__(self) -> str:
        lines = [f"%{value}: {self.types[value]}" for value in self.inputs]
        for op, inputs, outputs, _, _ in self.instructions:
            results = ", ".join(f"%{value}: {self.types[value]}" for value in outputs)
            operands = "".join(f" %{value}" for value in inputs)
            lines.append(f"{results} = {op}{operands}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Graph of {len(self.inputs)} inputs and {len(self.instructions)} instructions>"

    def __getstate__(self) -> Any:
        raise TypeError("a Graph cannot be pickled; save a GraphProgram instead")
