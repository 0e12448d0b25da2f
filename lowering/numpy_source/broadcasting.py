"""Python code of the operands of elementwise functions and operators.

An explicit broadcast of an operand is omitted if NumPy broadcasts the remaining operands to the result's shape.
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
    """Return the code of each operand, without the broadcasts and conversions that NumPy makes itself.

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
    if weak != []:  # the functions of a generated file need an operand of the result's shape
        shapes = [_least_shape(x) for x in operands if x.code.number is None]
        is_full.append(_joint(shapes) == shape)
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


def _least_shape(x: Expression) -> tuple[Any, ...]:
    """Return the shape of an operand if its explicit broadcast is omitted."""
    return tuple(x.spec.shape) if x.code.aligned is None else x.code.aligned_shape


def _joint(shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...] | None:
    """Return the shape to which NumPy broadcasts arrays of these shapes; None if that depends on symbols.

    >>> _joint([(3, 1), (4,)]), _joint([(3,), (4,)])
    ((3, 4), None)
    """
    joint: list[Any] = []
    for axis in range(1, max([len(shape) for shape in shapes], default=0) + 1):
        extents = {shape[-axis] for shape in shapes if len(shape) >= axis} - {1}
        if len(extents) > 1:
            return None
        joint.append(extents.pop() if extents else 1)
    return tuple(joint[::-1])


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
