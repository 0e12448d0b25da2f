"""`GraphEmitter`: appends the ops of derivative rules to the graph that is differentiated."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Literal

from tenferro.ad.extension_rule import ExtensionAdRule
from tenferro.ad.rule import AdRule
from tenferro.graph import Graph, GraphBuilder, Mark, Opaque
from tenferro.graph.value import Value, number_in
from tenferro.ops import StdTensorOp
from tenferro.ops.elementwise import Multiply
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim
from tenferro.types import DType, TensorSpec

__all__ = ["GraphEmitter"]


class GraphEmitter(GraphBuilder):
    """Emitter that appends ops to a graph; its handles are the numbers of values of the graph.

    Attributes:
        rules: the derivative rules of ops.
        extension_rules: the context's rules of extension families.
        primal_of: a map from each tangent to its primal value, which has the same shape.
        first: the number of instructions in the graph when the latest linearisation began.
        mode: mode of the current sweep: "forward", or "reverse" if the result will be transposed.
        index: the position of the instruction whose derivative is being emitted.
    """

    __slots__ = (
        "_indexed",
        "_makers",
        "_ones",
        "_scalars",
        "extension_rules",
        "first",
        "index",
        "mode",
        "primal_of",
        "rules",
    )

    def __init__(
        self,
        graph: Graph,
        rules: Mapping[Any, AdRule],
        extension_rules: Mapping[str, ExtensionAdRule],
    ) -> None:
        super().__init__(graph)
        self.rules = rules
        self.extension_rules = extension_rules
        self.primal_of: dict[int, int] = {}
        self.first = sys.maxsize
        self._makers: dict[int, int] = {}
        self._indexed = 0
        self.mode: Literal["forward", "reverse"] = "forward"
        self.index = -1
        self._scalars: dict[tuple[str, DType], int] = {}
        self._ones: set[int] = set()

    def derive(self, index: int) -> None:
        """Record instruction `index`, and its source line, as the origin of the ops that are emitted next."""
        self.index = index
        instruction = self.graph.instructions[index]
        source = instruction.source
        if source is not None and not source.derivative_of:
            source = source.of(instruction.op.name)
        self.source = source

    def inner(self, graph: Graph) -> GraphEmitter:
        """Return an emitter for another graph, such as the body of a loop, with the same rules."""
        emitter = GraphEmitter(graph, self.rules, self.extension_rules)
        emitter.source = self.source
        emitter.mode = self.mode
        return emitter

    def extend(self, op: StdTensorOp) -> tuple[int, ...]:
        """Replace the instruction that is differentiated by `op`, which has additional outputs.

        Return all outputs of `op`.
        """
        return self.graph.extend(self.index, op)

    def apply(self, op: StdTensorOp, *inputs: int) -> tuple[int, ...]:
        """Apply `op` and return its outputs, but return x itself for the real product of x and a constant one.

        Products with one are frequent, because the initial cotangent of a result is one.
        """
        ones = self._ones
        has_one = not ones.isdisjoint(inputs)
        if has_one and op.token is Multiply:
            lhs, rhs = inputs
            return (rhs if lhs in ones else lhs,)
        outputs = self.graph.add(op, inputs, self.source)
        if has_one and isinstance(op, BroadcastInDim):
            ones.update(outputs)
        return outputs

    def scalar(self, number: Any, dtype: DType) -> int:
        """Return a rank-0 constant.

        Raises:
            DTypeError: `number` is not a number, or `dtype` cannot represent it.
        """
        key = (repr(number), dtype)
        value = self._scalars.get(key)
        if value is None:
            constant = Constant.of(number_in(number, dtype))
            (value,) = self.graph.add(constant, (), self.source)
            self._scalars[key] = value
            if number == 1 and not dtype.is_complex:
                self._ones.add(value)
        return value

    def zeros(self, spec: TensorSpec) -> int:
        """Return a tensor of zeros with the shape and dtype of `spec`."""
        zero = self.scalar(0, spec.dtype)
        return self.apply(BroadcastInDim(spec.shape, ()), zero)[0] if spec.rank else zero

    def witness(self, value: int) -> int:
        """Return the primal value of the tangent `value`. Return `value` itself if it is not a tangent."""
        instructions = self.graph.instructions
        for index in range(max(self.first, self._indexed), len(instructions)):
            self._makers.update(dict.fromkeys(instructions[index].outputs, index))
        self._indexed = len(instructions)
        wanted, part = [value], set[int]()
        while wanted:
            one = wanted.pop()
            index = self._makers.get(one, -1)
            if one not in self.primal_of and index >= self.first and index not in part:
                part.add(index)
                wanted += instructions[index].inputs
        for index in sorted(part):
            op, operands, results, _, source = instructions[index]
            if isinstance(op, Mark | Opaque):
                return value
            primals = self.graph.add(
                op, tuple([self.primal_of.get(x, x) for x in operands]), source
            )
            self.primal_of.update(zip(results, primals, strict=False))
        return self.primal_of.get(value, value)

    def values(self, handles: Any) -> tuple[Value, ...]:
        """Wrap handles as values of the algebra."""
        return tuple([Value(self, handle) for handle in handles])
