"""The documentation: its code must run, its commands must succeed, and it must describe every public name."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import subprocess
import sys
import tomllib
import typing
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import tenferro
from tenferro.counterparts import ABSENT
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from tools import cheatsheet, front_page, release_notes, support
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
import reference  # noqa: E402  # a file of the documentation


@pytest.mark.parametrize("name", PAGES)
def test_code_in_the_documents(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "document"}
    for block in blocks:
        exec(compile(block, name, "exec", dont_inherit=True), names)
    printed = capsys.readouterr().out
    assert "FAILED" not in printed
    assert "DISAGREE" not in printed
    if name == "docs/extensions.md":
        assert printed.count("keeps the contract") == 2
        assert "BREAKS" not in printed
        assert len([line for line in blocks[0].splitlines() if line.strip()]) <= 40
        assert "stablehlo.log" in names["module"].text


def test_the_first_screen_shows_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "README.md").read_text()
    code, output = re.findall(r"```(?:python|text)\n(.*?)```", page, re.DOTALL)[:2]
    exec(compile(code, "README.md", "exec"), {"__name__": "document"})
    assert capsys.readouterr().out == output
    assert len(page[: page.index("<!-- miscompile -->")].splitlines()) < 60


def test_the_front_pages_have_a_miscompile() -> None:
    for name in front_page.PAGES:
        block = front_page.BLOCK.search((ROOT / name).read_text("utf-8"))
        assert block is not None, name
        output = block[0].partition("```text\n")[2].partition("```")[0]
        assert block[0] == front_page.block(output), "python tools/front_page.py"
        assert "wrong: cpu" in output


def test_the_cheat_sheet_is_what_its_idioms_print() -> None:
    every = cheatsheet.idioms(cheatsheet.SOURCE.read_text("utf-8"))
    assert len([idiom for idiom in every if not idiom.raises]) >= 40
    assert cheatsheet.PAGE.read_text("utf-8") == cheatsheet.page(every), "tools/cheatsheet.py"
    assert cheatsheet.LLMS.read_text("utf-8") == cheatsheet.llms(every), "tools/cheatsheet.py"


def test_every_page_is_in_one_section_of_the_site() -> None:
    index = (ROOT / "docs/index.md").read_text("utf-8")
    captions = re.findall(r":caption: (.*)", index)
    assert captions == ["Learn", "Use", "Extend", "Internals and evidence"]
    listed = re.findall(r"^([a-z_]+)$", index, re.MULTILINE)
    assert len(listed) == len(set(listed))


def commands_of(page: str) -> list[str]:
    """Return the shell commands of a page.

    They are lines that begin with `$`, and the lines of shell blocks.
    """
    commands: list[str] = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append(line.removeprefix("$ "))
            elif language in SHELLS and line.strip():
                commands.append(line)
    return commands


SHELLS = {"sh", "bash", "shell", "zsh"}
NOT_RUN = {
    "make demo": "makes an environment from the network",
    "make test": "is what runs this test",
    "git clone --recurse-submodules https://github.com/data-apis/array-api-tests": "needs the network",
    "cd array-api-tests": "is what was cloned",
    "pip install -r requirements.txt": "needs the network",
    "pip install '.[xla,cli]'": "needs the network",
    "ARRAY_API_TESTS_MODULE=tenferro pytest array_api_tests": "needs what was cloned; "
    "`tests/api/test_array_api.py` does what its fixtures do",
}
"""Commands on pages that this test does not run, each with the reason."""
SHELL_PAGES = {
    str(path.relative_to(ROOT)): commands
    for path in sorted(
        [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    )
    if (commands := commands_of(path.read_text()))
}


@pytest.mark.parametrize("name", SHELL_PAGES)
def test_commands_in_the_documents(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    block = re.search(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
    Path("model.py").write_text(block.group(1) if block else "")
    for command in SHELL_PAGES[name]:
        program, *arguments = shlex.split(command)
        if command in NOT_RUN:
            continue
        if program == "tenferro":  # run it in this process, which is faster
            done = CliRunner().invoke(app, arguments)
            assert done.exit_code == 0, f"{command}\n{done.output}"
        else:
            ended = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
            assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"


def test_every_page_with_commands_is_seen() -> None:
    commands = [command for page in SHELL_PAGES.values() for command in page]
    assert set(NOT_RUN) <= set(commands)
    assert len([command for command in commands if command.startswith("tenferro ")]) > 10
    assert {"README.md", "docs/array_api.md", "docs/command_line.md"} <= set(SHELL_PAGES)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["tenferro"] == "xla_peer.cli:main"
    assert commands_of("```console\n$ ls\nx\n```\n```sh\nmake a\n```\n```text\nno\n```") == [
        "ls",
        "make a",
    ]


def test_commands_within_sentences_exist() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group of commands
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {name.split()[1] for name in NOT_RUN if name.startswith("make ")} <= targets
    count = 0
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        prose = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        for span in re.findall(r"`((?:make|python|tenferro|pytest) [^`]+)`", prose):
            count += 1
            program, first, *rest = shlex.split(span)
            if program == "make":
                assert first in targets, f"{path.name}: {span}"
            elif program == "tenferro":
                options = {o for p in commands[first].params for o in (*p.opts, *p.secondary_opts)}
                given = {word for word in rest if word.startswith("-")}
                assert given <= options, f"{path.name}: {span}"
            elif program == "python" and first != "-m":
                assert (ROOT / first).exists(), f"{path.name}: {span}"
    assert count > 20


def test_the_library_in_small_has_less_than_300_lines_of_code() -> None:
    lines = (ROOT / "examples/from_scratch.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) < 300


@pytest.mark.parametrize("name", reference.MODULES)
def test_every_public_name_is_documented(name: str) -> None:
    module = reference.module_named(name)
    for public in module.__all__:
        found = getattr(module, public)
        # An alias of a type, such as `Tree`, cannot have a docstring.
        if callable(found) and typing.get_origin(found) is None:
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


def test_the_tables_of_support_are_what_their_sources_state() -> None:
    page = (ROOT / "docs/platforms.md").read_text("utf-8")
    assert support.text() in page, "python tools/support.py"
    every = support.pythons()
    line = f"Python {every[0]} to {every[-1]}, NumPy"
    assert line in (ROOT / "README.md").read_text("utf-8")
    for job in ("macos-latest", "windows-latest", ".ci/run"):
        assert job in (ROOT / ".github/workflows/ci.yml").read_text("utf-8")


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


def test_install_lines_work_from_a_checkout() -> None:
    """Install commands on the pages must name files of a checkout, because no index has the package."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    sources = [
        path
        for name in ("tenferro", "lowering", "xla_peer")
        for path in (ROOT / name).rglob("*.py")
    ]
    lines = [
        (path.name, line)
        for path in [*pages, *sources]
        for line in re.findall(r"pip install[^\n]*", path.read_text())
    ]
    for name, line in lines:
        assert "install tenferro" not in line.replace("'", ""), f"{name}: {line}"
        for names in re.findall(r"'\.\[([^\]]*)\]'", line):
            assert set(names.split(",")) <= set(extras), f"{name}: {line}"
    assert len([line for _, line in lines if "'.[" in line]) > 8


def test_the_citation_and_the_changelog_have_the_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {tenferro.__version__}\n" in citation
    has_notes = f"\n## {tenferro.__version__} (" in (ROOT / "CHANGELOG.md").read_text()
    assert has_notes or release_notes.fragments()


@pytest.mark.parametrize("family", reference.FAMILIES)
def test_every_card_has_its_facts_on_the_page(family: str) -> None:
    """Each op's docstring must state all facts of the reference table.

    The docstrings of its base class and of its lowering count, too.
    """
    for card in importlib.import_module(f"tenferro.ops.{family}").CARDS:
        names = set(reference.facts_in(reference.card_text(card)))
        assert names - {"Identity"} == set(reference.FACTS) - {"Identity"}, card.__name__


def test_what_a_card_leaves_out_is_found() -> None:
    exp, asin = (reference.facts_in(reference.card_text(card)) for card in (an.Exp, an.Asin))
    assert exp["Lowers"] == "stablehlo.exponential, one to one"
    assert exp["Source"] == "docs/specification/primitives.md, StableHLO spec #exponential"
    assert exp["Errors"].startswith("DTypeError on another dtype")
    assert asin["Lowers"] == "StableHLO's own expansion of chlo.asin, as a private function"
    assert asin["Source"] == "CHLO dialect"


def test_a_card_whose_text_has_several_operations_says_so() -> None:
    with pytest.raises(ValueError, match=r"Remainder is lowered to .*: its card says how"):
        reference.lowered(el.Remainder, "i64")


def test_the_page_of_names_has_every_namespace_and_reason() -> None:
    page = reference.names_page()
    assert reference.NAMES.keys() >= ABSENT.keys()
    for table in ABSENT.values():
        for name, reason in table.items():
            assert f"| `{name}` | {reason} |" in page
