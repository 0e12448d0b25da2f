"""Count the parameters with and without types in each package: `python tools/annotations.py [PACKAGE ...]`.

A parameter is untyped if it has no annotation, or if its annotation accepts every type. Such annotations are `Any`,
`object`, a union with `Any` or `object`, or an alias of such a type. `*args` and `**kwargs` count as one parameter
each; `self` and `cls` do not count. With `--list`, each untyped parameter is printed with its location.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tenferro/api", "tenferro/lax", "tenferro/nn", "tenferro", "lowering", "xla_peer")
EMPTY = frozenset({"Any", "object"})


class Parameter(NamedTuple):
    """A parameter of a function, its location, and whether its annotation restricts its type."""

    path: Path
    line: int
    function: str
    name: str
    is_told: bool


def expression(annotation: ast.expr) -> ast.expr:
    """Return the annotation as an expression; an annotation that is a string is parsed."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        with contextlib.suppress(SyntaxError):  # because the string may not be an annotation
            return ast.parse(annotation.value, mode="eval").body
    return annotation


def is_empty(annotation: ast.expr | None, aliases: frozenset[str]) -> bool:
    """Return whether the annotation is missing or accepts every type: one of `aliases`, or a union with one of them.
    >>> names = frozenset({"Any", "object"})
    >>> [is_empty(ast.parse(text, mode="eval").body, names) for text in ("Any", "int | Any", "list[Any]", "'object'")]
    [True, True, False, True]
    """
    if annotation is None:
        return True
    annotation = expression(annotation)
    if isinstance(annotation, ast.BinOp):
        return is_empty(annotation.left, aliases) or is_empty(annotation.right, aliases)
    if isinstance(annotation, ast.Subscript):
        name = (
            annotation.value.attr
            if isinstance(annotation.value, ast.Attribute)
            else annotation.value
        )
        head = name.id if isinstance(name, ast.Name) else name
        if head == "Annotated" and isinstance(annotation.slice, ast.Tuple):
            return is_empty(annotation.slice.elts[0], aliases)
        if head in ("Optional", "Union"):
            members = (
                annotation.slice.elts
                if isinstance(annotation.slice, ast.Tuple)
                else [annotation.slice]
            )
            return any(is_empty(member, aliases) for member in members)
        return False
    name = annotation.attr if isinstance(annotation, ast.Attribute) else annotation
    return (name.id if isinstance(name, ast.Name) else name) in aliases


def alias(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """Return the name and the value of a statement that may define an alias, else None.

    These are the statements `X = ..`, `X: TypeAlias = ..` and `type X = ..`.
    """
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target, value = statement.target, statement.value
    elif statement.__class__.__name__ == "TypeAlias":
        target, value = statement.name, statement.value  # type: ignore[attr-defined]
    else:
        return None
    return (target.id, value) if isinstance(target, ast.Name) and target.id[:1].isupper() else None


def empty_aliases(modules: Sequence[ast.Module]) -> frozenset[str]:
    """Return `Any`, `object`, and every name that some module defines as an alias of `Any` or `object`."""
    pairs = [pair for module in modules for pair in map(alias, module.body) if pair is not None]
    names = EMPTY
    while True:
        more = names | {name for name, value in pairs if is_empty(value, names)}
        if more == names:
            return names
        names = more


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text())


def functions(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method, including nested functions."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def parameters(package: Path, aliases: frozenset[str]) -> Iterator[Parameter]:
    """Yield the parameters of every function of the package, in the order of the files."""
    for path in sorted(package.rglob("*.py")):
        for function in functions(parsed(path)):
            arguments = function.args
            named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            starred = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
            for argument in [*named, *starred]:
                if argument.arg not in ("self", "cls"):
                    told = not is_empty(argument.annotation, aliases)
                    yield Parameter(path, argument.lineno, function.name, argument.arg, told)


def share(package: str) -> tuple[list[Parameter], float]:
    """Return all parameters of a package, and the fraction of them that is untyped."""
    modules = [
        parsed(path)
        for top in ("tenferro", "lowering", "xla_peer")
        for path in (ROOT / top).rglob("*.py")
    ]
    counted = list(parameters(ROOT / package, empty_aliases(modules)))
    return counted, sum(not parameter.is_told for parameter in counted) / len(counted)


def main() -> None:
    """Print the number of parameters and the untyped fraction of each package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument(
        "--list", action="store_true", help="print each parameter that says nothing"
    )
    options = parser.parse_args()
    for package in options.packages:
        counted, fraction = share(package)
        empty = [parameter for parameter in counted if not parameter.is_told]
        print(
            f"{package:16} {len(empty):5} of {len(counted):5} parameters say nothing ({fraction:.1%})"
        )
        if options.list:
            for path, line, function, name, _ in empty:
                print(f"  {path.relative_to(ROOT)}:{line}: {function}({name})")


if __name__ == "__main__":
    main()
