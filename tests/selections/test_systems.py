"""Tests that use features of Linux or POSIX must be declared, and the declared tests must exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.selections.systems import missing, needs

ROOT = Path(__file__).parents[2]
SYSTEM_CALLS = re.compile(
    r"/proc/|sched_[gs]etaffinity|RLIMIT_|os\.(?:fork\(|mkfifo|umask|kill\(|geteuid|getuid|symlink)"
    r"|symlink_to|\.chmod\(|setitimer|signal\.SIG(?:KILL|ALRM|SEGV|ABRT)"
)
"""Names of functions that some systems lack.

A test need not be declared if it checks for the function by `hasattr` in a `skipif`.
"""


def undeclared(path: str, source: str, requirements: dict[str, dict[str, str]]) -> list[str]:
    """Return the undeclared tests of a file that use a function of `SYSTEM_CALLS`, directly or by a local function."""
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    lines = source.splitlines()  # ast.get_source_segment would split the source for each function
    text = {node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in functions}
    helpers = {n for n, body in text.items() if SYSTEM_CALLS.search(body) and n[:5] != "test_"}
    return [
        f"{path}::{node.name}"
        for node in functions
        if node.name.startswith("test_")
        and (
            SYSTEM_CALLS.search(text[node.name])
            or helpers
            & (
                {w.id for w in ast.walk(node) if isinstance(w, ast.Name)}
                | {a.arg for a in node.args.args}
            )
        )
        and not any("skipif" in ast.unparse(each) for each in node.decorator_list)
        and missing(f"{path}::{node.name}", requirements, "win32") is None
    ]


def test_tests_that_need_a_system_say_so() -> None:
    requirements = needs()
    lines = [
        line
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for line in undeclared(
            path.relative_to(ROOT).as_posix(), path.read_text("utf-8"), requirements
        )
    ]
    assert not lines, f"declare these in tests/selections/systems.toml: {lines}"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("import os\ndef test_a():\n    os.fork()", 1),
        (
            "def helper():\n    open('/proc/self')\ndef test_a():\n    helper()\ndef test_b(): pass",
            1,
        ),
        ("def test_a(tmp_path):\n    tmp_path.chmod(7)", 1),
        ("@pytest.mark.skipif(True)\ndef test_a():\n    os.kill(1, 2)", 0),
        ("def test_a():\n    pass", 0),
    ],
)
def test_calls_of_the_system_are_seen(source: str, count: int) -> None:
    assert len(undeclared("tests/test_a.py", source, {})) == count


def test_what_is_declared_exists() -> None:
    for names in needs().values():
        for name in names:
            file, _, function = name.partition("::")
            assert (ROOT / file).exists(), name
            assert f"def {function}" in (ROOT / file).read_text("utf-8"), name
