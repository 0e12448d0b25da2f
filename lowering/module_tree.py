"""A StableHLO module as plain data: a function has a block, and a block is a list of operations on numbered values.

The tree contains no MLIR objects. Types are `TensorSpec`s or `ForeignType`s. Attributes are numbers, strings, tuples,
dictionaries and arrays. The number of a value is unique within a function and its regions, so a region can refer to
values of the enclosing blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tenferro.errors import UnsupportedError
from tenferro.types import TensorSpec

__all__ = [
    "Block",
    "ForeignType",
    "Function",
    "ModuleTree",
    "Operation",
    "Type",
    "has_unknown_extents",
]


@dataclass(frozen=True)
class ForeignType:
    """A type other than a tensor of a supported dtype, as MLIR prints it."""

    text: str

    def __str__(self) -> str:
        return self.text


Type = TensorSpec | ForeignType


def has_unknown_extents(spec: Type) -> bool:
    """Return whether a type has a dynamic extent."""
    return "?" in spec.text if isinstance(spec, ForeignType) else not spec.is_static


def is_token(spec: Type) -> bool:
    """Return whether a type is StableHLO's token type; tokens order operations with side effects."""
    return isinstance(spec, ForeignType) and "token" in spec.text


@dataclass(slots=True)
class Operation:
    """An operation of a block.

    Attributes:
        name: the name with the dialect, such as "stablehlo.add".
        operands, results: the numbers of these values.
        types: the types of the results.
        attributes: the attributes by name. Default values that the text omits are not added.
        regions: the block of each region.
        location: file, line and column, as MLIR prints them.
    """

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    types: tuple[Type, ...]
    attributes: dict[str, Any]
    regions: tuple[Block, ...]
    location: str

    @property
    def config(self) -> Any:
        """The attribute `backend_config` of a custom call: a dictionary, a string, or None.

        JAX writes dictionaries as the attribute `mhlo.backend_config` instead.
        """
        return self.attributes.get("mhlo.backend_config") or self.attributes.get("backend_config")

    @property
    def spec(self) -> TensorSpec:
        """The type of the first result.

        Raises:
            UnsupportedError: the type is not a tensor of a supported dtype.
        """
        first = self.types[0]
        if not isinstance(first, TensorSpec):
            raise UnsupportedError(f"{self.name}: results of type {first}")
        return first


@dataclass(slots=True)
class Block:
    """The arguments and operations of a function or region; the last operation returns the results."""

    arguments: tuple[int, ...]
    types: tuple[Type, ...]
    operations: list[Operation]

    def walk(self) -> Iterator[Operation]:
        """Yield every operation of the block, including operations in regions."""
        waiting: list[Block] = [self]
        while waiting:
            for operation in waiting.pop().operations:
                yield operation
                waiting += operation.regions

    def values(self) -> Iterator[int]:
        """Yield the numbers of all arguments and results in the block, including values in regions."""
        yield from self.arguments
        for operation in self.walk():
            yield from operation.results
            for region in operation.regions:
                yield from region.arguments


@dataclass(slots=True)
class Function:
    """A function of a module.

    The types of the arguments are `body.types`. `argument_names` and `result_names` are empty, or contain "", if the
    module does not name its arguments or results. A function that is only declared has a body without operations.
    """

    name: str
    body: Block
    result_types: tuple[Type, ...]
    argument_names: tuple[str, ...]
    result_names: tuple[str, ...]


@dataclass(slots=True)
class ModuleTree:
    """A module: its functions by name, its attributes, and the text of Shardy's meshes by name.

    Attributes:
        nested: modules inside the module. They are verified, but not converted to programs.
    """

    name: str
    functions: dict[str, Function] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    meshes: dict[str, str] = field(default_factory=dict)
    nested: list[ModuleTree] = field(default_factory=list)

    def operations(self) -> Iterator[Operation]:
        """Yield every operation of every function, including operations in regions."""
        for function in self.functions.values():
            yield from function.body.walk()

    def has_unknown_extents(self) -> bool:
        """Return whether any result of any operation has a dynamic extent."""
        types = [spec for operation in self.operations() for spec in operation.types]
        return any(map(has_unknown_extents, types))

    def operation_names(self) -> set[str]:
        """Return the names of all operations in the module."""
        return {operation.name for operation in self.operations()}
