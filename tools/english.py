"""Measure the prose of the code: docstrings that turn on a relative clause, names that say nothing, and phrases to avoid.

python tools/english.py [--list]
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("tenferro", "lowering", "xla_peer")
CLAUSE = re.compile(r"^(What|Whose|Who|Which)\b|\b(what|whose)\b", re.ASCII)
"""In the first line of a docstring: a clause in the place of a noun."""
VAGUE = frozenset(["found", "made", "given", "taken", "known", "kept", "place", "other"])
"""Names of locals that say how a value came, and not what it is."""
PHRASES = re.compile(r"\bseed 00|\banew\b|\blaid to\b|\bso many\b")
LIMITS = {"clauses": 20, "locals": 60, "phrases": 1}


def sources() -> Iterator[tuple[str, str]]:
    """Each file of the packages, and its text."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text()


def clauses(name: str, tree: ast.AST) -> Iterator[str]:
    """First lines of docstrings with a clause in the place of a noun."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        if text and CLAUSE.search(text.splitlines()[0]):
            yield f"{name}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"


def vague_locals(name: str, tree: ast.AST) -> Iterator[str]:
    """Places where a local with a vague name is bound, parameters included."""
    for node in ast.walk(tree):
        is_local = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        word = node.id if isinstance(node, ast.Name) and is_local else None
        word = node.arg if isinstance(node, ast.arg) else word
        if word in VAGUE:
            yield f"{name}:{getattr(node, 'lineno', 0)}: {word}"


def phrases(name: str, text: str) -> Iterator[str]:
    """Lines with a phrase that the field does not use."""
    for number, line in enumerate(text.splitlines(), 1):
        if PHRASES.search(line):
            yield f"{name}:{number}: {line.strip()}"


def measured() -> dict[str, list[str]]:
    """Every hit, by its kind."""
    hits: dict[str, list[str]] = {kind: [] for kind in LIMITS}
    for name, text in sources():
        tree = ast.parse(text)
        hits["clauses"] += clauses(name, tree)
        hits["locals"] += vague_locals(name, tree)
        hits["phrases"] += phrases(name, text)
    return hits


def main() -> None:
    """Print the figures, and with --list every hit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    for kind, lines in measured().items():
        print(f"{kind:10s} {len(lines):5d}, to be below {LIMITS[kind]}")
        words = Counter(line.rpartition(" ")[2] for line in lines)
        if kind == "locals":
            print(
                "           " + ", ".join(f"{word} {count}" for word, count in words.most_common())
            )
        if arguments.list:
            print("\n".join(lines))


if __name__ == "__main__":
    main()
