"""`FormParser`, which parses operations in MLIR's pretty form, by the patterns of `lowering.syntax.forms`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lowering.module_tree import ForeignType
from lowering.syntax.attributes import WORDS, AttributeParser, type_text
from lowering.syntax.elements import float_value
from lowering.syntax.forms import FORMS
from lowering.syntax.tokens import Tokens
from tenferro.types import DType, TensorSpec

__all__ = ["STEPS", "FormParser"]


class FormParser(AttributeParser):
    """Parser of operations in a pretty form that contains no regions.

    Attributes:
        scope: a dictionary from names such as `%5` to the numbers of the values that the name denotes.
        value_types: the type of each value, by number.
    """

    def __init__(self, tokens: Tokens) -> None:
        super().__init__(tokens)
        self.scope: dict[str, Any] = {}
        self.value_types: list[Any] = []

    def operand(self) -> int:
        at = self.at
        word = self.words[at]
        name, _, index = word.partition("#")
        numbers = self.scope.get(name)
        if numbers is None:
            if word[:1] != "%":
                raise self.error(f"expected an operand, got {self.shown()}")
            raise self.error(f"use of undeclared SSA value name {word[:40]}")
        self.at = at + 1
        if not index:
            return numbers[0]
        if len(index) > 9 or int(index) >= len(numbers):
            raise self.error(f"reference to invalid result number {word[:40]}", at)
        return numbers[int(index)]

    def operands(self) -> list[int]:
        numbers: list[int] = []
        while self.words[self.at][:1] == "%":
            numbers.append(self.operand())
            if not self.accept(","):
                break
        return numbers

    def check_operands(self, operands: Sequence[int], types: Sequence[Any], at: int) -> None:
        if len(operands) != len(types):
            raise self.error(f"expected {len(operands)} operand types, got {len(types)}", at)
        for number, kind in zip(operands, types, strict=True):
            known = self.value_types[number]
            if known is not kind and known != kind:
                raise self.error(
                    f"use of a value of type {type_text(known)} as one of type {type_text(kind)}",
                    at,
                )

    def followed(
        self, steps: Any, operands: list[int], attributes: dict[str, Any]
    ) -> tuple[Any, ...] | None:
        """Read an operation by the steps of a compiled pattern.

        The operands and attributes that are read are added to `operands` and `attributes`. Return the result types;
        None if the pattern contains no types.
        """
        for kind, argument, name in steps:
            if kind == "token":
                if self.words[self.at] != argument:
                    raise self.error(f"expected '{argument}', got {self.shown()}")
                self.at += 1
            elif kind == "operand":
                operands.append(self.operand())
            elif kind == "operands":
                operands += self.operands()
            elif kind == "followed":
                while self.words[self.at][:1] == "%":
                    operands.append(self.operand())
                    self.expect(",")
            elif kind == "dictionary":
                if self.words[self.at] == "{":
                    for key, value in self.dictionary().items():
                        if key in attributes:
                            raise self.error(f"attribute '{key[:40]}' occurs twice")
                        attributes[key] = value
            elif kind == "optional":
                if self._begins(argument):
                    self.followed(argument, operands, attributes)
            elif kind == "attribute":
                argument(self, name, attributes)
            else:
                return argument(self, operands, attributes)
        return None

    def _begins(self, steps: Any) -> bool:
        return self.words[self.at] == steps[0][1]

    def type_list(self) -> tuple[Any, ...]:
        types = [self.type()]
        while self.accept(","):
            types.append(self.type())
        return tuple(types)

    # ---- attributes of pretty forms ----------------------------------------------------------

    def read_integers(self, name: str, attributes: dict[str, Any]) -> None:
        if self.words[self.at].startswith("array<"):
            attributes[name] = self.attribute()
        else:
            attributes[name] = self.integers()

    def read_integer(self, name: str, attributes: dict[str, Any]) -> None:
        attributes[name] = self.integer()

    def read_unsigned(self, name: str, attributes: dict[str, Any]) -> None:
        word = self.words[self.at]
        if not word.isdecimal() or len(word) > 20 or int(word) >= 1 << 64:
            raise self.error(f"expected an unsigned integer of 64 bits, got {self.shown()}")
        self.at += 1
        attributes[name] = int(word)

    def read_number(self, name: str, attributes: dict[str, Any]) -> None:
        word = self.words[self.at]
        self.at += 1
        try:
            attributes[name] = float(float_value(word, np.dtype(np.float64)))
        except ValueError as error:
            raise self.error(str(error), self.at - 1) from None

    def read_bool(self, name: str, attributes: dict[str, Any]) -> None:
        word = self.keyword()
        if word not in ("true", "false"):
            raise self.error("expected true or false", self.at - 1)
        attributes[name] = word == "true"

    def read_string(self, name: str, attributes: dict[str, Any]) -> None:
        attributes[name] = self.string()

    def read_symbol(self, name: str, attributes: dict[str, Any]) -> None:
        attributes[name] = self.symbol()

    def read_attribute(self, name: str, attributes: dict[str, Any]) -> None:
        if name == "value":
            self._read_value(attributes)
        else:
            attributes[name] = self.attribute()

    def _read_value(self, attributes: dict[str, Any]) -> None:
        """Read the value of `arith.constant`.

        The type of the value is also the type of the operation's result, and is stored as the attribute ":".
        """
        start = self.at
        attributes["value"] = self.attribute()
        end = self.at
        colon = end
        while colon > start and self.words[colon] != ":":
            colon -= 1
        if colon == start:  # true and false need no type
            attributes[":"] = ForeignType("i1")
            return
        self.at = colon + 1
        attributes[":"] = self.type()
        self.at = end

    def read_elements(self, name: str, attributes: dict[str, Any]) -> None:
        """Read the literal of a constant, and store its type as the attribute ":"."""
        at = self.at
        word = self.words[at]
        if word.startswith("#"):
            self.at += 1
            if word not in self.aliases:
                raise self.error(f"undefined symbol alias id '{word[1:]}'", at)
            value = self.aliases[word]
            attributes[name], attributes[":"] = value, _type_of(value)
            return
        if word.startswith("dense<"):
            self.at += 1
            self.expect(":")
            kind = self.type()
            attributes[name] = self.elements_of(word[6:-1], kind, at)
        elif word == "dense_resource":
            attributes[name] = self._resource()
            start = self.at - 1
            while self.words[start] != ":":
                start -= 1
            end, self.at = self.at, start + 1
            kind = self.type()
            self.at = end
        else:
            raise self.error(f"expected elements, got {self.shown()}")
        attributes[":"] = kind

    def read_precisions(self, name: str, attributes: dict[str, Any]) -> None:
        self.expect("[")
        precisions: list[str] = []
        while not self.accept("]"):
            if precisions:
                self.expect(",")
            precisions.append(self.one_of("precision"))
        attributes[name] = tuple(precisions)

    def one_of(self, kind: str) -> str:
        word = self.keyword()
        if word not in WORDS[kind]:
            raise self.error(f"unknown {kind}: {word[:40]}", self.at - 1)
        return word

    def read_contraction(self, name: str, attributes: dict[str, Any]) -> None:
        self.expect(",")
        batching: tuple[Any, Any] = (), ()
        if self.accept("batching_dims"):
            batching = self._pair()
            self.expect(",")
        self.expect("contracting_dims")
        contracting = self._pair()
        attributes[name] = {
            "lhs_batching_dimensions": batching[0],
            "lhs_contracting_dimensions": contracting[0],
            "rhs_batching_dimensions": batching[1],
            "rhs_contracting_dimensions": contracting[1],
        }

    def _pair(self) -> tuple[Any, Any]:
        self.expect("=")
        left = self.integers()
        self.expect("x")
        return left, self.integers()

    def read_contraction_options(self, name: str, attributes: dict[str, Any]) -> None:
        if not self.accept(","):
            return
        if self.accept("precision"):
            self.expect("=")
            self.read_precisions(name, attributes)
            if not self.accept(","):
                return
        self.expect("algorithm")
        self.expect("=")
        at = self.at
        text = f"#stablehlo.dot_algorithm{self.bracketed_text()}"
        attributes["algorithm"] = self.checked(text, at)

    def read_convolution(self, name: str, attributes: dict[str, Any]) -> None:
        attributes[name] = self.convolution_numbers()

    def read_window(self, name: str, attributes: dict[str, Any]) -> None:
        """Read the strides, padding, dilations and reversals of a convolution, each of which is optional."""
        keys = {
            "stride": "window_strides", "pad": "padding", "lhs_dilate": "lhs_dilation",
            "rhs_dilate": "rhs_dilation", "reverse": "window_reversal",
        }  # fmt: skip
        seen: set[str] = set()
        while self.words[self.at] != "}":
            if seen:
                self.expect(",")
            at = self.at
            key = self.keyword()
            if key not in keys or key in seen:
                raise self.error(f"unexpected keyword {key[:40]}", at)
            seen.add(key)
            self.expect("=")
            if key == "pad":
                attributes["padding"] = self._padding()
            elif key == "reverse":
                attributes["window_reversal"] = self._truths()
            else:
                attributes[keys[key]] = self.integers()

    def _padding(self) -> Any:
        pairs: list[tuple[int, ...]] = []
        self.expect("[")
        while not self.accept("]"):
            if pairs:
                self.expect(",")
            at = self.at
            pairs.append(self.integers())
            if len(pairs[-1]) != 2:
                raise self.error("expected a pair of paddings", at)
        return np.array(pairs, np.int64).reshape(-1, 2)

    def _truths(self) -> tuple[bool, ...]:
        truths: list[bool] = []
        self.expect("[")
        while not self.accept("]"):
            if truths:
                self.expect(",")
            word = self.words[self.at]
            if word not in ("true", "false", "0", "1"):
                raise self.error("expected true or false")
            self.at += 1
            truths.append(word in ("true", "1"))
        return tuple(truths)

    def read_precision_format(self, name: str, attributes: dict[str, Any]) -> None:
        word = self.keyword()
        match = re.fullmatch(r"e([0-9]{1,9})m([0-9]{1,9})", word)
        if match is None:
            raise self.error(f"expected exponent and mantissa bits, got {word[:40]}", self.at - 1)
        attributes["exponent_bits"], attributes["mantissa_bits"] = int(match[1]), int(match[2])

    def read_ranges(self, name: str, attributes: dict[str, Any]) -> None:
        """Read the starts, limits and strides of a slice, such as `[0:4:2, 1:3]`."""
        starts: list[int] = []
        limits: list[int] = []
        strides: list[int] = []
        self.expect("[")
        while not self.accept("]"):
            if starts:
                self.expect(",")
            starts.append(self.integer())
            self.expect(":")
            limits.append(self.integer())
            strides.append(self.integer() if self.accept(":") else 1)
        attributes["start_indices"] = tuple(starts)
        attributes["limit_indices"] = tuple(limits)
        attributes["strides"] = tuple(strides)

    def read_flags(self, name: str, attributes: dict[str, Any]) -> None:
        attributes[name] = self.bracketed_text()

    def read_sharding(self, name: str, attributes: dict[str, Any]) -> None:
        attributes[name] = f"#sdy.sharding{self.bracketed_text()}"

    # ---- types of pretty forms ---------------------------------------------------------------

    def types_function(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Read a function type, or a single type that the result and all operands have."""
        at = self.at
        if self.words[at] == "(":
            kind = self.function_type()
            self.check_operands(operands, kind.inputs, at)
            return kind.results
        kind = self.type()
        if operands:
            self.check_operands(operands, [kind] * len(operands), at)
        return (kind,)

    def types_arrow(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Read types in the form `operand, operand -> result`."""
        at = self.at
        self.check_operands(operands, self.type_list(), at)
        self.expect("->")
        return self.types_after_arrow()

    def types_after_arrow(self) -> tuple[Any, ...]:
        return self.types(")") if self.accept("(") else (self.type(),)

    def types_result(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        return (self.type(),)

    def types_value(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        return (attributes.pop(":"),)

    def types_operands(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Read a colon and the operands' types if there are operands; the operation has no result."""
        if operands:
            self.expect(":")
            at = self.at
            self.check_operands(operands, self.type_list(), at)
        return ()

    def types_checked(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Read one type that all operands have, or a type for each operand; the operation has no result."""
        at = self.at
        types = self.type_list()
        self.check_operands(operands, types * len(operands) if len(types) == 1 else types, at)
        return ()

    def types_constant(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Check that the operand has the type of the operation's constant; the operation has no result."""
        self.check_operands(operands, [attributes.pop(":")], self.at)
        return ()

    def types_compared(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Read the operand's type, which must also be the type of the operation's constant; there is no result."""
        at = self.at
        kind = self.type()
        self.check_operands([*operands, *operands], [kind, attributes.pop(":")], at)
        return ()

    def types_opened(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Read the result's type; it may have a dynamic extent where the operation's constant has a number."""
        attributes.pop(":")
        return (self.type(),)

    def types_pairwise(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Read the types of the operands, which the results have too; without operands, the text contains no types."""
        if not operands:
            if self.accept("("):
                self.expect(")")
            return ()
        self.expect(":")
        at = self.at
        if self.words[at] == "(":
            kind = self.function_type()
            self.check_operands(operands, kind.inputs, at)
            return kind.results
        types = self.type_list()
        self.check_operands(operands, types, at)
        return types

    def types_select(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        at = self.at
        if self.words[at] == "(":
            return self.types_function(operands, attributes)
        predicate, comma, kind = self.type(), self.accept(","), None
        if not comma:
            raise self.error("expected the types of the predicate and of the result", at)
        kind = self.type()
        self.check_operands(operands, [predicate, kind, kind], at)
        return (kind,)

    def types_complex(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        at = self.at
        if self.words[at] == "(":
            return self.types_function(operands, attributes)
        kind = self.type()
        if not isinstance(kind, TensorSpec) or not kind.dtype.is_complex:
            raise self.error("expected a tensor of complex elements", at)
        part = TensorSpec.of(kind.shape, kind.dtype.real)
        self.check_operands(operands, [part, part], at)
        return (kind,)

    def types_tuple(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        at = self.at
        kind = self.type()
        parts = ", ".join([type_text(self.value_types[number]) for number in operands])
        if type_text(kind) != f"tuple<{parts}>":
            raise self.error("the tuple's type differs from its operands' types", at)
        return (kind,)

    def types_elements(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        return (self.type(),)

    def types_element(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Read the type of the first operand, a tensor; other operands are indices, and the result is an element."""
        at = self.at
        kind = self.type()
        index = ForeignType("index")
        self.check_operands(operands, [kind, *[index] * (len(operands) - 1)], at)
        element = re.fullmatch(r"tensor<(?:(?:\d+|\?)x)*([^,*]+)>", type_text(kind))
        if element is None:
            raise self.error("expected a tensor", at)
        return (ForeignType(element[1]),)

    def types_cast(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Read types in the form `operand to result`."""
        self.check_operands(operands, [self.type()], self.at)
        self.expect("to")
        return (self.type(),)

    def types_dimension(self, operands: list[int], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Read the type of the first operand, a tensor; the second operand and the result have the type index."""
        index = ForeignType("index")
        self.check_operands(operands, [self.type(), index], self.at)
        return (index,)


def _type_of(value: Any) -> Any:
    shape = getattr(value, "shape", None)
    return (
        ForeignType("none") if shape is None else TensorSpec.of(tuple(shape), DType.of(value.dtype))
    )


_ATTRIBUTES: dict[str, Callable[..., None]] = {
    "integers": FormParser.read_integers,
    "i64": FormParser.read_integer,
    "integer": FormParser.read_integer,
    "ui64": FormParser.read_unsigned,
    "number": FormParser.read_number,
    "bool": FormParser.read_bool,
    "string": FormParser.read_string,
    "symbol": FormParser.read_symbol,
    "attribute": FormParser.read_attribute,
    "elements": FormParser.read_elements,
    "precisions": FormParser.read_precisions,
    "contraction": FormParser.read_contraction,
    "contraction_options": FormParser.read_contraction_options,
    "convolution": FormParser.read_convolution,
    "window": FormParser.read_window,
    "precision_format": FormParser.read_precision_format,
    "ranges": FormParser.read_ranges,
    "flags": FormParser.read_flags,
    "sharding": FormParser.read_sharding,
}


def _reader_of_words(kind: str) -> Callable[..., None]:
    def read(parser: FormParser, name: str, attributes: dict[str, Any]) -> None:
        attributes[name] = parser.one_of(kind)

    return read


_ATTRIBUTES.update({kind: _reader_of_words(kind) for kind in WORDS})


def _compiled(pattern: str) -> list[tuple[str, Any, str]]:
    """Compile a pattern of `FORMS` to a list of steps.

    A step is a tuple of its kind, its argument, and the name of the attribute that it reads, or "".
    """
    return _steps(iter(pattern.split()))


def _steps(words: Any) -> list[tuple[str, Any, str]]:
    steps: list[tuple[str, Any, str]] = []
    for word in words:
        name, colon, kind = word.partition(":")
        if word == "%":
            steps.append(("operand", None, ""))
        elif word == "%*":
            steps.append(("operands", None, ""))
        elif word == "%,":
            steps.append(("followed", None, ""))
        elif word == "{}":
            steps.append(("dictionary", None, ""))
        elif word == "?(":
            inside: list[str] = []
            for following in words:
                if following == ")":
                    break
                inside.append(following)
            steps.append(("optional", _steps(iter(inside)), ""))
        elif name == "types":
            steps.append(("types", getattr(FormParser, f"types_{kind}"), ""))
        elif colon and name:
            steps.append(("attribute", _ATTRIBUTES[kind], name))
        else:
            steps.append(("token", word, ""))
    return steps


STEPS = {name: _compiled(pattern) for name, pattern in FORMS.items()}
