"""Parser of types, attributes and locations in MLIR's text.

A tensor type of a supported dtype is parsed as a `TensorSpec`, and any other type as a `ForeignType` with its text.
Attributes are parsed as numbers, strings, tuples, dictionaries and arrays. Attributes of dialects without a parser are
represented by their text.

Source: MLIR language reference, "Type System" and "Attributes"; StableHLO specification, "Enums".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lowering.mlir_bindings import MlirDiagnosticError
from lowering.module_tree import ForeignType, Type
from lowering.syntax.canonical_types import canonical_text
from lowering.syntax.elements import dense_elements, float_value, integer_value
from lowering.syntax.tokens import END, Tokens
from lowering.types import element_type
from tenferro.dims import UNKNOWN
from tenferro.types import DType, TensorSpec

__all__ = [
    "NAMED_NUMBERS",
    "AttributeParser",
    "FunctionType",
    "conv_numbers",
    "tuple_types",
    "unquoted",
]

ELEMENTS = {element_type(dtype): dtype for dtype in DType}
_FLOATS = {name: dtype.dtype for name, dtype in ELEMENTS.items() if dtype.is_float}
_EXTENTS = re.compile(r"((?:(?:[0-9]+|\?)\s*x\s*)*)(.*)", re.DOTALL)
_INTEGER_TYPE = re.compile(r"(s|u)?i([1-9][0-9]*)")
_SIMPLE_TYPE = re.compile(
    r"(?:[su]?i[1-9][0-9]*|index|none|bf16|tf32|f(?:16|32|64|80|128)|f[468]E[0-9A-Z]+)"
)
LONGEST_LOCATION = 1 << 16
"""Maximum number of characters of a location. Aliases that refer to each other may expand to far more text than
the size of the module.
"""
_DECIMAL = re.compile(r"<-?[1-9]\d{0,17}>")
"""Pattern of metadata that is an integer, which MLIR prints with its type."""
_SIMPLE_SIGNS = re.compile(r"\s+")
_STRINGS_AND_ALIASES = re.compile(r'"(?:[^"\\]|\\.)*"|#[\w$.-]+')
"""Pattern of strings and aliases in metadata of locations; strings match, so that aliases inside them do not."""
LARGEST_EXTENT = (1 << 63) - 1
LARGEST_WIDTH = 1 << 24
SMALL_LITERAL = 64
"""Maximum number of characters of a literal whose decoded elements are shared by constants with the same text."""


class FunctionType:
    """The type of a function.

    Attributes:
        inputs, results: the types of the arguments and of the results.
        text: the type as MLIR prints it.
    """

    def __init__(self, inputs: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        self.inputs = inputs
        self.results = results

    @property
    def text(self) -> str:
        inputs, results = (
            ", ".join(map(type_text, types)) for types in (self.inputs, self.results)
        )
        is_single = len(self.results) == 1 and not isinstance(self.results[0], FunctionType)
        return f"({inputs}) -> {results if is_single else f'({results})'}"


def type_text(kind: Any) -> str:
    """Return the text of a type as MLIR prints it."""
    if isinstance(kind, TensorSpec):
        extents = "".join(["?x" if extent is UNKNOWN else f"{extent}x" for extent in kind.shape])
        return f"tensor<{extents}{element_type(kind.dtype)}>"
    return kind.text


_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_DIALECTS = frozenset(
    [
        "arith",
        "chlo",
        "complex",
        "gpu",
        "llvm",
        "mhlo",
        "mpmd",
        "nvgpu",
        "nvvm",
        "quant",
        "sdy",
        "shape",
        "sparse_tensor",
        "stablehlo",
        "vector",
        "vhlo",
    ]
)
"""Dialects whose types and attributes are accepted. Most of these types and attributes are represented by their text.

Dialects without types or attributes are omitted.
"""
_STABLEHLO_ATTRIBUTES = frozenset(
    [
        "axis_ref",
        "bounds",
        "channel_handle",
        "conv",
        "dot",
        "dot_algorithm",
        "gather",
        "mesh",
        "mesh_axis",
        "output_operand_alias",
        "replica_group_mesh_axes",
        "result_accuracy",
        "result_accuracy_mode",
        "scatter",
        "sub_axis_info",
        "type_extensions",
    ]
)
_ATTRIBUTES = {
    "sdy": frozenset(
        [
            "all_to_all_param",
            "all_to_all_param_list",
            "axis_ref",
            "axis_ref_list",
            "axis_to_propagation_details",
            "dim_mapping",
            "dimension_sharding",
            "edge_value_ref",
            "list_of_axis_ref_lists",
            "manual_axes",
            "mesh",
            "mesh_axis",
            "op_sharding_rule",
            "propagation_edges",
            "propagation_one_step",
            "sharding",
            "sharding_per_value",
            "sub_axis_info",
        ]
    ),
    "stablehlo": _STABLEHLO_ATTRIBUTES,
}
INTEGERS = frozenset(
    [
        "all_gather_dim",
        "batch_group_count",
        "concat_dimension",
        "dimension",
        "feature_group_count",
        "feature_index",
        "iota_dimension",
        "scatter_dimension",
        "split_count",
        "split_dimension",
    ]
)
"""Names of attributes of StableHLO's operations that must be integers of 64 bits."""
_LIST = r"\[(?:\d+(?:,\d+)*)?\]"
_REAL = r"-?\d+\.\d*(?:[eE][-+]?\d+)?"
_FIELDS = {
    "bounds": re.compile(r"(?:\?|\d+)(?:,(?:\?|\d+))*"),
    "channel_handle": re.compile(r"handle=-?\d+,type=-?\d+"),
    "dot_algorithm": re.compile(
        r"lhs_precision_type=\w+,rhs_precision_type=\w+,accumulation_type=\w+,lhs_component_count=\d+,"
        r"rhs_component_count=\d+,num_primitive_operations=\d+,allow_imprecise_accumulation=(?:true|false)"
    ),
    "output_operand_alias": re.compile(
        rf"output_tuple_indices={_LIST},operand_index=\d+,operand_tuple_indices={_LIST}"
    ),
    "result_accuracy": re.compile(
        rf"(?:atol={_REAL},)?(?:rtol={_REAL},)?(?:ulps=-?\d+,)?"
        r"mode=#stablehlo\.result_accuracy_mode<(?:DEFAULT|HIGHEST|TOLERANCE)>"
    ),
}
"""Patterns for the text in brackets of an attribute, by the attribute's name; the text must match without its spaces.

These attributes are represented by their text.
"""
_ESCAPE = re.compile(r"\\(?:([nt\"\\])|([0-9A-Fa-f]{2}))")


def unquoted(word: str) -> str:
    """Decode a string literal, given with its quotation marks.

    Raises:
        ValueError: the literal has an unknown escape sequence.
    """
    inside = word[1:-1]
    if "\\" not in inside:
        return inside
    if "\\" in _ESCAPE.sub("", inside):
        raise ValueError("unknown escape in string literal")

    def byte(match: re.Match[str]) -> bytes:
        if match[1]:
            return {"n": b"\n", "t": b"\t", '"': b'"', "\\": b"\\"}[match[1]]
        return bytes([int(match[2], 16)])

    pieces: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(inside):
        pieces += [inside[end : match.start()].encode(errors="surrogatepass"), byte(match)]
        end = match.end()
    pieces.append(inside[end:].encode(errors="surrogatepass"))
    return b"".join(pieces).decode()


def escaped(text: str) -> str:
    r"""Return a string as MLIR prints it between quotes.

    >>> print(escaped('a"b' + chr(92)))
    a\22b\\
    """
    return _SPECIAL.sub(_as_digits, text)


_SPECIAL = re.compile(r"[^ !#-~]|\\")


def _as_digits(match: re.Match[str]) -> str:
    character = match[0]
    if character == "\\":
        return "\\\\"
    return "".join([f"\\{byte:02X}" for byte in character.encode(errors="surrogatepass")])


NAMED_NUMBERS = {
    "#stablehlo.dot": (
        "lhs_batching_dimensions", "lhs_contracting_dimensions", "rhs_batching_dimensions",
        "rhs_contracting_dimensions",
    ),
    "#stablehlo.gather": (
        "collapsed_slice_dims", "index_vector_dim", "offset_dims", "operand_batching_dims",
        "start_index_map", "start_indices_batching_dims",
    ),
    "#stablehlo.scatter": (
        "index_vector_dim", "input_batching_dims", "inserted_window_dims", "scatter_indices_batching_dims",
        "scattered_dims_to_operand_dims", "update_window_dims",
    ),
}  # fmt: skip
"""Fields of the attributes with dimension numbers; `index_vector_dim` is an integer, the others lists of integers."""

_PRINTED = {"scattered_dims_to_operand_dims": "scatter_dims_to_operand_dims"}
"""Names of fields in the text, with the names that MLIR's Python bindings and the tree use instead."""

WORDS = {
    "comparison_direction": ("EQ", "NE", "GE", "GT", "LE", "LT"),
    "comparison_type": ("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED", "WEAKORDER"),
    "fft_type": ("FFT", "IFFT", "RFFT", "IRFFT"),
    "precision": ("DEFAULT", "HIGH", "HIGHEST"),
    "rng_algorithm": ("DEFAULT", "THREE_FRY", "PHILOX"),
    "rng_distribution": ("", "UNIFORM", "NORMAL"),
    "transpose": ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
}
"""Values of StableHLO's enumerations, in the order of their numbers in MLIR's bytecode.

Source: StableHLO specification.
"""


def conv_numbers(labels: tuple[tuple[Any, ...], ...]) -> dict[str, Any]:
    """Derive the dimension numbers of a convolution from three tuples of labels, such as ("b", "0", "f").

    The tuples label the axes of the input, the kernel and the output.

    Raises:
        ValueError: a label is missing, unknown, or occurs twice.
    """
    numbers: dict[str, Any] = {}
    parts = (("input", "b", "f"), ("kernel", "i", "o"), ("output", "b", "f"))
    titles = {
        "input": ("batch", "feature"),
        "kernel": ("input_feature", "output_feature"),
        "output": ("batch", "feature"),
    }
    for (part, first, second), names in zip(parts, labels, strict=True):
        rest = [name for name in names if name not in (first, second, "?")]
        if names.count(first) != 1 or names.count(second) != 1:
            raise ValueError(f"{part}: dimensions {first} and {second} must occur once each")
        if not all(name.isdigit() for name in rest):
            raise ValueError(f"{part}: unknown dimension label")
        spatial = sorted(map(int, rest))
        if spatial != list(range(len(rest))):
            raise ValueError(f"{part}: spatial dimensions must be 0 to {len(rest) - 1}, once each")
        numbers[f"{part}_{titles[part][0]}_dimension"] = names.index(first)
        numbers[f"{part}_{titles[part][1]}_dimension"] = names.index(second)
        numbers[f"{part}_spatial_dimensions"] = tuple(
            [names.index(str(i)) for i in range(len(rest))]
        )
    return numbers


class AttributeParser:
    """Parser of types, attributes and locations, at the position `at` in a sequence of tokens."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.words = tokens.words
        self.at = 0
        self.aliases: dict[str, Any] = {}
        self.location_aliases: dict[str, str] = {}
        self._fusions: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._types: dict[str, Any] = {}
        self._literals: dict[tuple[str, Any], Any] = {}

    # ---- tokens ------------------------------------------------------------------------------

    def error(self, message: str, at: int | None = None) -> MlirDiagnosticError:
        """Create an error at a token, by default at the next token."""
        return self.tokens.error(message, self.at if at is None else at)

    def accept(self, word: str) -> bool:
        """Consume the next token if it is `word`, and return whether it is."""
        if self.words[self.at] == word:
            self.at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        """Consume the next token, which must be `word`.

        Raises:
            MlirDiagnosticError: the next token is not `word`.
        """
        if self.words[self.at] != word:
            raise self.error(f"expected '{word}', got {self.shown()}")
        self.at += 1

    def shown(self) -> str:
        """Return the next token in quotes and shortened, for an error message."""
        word = self.words[self.at]
        return "the end of the text" if word == END else f"'{word[:40]}'"

    def string(self) -> str:
        """Read a string literal, and return its value."""
        word = self.words[self.at]
        if not word.startswith('"') or len(word) < 2:
            raise self.error(f"expected a string, got {self.shown()}")
        self.at += 1
        try:
            return unquoted(word)
        except ValueError as error:
            raise self.error(str(error), self.at - 1) from None

    def keyword(self) -> str:
        """Read a word without quotation marks, such as a keyword or the name of an attribute."""
        word = self.words[self.at]
        if not (word[:1].isalpha() or word[:1] == "_") or word.endswith(">"):
            raise self.error(f"expected a word, got {self.shown()}")
        self.at += 1
        return word

    def integer(self) -> int:
        """Read an integer, which may have a sign."""
        word = self.words[self.at]
        is_negative = word == "-"
        if is_negative:
            self.at += 1
            word = self.words[self.at]
        try:
            number = integer_value(word, 64, True)
        except ValueError as error:
            raise self.error(str(error)) from None
        self.at += 1
        return -number if is_negative else number

    def integers(self) -> tuple[int, ...]:
        """Read a list of integers in brackets."""
        self.expect("[")
        numbers: list[int] = []
        if not self.accept("]"):
            numbers.append(self.integer())
            while self.accept(","):
                numbers.append(self.integer())
            self.expect("]")
        return tuple(numbers)

    def symbol(self) -> str:
        """Read the name of a symbol, such as `@main`, and return it without `@`."""
        word = self.words[self.at]
        if not word.startswith("@") or len(word) < 2:
            raise self.error(f"expected a symbol's name, got {self.shown()}")
        self.at += 1
        try:
            return unquoted(word[1:]) if word[1] == '"' else word[1:]
        except ValueError as error:
            raise self.error(str(error), self.at - 1) from None

    def bracketed_text(self) -> str:
        """Read the text from the next token, which is `<`, up to the matching `>`."""
        start, open_brackets = self.at, [""]
        words = self.words
        while True:
            word = words[self.at]
            if word == END:
                raise self.error("expected '>', got the end of the text", start)
            if word in _CLOSING:
                open_brackets.append(_CLOSING[word])
            elif word == open_brackets[-1]:
                open_brackets.pop()
            elif word in (")", "]", "}", ">"):
                raise self.error(f"unbalanced '{word}'")
            self.at += 1
            if len(open_brackets) == 1:
                break
        offsets = self.tokens.offsets
        return self.tokens.text[offsets[start] : offsets[self.at - 1] + 1]

    # ---- types -------------------------------------------------------------------------------

    def type(self) -> Any:
        """Read a type: a `TensorSpec`, a `ForeignType` or a `FunctionType`."""
        at = self.at
        word = self.words[at]
        known = self._types.get(word)
        if known is not None:
            self.at += 1
            return known
        if word == "(":
            return self.function_type()
        if word.startswith("tensor<"):
            self.at += 1
            parsed = self._tensor(word[7:-1], at)
        elif word.startswith("!"):
            return self._dialect_type()
        elif word == "tensor":
            self.at += 1
            return self._tensor(self.bracketed_text()[1:-1], at)
        elif word in ("complex", "tuple", "vector", "memref"):
            self.at += 1
            return self._composed(word)
        elif _SIMPLE_TYPE.fullmatch(word):
            self.at += 1
            integer = _INTEGER_TYPE.fullmatch(word)
            if integer is not None and (len(integer[2]) > 8 or int(integer[2]) >= LARGEST_WIDTH):
                raise self.error("integer bitwidth is limited to 16777215 bits", at)
            parsed = ForeignType(word)
        else:
            raise self.error(f"expected a type, got {self.shown()}")
        self._types[word] = parsed
        return parsed

    def _dialect_type(self) -> Any:
        word = self.words[self.at]
        if word in self.aliases:
            self.at += 1
            return self.aliases[word]
        if word[1:].partition(".")[0] not in _DIALECTS or (
            "." not in word and self.words[self.at + 1] != "<"
        ):
            raise self.error(f"unknown type {word[:40]}")
        self.at += 1
        inside = ""
        if self.words[self.at] == "<":
            inside = _SIMPLE_SIGNS.sub(" ", self.bracketed_text())
        return ForeignType(canonical_text(word + inside))

    def _composed(self, word: str) -> Any:
        self.expect("<")
        if word in ("vector", "memref"):
            self.at -= 1
            return ForeignType(word + self.bracketed_text())
        parts: list[Any] = []
        if self.words[self.at] != ">":
            parts.append(self.type())
            while word == "tuple" and self.accept(","):
                parts.append(self.type())
        self.expect(">")
        if word == "complex" and (len(parts) != 1 or not self._is_number_type(parts[0])):
            raise self.error("complex: expected an integer or floating-point type")
        return ForeignType(f"{word}<{', '.join(map(type_text, parts))}>")

    def _is_number_type(self, kind: Any) -> bool:
        text = getattr(kind, "text", "")
        return bool(_SIMPLE_TYPE.fullmatch(text)) and text not in ("index", "none")

    def _tensor(self, inside: str, at: int) -> Any:
        match = _EXTENTS.match(inside)
        assert match is not None
        element = match[2].strip()
        if match[1] == "" and element.startswith("*"):
            return ForeignType(f"tensor<{inside}>")
        extents = [part.strip() for part in match[1].split("x")[:-1]]
        if any(len(part) > 19 or (part != "?" and int(part) > LARGEST_EXTENT) for part in extents):
            raise self.error("invalid dimension", at)
        shape = tuple([UNKNOWN if part == "?" else int(part) for part in extents])
        element, _, encoding = (
            element.partition(",") if not element.startswith("!") else (element, "", "")
        )
        element = element.strip()
        dtype = ELEMENTS.get("".join(element.split()))
        if dtype is not None and (not encoding or UNKNOWN not in shape):
            if encoding and not encoding.strip().startswith(("#", '"', "dense", "{", "[")):
                raise self.error(f"invalid tensor encoding: {encoding.strip()[:40]}", at)
            return TensorSpec.of(shape, dtype)
        if dtype is None and not self._is_element(element):
            raise self.error(f"invalid tensor element type: {element[:40]}", at)
        text = "".join(["?x" if extent is UNKNOWN else f"{extent}x" for extent in shape])
        text = f"tensor<{text}{element}{f', {encoding.strip()}' if encoding else ''}>"
        return ForeignType(canonical_text(text))

    def _is_element(self, text: str) -> bool:
        if text.startswith("!"):
            return len(text) > 1
        if text.startswith("complex<"):
            return bool(_SIMPLE_TYPE.fullmatch(text[8:-1].strip()))
        return bool(_SIMPLE_TYPE.fullmatch(text)) or text.startswith(("vector<", "tuple<"))

    def types(self, closing: str) -> tuple[Any, ...]:
        """Read types up to and including a closing bracket."""
        members: list[Any] = []
        if not self.accept(closing):
            members.append(self.type())
            while self.accept(","):
                members.append(self.type())
            self.expect(closing)
        return tuple(members)

    def function_type(self) -> FunctionType:
        """Read the type of a function: `(inputs) -> results`."""
        self.expect("(")
        inputs = self.types(")")
        self.expect("->")
        if self.accept("("):
            return FunctionType(inputs, self.types(")"))
        return FunctionType(inputs, (self.type(),))

    # ---- attributes --------------------------------------------------------------------------

    def attribute(self) -> Any:
        """Read an attribute of any kind."""
        at = self.at
        word = self.words[at]
        first = word[:1]
        if first == '"':
            value = self.string()
            if self.accept(":"):
                self.type()
            return value
        if first.isdigit() or first == "-":
            return self._number()
        if word == "[":
            self.at += 1
            items: list[Any] = []
            if not self.accept("]"):
                items.append(self.attribute())
                while self.accept(","):
                    items.append(self.attribute())
                self.expect("]")
            return tuple(items)
        if word == "{":
            return self.dictionary()
        if first == "@":
            return self._symbol_reference()
        if first == "#":
            return self._dialect_attribute()
        if word == "true" or word == "false":
            self.at += 1
            return word == "true"
        if word == "unit":
            self.at += 1
            return True
        if word.startswith("array<"):
            self.at += 1
            return self._array(word[6:-1], at)
        if word.startswith("dense<"):
            self.at += 1
            self.expect(":")
            return self.elements(word[6:-1], at)
        if word == "dense_resource":
            return self._resource()
        if word == "loc":
            self.at += 1
            self.expect("(")
            return f"loc({self.location()})"
        if word in ("affine_map", "affine_set"):
            return self._affine()
        if word in ("distinct", "sparse", "strided"):
            return self._unread(word)
        kind = self.type()
        return kind.text if isinstance(kind, FunctionType) else type_text(kind)

    def _affine(self) -> str:
        """Read the text of an affine map or set.

        The conditions of a set may contain `>=` in parentheses. So a `>` ends the text only outside of parentheses.
        """
        start = self.at
        depth = 0
        self.at += 1
        while depth or self.words[self.at] != ">":
            word = self.words[self.at]
            if word == END:
                raise self.error("expected '>', got the end of the text", start)
            depth += (word in ("(", "[")) - (word in (")", "]"))
            self.at += 1
        self.at += 1
        offsets = self.tokens.offsets
        return _SIMPLE_SIGNS.sub(" ", self.tokens.text[offsets[start] : offsets[self.at - 1] + 1])

    def _unread(self, word: str) -> str:
        """Read a builtin attribute that no operation of StableHLO uses, and return its text."""
        self.at += 1
        number = ""
        if word == "distinct":
            self.expect("[")
            number = f"[{self.integer()}]"
            self.expect("]")
        text = f"{word}{number}{_SIMPLE_SIGNS.sub(' ', self.bracketed_text())}"
        if word == "sparse":
            self.expect(":")
            return f"{text} : {type_text(self.type())}"
        return text

    def elements(self, text: str, at: int) -> Any:
        """Read the type that follows a literal, and decode the literal's elements.

        Args:
            text: the text between the brackets of the literal.
            at: the position of the literal, for errors.
        """
        kind = self.type()
        return self.elements_of(text, kind, at)

    def elements_of(self, text: str, kind: Any, at: int) -> Any:
        """Decode the elements of a literal of the type `kind`; see `elements`."""
        if len(text) > SMALL_LITERAL:
            return self._elements_of(text, kind, at)
        elements = self._literals.get((text, kind))
        if elements is None:
            elements = self._literals[text, kind] = self._elements_of(text, kind, at)
        return elements

    def _elements_of(self, text: str, kind: Any, at: int) -> Any:
        try:
            if isinstance(kind, TensorSpec):
                if UNKNOWN in kind.shape:
                    raise ValueError("elements literal type must have static shape")
                return dense_elements(text, kind)
            inside = kind.text
            if inside.startswith("tensor<") and inside.endswith("index>"):
                spec = self._tensor(inside[7:-6] + "i64", at)
                return dense_elements(text, spec)
        except (ValueError, OverflowError, MemoryError) as error:
            raise self.error(str(error), at) from None
        if not kind.text.startswith(("tensor<", "vector<")):
            raise self.error("elements literal must be a shaped type", at)
        return f"dense<{_SIMPLE_SIGNS.sub(' ', text)}> : {kind.text}"

    def _resource(self) -> str:
        self.at += 1
        self.expect("<")
        word = self.words[self.at]
        name = self.string() if word.startswith('"') else self.keyword()
        self.expect(">")
        self.expect(":")
        return f"dense_resource<{name}> : {type_text(self.type())}"

    def _number(self) -> Any:
        at = self.at
        word = self.words[at]
        self.at += 1
        if word == "-":
            word += self.words[self.at]
            self.at += 1
        is_float = "." in word
        kind = "f64" if is_float else "i64"
        if self.words[self.at] == ":":
            self.at += 1
            kind = getattr(self.type(), "text", "")
        try:
            if kind in _FLOATS:
                return float(float_value(word, _FLOATS[kind]))
            if _SIMPLE_TYPE.fullmatch(kind) and kind[0] in "ft":
                return float(word) if is_float else word
            integer = _INTEGER_TYPE.fullmatch(kind)
            if kind == "index":
                return integer_value(word, 64, True)
            if integer is None:
                raise ValueError(f"integer literal not valid for type {kind}")
            is_signed = {None: None, "s": True, "u": False}[integer[1]]
            if integer[2] == "1" and integer[1] is None:
                return integer_value(word, 1, None) != 0
            return integer_value(word, int(integer[2]), is_signed)
        except (ValueError, OverflowError) as error:
            raise self.error(str(error), at) from None

    def _array(self, text: str, at: int) -> tuple[Any, ...]:
        """Decode the text of a dense array, such as `i64: 1, 2`."""
        kind, colon, rest = text.partition(":")
        kind = kind.strip()
        words = [item.strip() for item in rest.split(",")] if colon else []
        try:
            if kind == "i1":
                if any(word not in ("true", "false") for word in words):
                    raise ValueError("expected true or false")
                return tuple([word == "true" for word in words])
            integer = _INTEGER_TYPE.fullmatch(kind)
            if integer is not None and int(integer[2]) in (8, 16, 32, 64):
                is_signed = {None: None, "s": True, "u": False}[integer[1]]
                width = int(integer[2])
                return tuple(
                    [integer_value(_joined_sign(word), width, is_signed) for word in words]
                )
            if kind in _FLOATS:
                dtype = _FLOATS[kind]
                return tuple([float(float_value(_joined_sign(word), dtype)) for word in words])
        except (ValueError, OverflowError) as error:
            raise self.error(str(error), at) from None
        raise self.error(f"array<{kind[:20]}>: unknown element type", at)

    def dictionary(self) -> dict[str, Any]:
        """Read a dictionary in braces."""
        self.expect("{")
        entries: dict[str, Any] = {}
        if self.accept("}"):
            return entries
        while True:
            at = self.at
            name = self.string() if self.words[at].startswith('"') else self.keyword()
            if name in entries:
                raise self.error(f"duplicate key '{name[:40]}' in dictionary attribute", at)
            entries[name] = self.attribute() if self.accept("=") else True
            typed = self.words[self.at - 2] == ":" and self.words[self.at - 1] != "i64"
            if typed and name in INTEGERS and type(entries[name]) is int:
                raise self.error(f"attribute '{name}' is an integer of 64 bits", at)
            if not self.accept(","):
                break
        self.expect("}")
        return entries

    def _symbol_reference(self) -> str:
        name = self.symbol()
        if self.words[self.at] != "::":
            return name
        parts = [f"@{name}"]
        while self.accept("::"):
            parts.append(f"@{self.symbol()}")
        return "::".join(parts)

    def _dialect_attribute(self) -> Any:
        at = self.at
        word = self.words[at]
        self.at += 1
        following = self.words[self.at]
        if following != "<":
            if word in self.aliases:
                return self.aliases[word]
            if word in self.location_aliases:
                return f"loc({word})"
            if "." not in word:
                raise self.error(f"undefined symbol alias id '{word[1:]}'", at)
            if word[1:].partition(".")[0] not in _DIALECTS:
                raise self.error(f"unknown attribute {word[:40]}", at)
            return word
        dialect, _, name = word[1:].partition(".")
        names = _ATTRIBUTES.get(dialect)
        if dialect not in _DIALECTS or (names is not None and name and name not in names):
            raise self.error(f"unknown attribute {word[:40]}", at)
        if word in ("#stablehlo", "#chlo"):
            return self._word(word)
        if word == "#stablehlo.conv":
            self.expect("<")
            numbers = self.convolution_numbers()
            self.expect(">")
            return numbers
        if word in NAMED_NUMBERS:
            return self._named_numbers(NAMED_NUMBERS[word])
        text = canonical_text(word + _SIMPLE_SIGNS.sub(" ", self.bracketed_text()))
        text = self.checked(text, at)
        if word == "#complex.number" and self.accept(":"):
            self.type()
        return text

    def checked(self, text: str, at: int) -> str:
        """Check the fields of an attribute by its pattern in `_FIELDS`, and return its text."""
        name, _, inside = text.partition("<")
        pattern = _FIELDS.get(name.removeprefix("#stablehlo."))
        if pattern is not None and not pattern.fullmatch("".join(inside[:-1].split())):
            raise self.error(f"malformed attribute {text[:60]}", at)
        return text

    def _word(self, dialect: str) -> Any:
        """Read an attribute such as `#stablehlo<precision HIGH>`, after `#stablehlo` or `#chlo`.

        The brackets contain a value of an enumeration, as in this example, or the name and fields of another attribute.
        """
        start = self.at
        self.expect("<")
        kind = self.keyword()
        if kind in WORDS:
            value = self.keyword()
            if value not in WORDS[kind]:
                raise self.error(f"unknown {kind}: {value[:40]}", self.at - 1)
            self.expect(">")
            return value
        if kind not in _STABLEHLO_ATTRIBUTES:
            raise self.error(f"unknown attribute {dialect}<{kind[:40]}>", start)
        following = self.words[self.at]
        self.at = start
        text = _SIMPLE_SIGNS.sub(" ", self.bracketed_text())
        match = re.fullmatch(r"<\w+ (\w+)>", text)
        if match is not None:
            return match[1]
        if following == "<":
            return f"{dialect}.{text[1:-1]}"
        return dialect + text

    def _named_numbers(self, fields: tuple[str, ...]) -> dict[str, Any]:
        self.expect("<")
        known = {_PRINTED.get(name, name): name for name in fields}
        numbers: dict[str, Any] = {name: 0 if name == "index_vector_dim" else () for name in fields}
        given: set[str] = set()
        while self.words[self.at] != ">":
            at = self.at
            name = self.keyword()
            if name not in known or name in given:
                raise self.error(f"unexpected field {name[:40]}", at)
            given.add(name)
            self.expect("=")
            numbers[known[name]] = self.integer() if name == "index_vector_dim" else self.integers()
            if not self.accept(","):
                break
        self.expect(">")
        return numbers

    def convolution_numbers(self) -> dict[str, Any]:
        """Read the dimension numbers of a convolution, such as `[b, 0, f]x[0, i, o]->[b, 0, f]`."""
        at = self.at
        labels: list[tuple[str, ...]] = []
        for separator in ("x", "->", ""):
            self.expect("[")
            names: list[str] = []
            while not names or self.accept(","):
                names.append(self.words[self.at])
                self.at += self.words[self.at] != END
            self.expect("]")
            labels.append(tuple(names))
            if separator:
                self.expect(separator)
        try:
            return conv_numbers(tuple(labels))
        except ValueError as error:
            raise self.error(str(error), at) from None

    # ---- locations ---------------------------------------------------------------------------

    def location(self) -> str:
        """Read the text of a location and its closing parenthesis; the opening one has been read.

        Raises:
            MlirDiagnosticError: an alias is not defined before it, or the text is too long.
        """
        place = self._location()
        self.expect(")")
        return place

    def _location(self) -> str:
        at = self.at
        word = self.words[at]
        self.at += 1
        if word.startswith("#"):
            return self.aliased_location(word, at)
        if word == "unknown":
            return word
        if word == "callsite":
            self.expect("(")
            callee = self._location()
            self.expect("at")
            caller = self._location()
            self.expect(")")
            return self._short(f"callsite({callee} at {caller})")
        if word == "fused":
            metadata = ""
            if self.words[self.at] == "<":
                metadata = _SIMPLE_SIGNS.sub(" ", self.bracketed_text())
                metadata = self._without_aliases(metadata)
                if metadata == "<>":
                    raise self.error("expected attribute value", at)
                if _DECIMAL.fullmatch(metadata):
                    metadata = f"{metadata[:-1]} : i64>"
            self.expect("[")
            parts: list[str] = []
            while not self.accept("]"):
                if parts:
                    self.expect(",")
                parts.append(self._location())
            return self._fused(metadata, parts)
        if not word.startswith('"'):
            raise self.error(f"expected a location, got '{word[:40]}'", at)
        self.at = at
        name = f'"{escaped(self.string())}"'
        if self.accept(":"):
            return (name if name != '""' else '"-"') + self._line_range()
        if self.accept("("):
            child = self._location()
            self.expect(")")
            return name if child == "unknown" else self._short(f"{name}({child})")
        return name

    def _without_aliases(self, metadata: str) -> str:
        """Replace the aliases in metadata by the locations that they name."""
        text, end = "", 0
        for match in _STRINGS_AND_ALIASES.finditer(metadata):
            place = self.location_aliases.get(match[0])
            if place is not None:
                text = self._short(f"{text}{metadata[end : match.start()]}loc({place})")
                end = match.end()
        return text + metadata[end:]

    def aliased_location(self, name: str, at: int) -> str:
        """Return the text of the location that an alias names."""
        if name not in self.location_aliases:
            raise self.error(f"undefined symbol alias id '{name[1:]}'", at)
        return self.location_aliases[name]

    def _fused(self, metadata: str, parts: Sequence[str]) -> str:
        """Return the text of a fused location, as MLIR prints it.

        MLIR omits duplicates and unknown locations, and merges inner fused locations that have the same metadata.
        """
        different: dict[str, None] = {}
        for part in parts:
            inner = self._fusions.get(part)
            is_nested = inner is not None and inner[0] == metadata
            different.update(dict.fromkeys(inner[1] if inner and is_nested else [part]))
        different.pop("unknown", None)
        if not metadata and len(different) < 2:
            return next(iter(different), "unknown")
        members = tuple(different) or ("unknown",)
        text = self._short(f"fused{metadata}[{', '.join(members)}]")
        self._fusions[text] = metadata, members
        return text

    def _short(self, text: str) -> str:
        if len(text) > LONGEST_LOCATION:
            raise self.error(f"a location of more than {LONGEST_LOCATION} characters")
        return text

    def _line_range(self) -> str:
        """Read `:8`, `:8:4`, `:8:4 to :9` or `:8:4 to 9:2`, after its first colon."""
        line = self._place_number()
        if self.words[self.at] == ")":
            return f":{line}:0"
        self.expect(":")
        column = self._place_number()
        start = f":{line}:{column}"
        if not self.accept("to"):
            return start
        last = line if self.words[self.at] == ":" else self._place_number()
        self.expect(":")
        end = self._place_number()
        if last != line:
            return f"{start} to {last}:{end}"
        return start if end == column else f"{start} to :{end}"

    def _place_number(self) -> int:
        at = self.at
        number = self.integer()
        if not 0 <= number < 1 << 32:
            raise self.error("expected an integer of 32 bits in a location", at)
        return number


def _joined_sign(word: str) -> str:
    return "-" + word[1:].lstrip() if word.startswith("-") else word


def tuple_types(kind: Type) -> list[Type]:
    """Return the types of the elements of a tuple type.

    >>> tuple_types(ForeignType("tuple<tensor<2x!quant.uniform<i8:f32, 0.5>>, tuple<tensor<i32>>>"))[1]
    ForeignType(text='tuple<tensor<i32>>')
    """
    parser = AttributeParser(Tokens(str(kind).removeprefix("tuple<").removesuffix(">")))
    elements: list[Type] = []
    while parser.words[parser.at]:
        elements.append(parser.type())
        parser.accept(",")
    return elements
