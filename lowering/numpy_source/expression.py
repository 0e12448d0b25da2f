"""`Expression`: the Python text of a value, with its precedence inside other expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tenferro.ops import StdTensorOp
from tenferro.types import TensorSpec

__all__ = ["Cell", "Code", "Expression", "Level", "Rows", "call", "in_parentheses", "tuple_of"]


class Level(IntEnum):
    """Precedence of Python's operators; an expression needs parentheses beside an operator of a higher level."""

    COMPARISON = 6
    OR = 7
    XOR = 8
    AND = 9
    SHIFT = 10
    SUM = 11
    PRODUCT = 12
    UNARY = 13
    POWER = 14
    ATOM = 16


@dataclass(frozen=True)
class Code:
    """The expression that a cell returns.

    Attributes:
        text: Python.
        level: the precedence of its outermost operator.
        aligned: the text of a value that broadcasts to the result, where a broadcast is written in full.
        number: the Python number of a constant with one element.
        free: evaluating it again costs nothing, such as a view.
    """

    text: str
    level: Level = Level.ATOM
    aligned: Code | None = None
    number: Any = None
    free: bool = False


class Expression:
    """A value of the program: its type, and its text, which is a name once it has been assigned.

    Attributes:
        op, operands: the expression that computes it, until it is assigned to a name.
    """

    __slots__ = ("code", "name_hint", "op", "operands", "source", "spec")

    def __init__(
        self,
        code: Code,
        spec: TensorSpec,
        op: StdTensorOp | None = None,
        operands: tuple[Expression, ...] = (),
    ) -> None:
        self.code, self.spec = code, spec
        self.op, self.operands = op, operands
        self.source: Any = None
        self.name_hint = ""

    @property
    def is_name(self) -> bool:
        """Whether the text can be repeated without computing the value again."""
        return self.code.free or self.code.text.isidentifier()

    def at(self, level: Level) -> str:
        """Return the text beside an operator of that level."""
        return in_parentheses(self.code, level)

    def __str__(self) -> str:
        return self.code.text


Cell = Callable[..., Any]
"""`cell(op, writer, *operands)` returns a `Code`, a list of them, or a text of a tuple of all results."""
Rows = Mapping[type[StdTensorOp], Cell]


def in_parentheses(code: Code, level: Level) -> str:
    """Return the text beside an operator of that level.

    >>> in_parentheses(Code("x + y", Level.SUM), Level.PRODUCT)
    '(x + y)'
    """
    return code.text if code.level >= level else f"({code.text})"


def tuple_of(entries: Any) -> str:
    """Return a tuple as Python.

    >>> tuple_of([1]), tuple_of([2, "n"])
    ('(1,)', '(2, n)')
    """
    texts = [str(entry) for entry in entries]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def call(function: str, *arguments: Any, **options: Any) -> Code:
    """Return a call; options that are None are omitted.

    >>> call("np.sum", "x", axis=0, dtype=None).text
    'np.sum(x, axis=0)'
    """
    texts = [str(argument) for argument in arguments]
    texts += [f"{name}={value}" for name, value in options.items() if value is not None]
    return Code(f"{function}({', '.join(texts)})")
