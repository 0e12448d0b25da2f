"""The arena: an append-only, hash-consed list of nodes in topological order.

A node's inputs are values made before it, so a pass is a loop up or down the list and nothing
recurses. Asking twice for the same op on the same values gives the same values: common
subexpressions never exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tenferro.dims import GuardLog
from tenferro.errors import TenferroError
from tenferro.graph.mark import Mark, Opaque
from tenferro.graph.source_line import CallerFinder, SourceLine
from tenferro.ops import StdTensorOp
from tenferro.types import TensorSpec

__all__ = ["Graph", "Node"]


class Node(NamedTuple):
    """One application of an op, or of a mark: values in, values out."""

    op: StdTensorOp | Mark | Opaque
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


_new: Any = tuple.__new__  # because `Node(..)` takes longer, and there are many


class Graph:
    """Values are numbers, given in order; `types[value]` is what is known of one.

    >>> from tenferro.ops.elementwise import Add
    >>> graph = Graph()
    >>> x = graph.add_input(TensorSpec.parse("f64[3]"))
    >>> graph.add(Add(), (x, x)) == graph.add(Add(), (x, x))
    True
    >>> print(graph)
    %0: f64[3]
    %1: f64[3] = Add %0 %0
    """

    __slots__ = (
        "_applied",
        "_find_caller",
        "_inferred",
        "guards",
        "inputs",
        "marked",
        "nodes",
        "sources",
        "types",
    )

    def __init__(self) -> None:
        self.types: list[TensorSpec] = []
        self.inputs: list[int] = []
        self.nodes: list[Node] = []
        self.sources: list[SourceLine | None] = []
        self.guards = GuardLog()
        self.marked = False
        self._applied: dict[tuple[Any, tuple[int, ...]], tuple[int, ...]] = {}
        self._inferred: dict[Any, tuple[TensorSpec, ...]] = {}
        self._find_caller = CallerFinder()

    def add_input(self, spec: TensorSpec) -> int:
        """A new value that the caller will supply."""
        value = len(self.types)
        self.types.append(spec)
        self.inputs.append(value)
        return value

    def add_stand_in(self, spec: TensorSpec) -> int:
        """A value that rules are written for and no program has: a tangent on its way to a transpose."""
        value = len(self.types)
        self.types.append(spec)
        return value

    def add(
        self, op: StdTensorOp, inputs: tuple[int, ...], source: SourceLine | None = None
    ) -> tuple[int, ...]:
        """The outputs of `op` on these values, made now unless they exist.

        Raises:
            TenferroError: what the op's rule refuses, with the user's line.
        """
        token = op.token
        key = (token, inputs)
        outputs = self._applied.get(key)
        if outputs is not None:
            return outputs
        if source is None:
            source = self._find_caller()
        types = self.types
        # Types are few, and values share them.
        known = token
        for value in inputs:
            known = (known, id(types[value]))
        specs = self._inferred.get(known)
        if specs is None:
            specs = self._infer(op, inputs, source, known)
        start = len(types)
        types += specs
        outputs = (start,) if len(specs) == 1 else tuple(range(start, len(types)))
        self.nodes.append(_new(Node, (op, inputs, outputs)))
        self.sources.append(source)
        self._applied[key] = outputs
        return outputs

    def find(self, op: StdTensorOp, inputs: tuple[int, ...]) -> tuple[int, ...] | None:
        """The outputs of `op` on these values if they exist."""
        return self._applied.get((op.token, inputs))

    def _infer(
        self, op: StdTensorOp, inputs: tuple[int, ...], source: SourceLine | None, known: Any
    ) -> tuple[TensorSpec, ...]:
        """Types of the outputs; kept where they came without a guard, which each node writes for itself."""
        written = len(self.guards.guards)
        try:
            specs = op.infer(*[self.types[value] for value in inputs], guards=self.guards)
        except TenferroError as error:
            raise error.at(str(source) if source else None) from None
        if len(self.guards.guards) != written:
            self._locate_guards(written, source)
        elif inputs:
            self._inferred[known] = specs
        return specs

    def extend(self, index: int, op: StdTensorOp) -> tuple[int, ...]:
        """Put an op in place of that node's which gives what it gave, and more, on the same values.

        What was computed once stays so when a derivative needs more of it than its result.
        """
        node = self.nodes[index]
        key = (op.token, node.inputs)
        known = self._applied.get(key)
        if known is not None:
            return known
        specs = op.infer(*[self.types[value] for value in node.inputs], guards=self.guards)
        start = len(self.types)
        self.types.extend(specs[len(node.outputs) :])
        outputs = (*node.outputs, *range(start, len(self.types)))
        self.nodes[index] = Node(op, node.inputs, outputs)
        self._applied[key] = outputs
        return outputs

    def add_mark(
        self, mark: Mark | Opaque, inputs: tuple[int, ...], source: SourceLine | None = None
    ) -> tuple[int, ...]:
        """The outputs of a mark on these values: new ones each time."""
        types = self.types
        specs = mark.types if isinstance(mark, Opaque) else [types[inputs[i]] for i in mark.takes]
        start = len(types)
        types.extend(specs)
        outputs = tuple(range(start, len(types)))
        self.nodes.append(Node(mark, inputs, outputs))
        self.sources.append(self._find_caller() if source is None else source)
        self.marked = True
        return outputs

    def needed(
        self, start: int, values: Iterable[int], read: Callable[[Mark], Iterable[int]]
    ) -> bytearray:
        """Which nodes from `start` on these values depend on, by one sweep backward.

        Args:
            read: the positions at which a mark depends on its inputs; ops depend on all of theirs.
        """
        wanted = bytearray(len(self.types))
        for value in values:
            wanted[value] = 1
        found = bytearray(len(self.nodes) - start)
        for index in range(len(self.nodes) - 1, start - 1, -1):
            op, inputs, outputs = self.nodes[index]
            if any([wanted[value] for value in outputs]):
                found[index - start] = 1
                for value in [inputs[i] for i in read(op)] if isinstance(op, Mark) else inputs:
                    wanted[value] = 1
        return found

    def _locate_guards(self, written: int, source: SourceLine | None) -> None:
        for guard in list(self.guards.guards)[written:]:
            object.__setattr__(guard, "source", str(source) if source else None)

    def __len__(self) -> int:
        return len(self.nodes)

    def __str__(self) -> str:
        lines = [f"%{value}: {self.types[value]}" for value in self.inputs]
        for node in self.nodes:
            made = ", ".join(f"%{value}: {self.types[value]}" for value in node.outputs)
            taken = "".join(f" %{value}" for value in node.inputs)
            lines.append(f"{made} = {node.op}{taken}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Graph of {len(self.inputs)} inputs and {len(self.nodes)} nodes>"

    def __getstate__(self) -> Any:
        raise TypeError("a Graph is not pickled; save a GraphProgram instead")
