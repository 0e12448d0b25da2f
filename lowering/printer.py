"""Printer that converts a StableHLO module to text.

The name of an operation determines whether it is printed in StableHLO's short form or in MLIR's generic form.

Source: StableHLO spec, "Programs"; MLIR's language reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lowering.literal import dense, quoted
from lowering.operations import (
    Block,
    Dense,
    Enum,
    Function,
    Integer,
    Integers,
    Literal,
    Module,
    Operation,
    PrintedFunction,
    Struct,
    Symbol,
    Value,
)
from lowering.sharding import mesh_declaration
from lowering.types import integers, tensor_type
from tenferro.errors import InvalidConfigError

__all__ = ["printed"]


def printed(module: Module) -> tuple[str, str]:
    """Return two texts of a module: with the lines of the user's code as locations, and without locations."""
    places: dict[Any, int] = {}
    plain = _function_lines(module.main)
    located = [*plain]
    for index, operation in enumerate(module.main.body.operations, start=1):
        if operation.source is not None:
            place = places.setdefault(operation.source, len(places))
            located[index] += f" loc(#loc{place})"
    private = [
        function.text.rstrip("\n")
        if isinstance(function, PrintedFunction)
        else "\n".join(_function_lines(function))
        for function in module.private
    ]
    head = [f"module @{module.name} {{"]
    head += [f"  {mesh_declaration(module.mesh)}"] if module.mesh else []
    tail = [
        f'#loc{place} = loc("{_escaped(line.file)}":{line.line}:0)'
        for line, place in places.items()
    ]
    return (
        "\n".join([*head, *located, *private, "}", *tail, ""]),
        "\n".join([*head, *plain, *private, "}", ""]),
    )


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')


# ---- functions and blocks ------------------------------------------------------------------------


class _Names:
    """Names of the values in a block.

    A value that already has a name keeps it, with a suffix if another value has the same name. All other values are
    numbered.

    Args:
        outer: names of the enclosing block, whose values a region may use.
    """

    def __init__(self, outer: _Names | None = None) -> None:
        self._outer = outer
        self._own: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._count = 0 if outer is None else outer._count

    def __getitem__(self, value: Value) -> str:
        scope = self
        while value not in scope._own and scope._outer is not None:
            scope = scope._outer
        return scope._own[value]

    def name_arguments(self, arguments: Sequence[Value]) -> None:
        """Name the arguments of a block; arguments without a name become `%arg0`, `%arg1`, .."""
        for index, argument in enumerate(arguments):
            self._own[argument] = self._unique(argument.name or f"arg{index}")

    def name_results(self, results: Sequence[Value]) -> str:
        """Name the results of an operation, and return the text before the operation: `%0 = ` or `%0:2 = `."""
        if not results:
            return ""
        if results[0].name:
            name = self._unique(results[0].name)
        else:
            name = f"%{self._count}"
            self._count += 1
        if len(results) == 1:
            self._own[results[0]] = name
            return f"{name} = "
        for index, result in enumerate(results):
            self._own[result] = f"{name}#{index}"
        return f"{name}:{len(results)} = "

    def _unique(self, name: str) -> str:
        unique, number = name, 0
        while self._is_used(unique):
            unique, number = f"{name}_{number}", number + 1
        self._taken.add(unique)
        return f"%{unique}"

    def _is_used(self, name: str) -> bool:
        return name in self._taken or (self._outer is not None and self._outer._is_used(name))

    def joined(self, values: Iterable[Value]) -> str:
        """Return the names of values, separated by commas."""
        return ", ".join([self[value] for value in values])


def _function_lines(function: Function) -> list[str]:
    """Return the lines of a function: the header, a line for each operation, the return, and the closing brace."""
    body, names = function.body, _Names()
    names.name_arguments(body.arguments)
    takes = [
        f"{names[argument]}: {type_}"
        for argument, type_ in zip(
            body.arguments, _typed(body.arguments, function.argument_attributes), strict=True
        )
    ]
    gives = _typed(body.outputs, function.result_attributes)
    visibility = "private" if function.is_private else "public"
    head = f"func.func {visibility} @{function.symbol}({', '.join(takes)}) -> ({', '.join(gives)})"
    return [
        f"  {head} {{",
        *[f"    {_line(operation, names)}" for operation in body.operations],
        f"    {_returned('return', body.outputs, names)}",
        "  }",
    ]


def _typed(values: Sequence[Value], attributes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the text of each value's type, followed by the value's attributes if there are any."""
    types = [tensor_type(value.spec) for value in values]
    for index, own in enumerate(attributes):
        types[index] += f" {{{_entries(own)}}}" if own else ""
    return types


def _returned(name: str, outputs: Sequence[Value], names: _Names) -> str:
    return f"{name} {names.joined(outputs)} : {_types(outputs)}" if outputs else name


def _line(operation: Operation, names: _Names) -> str:
    """Write an operation with its regions.

    Raises:
        InvalidConfigError: an operand is not a value of the function, or an attribute is missing or unknown.
    """
    results = names.name_results(operation.results)
    try:
        form = _FORMS.get(operation.name, _short)
        return results + (_generic if "result_accuracy" in operation.attributes else form)(
            operation, names
        )
    except (KeyError, TypeError) as error:
        (fault,) = error.args
        if isinstance(fault, Value):
            fault = f"an operand of type {fault.spec} is no value of this function"
        elif isinstance(error, KeyError):
            fault = f"its attribute {fault} is missing"
        line = str(operation.source) if operation.source else None
        raise InvalidConfigError(f"{operation.name}: {fault}").at(line) from error


_INDENTED = frozenset({"stablehlo.case", "stablehlo.if", "stablehlo.while"})
_IN_LINES = frozenset({"stablehlo.reduce", "stablehlo.sort"})


def _region(operation: Operation, region: Block, names: _Names) -> str:
    """Return the text of a region: on indented lines, on lines without indentation, or on a single line.

    The name of the operation to which the region belongs determines the layout.
    """
    names = _Names(names)
    names.name_arguments(region.arguments)
    takes = ", ".join([f"{names[x]}: {tensor_type(x.spec)}" for x in region.arguments])
    head = [f"^bb0({takes}):"] if takes else []
    lines = [_line(inner, names) for inner in region.operations]
    lines.append(_returned("stablehlo.return", region.outputs, names))
    if operation.name in _INDENTED:
        inside = [*[f"    {line}" for line in head], *[f"      {line}" for line in lines]]
        return "\n".join(["{", *inside, "    }"])
    between = "\n      " if operation.name in _IN_LINES else " "
    return f"{{ {between.join([*head, *lines])} }}"


# ---- forms of operations -------------------------------------------------------------------------


def _short(op: Operation, names: _Names) -> str:
    """Print `stablehlo.add %a, %b, key = value : types`.

    If all operands and the result have the same type, the type is written once.
    """
    shown = "".join([f", {key} = {_bare(value)}" for key, value in op.attributes.items()])
    (result,) = op.results
    is_shared = not op.attributes and all(x.spec == result.spec for x in op.operands)
    types = tensor_type(result.spec) if is_shared else _signature(op)
    return f"{op.name} {names.joined(op.operands)}{shown} : {types}"


def _by_result_types(op: Operation, names: _Names) -> str:
    """Print `stablehlo.reverse %a, key = value : types`, for operations whose operands and results have equal types."""
    shown = "".join([f", {key} = {_bare(value)}" for key, value in op.attributes.items()])
    return f"{op.name} {names.joined(op.operands)}{shown} : {_types(op.results)}"


def _generic(op: Operation, names: _Names) -> str:
    """Print `"stablehlo.name"(%a) <{key = value}> ({region}) : (types) -> types`."""
    properties = f" <{{{_entries(op.attributes)}}}>" if op.attributes else ""
    regions = ", ".join([_region(op, region, names) for region in op.regions])
    bodies = f" ({regions})" if regions else ""
    return f'"{op.name}"({names.joined(op.operands)}){properties}{bodies} : {_signature(op)}'


def _constant(op: Operation, names: _Names) -> str:
    return f"{op.name} {dense(op.attributes['value'])} : {_types(op.results)}"


def _iota(op: Operation, names: _Names) -> str:
    return f"{op.name} dim = {op.attributes['dim']} : {_types(op.results)}"


def _compare(op: Operation, names: _Names) -> str:
    direction, kind = op.attributes["comparison_direction"], op.attributes["compare_type"]
    return f"{op.name} {direction}, {names.joined(op.operands)}, {kind} : {_signature(op)}"


def _select(op: Operation, names: _Names) -> str:
    return f"{op.name} {names.joined(op.operands)} : {_types(op.operands[:2])}"


def _slice(op: Operation, names: _Names) -> str:
    """Print `stablehlo.slice %a [start:limit:stride, ..] : types`; a stride of 1 is omitted."""
    bounds = [op.attributes[name] for name in ("start_indices", "limit_indices", "strides")]
    ranges = [
        f"{start}:{limit}" + (f":{stride}" if stride != 1 else "")
        for start, limit, stride in zip(*bounds, strict=True)
    ]
    return f"{op.name} {names.joined(op.operands)} [{', '.join(ranges)}] : {_signature(op)}"


def _reduce(op: Operation, names: _Names) -> str:
    """Print `stablehlo.reduce(%a init: %b) applies stablehlo.add ..` if the region has only that operation.

    Any other region is printed in the generic form.
    """
    (body,) = op.regions
    (*others, last) = body.operations
    if others or [*last.operands] != [*body.arguments]:
        return _generic(op, names)
    operands = " init: ".join([names[x] for x in op.operands])
    dimensions = integers(op.attributes["dimensions"].values)
    return (
        f"{op.name}({operands}) applies {last.name} across "
        f"dimensions = {dimensions} : {_signature(op)}"
    )


def _dot_general(op: Operation, names: _Names) -> str:
    given = op.attributes
    batch, contracting = (
        " x ".join([integers(given[f"{side}_{name}"]) for side in ("lhs", "rhs")])
        for name in ("batching_dimensions", "contracting_dimensions")
    )
    batching = f"batching_dims = {batch}, " if given["lhs_batching_dimensions"] else ""
    return (
        f"{op.name} {names.joined(op.operands)}, {batching}contracting_dims = {contracting}, "
        f"precision = [{', '.join(given['precision'])}] : {_signature(op)}"
    )


def _convolution(op: Operation, names: _Names) -> str:
    given = dict(op.attributes)
    x, kernel, y = (f"[{', '.join(axes)}]" for axes in given.pop("dimension_numbers"))
    windows = {
        "stride": integers(given.pop("window_strides")),
        "pad": f"[{', '.join([integers(pair) for pair in given.pop('padding')])}]",
        "lhs_dilate": integers(given.pop("lhs_dilation")),
        "rhs_dilate": integers(given.pop("rhs_dilation")),
        "reverse": _attribute(given.pop("window_reversal")),
    }
    shown = ", ".join([f"{key} = {value}" for key, value in windows.items() if value != "[]"])
    return (
        f"{op.name}({names.joined(op.operands)}) dim_numbers = {x}x{kernel}->{y}, "
        f"window = {{{shown}}} {{{_entries(given)}}} : {_signature(op)}"
    )


def _custom_call(op: Operation, names: _Names) -> str:
    given = dict(op.attributes)
    target = given.pop("call_target_name")
    called = f"{op.name} @{target}({names.joined(op.operands)})"
    return f"{called} {{{_entries(given)}}} : {_signature(op)}"


def _composite(op: Operation, names: _Names) -> str:
    given = dict(op.attributes)
    named = f"{op.name} {quoted(given.pop('name'))} {names.joined(op.operands)}"
    return f"{named} {{{_entries(given)}}} : {_signature(op)}"


def _sharding_constraint(op: Operation, names: _Names) -> str:
    sharding = _attribute(op.attributes["sharding"]).removeprefix("#sdy.sharding")
    return f"{op.name} {names.joined(op.operands)} {sharding} : {_types(op.results)}"


def _call(op: Operation, names: _Names) -> str:
    callee = _attribute(op.attributes["callee"])
    return f"{op.name} {callee}({names.joined(op.operands)}) : {_signature(op)}"


_GENERIC = ["case", "dynamic_gather", "gather", "if", "reduce_window", "scatter", "sort", "triangular_solve", "while"]  # fmt: skip
_BY_RESULT_TYPES = ["cholesky", "optimization_barrier", "reduce_precision", "reverse"]
_FORMS: Mapping[str, Callable[[Operation, _Names], str]] = {
    **{f"stablehlo.{name}": _generic for name in _GENERIC},
    **{f"stablehlo.{name}": _by_result_types for name in _BY_RESULT_TYPES},
    "stablehlo.constant": _constant,
    "stablehlo.iota": _iota,
    "stablehlo.compare": _compare,
    "stablehlo.select": _select,
    "stablehlo.slice": _slice,
    "stablehlo.reduce": _reduce,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.convolution": _convolution,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.composite": _composite,
    "func.call": _call,
    "sdy.sharding_constraint": _sharding_constraint,
}
"""Functions that print operations, by operation name; an operation without an entry is printed by `_short`."""


# ---- types and attributes ------------------------------------------------------------------------


def _types(values: Sequence[Value]) -> str:
    return ", ".join([tensor_type(value.spec) for value in values])


def _signature(op: Operation) -> str:
    """Return the types of operands and results: `(types) -> types`."""
    results = _types(op.results)
    return f"({_types(op.operands)}) -> {results if len(op.results) == 1 else f'({results})'}"


def _bare(value: Any) -> str:
    """Return an attribute's text in the short form: without the types of integers, and without quotation marks."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return integers(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _entries(attributes: Mapping[str, Any]) -> str:
    return ", ".join([f"{name} = {_attribute(value)}" for name, value in attributes.items()])


def _attribute(value: Any) -> str:
    """Return an attribute's text in MLIR's notation."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return f"{value} : i64"
        case float():
            return f"{float.__repr__(value)} : f64"
        case str():
            return quoted(value)
        case list() | tuple():
            return f"[{', '.join(map(_attribute, value))}]"
        case dict():
            return f"{{{_entries(value)}}}"
        case Symbol(name):
            return f"@{name}"
        case Integer(number, type_):
            return f"{number} : {type_}"
        case Integers(numbers):
            return f"array<i64{': ' if numbers else ''}{', '.join(map(str, numbers))}>"
        case Dense(numbers, type_):
            extents = "".join([f"{n}x" for n in np.shape(numbers)])
            return f"dense<{_nested(numbers)}> : tensor<{extents}{type_}>"
        case Enum(kind, member):
            return f"#stablehlo<{kind} {member}>"
        case Struct(kind, fields):
            shown = ", ".join([f"{name} = {_bare(number)}" for name, number in fields.items()])
            return f"#stablehlo.{kind}<{shown}>"
        case Literal(text):
            return text
        case _:
            raise TypeError(
                f"{value!r:.60} is not an attribute; lowering.operations has the classes of attributes"
            )


def _nested(numbers: Sequence[Any]) -> str:
    return str([list(x) if isinstance(x, tuple) else x for x in numbers]) if numbers else ""
