"""`Expression`: a value of the program as a Python expression, with the precedence that decides about parentheses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tenferro.ops import StdTensorOp
from tenferro.types import TensorSpec

__all__ = ["Cell", "Code", "Expression", "Level", "Rows", "call", "in_parentheses", "tuple_of"]


class Level(IntEnum):
    """Precedence of Python's operators.

    A higher level binds more tightly. An operand needs parentheses if its own level is lower than the level of the
    operator.
    """

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
    """A Python expression that computes the result of an op.

    Attributes:
        text: the expression's text.
        level: the precedence of the outermost operator.
        aligned: code of an array that NumPy broadcasts to this value, such as the operand of `np.broadcast_to`; or None.
        aligned_shape: the shape of `aligned`.
        number: if all elements are the same constant, the code of this Python number.
        free: whether the expression may be repeated, because its evaluation costs almost nothing, as for a view.
    """

    text: str
    level: Level = Level.ATOM
    aligned: Code | None = None
    number: Any = None
    free: bool = False
    aligned_shape: tuple[Any, ...] = ()


class Expression:
    """A value of the program, with its type and its Python code.

    The code is an expression. Once a statement has assigned the value to a name, the code is the name.

    Attributes:
        code: the Python expression.
        spec: the type.
        op, operands: the op that computes the value, and its operands; None and () once the value has a name.
        source: the line of the user's code that computes the value.
        name_hint: the name in the user's code, or "".
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
        """Return the text as an operand of an operator with the precedence `level`, with parentheses if necessary."""
        return in_parentheses(self.code, level)

    def __str__(self) -> str:
        return self.code.text


Cell = Callable[..., Any]
"""Function `cell(op, writer, *operands)`, which returns the code of an op's result or results.

It returns a `Code`, a list with a `Code` per result, or the text of an expression for a tuple of all results.
"""
Rows = Mapping[type[StdTensorOp], Cell]


def in_parentheses(code: Code, level: Level) -> str:
    """Return the text of an operand of an operator of this level, in parentheses if its own level is lower.

    >>> in_parentheses(Code("x + y", Level.SUM), Level.PRODUCT)
    '(x + y)'
    """
    return code.text if code.level >= level else f"({code.text})"


def tuple_of(entries: Any) -> str:
    """Return the Python text of a tuple.

    >>> tuple_of([1]), tuple_of([2, "n"])
    ('(1,)', '(2, n)')
    """
    texts = [str(entry) for entry in entries]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def call(function: str, *arguments: Any, **options: Any) -> Code:
    """Return the code of a function call; keyword arguments that are None are omitted.

    >>> call("np.sum", "x", axis=0, dtype=None).text
    'np.sum(x, axis=0)'
    """
    texts = [str(argument) for argument in arguments]
    texts += [f"{name}={value}" for name, value in options.items() if value is not None]
    return Code(f"{function}({', '.join(texts)})")
