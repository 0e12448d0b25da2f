"""The check of the prose must find the right passages, and compare their number with the ceilings."""

from __future__ import annotations

import pytest

from tools.english import Finding, ceilings, exceeded, findings_in, lowered


def kinds(source: str, path: str = "tenferro/module.py") -> list[str]:
    return [finding.kind for finding in findings_in(path, source)]


@pytest.mark.parametrize(
    ("docstring", "kind"),
    [
        ("Return the live range of each buffer.", None),
        ("y[i] = x[i] + 1, for each i.", None),
        ("The live range of each buffer.", "verb"),
        ("A live range.", "verb"),
        ("`stablehlo.gather`.", "verb"),
        ("numbers of a row.", "verb"),
        ("x itself.", "verb"),
        ("e^x over its sum.", "verb"),
        ("log(1 + e^x), without overflow.", None),
        ("1 / cosh(x)^2 for real x.", None),
        ("|x[i] - y|.", None),
        ("Whether a buffer is read again.", "opening"),
        ("Of a positive divisor.", "opening"),
        ("The same for a matrix.", "opening"),
        ("Such rows as have one.", "opening"),
        ("Return the length of each turn.", "term"),
        ("Return " + "word " * 30 + "again.", "long"),
        ("Return " + "word " * 20 + "and.  Return " + "word " * 20 + "again.", None),
    ],
)
def test_docstrings_of_functions(docstring: str, kind: str | None) -> None:
    assert kinds(f'def f(x):\n    """{docstring}"""') == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [("Number of rows.", []), ("Return the rows.", ["noun"]), ("Copies of a row.", [])],
)
def test_docstrings_of_classes_and_constants(docstring: str, expected: list[str]) -> None:
    assert kinds(f'class C:\n    """{docstring}"""') == expected
    assert kinds(f'LIMIT = 3\n"""{docstring}"""') == expected
    assert not kinds('LIMIT = 3\n"""Whether rows are counted."""')
    # The docstring of an op may begin with a verb.
    assert kinds(f'class C(StdTensorOp):\n    """{docstring}"""') == []
    assert "verb" not in kinds(
        f'class C:\n    """C."""\n    @property\n    def f(self):\n        """{docstring}"""'
    )


def test_comments_are_prose_and_strings_are_not() -> None:
    assert findings_in("tools/a.py", "x = 1\n# Runs once a turn.\n") == [
        Finding("tools/a.py", 2, "term", "a turn")
    ]
    assert kinds('x = """\n# Runs once a turn.\n"""\n') == []
    assert kinds("x = 1\n# " + "word " * 20 + "\n# " + "word " * 20 + "\n") == ["long"]


def test_pages_are_prose_outside_of_code_and_tables() -> None:
    page = "# Title\n\nWrite it anew.\n\n```python\nanew\n```\n\n| anew |\n\n`anew`\n"
    assert [(f.line, f.kind) for f in findings_in("docs/page.md", page)] == [
        (3, "term"),
        (9, "term"),
    ]


def test_a_folder_without_a_ceiling_has_no_findings_left() -> None:
    assert exceeded({("term", "new"): 1}, ceilings()) == ["term in new: 1, at most 0"]
    assert lowered({("term", "docs"): 1, ("term", "new"): 2}, {"term": {"docs": 5}}) == {
        "term": {"docs": 1}
    }
    assert Finding("tenferro/exec/llvm/a/b.py", 1, "term", "").folder == "tenferro/exec/llvm"
    assert Finding("tenferro/exec/a.py", 1, "term", "").folder == "tenferro/exec"
    assert Finding("README.md", 1, "term", "").folder == "."
