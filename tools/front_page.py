"""Write the code of examples/miscompile.py and its output, a parity report, into README.md and docs/index.md.

python tools/front_page.py
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "miscompile.py"
PAGES = ("README.md", "docs/index.md")
BLOCK = re.compile(r"<!-- miscompile -->\n.*?<!-- end -->\n", re.DOTALL)


def code() -> str:
    """Return the example's code without its docstring and without the line `if __name__ == "__main__":`."""
    source = EXAMPLE.read_text(encoding="utf-8").partition('"""\n\n')[2]
    before, _, after = source.partition('if __name__ == "__main__":\n')
    return before + re.sub(r"^    ", "", after, flags=re.MULTILINE)


def block(output: str) -> str:
    """Return the text between the comments `<!-- miscompile -->` and `<!-- end -->` of a page, with both comments."""
    return f"<!-- miscompile -->\n```py\n{code()}```\n\n```text\n{output}```\n<!-- end -->\n"


def main() -> None:
    """Run the example, and write its code and its output into README.md and docs/index.md."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code(), "miscompile.py", "exec"), {"__name__": "__main__"})
    for name in PAGES:
        path = ROOT / name
        text = BLOCK.sub(lambda _: block(output.getvalue()), path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
