"""Edits of a source file. Each edit replaces one expression."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

__all__ = ["Edit", "edits_of", "is_another_program"]

OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.MatMult: ("@", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
COMPARISONS = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult, ast.LShift, ast.RShift)
"""Operators whose operands do not commute. An edit may exchange the operands."""
LEFT_ALONE = (ast.Assert, ast.Import, ast.ImportFrom, ast.Raise, ast.JoinedStr)
"""Syntax that is never edited: assertions, which only inform the type checker, imports, errors, and f-strings.

Python 3.11 records no positions for the parts of an f-string.
"""


CONVERSIONS = ("frozenset", "iter", "list", "tuple")
"""Functions whose calls are not replaced by their argument.

The edited program would often work equally well, or be rejected at once.
"""
SYMMETRIC = (
    "add",
    "broadcast_shapes",
    "max",
    "maximum",
    "min",
    "minimum",
    "multiply",
    "multiply_add",
)
"""Names of functions whose first two arguments are not exchanged, because the result would be the same."""
GENERICS = ("Callable", "Mapping", "Sequence", "dict", "list", "set", "tuple", "type")
"""Names of types that accept type parameters, as in `dict[str, int]`."""
LARGE = 12
"""Smallest integer that counts as a tuning parameter if it is assigned at module level."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Edit(NamedTuple):
    """Replacement of the bytes of one expression.

    kind:       operator, comparison, constant, condition, call, operands or row
    lines:      the numbers of the first and the last line of the expression
    start:      the offset of the first byte that is replaced
    stop:       the offset after the last byte that is replaced
    text:       the replacement
    at_import:  whether the expression is outside of functions, so that it runs only once, when the module is imported
    """

    kind: str
    lines: tuple[int, int]
    start: int
    stop: int
    text: str
    at_import: bool = False

    def applied(self, source: str) -> str:
        """Return the source of the file after the edit."""
        content = source.encode()
        return (content[: self.start] + self.text.encode() + content[self.stop :]).decode()

    def difference(self, source: str) -> tuple[str, str]:
        """Return the edited lines before and after the edit; several lines are joined to one."""
        content = source.encode()
        first = content.rfind(b"\n", 0, self.start) + 1
        end = content.find(b"\n", self.stop)
        end = len(content) if end < 0 else end
        before = content[first:end].decode()
        after = (
            content[first : self.start] + self.text.encode() + content[self.stop : end]
        ).decode()
        return " ".join(before.split()), " ".join(after.split())


def is_another_program(source: str, edit: Edit) -> bool:
    """Tell whether the edited file can be parsed, and has another syntax tree than the file before the edit."""
    try:
        return ast.dump(ast.parse(edit.applied(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def edits_of(source: str) -> list[Edit]:
    """Return the possible edits of a file, sorted by position. A few of them produce syntax errors.

    >>> for edit in edits_of("y = conj(x) - 1\\n"):
    ...     print(edit.kind, "|", edit.applied("y = conj(x) - 1\\n").strip())
    call | y = (x) - 1
    operands | y = 1 - conj(x)
    operator | y = conj(x) + 1
    constant | y = conj(x) - 0
    constant | y = conj(x) - 2
    """
    return sorted(Places(source).edits(), key=lambda edit: (edit.start, edit.stop, edit.text))


class Places:
    """Positions of the expressions in a file, and the edits that replace them."""

    def __init__(self, source: str) -> None:
        self._content = source.encode()
        self._tree = ast.parse(source)
        self._starts = [0]
        for line in self._content.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def _start(self, node: ast.expr) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _stop(self, node: ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        return self._content[self._start(node) : self._stop(node)].decode()

    def _edit(
        self, kind: str, node: ast.expr, text: str, span: tuple[int, int] | None = None
    ) -> Edit:
        start, stop = span or (self._start(node), self._stop(node))
        return Edit(kind, (node.lineno, node.end_lineno or node.lineno), start, stop, text)

    def edits(self) -> Iterator[Edit]:
        """Yield all edits of the syntax tree. The nodes are visited with a stack, without recursion."""
        stack: list[tuple[ast.AST, bool]] = [(self._tree, True)]
        while stack:
            node, at_import = stack.pop()
            for edit in self._of(node):
                yield edit._replace(at_import=at_import)
            at_import = at_import and not isinstance(node, FUNCTIONS)
            stack += [(part, at_import) for part in _parts(node)]

    def _of(self, node: ast.AST) -> Iterator[Edit]:
        if isinstance(node, ast.If | ast.While):
            yield from self._of_condition(node.test)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield self._edit("call", node.value, "...")
        elif isinstance(node, ast.BinOp | ast.BoolOp):
            yield from self._of_operator(node)
        elif isinstance(node, ast.UnaryOp):
            yield self._edit("operator", node, f"({self._text(node.operand)})")
        elif isinstance(node, ast.Compare):
            yield from self._of_comparison(node)
        elif isinstance(node, ast.Constant):
            yield from self._of_constant(node)
        elif isinstance(node, ast.IfExp):
            yield from self._of_condition(node.test)
        elif isinstance(node, ast.Call):
            yield from self._of_call(node)
        elif isinstance(node, ast.Dict):
            firsts = [
                value if key is None else key
                for key, value in zip(node.keys, node.values, strict=True)
            ]
            yield from self._of_rows(firsts, node.values)
        elif isinstance(node, ast.List | ast.Set) or _is_a_table(node):
            yield from self._of_rows(node.elts, node.elts)

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> Edit | None:
        """Return the edit that replaces the operator `old` between two operands.

        None if the text between the operands does not contain `old`, for example because of parentheses.
        """
        start = self._content.find(old.encode(), self._stop(left), self._start(right))
        if start < 0:
            return None
        lines = (left.end_lineno or left.lineno, right.lineno)
        return Edit("operator", lines, start, start + len(old), new)

    def _of_operator(self, node: ast.BinOp | ast.BoolOp) -> Iterator[Edit]:
        old, new = OPERATORS[type(node.op)]
        operands = [node.left, node.right] if isinstance(node, ast.BinOp) else node.values
        for left, right in pairwise(operands):
            edit = self._between(left, right, old, new)
            if edit is not None:
                yield edit
        if isinstance(node, ast.BinOp) and isinstance(node.op, ORDERED):
            yield self._exchanged(node.left, node.right)

    def _exchanged(self, left: ast.expr, right: ast.expr) -> Edit:
        """Return the edit that exchanges two operands or arguments. The text between them remains."""
        between = self._content[self._stop(left) : self._start(right)].decode()
        text = self._text(right) + between + self._text(left)
        lines = (left.lineno, right.end_lineno or right.lineno)
        return Edit("operands", lines, self._start(left), self._stop(right), text)

    def _of_comparison(self, node: ast.Compare) -> Iterator[Edit]:
        operands = [node.left, *node.comparators]
        for (left, right), op in zip(pairwise(operands), node.ops, strict=True):
            old, others = COMPARISONS[type(op)]
            for new in others:
                edit = self._between(left, right, old, new)
                if edit is not None:
                    yield edit._replace(kind="comparison")

    def _of_condition(self, node: ast.expr) -> Iterator[Edit]:
        """Yield the edit that negates a condition without operators, such as a name or a call."""
        if not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
            yield self._edit("condition", node, f"(not ({self._text(node)}))")

    def _of_constant(self, node: ast.Constant) -> Iterator[Edit]:
        value = node.value
        if isinstance(value, bool):
            others: Sequence[object] = (not value,)
        elif isinstance(value, int):
            others = (value + 1, value - 1) if value > 0 else (value + 1,)
        elif isinstance(value, float | complex):
            others = (value * 2 if value else 1.0,)
        # Strings with spaces are messages, which no test needs to check.
        elif isinstance(value, str) and " " not in value:
            others = (f"XX{value}",)
        else:
            others = ()
        for other in others:
            yield self._edit("constant", node, repr(other))

    def _of_call(self, node: ast.Call) -> Iterator[Edit]:
        positional = [x for x in node.args if not isinstance(x, ast.Starred)]
        is_conversion = isinstance(node.func, ast.Name) and node.func.id in CONVERSIONS
        if positional and positional[0] is node.args[0] and not is_conversion:
            yield self._edit("call", node, f"({self._text(positional[0])})")
        if len(positional) > 1 and positional == node.args and _name_of(node.func) not in SYMMETRIC:
            yield self._exchanged(positional[0], positional[1])

    def _of_rows(self, firsts: Sequence[ast.expr], lasts: Sequence[ast.expr]) -> Iterator[Edit]:
        """Yield edits that each remove one row of a table."""
        for i, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
            if isinstance(first, ast.Starred):
                continue
            if i + 1 < len(firsts):
                span = (self._start(first), self._start(firsts[i + 1]))
            elif i:
                span = (self._stop(lasts[i - 1]), self._stop(last))
            else:
                span = (self._start(first), self._stop(last))
            lines = (first.lineno, last.end_lineno or last.lineno)
            yield Edit("row", lines, *span, "")


def _name_of(function: ast.expr) -> str:
    """Return the name of a called function, without the module or object before the dot."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_a_table(node: ast.AST) -> bool:
    """Tell whether a node is a table: a tuple of at least three elements that is not a target of an assignment."""
    return isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load) and len(node.elts) > 2


def _is_a_type(value: ast.expr) -> bool:
    """Tell whether an expression is a type with parameters, such as `dict[str, int]`."""
    return (
        isinstance(value, ast.Subscript)
        and isinstance(value.value, ast.Name)
        and value.value.id in GENERICS
    )


def _is_a_measure(value: ast.expr) -> bool:
    """Tell whether an expression may be a tuning parameter's value: a float, a shifted number, a large integer."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.LShift):
        return isinstance(value.left, ast.Constant) and isinstance(value.right, ast.Constant)
    if not isinstance(value, ast.Constant):
        return False
    return type(value.value) is float or (type(value.value) is int and value.value >= LARGE)


def _is_tuning(statement: ast.AST, following: ast.AST | None) -> bool:
    """Tell whether a statement assigns a tuning parameter that has a docstring.

    Such constants are not edited. A test that detected a slightly different number would only repeat the number.
    """
    return (
        isinstance(statement, ast.Assign)
        and all(isinstance(x, ast.Name) and x.id.isupper() for x in statement.targets)
        and _is_a_measure(statement.value)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
    )


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node that may be edited.

    Annotations, decorators, docstrings and error messages are skipped.
    """
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        parts = value if isinstance(value, list) else [value]
        for part, following in zip_longest(parts, parts[1:]):
            if isinstance(part, LEFT_ALONE) or not isinstance(part, ast.AST):
                continue
            if _is_tuning(part, following):
                continue
            is_words = isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
            if not is_words and not _is_for_readers(part):
                yield part


def _is_for_readers(node: ast.AST) -> bool:
    """Tell whether a node has no effect on results.

    This applies to `__all__`, type aliases, imports for the type checker, and the argument `strict` of `zip`.
    """
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return True
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias"
    if isinstance(node, ast.Assign):
        is_public = any(isinstance(x, ast.Name) and x.id == "__all__" for x in node.targets)
        return is_public or _is_a_type(node.value)
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )
