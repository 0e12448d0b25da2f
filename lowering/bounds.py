"""Bounded dynamic extents: MLIR types with bounds are replaced by `TensorSpec`s before a module is read.

Source: StableHLO's document on bounded dynamism.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from lowering.module_tree import Block, ForeignType, ModuleTree, Type
from lowering.types import dtype_of_element
from tenferro.dims import UNKNOWN, UpperBound
from tenferro.errors import InvalidConfigError
from tenferro.types import TensorSpec

__all__ = ["bounded", "has_bounds", "with_bounds"]

_BOUNDED = re.compile(
    r"tensor<((?:(?:\d+|\?)x)+)([\w<>]+), (?:#stablehlo\.bounds<|#stablehlo\.type_extensions<bounds = \[)"
    r"((?:\d+|\?)(?:, (?:\d+|\?))*)\]?>>"
)


def with_bounds(tree: ModuleTree) -> ModuleTree:
    """Return the module with `UpperBound`s in place of StableHLO's bounded dynamic extents.

    >>> bounded(ForeignType("tensor<?x2xf32, #stablehlo.bounds<4, ?>>"))
    f32[<=4,2]
    """
    types = [spec for operation in tree.operations() for spec in operation.types]
    types += [spec for function in tree.functions.values() for spec in function.body.types]
    if all([bounded(spec) is spec for spec in types]):
        return tree
    functions = {
        name: replace(
            function,
            body=_bounded_block(function.body),
            result_types=tuple(map(bounded, function.result_types)),
        )
        for name, function in tree.functions.items()
    }
    return replace(tree, functions=functions)


def has_bounds(types: Sequence[Type]) -> bool:
    """Return whether `types` contains a tensor with an `UpperBound` among its extents."""
    shapes = [spec.shape for spec in types if isinstance(spec, TensorSpec)]
    return any([isinstance(extent, UpperBound) for shape in shapes for extent in shape])


def bounded(spec: Type) -> Type:
    """Convert a type with StableHLO bounds to a `TensorSpec`; return any other type unchanged.

    Raises:
        InvalidConfigError: a type has more or fewer bounds than extents, or a static extent has a bound.
    """
    match = _BOUNDED.fullmatch(spec.text) if isinstance(spec, ForeignType) else None
    if match is None:
        return spec
    dtype = dtype_of_element(match[2])
    if dtype is None:
        return spec
    extents, bounds = match[1].split("x")[:-1], match[3].split(", ")
    pairs = list(zip(extents, bounds, strict=False))
    if len(extents) != len(bounds) or any(["?" not in pair for pair in pairs]):
        raise InvalidConfigError(f"{spec}: bounds belong to open extents, one to each")
    shape = [
        int(extent) if extent != "?" else UNKNOWN if bound == "?" else UpperBound(int(bound))
        for extent, bound in pairs
    ]
    return TensorSpec.of(tuple(shape), dtype)


def _bounded_block(block: Block) -> Block:
    operations = [
        replace(
            operation,
            types=tuple(map(bounded, operation.types)),
            regions=tuple(map(_bounded_block, operation.regions)),
        )
        for operation in block.operations
    ]
    return replace(block, types=tuple(map(bounded, block.types)), operations=operations)
