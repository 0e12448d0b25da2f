"""Write docs/specification/ from the statements in tests/specification. The tests there check each statement.

Run this tool by `make specification`.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.specification.statements import CHAPTERS, DIFFERS, WORKS, Chapter, Statement

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "specification"
INDEX = """# The contract

These pages are for authors of operations and backends. They list the statements on which such code may rely.
A test in `tests/specification/` shows each statement, and `make specification` writes these pages from the tests.

A statement *works*, or it *differs on purpose* from the original design documents. The reason follows.

| chapter | works | differs on purpose |
| --- | --- | --- |
{rows}

```{{toctree}}
:hidden:

{chapters}
```
"""
PAGE = """# {title}

{introduction}

Shown by `tests/specification/test_{name}.py`.

| | statement | |
| --- | --- | --- |
{rows}
"""


def chapters() -> list[Chapter]:
    """Return the chapters of the specification, in the order of the pages."""
    return [
        importlib.import_module(f"tests.specification.test_{name}").chapter for name in CHAPTERS
    ]


def pages() -> dict[str, str]:
    """Return the text of each page of docs/specification, by file name."""
    book = chapters()
    return {"index.md": index(book), **{f"{chapter.name}.md": page(chapter) for chapter in book}}


def page(chapter: Chapter) -> str:
    """Return the page of a chapter. Its statements are sorted by their numbers."""
    statements = sorted(chapter.statements.values(), key=lambda statement: statement.number)
    rows = [row(chapter, statement) for statement in statements]
    return PAGE.format(
        title=chapter.title,
        introduction=chapter.introduction.replace(". ", ".\n"),
        name=chapter.name,
        rows="\n".join(rows),
    )


def row(chapter: Chapter, statement: Statement) -> str:
    verdict = statement.verdict + (f": {statement.because}" if statement.because else "")
    return f"| {chapter.name}.{statement.number} | {cell(statement.text)} | {cell(verdict)} |"


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def index(book: Iterable[Chapter]) -> str:
    """Return the index page, a table that counts the statements of each chapter by their verdicts."""
    rows, total = [], Counter[str]()
    for chapter in book:
        counts = Counter(statement.verdict for statement in chapter.statements.values())
        total += counts
        rows.append(f"| [{chapter.title}]({chapter.name}.md) | {counted(counts)} |")
    rows.append(f"| all | {counted(total)} |")
    return INDEX.format(rows="\n".join(rows), chapters="\n".join(CHAPTERS))


def counted(counts: Counter[str]) -> str:
    return " | ".join(str(counts[verdict]) for verdict in (WORKS, DIFFERS))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
