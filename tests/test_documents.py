"""The documents: their code runs, their commands end well, and every public name is told."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from xla_peer.cli import app

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in [
        ROOT / "README.md",
        ROOT / "examples/tropical/README.md",
        *(ROOT / "docs").glob("*.md"),
    ]
    if "```python" in path.read_text()
)
sys.path.insert(0, str(ROOT / "docs"))
import reference  # noqa: E402  # because it lies in the folder of documents


@pytest.mark.parametrize("name", PAGES)
def test_code_in_the_documents(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "document"}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    printed = capsys.readouterr().out
    assert "FAILED" not in printed
    assert "DISAGREE" not in printed
    if name == "docs/extensions.md":
        assert "keeps the contract" in printed
        assert len([line for line in blocks[0].splitlines() if line.strip()]) < 60


def test_commands_in_the_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/command_line.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    Path("model.py").write_text(block)
    commands = re.findall(r"^\$ tenferro (.*)$", page, re.MULTILINE)
    assert len(commands) > 10
    for command in commands:
        done = CliRunner().invoke(app, shlex.split(command))
        assert done.exit_code == 0, f"{command}\n{done.output}"


def test_the_library_in_small_has_less_than_300_lines_of_code() -> None:
    lines = (ROOT / "examples/from_scratch.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) < 300


@pytest.mark.parametrize("name", reference.MODULES)
def test_every_public_name_is_documented(name: str) -> None:
    module = reference.module_named(name)
    for public in module.__all__:
        found = getattr(module, public)
        if callable(found):
            assert (inspect.getdoc(found) or "").strip(), f"{name}.{public}"


def test_every_page_is_in_the_site() -> None:
    listed = (ROOT / "docs/index.md").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert path.stem == "index" or path.stem in listed, path.name


def test_links_lead_somewhere() -> None:
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_docstrings_become_markdown() -> None:
    docstring = """Adds: y = x * 2.

    More `a*b`.

    Args:
        x: a tensor,
            of any type.

    Raises:
        ShapeError: never.

    >>> 1 + 1
    2
    """
    page = reference.markdown(inspect.cleandoc(docstring))
    assert "y = x \\* 2" in page
    assert "`a*b`" in page
    assert "- `x`: a tensor, of any type." in page
    assert "```pycon\n>>> 1 + 1\n2\n```" in page
