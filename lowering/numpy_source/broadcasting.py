"""Python code of the operands of elementwise functions and operators.

If one operand has the result's shape, explicit broadcasts of the other operands are omitted, because NumPy broadcasts
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lowering.numpy_source.expression import Code, Expression, Level, in_parentheses

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["operands_of", "operator_text"]


def operands_of(
    w: Writer, operands: Sequence[Expression], weak: Sequence[int] | None = None
) -> list[Code]:
    """Return the code of each operand, as short as NumPy's broadcasting and promotion allow.

    Args:
        weak: indices of operands that may be written as Python numbers, if at least one other operand is an array. By
            default, all operands may.
    """
    shape = w.specs[0].shape
    is_full = [
        x.code.aligned is None and x.spec.shape == shape and (x.code.number is None or not shape)
        for x in operands
    ]
    indices = range(len(operands)) if weak is None else weak
    typed = [i for i in indices if operands[i].code.number is None]
    codes: list[Code] = []
    for i, x in enumerate(operands):
        code = x.code
        if code.number is not None and i in indices and typed and (any(is_full) or not shape):
            codes.append(code.number)
        elif code.aligned is not None and any(is_full):
            codes.append(code.aligned)
        else:
            codes.append(code)
            is_full[i] = True
    return codes


def operator_text(symbol: str, level: Level, lhs: Code, rhs: Code) -> Code:
    """Return the code `lhs symbol rhs` of a binary operator, with parentheses that keep the order of evaluation.

    >>> operator_text("-", Level.SUM, Code("a - b", Level.SUM), Code("c - d", Level.SUM)).text
    'a - b - (c - d)'
    """
    left = in_parentheses(lhs, level)
    right = in_parentheses(rhs, Level(level + 1) if level < Level.POWER else Level.ATOM)
    if level is Level.COMPARISON:
        left = in_parentheses(lhs, Level.OR)
    if level is Level.POWER:
        left = in_parentheses(lhs, Level.ATOM)
        return Code(f"{left}**{right}", level)
    return Code(f"{left} {symbol} {right}", level)


def binary(symbol: str, level: Level) -> Any:
    """Return the function that writes the binary operator `symbol`, whose precedence in Python is `level`."""

    def cell(op: Any, w: Writer, lhs: Expression, rhs: Expression) -> Code:
        return operator_text(symbol, level, *operands_of(w, (lhs, rhs)))

    return cell
