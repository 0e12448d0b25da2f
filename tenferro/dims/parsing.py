"""Parser for printed extents. It uses Python's parser, and evaluates only the few permitted kinds of nodes.

The text may come from a file of unknown origin. Its nesting is checked before Python parses it. The work is at most
proportional to the length of the text, and the algebra of extents limits the size of the result.
"""

from __future__ import annotations

import ast
import copyreg
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from tenferro.dims.polynomial import (
    DEEPEST,
    HIGHEST_DEGREE,
    LARGEST_BITS,
    cost,
    dim_max,
    dim_min,
    total,
)
from tenferro.dims.symdim import Dim, SymDim
from tenferro.errors import InvalidConfigError, TenferroError

__all__ = ["parse_dim"]

_TOKEN = re.compile(
    r"\s*(?:x([0-9]{1,9})\.([0-9]{1,9})|(min|max)(?=\s*\()|([^\W\d]\w*)|([0-9]+)|(//|[-+*%^(),]))"
)
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")
_LONGEST = 1 << 16
"""Maximum number of characters in the text of an extent."""
_LONGEST_NUMBER = len(str(1 << LARGEST_BITS))
_WORK_PER_CHARACTER = 64
"""Work that is allowed per character of text. It suffices for a product of `HIGHEST_DEGREE` symbols."""
_BINARY: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLED: Mapping[str, Callable[[Any, Any], Any]] = {"min": dim_min, "max": dim_max}


def parse_dim(text: str) -> Dim:
    """Read an extent from its printed form.

    Raises:
        InvalidConfigError: the text is not an extent.

    >>> parse_dim("n*2+1"), parse_dim("max(n, 3)//2"), parse_dim("12")
    (n*2+1, max(n, 3)//2, 12)
    """
    # Files may have a million numbers, and Python's parser is 20 times slower than int().
    if _NUMBER.fullmatch(text):
        return int(text)
    try:
        source, leaves = _as_python(text)
        return _Reader(leaves, _WORK_PER_CHARACTER * (len(text) + 4)).read(source)
    except TenferroError:
        raise
    except (ValueError, SyntaxError, ZeroDivisionError, RecursionError, MemoryError):
        raise InvalidConfigError(
            f"{text[:80]!r} is not an extent, such as 12, n or n*2+1"
        ) from None


def _reduced(dim: SymDim) -> tuple[Callable[[str], Any], tuple[str]]:
    return parse_dim, (str(dim),)


copyreg.pickle(SymDim, _reduced)  # because the module of the class cannot import the parser


def _as_python(text: str) -> tuple[str, dict[str, SymDim]]:
    """Convert the text to a Python expression. Return it with a map from its names to extents.

    The names in the expression are numbered, because a symbol may be called `if`.
    """
    if len(text) > _LONGEST:
        raise ValueError(text)
    words: list[str] = []
    leaves: dict[str, SymDim] = {}
    position, depth, text = 0, 0, text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(text)
        position = match.end()
        index, axis, function, name, number, sign = match.groups()
        if number and len(number) > _LONGEST_NUMBER:
            raise ValueError(text)
        depth += (sign == "(") - (sign == ")")
        if depth > 2 * DEEPEST:
            raise InvalidConfigError(f"{text[:80]!r}: more than {2 * DEEPEST} nested parentheses")
        if index or name:
            leaf = f"v{len(leaves)}"
            leaves[leaf] = SymDim(name) if name else SymDim.input_axis(int(index), int(axis))
            words.append(leaf)
        else:
            words.append("**" if sign == "^" else function or number or sign)
    return " ".join(words), leaves


class _Reader:
    """Evaluator of a parsed expression, node by node, which stops if the work exceeds a bound.

    Attributes:
        values: for each node, the summands of its value. They are added only when the value is needed, so that a sum of
            a thousand terms takes one addition.
    """

    def __init__(self, leaves: Mapping[str, SymDim], work: int) -> None:
        self.leaves = leaves
        self.work = work
        self.values: dict[ast.AST, list[Any]] = {}

    def read(self, source: str) -> Dim:
        tree = ast.parse(source, mode="eval").body
        for node in reversed([*ast.walk(tree)]):  # operands first
            if isinstance(node, ast.expr) and not self._is_function(node):
                self.values[node] = self._summands(node)
        return self._value(tree)

    def _is_function(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in _CALLED

    def _value(self, node: ast.expr) -> Any:
        return total(self.values.pop(node))

    def _summands(self, node: ast.expr) -> list[Any]:
        match node:
            case ast.Constant(value=int(number)):
                return [number]
            case ast.Name(id=name):
                return [self.leaves[name]]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return [-part for part in self.values.pop(operand)]
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                parts = self.values.pop(right)
                summands = self.values.pop(left)
                summands += parts if isinstance(op, ast.Add) else [-part for part in parts]
                return summands
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return [self._power(self._value(left), self._value(right))]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return [self._apply(_BINARY[type(op)], self._value(left), self._value(right))]
            case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]) if (
                name in _CALLED
            ):
                return [self._apply(_CALLED[name], self._value(left), self._value(right))]
            case _:
                raise ValueError(type(node).__name__)

    def _apply(self, function: Callable[[Any, Any], Any], lhs: Any, rhs: Any) -> Any:
        self.work -= cost(lhs, rhs)
        if self.work < 0:
            raise InvalidConfigError(
                "an extent takes too much work to expand for its length; write it as it is printed, as "
                "a sum of products"
            )
        result = function(lhs, rhs)
        if isinstance(result, int) and result.bit_length() > LARGEST_BITS:
            raise InvalidConfigError(f"a number of more than {LARGEST_BITS} bits is not an extent")
        return result

    def _power(self, base: Any, power: Any) -> Any:
        if not isinstance(power, int) or not 0 <= power <= HIGHEST_DEGREE:
            raise InvalidConfigError(
                f"an extent's exponent must be a number from 0 to {HIGHEST_DEGREE}, got {power!s:.40}"
            )
        result: Any = 1
        while power:
            if power & 1:
                result = self._apply(operator.mul, result, base)
            power >>= 1
            if power:
                base = self._apply(operator.mul, base, base)
        return result
