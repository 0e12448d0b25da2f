"""Release notes.

The fragments must be well-formed, and be moved into one section of the changelog.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import release_notes

ROOT = Path(__file__).parent.parent
FRAGMENTS = release_notes.fragments()


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_fragments_are_well_formed(path: Path) -> None:
    assert not list(release_notes.problems(path.name, path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a-b.added.md", "One. Two `x.y`. ", ""),
        ("a-b.fixed.md", "`f(0.5)` of 3 x 3 matrices works.", ""),
        ("a-b.added.md", "One. Two. Three.", "at most 2 sentences"),
        ("a-b.new.md", "One.", "expected <area>-<slug>"),
        ("A b.added.md", "One.", "expected <area>-<slug>"),
        ("a-b.added.md", " \n", "empty"),
        ("a-b.added.md", "- One.", "bullet"),
        ("a-b.added.md", "It takes 1.5 ms.", "measurement"),
        ("a-b.added.md", "It takes 0.4 of the time.", "measurement"),
        ("a-b.added.md", "It is 3 times faster.", "measurement"),
        ("a-b.added.md", "It takes 30% less.", "measurement"),
    ],
)
def test_problems_of_a_fragment(name: str, text: str, message: str) -> None:
    lines = list(release_notes.problems(name, text))
    assert message in " ".join(lines)
    assert bool(lines) == bool(message)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "changes").mkdir()
    (tmp_path / "tenferro").mkdir()
    (tmp_path / "tenferro" / "__init__.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff\nversion: 1.2.0\ndate-released: 2000-01-01\n")
    (tmp_path / "CHANGELOG.md").write_text("# C\n\n<!-- notes -->\n\n## 1.1.0 (2000-01-01)\n")
    (tmp_path / "changes" / "README.md").write_text("x")
    (tmp_path / "changes" / "b-x.fixed.md").write_text("B was\nwrong.\n")
    (tmp_path / "changes" / "a-x.added.md").write_text("Use A.\n")
    return tmp_path


def test_fragments_become_a_section_once(project: Path) -> None:
    assert release_notes.check(project) == []
    release_notes.write(project, "2001-02-03")
    assert (project / "CHANGELOG.md").read_text() == (
        "# C\n\n<!-- notes -->\n\n## 1.2.0 (2001-02-03)\n\n### What you can do now\n\n- Use A.\n\n"
        "### What was wrong\n\n- B was wrong.\n\n## 1.1.0 (2000-01-01)\n"
    )
    assert "date-released: 2001-02-03" in (project / "CITATION.cff").read_text()
    assert release_notes.fragments(project) == []
    with pytest.raises(SystemExit, match=r"has notes of 1\.2\.0"):
        release_notes.write(project)


def test_what_ends_a_release(project: Path) -> None:
    (project / "CITATION.cff").write_text("cff\nversion: 1.1.0\n")
    assert release_notes.check(project) == [
        "CITATION.cff: expected version: 1.2.0, as in tenferro/__init__.py"
    ]
    for number in range(40):
        (project / "changes" / f"a-{number}.added.md").write_text("Use it.\n")
    with pytest.raises(SystemExit, match="at most 40: join fragments"):
        release_notes.write(project)
    for path in release_notes.fragments(project):
        path.unlink()
    with pytest.raises(SystemExit, match="no fragments"):
        release_notes.write(project)


def test_a_release_is_committed_and_tagged(project: Path) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=project, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    git("init", "--quiet")
    git("config", "user.name", "Author")
    git("config", "user.email", "author@example.org")
    git("add", ".")
    git("commit", "--quiet", "--message", "begin")
    release_notes.write(project, "2001-02-03")
    (project / "other.py").write_text("")
    with pytest.raises(SystemExit, match=r"commit these first: other\.py"):
        release_notes.tag(project)
    (project / "other.py").unlink()
    assert release_notes.tag(project) == "v1.2.0"
    assert git("status", "--porcelain") == ""
    assert git("tag", "--list") == "v1.2.0\n"
    with pytest.raises(SystemExit, match=r"v1\.2\.0 exists"):
        release_notes.tag(project)


def test_no_version_has_more_notes_than_a_page() -> None:
    sections = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert sections
    assert max(len(section.strip().splitlines()) for section in sections) <= release_notes.MAX_LINES
