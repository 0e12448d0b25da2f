"""`Writer`, which builds the nodes of an ONNX graph, and of the graphs inside its loops and conditionals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from tenferro.dims import SymDim
from tenferro.dims.polynomial import Operation, Polynomial
from tenferro.errors import NonStaticShapeError, UnsupportedError
from tenferro.ops.elements import digest_of
from tenferro.program import GraphProgram
from tenferro.types import DType, TensorSpec

__all__ = ["Value", "Writer", "element_type"]


class Value(NamedTuple):
    """Value of an ONNX graph, with its name in the graph and its type in the tenferro program."""

    name: str
    spec: TensorSpec

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.spec.dtype

    @property
    def rank(self) -> int:
        """The number of axes."""
        return self.spec.rank


def element_type(dtype: DType) -> int:
    """Return the number by which ONNX identifies an element type."""
    helper = import_module("onnx.helper")
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype.dtype))


class Writer:
    """Builder of an ONNX graph: a list of nodes, with methods that append nodes.

    Args:
        table: the function that writes the nodes of each op.

    Attributes:
        nodes: nodes of the graph that is being written.
        symbols: for each symbolic extent, the input and the axis from which it is read.
        missing: a line of the error message for each op without a counterpart in ONNX.
        numbers: for each value whose elements all equal the same constant, this constant, by the value's name.
        specs: the types of the results of the op that is being written.
        constants: arrays of the initializers, by name.
    """

    def __init__(self, table: Any) -> None:
        self.table = table
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.symbols: dict[str, tuple[str, int]] = {}
        self.missing: list[str] = []
        self.numbers: dict[str, Any] = {}
        self.specs: tuple[TensorSpec, ...] = ()
        self._known: dict[Any, Value] = {}
        self._count = 0

    def fresh(self) -> str:
        """Return a new name for a value."""
        self._count += 1
        return f"v{self._count}"

    def nodes_of(
        self, kind: str, inputs: Sequence[Value | str], count: int, **attributes: Any
    ) -> list[str]:
        """Append a node with `count` outputs, and return the names of the outputs."""
        helper = import_module("onnx.helper")
        names = [self.fresh() for _ in range(count)]
        texts = [value if isinstance(value, str) else value.name for value in inputs]
        self.nodes.append(helper.make_node(kind, texts, names, **attributes))
        return names

    def op(
        self, kind: str, *inputs: Value | str, spec: TensorSpec | None = None, **attributes: Any
    ) -> Value:
        """Append a node with one output, and return the output.

        Args:
            spec: the type of the output; by default the type of the first input.
        """
        (name,) = self.nodes_of(kind, inputs, 1, **attributes)
        first = inputs[0]
        if spec is None:
            assert isinstance(first, Value)
            spec = first.spec
        return Value(name, spec)

    def like(self, x: Value, dtype: DType) -> TensorSpec:
        """Return the type with the shape of a value and another element type."""
        return TensorSpec.of(x.spec.shape, dtype)

    def cast(self, x: Value, dtype: DType) -> Value:
        """Write a Cast to an element type; return x unchanged if it already has this type."""
        if x.dtype is dtype:
            return x
        return self.op("Cast", x, spec=self.like(x, dtype), to=element_type(dtype))

    def constant(self, array: Any) -> Value:
        """Return an array as an initializer; equal arrays share an initializer."""
        array = np.asarray(array, order="C")
        dtype = DType.of(array.dtype)
        key = (dtype, array.shape, digest_of(array.reshape(-1).view(np.uint8)))
        value = self._known.get(key)
        if value is None:
            name = f"c{len(self.constants)}"
            self.constants[name] = array
            value = Value(name, TensorSpec.of(array.shape, dtype))
            self._known[key] = value
            if array.size == 1:
                self.numbers[name] = array.ravel()[0]
        return value

    def number(self, number: Any, dtype: DType) -> Value:
        """Return a number as a constant of rank 0."""
        return self.constant(np.asarray(number, dtype.dtype))

    def integers(self, *numbers: int) -> Value:
        """Return a vector of int64."""
        return self.constant(np.array(numbers, np.int64))

    # ---- shapes --------------------------------------------------------------------------------

    def shape(self, extents: Sequence[Any], operands: Sequence[Value] = ()) -> Value:
        """Return a shape as a vector of int64; if all extents are numbers, it is a constant.

        Args:
            operands: values whose extents the shape may refer to.
        """
        if all(isinstance(n, int) for n in extents):
            return self.integers(*extents)
        parts = [self.extent(n, operands) for n in extents]
        spec = TensorSpec.of((len(parts),), DType.I64)
        return self.op("Concat", *parts, spec=spec, axis=0)

    def extent(self, extent: Any, operands: Sequence[Value] = ()) -> Value:
        """Return an extent, which may be symbolic, as a vector of one int64."""
        if isinstance(extent, int):
            return self.integers(extent)
        if not isinstance(extent, Polynomial):
            raise NonStaticShapeError(f"to_onnx: the extent {extent} depends on the data")
        total: Value | None = None
        for monomial, coefficient in extent.terms:
            term = self.integers(coefficient)
            for atom, power in monomial:
                factor = (
                    self._operation(atom, operands)
                    if isinstance(atom, Operation)
                    else self._leaf(atom, operands)
                )
                for _ in range(power):
                    term = self.op("Mul", term, factor)
            total = term if total is None else self.op("Add", total, term)
        assert total is not None
        return total

    def _operation(self, atom: Operation, operands: Sequence[Value]) -> Value:
        kind = {"//": "Div", "%": "Mod", "min": "Min", "max": "Max"}[atom.kind]
        return self.op(kind, self.extent(atom.lhs, operands), self.extent(atom.rhs, operands))

    def _leaf(self, leaf: Any, operands: Sequence[Value]) -> Value:
        axis = getattr(leaf, "axis", None)
        if axis is not None:
            return self.extent_of(operands[leaf.input], axis)
        name, axis = self.symbols[str(leaf)]
        return self.runtime_extent(name, axis)

    def extent_of(self, x: Value, axis: int) -> Value:
        """Return the extent of an axis of x as a vector of one int64, which is a constant if the extent is a number."""
        extent = x.spec.shape[axis]
        if isinstance(extent, int):
            return self.integers(extent)
        return self.runtime_extent(x.name, axis)

    def runtime_extent(self, name: str, axis: int) -> Value:
        """Write a node that reads the extent of an axis at run time, as a vector of one int64."""
        return self.op("Shape", name, spec=TensorSpec.of((1,), DType.I64), start=axis, end=axis + 1)

    def reshape(self, x: Value, shape: Sequence[Any]) -> Value:
        """Write a row-major reshape, unless x has this shape."""
        if list(shape) == list(x.spec.shape):
            return x
        spec = TensorSpec.of(tuple(shape), x.dtype)
        return self._moved(
            x, self.op("Reshape", x, self.shape(shape, (x,)), spec=spec, allowzero=1)
        )

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """Write a permutation of the axes, unless it is the identity."""
        if list(perm) == sorted(perm):
            return x
        spec = TensorSpec.of(tuple([x.spec.shape[axis] for axis in perm]), x.dtype)
        return self.op("Transpose", x, spec=spec, perm=list(perm))

    def expand(self, x: Value, shape: Sequence[Any], operands: Sequence[Value] = ()) -> Value:
        """Write a broadcast to a shape, unless x has this shape."""
        if list(shape) == list(x.spec.shape):
            return x
        spec = TensorSpec.of(tuple(shape), x.dtype)
        if spec.is_static and not spec.size:
            return self.constant(np.zeros(spec.shape, x.dtype.dtype))
        return self._moved(x, self.op("Expand", x, self.shape(shape, operands), spec=spec))

    def _moved(self, x: Value, y: Value) -> Value:
        """Return y, which has the same elements as x; if `numbers` has an entry for x, add the same entry for y."""
        if x.name in self.numbers:
            self.numbers[y.name] = self.numbers[x.name]
        return y

    # ---- programs ------------------------------------------------------------------------------

    def program(self, program: GraphProgram, operands: Sequence[Value]) -> list[Value]:
        """Write the instructions of a program on the operands, and return its outputs."""
        values: list[Any] = [None] * program.n_slots
        for slot, operand in zip(program.input_slots, operands, strict=True):
            values[slot] = operand
        for op, inputs, outputs, _, source in program.instructions:
            self.specs = tuple(program.types[slot] for slot in outputs)
            arguments = [values[slot] for slot in inputs]
            try:
                results = self.table.cell(op)(op, self, *arguments)
            except (UnsupportedError, NonStaticShapeError) as error:
                types = ", ".join(str(program.types[slot]) for slot in inputs)
                self.missing.append(
                    f"{op.name} of ({types}) at {source or 'an unknown line'}: {error.text()}"
                )
                results = [Value(self.fresh(), program.types[slot]) for slot in outputs]
            if isinstance(results, Value):
                results = [results]
            for slot, result in zip(outputs, results, strict=True):
                values[slot] = Value(result.name, program.types[slot])
        return [values[slot] for slot in program.output_slots]

    @contextmanager
    def inside(self) -> Any:
        """Yield a new list, to which the nodes are added that the body of the `with` statement writes."""
        outer, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outer

    def graph(
        self, name: str, inputs: Sequence[Value], write: Callable[[], Sequence[Value]]
    ) -> Any:
        """Return the graph of a loop's body or of a branch.

        Args:
            write: a function that writes the nodes and returns the outputs. Each output gets a new name, because ONNX
                requires distinct names.
        """
        helper = import_module("onnx.helper")
        with self.inside() as nodes:
            outputs = [self.op("Identity", value) for value in write()]
            return helper.make_graph(
                nodes, name, list(map(typed, inputs)), list(map(typed, outputs))
            )


def typed(value: Value) -> Any:
    """Return the declaration of a value: its name, its element type, and extents that are numbers or symbols."""
    helper = import_module("onnx.helper")
    shape = [
        n
        if isinstance(n, int)
        else str(n)
        if isinstance(n, SymDim) and n.as_leaf() is not None
        else None
        for n in value.spec.shape
    ]
    return helper.make_tensor_value_info(value.name, element_type(value.dtype), shape)
