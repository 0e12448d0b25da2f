"""Reading extents as they are printed: shunting-yard over `+ - * // % ^ min max`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tenferro.dims.polynomial import dim_max, dim_min
from tenferro.dims.symdim import Dim, SymDim
from tenferro.errors import InvalidConfigError

__all__ = ["parse"]

_TOKEN = re.compile(r"\s*(?:(\d+)|x(\d+)\.(\d+)|([A-Za-z_]\w*)|(//|[-+*%^(),]))")
_RANK = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2, "neg": 3, "^": 4}
_APPLY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": dim_min,
    "max": dim_max,
}
_LONGEST = 10_000


def parse(text: str) -> Dim:
    """The extent `text` prints as; see `parse_dim`."""
    values: list[Any] = []
    pending: list[str] = []

    def reduce_once() -> None:
        kind = pending.pop()
        if kind == "neg":
            values.append(-values.pop())
        elif kind == "^":
            power, base = values.pop(), values.pop()
            result: Any = 1
            for _ in range(min(int(power), _LONGEST)):
                result = base * result
            values.append(result)
        else:
            rhs, lhs = values.pop(), values.pop()
            values.append(_APPLY[kind](lhs, rhs))

    def reduce_to_parenthesis() -> None:
        while pending[-1] != "(":
            reduce_once()

    try:
        if len(text) > _LONGEST:
            raise ValueError(text)
        position, operand_next = 0, True
        text = text.strip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ValueError(text)
            position = match.end()
            number, index, axis, name, sign = match.groups()
            if sign is None and not operand_next:
                raise ValueError(text)
            if number is not None:
                values.append(int(number))
                operand_next = False
            elif index is not None:
                values.append(SymDim.input_axis(int(index), int(axis)))
                operand_next = False
            elif name in ("min", "max"):
                pending.append(name)
            elif name is not None:
                values.append(SymDim(name))
                operand_next = False
            elif sign == "(":
                pending.append(sign)
            elif sign == ",":
                reduce_to_parenthesis()
                operand_next = True
            elif sign == ")":
                reduce_to_parenthesis()
                pending.pop()
                if pending and pending[-1] in ("min", "max"):
                    reduce_once()
                operand_next = False
            else:
                kind = "neg" if sign == "-" and operand_next else str(sign)
                while kind != "neg" and pending and _RANK.get(pending[-1], 0) >= _RANK[kind]:
                    reduce_once()
                pending.append(kind)
                operand_next = True
        while pending:
            reduce_once()
        (result,) = values
    except (ValueError, IndexError, KeyError, ZeroDivisionError):
        raise InvalidConfigError(
            f"{text[:80]!r} is not an extent, such as 12, n or n*2+1"
        ) from None
    return result
