"""Functions whose behaviour depends on a line at module level.

They use a name that the line assigns, in the same file or in another file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["functions_about", "readers_elsewhere"]

Spans = list[tuple[int, int]]


def functions_about(source: str, first: int, last: int) -> tuple[Spans, Spans]:
    """Return the lines of the functions that the given lines name, and of those that use names assigned in them.

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


def readers_elsewhere(tree: Path, path: str, first: int, last: int) -> Iterator[tuple[str, Spans]]:
    """Yield the other files of the package that use names assigned in these lines.

    Each is a pair: the path, and the line ranges of the functions that use the names.
    """
    statements = ast.parse((tree / path).read_text()).body
    assigned = {
        node.id
        for statement in statements
        if statement.lineno <= last and first <= (statement.end_lineno or 0)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    if not assigned:
        return
    words = re.compile(rf"\b({'|'.join(sorted(assigned))})\b")
    for file in sorted((tree / path).parent.rglob("*.py")):
        name, source = str(file.relative_to(tree)), file.read_text()
        if name == path or not words.search(source):
            continue
        functions = [
            node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)
        ]
        spans = [_body(one) for one in functions if not assigned.isdisjoint(_names(one))]
        if spans:
            yield name, spans


def _names(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _body(function: ast.FunctionDef) -> tuple[int, int]:
    return function.body[0].lineno, function.end_lineno or function.lineno
