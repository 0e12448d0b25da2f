"""Extents that a module computes when it runs.

The values of symbols are read from the shapes of the arguments. From these values the module computes shape operands of
dynamic operations and the conditions of assertions.

Source: StableHLO spec, "dynamic_reshape" and other dynamic operations; StableHLO's document on dynamism, for
`shape_assertion`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from lowering.operations import Integer, Value
from tenferro.dims import Guard, InputAxis, SymDim, is_static
from tenferro.dims.polynomial import Operation
from tenferro.errors import NonStaticShapeError
from tenferro.types import DType, TensorSpec

if TYPE_CHECKING:
    from lowering.writer import Writer

__all__ = ["Extents"]

_OPERATIONS = {"//": "_divide", "%": "_modulo", "min": "_minimum", "max": "_maximum"}
_I32 = TensorSpec.of((), DType.I32)


class Extents:
    """Emitter of operations that compute symbolic extents of one function, as int64 scalars.

    The value of a symbol is the extent of the first axis of an argument that is declared as this symbol.

    Args:
        extents: a dictionary from the symbols that the caller passes as scalars to the arguments that contain them.

    Raises:
        NonStaticShapeError: no axis of an argument is declared as a symbol that is needed.
    """

    def __init__(self, writer: Writer, extents: Mapping[Any, Value] | None = None) -> None:
        self._writer = writer
        self._places: dict[Any, tuple[Value, int]] = {}
        self._known: dict[Any, Value] = {}
        self._given = dict(extents or {})
        specs = [argument.spec for argument in writer.arguments]
        for index, (argument, spec) in enumerate(zip(writer.arguments, specs, strict=True)):
            for axis, extent in enumerate(spec.shape):
                if isinstance(extent, SymDim) and (leaf := extent.as_leaf()) is not None:
                    self._places.setdefault(leaf, (argument, axis))
                self._places.setdefault(InputAxis(index, axis), (argument, axis))

    def value(self, extent: Any) -> Value:
        """Emit the extent as a scalar of int64."""
        if is_static(extent):
            return self._writer.scalar(extent, DType.I64)
        for operation in extent.operations:
            if operation not in self._known:
                sides = self.value(operation.lhs), self.value(operation.rhs)
                self._known[operation] = getattr(self, _OPERATIONS[operation.kind])(*sides)
        if extent not in self._known:
            terms = [self._term(monomial, factor) for monomial, factor in extent.terms]
            self._known[extent] = reduce(self._add, terms)
        return self._known[extent]

    def _term(self, monomial: Any, factor: int) -> Value:
        atoms = [atom for atom, power in monomial for _ in range(power)]
        values = [self._known[a] if isinstance(a, Operation) else self.leaf(a) for a in atoms]
        if factor != 1 or not values:
            values.append(self.value(factor))
        return reduce(self._multiply, values)

    @property
    def symbols(self) -> list[Any]:
        """The symbols and argument axes whose extent the method `leaf` can emit."""
        return list({**self._given, **self._places})

    def leaf(self, leaf: Any) -> Value:
        """Emit the value of one symbol, or the extent of one input axis, as an int64 scalar."""
        if leaf in self._given:
            return self._given[leaf]
        if leaf not in self._places:
            raise NonStaticShapeError(
                f"no axis of an input is the symbol {leaf} and nothing more, so the module cannot "
                "know it; give concrete specs"
            )
        return self.measured(*self._places[leaf])

    def measured(self, x: Value, axis: int) -> Value:
        """Emit an operation that returns the extent of an argument's axis at run time, as an int64 scalar."""
        w = self._writer
        key = (x, axis)
        if key not in self._known:
            size = w.op("get_dimension_size", x, result=_I32, dim=axis)
            self._known[key] = w.convert(size, DType.I64)
        return self._known[key]

    def _op(self, name: str, lhs: Value, rhs: Value) -> Value:
        return self._writer.op(name, lhs, rhs)

    def _add(self, lhs: Value, rhs: Value) -> Value:
        return self._op("add", lhs, rhs)

    def _multiply(self, lhs: Value, rhs: Value) -> Value:
        return self._op("multiply", lhs, rhs)

    def _minimum(self, lhs: Value, rhs: Value) -> Value:
        return self._op("minimum", lhs, rhs)

    def _maximum(self, lhs: Value, rhs: Value) -> Value:
        return self._op("maximum", lhs, rhs)

    def _modulo(self, lhs: Value, rhs: Value) -> Value:
        """Emit `lhs % rhs` for a positive rhs, with Python's meaning: the remainder is not negative."""
        return self._op("remainder", self._add(self._op("remainder", lhs, rhs), rhs), rhs)

    def _divide(self, lhs: Value, rhs: Value) -> Value:
        """Emit Python's `lhs // rhs`: the quotient rounded down."""
        return self._op("divide", self._op("subtract", lhs, self._modulo(lhs, rhs)), rhs)

    def shape(self, shape: Sequence[Any]) -> Value:
        """Emit a shape, whose extents may be symbolic, as a vector of int64."""
        w = self._writer
        if all(map(is_static, shape)):
            return w.constant(shape, DType.I64)
        shape = tuple(shape)
        if shape not in self._known:
            parts = [self._entry(extent) for extent in shape]
            whole = TensorSpec.of((len(parts),), DType.I64)
            joined = (
                w.op("concatenate", *parts, result=whole, dim=0) if len(parts) > 1 else parts[0]
            )
            self._known[shape] = joined
        return self._known[shape]

    def _entry(self, extent: Any) -> Value:
        """Emit an extent as a vector of one element, as `concatenate` needs it."""
        if is_static(extent):
            return self._writer.constant([extent], DType.I64)
        return self._writer.reshape(self.value(extent), (1,))

    # ---- assertions --------------------------------------------------------------------------

    def assert_inputs(self, names: Sequence[str]) -> None:
        """Emit assertions that each axis of each argument has the extent that the argument's type declares.

        Args:
            names: the names of the arguments, for the error messages.
        """
        for argument, name in zip(self._writer.arguments, names, strict=True):
            shape: tuple[Any, ...] = argument.shape
            for axis, extent in enumerate(shape):
                if is_static(extent) or self._places.get(extent.as_leaf()) == (argument, axis):
                    continue
                self._assert(
                    "EQ",
                    self.measured(argument, axis),
                    self.value(extent),
                    f"{name}: axis {axis} must have extent {extent} = {{1}}, got {{0}}",
                )

    def assert_guards(self, guards: Iterable[Guard]) -> None:
        """Emit assertions for guards, which are conditions on extents that could not be decided in tracing."""
        for guard in guards:
            lhs, rhs = self.value(guard.lhs), self.value(guard.rhs)
            words = f"{guard.reason} needs {guard.lhs} {guard.relation} {guard.rhs}, got {{0}} and {{1}}"
            if guard.relation == "is 1 or":
                one = self._writer.compare("EQ", lhs, self.value(1))
                same = self._writer.compare("EQ", lhs, rhs)
                self._check(self._writer.op("or", one, same), lhs, rhs, words)
            elif guard.relation == "divisible by":
                remainder = self.value(guard.lhs % guard.rhs)
                divides = self._writer.compare("EQ", remainder, self.value(0))
                self._check(divides, lhs, rhs, words)
            else:
                self._assert({"==": "EQ", ">=": "GE"}[guard.relation], lhs, rhs, words)

    def _assert(self, direction: str, lhs: Value, rhs: Value, message: str) -> None:
        self._check(self._writer.compare(direction, lhs, rhs), lhs, rhs, message)

    def _check(self, holds: Value, lhs: Value, rhs: Value, message: str) -> None:
        attributes = {
            "call_target_name": "shape_assertion",
            "api_version": Integer(2, "i32"),
            "error_message": message,
            "has_side_effect": True,
        }
        self._writer.operation("stablehlo.custom_call", (holds, lhs, rhs), (), attributes)
