"""Write docs/cheatsheet.md and llms.txt from the code examples (idioms) in tools/idioms.txt, after running them.

    python tools/cheatsheet.py          runs the idioms, and writes both files
    python tools/cheatsheet.py --check  runs the idioms, and fails if a file differs

Each line `= Title` of tools/idioms.txt begins a section, and each line `- Title` an idiom, with its code below it.
The results, printed text and errors on the page come from this run.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(__file__).with_name("idioms.txt")
PAGE = ROOT / "docs" / "cheatsheet.md"
LLMS = ROOT / "llms.txt"
IMPORTS = """import tempfile

import jax
import jax.numpy as jnp
import lowering
import numpy as np
import tenferro as tnf
import xla_peer"""
HEAD = """# Cheat sheet

This page is for everyone who writes code with tenferro, and for assistants that write it. It has one short example for each task, with its output, and the errors that people meet first.
Afterwards you can find the name you need without reading a page.

Every example runs with these imports; `python tools/cheatsheet.py` runs them all and writes this page.

```python
{imports}
```
"""
ERRORS = "Errors"
"""First word of the titles of sections whose examples are expected to raise an error."""


class Idiom(NamedTuple):
    """A task, the code that solves it, and whether the code is expected to raise an error."""

    section: str
    title: str
    code: str

    @property
    def raises(self) -> bool:
        """Whether the last statement is expected to raise an error."""
        return self.section.startswith(ERRORS) or "makes a NaN" in self.title


def idioms(text: str) -> list[Idiom]:
    """Parse the idioms from the text of a source file.

    >>> idioms("= S\\n\\n- Add.\\n1 + 1\\n")
    [Idiom(section='S', title='Add.', code='1 + 1')]
    """
    section, result = "", list[Idiom]()
    for block in re.split(r"\n(?=[=-] )", "\n" + text):
        head, _, code = block.strip("\n").partition("\n")
        if head.startswith("= "):
            section = head[2:]
        elif head:
            result.append(Idiom(section, head[2:], code.strip("\n")))
    return result


def session(idiom: Idiom, names: dict[str, Any]) -> str:
    """Run the code of an idiom, and return it with its output, as a session at Python's prompt.

    >>> session(Idiom("S", "Add.", "x = 1\\nx + 1"), {}).splitlines()
    ['>>> x = 1', '>>> x + 1', '2']
    """
    lines, shown = idiom.code.splitlines(), list[str]()
    has_raised = False
    for statement in ast.parse(idiom.code).body:
        decorators = getattr(statement, "decorator_list", [])
        start = min([statement.lineno, *[each.lineno for each in decorators]])
        first, *others = lines[start - 1 : statement.end_lineno]
        shown += [f">>> {first}", *[f"... {line}" for line in others]]
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                exec(compile(ast.Interactive([statement]), "model.py", "single"), names)
        except Exception as error:  # because the page shows the expected error
            if not idiom.raises:
                raise
            has_raised = True
            shown += ["Traceback (most recent call last):", "    ..."]
            shown += "".join(traceback.format_exception_only(error)).rstrip("\n").splitlines()
        shown += output.getvalue().rstrip("\n").splitlines()
    if idiom.raises and not has_raised:
        raise AssertionError(f"{idiom.title} raised no error")
    return "\n".join(shown)


def page(every: list[Idiom]) -> str:
    """Run the idioms, and return the text of docs/cheatsheet.md."""
    names: dict[str, Any] = {"__name__": "model"}
    exec(IMPORTS, names)
    parts, section = [HEAD.format(imports=IMPORTS)], ""
    for idiom in every:
        if idiom.section != section:
            section = idiom.section
            parts.append(f"## {section}\n")
        parts.append(f"{idiom.title}\n\n```pycon\n{session(idiom, names)}\n```\n")
    return "\n".join(parts)


def pages() -> Iterator[tuple[str, str, str, str]]:
    """Yield the section, path, title and first paragraph of each page that docs/index.md lists by hand."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for caption, body in re.findall(r":caption: (.*?)\n(.*?)```", index, re.DOTALL):
        for name in re.findall(r"^([a-z_]+)$", body, re.MULTILINE):
            path = ROOT / "docs" / f"{name}.md"
            if path.exists():
                title, _, rest = path.read_text(encoding="utf-8").partition("\n")
                paragraph = next((p for p in rest.split("\n\n") if re.match(r"\s*\w", p)), "")
                yield (
                    caption,
                    f"docs/{name}.md",
                    title.removeprefix("# "),
                    " ".join(paragraph.split()),
                )


def llms(every: list[Idiom]) -> str:
    """Return the text of llms.txt: a description of tenferro, the pages with their first paragraphs, and the idioms."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    summary = " ".join(readme.split("\n\n")[2].split())
    lines, section = [f"# tenferro\n\n> {summary}"], ""
    for caption, path, title, paragraph in pages():
        if caption != section:
            section = caption
            lines.append(f"\n## {section}\n")
        lines.append(f"- [{title}]({path}): {paragraph}")
    lines.append(f"\n## Idioms\n\n```python\n{IMPORTS}\n")
    lines += [f"# {each.title}\n{each.code}\n" for each in every if not each.raises]
    lines.append("```\n\n## Errors\n")
    lines += [f"- {each.title} `{each.code.splitlines()[-1]}`" for each in every if each.raises]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the idioms, and write both files, or compare them with the existing ones."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    every = idioms(SOURCE.read_text(encoding="utf-8"))
    for path, text in ((PAGE, page(every)), (LLMS, llms(every))):
        if not is_check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.name} is not up to date: python tools/cheatsheet.py")


if __name__ == "__main__":
    main()
