"""`StdTensorOp`: the base class of ops, whose classes are called cards."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, dataclass_transform

from tenferro.dims import GuardLog, SymDim, resolve_shape
from tenferro.errors import ArityError
from tenferro.types import DType, TensorSpec

__all__ = ["StdTensorOp", "card", "normalize"]


Card = TypeVar("Card")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def card(cls: type[Card]) -> type[Card]:
    """Make an op class a frozen dataclass. Its fields are the payload, which are the parameters of the op.

    `StdTensorOp` defines the methods that all op classes share. If `dataclass` generated them, it would compile them
    for each class, which would take longer than the rest of the import.
    """
    card_class: Any = dataclass(repr=False, eq=False)(cls)
    compared = [entry.name for entry in fields(card_class) if entry.compare]
    if compared:
        card_class.payload_of = attrgetter(*compared)
        card_class.token = property(lambda op: op)
    return card_class


@card
class StdTensorOp:
    """Base class of ops.

    A class describes an op; an instance contains values for the parameters of the op, its payload.

    An op class (card) without payload is a plain subclass; a class with payload is declared with `@card`. Ops of one
    class with equal payloads are equal.

    The docstring of a class states the formula, shapes, dtypes and errors of the op. The class contains only the rule
    that all layers share, which infers the types of the outputs from the types of the inputs. What a layer does with
    the op is an entry in the table of that layer.

    The documentation page of the op also lists the errors of its base class. If the op is lowered to one StableHLO
    operation, the page shows that operation and its definition.

    Source: docs/specification/primitives.md.
    """

    accepts: ClassVar[frozenset[DType]]
    """Accepted dtypes of the operand that determines the dtype of the result."""
    input_count: ClassVar[Any] = 1
    output_count: ClassVar[Any] = 1
    ufunc: ClassVar[str] = ""
    """Name of the NumPy function that computes the op; empty if NumPy has no such function."""
    has_effects: ClassVar[Any] = False
    """Whether the op has effects besides computing its outputs. Ops with effects are neither merged nor removed."""

    parts: ClassVar[Any] = ()
    """The sub-programs of a loop, a conditional or alternatives; empty for other ops."""
    payload_of: ClassVar[attrgetter[Any] | None] = None
    """Function that returns the fields by which ops of the class are compared; None for a class without payload."""
    token: ClassVar[Any]
    """Key that equal ops share. For an op without payload it is the class, because a class is fastest to hash."""

    def __init_subclass__(cls) -> None:
        if cls.payload_of is None:
            cls.token = cls

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return False
        payload = type(self).payload_of
        return payload is None or payload(self) == payload(other)

    def __hash__(self) -> int:
        payload = type(self).payload_of
        return hash(type(self) if payload is None else (type(self), payload(self)))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise FrozenInstanceError(f"{self.name} is immutable: cannot assign {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"{self.name} is immutable: cannot delete {name!r}")

    def __repr__(self) -> str:
        shown = (
            f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr
        )
        return f"{self.name}({', '.join(shown)})"

    @property
    def name(self) -> str:
        """The name of the op: the name of its class."""
        return type(self).__name__

    def infer(self, *inputs: TensorSpec, guards: GuardLog | None = None) -> tuple[TensorSpec, ...]:
        """Infer the types of the outputs, also for symbolic extents.

        Conditions on extents that can only be decided at run time are added to `guards`.

        Raises:
            ArityError, ShapeError, DTypeError: the errors that the docstring of the op's class states.
        """
        if len(inputs) != self.input_count:
            raise ArityError(f"{self.name}: expected {self.input_count} inputs, got {len(inputs)}")
        return self.output_types(inputs, GuardLog() if guards is None else guards)

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        """Infer the types of the outputs, given the right number of inputs. This is the shape rule of the op."""
        raise NotImplementedError(f"{self.name} states no shape rule")

    def specialize(self, bindings: Any) -> StdTensorOp:
        """Return the op with numbers in place of the symbols in its payload."""
        changes = {
            field.name: _bind(getattr(self, field.name), bindings)
            for field in fields(self)
            if _mentions_symbol(getattr(self, field.name))
        }
        if not changes:
            return self
        payload = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self)(**(payload | changes))

    def resolved(self, field: str, input_shapes: Any) -> tuple[Any, ...]:
        """Return the shape in the payload's field `field`, with each `DimExpr` evaluated for `input_shapes`."""
        return resolve_shape(getattr(self, field), input_shapes)

    def __str__(self) -> str:
        shown = ", ".join(
            f"{field.name}={_show(getattr(self, field.name))}"
            for field in fields(self)
            if field.repr and getattr(self, field.name) != field.default
        )
        return f"{self.name}({shown})" if shown else self.name


def normalize(op: Any, **values: Any) -> None:
    """Set fields of a frozen op to their normal form. Each op class calls this function in its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(op, name, value)


def _mentions_symbol(value: Any) -> bool:
    return isinstance(value, SymDim) or (
        isinstance(value, tuple) and any(isinstance(item, SymDim) for item in value)
    )


def _bind(value: Any, bindings: Any) -> Any:
    if isinstance(value, SymDim):
        return value.evaluate(bindings)
    return tuple(item.evaluate(bindings) if isinstance(item, SymDim) else item for item in value)


def _show(value: Any) -> str:
    return str(value) if isinstance(value, DType | SymDim) else repr(value)
