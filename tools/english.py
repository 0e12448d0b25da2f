"""Check the prose of the code and the pages against the ceilings of tools/english.toml.

    python tools/english.py                    compare the counts with the ceilings
    python tools/english.py --list PATH ...    print each finding below these files or folders
    python tools/english.py --write            lower the ceilings to the counts of this tree

Five kinds of findings, in docstrings, whole-line comments and pages:

term        a home-made term where the field has its own term; allowed in docs/glossary.md, which explains some
opening     a docstring whose first word is a pronoun, a preposition or the start of a relative clause
long        a sentence of more than 30 words
verb        a function whose docstring begins with neither an imperative verb nor a formula; properties are exempt
noun        a constant, or a class that is not an op, whose docstring begins with a verb

A docstring may begin with a formula in place of a verb if punctuation or a word such as "for" follows the formula:
`log(1 + e^x), without overflow.`, `1 / cosh(x)^2 for real x.` The formula has an operator or a call, and no
backticks. A formula that is part of a sentence needs a verb: `Return e^x divided by its sum.`

tools/english.toml has a ceiling for some folders and kinds: the maximum number of findings. Without a ceiling, a
folder must have no findings.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CEILINGS = Path(__file__).with_name("english.toml")
FOLDERS = ("benchmarks", "docs", "examples", "lowering", "tenferro", "tests", "tools", "xla_peer")
PAGES = ("*.md", "docs/*.md", "docs/design/*.md", "changes/*.md", "examples/*/*.md")
GENERATED = frozenset(
    ["docs/coverage.md", "docs/torch_samples.md", "docs/exceptional_points.md", "docs/accuracy.md"]
)
"""Pages that tools write. They are not checked, because the prose is checked in the sources of these tools."""
MAX_WORDS = 30
KINDS = ("term", "opening", "long", "verb", "noun")

_TURN = r"(?:a|each|every|per|of|one|first|last|next|many|\d+) turns?"
TERMS = {
    _TURN: "iteration",
    r"straight lines?": "compiled block",
    r"lies? across|lying across": "strided",
    r"by columns": "column-major",
    r"dies|dying": "last use",
    r"over a dying operand": "in place",
    r"lent": "borrowed",
    r"parts? company|paths part": "diverge",
    r"as good as (?:zero|equal|the)": "within rounding of",
    r"tips": "flips",
    r"so many|so much": "n, or the quantity itself",
    r"anew": "again",
    r"the doors?": "dispatch",
    r"the house": "the project",
    r"the floors?|floors of": "layer",
    r"goes? by": "uses",
    r"sisters?": "related function",
    r"laid to": "attributed to",
    r"comes? down to": "reduces to",
    r"what it costs": "estimated cost",
    r"whatever way": "in any layout",
    r"as they lie|how they lie|as it lies|how it lies": "layout",
    r"in a row of its own": "in a separate row",
    r"seed 00": "seed 0",
}
"""The field's term for each home-made term; the keys are regular expressions."""
_TERM = re.compile(rf"\b(?:{'|'.join(TERMS)})\b", re.IGNORECASE)

WORDS = tomllib.loads(Path(__file__).with_name("english_words.toml").read_text(encoding="utf-8"))

OPENINGS = frozenset(WORDS["openings"].split())
"""Words with which no docstring may begin, because neither a noun phrase nor an imperative begins with them."""
_FINE_OPENINGS = re.compile(r"this (?:tensor|device|module|process)\b|the same as\b", re.IGNORECASE)

VERBS = frozenset(WORDS["verbs"].split())
"""Verbs in the imperative with which the docstring of a function may begin."""
_ALSO_NOUNS = frozenset(WORDS["also_nouns"].split())
"""Verbs that are also nouns: the docstring of a class or a constant may begin with them, too."""


_WORD = re.compile(
    r"(?<![\w^])(?!(?:alpha|beta|cos|det|log|prod|sin|sum|tan)\b)"
    r"(?:[A-Za-z][a-z]{2,}|as|at|by|if|in|is|of|on|or|to|up)(?![\w(\[])"
)
"""Pattern of an English word. It does not match the names of functions or variables in a formula."""
_AFTER_A_FORMULA = frozenset(
    ["", "as", "by", "for", "in", "near", "on", "where", "with", "without"]
)


class Finding(NamedTuple):
    """A violation of a rule of this check: its location, its kind, and the words or the sentence."""

    path: str
    line: int
    kind: str
    text: str

    @property
    def folder(self) -> str:
        """Folder whose ceiling limits the finding: up to two levels in tenferro, and three in tenferro/exec/llvm."""
        parts = Path(self.path).parts
        if parts[:3] == ("tenferro", "exec", "llvm"):
            return "tenferro/exec/llvm"
        if parts[0] == "tenferro" and len(parts) > 2:
            return "/".join(parts[:2])
        return parts[0] if len(parts) > 1 else "."


class Prose(NamedTuple):
    """A docstring, a comment or a paragraph: its first line, the kind of its owner, and its text.

    The owner is, for example, "function", "comment" or "page".
    """

    line: int
    owner: str
    text: str


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, without code, examples, lists and tables.

    A formula in backticks is replaced by `_`, so that it counts as no word.

    >>> list(sentences("Return `x.y`, e.g. one.  Raise it."))
    ['Return _, for example one.', 'Raise it.']
    """
    text = re.sub(r"^\s*(?:>>>|\.\.\.|\||#|!\[).*$|^.*\S\s{3,}\S.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|<[^>]*>", "_", text)
    text = text.replace("e.g.", "for example").replace("i.e.", "that is").replace("..", "_")
    for block in re.split(r"\n\s*\n|\n(?=\s*[-*] )|:\n", text):
        for sentence in re.split(r"(?<=[.!?;])\s+", " ".join(block.split())):
            if sentence:
                yield sentence


def word_count(sentence: str) -> int:
    """Count the words of a sentence. Numbers and operators do not count.

    >>> word_count("The sum of x + 1, row by row.")
    7
    """
    return len(re.findall(r"(?<![\w.])[A-Za-z][A-Za-z'-]*", sentence))


def docstrings(nodes: Iterable[ast.AST]) -> Iterator[Prose]:
    """Yield the docstrings of these nodes, and the docstrings that follow their constants and attributes."""
    properties = {"property", "cached_property"}
    for node in nodes:
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if text:
            owner = (
                "function" if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else "class"
            )
            if (
                owner == "function"
                and {
                    ast.unparse(each).rpartition(".")[2]
                    for each in node.decorator_list  # type: ignore[union-attr]  # because it is a function
                }
                & properties
            ):
                owner = "property"
            if owner == "class" and isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                owner = "op" if any(base.endswith("Op") for base in bases) else "class"
            if isinstance(node, ast.Module):
                owner = "module"
            yield Prose(node.body[0].lineno, owner, text)
        for before, each in zip(node.body, node.body[1:], strict=False):
            if (
                isinstance(before, ast.Assign | ast.AnnAssign)
                and isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield Prose(each.lineno, "constant", each.value.value)


def comments(text: str, nodes: Iterable[ast.AST]) -> Iterator[Prose]:
    """Yield each block of consecutive comment lines. Lines inside strings that look like comments are skipped."""
    inside = {
        number
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for number in range(node.lineno + 1, (node.end_lineno or 0) + 1)
    }
    block: list[str] = []
    start = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        is_comment = line.lstrip().startswith("# ") and number not in inside
        if is_comment:
            start = start if block else number
            block.append(line.strip()[2:])
        elif block:
            yield Prose(start, "comment", "\n".join(block))
            block = []


def paragraphs(page: str) -> Iterator[Prose]:
    """Yield the paragraphs of a page.

    Code blocks are skipped, and generated text between `<!-- name -->` and `<!-- end -->`.
    """

    def blank(match: re.Match[str]) -> str:
        return "\n" * match.group().count("\n")

    page = re.sub(r"^(```|:::).*?^\1", blank, page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"<!-- (?!end).*?<!-- end -->", blank, page, flags=re.DOTALL)
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", page):
        if paragraph.strip():
            yield Prose(line, "page", paragraph)
        line += paragraph.count("\n")


def begins_with_formula(line: str) -> bool:
    """Tell whether a line is a formula, or begins with one and continues with punctuation or a connecting word.

    >>> [begins_with_formula(line) for line in ["log(x).", "x + 1, for each i.", "e^x over a sum.", "x."]]
    [True, True, False, False]
    """
    while line != (shorter := re.sub(r"\([^()]+\)|\[[^][]*\]", "()", line)):
        line = shorter
    clause = re.split(r"[,:;]|\.(?:\s|$)", line)[0]
    word = _WORD.search(clause)
    formula = clause[: word.start()] if word else clause
    return (
        "`" not in formula
        and re.search(r"[-+*/^=<>|]|\w\(|\b(?:log|prod|sum)\b", formula) is not None
        and (word.group() if word else "") in _AFTER_A_FORMULA
    )


def _kinds(prose: Prose) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each violation in a docstring, a comment or a paragraph."""
    for match in _TERM.finditer(re.sub(r"`[^`]*`", "", prose.text)):
        yield "term", match.group()
    for sentence in sentences(prose.text):
        if word_count(sentence) > MAX_WORDS:
            yield "long", f"{word_count(sentence)} words: {sentence}"
    if prose.owner in ("comment", "page", "module"):
        return
    first = prose.text.strip().splitlines()[0] if prose.text.strip() else ""
    word = re.split(r"[\s,:]", first)[0]
    is_continued = word[:1].isupper() and word.lower() in OPENINGS
    if word == "Whether" and prose.owner != "function":
        return  # because a truth value has no better noun
    if (is_continued or first.startswith("The same ")) and not _FINE_OPENINGS.match(first):
        yield "opening", first
    elif prose.owner == "function":
        is_verb = word[:1].isupper() and word.lower() in VERBS
        if not is_verb and not begins_with_formula(first):
            yield "verb", first
    elif prose.owner in ("class", "constant"):
        stem = word.lower()
        stem = stem if stem in VERBS else stem.removesuffix("s")
        if word[:1].isupper() and stem in VERBS - _ALSO_NOUNS:
            yield "noun", first


def findings_in(path: str, text: str) -> list[Finding]:
    """Return the findings of one file, sorted by line."""
    if path.endswith(".py"):
        nodes = list(ast.walk(ast.parse(text)))
        pieces: Iterable[Prose] = [*docstrings(nodes), *comments(text, nodes)]
        # A test's docstring may begin with a reason, because the test's name says what is checked. Treat it as a
        # comment.
        if path.startswith("tests/"):
            pieces = [piece._replace(owner="comment") for piece in pieces]
    else:
        pieces = paragraphs(text)
    return sorted(Finding(path, piece.line, *kind) for piece in pieces for kind in _kinds(piece))


def files(root: Path) -> Iterator[Path]:
    """Yield the Python sources and the pages to check."""
    for folder in FOLDERS:
        yield from sorted((root / folder).rglob("*.py"))
    for pattern in PAGES:
        yield from sorted(root.glob(pattern))


def findings(root: Path = ROOT) -> Iterator[Finding]:
    """Yield the findings of all sources and pages below `root`."""
    for path in files(root):
        name = str(path.relative_to(root))
        if name in GENERATED or "/.venv" in f"/{name}":
            continue
        for finding in findings_in(name, path.read_text(encoding="utf-8")):
            if (name, finding.kind) != ("docs/glossary.md", "term"):
                yield finding


def ceilings(path: Path = CEILINGS) -> dict[str, dict[str, int]]:
    """Return the ceilings, the allowed numbers of findings: by kind, then by folder."""
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def exceeded(
    counts: Mapping[tuple[str, str], int], allowed: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """Return a line for each folder and kind with more findings than its ceiling.

    >>> exceeded({("term", "docs"): 3, ("verb", "docs"): 1}, {"term": {"docs": 2}, "verb": {"docs": 1}})
    ['term in docs: 3, at most 2']
    """
    limits = {key: allowed.get(key[0], {}).get(key[1], 0) for key in counts}
    return [
        f"{kind} in {folder}: {count}, at most {limits[kind, folder]}"
        for (kind, folder), count in sorted(counts.items())
        if count > limits[kind, folder]
    ]


def lowered(
    counts: Mapping[tuple[str, str], int], allowed: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Lower each ceiling to the present count of findings; if there are no ceilings yet, use the counts.

    >>> lowered({("term", "docs"): 3, ("term", "tests"): 1}, {"term": {"docs": 2, "tests": 4}})
    {'term': {'docs': 2, 'tests': 1}}
    """
    result: dict[str, dict[str, int]] = {}
    for (kind, folder), count in sorted(counts.items()):
        limit = min(count, allowed.get(kind, {}).get(folder, 0)) if allowed else count
        if limit:
            result.setdefault(kind, {})[folder] = limit
    return result


def _write(limits: Mapping[str, Mapping[str, int]]) -> None:
    lines = [
        "# Findings of tools/english.py that each folder may have. Lower them: python tools/english.py --write"
    ]
    for kind in KINDS:
        lines += ["", f"[{kind}]", *[f'"{k}" = {n}' for k, n in limits.get(kind, {}).items()]]
    CEILINGS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Compare the numbers of findings with the ceilings; with options, print findings or lower the ceilings."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", nargs="+", metavar="PATH", help="print each finding below these")
    parser.add_argument("--kind", choices=KINDS, action="append", help="with --list, of this kind")
    parser.add_argument("--write", action="store_true", help="lower the ceilings to the counts")
    arguments = parser.parse_args()
    every = list(findings())
    counts = Counter((each.kind, each.folder) for each in every)
    if arguments.list:
        for each in every:
            below = any(Path(each.path).is_relative_to(path) for path in arguments.list)
            if below and (not arguments.kind or each.kind in arguments.kind):
                print(f"{each.path}:{each.line}: {each.kind}: {each.text}")
        return
    if arguments.write:
        _write(lowered(counts, ceilings()))
    totals = Counter(each.kind for each in every)
    print(", ".join(f"{kind} {totals[kind]}" for kind in KINDS))
    if excess := exceeded(counts, ceilings()):
        print("\n".join([*excess, "python tools/english.py --list FOLDER names the places"]))
        sys.exit(1)


if __name__ == "__main__":
    main()
