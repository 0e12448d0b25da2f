"""`Writer`, which builds the operations of one function or region.

Emitters call the writer's methods, which add operations and return values. The writer adds equal constants only once
per function, and omits operations whose results are not used. `lowering.printer` writes the operations as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lowering.extents import Extents
from lowering.inference import result_of
from lowering.literal import LONGEST_LIST, is_splat
from lowering.operations import (
    Block,
    Function,
    Integers,
    Module,
    Operation,
    PrintedFunction,
    Symbol,
    Value,
)
from tenferro.dims import is_static
from tenferro.errors import NonStaticShapeError
from tenferro.ops import StdTensorOp
from tenferro.types import DType, TensorSpec

__all__ = ["Value", "Writer"]


class Writer:
    """Builder of the operations of one function or region, and of the private functions that they call.

    Attributes:
        precision: the precision of products without an explicit precision.
        platform: the platform for which the module is written.
        linalg: "library" or "inline"; see `lower_to_stablehlo`.
        emitters: the emitter of each op.
        operations: the operations, in the order in which they were added.
        functions: the private functions of the module, by name.
        symbols: the names of private functions, by a key that identifies what the function computes.
        source: the user's line for the operations that are added next.
        arguments: the arguments of the function or region.
        extents: the emitter of symbolic extents, or None if all extents are numbers.
        callbacks: the Python callbacks that the module calls, or None if callbacks are not supported.
        mesh: the sizes of the mesh's axes by name, or None without a mesh.
    """

    def __init__(
        self,
        inputs: Sequence[TensorSpec],
        precision: str,
        platform: str,
        linalg: str,
        emitters: Mapping[type[StdTensorOp], Any],
    ) -> None:
        self.precision = precision
        self.platform = platform
        self.linalg = linalg
        self.emitters = emitters
        self.operations: list[Operation] = []
        self.functions: dict[str, Function | PrintedFunction] = {}
        self.symbols: dict[Any, str] = {}
        self.source: Any = None
        self._constants: dict[tuple[TensorSpec, bytes], Value] = {}
        self._transposes: dict[Value, tuple[Value, tuple[int, ...]]] = {}
        self._reshapes: dict[Value, Value] = {}
        self.arguments = [Value(spec) for spec in inputs]
        self.extents: Extents | None = None
        self.callbacks: list[Any] | None = None
        self.mesh: Mapping[str, int] | None = None

    # ---- operations --------------------------------------------------------------------------

    def operation(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[TensorSpec],
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[Block] = (),
    ) -> tuple[Value, ...]:
        """Add an operation of any dialect, such as `stablehlo.sort`, and return its results.

        Args:
            results: the types of the results.
            attributes: the attributes by name; for their values see `lowering.operations.Operation`.
        """
        values = tuple([Value(spec) for spec in results])
        self.operations.append(
            Operation(name, operands, values, attributes or {}, regions, self.source)
        )
        return values

    def op(
        self, name: str, *operands: Value, result: TensorSpec | None = None, **attributes: Any
    ) -> Value:
        """Add the operation `stablehlo.<name>`, which has one result and no region, and return the result.

        Args:
            result: the type of the result; not needed if the operands determine it, as for elementwise operations.

        Raises:
            DTypeError, ShapeError: the operands of an elementwise operation have different types.
            InvalidConfigError: `result` is missing, or contradicts the inferred type.
        """
        value = Value(result_of(name, operands, result))
        self.operations.append(
            Operation(f"stablehlo.{name}", operands, (value,), attributes, (), self.source)
        )
        return value

    def call(
        self, symbol: str, operands: Sequence[Value], results: Sequence[TensorSpec]
    ) -> tuple[Value, ...]:
        """Add a call of a private function of the module, and return its results."""
        return self.operation("func.call", operands, results, {"callee": Symbol(symbol)})

    # ---- functions and regions ---------------------------------------------------------------

    def inner(
        self, specs: Sequence[TensorSpec], emitters: Mapping[type[StdTensorOp], Any] | None = None
    ) -> Writer:
        """Return a writer of a function or region of the same module, by default with the same emitters."""
        emitters = self.emitters if emitters is None else emitters
        writer = Writer(specs, self.precision, self.platform, self.linalg, emitters)
        writer.functions, writer.symbols = self.functions, self.symbols
        writer.callbacks, writer.mesh = self.callbacks, self.mesh
        return writer

    def define(self, symbol: str, outputs: Sequence[Value], inner: Writer) -> str:
        """Add the operations of the writer `inner` as a private function, and return the function's name.

        The name is `symbol` with a number that makes it unique.
        """
        number = sum(name.rpartition("_")[0] == symbol for name in self.functions)
        name = f"{symbol}_{number}"
        self.functions[name] = Function(name, inner.body(outputs))
        return name

    def body(self, outputs: Sequence[Value]) -> Block:
        """Return the body of a function with these outputs.

        The body contains only operations on which the outputs depend, and operations with a side effect.
        """
        needed, live = set(outputs), list[Operation]()
        for operation in reversed(self.operations):
            if operation.has_effect or not needed.isdisjoint(operation.results):
                live.append(operation)
                needed.update(operation.reads)
        return Block(self.arguments, live[::-1], outputs)

    def region(
        self, arguments: Mapping[str, TensorSpec], write: Callable[..., Value | Sequence[Value]]
    ) -> Block:
        """Return a region with the operations that `write` adds, and with the values that it returns.

        The function `write` is called with a writer of the region and the region's arguments. The operations of the
        region may also use values of this writer.

        Args:
            arguments: the names and types of the region's arguments.
        """
        inner = self.inner(list(arguments.values()))
        for argument, name in zip(inner.arguments, arguments, strict=True):
            argument.name = name
        outputs = write(inner, *inner.arguments)
        outputs = (outputs,) if isinstance(outputs, Value) else outputs
        return Block(inner.arguments, inner.operations, outputs)

    def calling(
        self,
        symbol: str,
        specs: Sequence[TensorSpec],
        results: Sequence[TensorSpec],
        captured: Sequence[Value] = (),
    ) -> Block:
        """Return a region that calls a private function, and returns the function's results.

        The function's arguments are the captured values, then the region's arguments.

        Args:
            symbol: the name of the function.
            specs: the types of the region's arguments.
            results: the types of the results.
            captured: values of this writer.
        """

        def write(inner: Writer, *own: Value) -> Sequence[Value]:
            values = inner.call(symbol, (*captured, *own), results)
            return [value.called("r") for value in values]

        return self.region({f"a{i}": spec for i, spec in enumerate(specs)}, write)

    def combiner(self, name: str, dtype: DType) -> Block:
        """Return a region that combines two scalars by the operation `stablehlo.<name>`."""
        scalar = TensorSpec.of((), dtype)
        return self.region({"a": scalar, "b": scalar}, lambda w, a, b: w.op(name, a, b).called("c"))

    def while_loop(
        self,
        name: str,
        condition: Callable[..., Value],
        body: Callable[..., Sequence[Value]],
        *state: Value,
    ) -> tuple[Value, ...]:
        """Add a while loop, and return its final state.

        The functions `condition` and `body` write the regions. They are called with a writer and the state. They return
        a scalar bool and the new state.
        """
        specs = [value.spec for value in state]
        regions: list[Block] = []
        for stem, write in (("while", condition), ("do", body)):
            inner = self.inner(specs)
            outputs = write(inner, *inner.arguments)
            outputs = (outputs,) if isinstance(outputs, Value) else outputs
            symbol = self.define(f"{name}_{stem}", outputs, inner)
            regions.append(self.calling(symbol, specs, [value.spec for value in outputs]))
        return self.operation("stablehlo.while", state, specs, regions=regions)

    def module(
        self,
        outputs: Sequence[Value],
        argument_attributes: Sequence[Mapping[str, Any]] = (),
        result_attributes: Sequence[Mapping[str, Any]] = (),
        mesh: Sequence[tuple[str, int]] = (),
    ) -> Module:
        """Return the module with this function as `main`, and the functions that it calls.

        Args:
            argument_attributes, result_attributes: a dictionary for each argument and result; empty if there are no
                attributes.
            mesh: the name and size of each axis of a mesh.
        """
        body = self.body(outputs)
        main = Function("main", body, False, argument_attributes, result_attributes)
        wanted: set[str] = set()
        fresh = main.callees
        while fresh:
            wanted |= fresh
            fresh = {name for one in fresh for name in self.functions[one].callees} - wanted
        private = [function for name, function in self.functions.items() if name in wanted]
        return Module("main", main, private, mesh)

    # ---- extents that are not numbers ---------------------------------------------------------

    def shape(self, shape: Sequence[Any]) -> Value:
        """Add a vector of int64 with the extents of a shape, and return it.

        Raises:
            NonStaticShapeError: an extent is symbolic, and this writer cannot emit symbolic extents.
        """
        if self.extents is None and not all(map(is_static, shape)):
            raise NonStaticShapeError(
                f"StableHLO needs numbers for the extents {tuple(shape)} here; give concrete specs"
            )
        return (
            self.constant(shape, DType.I64) if self.extents is None else self.extents.shape(shape)
        )

    def extent(self, extent: Any) -> Value:
        """Add a scalar of int64 with the value of an extent, and return it."""
        if is_static(extent):
            return self.scalar(extent, DType.I64)
        return self.reshape(self.shape((extent,)), ())

    # ---- constants ---------------------------------------------------------------------------

    def constant(self, array: Any, dtype: DType | None = None) -> Value:
        """Add a constant with exactly these elements, and return it; an equal constant is reused."""
        array = np.asarray(array, None if dtype is None else dtype.dtype)
        spec = TensorSpec.of(array.shape, DType.of(array.dtype))
        key = (spec, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self._write_constant(array, spec)
        return self._constants[key]

    def _write_constant(self, array: Any, spec: TensorSpec) -> Value:
        if spec.dtype.is_bool and array.size > LONGEST_LIST and not is_splat(array):
            # The hexadecimal form of i1 constants differs between versions of MLIR. So a ui8 constant is written and
            # converted.
            return self.convert(self.constant(array.astype(np.uint8)), DType.Bool)
        return self.op("constant", result=spec, value=array)

    def full(self, number: Any, like: TensorSpec) -> Value:
        """Add a constant of the type `like` whose elements all equal `number`, and return it."""
        if not like.is_static:
            return self.broadcast(self.scalar(number, like.dtype), like.shape, ())
        return self.constant(np.full(like.shape, number, like.dtype.dtype))

    def scalar(self, number: Any, dtype: DType) -> Value:
        """Add a constant of rank 0, and return it."""
        return self.constant(np.asarray(number).astype(dtype.dtype))

    # ---- operations that the emitters of several op families use -----------------------------

    def convert(self, x: Value, dtype: DType) -> Value:
        """Convert x to another element type; return x itself if it already has this type."""
        if x.dtype is dtype:
            return x
        return self.op("convert", x, result=TensorSpec.of(x.shape, dtype))

    def bitcast(self, x: Value, dtype: DType) -> Value:
        """Reinterpret the bits of x as another element type; return x itself if it already has this type."""
        if x.dtype is dtype:
            return x
        old, new = x.dtype.bits, dtype.bits
        shape = x.shape if old == new else (*x.shape, old // new) if old > new else x.shape[:-1]
        return self.op("bitcast_convert", x, result=TensorSpec.of(shape, dtype))

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """Permute the axes of x; if x is itself a transpose, emit one combined transpose, or none if both cancel."""
        perm = tuple(perm)
        base, before = self._transposes.get(x, (x, tuple(range(x.rank))))
        whole = tuple(before[axis] for axis in perm)
        if whole == tuple(range(x.rank)):
            return base
        spec = TensorSpec.of(tuple(base.shape[axis] for axis in whole), x.dtype)
        value = self.op("transpose", base, result=spec, dims=whole)
        self._transposes[value] = (base, whole)
        return value

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Reshape x in row-major order; if x is itself a reshape, its operand is reshaped instead."""
        shape = tuple(shape)
        base = self._reshapes.get(x, x)
        if base.shape == shape:
            return base
        spec = TensorSpec.of(shape, x.dtype)
        value = (
            self.op("reshape", base, result=spec)
            if spec.is_static
            else self.op("dynamic_reshape", base, self.shape(shape), result=spec)
        )
        self._reshapes[value] = base
        return value

    def broadcast(self, x: Value, shape: Sequence[int], dims: Sequence[int]) -> Value:
        """Broadcast x to `shape`; axis j of x is axis dims[j] of the result."""
        shape, dims = tuple(shape), tuple(dims)
        if shape == x.shape and dims == tuple(range(x.rank)):
            return x
        spec = TensorSpec.of(shape, x.dtype)
        if spec.is_static:
            return self.op("broadcast_in_dim", x, result=spec, dims=dims)
        name = "dynamic_broadcast_in_dim"
        return self.op(name, x, self.shape(shape), result=spec, dims=dims)

    def slice(
        self,
        x: Value,
        starts: Sequence[Any],
        limits: Sequence[Any],
        strides: Sequence[int],
        result: TensorSpec,
    ) -> Value:
        """Add `stablehlo.slice %x [start:limit:stride, ..]`, or `real_dynamic_slice` if bounds are symbolic."""
        if not all(map(is_static, (*starts, *limits))):
            bounds = [self.shape(starts), self.shape(limits), self.shape(strides)]
            return self.op("real_dynamic_slice", x, *bounds, result=result)
        bounds = {"start_indices": starts, "limit_indices": limits, "strides": strides}
        return self.op("slice", x, result=result, **bounds)

    def compare(self, direction: str, lhs: Value, rhs: Value) -> Value:
        """Compare elements in the direction "EQ", "NE", "LT", "LE", "GT" or "GE", and return bools."""
        spec = TensorSpec.of(lhs.shape, DType.Bool)
        how = {"comparison_direction": direction, "compare_type": comparison_type(lhs.dtype)}
        return self.op("compare", lhs, rhs, result=spec, **how)

    def select(self, pred: Value, on_true: Value, on_false: Value) -> Value:
        """Select elements of `on_true` where `pred` is true, else of `on_false`."""
        return self.op("select", pred, on_true, on_false, result=on_true.spec)

    def iota(self, shape: Sequence[int], axis: int, dtype: DType = DType.I64) -> Value:
        """Return a tensor whose elements are their own indices along one axis.

        If the dtype is complex, a real iota is converted. XLA would treat a complex iota as real, and abort on its
        absolute value.
        """
        if dtype.is_complex:
            spec = TensorSpec.of(tuple(shape), dtype)
            counts = self.iota(shape, axis, dtype.real)
            return self.op("complex", counts, self.full(0, counts.spec))
        spec = TensorSpec.of(tuple(shape), dtype)
        if not spec.is_static:
            return self.op("dynamic_iota", self.shape(shape), result=spec, dim=axis)
        return self.op("iota", result=spec, dim=axis)

    def reduce(self, name: str, x: Value, initial: Value, axes: Sequence[int]) -> Value:
        """Reduce x along `axes` by the operation stablehlo.`name`; without axes, return x."""
        if not axes:
            return x
        dropped = set(axes)
        shape = tuple(n for axis, n in enumerate(x.shape) if axis not in dropped)
        spec = TensorSpec.of(shape, x.dtype)
        dimensions = {"dimensions": Integers(axes)}
        combiner = self.combiner(name, x.dtype)
        return self.operation("stablehlo.reduce", (x, initial), (spec,), dimensions, [combiner])[0]

    def barrier(self, *operands: Value) -> tuple[Value, ...]:
        """Pass the operands through an optimization barrier, which keeps compilers from moving code across it."""
        specs = [x.spec for x in operands]
        return self.operation("stablehlo.optimization_barrier", operands, specs)


def comparison_type(dtype: DType) -> str:
    """Return StableHLO's `compare_type` for this dtype."""
    if dtype.is_inexact:
        return "FLOAT"
    return "SIGNED" if dtype.kind == "i" else "UNSIGNED"
