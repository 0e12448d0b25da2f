"""Which functions of a file a line outside all functions is about."""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["functions_about"]

Spans = list[tuple[int, int]]


def functions_about(source: str, first: int, last: int) -> tuple[Spans, Spans]:
    """The bodies of the functions that the lines name, and of those that name what is assigned there.

    >>> source = "def f(x):\\n    return x\\n\\nROWS = {1: f}\\n\\ndef g(i):\\n    return ROWS[i]\\n"
    >>> functions_about(source, 4, 4)
    ([(2, 2)], [(7, 7)])
    """
    tree = ast.parse(source)
    around = [node for node in tree.body if node.lineno <= last and first <= (node.end_lineno or 0)]
    inside = [node for statement in around for node in ast.walk(statement)]
    named = {
        node.id for node in inside if isinstance(node, ast.Name) and first <= node.lineno <= last
    }
    assigned = {
        node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    users = [one for one in functions if not assigned.isdisjoint(_names(one))]
    return [_body(one) for one in functions if one.name in named], [_body(one) for one in users]


def _names(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            yield node.id


def _body(function: ast.FunctionDef) -> tuple[int, int]:
    return function.body[0].lineno, function.end_lineno or function.lineno
