"""Decoders of attributes and types in bytecode, by dialect and code.

The arguments of a decoder are an object that reads the entries to which the encoding refers, and a cursor over the
bytes of the encoding.

Source: MLIR's, StableHLO's, CHLO's, VHLO's and Shardy's bytecode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from lowering.literal import dense
from lowering.module_tree import ForeignType
from lowering.syntax.attributes import ELEMENTS, WORDS, FunctionType, escaped, type_text
from lowering.syntax.cursor import Cursor
from lowering.syntax.elements import raw_elements
from tenferro.dims import UNKNOWN
from tenferro.errors import UnsupportedError
from tenferro.types import DType, TensorSpec

__all__ = ["ATTRIBUTES", "LONGEST_TEXT", "TYPES", "Printed", "References", "place_of"]

LONGEST_TEXT = 1 << 16
"""Maximum number of characters of a type or location.

Entries that refer to each other may expand to a text that is far longer than the file.
"""
DYNAMIC = -(1 << 63)
"""Number that stands for a dynamic extent in bytecode."""


class References(Protocol):
    """Interface to the attributes and types to which an encoding refers by number.

    A method whose argument is a cursor reads such a number from the encoding, and returns the attribute or type.
    """

    def string(self, index: int) -> str:
        """Return the string with this number."""
        ...

    def part(self, cursor: Cursor) -> Any:
        """Read an attribute that the current attribute contains, or return a placeholder if it has not been decoded."""
        ...

    def needed(self, cursor: Cursor) -> Any:
        """Read an attribute whose value is needed to decode the current attribute."""
        ...

    def needed_type(self, cursor: Cursor) -> Any:
        """Read a type whose value is needed to decode the current attribute or type."""
        ...

    def needed_text(self, cursor: Cursor) -> str:
        """Read an attribute as `needed` does, and return MLIR's text of it."""
        ...

    def optional(self, cursor: Cursor) -> Any:
        """Read an attribute as `needed` does, or return None if it is absent."""
        ...

    def blob(self, cursor: Cursor) -> tuple[str, bytes | None]:
        """Read the number of a resource, and return its name and its data."""
        ...


# ---- decoders of attributes --------------------------------------------------------------------


def _short(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"a type or location of more than {LONGEST_TEXT} characters")
    return text


def _array(r: References, c: Cursor) -> Any:
    return tuple([r.part(c) for _ in range(c.count())])


def _dictionary(r: References, c: Cursor) -> Any:
    pairs = [(r.needed(c), r.part(c)) for _ in range(c.count())]
    return {str(name): value for name, value in pairs}


def _string(r: References, c: Cursor) -> Any:
    return r.string(c.number())


def _typed_string(r: References, c: Cursor) -> Any:
    text = r.string(c.number())
    r.needed_type(c)
    return text


def _symbol(r: References, c: Cursor) -> Any:
    return str(r.needed(c))


def _nested_symbol(r: References, c: Cursor) -> Any:
    parts = [str(r.needed(c)), *[str(r.needed(c)) for _ in range(c.count())]]
    return "::".join([f"@{part}" for part in parts])


def _type_attribute(r: References, c: Cursor) -> Any:
    kind = r.needed_type(c)
    return kind if isinstance(kind, FunctionType) else type_text(kind)


def _unit(r: References, c: Cursor) -> Any:
    return True


def _integer_width(kind: Any) -> tuple[int, bool]:
    """Return the number of bits of an integer type, and whether the type is unsigned."""
    text = getattr(kind, "text", "")
    digits = text.lstrip("su")[1:]
    if text == "index":
        return 64, False
    if not digits.isdigit() or len(digits) > 8 or text.lstrip("su")[0] != "i":
        raise ValueError(f"an integer of type {text}")
    return int(digits), text.startswith("u")


def _integer_bits(c: Cursor, width: int) -> int:
    """Read an integer of `width` bits, and return its bits as an unsigned number."""
    if width <= 8:
        return c.byte()
    if width <= 64:
        return c.signed() & ((1 << 64) - 1)
    words = [c.signed() & ((1 << 64) - 1) for _ in range(c.count())]
    return sum([word << (64 * i) for i, word in enumerate(words)])


def _integer(r: References, c: Cursor) -> Any:
    kind = r.needed_type(c)
    width, is_unsigned = _integer_width(kind)
    bits = _integer_bits(c, width) & ((1 << width) - 1)
    if kind.text == "i1":
        return bits != 0
    return bits - (1 << width) if not is_unsigned and bits >> (width - 1) else bits


def _float(r: References, c: Cursor) -> Any:
    kind = r.needed_type(c)
    text = getattr(kind, "text", "")
    dtype = ELEMENTS.get(text)
    if dtype is None or not dtype.is_float:
        width = 80 if text == "f80" else 128 if text == "f128" else 0
        if not width:
            raise ValueError(f"a float of type {text}")
        return hex(_integer_bits(c, width))
    bits = _integer_bits(c, dtype.bits) & ((1 << dtype.bits) - 1)
    return float(np.array(bits, f"u{dtype.itemsize}").view(dtype.dtype)[()])


def _place(r: References, c: Cursor) -> str:
    """Read a location that the current location contains, and return its text without `loc(..)`."""
    return place_of(r.needed(c))


def place_of(location: Any) -> str:
    """Return the text of a location attribute without `loc(..)`.

    Raises:
        ValueError: the attribute is no location.

    >>> place_of('loc("model.py":1:2)')
    '"model.py":1:2'
    """
    if not isinstance(location, str) or not location.startswith("loc("):
        raise ValueError(f"expected a location, got {location!r:.40}")
    return location[4:-1]


def _located(place: str) -> str:
    return f"loc({_short(place)})"


def _call_site(r: References, c: Cursor) -> Any:
    return _located(f"callsite({_place(r, c)} at {_place(r, c)})")


def _file_line(r: References, c: Cursor) -> Any:
    return _located(f'"{escaped(r.needed(c))}":{c.number()}:{c.number()}')


def _file_range(r: References, c: Cursor) -> Any:
    name = escaped(r.needed(c))
    numbers = [c.number() for _ in range(c.count())]
    line, column, *end = [*numbers, 0, 0][: max(2, len(numbers))]
    text = f'"{name}":{line}:{column}'
    if len(end) == 1:
        return _located(f"{text} to :{end[0]}")
    return _located(f"{text} to {end[0]}:{end[1]}" if end else text)


def _fused(r: References, c: Cursor) -> Any:
    return _located(f"fused[{', '.join([_place(r, c) for _ in range(c.count())])}]")


def _fused_with_metadata(r: References, c: Cursor) -> Any:
    parts = [_place(r, c) for _ in range(c.count())]
    return _located(f"fused<{r.needed_text(c)}>[{', '.join(parts)}]")


def _name_location(r: References, c: Cursor) -> Any:
    name, child = escaped(r.needed(c)), _place(r, c)
    return _located(f'"{name}"' if child == "unknown" else f'"{name}"({child})')


def _unknown_location(r: References, c: Cursor) -> Any:
    return "loc(unknown)"


class Printed:
    """Printer of attributes as MLIR's text, from their decoded values.

    Attributes:
        pending: texts, and numbers of attributes that are to be printed, in reverse order; true if in an array.
        texts: the texts that have been printed.
    """

    def __init__(self, index: int) -> None:
        self.pending: list[str | tuple[int, bool]] = [(index, False)]
        self.texts: list[str] = []

    def contents(self, code: tuple[str, int] | None, value: Any, c: Cursor, r: References) -> bool:
        """Add the contents of an array or a dictionary to the pending texts; return whether the attribute is one."""
        decode = None if code is None else ATTRIBUTES.get(code)
        parts: list[str | tuple[int, bool]] = []
        if decode is _array:
            for number in range(c.count()):
                parts += [", "] * (number > 0) + [(c.number(), True)]
            self.pending += ["]", *reversed(parts), "["]
        elif decode is _dictionary:
            for number in range(c.count()):
                parts += [", "] * (number > 0) + [f"{r.needed(c)} = ", (c.number(), False)]
            self.pending += ["}", *reversed(parts), "{"]
        return decode is _array or decode is _dictionary

    def scalar(
        self, code: tuple[str, int] | None, value: Any, c: Cursor, r: References, is_inner: bool
    ) -> str:
        """Return the text of any other attribute."""
        decode = None if code is None else ATTRIBUTES.get(code)
        if decode is _string or decode is _typed_string:
            return f'"{escaped(value)}"'
        if decode is _symbol:
            return f"@{value}"
        if decode is _unit:
            return "unit"
        if isinstance(value, bool):
            return str(value).lower()
        if decode is _integer or decode is _float:
            kind = getattr(r.needed_type(c), "text", "")
            text = str(value) if decode is _integer else _float_text(value)
            return text if is_inner and kind in ("i64", "f64") else f"{text} : {kind}"
        if decode is _dense_array:
            numbers = ", ".join([str(item).lower() for item in value])
            kind = getattr(r.needed_type(c), "text", "")
            return f"array<{kind}: {numbers}>" if value else f"array<{kind}>"
        is_number = isinstance(value, np.ndarray) and value.dtype.kind in "biu"
        if decode is _dense_elements and is_number:
            return f"{dense(value)} : {type_text(r.needed_type(c))}"
        return str(value)


def _float_text(value: Any) -> str:
    short = f"{value:.6e}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(value)


def _dense_array(r: References, c: Cursor) -> Any:
    kind = r.needed_type(c)
    count, data = c.number(), c.bytes(c.number())
    dtype = ELEMENTS.get(getattr(kind, "text", ""))
    if dtype is None:
        raise ValueError(f"an array of unsupported type {type_text(kind)}")
    elements = np.frombuffer(data, dtype.dtype.newbyteorder("<"))
    if len(elements) != count:
        raise ValueError(f"{len(data)} bytes for an array of {count}")
    return tuple(elements.tolist())


def _dense_elements(r: References, c: Cursor) -> Any:
    kind = r.needed_type(c)
    return elements_of(kind, c.bytes(c.number()))


def elements_of(kind: Any, data: bytes) -> Any:
    """Decode the bytes of a constant's elements as an array, or as text if the type `kind` is a `ForeignType`."""
    if isinstance(kind, TensorSpec):
        if UNKNOWN in kind.shape:
            raise ValueError(f"elements of type {kind}, whose shape is open")
        if kind.dtype is DType.Bool:
            return _packed_truths(data, kind)
        return raw_elements(data, kind)
    text = kind.text
    if text.startswith("tensor<") and text.endswith("index>"):
        shape = [int(item) for item in text[7:-6].split("x")[:-1]]
        return raw_elements(data, TensorSpec.of(tuple(shape), DType.I64))
    return f'dense<"0x{data.hex().upper()}"> : {text}'


def _packed_truths(data: bytes, spec: TensorSpec) -> Any:
    """Decode bools that are packed eight to a byte."""
    if len(data) == 1 and data[0] in (0, 0xFF):
        return np.broadcast_to(np.array(bool(data[0])), spec.shape)
    if len(data) != (spec.size + 7) // 8:
        raise ValueError(f"{len(data)} bytes of elements for {spec}")
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    return bits[: spec.size].astype(bool).reshape(spec.shape)


def _resource(r: References, c: Cursor) -> Any:
    kind = r.needed_type(c)
    name, data = r.blob(c)
    if data is None or not isinstance(kind, TensorSpec):
        raise UnsupportedError(f"a constant of type {type_text(kind)} without its elements: {name}")
    return elements_of(kind, data)


def _distinct(r: References, c: Cursor) -> Any:
    return f"distinct[0]<{r.needed(c)}>"


def _word(kind: str) -> Callable[..., Any]:
    words = WORDS[kind]

    def decode(r: References, c: Cursor) -> Any:
        code = c.number()
        if code >= len(words) or not words[code]:
            raise c.error(f"unknown {kind}: {code}")
        return words[code]

    return decode


def _channel_handle(r: References, c: Cursor) -> Any:
    return f"#stablehlo.channel_handle<handle = {c.signed()}, type = {c.signed()}>"


def _convolution(r: References, c: Cursor) -> Any:
    numbers: dict[str, Any] = {}
    for part, first, second in (
        ("input", "batch", "feature"),
        ("kernel", "input_feature", "output_feature"),
        ("output", "batch", "feature"),
    ):
        numbers[f"{part}_{first}_dimension"] = c.signed()
        numbers[f"{part}_{second}_dimension"] = c.signed()
        numbers[f"{part}_spatial_dimensions"] = c.signed_list()
    return numbers


def _contraction(r: References, c: Cursor) -> Any:
    names = (
        "lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
    )  # fmt: skip
    return {name: c.signed_list() for name in names}


def _gather(r: References, c: Cursor) -> Any:
    lists = (
        "offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
        "start_index_map",
    )  # fmt: skip
    return _numbered(c, lists)


def _scatter(r: References, c: Cursor) -> Any:
    lists = (
        "update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
        "scattered_dims_to_operand_dims",
    )  # fmt: skip
    return _numbered(c, lists)


def _numbered(c: Cursor, lists: tuple[str, ...]) -> Any:
    numbers: dict[str, Any] = {name: c.signed_list() for name in lists}
    numbers["index_vector_dim"] = c.signed()
    return numbers


def _bounds(r: References, c: Cursor) -> Any:
    bounds = ["?" if item == DYNAMIC else str(item) for item in c.signed_list()]
    return f"#stablehlo.bounds<{', '.join(bounds)}>"


def _alias(r: References, c: Cursor) -> Any:
    outputs, operand, inputs = list(c.signed_list()), c.signed(), list(c.signed_list())
    return (
        f"#stablehlo.output_operand_alias<output_tuple_indices = {outputs}, operand_index = {operand}, "
        f"operand_tuple_indices = {inputs}>"
    )


def _dot_algorithm(r: References, c: Cursor) -> Any:
    types = [type_text(r.needed_type(c)) for _ in range(3)]
    numbers = [c.signed() for _ in range(3)]
    is_imprecise = "true" if c.byte() else "false"
    return (
        f"#stablehlo.dot_algorithm<lhs_precision_type = {types[0]}, rhs_precision_type = {types[1]}, "
        f"accumulation_type = {types[2]}, lhs_component_count = {numbers[0]}, rhs_component_count = "
        f"{numbers[1]}, num_primitive_operations = {numbers[2]}, allow_imprecise_accumulation = {is_imprecise}>"
    )


_MODES = ("DEFAULT", "HIGHEST", "TOLERANCE")


def _accuracy_mode(r: References, c: Cursor) -> Any:
    return f"#stablehlo.result_accuracy_mode<{_MODES[c.number()]}>"


def _accuracy(r: References, c: Cursor) -> Any:
    tolerances = [
        float(np.array(_integer_bits(c, 64), np.uint64).view(np.float64)) for _ in range(2)
    ]
    ulps, mode = c.signed(), r.needed(c)
    fields = [
        f"{name} = {value:.6e}"
        for name, value in zip(("atol", "rtol"), tolerances, strict=True)
        if value
    ]
    fields += [f"ulps = {ulps}"] if ulps else []
    return f"#stablehlo.result_accuracy<{', '.join([*fields, f'mode = {mode}'])}>"


# Shardy's attributes are decoded to their texts, which `lowering.read.meshes` parses.


def _manual_axes(r: References, c: Cursor) -> Any:
    names = [f'"{r.needed(c)}"' for _ in range(c.count())]
    return f"#sdy<manual_axes{{{', '.join(names)}}}>"


def _mesh_axis(r: References, c: Cursor) -> Any:
    return f'"{r.string(c.number())}"={c.signed()}'


def _mesh(r: References, c: Cursor) -> Any:
    axes = [str(r.needed(c)) for _ in range(c.count())]
    devices = ", ".join(map(str, c.signed_list()))
    return f"mesh<[{', '.join(axes)}]{f', device_ids=[{devices}]' if devices else ''}>"


def _sub_axis(r: References, c: Cursor) -> Any:
    return f":({c.signed()}){c.signed()}"


def _axis(r: References, c: Cursor) -> Any:
    name = r.string(c.number())
    part = r.optional(c)
    return f'"{name}"{"" if part is None else part}'


def _axes_of_dimension(r: References, c: Cursor) -> Any:
    axes = [str(r.needed(c)) for _ in range(c.count())]
    axes += [] if c.byte() else ["?"]
    priority, has_priority = c.flagged()
    return f"{{{', '.join(axes)}}}{f'p{priority}' if has_priority else ''}"


def _sharding(r: References, c: Cursor) -> Any:
    return _sharding_text(r, c, ("replicated",))


def _sharding_with_unreduced(r: References, c: Cursor) -> Any:
    return _sharding_text(r, c, ("replicated", "unreduced"))


def _sharding_text(r: References, c: Cursor, sets: tuple[str, ...]) -> str:
    mesh = str(r.needed(c))
    mesh = mesh if mesh.startswith("mesh<") else f"@{mesh}"
    parts = [mesh, f"[{', '.join([str(r.needed(c)) for _ in range(c.count())])}]"]
    for name in sets:
        axes = [str(r.needed(c)) for _ in range(c.count())]
        parts += [f"{name}={{{', '.join(axes)}}}"] if axes else []
    return _short(f"#sdy.sharding<{', '.join(parts)}>")


def _sharding_per_value(r: References, c: Cursor) -> Any:
    texts = [str(r.needed(c)).removeprefix("#sdy.sharding") for _ in range(c.count())]
    return _short(f"#sdy.sharding_per_value<[{', '.join(texts)}]>")


def _numbers(r: References, c: Cursor) -> Any:
    return c.signed_list()


def _mappings(r: References, c: Cursor) -> Any:
    return tuple([r.needed(c) for _ in range(c.count())])


_LETTERS = "ijklmnopqrstuvwxyz"


def _factor(number: int) -> str:
    if number < len(_LETTERS):
        return _LETTERS[number]
    return f"z_{number - len(_LETTERS) + 1}"


def _sharding_rule(r: References, c: Cursor) -> Any:
    sizes = c.signed_list()
    sides = []
    for _ in range(2):
        tensors = [r.needed(c) for _ in range(c.count())]
        sides.append(", ".join([
            f"[{', '.join([''.join(map(_factor, axis)) for axis in axes])}]" for axes in tensors
        ]))  # fmt: skip
    factors = ", ".join([f"{_factor(i)}={size}" for i, size in enumerate(sizes)])
    text = f"({sides[0]})->({sides[1]}) {{{factors}}}"
    for name in ("reduction", "need_replication", "permutation", "blocked_propagation"):
        listed = ", ".join(map(_factor, c.signed_list()))
        text += f" {name}={{{listed}}}" if listed else ""
    return _short(f"#sdy.op_sharding_rule<{text}{', custom' if c.byte() else ''}>")


def _boolean(r: References, c: Cursor) -> Any:
    value = c.number()
    if value > 1:
        raise c.error(f"unsupported value: {value}")
    return value == 1


_API_VERSIONS = (0, 1, 2, 3, 4)


def _api_version(r: References, c: Cursor) -> Any:
    return _API_VERSIONS[c.number()]


_BUILTIN = (
    _array, _dictionary, _string, _typed_string, _symbol, _nested_symbol, _type_attribute, _unit, _integer, _float,
    _call_site, _file_line, _fused, _fused_with_metadata, _name_location, _unknown_location, _resource,
    _dense_array, _dense_elements, None, None, _distinct, _file_range,
)  # fmt: skip
_STABLEHLO = (
    None, _channel_handle, _word("comparison_direction"), _word("comparison_type"), _convolution, _contraction,
    _word("fft_type"), _gather, _word("precision"), _word("rng_algorithm"), _word("rng_distribution"), _scatter,
    _word("transpose"), _bounds, _alias, _dot_algorithm, _accuracy_mode, _accuracy,
)  # fmt: skip
_SDY = (
    _manual_axes, _mesh_axis, _mesh, _sub_axis, _axis, _axes_of_dimension, _sharding, _sharding_per_value, _numbers,
    _mappings, _sharding_rule, None, None, None, None, _sharding_with_unreduced, _sharding_per_value,
)  # fmt: skip
_CHLO = (_word("comparison_direction"), _word("comparison_type"))
_VHLO = (
    None, _array, _boolean, _word("comparison_direction"), _word("comparison_type"), _api_version, _dictionary,
    _word("fft_type"), _float, _integer, _alias, _word("precision"), _word("rng_algorithm"),
    _word("rng_distribution"), _string, _dense_elements, _word("transpose"), _type_attribute, _bounds,
    _accuracy_mode, _accuracy,
)  # fmt: skip
ATTRIBUTES: Mapping[tuple[str, int], Callable[..., Any]] = {
    (dialect, code): decode
    for dialect, table in {
        "builtin": _BUILTIN,
        "stablehlo": _STABLEHLO,
        "chlo": _CHLO,
        "sdy": _SDY,
        "vhlo": _VHLO,
    }.items()
    for code, decode in enumerate(table)
    if decode is not None
}
"""Decoders of attributes, by dialect and code. The position of a decoder in the tables above is its code."""


# ---- decoders of types -------------------------------------------------------------------------


def _named(text: str) -> Callable[..., Any]:
    kind = ForeignType(text)
    return lambda r, c: kind


def _integer_type(r: References, c: Cursor) -> Any:
    code = c.number()
    if code >> 2 == 0 or code >> 26 or code & 3 == 3:
        raise c.error("malformed integer type")
    return ForeignType(f"{('i', 'si', 'ui')[code & 3]}{code >> 2}")


def _function_type(r: References, c: Cursor) -> Any:
    inputs = tuple([r.needed_type(c) for _ in range(c.count())])
    return FunctionType(inputs, tuple([r.needed_type(c) for _ in range(c.count())]))


def _complex_type(r: References, c: Cursor) -> Any:
    return ForeignType(f"complex<{type_text(r.needed_type(c))}>")


def _ranked(r: References, c: Cursor) -> Any:
    return _tensor(c.signed_list(), r.needed_type(c), "")


def _ranked_with_encoding(r: References, c: Cursor) -> Any:
    encoding = str(r.needed(c))
    return _tensor(c.signed_list(), r.needed_type(c), encoding)


def _tensor(extents: tuple[int, ...], element: Any, encoding: str) -> Any:
    if any(extent < 0 and extent != DYNAMIC for extent in extents):
        raise ValueError("invalid tensor dimension size")
    text = type_text(element)
    dtype = ELEMENTS.get(text)
    if dtype is not None and (not encoding or DYNAMIC not in extents):
        shape = [UNKNOWN if extent == DYNAMIC else extent for extent in extents]
        return TensorSpec.of(tuple(shape), dtype)
    shown = "".join(["?x" if extent == DYNAMIC else f"{extent}x" for extent in extents])
    return ForeignType(_short(f"tensor<{shown}{text}{f', {encoding}' if encoding else ''}>"))


def _unranked(r: References, c: Cursor) -> Any:
    return ForeignType(f"tensor<*x{type_text(r.needed_type(c))}>")


def _tuple_type(r: References, c: Cursor) -> Any:
    parts = [type_text(r.needed_type(c)) for _ in range(c.count())]
    return ForeignType(_short(f"tuple<{', '.join(parts)}>"))


def _real(c: Cursor) -> float:
    return float(np.array(_integer_bits(c, 64), np.uint64).view(np.float64))


def _scale(c: Cursor) -> str:
    """Read a quantisation scale, and return its text as MLIR prints it, or with more digits if that were inexact."""
    scale = _real(c)
    short = f"{scale:.6e}"
    return short if float(short) == scale else repr(scale)


def _quantized(r: References, c: Cursor) -> Any:
    c.number()
    storage, expressed = type_text(r.needed_type(c)), type_text(r.needed_type(c))
    scale, zero, low, high = _scale(c), c.signed(), c.signed(), c.signed()
    shown = f":{zero}" if zero else ""
    return ForeignType(f"!quant.uniform<{storage}<{low}:{high}>:{expressed}, {scale}{shown}>")


def _quantized_per_axis(r: References, c: Cursor) -> Any:
    c.number()
    storage, expressed, axis = type_text(r.needed_type(c)), type_text(r.needed_type(c)), c.signed()
    scales = [_scale(c) for _ in range(c.count())]
    zeros = c.signed_list()
    low, high = c.signed(), c.signed()
    parts = [f"{scale}:{zero}" for scale, zero in zip(scales, zeros, strict=True)]
    return ForeignType(
        f"!quant.uniform<{storage}<{low}:{high}>:{expressed}:{axis}, {{{', '.join(parts)}}}>"
    )


_BUILTIN_TYPES = (
    _integer_type, _named("index"), _function_type, _named("bf16"), _named("f16"), _named("f32"), _named("f64"),
    _named("f80"), _named("f128"), _complex_type, None, None, _named("none"), _ranked, _ranked_with_encoding,
    _tuple_type, None, None, _unranked,
)  # fmt: skip
_VHLO_TYPES = (
    _named("i1"), _complex_type, _named("bf16"), _named("f16"), _named("f32"), _named("f64"), _named("f8E4M3FN"),
    _named("f8E5M2"), _function_type, _named("index"), _named("i4"), _named("i8"), _named("i16"), _named("i32"),
    _named("i64"), _named("ui4"), _named("ui8"), _named("ui16"), _named("ui32"), _named("ui64"), _ranked,
    _ranked_with_encoding, _named("!stablehlo.token"), _tuple_type, _quantized, _unranked,
    _named("!shape.witness"), _named("f8E4M3FNUZ"), _named("f8E5M2FNUZ"), _named("f8E4M3B11FNUZ"),
    _quantized_per_axis, _named("i2"), _named("ui2"), _named("none"), _named("tf32"), _named("f8E4M3"),
    _named("f8E3M4"), _named("f4E2M1FN"), _named("f6E2M3FN"), _named("f6E3M2FN"), _named("f8E8M0FNU"),
)  # fmt: skip
TYPES: Mapping[tuple[str, int], Callable[..., Any]] = {
    ("stablehlo", 0): _named("!stablehlo.token"),
    **{
        (dialect, code): decode
        for dialect, table in {"builtin": _BUILTIN_TYPES, "vhlo": _VHLO_TYPES}.items()
        for code, decode in enumerate(table)
        if decode is not None
    },
}
"""Decoders of types, by dialect and code. The position of a decoder in the tables above is its code."""
