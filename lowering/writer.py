"""The writer: every statement, name and punctuation mark of the StableHLO text.

Emitters ask for statements; the writer keeps them in order, drops those without readers, numbers the
rest, and prints. Values are handles with a type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowering.extents import Extents
from lowering.inference import result_of
from lowering.literal import LONGEST_LIST, dense, is_splat
from lowering.types import element_type, integers, tensor_type
from tenferro.dims import is_static
from tenferro.errors import NonStaticShapeError
from tenferro.ops import StdTensorOp
from tenferro.types import DType, TensorSpec

__all__ = ["Value", "Writer", "region", "signature"]

_SYMBOL = re.compile(r"@(\w+)")


@dataclass(frozen=True, slots=True)
class Value:
    """A result of a statement: an SSA value and its type."""

    statement: int
    index: int
    spec: TensorSpec

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return self.spec.dtype

    @property
    def rank(self) -> int:
        """Its number of axes."""
        return len(self.spec.shape)


@dataclass(slots=True)
class Statement:
    """`results = head operand joint operand .. tail`.

    In the tail, `«i»` stands for the name of `captured[i]`, a value of the surroundings that a region uses.
    """

    head: str
    operands: tuple[Value, ...]
    joint: str
    tail: str
    results: int
    source: Any
    captured: tuple[Value, ...] = ()

    @property
    def reads(self) -> tuple[Value, ...]:
        """Every value it needs."""
        return self.operands + self.captured


class Writer:
    """Collects the statements of one `func.func` and the private functions it calls."""

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
        self.statements: list[Statement] = []
        self.functions: dict[str, str] = {}
        self.symbols: dict[Any, str] = {}
        self.source: Any = None
        self._constants: dict[tuple[TensorSpec, bytes], Value] = {}
        self._transposes: dict[Value, tuple[Value, tuple[int, ...]]] = {}
        self._reshapes: dict[Value, Value] = {}
        self._effects: list[int] = []
        self.arguments = [Value(-1 - index, 0, spec) for index, spec in enumerate(inputs)]
        self.extents: Extents | None = None

    # ---- statements --------------------------------------------------------------------------

    def statement(
        self,
        head: str,
        operands: Sequence[Value],
        tail: str,
        results: Sequence[TensorSpec],
        joint: str = ", ",
        captured: Sequence[Value] = (),
    ) -> tuple[Value, ...]:
        """`%r = head %a, %b tail`: every statement is written by this method."""
        number = len(self.statements)
        self.statements.append(
            Statement(
                head, tuple(operands), joint, tail, len(results), self.source, tuple(captured)
            )
        )
        return tuple(Value(number, index, spec) for index, spec in enumerate(results))

    def effect(self, head: str, operands: Sequence[Value], tail: str) -> None:
        """A statement without results, kept for its effect."""
        self.statement(head, operands, tail, ())
        self._effects.append(len(self.statements) - 1)

    def op(
        self, name: str, *operands: Value, result: TensorSpec | None = None, **attributes: Any
    ) -> Value:
        """Write `stablehlo.name %a, %b, key = value : types`, the short form most ops have.

        Lists of integers are written `[1, 2]`. The type is written once when it is shared by all.

        Args:
            result: the type of the result; not needed where the operands determine it, as in elementwise
                operations.

        Raises:
            DTypeError, ShapeError: operands of an elementwise operation that differ.
            InvalidConfigError: a type that is missing, or that is not the operation's.
        """
        result = result_of(name, operands, result)
        shown = "".join(f", {key} = {_attribute(value)}" for key, value in attributes.items())
        same = not attributes and all(operand.spec == result for operand in operands)
        types = tensor_type(result) if same else signature(operands, (result,))
        (value,) = self.statement(f"stablehlo.{name} ", operands, f"{shown} : {types}", (result,))
        return value

    def generic(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[TensorSpec],
        attributes: Mapping[str, str],
        *regions: str,
        captured: Sequence[Value] = (),
    ) -> tuple[Value, ...]:
        """`"stablehlo.name"(%a) <{key = value}> ({region}) : (types) -> types`, the form every op has.

        Regions name a value of their surroundings `«i»`, by its index in `captured`.
        """
        shown = ", ".join(f"{key} = {value}" for key, value in attributes.items())
        properties = f" <{{{shown}}}>" if shown else ""
        bodies = f" ({', '.join(regions)})" if regions else ""
        return self.statement(
            f'"stablehlo.{name}"(',
            operands,
            f"){properties}{bodies} : {signature(operands, results)}",
            results,
            captured=captured,
        )

    def call(
        self, symbol: str, operands: Sequence[Value], result: TensorSpec, text: Callable[[], str]
    ) -> Value:
        """Call a private function, written once per module by `text`."""
        if symbol not in self.functions:
            self.functions[symbol] = text()
        (value,) = self.statement(
            f"func.call @{symbol}(", operands, f") : {signature(operands, (result,))}", (result,)
        )
        return value

    # ---- functions and loops -----------------------------------------------------------------

    def inner(
        self,
        specs: Sequence[TensorSpec],
        emitters: Mapping[type[StdTensorOp], Any] | None = None,
    ) -> Writer:
        """Return a writer of a private function of the same module, by default with the same emitters."""
        emitters = self.emitters if emitters is None else emitters
        writer = Writer(specs, self.precision, self.platform, self.linalg, emitters)
        writer.functions, writer.symbols = self.functions, self.symbols
        return writer

    def define(self, symbol: str, outputs: Sequence[Value], inner: Writer) -> str:
        """Add the statements of `inner` as a private function; returns its name, numbered to be unique."""
        number = sum(name.rpartition("_")[0] == symbol for name in self.functions)
        name = f"{symbol}_{number}"
        self.functions[name] = inner.private_function(outputs, name)
        return name

    def while_loop(
        self,
        name: str,
        condition: Callable[..., Value],
        body: Callable[..., Sequence[Value]],
        *state: Value,
    ) -> tuple[Value, ...]:
        """`body(writer, *state)` while `condition(writer, *state)`; both become private functions."""
        specs = tuple([value.spec for value in state])
        regions = [
            self._region(f"{name}_while", lambda w, *values: (condition(w, *values),), specs),
            self._region(f"{name}_do", body, specs),
        ]
        return self.generic("while", state, specs, {}, *regions)

    def _region(
        self, name: str, write: Callable[..., Sequence[Value]], specs: Sequence[TensorSpec]
    ) -> str:
        inner = self.inner(specs)
        results = write(inner, *inner.arguments)
        return self.calling(self.define(name, results, inner), inner, results)

    def calling(
        self, symbol: str, inner: Writer, results: Sequence[Value], captured: int = 0
    ) -> str:
        """A region that calls a private function and returns its results.

        Args:
            captured: the number of the function's first arguments that come from the surroundings; the rest
                are those of the region.
        """
        own = [value.spec for value in inner.arguments[captured:]]
        parameters = ", ".join(f"%a{i}: {tensor_type(spec)}" for i, spec in enumerate(own))
        arguments = ", ".join(
            [f"«{i}»" for i in range(captured)] + [f"%a{i}" for i in range(len(own))]
        )
        types = signature(inner.arguments, [value.spec for value in results])
        count = len(results)
        values = ", ".join("%r" if count == 1 else f"%r#{i}" for i in range(count))
        shown = ", ".join(tensor_type(value.spec) for value in results)
        lines = [
            *([f"    ^bb0({parameters}):"] if own else []),
            f"      %r{'' if count == 1 else f':{count}'} = func.call @{symbol}({arguments}) : {types}",
            f"      stablehlo.return {values} : {shown}",
        ]
        return "\n".join(["{", *lines, "    }"])

    # ---- extents that are no numbers ---------------------------------------------------------

    def shape(self, shape: Sequence[Any]) -> Value:
        """A shape as a vector of int64.

        Raises:
            NonStaticShapeError: a symbol that a private function cannot see.
        """
        if self.extents is None and not all(map(is_static, shape)):
            raise NonStaticShapeError(
                f"StableHLO needs numbers for the extents {tuple(shape)} here; give concrete specs"
            )
        return (
            self.constant(shape, DType.I64) if self.extents is None else self.extents.shape(shape)
        )

    def extent(self, extent: Any) -> Value:
        """An extent as a scalar of int64."""
        if is_static(extent):
            return self.scalar(extent, DType.I64)
        return self.reshape(self.shape((extent,)), ())

    # ---- constants ---------------------------------------------------------------------------

    def constant(self, array: Any, dtype: DType | None = None) -> Value:
        """A constant with exactly these elements; equal ones are written once."""
        array = np.asarray(array, None if dtype is None else dtype.dtype)
        spec = TensorSpec.of(array.shape, DType.of(array.dtype))
        key = (spec, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self._write_constant(array, spec)
        return self._constants[key]

    def _write_constant(self, array: Any, spec: TensorSpec) -> Value:
        if spec.dtype.is_bool and array.size > LONGEST_LIST and not is_splat(array):
            # The hexadecimal form of i1 differs between MLIR versions; that of ui8 does not.
            return self.convert(self.constant(array.astype(np.uint8)), DType.Bool)
        (value,) = self.statement(
            f"stablehlo.constant {dense(array)}", (), f" : {tensor_type(spec)}", (spec,)
        )
        return value

    def full(self, number: Any, like: TensorSpec) -> Value:
        """A constant of that type with every element `number`."""
        if not like.is_static:
            return self.broadcast(self.scalar(number, like.dtype), like.shape, ())
        return self.constant(np.full(like.shape, number, like.dtype.dtype))

    def scalar(self, number: Any, dtype: DType) -> Value:
        """A rank-0 constant."""
        return self.constant(np.asarray(number).astype(dtype.dtype))

    # ---- statements that several families write ----------------------------------------------

    def convert(self, x: Value, dtype: DType) -> Value:
        """x in another element type; x itself when it has it."""
        if x.dtype is dtype:
            return x
        return self.op("convert", x, result=TensorSpec.of(x.shape, dtype))

    def bitcast(self, x: Value, dtype: DType) -> Value:
        """x's bits read as another element type; x itself when it has it."""
        if x.dtype is dtype:
            return x
        old, new = x.dtype.itemsize, dtype.itemsize
        shape = x.shape if old == new else (*x.shape, old // new) if old > new else x.shape[:-1]
        spec = TensorSpec.of(shape, dtype)
        (value,) = self.statement(
            "stablehlo.bitcast_convert ", (x,), f" : {signature((x,), (spec,))}", (spec,)
        )
        return value

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """x with axes permuted; permutations compose and cancel instead of piling up."""
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
        """x's elements, in row-major order, in another shape; a reshape of a reshape is one."""
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
        """x repeated to `shape`, its axis j becoming axis dims[j]."""
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
        """`stablehlo.slice %x [start:limit:stride, ..]`; with symbols, `real_dynamic_slice`."""
        if not all(map(is_static, (*starts, *limits))):
            bounds = [self.shape(starts), self.shape(limits), self.shape(strides)]
            return self.op("real_dynamic_slice", x, *bounds, result=result)
        ranges = ", ".join(
            f"{start}:{limit}" + (f":{stride}" if stride != 1 else "")
            for start, limit, stride in zip(starts, limits, strides, strict=True)
        )
        (value,) = self.statement(
            "stablehlo.slice ", (x,), f" [{ranges}] : {signature((x,), (result,))}", (result,)
        )
        return value

    def compare(self, direction: str, lhs: Value, rhs: Value) -> Value:
        """The predicate `lhs direction rhs`, with the comparison type its dtype calls for."""
        kind = comparison_type(lhs.dtype)
        spec = TensorSpec.of(lhs.shape, DType.Bool)
        (value,) = self.statement(
            f"stablehlo.compare {direction}, ",
            (lhs, rhs),
            f", {kind} : {signature((lhs, rhs), (spec,))}",
            (spec,),
        )
        return value

    def select(self, pred: Value, on_true: Value, on_false: Value) -> Value:
        """Elements of `on_true` where `pred`, else of `on_false`."""
        types = f"{tensor_type(pred.spec)}, {tensor_type(on_true.spec)}"
        (value,) = self.statement(
            "stablehlo.select ", (pred, on_true, on_false), f" : {types}", (on_true.spec,)
        )
        return value

    def iota(self, shape: Sequence[int], axis: int, dtype: DType = DType.I64) -> Value:
        """Counts along one axis; complex ones of real counts, because XLA takes a complex iota for real
        and ends the process at its absolute value.
        """
        if dtype.is_complex:
            spec = TensorSpec.of(tuple(shape), dtype)
            counts = self.iota(shape, axis, dtype.real)
            return self.op("complex", counts, self.full(0, counts.spec))
        spec = TensorSpec.of(tuple(shape), dtype)
        if not spec.is_static:
            return self.op("dynamic_iota", self.shape(shape), result=spec, dim=axis)
        (value,) = self.statement(
            f"stablehlo.iota dim = {axis}", (), f" : {tensor_type(spec)}", (spec,)
        )
        return value

    def reduce(self, name: str, x: Value, initial: Value, axes: Sequence[int]) -> Value:
        """`stablehlo.reduce` by one op; over no axes it is x itself."""
        if not axes:
            return x
        dropped = set(axes)
        shape = tuple(n for axis, n in enumerate(x.shape) if axis not in dropped)
        spec = TensorSpec.of(shape, x.dtype)
        (value,) = self.statement(
            "stablehlo.reduce(",
            (x, initial),
            f") applies stablehlo.{name} across dimensions = {integers(axes)} : "
            f"{signature((x, initial), (spec,))}",
            (spec,),
            joint=" init: ",
        )
        return value

    def barrier(self, *operands: Value) -> tuple[Value, ...]:
        """Return the operands, which the compiler may not look through."""
        types = ", ".join(tensor_type(x.spec) for x in operands)
        specs = [x.spec for x in operands]
        return self.statement("stablehlo.optimization_barrier ", operands, f" : {types}", specs)

    @staticmethod
    def tensor_type(spec: TensorSpec) -> str:
        """The type's name."""
        return tensor_type(spec)

    # ---- printing ----------------------------------------------------------------------------

    def print(
        self,
        outputs: Sequence[Value],
        name: str,
        locations: bool,
        argument_attributes: Sequence[str] = (),
        result_attributes: Sequence[str] = (),
        head: str = "",
    ) -> str:
        """The module's text, without statements that no output depends on.

        Args:
            argument_attributes, result_attributes: one text for each, or none at all.
            head: the line before the function.
        """
        live = self._needed(outputs)
        places: dict[Any, int] = {}
        return "\n".join(
            [
                f"module @{name} {{",
                *([f"  {head}"] if head else []),
                *self._function(
                    "public @main",
                    live,
                    outputs,
                    places if locations else None,
                    argument_attributes,
                    result_attributes,
                ),
                *self._called(live),
                "}",
                *(
                    f'#loc{index} = loc("{_escaped(line.file)}":{line.line}:0)'
                    for line, index in places.items()
                ),
                "",
            ]
        )

    def private_function(self, outputs: Sequence[Value], symbol: str) -> str:
        """The statements as a private function of another module."""
        return "\n".join(self._function(f"private @{symbol}", self._needed(outputs), outputs, None))

    def _function(
        self,
        head: str,
        live: Sequence[int],
        outputs: Sequence[Value],
        places: dict[Any, int] | None,
        argument_attributes: Sequence[str] = (),
        result_attributes: Sequence[str] = (),
    ) -> list[str]:
        """The lines of one function; lines of the user's code are added to `places`, unless it is None."""
        names = {-1 - index: f"%arg{index}" for index in range(len(self.arguments))}
        widths = [0] * len(self.statements)
        lines: list[str] = []

        def use(value: Value) -> str:
            base = names[value.statement]
            many = value.statement >= 0 and widths[value.statement] > 1
            return f"{base}#{value.index}" if many else base

        def located(source: Any) -> str:
            if places is None or source is None:
                return ""
            return f" loc(#loc{places.setdefault(source, len(places))})"

        for number in live:
            statement = self.statements[number]
            result = f"%{len(names) - len(self.arguments)}"
            widths[number] = statement.results
            if statement.results:
                names[number] = result
            operands = statement.joint.join([use(operand) for operand in statement.operands])
            tail = statement.tail
            for i, value in enumerate(statement.captured):
                tail = tail.replace(f"«{i}»", use(value))
            lines.append(
                f"    {_assigned(result, statement.results)}{statement.head}{operands}{tail}"
                f"{located(statement.source)}"
            )
        takes = ", ".join(
            f"%arg{index}: {_typed(argument, argument_attributes, index)}"
            for index, argument in enumerate(self.arguments)
        )
        types = ", ".join(tensor_type(output.spec) for output in outputs)
        gives = ", ".join(
            _typed(output, result_attributes, index) for index, output in enumerate(outputs)
        )
        returned = ", ".join(use(output) for output in outputs)
        return [
            f"  func.func {head}({takes}) -> ({gives}) {{",
            *lines,
            f"    return {returned} : {types}" if outputs else "    return",
            "  }",
        ]

    def _needed(self, outputs: Sequence[Value]) -> list[int]:
        needed = bytearray(len(self.statements))
        for number in self._effects:
            needed[number] = 1
        for output in outputs:
            if output.statement >= 0:
                needed[output.statement] = 1
        live: list[int] = []
        for number in range(len(self.statements) - 1, -1, -1):
            if needed[number]:
                live.append(number)
                for operand in self.statements[number].reads:
                    if operand.statement >= 0:
                        needed[operand.statement] = 1
        return live[::-1]

    def _called(self, live: Sequence[int]) -> list[str]:
        """The private functions that statements call, and those that these call."""
        if not self.functions:
            return []
        wanted: set[str] = set()
        texts = [f"{s.head}{s.tail}" for s in (self.statements[number] for number in live)]
        while texts:
            called = {name for text in texts if "@" in text for name in _SYMBOL.findall(text)}
            fresh = (called & self.functions.keys()) - wanted
            wanted |= fresh
            texts = [self.functions[symbol] for symbol in fresh]
        return [text.rstrip("\n") for symbol, text in self.functions.items() if symbol in wanted]


def _assigned(name: str, results: int) -> str:
    """`%0 = `, `%0:2 = `, or nothing for a statement without results."""
    if not results:
        return ""
    return f"{name} = " if results == 1 else f"{name}:{results} = "


def signature(operands: Sequence[Value], results: Sequence[TensorSpec]) -> str:
    """`(types) -> types`."""
    operand_types = ", ".join(tensor_type(operand.spec) for operand in operands)
    result_types = ", ".join(tensor_type(result) for result in results)
    return f"({operand_types}) -> {result_types if len(results) == 1 else f'({result_types})'}"


def _typed(value: Value, attributes: Sequence[str], index: int) -> str:
    """The value's type, and its attributes where it has any."""
    shown = attributes[index] if index < len(attributes) else ""
    return f"{tensor_type(value.spec)} {{{shown}}}" if shown else tensor_type(value.spec)


def comparison_type(dtype: DType) -> str:
    """How StableHLO compares elements of this dtype."""
    if dtype.is_inexact:
        return "FLOAT"
    return "SIGNED" if dtype.kind == "i" else "UNSIGNED"


def region(dtype: DType, body: str, count: int = 2) -> str:
    """A region over `count` scalars %a0, %a1, .. of one element type; `body` ends by returning."""
    scalar = f"tensor<{element_type(dtype)}>"
    arguments = ", ".join(f"%a{index}: {scalar}" for index in range(count))
    return f"{{ ^bb0({arguments}): {body} }}"


def _attribute(value: Any) -> str:
    return integers(value) if isinstance(value, tuple | list) else str(value)


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')
