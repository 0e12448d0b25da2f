"""Reader of `functions.py`: the text of each function and constant, and the names in this file that it uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

__all__ = ["NAMES", "text_of"]


@cache
def _definitions() -> dict[str, str]:
    """Return the text of each function and constant by name, in the order of the module, without type annotations."""
    source = files("lowering.numpy_source").joinpath("functions.py").read_text("utf-8")
    lines = source.splitlines()
    definitions: dict[str, str] = {}
    body = ast.parse(source).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        end = node.end_lineno or node.lineno
        if isinstance(node, ast.FunctionDef):
            text = "\n".join(lines[node.lineno - 1 : end])
            head, _, rest = text.partition('"""')
            definitions[node.name] = (
                re.sub(r"(?:: | -> )(?:Any|str|int|bool|None)\b", "", head) + '"""' + rest
            )
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            last = after.end_lineno if isinstance(after, ast.Expr) and after.end_lineno else end
            definitions[node.targets[0].id] = "\n".join(lines[node.lineno - 1 : last])
    return definitions


NAMES = frozenset(_definitions())
"""Names of all functions and constants in `functions.py`."""


@cache
def _calls() -> dict[str, frozenset[str]]:
    """Return, for each function and constant, the other names of `functions.py` that it uses."""
    return {
        name: frozenset(
            node.id
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Name) and node.id in NAMES and node.id != name
        )
        for name, text in _definitions().items()
    }


def text_of(names: Iterable[str]) -> list[str]:
    """Return the texts of these functions, and of all functions and constants that they use, in the module's order.

    >>> [text.splitlines()[0] for text in text_of(["shift_left"])]
    ['def unsigned(x):', 'def shift_left(x, y):']
    """
    needed: set[str] = set()
    pending = [*names]
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += _calls()[name]
    return [text for name, text in _definitions().items() if name in needed]
