"""Rewriting of scalars and indices of other MLIR dialects, before a module is read.

Modules with dynamic shapes may compute extents with such scalars. Scalars are replaced by tensors of rank 0, the type
`index` by int64, and operations on scalars by StableHLO operations.

Source: MLIR's `arith`, `shape` and `tensor` dialects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lowering.module_tree import Block, ForeignType, Function, ModuleTree, Operation, Type
from lowering.types import dtype_of_element
from tenferro.dims import UNKNOWN
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.types import DType, TensorSpec

__all__ = ["SCALAR_OPERATIONS", "without_scalars"]

ELEMENTWISE: Mapping[str, str] = {
    "arith.addf": "add",
    "arith.addi": "add",
    "arith.divf": "divide",
    "arith.index_cast": "convert",
    "arith.maxsi": "maximum",
    "arith.minsi": "minimum",
    "arith.mulf": "multiply",
    "arith.muli": "multiply",
    "arith.negf": "negate",
    "arith.subf": "subtract",
    "arith.subi": "subtract",
}
SCALAR_OPERATIONS: Mapping[str, str] = {
    **{name: f"replaced by `stablehlo.{plain}`" for name, plain in ELEMENTWISE.items()},
    "shape.const_shape": "replaced by `stablehlo.constant`",
    "shape.shape_of": "replaced by `stablehlo.get_dimension_size`",
    "tensor.dim": "replaced by `stablehlo.get_dimension_size`",
    "tensor.extract": "replaced by `stablehlo.dynamic_slice`",
    "tensor.from_elements": "replaced by `stablehlo.concatenate`",
}
"""Operations of other dialects that are replaced before reading, with descriptions of the replacements."""
_INDICES = re.compile(r"tensor<((?:(?:\d+|\?)x)*)index>")


def without_scalars(tree: ModuleTree) -> ModuleTree:
    """Return the module with scalars replaced by tensors of rank 0, and indices by int64.

    Raises:
        UnsupportedError: the axis of a `tensor.dim` is not a constant.
    """
    types = [spec for operation in tree.operations() for spec in operation.types]
    types += [spec for function in tree.functions.values() for spec in function.body.types]
    is_plain = all([_tensor(spec) is spec for spec in types])
    if is_plain and not tree.operation_names() & SCALAR_OPERATIONS.keys():
        return tree
    functions = {name: _without(function) for name, function in tree.functions.items()}
    return replace(tree, functions=functions)


def _tensor(spec: Type) -> Type:
    """Return the tensor type that replaces the type of a scalar or of indices; return any other type unchanged.

    >>> _tensor(ForeignType("index")), _tensor(ForeignType("tensor<2x?xindex>"))
    (i64[], i64[2,?])
    """
    if isinstance(spec, TensorSpec):
        return spec
    dtype = DType.I64 if spec.text == "index" else dtype_of_element(spec.text)
    if dtype is not None:
        return TensorSpec.of((), dtype)
    match = _INDICES.fullmatch(spec.text)
    if match is None:
        return spec
    extents = match[1].split("x")[:-1]
    return TensorSpec.of(tuple([UNKNOWN if n == "?" else int(n) for n in extents]), DType.I64)


def _without(function: Function) -> Function:
    return replace(
        function,
        body=_Rewriting(max(function.body.values(), default=-1) + 1).block(function.body),
        result_types=tuple(map(_tensor, function.result_types)),
    )


class _Rewriting:
    """Rewriter that replaces the scalars of one function.

    Attributes:
        free: the number that the next added value gets.
        constants: the integers that `arith.constant` defines, by value number.
    """

    def __init__(self, free: int) -> None:
        self.free = free
        self.constants: dict[int, int] = {}

    def block(self, block: Block) -> Block:
        operations = [
            rewritten for operation in block.operations for rewritten in self.operation(operation)
        ]
        return replace(block, types=tuple(map(_tensor, block.types)), operations=operations)

    def operation(self, operation: Operation) -> Sequence[Operation]:
        types = tuple(map(_tensor, operation.types))
        regions = tuple(map(self.block, operation.regions))
        operation = replace(operation, types=types, regions=regions)
        rewrite = _REWRITES.get(operation.name)
        if rewrite is not None:
            return rewrite(self, operation)
        plain = ELEMENTWISE.get(operation.name)
        return [operation if plain is None else replace(operation, name=f"stablehlo.{plain}")]

    def constant(self, operation: Operation) -> Sequence[Operation]:
        value, (spec,) = operation.attributes.get("value"), operation.types
        if isinstance(spec, ForeignType) or spec.rank:
            return [operation]
        if isinstance(value, int | float):
            if isinstance(value, int):
                self.constants[operation.results[0]] = int(value)
            try:
                value = np.asarray(value, spec.dtype.dtype)
            except OverflowError:
                raise InvalidConfigError(f"arith.constant: {value} is no {spec.dtype}") from None
            return [replace(operation, attributes={**operation.attributes, "value": value})]
        return [operation]

    def extents(self, operation: Operation) -> Sequence[Operation]:
        value = np.asarray(operation.attributes["shape"], np.int64)
        return [replace(operation, name="stablehlo.constant", attributes={"value": value})]

    def dimension(self, operation: Operation) -> Sequence[Operation]:
        x, axis = operation.operands
        if axis not in self.constants:
            raise UnsupportedError("tensor.dim: its axis must be a constant of arith")
        name, attributes = "stablehlo.get_dimension_size", {"dimension": self.constants[axis]}
        return [replace(operation, name=name, operands=(x,), attributes=attributes)]

    def shape(self, operation: Operation) -> Sequence[Operation]:
        """Rewrite `shape.shape_of` to an operation for each extent, and a concatenation of the extents."""
        (spec,) = operation.types
        if not isinstance(spec, TensorSpec) or not spec.is_static or spec.rank != 1:
            raise UnsupportedError(f"shape.shape_of: the rank must be known, got {spec}")
        scalar = TensorSpec.of((), spec.dtype)
        made = [
            self.step(operation, "get_dimension_size", operation.operands, scalar, dimension=axis)
            for axis in range(int(spec.shape[0]))
        ]
        extents = tuple([step.results[0] for step in made])
        return [*made, *self.elements(replace(operation, operands=extents))]

    def extracted(self, operation: Operation) -> Sequence[Operation]:
        """Rewrite `tensor.extract`, which selects one element, to a slice; an index out of bounds is clipped.

        If all indices are constants, an index out of bounds is an error.
        """
        (spec,) = operation.types
        if not isinstance(spec, TensorSpec):
            return [operation]  # unchanged, because the reader rejects its type
        x, *places = operation.operands
        ones = (1,) * len(places)
        one = TensorSpec.of(ones, spec.dtype)
        if all([place in self.constants for place in places]):
            starts = tuple([self.constants[place] for place in places])
            limits = tuple([start + 1 for start in starts])
            bounds = {"start_indices": starts, "limit_indices": limits, "strides": ones}
            made = self.step(operation, "slice", (x,), one, **bounds)
        else:
            made = self.step(operation, "dynamic_slice", operation.operands, one, slice_sizes=ones)
        return [made, replace(operation, name="stablehlo.reshape", operands=made.results)]

    def elements(self, operation: Operation) -> Sequence[Operation]:
        (spec,) = operation.types
        if not isinstance(spec, TensorSpec):
            return [operation]  # unchanged, because the reader rejects its type
        dtype, count = spec.dtype, len(operation.operands)
        made: list[Operation] = []
        for x in operation.operands:
            made.append(self.step(operation, "reshape", (x,), TensorSpec.of((1,), dtype)))
        if count:
            parts = tuple([step.results[0] for step in made])
            joined = TensorSpec.of((count,), dtype)
            made.append(self.step(operation, "concatenate", parts, joined, dimension=0))
            last = replace(operation, name="stablehlo.reshape", operands=made[-1].results)
        else:
            if not spec.is_static or spec.size:
                raise InvalidConfigError(f"tensor.from_elements: no elements for {spec}")
            nothing = {"value": np.zeros(spec.shape, dtype.dtype)}
            last = replace(operation, name="stablehlo.constant", attributes=nothing)
        return [*made, last]

    def step(
        self,
        like: Operation,
        name: str,
        operands: tuple[int, ...],
        spec: TensorSpec,
        **attributes: Any,
    ) -> Operation:
        """Build the operation stablehlo.`name` with one result, at the location of the operation `like`."""
        self.free += 1
        results = (self.free - 1,)
        name = f"stablehlo.{name}"
        return Operation(name, operands, results, (spec,), dict(attributes), (), like.location)


_REWRITES: Mapping[str, Callable[[_Rewriting, Operation], Sequence[Operation]]] = {
    "arith.constant": _Rewriting.constant,
    "shape.const_shape": _Rewriting.extents,
    "shape.shape_of": _Rewriting.shape,
    "tensor.dim": _Rewriting.dimension,
    "tensor.extract": _Rewriting.extracted,
    "tensor.from_elements": _Rewriting.elements,
}
