"""A StableHLO module as plain data: functions consist of blocks, blocks of operations on numbered values.

The tree has no MLIR objects: types are `TensorSpec`s, and attributes are numbers, strings, tuples, dictionaries and
arrays. The number of a value is unique within a function and its regions, so a region can refer to values of the
enclosing blocks.
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
    """Return whether a type is StableHLO's token, which orders effects."""
    return isinstance(spec, ForeignType) and "token" in spec.text


@dataclass(slots=True)
class Operation:
    """One operation.

    Attributes:
        name: its name with the dialect, such as "stablehlo.add".
        operands, results: value numbers.
        types: types of the results.
        attributes: attributes by name, without defaults that the text omits.
        regions: the block of each region.
        location: file and line, as MLIR prints them.
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
        """The backend configuration of a custom call: a dictionary, a string, or None.

        JAX writes it as an attribute of another dialect.
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
    """Arguments and operations; the last operation returns the results."""

    arguments: tuple[int, ...]
    types: tuple[Type, ...]
    operations: list[Operation]

    def walk(self) -> Iterator[Operation]:
        """Yield every operation, including those in regions."""
        waiting: list[Block] = [self]
        while waiting:
            for operation in waiting.pop().operations:
                yield operation
                waiting += operation.regions

    def values(self) -> Iterator[int]:
        """Yield the numbers of all values: arguments and results, including those in regions."""
        yield from self.arguments
        for operation in self.walk():
            yield from operation.results
            for region in operation.regions:
                yield from region.arguments


@dataclass(slots=True)
class Function:
    """A function: its body, its types, and the names of arguments and results if they have names.

    The body of a declaration has no operations.
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
        nested: the modules inside, which are verified, and which nothing reads.
    """

    name: str
    functions: dict[str, Function] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    meshes: dict[str, str] = field(default_factory=dict)
    nested: list[ModuleTree] = field(default_factory=list)

    def operations(self) -> Iterator[Operation]:
        """Yield every operation, including those in regions."""
        for function in self.functions.values():
            yield from function.body.walk()

    def has_unknown_extents(self) -> bool:
        """Return whether any result has a dynamic extent."""
        types = [spec for operation in self.operations() for spec in operation.types]
        return any(map(has_unknown_extents, types))

    def operation_names(self) -> set[str]:
        """Return the names of the operations that occur."""
        return {operation.name for operation in self.operations()}
