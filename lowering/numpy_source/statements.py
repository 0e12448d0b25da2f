"""`StatementFinder`: the names, functions and text of the user's source code."""

from __future__ import annotations

import ast
import linecache
import re
from typing import Any

__all__ = ["StatementFinder"]


class StatementFinder:
    """Reader of the user's source: names that statements assign, functions that contain them, and text of lines."""

    def __init__(self) -> None:
        self._trees: dict[str, Any] = {}
        self._files: dict[str, dict[int, str]] = {}
        self._functions: dict[str, dict[int, str]] = {}

    def function(self, source: Any) -> str:
        """Return the name of the innermost function definition that contains a line; "" if there is none."""
        functions = self._functions.get(source.file)
        if functions is None:
            functions = self._functions[source.file] = {}
            nodes = [n for n in ast.walk(self._tree(source.file)) if isinstance(n, ast.FunctionDef)]
            for node in sorted(nodes, key=lambda node: node.lineno):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                functions.update(dict.fromkeys(lines, node.name))
        return functions.get(source.line, "")

    def _tree(self, file: str) -> Any:
        """Return the syntax tree of a file; an empty tree if the file cannot be read."""
        if file not in self._trees:
            try:
                self._trees[file] = ast.parse("".join(linecache.getlines(file)))
            except (SyntaxError, ValueError):
                self._trees[file] = ast.Module([], [])
        return self._trees[file]

    def target(self, source: Any) -> str:
        """Return the name to which the user's statement assigns; "" if there is no name, or several."""
        if source is None or source.derivative_of:
            return ""
        if source.file.endswith(".py") or source.file.startswith("<"):
            return self._targets(source.file).get(source.line, "")
        line = linecache.getline(source.file, source.line)
        match = re.match(r"\s*%([\w$.-]+)\s*=", line)
        return match[1] if match and not match[1].isdigit() else ""

    def is_anonymous(self, source: Any) -> bool:
        """Return whether no statement of the user assigns the value to a name.

        Values of derivatives and of imported modules are examples.
        """
        if source is None:
            return True
        if source.file.startswith("<"):
            return not linecache.getline(source.file, source.line)
        return not self.target(source)

    def _targets(self, file: str) -> dict[int, str]:
        targets = self._files.get(file)
        if targets is not None:
            return targets
        targets = self._files[file] = {}
        for node in ast.walk(self._tree(file)):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                names = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(part, ast.Lambda) for part in ast.walk(node)):
                    continue  # the lambda's lines compute values that the statement does not assign
                if len(names) == 1 and isinstance(names[0], ast.Name):
                    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                    targets.update(dict.fromkeys(lines, names[0].id))
        return targets

    def comment(self, source: Any) -> str:
        """Return a comment for a value: the number and text of the user's line, or "" if the file cannot be read.

        For a value of a derivative, the comment also names the differentiated function.
        """
        text = linecache.getline(source.file, source.line).strip()
        place = f"line {source.line}" if text else ""
        if source.derivative_of:
            return f"derivative of {source.derivative_of}" + (f", {place}" if text else "")
        return f"{place}: {text}" if text else ""
