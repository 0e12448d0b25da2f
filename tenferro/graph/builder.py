"""`GraphBuilder`: the interface by which derivative rules and extensions add ops to a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.errors import ArityError, InvalidConfigError
from tenferro.graph.graph import Graph
from tenferro.graph.source_line import SourceLine
from tenferro.graph.value import Value, number_in
from tenferro.ops import StdTensorOp
from tenferro.ops.source import Constant
from tenferro.types import DType, TensorSpec

__all__ = ["ArgumentBuilder", "BodyBuilder", "GraphBuilder"]


class GraphBuilder:
    """Builder that appends ops to a graph. Values are opaque handles.

    Attributes:
        source: the line of the user's code that is recorded with emitted ops.
        caches: caches for the plans that extensions create during tracing. The caches belong to the compiler or context
            that traces; None if it has none yet.

    >>> from tenferro.ops.elementwise import Multiply
    >>> builder = GraphBuilder()
    >>> x = builder.input((2, "n"), "float64")
    >>> y = builder.apply_one(Multiply(), x, x)
    >>> builder.type_of(y)
    f64[2,n]
    """

    __slots__ = ("caches", "graph", "source")

    def __init__(self, graph: Graph | None = None) -> None:
        self.graph = Graph() if graph is None else graph
        self.source: SourceLine | None = None
        self.caches: Any = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.graph.instructions)} instructions>"

    def input(self, shape: Any, dtype: Any) -> int:
        """Return a new input of the graph."""
        return self.graph.add_input(TensorSpec(shape, dtype))

    def apply(self, op: StdTensorOp, *inputs: int) -> tuple[int, ...]:
        """Append `op`, applied to the values `inputs`, and return all outputs.

        Raises:
            InvalidConfigError: a value does not belong to this graph.
        """
        count = len(self.graph.types)
        for value in inputs:
            if isinstance(value, Value) or not 0 <= value < count:
                raise InvalidConfigError(f"{op.name}: {value!r} is not a value of this graph")
        return self.graph.add(op, inputs, self.source)

    def apply_one(self, op: StdTensorOp, *inputs: int) -> int:
        """Append `op`, applied to the values `inputs`, and return its only output.

        Raises:
            ArityError: the op has several outputs; `apply` returns them all.
        """
        outputs = self.apply(op, *inputs)
        if len(outputs) != 1:
            raise ArityError(f"{op.name}: has {len(outputs)} outputs; apply returns them all")
        return outputs[0]

    emit, emit_all = apply_one, apply
    """Former names of `apply_one` and `apply`, which expansions in existing packages use."""

    def value(self, value: int) -> Value:
        """Return a `Value` for a value of the graph. A `Value` has operators, and tenferro's functions accept it.

        >>> builder = GraphBuilder()
        >>> x = builder.value(builder.input((2,), "float64"))
        >>> y = x * x + 1
        >>> builder.type_of(y.handle)
        f64[2]
        """
        return Value(self, value)

    def constant(self, value: Any, dtype: DType | None = None) -> int:
        """Add a constant.

        Pass `dtype` for a Python number, which would otherwise be float64 and widen a float32 graph.
        """
        array = np.asarray(value) if dtype is None else np.asarray(value).astype(dtype.dtype)
        return self.apply_one(Constant.of(array))

    def type_of(self, value: int) -> TensorSpec:
        """Return the shape and dtype of a value."""
        return self.graph.types[value]

    def scalar(self, number: Any, dtype: DType) -> int:
        """Return a rank-0 constant.

        Raises:
            DTypeError: `number` is not a number, or `dtype` cannot represent it.
        """
        return self.apply_one(Constant.of(number_in(number, dtype)))

    def witness(self, value: int) -> int:
        """Return the value itself, because every value of this graph has elements.

        The tangents of other emitters have none.
        """
        return value

    def lift(self, array: Any) -> int:
        """Return a constant with the elements of an array or eager tensor, which a traced function uses."""
        if hasattr(array, "__tenferro_constant__"):
            array = array.__tenferro_constant__()
        return self.apply_one(Constant.of(array))

    def value_of(self, tensor: Any) -> int:
        """Return the value of a traced tensor in this graph.

        Raises:
            InvalidConfigError: the tensor belongs to another trace, from which this builder may not capture.
        """
        if tensor.builder.graph is not self.graph:
            raise InvalidConfigError(
                f"{tensor!r} belongs to another trace; return tensors from a traced function "
                "instead of keeping them"
            )
        return tensor.value


class ArgumentBuilder(GraphBuilder):
    """Builder that makes arrays arguments of the trace, so that the trace depends only on their types.

    Attributes:
        arguments: a map from the `id` of an array to the input that stands for it, and the array.
    """

    __slots__ = ("arguments",)

    def __init__(self, graph: Graph | None = None) -> None:
        super().__init__(graph)
        self.arguments: dict[int, tuple[int, Any]] = {}

    def lift(self, array: Any) -> int:
        """Return the graph input that stands for an array or eager tensor that a traced function uses.

        A NumPy array of at most one element becomes a constant instead.
        """
        if isinstance(array, np.ndarray) and array.size <= 1:
            return super().lift(array)
        if id(array) not in self.arguments:
            value = self.graph.add_input(TensorSpec(array.shape, array.dtype))
            self.arguments[id(array)] = (value, array)
        return self.arguments[id(array)][0]


class BodyBuilder(GraphBuilder):
    """Builder of the body of a loop or branch. Values from outside the body become inputs of the body.

    Attributes:
        captured: a map from the identity of a tensor or array from outside to the input that stands for it, and the
            tensor or array itself.
    """

    __slots__ = ("captured",)

    def __init__(self, surroundings: GraphBuilder | None = None) -> None:
        super().__init__(Graph())
        if surroundings is not None:
            self.caches = surroundings.caches
        self.captured: dict[Any, tuple[int, Any]] = {}

    def lift(self, array: Any) -> int:
        """Return the input that stands for an array from outside, or a constant if it has at most one element."""
        if isinstance(array, np.ndarray) and array.size <= 1:
            return super().lift(array)
        return self.capture(id(array), array, TensorSpec(array.shape, array.dtype))

    def value_of(self, tensor: Any) -> int:
        """Return the value of a traced tensor. If it is from outside the body, return the input that stands for it."""
        graph = tensor.builder.graph
        if graph is self.graph:
            return tensor.value
        return self.capture((id(graph), tensor.value), tensor, tensor.spec)

    def capture(self, key: Any, operand: Any, spec: TensorSpec) -> int:
        """Return the input that stands for a tensor from outside the body. The first call for `key` adds the input."""
        if key not in self.captured:
            self.captured[key] = (self.graph.add_input(spec), operand)
        return self.captured[key][0]
