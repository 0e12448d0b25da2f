"""Loops and conditionals of NumPy files that were written from programs. When the files are traced, they are ops.

Such a file assigns every name once outside of loops, and assigns the names of a loop's state before the loop. The
state of a `while` is therefore the names that are assigned both in the body and before the loop. The results of an `if`
are the names that all its branches assign.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenferro.api.namespace import namespace
from tenferro.dispatch import is_traced

__all__ = ["traceable"]

WRITTEN = (ast.Assign, ast.Expr, ast.For, ast.While, ast.If, ast.Break, ast.Pass)
"""Statements of written loops and conditionals."""
MARK = "Written by tenferro"
"""Words in the docstring of each file."""
CODE = "__traceable_code__"
"""Attribute of a written function with its converted code, so that a file is parsed once, not at every trace."""


def traceable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a written NumPy file with conditions on data as ops.

    Any other function is returned unchanged.

    >>> traceable(len) is len
    True
    """
    inner = getattr(fn, "__wrapped__", None)
    names = getattr(inner, "__globals__", None)
    if inner is None or names is None or MARK not in (names.get("__doc__") or ""):
        return fn
    if CODE not in inner.__dict__:
        inner.__dict__[CODE] = _code(inner)
    code = inner.__dict__[CODE]
    if code is None:
        return fn
    space = {**names, "_while": _while, "_if": _if}
    exec(code, space)
    return np.errstate(all="ignore")(space[inner.__name__])


def _code(inner: Callable[..., Any]) -> Any:
    """Return the compiled definition of a written function, with calls for its `while` and `if` statements.

    Return None if the function has no such statement, or its source cannot be read.
    """
    try:
        tree = ast.parse("".join(inspect.findsource(inner)[0]))
    except (OSError, SyntaxError):
        return None
    (definition,) = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == inner.__name__
    ]
    if not any(isinstance(node, ast.While | ast.If) for node in ast.walk(definition)):
        return None
    body = Conversion().statements(definition.body, set())
    converted = ast.Module([definition], [])
    definition.body, definition.decorator_list = body, []
    return compile(ast.fix_missing_locations(converted), inner.__code__.co_filename, "exec")


def _while(test: Callable[..., Any], body: Callable[..., Any], state: Any) -> Any:
    return namespace().module.while_loop(test, body, state)


def _if(pred: Any, on_true: Callable[[], Any], on_false: Callable[[], Any]) -> Any:
    if not is_traced(pred):
        return on_true() if pred else on_false()
    return namespace().module.cond(pred, on_true, on_false)


def _assigned(statements: Sequence[ast.stmt]) -> set[str]:
    nodes = [node for each in statements for node in ast.walk(each)]
    inner = [node.target for node in nodes if isinstance(node, ast.comprehension)]
    local = {id(node) for target in inner for node in ast.walk(target)}
    names = [node for node in nodes if isinstance(node, ast.Name) and id(node) not in local]
    return {node.id for node in names if isinstance(node.ctx, ast.Store)} - {"_"}


class Conversion:
    """Conversion of the statements of one function."""

    def __init__(self) -> None:
        self.count = 0

    def statements(self, body: Sequence[ast.stmt], bound: set[str]) -> list[ast.stmt]:
        """Replace `while` and `if` in the statements by calls.

        `bound` is the set of names that are assigned before them.
        """
        converted: list[ast.stmt] = []
        bound = set(bound)
        for node in body:
            if isinstance(node, ast.While) and _is_written(node, bound):
                converted += self.loop(node, bound)
            elif isinstance(node, ast.If) and _is_written(node, bound):
                converted += self.branches(node, bound)
            else:
                if isinstance(node, ast.For):
                    node.body = self.statements(node.body, bound)
                converted.append(node)
            bound |= _assigned([node])
        return converted

    def loop(self, node: ast.While, bound: set[str]) -> list[ast.stmt]:
        """Return functions of the state for the condition and the body, and the call of the loop."""
        state = sorted(_assigned([node]) & bound)
        head: list[ast.stmt] = []
        rest, test = node.body, node.test
        if isinstance(test, ast.Constant):  # while True: head; if not test: break; rest
            (end,) = [i for i, each in enumerate(rest) if _exit(each) is not None]
            head, test, rest = rest[:end], _exit(rest[end]), rest[end + 1 :]
        head = self.statements(head, bound)
        before = bound | _assigned(head)
        values = _tuple(state)
        condition = self.function("test", state, [*head, ast.Return(test)])
        body = [*head, *self.statements(rest, before), ast.Return(values)]
        step = self.function("body", state, body)
        call = _call("_while", condition.name, step.name, values)
        return [condition, step, ast.Assign([_tuple(state, ast.Store())], call)]

    def branches(self, node: ast.If, bound: set[str]) -> list[ast.stmt]:
        """Return functions without arguments for both branches, and the call of the conditional."""
        names = sorted(_common(node))
        functions = [
            self.function(kind, None, [*self.statements(body, bound), ast.Return(_tuple(names))])
            for kind, body in (("then", node.body), ("else", node.orelse))
        ]
        call = _call("_if", node.test, *[each.name for each in functions])
        return [*functions, ast.Assign([_tuple(names, ast.Store())], call)]

    def function(
        self, kind: str, state: Sequence[str] | None, body: list[ast.stmt]
    ) -> ast.FunctionDef:
        """Return the definition of a function with a new name.

        If it has an argument, the argument is unpacked to the state.
        """
        self.count += 1
        arguments = [] if state is None else [ast.arg("_state")]
        if state:
            unpacked = ast.Assign([_tuple(state, ast.Store())], ast.Name("_state", ast.Load()))
            body = [unpacked, *body]
        signature = ast.arguments([], arguments, None, [], [], None, [])
        return ast.FunctionDef(f"_{kind}_{self.count}", signature, body, [])


def _exit(node: ast.stmt) -> Any:
    """Return the condition c of `if not c: break`, or None for any other statement."""
    if not isinstance(node, ast.If) or node.orelse or not isinstance(node.body[0], ast.Break):
        return None
    test = node.test
    if not isinstance(test, ast.UnaryOp) or not isinstance(test.op, ast.Not):
        return None
    return test.operand


def _is_written(node: ast.While | ast.If, bound: set[str]) -> bool:
    """Return whether the statement has the form that tenferro writes: it only assigns names, each in every branch.

    A statement that a person has changed may do more. It is not converted: Python runs it, and a condition on data is
    an error.
    """
    inside = [part for each in [*node.body, *node.orelse] for part in ast.walk(each)]
    breaks = sum(isinstance(part, ast.Break) for part in inside)
    for part in inside:
        if isinstance(part, ast.stmt) and not isinstance(part, WRITTEN):
            return False
        if isinstance(part, ast.Subscript | ast.Attribute) and isinstance(part.ctx, ast.Store):
            return False
        if isinstance(part, ast.Expr) and not _is_append(part, bound):
            return False
    if isinstance(node, ast.If):
        return bool(node.orelse) and not breaks and _assigned([node]) & bound <= _common(node)
    exits = [each for each in node.body if _exit(each) is not None]
    is_endless = isinstance(node.test, ast.Constant) and node.test.value is True
    return not node.orelse and breaks == len(exits) == is_endless


def _is_append(node: ast.Expr, bound: set[str]) -> bool:
    """Return whether a statement is `rows.append(x)`, where rows are assigned in the same loop or branch."""
    method = node.value.func if isinstance(node.value, ast.Call) else None
    if not isinstance(method, ast.Attribute) or not isinstance(method.value, ast.Name):
        return False
    return method.attr == "append" and method.value.id not in bound


def _common(node: ast.If) -> set[str]:
    """Return the names that all branches assign, including those of `elif`."""
    names = _assigned(node.body)
    rest = node.orelse
    while len(rest) == 1 and isinstance(rest[0], ast.If):
        names, rest = names & _assigned(rest[0].body), rest[0].orelse
    return names & _assigned(rest)


def _tuple(names: Sequence[str], context: ast.expr_context | None = None) -> ast.Tuple:
    context = ast.Load() if context is None else context
    return ast.Tuple([ast.Name(name, context) for name in names], context)


def _call(function: str, *arguments: str | ast.expr) -> ast.Call:
    nodes = [ast.Name(x, ast.Load()) if isinstance(x, str) else x for x in arguments]
    return ast.Call(ast.Name(function, ast.Load()), nodes, [])
