"""Data classes for StableHLO modules that are written: values, operations with regions, functions and modules.

Emitters create these records through `lowering.writer`; `lowering.printer` writes them as text.

Source: MLIR's language reference; xDSL's `Operation`, for regions as children of an operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenferro.types import DType, TensorSpec

__all__ = [
    "Block",
    "Dense",
    "Enum",
    "Function",
    "Integer",
    "Integers",
    "Literal",
    "Module",
    "Operation",
    "PrintedFunction",
    "Struct",
    "Symbol",
    "Value",
]


@dataclass(slots=True, eq=False)
class Value:
    """SSA value: a result of an operation, or an argument of a block.

    Attributes:
        name: the value's name in the text; the printer numbers values without a name.
    """

    spec: TensorSpec
    name: str = ""

    def called(self, name: str) -> Value:
        """Set the name of the value, and return the value."""
        self.name = name
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the value's axes."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        """The element type of the value."""
        return self.spec.dtype

    @property
    def rank(self) -> int:
        """The number of axes of the value."""
        return len(self.spec.shape)


@dataclass(slots=True, eq=False)
class Operation:
    """An operation, with its dialect in the name: `stablehlo.add`.

    Attributes:
        attributes: Python values (bool, int for i64, float for f64, str, list and dict), NumPy arrays for
            constants, and the classes below for all other attributes.
        regions: blocks that the operation runs; they may use values of the enclosing blocks.
        source: the user's line, which the text shows as the operation's location.
    """

    name: str
    operands: Sequence[Value]
    results: tuple[Value, ...]
    attributes: Mapping[str, Any]
    regions: Sequence[Block] = ()
    source: Any = None

    @property
    def has_effect(self) -> bool:
        """Whether the operation has a side effect. Such an operation is written even if nothing uses its results."""
        return bool(self.attributes.get("has_side_effect"))

    @property
    def reads(self) -> Iterator[Value]:
        """Every value that the operation or its regions use."""
        yield from self.operands
        for region in self.regions:
            for operation in region.operations:
                yield from operation.reads
            yield from region.outputs

    @property
    def symbols(self) -> Iterator[str]:
        """The names of the functions that the operation or its regions refer to."""
        for attribute in self.attributes.values():
            if type(attribute) is Symbol:
                yield attribute.name
        for region in self.regions:
            for operation in region.operations:
                yield from operation.symbols


@dataclass(slots=True, eq=False)
class Block:
    """A region or the body of a function: its arguments, its operations, and the values that it returns."""

    arguments: Sequence[Value]
    operations: Sequence[Operation]
    outputs: Sequence[Value]


@dataclass(slots=True, eq=False)
class Function:
    """A function of a module; every function but `main` is private.

    Attributes:
        argument_attributes, result_attributes: one dictionary per argument and result; empty if none has attributes.
    """

    symbol: str
    body: Block
    is_private: bool = True
    argument_attributes: Sequence[Mapping[str, Any]] = ()
    result_attributes: Sequence[Mapping[str, Any]] = ()

    @property
    def callees(self) -> set[str]:
        """The names of the functions that this function refers to."""
        return {symbol for operation in self.body.operations for symbol in operation.symbols}


@dataclass(slots=True, eq=False)
class PrintedFunction:
    """A private function whose text another compiler has printed. It calls no other function."""

    text: str
    callees: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class Module:
    """A module: its public function `main`, its private functions, and its mesh.

    Attributes:
        mesh: the name and size of each axis of the mesh of devices; empty without a mesh.
    """

    name: str
    main: Function
    private: Sequence[Function | PrintedFunction] = ()
    mesh: Sequence[tuple[str, int]] = ()


# ---- attributes ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a function as an attribute: `@name`."""

    name: str


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer attribute of a type other than i64: `4 : i32`."""

    value: int
    type: str


@dataclass(frozen=True, slots=True)
class Integers:
    """An array of i64: `array<i64: 1, 2>`."""

    values: Sequence[int]


@dataclass(frozen=True, slots=True)
class Dense:
    """A tensor of integers, given as nested lists: `dense<[[0, 1]]> : tensor<1x2xi64>`."""

    values: Sequence[Any]
    type: str


@dataclass(frozen=True, slots=True)
class Enum:
    """A value of one of StableHLO's enumerations: `#stablehlo<transpose ADJOINT>`."""

    kind: str
    member: str


@dataclass(frozen=True, slots=True)
class Struct:
    """A structured attribute of StableHLO, such as `#stablehlo.gather<offset_dims = [0], index_vector_dim = 1>`."""

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Literal:
    """An attribute that is given as text, for dialects whose attributes have no class in this module."""

    text: str
