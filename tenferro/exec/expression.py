"""Functions of arrays as Python's own text: the printer writes it in place of a call, the interpreter runs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["Change", "Expression"]


class Expression:
    """A function of arrays and numbers, as an expression.

    Attributes:
        text: with {0}, {1}, .. for the operands, and names of `values` in braces.
        values: what the text names.
        is_view: whether the result may be a view of an operand.

    >>> row = Expression("{0}[{number}]", {"number": 1})
    >>> row([[1, 2], [3, 4]]), row.written(["v3"])
    ([3, 4], 'v3[number]')
    """

    __slots__ = ("_function", "is_view", "text", "values")

    def __init__(
        self, text: str, values: Mapping[str, Any] | None = None, is_view: bool = False
    ) -> None:
        self.text, self.values, self.is_view = text, dict(values or {}), is_view
        self._function: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __call__(self, *operands: Any) -> Any:
        function = self._function
        if function is None:
            function = self._function = self._compiled(len(operands))
        return function(*operands)

    def written(
        self, operands: Sequence[str], name_of: Callable[[str, Any], str] = lambda name, _: name
    ) -> str:
        """The text, with the names of operands and of values in it."""
        names = {name: name_of(name, value) for name, value in self.values.items()}
        names.update([(str(number), operand) for number, operand in enumerate(operands)])
        return re.sub(r"\{(\w+)\}", lambda match: names[match[1]], self.text)

    def _compiled(self, count: int) -> Callable[..., Any]:
        operands = [f"x{number}" for number in range(count)]
        source = f"lambda {', '.join(operands)}: {self.written(operands)}"
        return eval(source, dict(self.values))


class Change(Expression):
    """A copy of the first operand with a change; over that operand, if it is given as `out`.

    Attributes:
        text: of the statement that changes {0}.
        order: of the copy.
    """

    __slots__ = ("order",)

    def __init__(self, text: str, values: Mapping[str, Any], order: str) -> None:
        super().__init__(text, values)
        self.order = order

    def __call__(self, *operands: Any, out: Any = None) -> Any:
        """The changed array."""
        x, *others = operands
        return super().__call__(x.copy(self.order) if out is None else out, *others)

    def _compiled(self, count: int) -> Callable[..., Any]:
        operands = [f"x{number}" for number in range(count)]
        source = (
            f"def change({', '.join(operands)}):\n {self.written(operands)}\n return {operands[0]}"
        )
        names = dict(self.values)
        exec(source, names)
        return names["change"]
